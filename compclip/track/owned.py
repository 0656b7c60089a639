"""What in a store is one project's: the experiments of its name, and what carries its tag.

In a store that was made before there were such tags, what lies in an experiment of the project's very name and has the
marks that only `track` makes is the project's; it gets the tag when it is next brought up to date.
"""

from __future__ import annotations

from collections.abc import Mapping

from compclip.track.entries import KEY, PROJECT

EXPERIMENT = "experiment"  # of a registered model
CELL = frozenset(("method", "backbone", "data", "seed"))  # of a version of one


def named(experiment: str, project: str) -> bool:
    """Whether an experiment has the project's name, letter by letter."""
    return experiment.startswith(f"{project}: ")


def run(tags: Mapping[str, str], project: str) -> bool:
    """Whether a run of such an experiment is the project's; one that somebody logged there by hand is not."""
    return tags.get(PROJECT, project) == project and bool(KEY in tags or "content" in tags)


def version(tags: Mapping[str, str], project: str) -> bool:
    """Whether a registered model's version, of a run of the project's, was made by it."""
    return tags[PROJECT] == project if PROJECT in tags else tags.keys() >= CELL


def model(tags: Mapping[str, str], experiment: str) -> bool:
    """Whether a registered model is that of an experiment of the project's."""
    return tags.get(EXPERIMENT) == experiment
