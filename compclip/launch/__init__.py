"""Bring the grid up to date, here or as jobs of a SLURM cluster: `compclip repro --on PROFILE`."""
