"""Bring public benchmarks, captions and weights to where the grids look for them.

    python -m compclip fetch --list           what there is: size, licence, and whether it is here
    python -m compclip fetch NAME...          fetch; what is there stays, what was cut goes on

A gated repository of the hub wants a token in the variable HF_TOKEN. Lists of pictures go through img2dataset, as
shards; `--lists-only` leaves the pictures out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from compclip.base.errors import UserError, entry, one_line, unknown
from compclip.data.fetch import bring, catalogue, pictures
from compclip.data.fetch.catalogue import Offer
from compclip.data.fetch.pictures import Way

HEADER = ("name", "kind", "size", "here", "licence", "what")
UNITS = ("B", "KiB", "MiB", "GiB")
UNKNOWN = "-"


def main(argv: list[str]) -> int:
    """Fetch entries of the catalogue, or list them; 2 where one could not be had, after the others were."""
    args = _parser().parse_args(argv)
    entries, root = catalogue.read(args.catalogue), Path(args.root)
    if args.list or not args.names:
        print(listing(entries, root))
        return 0
    for name in args.names:
        if name not in entries:
            raise unknown("name", name, entries, "fetch")
    way = None if args.lists_only else Way(args.format, args.retries, args.pixels, args.processes)
    return max(_one(entries[name], entries, root, way) for name in dict.fromkeys(args.names))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compclip fetch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="what there is")
    parser.add_argument("--catalogue", default=catalogue.FILE, metavar="FILE", help="another catalogue than ours")
    parser.add_argument("--root", default=".", metavar="FOLDER", help="of the project, with data/ and models/ below it")
    parser.add_argument("--lists-only", action="store_true", help="of lists of pictures, the lists alone")
    parser.add_argument("--format", choices=pictures.FORMATS, default=Way.format, help="of fetched pictures")
    parser.add_argument("--retries", type=_count, default=Way.retries, help="tries a picture beyond the first")
    parser.add_argument("--pixels", type=_count, default=Way.pixels, help="the short side of a larger picture")
    parser.add_argument("--processes", type=_count, default=Way.processes, help="of img2dataset; 0: one a core")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number, 0 to 999999")
    return int(text)


def _one(wanted: Offer, entries: Mapping[str, Offer], root: Path, way: Way | None) -> int:
    """Fetch one entry and say what came of it; a failure is said, and the next one has its turn."""
    try:
        print(f"{wanted.name}: {_brought(wanted, root, way)}")
    except UserError as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return 2
    for name in wanted.section.needs:
        if not bring.complete(entries[name], root):
            print(f"{wanted.name}: needs {name} as well: {entries[name].section.what}")
    if wanted.section.note:
        print(f"{wanted.name}: {wanted.section.note}")
    return 0


def _brought(wanted: Offer, root: Path, way: Way | None) -> str:
    counts = bring.bring(wanted, root)
    place = "the hub's cache" if wanted.section.cache else root / wanted.section.folder
    said = [f"{_files(counts)} in {place}"]
    if wanted.pictures and way:
        print(f"{wanted.name}: {said[0]}; pictures follow", file=sys.stderr)
        found = pictures.fetch(wanted.pictures, root / wanted.section.folder, root, way)
        lost = ", ".join(f"{found[name]:,} {name}" for name in pictures.COUNTS[2:])
        said.append(f"{found['successes']:,} of {found['count']:,} pictures in {root / wanted.pictures.into} ({lost})")
    return "; ".join(said)


def _files(counts: Counter[str]) -> str:
    parts = [f"{counts['fetched']} fetched ({size(counts['bytes'])})" if counts["fetched"] else ""]
    parts.append(f"{counts['there']} there already" if counts["there"] else "")
    if counts["unpacked"]:
        left = f", {counts['left_out']:,} members left out" if counts["left_out"] else ""
        parts.append(f"{counts['unpacked']:,} files unpacked{left}")
    return ", ".join(filter(None, parts)) or "nothing to fetch"


def listing(entries: Mapping[str, Offer], root: Path) -> str:
    """All entries as a table, a line each; in the order of the file."""
    rows = [HEADER, *(_row(one, root) for one in entries.values())]
    wide = [max(len(row[i]) for row in rows) for i in range(len(HEADER) - 1)]
    lines = ["  ".join((*(text.ljust(n) for text, n in zip(row, wide, strict=False)), row[-1])) for row in rows]
    if any(one.section.unchecked for one in entries.values()):
        lines.append("? nobody has fetched it for this catalogue: an address may have moved")
    return "\n".join(lines)


def _row(one: Offer, root: Path) -> tuple[str, ...]:
    here = UNKNOWN if one.section.cache else "yes" if bring.complete(one, root) else "no"
    marked = one.section.what + (" ?" if one.section.unchecked else "") + (" (gated)" if one.section.gated else "")
    return one.name, one.section.kind, size(one.size) or UNKNOWN, here, one.section.licence or UNKNOWN, marked


def size(count: int) -> str:
    """Bytes for people; nothing for 0."""
    unit = max(min((count.bit_length() - 1) // 10, len(UNITS) - 1), 0)
    return f"{count / 1024**unit:.0f} {UNITS[unit]}" if count else ""


if __name__ == "__main__":
    sys.exit(entry(main))
