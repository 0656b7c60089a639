"""Says which copy of the package a job imports: `python -m tests.where KEY`."""

from __future__ import annotations

import sys

import compclip

if __name__ == "__main__":
    sys.exit(f"compclip is {compclip.__file__}")
