"""MLflow as a view over the run directories; the only package that imports mlflow. Files are the truth."""
