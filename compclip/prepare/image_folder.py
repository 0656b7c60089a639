"""Keep pictures and texts below their folder: a list from elsewhere may name any file, and links lead anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from compclip.base.errors import UserError
from compclip.base.path_lists import SEPARATOR, list_roots
from compclip.config.sections import Data
from compclip.data import parquet_cells
from compclip.data.sample import Sample


class ImageFolder:
    """The folder `images` of a section, or several; `file` is named in errors. Its links are resolved once.

    A file that is named stands for itself, and a pattern for the folder before its first wildcard, whose links are
    looked at as those of any folder.
    """

    def __init__(self, images: str, file: str = "") -> None:
        self._images = images
        self._file = file
        self._roots = tuple(os.path.join(os.path.realpath(root), "") for root in list_roots(images))
        self._parents: dict[str, bool] = {}

    def check(self, record: str, path: str) -> None:
        """Raise UserError where the picture of a record lies outside of the folder, links resolved."""
        if not self.contains(path):
            raise UserError(
                f"{self._file}: record {record[:200]!a}: picture {path!a} lies outside of images={self._images}; "
                "correct its name, or say images_outside: true in this section if you trust the file"
            )

    def contains(self, path: str) -> bool:
        """Return whether a picture is below the folder, or has a name that no file can have: it will be missing."""
        path = parquet_cells.file_of(path)
        parent = os.path.dirname(path)
        try:
            if parent not in self._parents:
                self._parents[parent] = self._resolves_below(parent)
            if ".." not in path and self._parents[parent] and not os.path.islink(path):
                return True
            return self._resolves_below(path)
        except ValueError:
            return True

    def _resolves_below(self, path: str) -> bool:
        return os.path.join(os.path.realpath(path), "").startswith(self._roots)


def check_samples(samples: Iterable[Sample], cfg: Data) -> Iterator[Sample]:
    """Give the samples of a section, of whatever source, before their pictures are opened.

    Raises UserError for a picture outside of `cfg.images`, unless the section allows it.
    """
    folder = ImageFolder(cfg.images, cfg.path)
    checked = ""
    for sample in samples:
        if sample.image != checked and not cfg.images_outside:  # pictures of one archive follow each other
            folder.check(sample.id, sample.image)
            checked = sample.image
        yield sample


def check_files(paths: Iterable[Path], cfg: Data) -> None:
    """Raise UserError for a file of a section's folder that lies elsewhere, unless the section allows it."""
    folder = ImageFolder("/" if cfg.images_outside else SEPARATOR.join((cfg.path, cfg.images)))
    for path in paths:
        if not folder.contains(str(path)):
            fix = "copy it there, or say images_outside: true in this section if you trust the folder"
            raise UserError(f"{cfg.path}: {str(path)!a} lies outside, by `..` or through a link; {fix}")


def check_images(pictures: Iterable[tuple[str, str]], images: str, file: str) -> None:
    """Raise UserError for the first of (record, picture's path) that lies outside of the folder `images`."""
    folder = ImageFolder(images, file)
    for record, path in pictures:
        folder.check(record, path)
