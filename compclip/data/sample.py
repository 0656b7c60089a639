"""A sample: one picture and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass

from compclip.data.place import Place


@dataclass(frozen=True)
class Member:
    """A further file of a sample's tar, by its ending: `length` bytes from `offset` on."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True)
class Negative:
    """A picture that stands beside a sample as its negative, its place and checksum as of a sample's own."""

    image: str
    offset: int = 0
    length: int = 0
    head: int = 0

    @property
    def picture(self) -> Place:
        """Where the picture is."""
        return Place(self.image, self.offset, self.length)


GONE = Negative("")  # in the place of one that is not there


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
    members: tuple[Member, ...] = ()
    negatives: tuple[Negative, ...] = ()

    @property
    def picture(self) -> Place:
        """Where the picture is."""
        return Place(self.image, self.offset, self.length)
