"""Tests of the room model: what is read of strangers."""
