"""Send runs to processes of this machine or to a SLURM cluster: `python -m compclip.launch PROFILE`."""
