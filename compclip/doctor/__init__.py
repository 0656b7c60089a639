"""Checks of a machine: what is installed, and whether its GPUs compute as they should."""
