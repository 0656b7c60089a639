"""The field in one picture: every published number, where papers do not agree, and which findings come back."""
