"""Create a project from the files of the package, or compare an existing project with a newer package.

An installed package has these files in compclip/project_files, a checkout has them at its root. `.compclip.json`
records the hash of each file as it was written to the project. A file with another hash was edited by the user, and is
never overwritten. params.yaml belongs to the user from the start.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, unknown
from compclip.base.files import check_output_folder, read_mapping, write_atomic, write_json
from compclip.config.read import DEFAULT as PARAMS
from compclip.config.read import GRIDS, write_out

MANIFEST = ".compclip.json"
PACKAGE = Path(__file__).resolve().parent.parent
# The files and whole folders that a new project gets, besides params.yaml.
PROJECT_FILES = (
    ".dvc/config", ".dvcignore", ".gitignore", "dvc.yaml", "experiments/backbones", "experiments/claims.yaml",
    "experiments/grids", "experiments/published", "experiments/scenes/dvc.yaml", "experiments/studies", "slurm",
)  # fmt: skip
EVERY_BENCHMARK = GRIDS / "every_benchmark.yaml"
Change = Literal["new", "changed", "edited", "removed"]
MEANINGS: dict[Change, str] = {
    "new": "new in the package",
    "changed": "not edited here, and the package has another version",
    "edited": "edited here, and the package has another version; it is kept",
    "removed": "removed here, or from the package; it stays as it is",
}


@dataclass(frozen=True)
class FileDifference:
    """A file that differs between a project and the package; `path` is relative to the root of both."""

    path: str
    change: Change


def find_source() -> Path:
    """Return the folder of the package's project files. Raises UserError if the installation lacks them."""
    for folder in (PACKAGE / "project_files", PACKAGE.parent):
        if (folder / "dvc.yaml").is_file() and (folder / GRIDS).is_dir():
            return folder
    raise UserError(f"{PACKAGE}: installed without its project files; install the package again")


def find_params(path: str | Path = PARAMS) -> Path:
    """Return the file of parameters; outside of a project, the package's grid of all benchmarks."""
    return Path(path) if path != PARAMS or Path(path).exists() else find_source() / EVERY_BENCHMARK


def list_files(source: Path) -> list[str]:
    """Return the project files below `source`, sorted, as paths relative to it."""
    names = set()
    for root in map(source.joinpath, PROJECT_FILES):
        for path in (root, *root.rglob("*")):
            if path.is_file():
                names.add(path.relative_to(source).as_posix())
    return sorted(names)


def compare(source: Path, folder: Path) -> list[FileDifference]:
    """Return the files that differ between the package and a project, sorted by path."""
    laid_out = read_manifest(folder)
    names = list_files(source)
    differences = []
    for name in sorted({*names, *laid_out}):
        if name in names:
            change = _compare_file(name, source, folder, laid_out)
        else:
            change = "removed" if (folder / name).exists() else None
        if change:
            differences.append(FileDifference(name, change))
    return differences


def _compare_file(name: str, source: Path, folder: Path, laid_out: dict[str, str]) -> Change | None:
    package_hash = _hash(source / name)
    path = folder / name
    if not path.exists():
        return "removed" if name in laid_out else "new"
    current = _hash(path)
    if current == package_hash:
        return None
    if current == laid_out.get(name):
        return "changed"
    return None if package_hash == laid_out.get(name) else "edited"


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, str]:
    """Return the recorded hash of each file, by path; empty if the folder is not a project."""
    path = folder / MANIFEST
    return dict(read_mapping(path)["files"]) if path.exists() else {}


def apply(source: Path, folder: Path, differences: Sequence[FileDifference]) -> None:
    """Copy new files, and changed ones that nobody edited; record the hashes of all that then equal the package's."""
    for difference in differences:
        if difference.change in ("new", "changed"):
            path = folder / difference.path
            package_path = source / difference.path
            write_atomic(path, package_path.read_bytes())
            path.chmod(package_path.stat().st_mode & 0o777)
    hashes = read_manifest(folder)
    for name in list_files(source):
        package_hash = _hash(source / name)
        if (folder / name).exists() and _hash(folder / name) == package_hash:
            hashes[name] = package_hash
    write_json(folder / MANIFEST, {"version": metadata.version("compclip"), "files": dict(sorted(hashes.items()))})


def create(source: Path, folder: Path, grid: str) -> None:
    """Create a project: git, DVC, the package's files, and `grid` as its params.yaml ("": the default grid).

    Raises UserError for an unknown grid, before anything is written, and if git or DVC fail.
    """
    params = find_grid(source, grid) if grid else source / PARAMS
    folder.mkdir(parents=True, exist_ok=True)
    _start_repositories(folder)
    apply(source, folder, compare(source, folder))
    if not (folder / PARAMS).exists():
        write_atomic(folder / PARAMS, write_out(params))


def find_grid(source: Path, name: str) -> Path:
    grids = {path.stem: path for path in (source / GRIDS).glob("*.yaml")}
    if name not in grids:
        raise unknown("grid", name, grids)
    return grids[name]


def _start_repositories(folder: Path) -> None:
    """Create git and DVC repositories if they are missing; without git, DVC works alone."""
    try:
        inside = _run("git", "rev-parse", "--show-toplevel", folder=folder)
        if inside.returncode:
            _require(_run("git", "init", "--quiet", folder=folder), folder)
            inside = _run("git", "rev-parse", "--show-toplevel", folder=folder)
        options = [] if Path(inside.stdout.strip()).resolve() == folder.resolve() else ["--subdir"]
    except FileNotFoundError:
        options = ["--no-scm"]
        messages.note("git: not installed; the project is created without it")
    if not (folder / ".dvc").exists():
        _require(_run(sys.executable, "-m", "dvc", "init", *options, folder=folder), folder)
        (folder / ".dvc" / "config").unlink(missing_ok=True)  # empty; the package's file replaces it
        (folder / ".dvcignore").unlink(missing_ok=True)


def _run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _require(process: subprocess.CompletedProcess[str], folder: Path) -> None:
    if process.returncode:
        words = [word for word in process.args if not word.startswith("-")]
        message = (process.stderr.strip() or process.stdout.strip()).splitlines()[-1:]
        raise UserError(f"{folder}: `{' '.join(words[-2:])}` failed: {''.join(message)}; repair that and run it again")


def describe(differences: Sequence[FileDifference]) -> Iterator[str]:
    """Yield one line for each kind of difference, followed by its files."""
    for change, meaning in MEANINGS.items():
        paths = [f"  {d.path}" for d in differences if d.change == change]
        if paths:
            yield f"{change} ({meaning}):"
            yield from paths


def show_difference(source: Path, folder: Path, difference: FileDifference) -> str:
    """Return a unified diff from the project's file to the package's, or one line with the hashes of binary files."""
    name = difference.path
    try:
        here = (folder / name).read_text(encoding="utf-8").splitlines(True)
        there = (source / name).read_text(encoding="utf-8").splitlines(True)
    except UnicodeDecodeError:
        return f"{name}: not a text; {_hash(folder / name)[:12]} here, {_hash(source / name)[:12]} in the package\n"
    return "".join(difflib.unified_diff(here, there, f"here/{name}", f"package/{name}"))


def run(args: argparse.Namespace) -> int:
    """Create a project, or print what the package would change in an existing one."""
    source = find_source()
    folder = args.folder
    if (folder / PARAMS).exists() or (folder / MANIFEST).exists():
        if args.grid:
            find_grid(source, args.grid)
            command = f"compclip config use {GRIDS}/{args.grid}.yaml"
            raise UserError(f"--grid {args.grid}: {folder} is a project already; run `{command}` in it")
        upgrade(source, folder, args.update, args.diff)
        return 0
    if args.diff or args.update:
        raise UserError(f"{folder}: has no {PARAMS}; leave out --diff and --update to begin a project in it")
    create(source, folder, args.grid)
    print(f"{folder}: a project with {'the grid ' + args.grid if args.grid else 'the default grid'}")
    print("Next:" + (f" cd {folder};" if folder != Path(".") else "") + " `compclip doctor`, then `compclip repro`")
    return 0


def upgrade(source: Path, folder: Path, updates: bool, shows: bool) -> None:
    """Print what differs from the package's files; `updates`: copy those that nobody edited; `shows`: print diffs."""
    if source.resolve() == folder.resolve():
        raise UserError(f"{folder}: is the checkout that compclip runs from; its files are the package's")
    differences = compare(source, folder)
    diffs = [show_difference(source, folder, d) for d in differences if d.change in ("changed", "edited")]
    if updates:
        apply(source, folder, differences)
    print(*describe(differences) if differences else [f"{folder}: nothing new in the package"], sep="\n")
    if shows:
        print("", *diffs, sep="\n", end="")
    elif differences and not updates:
        print("`compclip init --diff` shows the differences, `--update` copies new and changed files")


def add_options(parser: CommandParser) -> None:
    """Add the arguments of `run`: the folder of the project, and options."""
    parser.add_argument("folder", nargs="?", type=check_output_folder, default=Path("."), help="default: this folder")
    parser.add_argument("--grid", default="", help="a file of experiments/grids; default: the embedded scenes' grid")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--diff", action="store_true", help="show what differs from the package's files")
    which.add_argument("--update", action="store_true", help="copy new files, and changed ones that nobody edited")
