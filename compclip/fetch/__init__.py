"""Public benchmarks, captions and weights, brought to where the grids look for them."""
