"""Captions annotated once and rewritten by rules."""
