"""Whether the embedded scenes predict: what methods do there, beside what their papers say they do to CLIP."""
