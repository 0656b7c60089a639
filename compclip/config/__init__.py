"""params.yaml: what may be said, checked; the grid; the plan."""
