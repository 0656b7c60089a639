"""The params.yaml of a new project, and what a data set, a test set or a model adds to one that is there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base import path_lists
from compclip.base.errors import UserError
from compclip.begin.held_out import FOLDER
from compclip.config import edit_params
from compclip.config.drawn_scenes import lies_in_scenes
from compclip.evaluate.benchmark_module import load_module

HEAD = "# Written by `compclip init`. `compclip repro` brings all of it up to date: data, models, results, one page.\n"
COMMENTS = {
    "grid": "What is compared: every method on every backbone and data set, once for each seed.",
    "train": "One schedule for all methods, as it fits the data and the machine where this was written.",
    "methods": "Parameters of the methods; what is not here is as in their papers.",
    "benchmarks": "What every model is scored on.",
    "report": "The first table's columns, and the method that others are compared with.",
}
ORDER = ("grid", "train", "methods", "backbones", "data", "benchmarks", "evaluate", "wise_ft", "tune", "report")
Sections = dict[str, dict[str, Any]]


@dataclass
class Additions:
    """What a reader brings: sections of data, benchmarks and backbones, by name."""

    data: Sections = field(default_factory=dict)
    tests: Sections = field(default_factory=dict)
    backbones: Sections = field(default_factory=dict)

    def relative_to(self, folder: Path) -> Additions:
        """Return the same with paths inside of a folder relative to it."""
        data = {name: _make_relative(section, folder) for name, section in self.data.items()}
        tests = {name: _make_relative(section, folder) for name, section in self.tests.items()}
        backbones = {name: _make_relative(section, folder) for name, section in self.backbones.items()}
        return Additions(data, tests, backbones)


def _make_relative(section: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    relative = dict(section)
    for key in ("path", "images", "weights", "model"):
        paths = str(section.get(key, "")).split(path_lists.SEPARATOR)
        if all(os.path.isabs(path) for path in paths):
            inside = [os.path.relpath(p, folder) if Path(p).is_relative_to(folder) else p for p in paths]
            relative[key] = path_lists.SEPARATOR.join(inside)
    return relative


def list_columns(tests: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the columns of the report for some benchmarks: their headlines, or all that they measure."""
    names = []
    for name, section in tests.items():
        module = load_module(section.get("benchmark", name))
        names += [f"{name}/{metric}" for metric in module.headline or module.metrics if "*" not in metric]
    return names


# --- a new project ----------------------------------------------------------------------------------------------


def compose(base: Mapping[str, Any], additions: Additions, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the sections of a new params.yaml, and the benchmarks of the base that are left out: not here yet.

    `base` is a grid as plain values. What the reader brings takes the place of what the base has of its kind.
    """
    sections = {name: dict(base[name]) for name in ORDER if name in base}
    left_out = []
    if additions.data:
        sections["data"] = {name: dict(section) for name, section in additions.data.items()}
        sections["grid"]["data"] = list(additions.data)
        for method in sections["methods"].values():
            (method or {}).pop("per_data", None)
    if additions.backbones:
        sections["backbones"] = dict(additions.backbones)
        sections["grid"]["backbones"] = list(additions.backbones)
    if additions.tests:
        scored = {name: base["benchmarks"][name] for name in base["evaluate"]["benchmarks"]}
        at_hand = {name: section for name, section in scored.items() if is_at_hand(section, folder)}
        left_out = [name for name in scored if name not in at_hand]
        tests = sections["benchmarks"] = {**additions.tests, **at_hand}
        sections["evaluate"]["benchmarks"] = list(tests)
        sections["wise_ft"] = {**sections.get("wise_ft", {}), "benchmarks": []}
        sections["report"]["columns"] = list_columns(tests)
        for section in sections["data"].values():
            section["exclude"] = list(additions.tests)
    return sections, left_out


def is_at_hand(section: Mapping[str, Any], folder: Path) -> bool:
    """Return whether a benchmark's files are there, or are drawn before they are read."""
    paths = [section["path"], section["images"]]
    return lies_in_scenes(*paths) or all((folder / path).exists() for path in paths)


def write_out(sections: Mapping[str, Any]) -> str:
    """Return sections as the text of a params.yaml: an entry a line where it fits, a comment above each section."""
    blocks = []
    for name, section in sections.items():
        lines = [edit_params.format_entry(key, value, edit_params.INDENT) for key, value in section.items()]
        comment = f"# {COMMENTS[name]}\n" if name in COMMENTS else ""
        blocks.append(f"{comment}{name}:\n{''.join(lines)}")
    return HEAD + "\n" + "\n".join(blocks)


# --- a project that is there ------------------------------------------------------------------------------------


def add_to(text: str, values: Mapping[str, Any], additions: Additions) -> str:
    """Return the text of a params.yaml with what a reader brings; comments and everything else stay.

    `values` is what the text says. Raises UserError for a name that it has already.
    """
    for kind, sections in (("data", additions.data), ("backbones", additions.backbones)):
        for name, section in _require_new(kind, sections, values):
            text = edit_params.insert_entry(text, [kind], name, section)
            text = edit_params.append_item(text, ["grid", kind], name)
    for name, section in _require_new("benchmarks", additions.tests, values):
        text = edit_params.insert_entry(text, ["benchmarks"], name, section)
        text = edit_params.append_item(text, ["evaluate", "benchmarks"], name)
    columns = list_columns(additions.tests) if values.get("report", {}).get("columns") else []
    for column in columns:
        text = edit_params.append_item(text, ["report", "columns"], column)
    held_out = [name for name, section in values["benchmarks"].items() if Path(section["path"]).is_relative_to(FOLDER)]
    for name in dict.fromkeys([*values["grid"]["data"], *additions.data]):
        for test in (*additions.tests, *(held_out if name in additions.data else ())):
            text = edit_params.append_item(text, ["data", name, "exclude"], test)
    return text


def _require_new(kind: str, sections: Sections, values: Mapping[str, Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    for name in sections:
        if name in (values.get(kind) or {}):
            raise UserError(f"{kind}.{name}: is in params.yaml already; edit it there, or rename the file")
    return sections.items()


def describe_grid(sections: Mapping[str, Any], steps: Sequence[int]) -> str:
    """Return a line on what is compared, and how long each model is trained."""
    grid, train = sections["grid"], sections["train"]
    seeds = len(grid["seeds"])
    length = f"{min(steps)} to {max(steps)}" if min(steps) != max(steps) else f"{steps[0]}"
    micro = f", {train['micro_batch']} at a time" if train.get("micro_batch") else ""
    return (
        f"grid: {', '.join(grid['methods'])}; {seeds} {'seed' if seeds == 1 else 'seeds'}, {length} steps of "
        f"{train['batch_size']} pictures{micro}, {train['precision']}"
    )
