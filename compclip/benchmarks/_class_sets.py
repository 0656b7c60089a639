"""Class names and prompt templates of known data sets: `classes/<set>.json`, and ImageNet's from open_clip.

A set's classes are in the order of its labels. Names are facts; their wording and the templates are those of CLIP's
released prompts (MIT) where CLIP_benchmark (MIT) has them too, in CLIP_benchmark's order. ImageNet's names and
templates are read from the open_clip that is installed, its synsets from timm. `metric` is what ELEVATER
(arXiv:2204.08790) counts of the set. `aliases` are what releases call a class that the prompts word otherwise.

Releases of one data set number its classes differently: ELEVATER's CIFAR-100 begins with the chimpanzee, torchvision's
with the apple. Which class a release's number means is found by the names that it ships, compared by their letters and
digits alone, without case and accents. ELEVATER's index files number the classes of REORDERED in an order of their own,
the other sets' as here (compared with the lists of its toolkit's prompts.py).
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.errors import UserError, unknown
from compclip.base.files import read_json, read_text

FOLDER = Path(__file__).parent / "classes"
IMAGENET = {"imagenet": "imagenet_synsets.txt", "imagenet_a": "imagenet_a_synsets.txt",
            "imagenet_r": "imagenet_r_synsets.txt"}  # fmt: skip
REORDERED = ("caltech101", "cars", "cifar100", "fgvc_aircraft", "food101")
LABELS = ("labels.txt", "labelmap.txt")  # as ELEVATER calls them: a name a line, in the order of the numbers
NO_CLASS = -1  # the number of a name that is no class's
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
    names_and_templates = tuple(content["classes"]), tuple(content["templates"])
    aliases = content.get("aliases", {})
    return ClassSet(*names_and_templates, content.get("metric", ""), aliases=aliases, title=name)


def find_set(folders: Sequence[str]) -> str:
    """Return the known set that has just these folders of classes, by its names or synsets; "" where none has."""
    plain_names = set(map(plain_name, folders))
    for name in names():
        class_set = load_class_set(name)
        is_named = plain_names <= class_positions(class_set).keys() or class_set.synsets.keys() >= set(folders)
        if is_named and len(plain_names) == len(class_set.names):
            return name
    return ""


def _imagenet(name: str, path: Path) -> ClassSet:
    """Read ImageNet's 1,000 classes, or the 200 of ImageNet-A and -R; open_clip itself is not imported."""
    metadata = runpy.run_path(str(path))
    templates = tuple(template("{c}") for template in metadata["OPENAI_IMAGENET_TEMPLATES"])
    # WordNet's numbers of classes, in the order of the labels
    all_synsets = read_text(_package_file("timm", f"data/_info/{IMAGENET['imagenet']}")).split()
    synsets = read_text(_package_file("timm", f"data/_info/{IMAGENET[name]}")).split()
    name_of = dict(zip(all_synsets, metadata["IMAGENET_CLASSNAMES"], strict=True))
    metric = "top_1" if name == "imagenet" else ""
    return ClassSet(
        tuple(name_of[s] for s in synsets), templates, metric, {s: i for i, s in enumerate(synsets)}, title=name
    )


def _package_file(package: str, path: str) -> Path:
    """Return the path of a file of an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise UserError(f"{package}: is not installed, and ImageNet's classes are read from it; install {package}")
    return Path(next(iter(folders))) / path


# --- class numbers --------------------------------------------------------------------------------------------


def plain_name(name: str) -> str:
    """Return the letters and digits of a name, in lower case and without accents."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", name.lower()))  # an accent is no word's character


def class_positions(class_set: ClassSet) -> Mapping[str, int]:
    """Return the position of each class by its plain name and aliases; names that are two classes' are left out."""
    plain_names = list(map(plain_name, class_set.names))
    counts = Counter(plain_names)
    positions = {name: position for position, name in enumerate(plain_names) if name and counts[name] == 1}
    for alias, name in class_set.aliases.items():
        positions[plain_name(alias)] = class_set.names.index(name)
    return positions


def find_labels(folder: Path, *fallbacks: str) -> tuple[Path | None, list[str]]:
    """Return the file of a folder that names the classes of its numbers, and the names; (None, []) without one."""
    for name in (*LABELS, *fallbacks):
        if (folder / name).is_file():
            return folder / name, read_names(folder / name)
    return None, []


def read_names(file: Path) -> list[str]:
    """Return the lines of a file without spaces around them; a name may be empty, but the last ones are not."""
    return [line.strip() for line in read_text(file).rstrip().split("\n")]


def class_numbers(source: Path, release: Sequence[str], class_set: ClassSet, in_order: bool, needed: str) -> list[int]:
    """Return the class of `class_set` that each number of a release means, by its names in their order.

    `in_order`: whether the release is known to number the classes as `class_set` does; then it needs no names, and
    names of another wording are accepted where none of the others says that the order is another. `needed`: what brings
    the names. Raises UserError where names are missing, fit no class, or fit the same one.
    """
    if not release and not in_order:
        raise UserError(
            f"{source}: its class numbers have no names, and releases number {class_set.title} differently; {needed}"
        )
    position_of = class_positions(class_set)
    numbers = [position_of.get(plain_name(name), NO_CLASS) for name in release]
    if release and NO_CLASS not in numbers:
        number, count = Counter(numbers).most_common(1)[0]
        if count > 1:
            alike = [name for name, class_number in zip(release, numbers, strict=True) if class_number == number]
            fault = f"classes {alike[0]!r} and {alike[1]!r} are one class of the set"
            raise UserError(f"{source}: {fault}; give each another name")
        return numbers
    moved = any(number not in (NO_CLASS, position) for position, number in enumerate(numbers))
    if release and (moved or not in_order or len(release) != len(class_set.names)):
        name = release[numbers.index(NO_CLASS)]
        raise UserError(
            f"{source}: class {name!r} is no name of {class_set.title or 'classnames.txt'}, whose order this is not; "
            "name it as the set does, or give a classnames.txt in this order without options.classes"
        )
    return list(range(len(class_set.names)))
