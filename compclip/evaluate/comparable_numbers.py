"""Published numbers beside a checkpoint's own: of its backbone, and of benchmarks whose files are the official ones.

The pretrained model's and the best are shown, and of a released checkpoint, known by its file, its authors' own.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import open_clip

from compclip.base import yaml_text
from compclip.base.files import hash_unchanged, read_json
from compclip.config import project_files, read
from compclip.config.cell import PRETRAINED
from compclip.report import published_numbers
from compclip.report.published_numbers import RELEASED, PublishedNumber
from compclip.runs.run_folder import RunFolder, Trained

PUBLISHED = Path("experiments/published")
CONFIG = "open_clip_config.json"
# Of a picture tower: an architecture is known by them.
TOWER_SIZES = ("patch_size", "width", "layers", "timm_model_name")
# What papers call a backbone of open_clip's, where it is not its name in other letters.
NAMES = {
    "vit_b_16_siglip": ("ViT-B-16-SigLIP",),
    "vit_l_14_clipa": ("ViT-L-14-CLIPA",),
    "vit_l_14_eva02": ("EVA02-L-14",),
    "vit_b_16_eva02": ("EVA02-B-16",),
}


@dataclass(frozen=True)
class ComparableNumbers:
    """The numbers beside one metric; each list is empty where nothing is published."""

    pretrained: tuple[PublishedNumber, ...] = ()
    best: tuple[PublishedNumber, ...] = ()
    released: tuple[PublishedNumber, ...] = ()

    @property
    def plain(self) -> dict[str, list[dict[str, str]]]:
        """The numbers as JSON has them."""
        return {name: [asdict(number) for number in getattr(self, name)] for name in ("pretrained", "best", "released")}

    def describe(self) -> str:
        """Return them on one line."""
        texts = []
        if self.pretrained:
            values = sorted({number.value for number in self.pretrained}, key=float)
            texts.append("pretrained " + (values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"))
        for number in self.best:
            texts.append(f"best {number.value} ({number.paper}: {number.row})")
        for number in self.released:
            texts.append(f"its authors' {number.value} ({number.paper}, {number.table})")
        return ", ".join(texts)


def find_comparable(
    ref: str, model: str, documents: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, ComparableNumbers]]:
    """Find the published numbers beside a checkpoint's results, by benchmark and metric.

    `ref` and `model` are as `compclip evaluate` takes them. A benchmark with other files than the official ones has
    none, nor has a backbone that no paper reports.
    """
    folder = PUBLISHED if PUBLISHED.is_dir() else project_files.find_source() / PUBLISHED
    official = published_numbers.read_official_benchmarks(folder)
    same_files = [n for n, d in documents.items() if d.get("fingerprint") in official.fingerprints.get(n, ())]
    backbone = find_backbone(ref, model) if same_files else ""
    if not backbone:
        return {}
    numbers = published_numbers.drop_wrong_activations(published_numbers.read_numbers(folder))
    same_backbone = [n for n in numbers if published_numbers.to_slug(n.backbone) == backbone]
    released = _find_released(ref)
    comparable: dict[str, dict[str, ComparableNumbers]] = {}
    for name in same_files:
        lower = documents[name]["lower"]
        for metric in documents[name]["metrics"]:
            here = [n for n in same_backbone if (n.benchmark, n.metric) == (name, metric)]
            if here:
                comparable.setdefault(name, {})[metric] = _choose(here, released, -1 if metric in lower else 1)
    return comparable


def _choose(numbers: Sequence[PublishedNumber], released: str, sign: int) -> ComparableNumbers:
    """Choose among the numbers of one metric; the first of several that are the best."""
    pretrained = tuple(n for n in numbers if n.method == PRETRAINED)
    tuned = [n for n in numbers if n.method not in ("", PRETRAINED)]
    best = max(tuned, key=lambda n: sign * float(n.value), default=None)
    authors_numbers = published_numbers.select_matching(released, numbers) if released else []
    return ComparableNumbers(pretrained, (best,) if best else (), tuple(authors_numbers))


def find_backbone(ref: str, model: str) -> str:
    """Return a checkpoint's backbone as a grid's files call what papers print, as vit_b_32; "" where nobody knows.

    The name is in `MODEL::TAG`, in `model`, in a run's configuration, or told by the towers of a folder's own.
    """
    name = model or ref.partition("::")[0] if "::" in ref or model else _read_architecture(Path(ref))
    slug = published_numbers.to_slug(name.removesuffix("-quickgelu"))
    return next((printed for printed, names in NAMES.items() if name in names), slug)


def _read_architecture(folder: Path) -> str:
    """Return open_clip's name of the architecture that a folder holds; "" where it names or equals none."""
    model_folders = (folder, Trained(folder).checkpoint, RunFolder(folder).final.checkpoint)
    paths = (folder_of_model / CONFIG for folder_of_model in model_folders)
    return next((_recognise(read_json(path).get("model_cfg") or {}) for path in paths if path.is_file()), "")


def _recognise(config: Mapping[str, Any]) -> str:
    """Return the first architecture with the same picture tower and width of the common space."""
    tower_sizes = _tower(config)
    return next((name for name in _list_architectures() if _tower(open_clip.get_model_config(name)) == tower_sizes), "")


def _tower(config: Mapping[str, Any]) -> tuple[Any, ...]:
    vision = config.get("vision_cfg") or {}
    return config.get("embed_dim"), *(vision.get(name) for name in TOWER_SIZES)


@functools.cache
def _list_architectures() -> tuple[str, ...]:
    """List open_clip's names that papers' backbones have."""
    printed = ("ViT-B-32", "ViT-B-16", "ViT-L-14")
    return (*printed, *(name for names in NAMES.values() for name in names))


def _find_released(ref: str) -> str:
    """Return `released.NAME` of the method whose weights a checkpoint has, by the shipped grids; "" for any other.

    It lies where `compclip fetch` puts them, or has the bytes of what lies there in this project.
    """
    source = project_files.find_source() / read.GRIDS
    for path in sorted(source.glob("*_checkpoints*.yaml")):
        sections = yaml_text.to_unresolved(yaml_text.read_yaml(path, read.NO_SECTIONS))
        variants = sections["methods"].get("released", {}).get("variants", {})
        for name, values in variants.items():
            is_in_place = Path(ref).as_posix().endswith(values["path"])
            if is_in_place or _have_equal_weights(Path(ref), Path(values["path"])):
                return f"{RELEASED}{name}"
    return ""


def _have_equal_weights(first: Path, second: Path) -> bool:
    """Return whether two checkpoints' weights, a folder's largest file, are equal bytes; sizes are compared first."""
    sizes = []
    largest = []
    for checkpoint in (first, second):
        paths = [path for path in (checkpoint, *checkpoint.glob("*")) if path.is_file()]
        if not paths:
            return False
        largest.append(max(paths, key=lambda path: path.stat().st_size))
        sizes.append(largest[-1].stat().st_size)
    return sizes[0] == sizes[1] and hash_unchanged(largest[0]) == hash_unchanged(largest[1])
