"""Says which copy of the package a job imports: `python -m tests.where KEY`."""

import sys

import compclip

if __name__ == "__main__":
    sys.exit(f"compclip is {compclip.__file__}")
