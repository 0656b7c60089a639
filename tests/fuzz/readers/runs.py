"""Files of runs and of their store, and tables that reports are made with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.fuzz.reader import Reader, copied

HERE = Path()


def readers() -> Iterator[Reader]:
    """Runs, claims, published numbers, prepared captions."""
    yield from (*_runs(), *_tables())


def _runs() -> Iterator[Reader]:
    from tests import fake_runs

    files = ("runs/**/*", "results/**/*")
    yield Reader("runs:report", lambda folder: fake_runs.make(folder) and None, _collected, files)
    yield Reader("runs:store", _stored, _listed, ("store/**/*", "store/**/*.json*", "runs/**/*"))
    yield Reader("runs:embeddings", _embedded, _known, ("cache/*",))
    yield Reader("runs:tasks", _sent, _looked, (".work/shards/**/*.json",))
    yield Reader("runs:read", lambda folder: fake_runs.make(folder) and None, _read_runs, files)


def _stored(folder: Path) -> None:
    """Two finished runs of a store, one of them published, and one that is being trained."""
    from tests import fake_store

    first, second, third = fake_store.runs(fake_store.project(folder, seeds=3))
    fake_store.finish(first, publish=True)
    fake_store.finish(second)
    third.folder.path.mkdir(parents=True)
    (third.folder.path / "metrics.jsonl").write_text('{"step": 1, "loss": 1.0, "time": 1.7e9}\n')


def _embedded(folder: Path) -> None:
    """Embeddings of two evaluations."""
    from compclip.evaluate.embedding_cache import EmbeddingCache

    for number in range(2):
        EmbeddingCache(folder / "cache").add(
            {bytes([number, i]) * 16: np.eye(4, dtype=np.float32)[i] for i in range(3)}
        )


def _known(_: random.Random) -> None:
    from compclip.evaluate.embedding_cache import EmbeddingCache

    for vector_D in (
        EmbeddingCache(Path("cache")).lookup({bytes([n, i]) * 16 for n in range(2) for i in range(3)}).values()
    ):
        assert np.isfinite(vector_D).all()


def _sent(folder: Path) -> None:
    """A stage of three shards: one is made, two are a task that a process of this machine was to make."""
    from compclip.base.files import write_json
    from compclip.runs import requested_shards
    from compclip.runs.shard_tasks import Task

    keys = {f"{n:05d}": f"{n:032x}" for n in range(3)}
    place = folder / requested_shards.FOLDER / "annotate" / "d"
    items = [{"name": name, "key": key, "given": {}} for name, key in keys.items()]
    write_json(place / requested_shards.LIST, {"stage": "annotate", "section": {}, "items": items, "counts": {}})
    write_json(place / f"{keys.pop('00000')}.json", {"shard": {"captions": 5}, "counts": {}, "seconds": 2.0})
    task = Task("annotate", "d", keys, folder)
    task.save()
    write_json(task.folder.job, {"kind": "local", "host": "elsewhere", "pid": 7, "started": ""})


def _looked(_: random.Random) -> None:
    from compclip.launch import task
    from compclip.runs import data_stages, shard_tasks

    list(data_stages.list_rows())
    for one in shard_tasks.find_tasks(["annotate"], ["d"]):
        task.check_task(one)


def _listed(_: random.Random) -> None:
    from compclip.runs import __main__ as runs_command
    from compclip.runs import status

    status.format_page("params.yaml", 120)
    runs_command.main(["list"])
    runs_command.main(["gc", "--keep-grids", "params.yaml", "--dry-run"])


def _collected(_: random.Random) -> object:
    from compclip.report import run_collection
    from tests import fake_runs

    return run_collection.collect_runs(fake_runs.cells(), list(fake_runs.BENCHMARKS), HERE)


def _read_runs(_: random.Random) -> None:
    from compclip.runs import result_files
    from compclip.runs.run_folder import Published
    from tests import fake_runs

    for cell in fake_runs.cells():
        place = Published(HERE, cell)
        result_files.read_finished_run(place.trained, place.results)


def _tables() -> Iterator[Reader]:
    yield Reader("claims", copied("experiments/claims.yaml"), _claimed)
    yield Reader("validity", copied("experiments/validity.yaml"), _validity)
    yield Reader("published", copied("experiments/published"), _published)


def _claimed(_: random.Random) -> object:
    from compclip.report import claims

    return claims.read_claims(Path("experiments/claims.yaml"))


def _validity(_: random.Random) -> object:
    from compclip.validity import counterparts

    return counterparts.read_counterparts(Path("experiments/validity.yaml"))


def _published(_: random.Random) -> object:
    from compclip.report import published_coverage, published_models, published_numbers

    folder = Path("experiments/published")
    published_coverage.read_reasons(folder / published_coverage.REASONS)
    models = published_models.read_models(folder / published_models.FOLDER)
    return published_numbers.group_by_model(
        published_numbers.read_numbers(folder)
    ), published_models.compute_percentile("sugarcrepe/swap_att", 60.0, models)
