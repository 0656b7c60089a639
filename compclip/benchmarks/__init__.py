"""Benchmarks, one file each: load(path) reads the official files."""
