"""The catalogue: what can be fetched, from where, and where it belongs. Checked whole before anything is asked for.

A stranger's catalogue decides what is written into this project: everything that it names lies below data/ or models/,
in folders that are not hidden, and comes over HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin, urlsplit

from compclip.base import urls, yaml_text
from compclip.base.errors import UserError, unknown
from compclip.base.names import Name
from compclip.config.structured import mapping, structured

FILE = Path(__file__).with_name("catalogue.yaml")
ROOTS = ("data", "models")  # what is fetched is data, and never a file that somebody runs
PART = re.compile(r"\w[\w.+@=-]*")
REPOSITORY = re.compile(r"(datasets/)?[\w][\w.-]*/[\w][\w.-]*", re.ASCII)
REVISION = re.compile(r"[\w][\w./-]*", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}")
LISTS = ("csv", "parquet", "tsv", "json")  # what img2dataset reads with names of columns


@dataclass(frozen=True)
class File:
    """One file of an entry: `source` is its address or its path in the repository, where that is not its own name.

    An archive is unpacked: of its members those that fit one of `members` (all without), less `strip` leading folders,
    into the folder `into`.
    """

    source: str = ""
    size: int = 0  # bytes; 0 where nobody told
    sha256: str = ""
    unpack: bool = False
    members: list[str] = field(default_factory=list)
    strip: int = 0
    into: str = ""

    def __post_init__(self) -> None:
        _no_less_than_0(self, "size", "strip")
        if self.sha256 and not SHA256.fullmatch(self.sha256):
            raise UserError(f"sha256={self.sha256!r}: must be 64 digits of 0-9a-f, or nothing where it is not known")
        if self.into:
            relative(self.into, "into")
        if (self.members or self.strip or self.into) and not self.unpack:
            raise UserError("members, strip and into belong to an archive; add unpack: true")


@dataclass(frozen=True)
class Pictures:
    """A list of pictures' addresses, for img2dataset: `list` is a file, or a folder of files, of the entry."""

    list: str = ""
    format: str = "parquet"
    url: str = "url"  # its columns
    caption: str = ""
    into: str = ""  # the folder of the shards

    def __post_init__(self) -> None:
        for name in ("list", "into", "url"):
            if not getattr(self, name):
                raise UserError(f"{name}: must be given; add it")
        below(self.into, "into")
        if self.list != ".":
            relative(self.list, "list")
        if self.format not in LISTS:
            raise unknown("format", self.format, LISTS, "format")


@dataclass(frozen=True)
class Section:
    """An entry as the file has it; `files` and `pictures` are read by themselves."""

    what: str = ""
    kind: str = ""
    licence: str = ""  # "" where nobody told
    folder: str = ""
    http: str = ""  # the address that files without one of their own are below
    hub: str = ""  # a repository, as OWNER/NAME or datasets/OWNER/NAME
    revision: str = ""
    patterns: list[str] = field(default_factory=list)  # of a repository: all files that fit, under their own names
    cache: bool = False  # into the hub's own cache, where open_clip looks for a tag
    gated: bool = False
    needs: list[str] = field(default_factory=list)
    note: str = ""
    unchecked: bool = False  # the addresses are from papers and others' scripts; nobody fetched them for this file

    def __post_init__(self) -> None:
        for name in ("what", "kind"):
            if not getattr(self, name):
                raise UserError(f"{name}: must be given; add it")
        if bool(self.folder) == self.cache:
            raise UserError("folder: must be given, or cache: true instead")
        if self.folder:
            below(self.folder, "folder")
        if self.http and self.hub:
            raise UserError("http and hub: an entry has one source; make two entries of it")
        if self.hub and not REPOSITORY.fullmatch(self.hub):
            raise UserError(f"hub={self.hub!r}: must be OWNER/NAME or datasets/OWNER/NAME")
        if self.revision and (not REVISION.fullmatch(self.revision) or ".." in self.revision):
            raise UserError(f"revision={self.revision!r}: must be a commit, tag or branch")
        if (self.patterns or self.cache) and not self.hub:
            raise UserError("patterns and cache belong to a repository; add hub: OWNER/NAME")


@dataclass(frozen=True)
class Offer:
    """Something that can be fetched by its name."""

    name: Name
    section: Section
    files: dict[str, File]
    pictures: Pictures | None

    @property
    def size(self) -> int:
        """Bytes of all its files; 0 where one of them is not known."""
        sizes = [file.size for file in self.files.values()]
        return sum(sizes) if sizes and all(sizes) and not self.section.patterns else 0

    def address(self, name: str) -> str:
        """Where one of its files comes from: a whole address, or its path in the repository."""
        source = self.files[name].source or name
        return source if self.section.hub else urljoin(f"{self.section.http.rstrip('/')}/", source)


def read(path: str | Path = FILE) -> dict[str, Offer]:
    """All entries by name. Raises UserError naming the entry, the key and the value for what cannot be one."""
    raw = yaml_text.plain(yaml_text.read(path, "must hold entries, as `name: {what: ...}`"), str(path))
    entries = {str(name): _entry(str(name), value, str(path)) for name, value in raw.items()}
    for entry in entries.values():
        for needed in entry.section.needs:
            if needed not in entries:
                raise unknown("entry", needed, entries, f"{path}: {entry.name}.needs")
    return entries


def _entry(text: str, raw: Any, path: str) -> Offer:
    name = Name(text, f"{path}: entry")
    where = f"{path}: {name}"
    rest = mapping(raw, where)
    files, pictures = mapping(rest.pop("files", None), f"{where}.files"), rest.pop("pictures", None)
    section = structured(Section, rest, where)
    made = Offer(
        name, section,
        {key: _file(key, value, where) for key, value in files.items()},
        None if pictures is None else structured(Pictures, mapping(pictures, where), f"{where}.pictures"),
    )  # fmt: skip
    _check_addresses(made, where)
    return made


def _file(name: str, raw: Any, where: str) -> File:
    relative(name, f"{where}.files")
    return structured(File, mapping(raw, f"{where}.files.{name}"), f"{where}.files.{name}")


def _check_addresses(entry: Offer, where: str) -> None:
    if not (entry.files or entry.section.patterns or entry.section.note):
        raise UserError(f"{where}: has no files; add files, or patterns of a repository, or a note")
    if entry.section.cache and any(file.unpack for file in entry.files.values()):
        raise UserError(f"{where}: nothing is unpacked in the hub's cache; give a folder")
    for name in entry.files:
        if entry.section.hub:
            relative(entry.address(name), f"{where}.files.{name}.source")
        else:
            _check_address(urls.checked(entry.address(name), f"{where}.files.{name}.source"), f"{where}.files.{name}")


def _check_address(address: str, where: str) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"{where}.source={urls.shown(address)!r}: must be an http or https address; give one, or http:")
    if parts.username is not None:
        raise UserError(f"{where}.source={urls.shown(address)!r}: must be without user and password")


def relative(text: str, what: str) -> PurePosixPath:
    """A path below whatever it is joined to. Raises UserError for another, and for a hidden one."""
    path = PurePosixPath(text)
    if path.is_absolute() or not path.parts or not all(PART.fullmatch(part) for part in path.parts):
        raise UserError(f"{what}={text!r}: must be a path below its folder, of letters, digits and _ . + - @ =")
    return path


def below(text: str, what: str) -> PurePosixPath:
    """The same in one of the folders for what is fetched. Raises UserError for another."""
    path = relative(text, what)
    if path.parts[0] not in ROOTS or len(path.parts) < 2:
        raise UserError(f"{what}={text!r}: must be a folder below {' or '.join(f'{root}/' for root in ROOTS)}")
    return path


def _no_less_than_0(file: File, *names: str) -> None:
    for name in names:
        if getattr(file, name) < 0:
            raise UserError(f"{name}={getattr(file, name)}: must be >= 0")
