"""An OpenAI-compatible endpoint, whatever it answers, against a small local server."""
