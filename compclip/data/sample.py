"""A sample: one picture and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass

from compclip.data.place import Place


@dataclass(frozen=True)
class Sample:
    """A picture, its captions, and its size in pixels as shown.

    `image` is the picture's file; where `length` > 0 it is a tar that holds the picture's bytes from `offset` on. `url`
    and `sha256` (hex, of the picture's bytes) are what the source says of it, "" where it says nothing. `head` is a
    checksum of the picture's length and first bytes.
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

    @property
    def picture(self) -> Place:
        """Where the picture is."""
        return Place(self.image, self.offset, self.length)
