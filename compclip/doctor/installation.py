"""What is there and what is missing before anything runs: a row each, with the fix. No network but MLflow's server.

Versions are those of the packages' metadata: to import them all would take most of a minute on a network disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from compclip.base import worker_processes
from compclip.base.command_line import GRID_FILE
from compclip.base.errors import UserError
from compclip.base.lazy_torch import torch
from compclip.doctor.check_rows import FAILED, OK, SKIPPED, CheckRow, catch_errors, judge
from compclip.runs import gpus

PYTHON = (3, 11)
LEAST_GIB = 1  # free disk; two checkpoints of a ViT-B/32 with its optimiser take 4
LEAST_SHARED_GIB = 1  # free memory that workers share
SHOWN = ("torch", "open_clip_torch", "dvc", "mlflow", "optuna", "spacy", "submitit")
COMMAND_S = 5
SERVER_S = 3
INPUTS = "inputs of the grid"


def check_installation(root: Path) -> Iterator[CheckRow]:
    """Yield a row for each thing that a project in `root` needs, or may need."""
    checks = {
        "Python": check_python(),
        "packages": check_packages(),
        "spaCy's model": check_parser_model(),
        "WordNet": check_wordnet(),
        "git": check_git(root),
        "DVC": check_dvc(root),
        "project": check_project(root),
        INPUTS: check_inputs(root),
        "store": check_store(root),
        "shared memory": check_shared_memory(),
        "GPUs": check_gpus(),
        "SLURM": check_slurm(),
        "MLflow": check_mlflow(root),
    }
    for name, rows in checks.items():
        yield from catch_errors(name, rows)


def check_inputs(root: Path) -> Iterator[CheckRow]:
    """Yield what the grid of a project reads and that is not there; word lists have rows of their own."""
    if not (root / GRID_FILE).is_file():
        return
    from compclip.config import read
    from compclip.fetch import missing_inputs

    missing = missing_inputs.list_missing_files(read.load_params(root / GRID_FILE), root)
    for item in missing:
        yield CheckRow(item.key, item.path, state=FAILED, reason=f"{item.fault}; {item.fix}")
    lack = missing_inputs.describe_fetch(missing) if missing else ""
    yield judge(INPUTS, "" if missing else "all there", "", not missing, lack)


def check_python() -> Iterator[CheckRow]:
    """Yield the version of Python."""
    least = ".".join(map(str, PYTHON))
    good = sys.version_info >= PYTHON
    reason = f"make the environment with Python {least} or later"
    yield judge("Python", platform.python_version(), f">= {least}", good, reason)


def check_packages() -> Iterator[CheckRow]:
    """Yield how many packages are there, the versions of some, and each that is missing or of another version."""
    rows = list(map(check_requirement, list_requirements()))
    yield CheckRow("packages", f"{sum(row.state == OK for row in rows)} of {len(rows)}")
    for row in rows:
        if row.state == FAILED or row.name in SHOWN:
            yield row


def list_requirements() -> list[str]:
    """Return what compclip requires without extras: of a checkout by its pyproject.toml, else by its metadata."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    if project.is_file():
        return tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    return [requirement for requirement in metadata.requires("compclip") or () if "extra ==" not in requirement]


def check_requirement(text: str) -> CheckRow:
    """Return the row of a package, which may be missing or of a version that is not allowed."""
    required = Requirement(text)
    version = _find_version(required.name)
    good = bool(version) and required.specifier.contains(version, prereleases=True)
    fix = f"pip install '{text.partition(';')[0].strip()}'"
    return judge(required.name, version or "missing", str(required.specifier), good, fix)


def _find_version(name: str) -> str:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return ""


def check_parser_model() -> Iterator[CheckRow]:
    """Yield the English model that annotates captions."""
    from compclip.text.parser_models import model_name

    try:
        yield CheckRow("spaCy's model", model_name())
    except UserError as error:
        yield CheckRow("spaCy's model", "missing", state=FAILED, reason=str(error))


def check_wordnet() -> Iterator[CheckRow]:
    """Yield where WordNet is."""
    from compclip.text import wordnet_files

    folder = wordnet_files.find_installed()
    yield judge("WordNet", str(folder or "missing"), "", folder is not None, wordnet_files.ADVICE)


def check_git(root: Path) -> Iterator[CheckRow]:
    """Yield git's version, and whether the project is in a repository."""
    version = _run_command("git", "--version")
    if not version:
        yield CheckRow("git", "missing", state=FAILED, reason="install git: DVC needs it")
        return
    inside = _run_command("git", "-C", str(root), "rev-parse", "--is-inside-work-tree") == "true"
    yield judge("git", version.removeprefix("git version "), "", inside, "this is no repository; run `git init`")


def check_dvc(root: Path) -> Iterator[CheckRow]:
    """Yield whether DVC can be called and keeps track of the project."""
    version = _find_version("dvc")
    if not version or not (shutil.which("dvc") or (Path(sys.executable).parent / "dvc").is_file()):
        reason = "no command `dvc`; activate the environment, or `pip install dvc`"
        yield CheckRow("DVC", version or "missing", state=FAILED, reason=reason)
        return
    yield judge("DVC", version, "", (root / ".dvc").is_dir(), "this is no project of DVC's; run `dvc init`")


def check_project(root: Path) -> Iterator[CheckRow]:
    """Yield whether this is a project."""
    missing = [name for name in ("params.yaml", "dvc.yaml") if not (root / name).is_file()]
    reason = f"no {' and no '.join(missing)} here; `compclip init` lays out a project"
    yield judge("project", "" if missing else "params.yaml, dvc.yaml", "", not missing, reason)


def check_store(root: Path) -> Iterator[CheckRow]:
    """Yield the room of the store's disk, and what its file system can: locks, links, hard links from the project."""
    from compclip.runs import run_store

    store = run_store.store_folder(root)
    folder = next(path for path in (store.absolute(), *store.absolute().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free / 2**30
    fix = f"free space below {folder}, or set COMPCLIP_STORE to another disk"
    yield judge("disk of the store", f"{free:.0f} GiB free", f">= {LEAST_GIB} GiB", free >= LEAST_GIB, fix)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".doctor-") as probe:
        yield check_locks(Path(probe))
        yield from check_links(root, Path(probe))


def check_locks(folder: Path) -> CheckRow:
    """Return whether a lock in a folder keeps others out."""
    path = folder / "lock"
    with open(path, "w") as holder, open(path) as other:
        try:
            fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            reason = "no locks on this file system: the run of a killed process waits a minute for the next one"
            return CheckRow("locks", "none", state=SKIPPED, reason=reason)
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return CheckRow("locks", "hold")
    reason = "a lock keeps nobody out: mount the file system with locks, or set COMPCLIP_STORE to another"
    return CheckRow("locks", "hold nothing", state=FAILED, reason=reason)


def check_links(root: Path, folder: Path) -> Iterator[CheckRow]:
    """Yield whether a file of the project and one of the store can be the same, and whether links can be made."""
    ways: dict[str, tuple[Callable[..., None], str]] = {
        "hard links": (os.link, ": checkpoints take their size once more"),
        "symbolic links": (os.symlink, ""),
    }
    with tempfile.NamedTemporaryFile(dir=root, prefix=".doctor-") as file:
        for name, (make_link, loss) in ways.items():
            try:
                make_link(file.name, folder / name)
                yield CheckRow(name, "from the project to the store")
            except OSError as error:
                yield CheckRow(name, "none", state=SKIPPED, reason=f"{error.strerror}: files are copied{loss}")


def check_shared_memory() -> Iterator[CheckRow]:
    """Yield the memory by which workers pass batches: containers often have 64 MiB."""
    free_bytes = worker_processes.measure_free()
    if free_bytes is None:
        yield CheckRow("shared memory", state=SKIPPED, reason=f"no {worker_processes.FOLDER} here")
        return
    free = free_bytes / 2**30
    reason = f"`train.workers` pass batches there: start the container with --shm-size {8 * LEAST_SHARED_GIB}g"
    good = free >= LEAST_SHARED_GIB
    yield judge("shared memory", f"{free:.1f} GiB free", f">= {LEAST_SHARED_GIB} GiB", good, reason)


def check_gpus() -> Iterator[CheckRow]:
    """Yield the GPUs; torch is imported only where there should be some."""
    reason, to_cpu = gpus.explain_request()
    if not reason:
        yield CheckRow("GPUs", "none", state=SKIPPED, reason="no GPU is asked for or present: all runs on the CPU")
        return
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    fix = f"{reason}, and torch sees none: {gpus.describe_cuda()}; repair that, or {to_cpu}"
    value = f"{', '.join(names)}; `compclip doctor --gpu` checks them" if names else "none"
    yield judge("GPUs", value, "", bool(names), fix)


def check_slurm() -> Iterator[CheckRow]:
    """Yield SLURM's version, and whether jobs that ended can be asked for."""
    version = _run_command("sbatch", "--version")
    if not version:
        yield CheckRow("SLURM", state=SKIPPED, reason="none here: runs are processes of this machine")
        return
    answers = bool(_run_command("sacct", "--version"))
    yield judge("SLURM", version, "", answers, "no `sacct`, which tells how jobs ended: ask for accounting")


def check_mlflow(root: Path) -> Iterator[CheckRow]:
    """Yield where MLflow's store is, and whether its server answers or its file can be written."""
    from compclip.base.urls import mask_url
    from compclip.track import tracking_store

    try:
        uri = tracking_store.store_uri(None)
        tracking_store.require_server(uri, SERVER_S)
    except UserError as error:
        reason = f"{error} (${tracking_store.VARIABLE})"
        yield CheckRow("MLflow", "no store", state=FAILED, reason=reason)
        return
    file = tracking_store.sqlite_file(uri)
    path = root / file if file else root
    folder = next(parent for parent in path.absolute().parents if parent.is_dir())
    reason = f"{folder}: cannot be written; make it writable, or set {tracking_store.VARIABLE}"
    yield judge("MLflow", mask_url(uri), "", not file or os.access(folder, os.W_OK), reason)


def _run_command(*command: str) -> str:
    """Return the first line that a command prints; "" where it is missing, fails or does not answer."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
        process = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=True)
        return process.stdout.splitlines()[0]
    return ""
