"""Which entries of the catalogue bring a path, by the layouts that the catalogue gives them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from compclip.fetch.catalogue import Offer, OfferFile, load_shipped


class Fit(IntEnum):
    """How well an entry's layout fits a path, the best last."""

    NONE = 0
    FOLDER = 1  # the path is the entry's folder, or below it
    ARCHIVE = 2  # an archive of that name is unpacked there; what is in it the catalogue does not say
    NAMED = 3  # a file, a member or a pattern of the entry


def find_offers(path: str, companion: str = "") -> tuple[list[Offer], Fit]:
    """Return the shipped entries whose layout fits a path best, and how well; none where several only share its folder.

    `companion`: another path of the same section. Of several entries those are taken that its own entry needs.
    """
    offers = load_shipped()
    fits = {name: measure_fit(offer, PurePosixPath(os.path.normpath(path))) for name, offer in offers.items()}
    best = max(fits.values(), default=Fit.NONE)
    fitting = [offers[name] for name, fit in fits.items() if fit == best != Fit.NONE]
    if fitting[1:] and companion:
        needed: set[str] = set()
        for offer in find_offers(companion)[0]:
            needed.update(offer.section.needs)
        fitting = [offer for offer in fitting if offer.name in needed] or fitting
        return fitting, best
    return ([] if fitting[1:] and best == Fit.FOLDER else fitting), best


def measure_fit(offer: Offer, path: PurePosixPath) -> Fit:
    """Return how well the layout of an entry fits a path."""
    folder = PurePosixPath(offer.section.folder)
    if offer.section.cache:
        return Fit.NONE
    for place in list_places(offer):
        is_above = path != folder and PurePosixPath(place).is_relative_to(path)
        if is_above or fnmatchcase(str(path), place):
            return Fit.NAMED
    for name, file in offer.files.items():
        unpacked = folder / file.into / PurePosixPath(name).name.partition(".")[0]
        is_above = path != folder and unpacked.is_relative_to(path)
        if file.unpack and (is_above or path.is_relative_to(unpacked)):
            return Fit.ARCHIVE
    return Fit.FOLDER if path.is_relative_to(folder) else Fit.NONE


def list_places(offer: Offer) -> Iterator[str]:
    """Yield where an entry puts files, as paths and patterns of paths from the project's root."""
    folder = PurePosixPath(offer.section.folder)
    for name, file in offer.files.items():
        yield from (str(folder / place) for place in (_list_members(file) if file.unpack else [name]))
    for pattern in offer.section.patterns:
        yield str(folder / pattern)
    if offer.pictures:
        yield offer.pictures.into


def _list_members(file: OfferFile) -> Iterator[PurePosixPath]:
    for member in file.members:
        yield PurePosixPath(file.into, *PurePosixPath(member).parts[file.strip :])
