"""Search a method's parameters with Optuna; the only package that imports it. Files are the truth."""
