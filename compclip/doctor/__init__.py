"""Checks of a machine: what is installed, and whether its GPUs compute, resume and hurry as they should."""
