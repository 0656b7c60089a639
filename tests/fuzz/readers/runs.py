"""Files of a store that others write, and tables that reports are made with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.reader import Reader, copied


def readers() -> Iterator[Reader]:
    """Stores, claims, published numbers."""
    yield from (*_runs(), *_tables())


def _runs() -> Iterator[Reader]:
    yield Reader("runs:store", _stored, _listed, ("store/**/*", "store/**/*.json*", "runs/**/*"))


def _stored(folder: Path) -> None:
    """Two finished runs of a store, one of them published, and one that is being trained."""
    from tests import fake_store

    first, second, third = fake_store.runs(fake_store.project(folder, seeds=3))
    fake_store.finish(first, publish=True)
    fake_store.finish(second)
    third.folder.path.mkdir(parents=True)
    (third.folder.path / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0, "time": 1.7e9}\n')


def _listed(_: random.Random) -> None:
    from compclip.runs import __main__ as runs_command
    from compclip.runs import run_table, status

    status.format_page(*run_table.list_runs("params.yaml"), 120)
    runs_command.main(["list"])
    runs_command.main(["gc", "--keep-grids", "params.yaml", "--dry-run"])


def _tables() -> Iterator[Reader]:
    yield Reader("claims", copied("experiments/claims.yaml"), _claimed)
    yield Reader("published", copied("experiments/published"), _published)


def _claimed(_: random.Random) -> object:
    from compclip.report import claims

    return claims.read_claims(Path("experiments/claims.yaml"))


def _published(_: random.Random) -> object:
    from compclip.report import published_models, published_numbers
    from perf import published_coverage

    folder = Path("experiments/published")
    published_coverage.read_reasons(folder / published_coverage.REASONS)
    models = published_models.read_models(folder / published_models.FOLDER)
    return published_numbers.group_by_model(
        published_numbers.read_numbers(folder)
    ), published_models.compute_percentile("sugarcrepe/swap_att", 60.0, models)
