"""Send runs to processes of this machine or to a SLURM cluster: `compclip launch PROFILE`."""
