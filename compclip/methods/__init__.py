"""Paper methods, one file each: Config, views, loss."""
