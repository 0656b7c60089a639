"""What checkpoints are scored on, and how."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from compclip.base.errors import UserError, unknown

MISSING: Any = "???"  # OmegaConf's mark of what must be given; its import costs what a finished stage does
WRONG, FIRST = "wrong", "first"  # what becomes of equal scores: nobody's, or the first candidate's
COSINE, LOCAL, ATTENDED = SCORERS = ("cosine", "local", "attended")


@dataclass(frozen=True)
class How:
    """How checkpoints are scored. Results depend on all of it but the number of threads and the cache."""

    batch_size: int = 256
    threads: int = 2
    ties: str = WRONG  # first: of equal scores the first candidate's wins, but for authors who compare strictly
    pictures: str = "plain"  # as Pillow converts; upright: turned as EXIF says, transparency on white
    precision: str = "float32"  # bf16: autocast, on a GPU
    scorers: list[str] = field(default_factory=lambda: [COSINE])  # of benchmarks that compare pictures with texts
    cache: str = ""  # a folder for embeddings, from which later evaluations take what they know; none

    def __post_init__(self) -> None:
        for scorer in self.scorers:
            if scorer not in SCORERS:
                raise unknown("scorer", scorer, SCORERS, "scorers")
        if self.scorers[:1] != [COSINE] or len(set(self.scorers)) < len(self.scorers):
            raise UserError(f"scorers={self.scorers}: must begin with {COSINE}, and name no other twice")

    @property
    def upright(self) -> bool:
        """Whether pictures are turned as their EXIF data says."""
        return self.pictures == "upright"

    def recorded(self) -> dict[str, Any]:
        """What results say of it."""
        return {f.name: getattr(self, f.name) for f in fields(How) if f.name not in ("threads", "cache")}


USUAL = How()


@dataclass(frozen=True)
class Benchmark:
    """A benchmark's module (default: its own name), its files, and what else its module may be asked for."""

    benchmark: str = ""
    path: str = MISSING
    images: str = MISSING
    split: str = ""
    images_outside: bool = False  # whether pictures may lie outside of `images`, by their names or through links
    options: dict[str, Any] = field(default_factory=dict)  # the module's own
