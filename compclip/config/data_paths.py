"""The paths that a section of `data` names, by their keys: the stage `look` lists them, and what is missing is said."""

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

    `section`: its values, as params.yaml or the plan has them. Raises UserError for numbers in braces that fall.
    """
    paths = {"path": expand_paths(section["path"]), "images": expand_paths(section["images"])}
    for key in LISTS:
        table, _, name = key.partition(".")
        paths[key] = list(filter(None, [section[table].get(name)]))
    for kind, texts in section["texts"].items():
        paths[f"texts.{kind}.file"] = list(filter(None, [texts.get("file")]))
    return paths
