"""Damage of files that the package wrote, then the commands that read them; exit code 1 where one ends in a traceback.

    python -m perf.faults.own_files --edits 2000 --seed 0    edits of a small finished project, one at a time
    python -m perf.faults.own_files --again 17               one edit: its file, and what each command said

Each edit changes one file, whose times stay: every second one its bytes, as a disk or a copy does, else a key, a value
or a digit of what is JSON or YAML. A command then says the same, says something else, or refuses in one line. An edit
is silent where scores or report say something else and nothing refuses, not even `runs check`.

Takes a second an edit; needs nothing.
"""

import argparse
import contextlib
import functools
import os
import random
import re
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import yaml

from compclip.base.errors import UserError
from compclip.evaluate import __main__ as evaluate_command
from compclip.report import __main__ as report_command
from compclip.report import svg_plots
from compclip.runs import __main__ as runs_command
from compclip.runs import key_parts, keys, status
from compclip.train import __main__ as train_command
from perf.faults.fuzz import mutate
from perf.faults.made_inputs import DEADLINE_S, TookTooLong, place_error, set_deadline, silence
from tests import tiny_project

KEY = re.compile(rb'"([a-zA-Z]\w*)": ')  # of JSON
SPEED = re.compile(r"  \S+ samples/s.*|^note: data_wait.*\n", re.MULTILINE)  # of a line of training
SAME, OTHER, REFUSED, TRACEBACK = "same", "other", "refused", "traceback"
NUMBERS = ("train", "evaluate", "report")  # commands whose words are results
USERS = ("world", "params.yaml", "tiny.json", "reports")  # written by users, or never read
CELL = tiny_project.cell("finetune")
COMPARED = ("runs check", "keys", "train --method", "train", "evaluate", "report")  # whose words have no times
Command = Callable[[], object]
COMMANDS: dict[str, Command] = {
    "status": lambda: status.main([]),
    "runs": lambda: runs_command.main([]),
    "runs check": lambda: runs_command.main(["check"]),
    "runs why": lambda: key_parts.main([CELL, "train.lr=2e-3"]),
    "keys": lambda: keys.main([]),
    "train --method": lambda: train_command.main(["--method", "finetune"]),
    "train": lambda: train_command.main(["--cell", CELL, "train.lr=2e-3", "train.max_steps=1"]),
    "evaluate": lambda: evaluate_command.main(["--cell", CELL]),
    "report": lambda: report_command.main(["--partial"]),
}


def make(root: Path) -> Path:
    """A project whose every cell is trained, scored and reported."""
    return complete(tiny_project.finish(tiny_project.make(root)))


def complete(root: Path) -> Path:
    """The stages besides of a project whose cells are trained and scored."""
    with contextlib.chdir(root), silence():
        tiny_project.plan()
        assert evaluate_command.main(["--census", "benchmark@sugarcrepe"]) == 0
        assert train_command.main(["--method", "finetune"]) == 0
        assert report_command.main(["--partial"]) == 0
    return root


def list_files(project: Path) -> list[Path]:
    """Every file of the package's own, by its path in the project."""
    paths = (path.relative_to(project) for path in sorted(project.rglob("*")) if path.is_file())
    return [path for path in paths if path.parts[0] not in USERS]


def edit(raw: bytes, rng: random.Random) -> bytes:
    """Flip one bit, of a name in JSON above all; cut the end, insert or swap some bytes."""
    at = rng.randrange(max(1, len(raw)))
    to = at + rng.choice((1, 1, 8, 64))
    ways = (
        raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :] if raw else b"x",
        raw[:at],
        raw[:at] + rng.randbytes(rng.choice((1, 8, 64))) + raw[at:],
        raw[:at] + raw[to : to + 8] + raw[at:to] + raw[to + 8 :],
    )
    keys = list(KEY.finditer(raw))
    if keys and rng.random() < 0.5:  # a bit of a name is rarely hit, and changes most
        key = rng.choice(keys)
        at = rng.randrange(key.start(1), key.end(1))
        return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]
    return rng.choice((ways[0], *ways))  # bits flip more often


def edit_values(raw: bytes, suffix: str, rng: random.Random) -> bytes:
    """Change a digit, or keys and values, of a document; another file's bytes."""
    digits = [match.start() for match in re.finditer(rb"[0-9]", raw)]
    if digits and rng.random() < 0.5:
        at = rng.choice(digits)
        return raw[:at] + rng.choice(b"0123456789".replace(raw[at : at + 1], b"").decode()).encode() + raw[at + 1 :]
    parse, write = mutate.FORMATS[suffix]
    try:
        return write(mutate.document(parse(raw.decode()), rng)).encode("utf-8", "surrogatepass")
    except (ValueError, yaml.YAMLError):
        return edit(raw, rng)


def damage(project: Path, copy: Path, number: int) -> Path:
    """Copy the project with edit `number` in one file; return that file's path in it."""
    rng = random.Random(number)
    files = list_files(project)
    kinds: dict[tuple[str, ...], list[Path]] = {}
    for path in files:
        kinds.setdefault((path.parts[0], path.name if path.parts[0] != "plan" else path.parts[1]), []).append(path)
    damaged_file = rng.choice(kinds[rng.choice(sorted(kinds))])
    copy_project(project, copy, damaged_file)
    path = copy / damaged_file
    status_before = path.stat()
    path.chmod(0o644)
    with open(path, "r+b") as file:  # in place: every link shows it
        raw = file.read()
        by_value = path.suffix in mutate.FORMATS and rng.random() < 0.5
        raw = edit_values(raw, path.suffix, rng) if by_value else edit(raw, rng)
        file.seek(0)
        file.write(raw)
        file.truncate()
    os.utime(path, ns=(status_before.st_atime_ns, status_before.st_mtime_ns))
    return damaged_file


def copy_project(project: Path, copy: Path, damaged_file: Path) -> None:
    """Copy with the links within the project; large files that are not to be damaged are links to the project's."""
    copies: dict[int, Path] = {}
    damaged_inode = (project / damaged_file).stat().st_ino
    copy.mkdir()
    for source in project.rglob("*"):
        target = copy / source.relative_to(project)
        if source.is_dir():
            target.mkdir(parents=True)
            continue
        status = source.stat()
        is_large = status.st_size > 1 << 20 and status.st_ino != damaged_inode
        first = source if is_large else copies.setdefault(status.st_ino, target)
        os.link(first, target) if first != target else shutil.copy2(source, target)


def run(place: Path, command: Command) -> tuple[str, str]:
    """Run a command in a folder; return what became of it, and its words."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(train_command, "train_runs", lambda *_: {}))
        stack.enter_context(mock.patch.object(svg_plots, "export_svg", lambda *_, **__: ""))  # half of a report's time
        stack.enter_context(contextlib.chdir(place))
        out = stack.enter_context(silence())
        try:
            with set_deadline(6 * DEADLINE_S):
                command()
        except UserError as error:
            return REFUSED, str(error)
        except TookTooLong:
            return TRACEBACK, f"more than {6 * DEADLINE_S:g} s"
        except SystemExit as error:
            return REFUSED, f"exit code {error.code}"
        except Exception as error:
            return TRACEBACK, place_error(error) + ("\n" + traceback.format_exc() if "AGAIN" in os.environ else "")
    metrics = place / "reports" / "metrics.json"
    return SAME, SPEED.sub("", out.getvalue()) + (metrics.read_text() if command is COMMANDS["report"] else "")


def try_edit(project: Path, place: Path, number: int) -> tuple[Path, dict[str, tuple[str, str]]]:
    """Try all commands after edit `number`, each on a fresh copy's state left by those before."""
    path = damage(project, place, number)
    try:
        outcomes = {name: run(place, command) for name, command in COMMANDS.items()}
        for name in COMPARED:
            if outcomes[name][0] == SAME and outcomes[name][1] != expected_words(project, name):
                outcomes[name] = (OTHER, outcomes[name][1])
        return path, outcomes
    finally:
        shutil.rmtree(place)


@functools.cache
def expected_words(project: Path, name: str) -> str:
    """Return what a command says of the whole project."""
    with tempfile.TemporaryDirectory(prefix="own-files-") as folder:
        shutil.copytree(project, Path(folder) / "p", symlinks=True)
        return run(Path(folder) / "p", COMMANDS[name])[1]


def is_silent(outcomes: dict[str, tuple[str, str]]) -> bool:
    """Return whether results differ and nothing says why; a report says of what is missing that it is."""
    kinds = {name: kind for name, (kind, _) in outcomes.items()}
    if "3 cells: 3 complete" not in outcomes["report"][1]:
        kinds["report"] = SAME
    changed = OTHER in (kinds[name] for name in NUMBERS)
    return changed and kinds["runs check"] == SAME and REFUSED not in kinds.values()


def main(argv: list[str]) -> int:
    """Try the edits; print the counts, and every different traceback and silent file with its first edit."""
    parser = argparse.ArgumentParser(prog="python -m perf.faults.own_files", description=__doc__)
    parser.add_argument("--edits", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=int)
    parser.add_argument("--project", type=Path, help="a project that `make` made")
    args = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    other_words: Counter[tuple[str, str]] = Counter()
    unnoticed: Counter[str] = Counter()
    defects: dict[str, str] = {}
    tried = 0
    with tempfile.TemporaryDirectory(prefix="own-files-") as folder:
        project = args.project or make(Path(folder) / "project")
        first = args.seed * 1_000_000
        for number in [args.again] if args.again is not None else range(first, first + args.edits):
            path, outcomes = try_edit(project, Path(folder) / f"edit{number}", number)
            for name, (kind, words) in outcomes.items():
                counts[kind] += 1
                if kind == OTHER:
                    other_words[name, path.name if path.parts[0] != "plan" else "plan"] += 1
                if kind == TRACEBACK:
                    defects.setdefault(f"{name}: {words}", f"{number} {path}")
                if args.again is not None:
                    print(f"{path}: {name}: {kind}: {words}")
            unnoticed[path.name] += {kind for kind, _ in outcomes.values()} == {SAME}
            if is_silent(outcomes):
                defects.setdefault(f"silent: {path.parts[0]}/{path.name}", f"{number} {path}")
            tried += 1
            if tried % 50 == 0:
                print(f"{tried} edits, {counts[TRACEBACK]} tracebacks", *defects.items(), sep="\n", flush=True)
    print(", ".join(f"{counts[kind]} {kind}" for kind in (SAME, OTHER, REFUSED, TRACEBACK)))
    print("other words than of the whole project: ", dict(other_words.most_common()))
    print("no command says anything else: ", dict(unnoticed.most_common()))
    for words, where in defects.items():
        print(f"  {where}  {words}")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
