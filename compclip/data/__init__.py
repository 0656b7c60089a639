"""Where pictures and captions come from."""
