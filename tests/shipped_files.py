"""The project's own files as git has them: who uses a checkout has another grid in use, runs, and files of their own."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What commands write into a project, and what its user edits.
STATE = frozenset(
    (
        *("params.yaml", "dvc.lock", "runs", "store", "keys", "plan", "trained", "tuned", "results", "data", "models"),
        *("reports", "field", "studies", "mlflow", "mlflow.db", ".work", ".compclip.json"),
    )
)


def git(*command: str) -> str:
    """What git answers in the checkout; "" where there is no git or no repository."""
    try:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def lay_out_project() -> Path:
    """A project as it is shipped: the grid that is staged (without git the checkout's), and links to the other files."""
    folder = Path(tempfile.mkdtemp(prefix="shipped-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    params = git("show", ":./params.yaml") or (ROOT / "params.yaml").read_text(encoding="utf-8")
    (folder / "params.yaml").write_text(params, encoding="utf-8")
    for name in ("README.md", "docs", "dvc.yaml", "experiments", "slurm"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def list_shipped(pattern: str) -> list[Path]:
    """The files of the checkout that match, without those that git does not track, sorted."""
    names = git("ls-files", "-z", "--", f":(glob){pattern}")
    return [ROOT / name for name in sorted(names.split("\0")) if name] or sorted(ROOT.glob(pattern))


def refuse_state(event: str, arguments: tuple) -> None:
    """An audit hook: raise AssertionError where the state of the checkout is opened or listed."""
    if event not in ("open", "os.listdir", "os.scandir") or not isinstance(arguments[0], (str, Path)):
        return
    is_below_descriptor = event == "open" and arguments[1] is None  # os.open, whose relative paths may begin elsewhere
    if is_below_descriptor and not os.path.isabs(arguments[0]):
        return
    try:
        path = os.path.abspath(arguments[0])
    except OSError:  # where it stands is gone
        return
    if path.startswith(f"{ROOT}/") and path.removeprefix(f"{ROOT}/").partition("/")[0] in STATE:
        raise AssertionError(
            f"{path}: is the state of this checkout; take SHIPPED_PROJECT, or a project of the test's own"
        )


SHIPPED_PROJECT = lay_out_project()
SHIPPED_PARAMS = SHIPPED_PROJECT / "params.yaml"
sys.addaudithook(refuse_state)
