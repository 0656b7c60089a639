"""Items of a benchmark: where two rows of the grid differ, and on which records."""
