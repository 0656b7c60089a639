"""Backbones: architecture, weights, tokenizer, towers, adapters."""
