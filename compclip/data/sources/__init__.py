"""Data sets, one file each: read(cfg) gives samples and a count of what was dropped."""
