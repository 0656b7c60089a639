"""The embedded scenes: a small world in which composition is known by construction."""
