"""Say before anything runs how long a grid takes at most on this machine's cores, and how much disk.

Time follows from counts: pictures and texts times the products that encode one, at a rate that a core reaches at least.
What no file says yet is named, and is in neither number.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from compclip.base.files import read_mapping
from compclip.base.messages import format_count
from compclip.config import drawn_scenes, grid
from compclip.config.grid import Run
from compclip.config.least_memory import FLOAT, count_products, count_weights
from compclip.config.sections import Params
from compclip.interface.method import load_method
from compclip.runs import gpus
from compclip.runs.run_folder import Published, result_path
from compclip.runs.shard_tasks import ANNOTATE

CORE_FLOPS = 2e10  # a second in float32: a step of training on a core of 2019; encoding alone is twice as fast
TRAINED = 3  # a step costs so many times its encoding, and holds as many copies of the weights with AdamW's moments
STAGE_S = 6.0  # that a stage takes to start and to end, with torch loaded
PICTURE_S = 0.03  # of a core, to draw or read a picture and to analyse its captions
PICTURE_BYTES = 8 << 10  # of a drawing, or of a picture's row in a shard
LONG_MIN = 120  # longer times are said in hours
GIB = 1 << 30


@dataclass
class Forecast:
    """What a grid takes: seconds of cores by kind of work and of one core for all stages, bytes, what is not known."""

    starting_s: float = 0.0
    preparing_s: float = 0.0
    training_s: float = 0.0
    scoring_s: float = 0.0
    disk_bytes: float = 0.0
    unknown: list[str] = field(default_factory=list)

    def describe(self, cores: int) -> list[str]:
        """Return a line on time, or on why it is not known, and one on disk."""
        kinds = {"preparing data": self.preparing_s, "training": self.training_s, "scoring": self.scoring_s}
        parts = [f"{name} {_format_time(seconds / cores)}" for name, seconds in kinds.items() if seconds]
        parts.append(f"starting stages {_format_time(self.starting_s)}")
        parts_text = f"{', '.join(parts)}, on {format_count(cores, 'core')} with nothing else to do"
        lines = [f"It takes at most about {_format_time(self.starting_s + sum(kinds.values()) / cores)}: {parts_text}."]
        if self.unknown:
            lines = [f"How long it takes is not known before: {'; '.join(self.unknown)}.", f"The rest: {parts_text}."]
        if self.disk_bytes:
            lines.append(f"It takes at most about {max(0.1, self.disk_bytes / GIB):.1f} GiB of disk.")
        return lines


def describe_costs(params: Params, stages: int, trains_here: bool = True) -> list[str]:
    """Return lines on the time and disk that bringing a grid up to date takes at most; `stages`: how many there are.

    Where runs are jobs of a cluster, this machine's time has no training and scoring in it.
    """
    runs = list(grid.resolve_all(params))
    untrained = [run for run in runs if load_method(run.method_name).TRAINS and not is_trained(run)]
    unscored = [run for run in runs if run in untrained or list(_list_unscored(run, params))]
    if not unscored:
        return ["All models are trained and scored."]
    forecast = Forecast(starting_s=STAGE_S * stages)
    pictures = {name: _prepare(name, params, forecast) for name in params.grid.data}
    if unread := [name for name, count in pictures.items() if not count]:
        forecast.unknown.append(f"how many pictures {', '.join(unread)} have, which are not read yet")
    forecast.disk_bytes += _count_drawings(params) * PICTURE_BYTES
    slots = len(os.sched_getaffinity(0))
    for run in untrained:
        forecast.disk_bytes += FLOAT * count_weights(run.backbone.model)
    if untrained:  # two checkpoints of each training that runs, until it has ended
        largest = max(count_weights(run.backbone.model) for run in untrained)
        forecast.disk_bytes += 2 * TRAINED * FLOAT * largest * min(slots, len(untrained))
    if not trains_here:
        return forecast.describe(slots)
    if untrained and gpus.list_gpus():
        forecast.unknown.append("how fast the GPU is, for which `compclip config cost` gives bounds")
    else:
        _count_training(untrained, pictures, forecast)
        _count_scoring(unscored, params, forecast)
    return forecast.describe(slots)


def is_trained(run: Run) -> bool:
    """Return whether the cell's published run was trained with these parameters, by its config.yaml."""
    trained = Published(Path(), run.cell).trained
    if not (trained.environment.is_file() and trained.config.is_file()):
        return False
    return trained.config.read_text(encoding="utf-8") == grid.run_to_yaml(run)


def _list_unscored(run: Run, params: Params) -> Iterator[str]:
    results = Published(Path(), run.cell).results
    for name in params.evaluate.benchmarks:
        if not result_path(results, name).is_file():  # type: ignore[arg-type]
            yield name


def _prepare(name: str, params: Params, forecast: Forecast) -> int:
    """Return how many pictures a data set has at most, 0 where nobody knows, and add what preparing them takes."""
    data = params.data[name]
    manifest = Path("data", name, "manifest.json")
    if manifest.is_file():
        from compclip.data.shard_files import read_manifest  # imports pyarrow

        return read_manifest(manifest, ANNOTATE).samples
    is_drawn = drawn_scenes.lies_in_scenes(data.path)
    pictures = params.scenes.train if is_drawn else data.limit
    if data.is_rewritten or data.captioner not in ("none", "scenes"):
        forecast.unknown.append(f"how fast the captions of data.{name} are written")
    forecast.preparing_s += pictures * PICTURE_S
    forecast.disk_bytes += pictures * PICTURE_BYTES
    return pictures


def _count_drawings(params: Params) -> int:
    """Return how many pictures the stage `scenes` has to draw at most; 0 where they are there or not asked for."""
    world = params.scenes
    if Path(drawn_scenes.WORLD).is_dir() or not drawn_scenes.list_drawn_benchmarks(params):
        return 0
    return world.train + 4 * world.records + world.retrieval + 36 * world.per_class


def _count_training(runs: Sequence[Run], pictures: dict[str, int], forecast: Forecast) -> None:
    """Add the products of all steps; of a picture, its caption and what the method adds to them."""
    unknown = set()
    for run in runs:
        train = run.train
        steps = train.max_steps or round(train.epochs * pictures[run.cell.data] / train.batch_size)
        image, text = count_products(run.backbone.model)
        if not image or train.precision != "float32":
            unknown.add(f"what a step of {run.cell.backbone} in {train.precision} takes on a CPU")
            continue
        views = grid.first_views(run.method_name, run.method)
        texts = 1 + views.negative_texts + views.positive_texts
        samples = steps * train.batch_size * (1 + views.neighbours)
        forecast.training_s += samples * TRAINED * (image + texts * text) / CORE_FLOPS
    forecast.unknown += sorted(unknown)


def _count_scoring(runs: Sequence[Run], params: Params, forecast: Forecast) -> None:
    """Add the products of encoding every picture and text of the benchmarks that a run lacks; lines of WiSE-FT too."""
    unknown = set()
    lines = grid.list_line_cells(params)
    inner = len(params.wise_ft.alphas) - 2
    for run in runs:
        image, text = count_products(run.backbone.model)
        models = 1 + (inner if run.cell in lines else 0)
        for name in params.evaluate.benchmarks:
            images, texts = count_items(name, params)
            if not images:
                unknown.add(name)
            forecast.scoring_s += models * (images * image + texts * text) / (2 * CORE_FLOPS)
    if unknown:
        forecast.unknown.append(f"how many items {', '.join(sorted(unknown))} have, which are not read yet")


def count_items(name: str, params: Params) -> tuple[int, int]:
    """Return how many pictures and texts a benchmark has at most; 0 where it was not read yet."""
    census = Path("data", "benchmarks", f"{name}.json")
    if census.is_file():
        counts = read_mapping(census)
        return counts.get("images", 0), counts.get("texts", 0)
    if name not in drawn_scenes.list_drawn_benchmarks(params):
        return 0, 0
    world = params.scenes
    module = params.benchmarks[name].benchmark or name
    drawn = {"retrieval": (world.retrieval, 2 * world.retrieval), "zeroshot": (24 * world.per_class, 100)}
    return drawn.get(module, (2 * world.records, 10 * world.records))


def _format_time(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return format_count(minutes, "minute") if minutes < LONG_MIN else format_count(math.ceil(minutes / 60), "hour")
