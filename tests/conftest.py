"""What all tests share: one thread, where the real photographs are, a small seeded generator."""

import contextlib
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

from compclip.model import model_config
from compclip.runs import cluster, run_store
from tests.shipped_files import ROOT

# Machines differ and are shared: a slow example is no failure, and the same examples are drawn everywhere.
settings.register_profile("compclip", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("compclip")
FEW_JOBS = 3  # of a cluster, in a file of tests
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of few test functions start whole commands: they go first, so that no core waits for the last of them.

    A function with many parameters counts once: its files would else come last, and some of them take a minute. A file
    with many jobs of a cluster waits for minutes, and begins before all others.
    """
    jobs = Counter(item.path for item in items if "slurm_there" in getattr(item, "fixturenames", ()))
    functions = {(item.path, getattr(item, "originalname", item.name)) for item in items}
    count = Counter(path for path, _ in functions)
    items.sort(key=lambda item: (jobs[item.path] <= FEW_JOBS, count[item.path]))


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests compare bits; more threads add in another order."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def outside_of_the_checkout(tmp_path_factory) -> Iterator[None]:
    """Its runs, keys and grid are whatever its user has there: a relative path leads to an empty folder."""
    empty = tmp_path_factory.mktemp("empty")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(empty)
        yield
    assert not list(empty.iterdir()), "a test has written where it stood; monkeypatch.chdir(tmp_path) first"


@pytest.fixture(autouse=True, scope="session")
def autograd_without_devices() -> None:
    """The first backward pass starts a thread for each device that torch knows, and a process that has one cannot fork
    and train. Fake tensors bring a GPU that is not there: so the first pass is before them.
    """
    if "FAKE_DEVICE_TESTS" not in os.environ:
        torch.ones(1, requires_grad=True).sum().backward()


@pytest.fixture(autouse=True, scope="session")
def no_arguments() -> None:
    """A command's `entry` takes its options from there: pytest's `-q` would silence warnings for all later tests."""
    sys.argv[1:] = []


@pytest.fixture(autouse=True, scope="session")
def known_models() -> Iterator[None]:
    """CLIP's merges are read, and the size of an architecture is counted, once a process: hundreds of models are tiny ones.

    What is refused is tried anew each time.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_config, "count_weights", _count_once(model_config.count_weights))
        open_clip = sys.modules.get("open_clip")
        if open_clip is not None:  # of tests that make models
            patch.setattr(open_clip.SimpleTokenizer, "__init__", _read_once(open_clip.SimpleTokenizer.__init__))
        yield


def _count_once(count_weights: Callable[[dict, str, int], int]) -> Callable[[dict, str, int], int]:
    """The same function, which remembers the number of each architecture; where it is from decides nothing."""
    counts: dict[str, int] = {}

    def count(model_cfg: dict, where: str, most: int) -> int:
        key = repr((model_cfg, most))
        if key not in counts:
            counts[key] = count_weights(model_cfg, where, most)
        return counts[key]

    return count


def _read_once(initialise: Callable[..., None]) -> Callable[..., None]:
    """The same constructor, whose tokenizers share what they were made of."""
    contents: dict[str, dict] = {}

    def share(tokenizer: object, *args: object, **options: object) -> None:
        key = repr((args, sorted(options.items())))
        if key not in contents:
            initialise(tokenizer, *args, **options)
            contents[key] = dict(vars(tokenizer))
        vars(tokenizer).update(contents[key])

    return share


@pytest.fixture(autouse=True, scope="session")
def no_power_cut() -> Iterator[None]:
    """Thousands of small files would wait for the disk's word that it has them; that they ask for it, tests/base shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def own_store() -> None:
    """A team's store is no place for what tests train."""
    os.environ.pop(run_store.VARIABLE, None)


@pytest.fixture(autouse=True)
def no_fake_device():
    """A process that registered the simulated device cannot be forked once it has trained: others' tests would fail."""
    yield
    module = sys.modules.get("compclip.train.fake_device")
    registered = module is not None and module.register_device.cache_info().currsize
    assert not registered or "FAKE_DEVICE_TESTS" in os.environ, "a test of the simulated device is in its folder"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder with real photographs and benchmark files, or a skip that says where it was looked for."""
    path = Path(os.environ.get("COMPCLIP_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set COMPCLIP_SHARED_DATA to run this test")
    return path


@pytest.fixture(scope="session")
def slurm_there() -> None:
    """A controller that answers and a node that is up, or a skip with the reason."""
    from tests.tiny_project import wait_for

    ping = cluster.run_command("scontrol", "ping")
    if ping.returncode or "DOWN" in ping.stdout:
        why = (ping.stderr or ping.stdout).strip()
        pytest.skip(f"no SLURM answers here ({why}); start one with `slurm/local-cluster.sh up`")
    wait_for(
        lambda: cluster.run_command("sinfo", "-h", "-o", "%T").stdout.split()[0] in ("idle", "mixed", "allocated"), 30
    )


@pytest.fixture(scope="session")
def project(tmp_path_factory) -> Path:
    """All that the train stage needs, for a tiny grid; a test file may have another one of that name."""
    from tests import tiny_project

    return make_once(tmp_path_factory, "project", tiny_project.make)


@pytest.fixture(scope="session")
def finished(project, tmp_path_factory) -> Path:
    """The tiny project with every cell trained and scored, one after the other in this process."""
    from tests import tiny_project

    return make_once(tmp_path_factory, "finished", lambda root: tiny_project.finish(shutil.copytree(project, root)))


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Path]) -> Path:
    """A folder for all processes of this run of tests: the first that asks makes it, the others wait and look."""
    place = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    with open(place / f"{name}.made", "a+") as marker:
        fcntl.flock(marker, fcntl.LOCK_EX)
        marker.seek(0)
        if not marker.read():
            make(place / name)
            marker.write("yes")
    return place / name


@pytest.fixture
def here(project, tmp_path, monkeypatch) -> Path:
    """A fresh copy of the project, and the current folder in it."""
    return _enter(project, tmp_path / "p", monkeypatch)


@pytest.fixture
def here_finished(finished, tmp_path, monkeypatch) -> Path:
    """A fresh copy of the finished project, and the current folder in it."""
    return _enter(finished, tmp_path / "f", monkeypatch)


def _enter(source: Path, copy: Path, monkeypatch) -> Path:
    shutil.copytree(source, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return copy


@pytest.fixture(scope="session")
def unsynced_sqlite() -> Iterator[None]:
    """No commit waits for the disk, which takes milliseconds: a process that is killed loses nothing by it."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def leave_unsynced(connection: object, _record: object) -> None:
        if isinstance(connection, sqlite3.Connection):
            with contextlib.suppress(sqlite3.Error):  # of a file that is no database, or is locked: others will say so
                connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", leave_unsynced)
    yield
    event.remove(Engine, "connect", leave_unsynced)


@pytest.fixture
def forked_commands(monkeypatch) -> None:
    """`python -m compclip...` is a copy of this process, which has its imports: for tests of what it does, not how."""
    from tests.forked_commands import ForkedPopen

    monkeypatch.setattr(subprocess, "Popen", ForkedPopen)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that is the same in every test."""
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def browser():
    """A headless Chromium. Its driver runs an event loop in this thread until it ends: other files need their own."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright; `make setup` installs it")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium; as root: apt-get install chromium")
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()
