"""The catalogue: what can be fetched, from where, and where it belongs. All of it is checked before any request.

A stranger's catalogue decides what is written into this project: everything that it names lies below data/ or models/,
in folders that are not hidden, and comes over HTTP.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import urljoin, urlsplit

from pydantic import Field

from compclip.base import urls, yaml_text
from compclip.base.errors import UserError, unknown
from compclip.base.safe_names import SafeName
from compclip.config.validation import RequiredText, load_section, mapping

FILE = Path(__file__).with_name("catalogue.yaml")
ROOTS = ("data", "models")  # what is fetched is data, and never a file that somebody runs
PART = re.compile(r"\w[\w.+@=-]*")
REPOSITORY = re.compile(r"(datasets/)?[\w][\w.-]*/[\w][\w.-]*", re.ASCII)
REVISION = re.compile(r"[\w][\w./-]*", re.ASCII)
TAG = re.compile(r"[\w.-]+::[\w.-]+", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class OfferFile:
    """One file of an entry: `source` is its address or its path in the repository, where that is not its own name.

    An archive is unpacked: of its members those that fit one of `members` (all without), less `strip` leading folders,
    into the folder `into`.
    """

    source: str = ""
    size: Annotated[int, Field(ge=0)] = 0  # bytes; 0 where it is not known
    sha256: str = ""
    unpack: bool = False
    members: list[str] = field(default_factory=list)
    strip: Annotated[int, Field(ge=0)] = 0
    into: str = ""

    def __post_init__(self) -> None:
        is_digest = not self.sha256 or SHA256.fullmatch(self.sha256)
        has_rule = self.members or self.strip or self.into
        _refuse(
            (not is_digest, f"sha256={self.sha256!r}: must be 64 digits of 0-9a-f, or nothing where it is not known"),
            (has_rule and not self.unpack, "members, strip and into belong to an archive; add unpack: true"),
        )
        if self.into:
            relative_path(self.into, "into")


@dataclass(frozen=True)
class PictureList:
    """A list of pictures' addresses, for img2dataset: `list` is a file, or a folder of files, of the entry."""

    list: RequiredText = ""
    format: Literal["csv", "parquet", "tsv", "json"] = "parquet"  # that img2dataset reads with names of columns
    url: RequiredText = "url"  # its columns
    caption: str = ""
    into: RequiredText = ""  # the folder of the shards

    def __post_init__(self) -> None:
        data_path(self.into, "into")
        if self.list != ".":
            relative_path(self.list, "list")


@dataclass(frozen=True)
class OfferSection:
    """An entry as the file has it; `files` and `pictures` are read by themselves."""

    what: RequiredText = ""
    kind: RequiredText = ""
    licence: str = ""  # "" where it is not known
    folder: str = ""
    http: str = ""  # the address that files without one of their own are below
    hub: str = ""  # a repository, as OWNER/NAME or datasets/OWNER/NAME
    revision: str = ""
    patterns: list[str] = field(default_factory=list)  # of a repository: all files that fit, under their own names
    cache: bool = False  # into the hub's own cache, where open_clip looks for a tag
    tags: list[str] = field(default_factory=list)  # NAME::TAG of open_clip whose weights these are
    gated: bool = False
    needs: list[str] = field(default_factory=list)
    note: str = ""
    unchecked: bool = False  # the addresses are from papers and others' scripts; nobody fetched them for this file

    def __post_init__(self) -> None:
        is_repository = not self.hub or REPOSITORY.fullmatch(self.hub)
        is_revision = not self.revision or (REVISION.fullmatch(self.revision) and ".." not in self.revision)
        wants_hub = self.patterns or self.cache
        strange_tag = self.tags and not (self.cache and all(map(TAG.fullmatch, self.tags)))
        _refuse(
            (bool(self.folder) == self.cache, "folder: must be given, or cache: true instead"),
            (self.http and self.hub, "http and hub: an entry has one source; make two entries of it"),
            (not is_repository, f"hub={self.hub!r}: must be OWNER/NAME or datasets/OWNER/NAME"),
            (not is_revision, f"revision={self.revision!r}: must be a commit, tag or branch"),
            (strange_tag, f"tags={self.tags}: must be NAME::TAG each, of weights in the hub's cache"),
            (wants_hub and not self.hub, "patterns and cache belong to a repository; add hub: OWNER/NAME"),
        )
        if self.folder:
            data_path(self.folder, "folder")


@dataclass(frozen=True)
class Offer:
    """Something that can be fetched by its name."""

    name: SafeName
    section: OfferSection
    files: dict[str, OfferFile]
    pictures: PictureList | None

    @property
    def size(self) -> int:
        """The bytes of all its files, 0 where one of them is not known."""
        sizes = [file.size for file in self.files.values()]
        return sum(sizes) if sizes and all(sizes) and not self.section.patterns else 0

    def address(self, name: str) -> str:
        """Return the source of one of its files: a whole address, or its path in the repository."""
        source = self.files[name].source or name
        return source if self.section.hub else urljoin(f"{self.section.http.rstrip('/')}/", source)


def load_catalogue(path: str | Path = FILE) -> dict[str, Offer]:
    """Read all entries by name. Raises UserError naming the entry, the key and the value for the first mistake."""
    raw = yaml_text.to_plain(yaml_text.read_yaml(path, "must hold entries, as `name: {what: ...}`"), str(path))
    offers = {str(name): _parse_offer(str(name), value, str(path)) for name, value in raw.items()}
    for offer in offers.values():
        for needed in offer.section.needs:
            if needed not in offers:
                raise unknown("entry", needed, offers, f"{path}: {offer.name}.needs")
    return offers


@functools.cache
def load_shipped() -> Mapping[str, Offer]:
    """Return the entries of the shipped catalogue, which is read once a process."""
    return load_catalogue()


def _parse_offer(text: str, raw: Any, path: str) -> Offer:
    name = SafeName(text, f"{path}: entry")
    where = f"{path}: {name}"
    options = mapping(raw, where)
    files = mapping(options.pop("files", None), f"{where}.files")
    pictures = options.pop("pictures", None)
    section = load_section(OfferSection, options, where)
    for file in files:
        relative_path(file, f"{where}.files")
    offer = Offer(
        name, section,
        {key: load_section(OfferFile, value, f"{where}.files.{key}") for key, value in files.items()},
        None if pictures is None else load_section(PictureList, pictures, f"{where}.pictures"),
    )  # fmt: skip
    is_empty = not (offer.files or section.patterns or section.note)
    _refuse((is_empty, f"{where}: has no files; add files, or patterns of a repository, or a note"))
    for file_name, rule in offer.files.items():
        _refuse((section.cache and rule.unpack, f"{where}: nothing is unpacked in the hub's cache; give a folder"))
        _check_address(offer, file_name, f"{where}.files.{file_name}.source")
    return offer


def _check_address(offer: Offer, name: str, source: str) -> None:
    if offer.section.hub:
        relative_path(offer.address(name), source)
        return
    address = urls.check_url(offer.address(name), source)
    url = urlsplit(address)
    shown_url = urls.mask_url(address)
    is_web = url.scheme in ("http", "https") and url.hostname
    _refuse(
        (not is_web, f"{source}={shown_url!r}: must be an http or https address; give one, or http:"),
        (url.username is not None, f"{source}={shown_url!r}: must be without user and password"),
    )


def _refuse(*faults: tuple[Any, str]) -> None:
    """Raise UserError with the text of the first fault that holds."""
    for holds, text in faults:
        if holds:
            raise UserError(text)


def relative_path(text: str, what: str) -> PurePosixPath:
    """Return `text` as a path below the folder that it is joined to. Raises UserError for others and hidden ones."""
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or not all(PART.fullmatch(folder) for folder in path.parts):
        raise UserError(f"{what}={text!r}: must be a path below its folder, of letters, digits and _ . + - @ =")
    return path


def data_path(text: str, what: str) -> PurePosixPath:
    """Return `text` as a folder below one of ROOTS. Raises UserError for others."""
    path = relative_path(text, what)
    if path.parts[0] not in ROOTS or len(path.parts) < 2:
        raise UserError(f"{what}={text!r}: must be a folder below {' or '.join(f'{root}/' for root in ROOTS)}")
    return path


# --- which entries bring a path, by the layouts that the catalogue gives them ---------------------------------------


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
