"""The runs of the store: what they take, who uses them, which may go.

    python -m compclip runs                              a line a run: key, size, GPU-hours, age, state, who uses it
    python -m compclip runs keep KEY... [--undo]         mark runs that stay, whoever uses them
    python -m compclip runs remove KEY...                refuses what is used, unless --force; never one that is live
    python -m compclip runs gc --keep-grids [FILE...]    remove what is not used; --dry-run only lists it

Used is what a cell of params.yaml or of the grids given names, a trial of a study, or MLflow; `remove` asks the grids
of experiments/grids as well. A grid's runs are those that it would have now, with this code: where its data or backbone
are not here, everything stays that may be its.

A store that COMPCLIP_STORE names may be that of several projects, whose grids are not seen from here: gc leaves every
run that another project has worked on or published, unless --shared is given. A project that never had a run is not
known to the run, although its grid may name it: it would train it again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from compclip.base.errors import UserError, entry
from compclip.base.files import write_atomic
from compclip.config import read
from compclip.runs import inventory, store, users, uses
from compclip.runs.folder import Folder
from compclip.runs.inventory import Held
from compclip.runs.uses import Uses

HEADER = ("run", "size", "GPU-h", "age", "state", "used by")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def listing(held: Sequence[Held], used: Uses) -> str:
    """A line a run, and their sum."""
    rows = [HEADER, *(_row(one, used) for one in held)]
    wide = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = ["  ".join(text.ljust(size) for text, size in zip(row, wide, strict=True)).rstrip() for row in rows]
    hours = sum(one.device_seconds for one in held) / 3600
    refused = sum(one.refused for one in held)
    free = sum(not (one.refused or used.of(one.folder) or one.kept or one.live) for one in held)
    total = f"{len(held)} runs, {bytes_said(inventory.size(held))}, {hours:.2f} GPU-hours; {free} used by nobody"
    total += f"; {refused} refused" * bool(refused)
    return "\n".join([*lines, "", total])


def _row(one: Held, used: Uses) -> tuple[str, ...]:
    if one.refused:
        return one.folder.key, "", "", "", one.state, one.fault
    by = used.of(one.folder) or [f"(made for {name})" for name in [inventory.cell_name(one.folder)] if name]
    marks = ["kept"] * one.kept + [one.fault] * bool(one.fault)
    hours = f"{one.device_seconds / 3600:.2f}"
    return one.folder.key, bytes_said(one.size), hours, age_said(one.age_s), one.state, ", ".join(marks + by)


def bytes_said(count: float) -> str:
    """As 812 KiB or 1.5 GiB."""
    power = 0
    while count >= 1024 and power < len(UNITS) - 1:
        count, power = count / 1024, power + 1
    return f"{count:.1f} {UNITS[power]}" if power > 1 and count < 10 else f"{count:.0f} {UNITS[power]}"


def age_said(seconds: float) -> str:
    """As 5m, 3h or 12d."""
    if seconds < 3600:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f}d"


def keep(keys: Sequence[str], undo: bool, root: Path) -> int:
    """Mark runs, or take the mark away."""
    for folder in _named(keys, root):
        folder.check()
        if undo:
            folder.kept.unlink(missing_ok=True)
        else:
            write_atomic(folder.kept, "")
    print(f"{len(keys)} runs {'may be removed again' if undo else 'are kept'}")
    return 0


def remove(keys: Sequence[str], used: Uses, force: bool, dry: bool, root: Path) -> int:
    """Remove runs, all or none. Raises UserError for one that is live, kept or used."""
    held = [inventory.look(folder) for folder in _named(keys, root)]
    for one in held:
        if one.refused:
            raise UserError(f"{one.fault}; nothing was removed")
        if one.live:
            raise UserError(f"{one.folder.key}: {inventory.live_for(one.folder)}; stop it first, nothing was removed")
        names = (["marked by `runs keep`"] if one.kept else []) + used.of(one.folder)
        if names and not force:
            raise UserError(f"{one.folder.key}: used by {', '.join(names[:3])}; give --force; nothing was removed")
    return _out(held, dry)


def collect(held: Sequence[Held], used: Uses, others: bool, dry: bool, root: Path) -> int:
    """Remove every run that nobody uses. `others`: also those that other projects worked on or published."""
    refused = [one.fault for one in held if one.refused]
    held = [one for one in held if not one.refused]
    for line in (*used.missing, *refused):
        print(f"note: {line}", file=sys.stderr)
    if refused:
        print(f"note: {len(refused)} entries of the store refused: not read, not removed", file=sys.stderr)
    idle = [one for one in held if not (one.live or one.kept or used.of(one.folder))]
    spared = [one for one in idle if store.shared() and not others and not users.own(one.folder, root)]
    if spared:
        print(f"note: {len(spared)} runs, {bytes_said(inventory.size(spared))}, belong to other projects of this store "
              "as well and stay; --shared removes them", file=sys.stderr)  # fmt: skip
    gone = {one.folder.key for one in spared}
    if not dry:
        inventory.sweep_up(root)
    return _out([one for one in idle if one.folder.key not in gone], dry)


def _out(held: Sequence[Held], dry: bool) -> int:
    """Remove and say so; one that somebody took up meanwhile stays."""
    gone, left = [], []
    for one in held:
        name = inventory.cell_name(one.folder)
        try:
            if not dry:
                inventory.remove(one.folder)
        except UserError as error:
            left.append(error)
            continue
        gone.append(one)
        print(f"{'would remove' if dry else 'removed'} {one.folder.key}  {bytes_said(one.size)}  {one.state}  {name}")
    for fault in left:
        print(f"error: {fault}", file=sys.stderr)
    whole, freed = bytes_said(inventory.size(gone)), bytes_said(inventory.freed(gone))
    print(f"{len(gone)} runs, {whole}, of which {freed} have no other name, as in runs/ or DVC's cache")
    return 2 if left else 0


def _named(keys: Iterable[str], root: Path) -> list[Folder]:
    """The runs of these keys. Raises UserError with close matches for one that the store does not have."""
    known = {one.name for one in store.place(root).glob("*") if inventory.KEY.fullmatch(one.name)}
    for key in keys:
        if key not in known:
            near = get_close_matches(key, known, n=3, cutoff=0.6)
            hint = f"did you mean {' or '.join(near)}?" if near else "`python -m compclip runs` lists them"
            raise UserError(f"{store.place(root)}: unknown run {key!r}; {hint}")
    return [store.folder(key, root) for key in dict.fromkeys(keys)]


def main(argv: list[str]) -> int:
    """List, keep, remove or collect."""
    args, root = _arguments(argv), Path(".")
    if args.command == "keep":
        return keep(args.keys, args.undo, root)
    grids = [Path(path) for path in getattr(args, "keep_grids", ())]
    if args.command == "remove":
        _named(args.keys, root)  # before anything that takes time
        grids += sorted((root / uses.GRIDS).glob("*.yaml"))
    used = uses.find(args.params, grids, root)
    if args.command == "remove":
        return remove(args.keys, used, args.force, args.dry_run, root)
    held = inventory.runs(root)
    if args.command == "gc":
        return collect(held, used, args.shared, args.dry_run, root)
    print(listing(held, used))
    return 0


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m compclip runs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="a line a run (what happens without a command)")
    kept = commands.add_parser("keep", help="mark runs that stay")
    gone = commands.add_parser("remove", help="remove runs that nobody uses")
    swept = commands.add_parser("gc", help="remove every run that nobody uses")
    for command in (kept, gone):
        command.add_argument("keys", nargs="+", metavar="KEY")
    kept.add_argument("--undo", action="store_true", help="take the mark away")
    gone.add_argument("--force", action="store_true", help="also what is used or kept; never what is live")
    swept.add_argument("--shared", action="store_true", help="also what other projects of a shared store made or use")
    for command, required in ((gone, False), (swept, True)):
        named = "grids whose runs stay, besides params.yaml's"
        command.add_argument("--keep-grids", nargs="*", default=[], required=required, metavar="FILE", help=named)
        command.add_argument("--dry-run", action="store_true", help="say what would be removed; touch nothing")
    parser.add_argument("--params", default=read.DEFAULT)
    for command in commands.choices.values():
        command.add_argument("--params", default=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(entry(main))
