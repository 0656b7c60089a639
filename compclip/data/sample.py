"""Samples: one picture each, where it is stored, and its captions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath

from compclip.base.errors import UserError


@dataclass(frozen=True, slots=True)
class ImageLocation:
    """A picture's file, or `length` bytes of a file from `offset` on, as a tar holds a picture."""

    path: str
    offset: int = 0
    length: int = 0

    def __str__(self) -> str:
        return f"{self.path}@{self.offset}" if self.length else self.path


@dataclass(frozen=True)
class SampleMember:
    """A further file of a sample's tar, by its ending: `length` bytes from `offset` on."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True)
class NegativeImage:
    """A negative image of a sample; its location and checksum are those of `Sample`."""

    image: str
    offset: int = 0
    length: int = 0
    head: int = 0

    @property
    def picture(self) -> ImageLocation:
        """The picture's location."""
        return ImageLocation(self.image, self.offset, self.length)


NO_IMAGE = NegativeImage("")  # stands for a missing one, so that the others keep their positions


@dataclass(frozen=True)
class Region:
    """A box in a picture, in shares of its width and height, and texts that are true and false of what is in it.

    The negatives are of the first caption.
    """

    left: float
    upper: float
    right: float
    lower: float
    captions: tuple[str, ...]
    negatives: tuple[str, ...] = ()

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Left, upper, right, lower."""
        return self.left, self.upper, self.right, self.lower


@dataclass(frozen=True)
class Sample:
    """A picture, its captions, and its size in pixels as shown.

    `image` is the picture's file; where `length` > 0 it is a tar that holds the picture's bytes from `offset` on. `url`
    and `sha256` (hex, of the picture's bytes) are what the source says of it, "" where it says nothing. `head` is a
    checksum of the picture's length and first bytes. `members` are those of its tar that the section asks for;
    `negatives` are in the order of the texts that were stored with them.
    """

    id: str
    image: str
    captions: tuple[str, ...]
    split: str = "train"
    width: int = 0
    height: int = 0
    offset: int = 0
    length: int = 0
    url: str = ""
    sha256: str = ""
    head: int = 0
    members: tuple[SampleMember, ...] = ()
    negatives: tuple[NegativeImage, ...] = ()
    regions: tuple[Region, ...] = ()

    @property
    def picture(self) -> ImageLocation:
        """The picture's location."""
        return ImageLocation(self.image, self.offset, self.length)


def list_captions(samples: Iterable[Sample]) -> list[str]:
    """Return the captions of samples, one after the other."""
    return [caption for sample in samples for caption in sample.captions]


# --- names of pictures ----------------------------------------------------------------------------------------------
# Find pictures whose lists name them otherwise: in another case, with `\` for `/`, or in a folder that is absent.


# Endings of the formats that are read (`data.images`), in lower case; the first of several files of one name is taken.
ENDINGS = (
    ".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".jfif", ".jpe", ".pgm", ".pbm", ".pnm",
)  # fmt: skip
# Endings of the captions beside them, in lower case; the first of several is taken.
CAPTION_ENDINGS = (".txt", ".caption")


class PictureFinder:
    """Finds the file that a name can mean below the folder `images`; a folder is listed when a name is not there.

    `file` is named in errors.
    """

    def __init__(self, images: str, file: str = "") -> None:
        self._images = images
        self._file = file
        self._names: dict[str, dict[str, list[str]]] = {}
        self._names_of: dict[str, dict[str, None]] = {}  # of pictures in `images` itself: the names that mean each

    def find(self, path: str) -> str:
        """Return `path` where there is such a file, else the one file that it can mean; itself where there is none.

        Raises UserError, naming both, where two files fit. Whether one file fits two names is known at the end
        (`find_shared`).
        """
        if os.path.lexists(path) or not self._images:
            return path
        below = os.path.relpath(path, self._images).replace("\\", "/")
        file = self._find_below(below)
        if file is None and "/" in below:
            file = self._find_below(below.rpartition("/")[2])
            if file:
                self._names_of.setdefault(file, {})[below] = None
        return file or path

    def find_shared(self) -> dict[str, str]:
        """Return the files that several names were found to mean, each with a line that names two of them."""
        lines = {}
        for file, names in self._names_of.items():
            if len(names) > 1:
                pair = " and ".join(map(repr, list(names)[:2]))
                lines[file] = f"{self._file}: {pair} are one file in {self._images}; keep the folders of the pictures"
        return lines

    def _find_below(self, name: str) -> str | None:
        folder = self._images
        for component in PurePath(name).parts:
            fitting = self._list(folder).get(component.casefold(), ())
            if len(fitting) > 1 and component not in fitting:
                pair = " and ".join(map(repr, fitting[:2]))
                raise UserError(f"{self._file}: {name!r}: {pair} in {folder} fit; write the name as the file's")
            if not fitting:
                return None
            folder = os.path.join(folder, component if component in fitting else fitting[0])
        return folder if os.path.isfile(folder) else None

    def _list(self, folder: str) -> dict[str, list[str]]:
        if folder not in self._names:
            listing: dict[str, list[str]] = {}
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                listing.setdefault(name.casefold(), []).append(name)
            self._names[folder] = listing
        return self._names[folder]
