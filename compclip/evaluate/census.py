"""What a benchmark's files hold: records, pictures found and missing, the fingerprint. No model is needed.

data/benchmarks/<name>.json keeps it (the stage `benchmark`), so that an evaluation can be recognised without reading
the benchmark again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import plugins
from compclip.base.files import read_mapping, write_json
from compclip.base.names import Name
from compclip.evaluate.embeddings import BOX

if TYPE_CHECKING:
    from compclip.config.sections import Benchmark as Section
    from compclip.evaluate.benchmark import Benchmark

FOLDER = Path("data/benchmarks")


def load(name: str, section: Section) -> Benchmark:
    """A benchmark of params.yaml, read by its module."""
    module = plugins.find(plugins.BENCHMARKS, section.benchmark or name)
    return module.load(section.path, images=section.images, split=section.split)


def census(benchmark: Benchmark) -> dict[str, Any]:
    """Counts and fingerprint."""
    paths = [Path(ref.partition(BOX)[0]) for ref in benchmark.images]
    missing = sum(not path.is_file() for path in paths)
    return {
        "records": len(benchmark),
        "images": len(paths),
        "missing_images": missing,
        "texts": len(benchmark.texts),
        **benchmark.dropped,
        "fingerprint": benchmark.fingerprint(),
    }


def take(name: Name, section: Section, root: Path = Path(".")) -> dict[str, Any]:
    """Count a benchmark and keep what was found, with the state of its files; gives the counts."""
    benchmark = load(name, section)
    found = census(benchmark)
    known = {"section": asdict(section), "files": {str(f): _stamp(f) for f in benchmark.files}}
    write_json(root / FOLDER / f"{name}.json", found | known)
    return found


def fingerprint(name: Name, section: Section, root: Path = Path(".")) -> str:
    """A benchmark's fingerprint: the one that was kept as long as its files are as they were, else taken now."""
    path = root / FOLDER / f"{name}.json"
    known = read_mapping(path) if path.is_file() else {}
    return str(known["fingerprint"]) if _holds(known, section) else load(name, section).fingerprint()


def _holds(known: Mapping[str, Any], section: Section) -> bool:
    files = known.get("files") or {"": None}
    return known.get("section") == asdict(section) and all(_stamp(Path(f)) == stamp for f, stamp in files.items())


def _stamp(file: Path) -> list[int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return [found.st_size, found.st_mtime_ns]
