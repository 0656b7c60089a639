"""Nothing of our field: errors, files, plug-ins by name."""
