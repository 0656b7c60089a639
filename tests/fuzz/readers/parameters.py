"""Parameters: grids, overrides, studies, profiles."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT
from tests.fuzz import mutate
from tests.fuzz.reader import Reader, copied


def readers() -> Iterator[Reader]:
    """Grids as params.yaml, overrides, studies, profiles."""
    yield Reader("params", copied("params.yaml"), lambda _: _planned("params.yaml"))
    for path in sorted((ROOT / "experiments" / "grids").glob("*.yaml"))[::7]:
        grid = str(path.relative_to(ROOT))
        yield Reader(f"grid:{path.stem}", copied("experiments/grids"), lambda _, grid=grid: _planned(grid), (grid,))
    yield Reader("overrides", copied("params.yaml"), _overridden, ())
    yield Reader("studies", copied("params.yaml", "experiments/studies"), _studied, ("experiments/studies/*",))
    yield Reader("profiles", copied("slurm"), _profiled, ("slurm/*.yaml",))


def _planned(path: str, *overrides: str) -> None:
    from compclip.config import plan, read

    params = read.load_params(path, overrides, together=True)
    for _ in plan.build_documents(params):
        pass


def _overridden(rng: random.Random) -> None:
    keys = (
        "train.lr",
        "grid.seeds",
        "grid.methods",
        "methods.clic",
        "data.scenes",
        "evaluate",
        "benchmarks",
        "",
        "a.b",
        "x",
    )
    _planned("params.yaml", *(f"{rng.choice(keys)}{rng.choice(('=', '==', '.'))}{mutate.text(rng)}" for _ in range(2)))


def _studied(rng: random.Random) -> None:
    from compclip.config import read
    from compclip.sweep import study_declaration

    params = read.load_params("params.yaml")
    for path in sorted(Path("experiments/studies").iterdir()):
        study = study_declaration.load_study(path.stem)
        study_declaration.trial_overrides(study, study_declaration.corner_values(study), params.methods)


def _profiled(rng: random.Random) -> None:
    from compclip.launch import profiles

    for path in sorted(Path("slurm").glob("*.yaml")):
        profiles.load_profile(path)
