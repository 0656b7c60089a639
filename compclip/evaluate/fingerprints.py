"""Fingerprints of benchmarks as their census left them: an evaluation is recognised without reading any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.files import read_mapping
from compclip.evaluate.stamps import FOLDER, stamp

if TYPE_CHECKING:
    from compclip.base.names import Name
    from compclip.config.how import Benchmark as Section


def of(name: Name, section: Section, root: Path = Path(".")) -> str:
    """A benchmark's fingerprint: the one that was kept as long as its files are as they were, else taken now."""
    path = root / FOLDER / f"{name}.json"
    known = read_mapping(path) if path.is_file() else {}
    return str(known["fingerprint"]) if _holds(known, section) else _taken(name, section)


def _taken(name: Name, section: Section) -> str:
    from compclip.evaluate import census

    return census.load(name, section).fingerprint()


def _holds(known: Mapping[str, Any], section: Section) -> bool:
    files = known.get("files") or {"": None}
    return known.get("section") == asdict(section) and all(stamp(Path(f)) == was for f, was in files.items())
