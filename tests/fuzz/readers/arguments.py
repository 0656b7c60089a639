"""Words of command lines."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz import mutate
from tests.fuzz.reader import Reader, copied


def readers() -> Iterator[Reader]:
    """Each command with words of its own and others."""
    for name, options in OPTIONS.items():
        yield Reader(f"arguments:{name}", _project, _called(name, options), ())


def _project(folder: Path) -> None:
    from tests import fake_runs

    copied("params.yaml", "slurm", "experiments/studies")(folder)
    fake_runs.make(folder)


# What each command is tried with: words that mean something to it, and others.
OPTIONS: dict[str, tuple[str, ...]] = {
    "config": ("check", "show", "use", "plan", "--out", "--params", "pretrained-scenes-scenes-0", "train.lr=1"),
    "prepare.shard_stages": ("--data", "scenes", "--rewrite", "--annotate", "--params"),
    "model": ("--backbone", "scenes", "--params"),
    "evaluate": (
        "--cell",
        "--checkpoint",
        "--census",
        "--model",
        "--benchmarks",
        "--out",
        "--device",
        "--params",
        "cpu",
    ),
    "train": ("--cell", "--method", "--params", "clic"),
    "report": ("--partial", "--out", "--params", "--root"),
    "runs": ("list", "keep", "remove", "gc", "--dry-run", "--keep-grids"),
    "runs.status": ("--params", "--all", "-n"),
    "launch": (
        "slurm/a100.yaml",
        "--dry-run",
        "--stage",
        "annotate",
        "--data",
        "scenes",
        "--shards-per-task",
        "--params",
    ),
    "sweep": ("--study", "--list", "--trials", "--storage", "--params"),
}


def _called(name: str, options: tuple[str, ...]) -> Callable[[random.Random], object]:
    def call_main(rng: random.Random) -> object:
        import importlib

        module = f"compclip.{name}"
        main = importlib.import_module(
            module if name in ("prepare.shard_stages", "runs.status") else f"{module}.__main__"
        ).main
        words = [rng.choice(options) if rng.random() < 0.6 else mutate.text(rng) for _ in range(rng.randint(0, 5))]
        return main(words if name != "launch" or "--dry-run" in words else [*words, "--dry-run"])

    return call_main
