"""The runs of the store: what they take, who uses them, which may go.

    compclip runs                            key, size, age, state, who uses it
    compclip runs keep KEY... [--undo]       mark runs that stay
    compclip runs remove KEY... [--force]    remove these
    compclip runs gc --keep-grids [FILE...]  remove what is not used
    compclip runs check [--drop]             read everything; what is damaged

A run is in use where a cell of params.yaml or of the named grids, a trial of a study, or MLflow names it; `remove`
also reads the grids of experiments/grids. A grid's runs are those that it would have now, with this code. Where its
data or backbone are absent, everything stays that may be its. Several projects may share a store (COMPCLIP_STORE): gc
leaves every run that another one has worked on or published, but for --shared. It cannot know a project that never had
a run, which would train such a run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import write_atomic
from compclip.base.messages import format_count
from compclip.runs import inventory, progress, run_store, run_table, status
from compclip.runs.inventory import RunUsers
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_table import RunRow

HEADER = ("run", "size", "hours", "age", "state", "used by")
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def format_entries(runs: Sequence[RunRow], used: RunUsers) -> str:
    """Format one line for each run, and a line with their sums."""
    table = status.align_columns(HEADER, [_format_row(run, used) for run in runs], sys.maxsize, len(HEADER))
    refused = sum(run.refused for run in runs)
    free = sum(_is_free(run, used) for run in runs)
    hours = progress.format_sum((run.device_seconds, run.on_gpu) for run in runs)
    size = format_bytes(run_table.count_bytes(runs))
    total = f"{format_count(len(runs), 'run')}, {size}{hours and f', {hours}'}; {free} used by nobody"
    if refused:
        total += f"; {refused} refused"
    return f"{table}\n\n{total}"


def _is_free(run: RunRow, used: RunUsers) -> bool:
    """Return whether nothing keeps a run."""
    return not (run.refused or run.live or run.is_kept or used.list_users(run.folder))


def format_json(runs: Sequence[RunRow], used: RunUsers) -> str:
    """Return the list as JSON: sizes in bytes, times in seconds, the names that use each run."""
    rows = [
        {
            "run_key": run.folder.key,
            "bytes": run.size,
            "device_seconds": run.device_seconds,
            "on_gpu": run.on_gpu,
            "age_seconds": round(run.age_s),
            "state": run.state,
            "kept": run.is_kept,
            "cell": "" if run.refused else run_table.cell_name(run.folder),
            "used_by": [] if run.refused else used.list_users(run.folder),
            "carried": run.origin,
            "fault": run.error,
        }
        for run in runs
    ]
    return json.dumps({"runs": rows, "bytes": run_table.count_bytes(runs)}, indent=1)


def _format_row(run: RunRow, used: RunUsers) -> tuple[str, ...]:
    if run.refused:
        return run.folder.key, "", "", "", run.state, run.error
    users = used.list_users(run.folder)
    cell = run_table.cell_name(run.folder)
    if cell and not users:
        users = [f"(made for {cell})"]
    uses = ", ".join(filter(None, ("kept" if run.is_kept else "", run.origin, run.error, *users)))
    hours = progress.format_hours(run.device_seconds, run.on_gpu)
    return run.folder.key, format_bytes(run.size), hours, format_age(run.age_s), run.state, uses


def format_bytes(count: float) -> str:
    """Format a number of bytes, as 812 KiB or 1.5 GiB."""
    power = 0
    while count >= 1024 and power < len(UNITS) - 1:
        count = count / 1024
        power = power + 1
    return f"{count:.1f} {UNITS[power]}" if power > 1 and count < 10 else f"{count:.0f} {UNITS[power]}"


def format_age(seconds: float) -> str:
    """Format an age, as 5m, 3h or 12d."""
    if seconds < 3600:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f}d"


def keep(keys: Sequence[str], undo: bool, root: Path) -> int:
    """Mark runs as kept, or remove the mark."""
    for folder in _find_folders(keys, root):
        folder.check()
        if undo:
            folder.keep_mark.unlink(missing_ok=True)
        else:
            write_atomic(folder.keep_mark, "")
    print(f"{format_count(len(keys), 'run')} {'no longer kept' if undo else 'kept'}")
    return 0


def remove(keys: Sequence[str], used: RunUsers, force: bool, dry: bool, root: Path) -> int:
    """Remove runs, all or none. Raises UserError for one that is live, kept or used."""
    runs = [run_table.inspect_run(folder) for folder in _find_folders(keys, root)]
    for run in runs:
        fault = run.error if run.refused else ""
        if run.live:
            fault = f"{run.folder.key}: {run.job} is {run.state}; stop it first"
        elif not (fault or force):
            users = (["marked by `runs keep`"] if run.is_kept else []) + used.list_users(run.folder)
            fault = f"{run.folder.key}: used by {', '.join(users[:3])}; give --force" if users else ""
        if fault:
            raise UserError(f"{fault}; nothing was removed")
    return _remove_entries(runs, dry)


def remove_unused(runs: Sequence[RunRow], used: RunUsers, include_shared: bool, dry: bool, root: Path) -> int:
    """Remove every run that nobody uses; `include_shared`: also what other projects worked on or published."""
    for line in used.missing:
        messages.note(line)
    our_project = {str(root.resolve())}
    is_careful = run_store.is_shared() and not include_shared
    refused = 0
    unused: list[RunRow] = []
    spared: list[RunRow] = []
    for run in runs:
        if run.refused:
            messages.note(run.error)
            refused += 1
        elif _is_free(run, used):
            is_foreign = is_careful and run_store.list_projects(run.folder) != our_project
            (spared if is_foreign else unused).append(run)
    if refused:
        entries = format_count(refused, "entry", "entries")
        messages.note(f"{entries} of the store refused: not read, not removed")
    if spared:
        size = format_bytes(run_table.count_bytes(spared))
        runs_of_others = format_count(len(spared), "run")
        messages.note(f"left: {runs_of_others}, {size}, also of other projects of this store; --shared removes them")
    if not dry:
        inventory.finish_removals(root)
    return _remove_entries(unused, dry)


def _remove_entries(runs: Sequence[RunRow], dry: bool) -> int:
    """Remove runs and print each; a run that another process works on by now stays. Return the exit code."""
    removed = []
    faults = []
    for run in runs:
        name = one_line(run_table.cell_name(run.folder))
        try:
            if not dry:
                inventory.remove(run.folder)
        except UserError as error:
            faults.append(error)
            continue
        removed.append(run)
        print(f"{'would remove' if dry else 'removed'} {run.folder.key}  {format_bytes(run.size)}  {run.state}  {name}")
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    size = format_bytes(run_table.count_bytes(removed))
    print(f"{format_count(len(removed), 'run')}, {size}; what has a name in runs/ or DVC's cache stays there")
    return 2 if faults else 0


def check(drop: bool, root: Path) -> int:
    """Print what is damaged, and remove it where it can be made again. Return the exit code: 1 where something is."""
    damages = []
    for damage in inventory.find_damage(root):
        damages.append(damage)
        print(one_line(f"damaged: {damage.path}: {damage.fault}; {damage.remedy}"), flush=True)
    removed = inventory.drop_damaged(damages, root) if drop else []
    for path in removed:
        print(one_line(f"removed {path}"))
    summary = f"{len(damages)} damaged" if damages else "nothing is damaged"
    print(f"{format_count(len(run_table.list_store(root)), 'run')} in {run_store.store_folder(root)}; {summary}")
    return 1 if damages else 0


def _find_folders(keys: Iterable[str], root: Path) -> list[RunFolder]:
    """Return the folders of these run keys.

    Raises UserError with close matches for one that the store does not have.
    """
    names = [folder.key for folder in run_table.list_folders(root)]
    for key in keys:
        if key not in names:
            matches = get_close_matches(key, names, n=3, cutoff=0.6)
            hint = f"did you mean {' or '.join(matches)}?" if matches else "`compclip runs` lists them"
            raise UserError(f"{run_store.store_folder(root)}: unknown run {key!r}; {hint}")
    return [run_store.find_folder(key, root) for key in dict.fromkeys(keys)]


def main(argv: list[str]) -> int:
    """Run the command `runs`."""
    args = _parse_arguments(argv)
    root = Path()
    if args.command == "check":
        return check(args.drop, root)
    if args.command == "keep":
        return keep(args.keys, args.undo, root)
    grids = [Path(path) for path in getattr(args, "keep_grids", ())]
    if args.command == "remove":
        _find_folders(args.keys, root)  # before anything that takes time
        grids += sorted((root / inventory.GRIDS).glob("*.yaml"))
    used = inventory.find_users(args.params, grids, root)
    if args.command == "remove":
        return remove(args.keys, used, args.force, args.dry_run, root)
    entries = run_table.list_store(root)
    if args.command == "gc":
        return remove_unused(entries, used, args.shared, args.dry_run, root)
    print(format_json(entries, used) if args.json else format_entries(entries, used))
    return 0


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    example = "gc --keep-grids experiments/grids/*.yaml --dry-run"
    parser = CommandParser(prog="compclip runs", description=__doc__, example=example)
    commands = parser.add_subparsers(dest="command")
    parser.add_json("print the list as JSON")
    keep_parser = commands.add_parser("keep", help="mark runs that stay")
    remove_parser = commands.add_parser("remove", help="remove runs that nobody uses")
    gc_parser = commands.add_parser("gc", help="remove every run that nobody uses")
    check_parser = commands.add_parser("check", help="read everything once and name what is damaged")
    check_parser.add_argument("--drop", action="store_true", help="remove what is damaged and can be made again")
    for command in (keep_parser, remove_parser):
        command.add_argument("keys", nargs="+", metavar="KEY", help="a run's key, or its beginning")
    keep_parser.add_argument("--undo", action="store_true", help="take the mark away")
    remove_parser.add_argument("--force", action="store_true", help="also what is used or kept; never what is live")
    help_text = "also what other projects of a shared store made or use"
    gc_parser.add_argument("--shared", action="store_true", help=help_text)
    help_text = "grids whose runs stay, besides params.yaml's"
    gc_parser.add_argument("--keep-grids", nargs="*", required=True, metavar="FILE", help=help_text)
    for command in (remove_parser, gc_parser):
        command.add_argument("--dry-run", action="store_true", help="say what would be removed; touch nothing")
    parser.add_grid()
    for command in commands.choices.values():
        command.add_argument("--params", default=argparse.SUPPRESS, help="the file that holds the grid")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(entry(main))
