"""List the paths in a section of `data`, by key: for the stage `look`, and for the check of missing inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compclip.base.path_lists import expand_paths

LISTS = (
    *("captions.file", "negative_images.file", "negative_images.images", "regions.file"),
    *("rewrites.captions", "rewrites.swap", "rewrites.replace", "masked.model"),
)


def list_paths(section: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the paths of a data set, its lists and its helper model, by their keys in `data.<name>`.

    `section` holds its values, as in params.yaml or the plan. Raises UserError for a descending range in braces.
    """
    paths = {"path": expand_paths(section["path"]), "images": expand_paths(section["images"])}
    for key in LISTS:
        table, _, name = key.partition(".")
        paths[key] = list(filter(None, [section[table].get(name)]))
    for kind, texts in section["texts"].items():
        paths[f"texts.{kind}.file"] = list(filter(None, [texts.get("file")]))
    return paths
