"""Where the embedded scenes lie, and the sentence that every page with their numbers says first."""

from __future__ import annotations

import os
from pathlib import PurePath

from compclip.config.sections import Params

WORLD = "data/scenes_world"  # the out of the stage `scenes`
NOTICE = (
    "These numbers are of the embedded scenes, drawings of 64 pixels for running everything anywhere, trying a loss "
    "for faults, and teaching; they do not rank methods (docs/claims.md)."
)


def lies_in_scenes(*paths: str) -> bool:
    """Return whether one of the paths, given from the project's root, lies in the embedded scenes."""
    return any(PurePath(os.path.normpath(path)).is_relative_to(WORLD) for path in paths)


def describe_drawings(params: Params) -> str:
    """Return the notice if a scored benchmark shows the embedded scenes, else an empty text."""
    for name, benchmark in params.benchmarks.items():
        if name in params.evaluate.benchmarks and lies_in_scenes(benchmark.path, benchmark.images):
            return NOTICE
    return ""
