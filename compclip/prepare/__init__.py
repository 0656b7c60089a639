"""Make data sets: sources, captioners, rewriting, annotation, joins, file listings, overlaps."""
