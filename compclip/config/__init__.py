"""Read and check params.yaml, list the cells of the grid, write the plan."""
