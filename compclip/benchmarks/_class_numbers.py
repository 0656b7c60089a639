"""Which class of a set a release's class number means, by the names that the release ships.

Releases of one data set number its classes differently: ELEVATER's CIFAR-100 begins with the chimpanzee, torchvision's
with the apple. Names are compared by their letters and digits alone, without case and accents; what a release words
otherwise stands in the set's `aliases`.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.files import read_text
from compclip.benchmarks._class_sets import ClassSet

LABELS = ("labels.txt", "labelmap.txt")  # as ELEVATER calls them: a name a line, in the order of the numbers


def plain(name: str) -> str:
    """Return the letters and digits of a name, in lower case and without accents."""
    letters = unicodedata.normalize("NFKD", name.lower())
    return re.sub(r"[\W_]+", "", "".join(letter for letter in letters if not unicodedata.combining(letter)))


def positions(class_set: ClassSet) -> Mapping[str, int]:
    """Return the position of each class by its plain name and aliases; names that are two classes' are left out."""
    counts = Counter(map(plain, class_set.names))
    position_of = {plain(name): i for i, name in enumerate(class_set.names) if name and counts[plain(name)] == 1}
    return position_of | {plain(alias): class_set.names.index(name) for alias, name in class_set.aliases.items()}


def labels_file(folder: Path, *fallbacks: str) -> Path | None:
    """Return the file of a folder that names the classes of its numbers, or None."""
    return next((folder / name for name in (*LABELS, *fallbacks) if (folder / name).is_file()), None)


def read_names(file: Path) -> list[str]:
    """Return the names of a labels file; the last line may be empty."""
    return [line.strip() for line in read_text(file).removeprefix("\ufeff").rstrip().split("\n")]


def numbers(source: Path, release: Sequence[str], class_set: ClassSet, in_order: bool, needed: str) -> list[int]:
    """Return the class of `class_set` that each number of a release means, by its names in their order.

    `in_order`: whether the release is known to number the classes as `class_set` does; then it needs no names, and
    names of another wording are accepted where none of the others says that the order is another. `needed`: what brings
    the names. Raises UserError where names are missing, fit no class, or fit the same one.
    """
    if not release and not in_order:
        raise UserError(
            f"{source}: its class numbers have no names, and releases number {class_set.title} differently; {needed}"
        )
    position_of = positions(class_set)
    matches = [position_of.get(plain(name)) for name in release]
    if None not in matches and release:
        return _single(source, release, [number for number in matches if number is not None])
    moved = any(number not in (None, position) for position, number in enumerate(matches))
    if release and (moved or not in_order or len(release) != len(class_set.names)):
        name = release[matches.index(None)]
        raise UserError(
            f"{source}: class {name!r} is no name of {class_set.title or 'classnames.txt'}, whose order this is not; "
            "name it as the set does, or give a classnames.txt in this order without options.classes"
        )
    return list(range(len(class_set.names)))


def _single(source: Path, release: Sequence[str], numbers: list[int]) -> list[int]:
    """Return the numbers. Raises UserError for two names of one class."""
    number, count = Counter(numbers).most_common(1)[0]
    if count > 1:
        first, second = [name for name, match in zip(release, numbers, strict=True) if match == number][:2]
        raise UserError(f"{source}: classes {first!r} and {second!r} are one class of the set; give each another name")
    return numbers
