"""Runs as files: where they live, by which key, who trains them, what came of them."""
