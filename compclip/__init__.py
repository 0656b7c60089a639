"""compclip: declarative experiments in compositional CLIP fine-tuning."""
