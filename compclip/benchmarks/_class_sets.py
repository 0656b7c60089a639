"""Class names and prompt templates of known data sets: `classes/<set>.json`, and ImageNet's from open_clip.

A set's classes stand in the order of its labels. Names are facts; their wording and the templates are those of CLIP's
released prompts (MIT) where CLIP_benchmark (MIT) has them too, in CLIP_benchmark's order. ImageNet's names and
templates are read from the open_clip that is installed, its synsets from timm. `metric` is what ELEVATER
(arXiv:2204.08790) counts of the set. `aliases` are what releases call a class that the prompts word otherwise.

ELEVATER's index files number the classes of REORDERED in an order of their own, the other sets' as here (compared with
the lists of its toolkit's prompts.py).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json, read_text

FOLDER = Path(__file__).parent / "classes"
IMAGENET = {"imagenet": "imagenet_synsets.txt", "imagenet_a": "imagenet_a_synsets.txt",
            "imagenet_r": "imagenet_r_synsets.txt"}  # fmt: skip
REORDERED = ("caltech101", "cars", "cifar100", "fgvc_aircraft", "food101")
NUMBERED = ("cifar10", "gtsrb", "imagenet", "mnist", "svhn")  # by the data set itself, so that releases agree


@dataclass(frozen=True)
class ClassSet:
    """Names and templates ({c} for the name), folders of classes by synset, ELEVATER's metric, and other wordings.

    A set without a title is a folder's own classnames.txt, which says itself what the numbers mean.
    """

    names: tuple[str, ...]
    templates: tuple[str, ...]
    metric: str = ""
    synsets: Mapping[str, int] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    title: str = ""

    @property
    def in_elevater_order(self) -> bool:
        """Whether ELEVATER numbers the classes as this set does."""
        return not self.title or (bool(self.metric) and self.title not in REORDERED)

    @property
    def in_every_order(self) -> bool:
        """Whether whoever numbers the classes numbers them so."""
        return not self.title or self.title in NUMBERED


def names() -> list[str]:
    """List the names of the sets."""
    return sorted({*(path.stem for path in FOLDER.glob("*.json")), *IMAGENET})


def file(name: str) -> Path:
    """Return the file that a set's names are read from. Raises UserError for an unknown set."""
    if name not in names():
        raise unknown("set of classes", name, names(), "classes")
    return _package_file("open_clip", "zero_shot_metadata.py") if name in IMAGENET else FOLDER / f"{name}.json"


def load_class_set(name: str) -> ClassSet:
    """Read a set by its name. Raises UserError for an unknown one, and where ImageNet's needs open_clip or timm."""
    path = file(name)
    if name in IMAGENET:
        return _imagenet(name, path)
    content = read_json(path)
    return ClassSet(
        tuple(content["classes"]),
        tuple(content["templates"]),
        content.get("metric", ""),
        aliases=content.get("aliases", {}),
        title=name,
    )


def _imagenet(name: str, path: Path) -> ClassSet:
    """Read ImageNet's 1,000 classes, or the 200 of ImageNet-A and -R."""
    metadata = _executed(path)
    templates = tuple(template("{c}") for template in metadata["OPENAI_IMAGENET_TEMPLATES"])
    all_synsets = _synsets(IMAGENET["imagenet"])
    name_of = dict(zip(all_synsets, metadata["IMAGENET_CLASSNAMES"], strict=True))
    set_synsets = all_synsets if name == "imagenet" else _synsets(IMAGENET[name])
    metric = "top_1" if name == "imagenet" else ""
    return ClassSet(
        tuple(name_of[s] for s in set_synsets), templates, metric, {s: i for i, s in enumerate(set_synsets)}, title=name
    )


def _executed(path: Path) -> dict[str, Any]:
    """Return the variables of one file of open_clip, without importing its models."""
    spec = importlib.util.spec_from_file_location("_names", path)
    if spec is None or spec.loader is None:
        raise UserError("open_clip: its zero_shot_metadata.py cannot be read; install open_clip_torch again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _synsets(file: str) -> list[str]:
    """Read WordNet's numbers of classes, in the order of the labels."""
    return read_text(_package_file("timm", f"data/_info/{file}")).split()


def _package_file(package: str, path: str) -> Path:
    """Return the path of a file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise UserError(f"{package}: is not installed, and ImageNet's classes are read from it; install {package}")
    return Path(next(iter(folders))) / path
