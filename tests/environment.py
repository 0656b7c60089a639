"""Says which environment a process has: `python -m tests.environment KEY` prints it as JSON."""

import json
import os

if __name__ == "__main__":
    print(json.dumps(dict(os.environ)))
