"""The released program of il_clip, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

import runpy
from pathlib import Path

run = runpy.run_path(str(Path(__file__).with_name("codebook_clip_program.py")))["run"]
