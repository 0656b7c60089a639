"""Begin a project with one's own pictures, test set and model."""
