"""Read web data in tars, in place: as img2dataset writes them by default, and as pixparse/cc12m-wds has them.

    source: webdataset
    path: data/cc12m        a folder with *.tar, at any depth, or one tar; or several (`base.path_lists`):
    images: data/cc12m      data/{00000..00099}.tar, or [/disk1/cc12m, /disk2/cc12m]

A tar is a shard. A sample is 000170003.jpg with its caption in 000170003.txt, or in `caption` of 000170003.json, a text
or a list of texts, whose `url` and `sha256` are kept; or 7.image with 7.caption, as in TripletData. Of further members
those are noted that the section names: `members: [neg_caption]`, `negative_images: {member: neg_image}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compclip.base import files, path_lists
from compclip.base.errors import UserError
from compclip.config import released_lists
from compclip.config.sections import Data
from compclip.data import tar_members
from compclip.data.sample import CAPTION_ENDINGS, Sample, SampleMember
from compclip.data.tar_members import DamagedTar, TarMember, TarSample
from compclip.prepare.sources import read_text

MEMBERS = True  # further ones may be named
UNREAD = ("images",)  # keys of the section that decide no sample
MAX_TEXT_BYTES = 1 << 20  # of a caption's file
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def parts(cfg: Data) -> list[str]:
    """Return the tars in the order of the paths, those of a folder sorted.

    Raises UserError where a path has none, or only compressed ones.
    """
    tars = list[str]()
    for path in map(Path, path_lists.expand_paths(cfg.path)):
        tars += [str(path)] if path.is_file() else _find_tars(path)
    return list(dict.fromkeys(tars))


def _find_tars(folder: Path) -> list[str]:
    tars = sorted(p for p in folder.rglob("*.tar") if p.is_file())
    if not tars:
        fault = f"{folder}: no *.tar there; download with img2dataset --output_format webdataset"
        for path in folder.rglob("*"):
            if path.name.endswith(COMPRESSED):
                fault = f"{path}: compressed, and pictures are read from where they lie; unpack it to a .tar"
        raise UserError(fault)
    return list(map(str, tars))


def records(cfg: Data, counts: Counter, part: str) -> Iterator[Sample]:
    """Give the samples of a tar. Counted: missing pictures, repeated keys, unusable texts, damage."""
    keys = set[str]()
    stem = Path(part).stem
    try:
        for group in tar_members.iterate_samples(part):
            counts["duplicate_keys"] += len(group.repeated) + (group.key in keys)
            if group.key not in keys:
                keys.add(group.key)
                yield from _build_sample(group, part, stem, cfg, counts)
    except DamagedTar:
        counts["damaged_tars"] += 1


def _build_sample(group: TarSample, tar: str, stem: str, cfg: Data, counts: Counter) -> Iterator[Sample]:
    picture = group.picture
    if picture is None:
        counts["no_picture"] += 1
        return
    if not picture.size:
        counts["unreadable_image"] += 1
        return
    metadata = _read_json(group, tar)
    captions = _read_captions(group.first_of(CAPTION_ENDINGS), metadata, tar, counts)
    members = []
    for name in released_lists.tar_members(cfg):
        member = group.members.get(name)
        if member and member.size:
            members.append(SampleMember(name, member.offset, member.size))
    yield Sample(
        f"{stem}/{group.key}",
        tar,
        captions,
        cfg.split,
        offset=picture.offset,
        length=picture.size,
        url=read_text(metadata, "url"),
        sha256=read_text(metadata, "sha256"),
        members=tuple(members),
    )


def _read_json(group: TarSample, tar: str) -> dict[str, Any]:
    """Return the content of the sample's .json, nothing where it cannot be read."""
    member = group.members.get("json")
    raw = tar_members.read_member(tar, member, MAX_TEXT_BYTES) if member else None
    try:
        content = files.parse_json((raw or b"{}").decode("utf-8-sig"), tar)
    except (UserError, UnicodeDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def _read_captions(member: TarMember | None, metadata: dict[str, Any], tar: str, counts: Counter) -> tuple[str, ...]:
    if member is None:
        value = metadata.get("caption")
        return tuple(text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
    raw = tar_members.read_member(tar, member, MAX_TEXT_BYTES)
    if raw is None:
        counts["unreadable_captions"] += 1
        return ()
    try:
        return (raw.decode("utf-8-sig"),)
    except UnicodeDecodeError:
        counts["invalid_utf8_captions"] += 1
        return ()
