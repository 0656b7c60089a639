"""Web data in tars, read where they lie: as img2dataset writes them by default, and as pixparse/cc12m-wds has them.

    source: webdataset
    path: data/cc12m        a folder with *.tar, at any depth, or one tar
    images: data/cc12m

A tar is a shard. A sample is 000170003.jpg with its caption in 000170003.txt, or in `caption` of 000170003.json, whose
`url` and `sha256` are kept; or 7.image with 7.caption, as in TripletData. Of further members those are noted that the
section names: `members: [neg_caption]`, `negative_images: {member: neg_image}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from compclip.base import json_text
from compclip.base.errors import UserError
from compclip.config import pictures
from compclip.config.sections import Data
from compclip.data import sample, tars
from compclip.data.sample import Sample
from compclip.data.tars import DamagedTar, Group, Member

SUFFIXES = ("jpg", "jpeg", "png", "webp", "image")
TEXTS = ("txt", "caption")
MEMBERS = True  # further ones may be named
MOST = 1 << 20  # bytes of a caption's file
COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


def parts(cfg: Data) -> list[str]:
    """The tars, sorted by path. Raises UserError where there is none, or only compressed ones."""
    path = Path(cfg.path)
    found = [path] if path.is_file() else sorted(p for p in path.rglob("*.tar") if p.is_file())
    if not found:
        packed = next((p for p in path.rglob("*") if p.name.endswith(COMPRESSED)), None)
        if packed:
            raise UserError(f"{packed}: compressed, and pictures are read from where they lie; unpack it to a .tar")
        raise UserError(f"{path}: no *.tar there; download with img2dataset --output_format webdataset")
    return [str(p) for p in found]


def records(cfg: Data, counts: Counter, part: str) -> Iterator[Sample]:
    """The samples of a tar. Counted: what has no picture, keys that come twice, texts that cannot be used, damage."""
    seen, stem = set[str](), Path(part).stem
    try:
        for group in tars.groups(part):
            counts["duplicate_keys"] += len(group.repeated) + (group.key in seen)
            if group.key not in seen:
                seen.add(group.key)
                yield from _sample(group, part, stem, cfg, counts)
    except DamagedTar:
        counts["damaged_tars"] += 1


def _sample(group: Group, tar: str, stem: str, cfg: Data, counts: Counter) -> Iterator[Sample]:
    picture = next((group.members[s] for s in SUFFIXES if s in group.members), None)
    if picture is None:
        counts["no_picture"] += 1
        return
    if not picture.size:
        counts["unreadable_image"] += 1
        return
    facts = _facts(group, tar)
    told = next((group.members[s] for s in TEXTS if s in group.members), None)
    captions = _captions(told, facts, tar, counts)
    url, sha256 = (value if isinstance(value := facts.get(name), str) else "" for name in ("url", "sha256"))
    place = {"offset": picture.offset, "length": picture.size, "url": url, "sha256": sha256}
    yield Sample(f"{stem}/{group.key}", tar, captions, cfg.split, **place, members=_noted(group, pictures.members(cfg)))


def _noted(group: Group, names: Sequence[str]) -> tuple[sample.Member, ...]:
    """Where the members of these endings are; an empty one is not there."""
    found = ((name, group.members[name]) for name in names if name in group.members)
    return tuple(sample.Member(name, one.offset, one.size) for name, one in found if one.size)


def _facts(group: Group, tar: str) -> dict[str, Any]:
    """What the sample's .json says; nothing where it cannot be read."""
    member = group.members.get("json")
    raw = tars.content(tar, member, MOST) if member else None
    try:
        found = json_text.value((raw or b"{}").decode("utf-8"), tar)
    except (UserError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _captions(member: Member | None, facts: dict[str, Any], tar: str, counts: Counter) -> tuple[str, ...]:
    if member is None:
        return (facts["caption"],) if isinstance(facts.get("caption"), str) else ()
    raw = tars.content(tar, member, MOST)
    if raw is None:
        counts["unreadable_captions"] += 1
        return ()
    try:
        return (raw.decode("utf-8"),)
    except UnicodeDecodeError:
        counts["invalid_utf8_captions"] += 1
        return ()
