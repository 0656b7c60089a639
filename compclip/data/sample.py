"""Samples: one picture each, where it is stored, and its captions."""

from __future__ import annotations

from dataclasses import dataclass


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
