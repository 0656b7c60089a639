"""Captioners, one file each."""
