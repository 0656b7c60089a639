"""Implement the papers' methods, one file each: Config, views, loss."""
