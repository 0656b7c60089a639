"""Look up the fingerprints that `census` stored: an evaluation is recognised without reading any benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base.files import read_mapping

if TYPE_CHECKING:
    from compclip.base.safe_names import SafeName
    from compclip.config.sections import BenchmarkSection as Section


FOLDER = Path("data/benchmarks")  # of the files that `census` writes


def benchmark_fingerprint(name: SafeName, section: Section, root: Path = Path(".")) -> str:
    """Return the stored fingerprint of a benchmark while its files are unchanged, else a new one."""
    path = root / FOLDER / f"{name}.json"
    census = read_mapping(path) if path.is_file() else {}
    if _holds(census, section):
        return str(census["fingerprint"])
    from compclip.evaluate.benchmark_module import load_benchmark

    return load_benchmark(name, section).fingerprint()


def _holds(census: Mapping[str, Any], section: Section) -> bool:
    files = census.get("files") or {"": None}
    return census.get("section") == asdict(section) and all(stamp(Path(f)) == was for f, was in files.items())


def stamp(file: Path) -> list[int] | None:
    """Return size and modification time of a file, None where there is none."""
    try:
        status = file.stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]
