"""Pictures lie where their section says: other people's files name them, and a name may lead anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from compclip.base.errors import UserError
from compclip.data.sample import Sample


class Within:
    """What lies below a folder, links resolved. A folder is resolved once, a picture costs one look."""

    def __init__(self, folder: str) -> None:
        self._real = os.path.join(os.path.realpath(folder), "")
        self._known: dict[str, bool] = {}

    def holds(self, path: str) -> bool:
        """Whether a picture is below the folder, or has a name that no file can have: it will be missing."""
        parent, name = os.path.split(path)
        try:
            if parent not in self._known:
                self._known[parent] = self._below(parent)
            if name != ".." and not os.path.islink(path):
                return self._known[parent]
            return self._below(path)
        except ValueError:
            return True

    def _below(self, path: str) -> bool:
        return os.path.join(os.path.realpath(path), "").startswith(self._real)


def check(pictures: Iterable[tuple[str, str]], images: str, file: str) -> None:
    """Raise UserError for the first of (record, picture's path) that lies outside of the folder `images`."""
    inside = Within(images)
    for record, path in pictures:
        _refuse_outside(inside, record, path, images, file)


def checked(samples: Iterable[Sample], images: str, file: str) -> Iterator[Sample]:
    """The samples, as long as their pictures lie in the folder `images`. Raises UserError as `check`."""
    inside = Within(images)
    for sample in samples:
        _refuse_outside(inside, sample.id, sample.image, images, file)
        yield sample


def _refuse_outside(inside: Within, record: str, path: str, images: str, file: str) -> None:
    if not inside.holds(path):
        raise UserError(
            f"{file}: record {record[:200]!a}: picture {path!a} lies outside of images={images}; correct its name, "
            "or say images_outside: true in this section if you trust the file"
        )
