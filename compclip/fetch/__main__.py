"""Bring public benchmarks, captions and weights to where the grids look for them.

    compclip fetch --list           what there is: size, licence, and whether it is here
    compclip fetch NAME...          fetch; what is there stays, what was cut goes on

A gated repository of the hub wants a token in the variable HF_TOKEN. For a list of pictures the command is printed by
which img2dataset fetches them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line, unknown
from compclip.base.messages import format_count
from compclip.fetch import catalogue, offer_files
from compclip.fetch.catalogue import Offer

HEADER = ("name", "kind", "size", "here", "licence", "what")
UNITS = ("B", "KiB", "MiB", "GiB")
UNKNOWN = "-"


def main(argv: list[str]) -> int:
    """Fetch entries of the catalogue, or list them; return 2 where one failed, after the others were fetched."""
    parser = CommandParser(prog="compclip fetch", description=__doc__, example="sugarcrepe")
    parser.add_argument("names", nargs="*", metavar="NAME", help="what `--list` names, or a group")
    parser.add_argument("--list", action="store_true", help="what there is")
    parser.add_argument("--catalogue", default=catalogue.FILE, metavar="FILE", help="another catalogue than ours")
    args = parser.parse_args(argv)
    entries = catalogue.load_catalogue(args.catalogue)
    root = Path()
    if args.list or not args.names:
        print(format_listing(entries, root))
        return 0
    for name in args.names:
        if name not in entries:
            raise unknown("name", name, entries, "fetch")
    return max(_fetch_offer(entries[name], entries, root) for name in dict.fromkeys(args.names))


def _fetch_offer(offer: Offer, entries: Mapping[str, Offer], root: Path) -> int:
    """Fetch one entry and print the result; a failure is printed, and 2 returned."""
    try:
        counts = offer_files.fetch_offer(offer, root)
    except UserError as error:
        print(f"error: {one_line(str(error))}", file=sys.stderr)
        return 2
    folder = root / offer.section.folder
    target = "the hub's cache" if offer.section.cache else folder
    print(f"{offer.name}: {_describe_files(counts)} in {target}")
    if offer.pictures:
        print(f"{offer.name}: its pictures: {offer_files.picture_command(offer.pictures, folder)}")
    for name in offer.section.needs:
        if not offer_files.is_complete(entries[name], root):
            print(f"{offer.name}: needs {name} as well: {entries[name].section.what}")
    if offer.section.note:
        print(f"{offer.name}: {offer.section.note}")
    return 0


def _describe_files(counts: Counter[str]) -> str:
    phrases = [f"{counts['fetched']} fetched ({format_size(counts['bytes'])})" if counts["fetched"] else ""]
    phrases.append(f"{counts['there']} there already" if counts["there"] else "")
    if counts["unpacked"]:
        skipped = f", {format_count(counts['left_out'], 'member')} left out" if counts["left_out"] else ""
        phrases.append(f"{format_count(counts['unpacked'], 'file')} unpacked{skipped}")
    return ", ".join(filter(None, phrases)) or "nothing to fetch"


def format_listing(entries: Mapping[str, Offer], root: Path) -> str:
    """Format all entries as a table, one line each, in the order of the file."""
    rows = [HEADER]
    for offer in entries.values():
        section = offer.section
        here = UNKNOWN if section.cache else "yes" if offer_files.is_complete(offer, root) else "no"
        what = section.what + (" ?" if section.unchecked else "") + (" (gated)" if section.gated else "")
        size = format_size(offer.size) or UNKNOWN
        licence = section.licence or UNKNOWN
        rows.append((offer.name, section.kind, size, here, licence, what))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    if any(offer.section.unchecked for offer in entries.values()):
        lines.append("? nobody has fetched it for this catalogue: an address may have moved")
    return "\n".join(lines)


def format_size(count: int) -> str:
    """Format bytes with a unit; "" for 0."""
    unit = max(min((count.bit_length() - 1) // 10, len(UNITS) - 1), 0)
    return f"{count / 1024**unit:.0f} {UNITS[unit]}" if count else ""


if __name__ == "__main__":
    sys.exit(entry(main))
