"""What the grids of the authors' settings do as their programs: `python -m perf.truth.as_released`.

Writes as_released*.md of experiments/grids from comments of `<method>_released.yaml`.

`<method>_reduced.yaml` is a grid that trains on a part of what the authors trained on.

A comment of a value is `theirs | file:line`, or `theirs | file:line | why ours differs`.

Takes a second; needs nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from compclip.config.read import read_head
from perf.checkout import ROOT

GRIDS = ROOT / "experiments" / "grids"
# what no page names is on the newer one
FIRST = ("ce_clip", "clove", "con_clip", "crepe", "dac", "degla", "gnm_clip", "read_clip", "svlc", "triplet_clip")
FROM_SCRATCH = ("codebook_clip", "flair", "il_clip", "llip", "superclip")
LINE = re.compile(r"(?P<indent> *)(?P<key>\w+):(?P<value>.*?)(?:  # (?P<comment>.*))?")
GROUPS = {
    "length": ("seeds", "epochs", "max_steps", "batch_size", "micro_batch"),
    "rate": ("lr", "lr_start", "lr_end", "warmup_steps", "warmup_fraction", "schedule"),
    "optimiser": ("optimiser", "beta1", "beta2", "eps", "weight_decay", "decayed", "grad_clip_norm"),
    "trained": ("trainable", "lora", "train_logit_scale", "max_logit_scale", "average_alpha"),
    "numbers, pictures": (
        *("precision", "matmul", "checkpoint_activations"),
        *("augment", "augment_scale", "context_length"),
    ),
    "method": (),
    "model, data": (),
}
HEAD = """# Methods as their authors ran them, value by value

Each table sets a value of `<method>_released.yaml` beside the value of the released program, for ten grids.
`python -m perf.truth.as_released` writes this page from the grids' comments, and a test compares both.

- A place is a file and a line of the release, at the commit that the method's first sentence names. `:40` is a line of
  the file named before.
- Where our value differs, the reason follows the place.
- `threads`, `workers` and how often a run logs and saves are our choice.
- Schedules follow the programs step by step (`schedule` in docs/training.md).

None of these grids was trained here.
"""
NEWER_HEAD = """# Methods of 2025 and 2026 as their authors ran them, value by value

These methods begin with a pretrained model. The tables are written and read as those of
[as_released.md](as_released.md). Methods that begin from scratch are in
[as_released_from_scratch.md](as_released_from_scratch.md). None of these grids was trained here.

MosaiCLIP (2023) has no program and follows its paper. CLIP-IN has no training program and follows its page. BiVLC's two
models are of 2024.

Not built, since neither equations nor a program could be read: ABE-CLIP (arXiv:2512.17178, a score without training),
Slipform (2604.13313), localised alignment of frozen patches and tokens (TFLocal, 2604.11496), and the CS-CLIP of scene
graphs (EMNLP 2026 Findings). Omni-NegCLIP has no grid: its steps take a batch of each of two sets, and a run reads one.
"""
FROM_SCRATCH_HEAD = """# Methods trained from scratch as their authors ran them, value by value

These methods begin with random weights and train on millions of pictures. The tables are written and read as those of
[as_released.md](as_released.md), which also has TripletCLIP. Other newer methods are in
[as_released_2025.md](as_released_2025.md). Llip's grid, `llip_reduced`, trains on a 32nd of the authors' samples. None
of these grids was trained here.
"""


@dataclass(frozen=True)
class Page:
    """A page beside the grids: its head, and the methods whose grids it shows; none: all of no other page."""

    path: Path
    head: str
    methods: tuple[str, ...] = ()


PAGES = (
    Page(GRIDS / "as_released.md", HEAD, FIRST),
    Page(GRIDS / "as_released_2025.md", NEWER_HEAD),
    Page(GRIDS / "as_released_from_scratch.md", FROM_SCRATCH_HEAD, FROM_SCRATCH),
)


@dataclass(frozen=True)
class ReleasedValue:
    """A value of a grid beside the released program's; `place` is a file and a line."""

    section: str  # train, methods, …
    key: str
    value: str
    theirs: str
    place: str
    reason: str


def read_values(grid: Path) -> list[ReleasedValue]:
    """Return the commented values of a grid, in its order."""
    return [value for value in _iterate_values(grid) if value.place]


def list_grids(page: Page) -> list[Path]:
    """Return the grids of a page."""
    grids = {path.stem.rpartition("_")[0]: path for path in sorted(GRIDS.glob("*_re[ld]*ed.yaml"))}
    elsewhere = {method for released_page in PAGES for method in released_page.methods}
    return [path for method, path in grids.items() if method in (page.methods or grids.keys() - elsewhere)]


def list_uncommented(grid: Path) -> set[str]:
    """Return the keys of the section `train` whose value has no comment."""
    return {value.key for value in _iterate_values(grid) if value.section == "train" and not value.place}


def _iterate_values(grid: Path) -> Iterator[ReleasedValue]:
    section = ""
    for line in grid.read_text(encoding="utf-8").splitlines():
        match = LINE.fullmatch(line)
        if match is None:
            continue
        section = section if match["indent"] else match["key"]
        theirs, place, reason = (*(match["comment"] or "").split(" | "), "", "")[:3]
        if match["indent"]:
            yield ReleasedValue(section, match["key"], match["value"].strip(), theirs, place, reason)


def group_of(value: ReleasedValue) -> str:
    """Return the row of the page's table that a value belongs to."""
    if value.section not in ("grid", "train"):
        return "method" if value.section == "methods" else "model, data"
    (name,) = (name for name, keys in GROUPS.items() if value.key in keys)
    return name


def write_page(page: Page) -> str:
    """Return the text of a page."""
    return page.head + "".join([_write_section(grid) for grid in list_grids(page)])


def _write_section(grid: Path) -> str:
    head = " ".join(line[2:] for line in read_head(grid.read_text(encoding="utf-8")).splitlines())
    name, _, said = head.partition(" A comment behind")[0].partition(" as its authors ran it: ")
    if not said:  # a method without a program
        name, _, said = head.partition(" A comment behind")[0].partition(": ")
    ordered = sorted(read_values(grid), key=lambda value: [*GROUPS].index(group_of(value)))
    rows = "".join(_write_row(group, list(values)) for group, values in groupby(ordered, group_of))
    return f"\n## {name}\n\n{said}\n\n| | ours | theirs |\n|---|---|---|\n{rows}"


def _write_row(group: str, values: list[ReleasedValue]) -> str:
    ours = ", ".join(f"`{v.key}` {v.value.replace('|', '/')}".strip() for v in values)
    theirs, file = [], ""
    for value in values:
        path, _, line = value.place.rpartition(":")
        place = f":{line}" if path and path == file else value.place
        file = path or file
        theirs.append(f"{value.theirs} (`{place}`{'; ' + value.reason if value.reason else ''})")
    return f"| {group} | {ours} | {', '.join(theirs)} |\n"


def main() -> int:
    """Write the pages."""
    for page in PAGES:
        page.path.write_text(write_page(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
