"""Define where the embedded scenes are, and the sentence that begins every page with their numbers."""

from __future__ import annotations

import os
from pathlib import PurePath

from compclip.config.sections import Params

WORLD = "data/scenes_world"  # the output of the stage `scenes`
NOTICE = (
    "These numbers are of the embedded scenes, drawings of 64 pixels for running everything anywhere, trying a loss "
    "for faults, and teaching; they do not rank methods (docs/claims.md)."
)


def lies_in_scenes(*paths: str) -> bool:
    """Return whether one of the paths, relative to the project's root, is in the folder of the embedded scenes."""
    return any(PurePath(os.path.normpath(path)).is_relative_to(WORLD) for path in paths)


def list_drawn_benchmarks(params: Params) -> list[str]:
    """List the benchmarks, scored or not, whose files are embedded scenes: for these the stage `scenes` draws them."""
    return [name for name, section in params.benchmarks.items() if lies_in_scenes(section.path, section.images)]


def describe_drawings(params: Params) -> str:
    """Return the notice if a scored benchmark uses the embedded scenes, else an empty text."""
    return "" if set(params.evaluate.benchmarks).isdisjoint(list_drawn_benchmarks(params)) else NOTICE
