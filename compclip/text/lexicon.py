"""Words of the rules that are plain lists: `lexicon.toml` has a table for each module that uses them.

An edit of that file changes the hash of this module, as an edit of its code does (`base.code_hash`).
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLES: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
