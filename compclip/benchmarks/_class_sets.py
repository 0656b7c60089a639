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
    """The sets that there are."""
    return sorted({*(path.stem for path in FOLDER.glob("*.json")), *IMAGENET})


def file(name: str) -> Path:
    """The file that a set's names are read from. Raises UserError for an unknown set."""
    if name not in names():
        raise unknown("set of classes", name, names(), "classes")
    return _within("open_clip", "zero_shot_metadata.py") if name in IMAGENET else FOLDER / f"{name}.json"


def get(name: str) -> ClassSet:
    """A set by its name. Raises UserError for an unknown one, and for ImageNet's where open_clip or timm is missing."""
    path = file(name)
    if name in IMAGENET:
        return _imagenet(name, path)
    found = read_json(path)
    return ClassSet(
        tuple(found["classes"]),
        tuple(found["templates"]),
        found.get("metric", ""),
        aliases=found.get("aliases", {}),
        title=name,
    )


def _imagenet(name: str, path: Path) -> ClassSet:
    """All 1,000 classes; of ImageNet-A and -R the 200 that they have."""
    told = _executed(path)
    templates = tuple(template("{c}") for template in told["OPENAI_IMAGENET_TEMPLATES"])
    every = _synsets(IMAGENET["imagenet"])
    name_of = dict(zip(every, told["IMAGENET_CLASSNAMES"], strict=True))
    own = every if name == "imagenet" else _synsets(IMAGENET[name])
    metric = "top_1" if name == "imagenet" else ""
    return ClassSet(tuple(name_of[s] for s in own), templates, metric, {s: i for i, s in enumerate(own)}, title=name)


def _executed(path: Path) -> dict[str, Any]:
    """What one file of open_clip says, without the models: the names are asked for where nothing is computed."""
    spec = importlib.util.spec_from_file_location("_names", path)
    if spec is None or spec.loader is None:
        raise UserError("open_clip: its zero_shot_metadata.py cannot be read; install open_clip_torch again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _synsets(file: str) -> list[str]:
    """WordNet's numbers of classes, in the order of the labels."""
    return read_text(_within("timm", f"data/_info/{file}")).split()


def _within(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise UserError(f"{package}: is not installed, and ImageNet's classes are read from it; install {package}")
    return Path(next(iter(folders))) / path
