"""Scores of a model while it trains, for a sweep's pruner: rungs.json of a run asks, intermediate.jsonl answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import torch

from compclip.base.files import read_json, read_text
from compclip.config.sections import Params, Run
from compclip.evaluate import score
from compclip.model.backbone import Model
from compclip.runs.folder import Folder
from compclip.runs.store import StoredRun
from compclip.train import distributed, loop
from compclip.train.views import Maker, Rows


def watched(params: Params, stored: StoredRun) -> Callable[[Maker, Run, Model], Rows]:
    """What makes the batches of a run that is looked at on the way."""
    return lambda maker, run, model: Watched(maker, run, params, model, stored.folder)


class Watched(Rows):
    """Batches before which the loop first scores the model where a rung is reached: before step n it has had n updates.

    Scoring leaves the bits of the training as they are: mode, threads and random state are put back.
    """

    def __init__(self, maker: Maker, run: Run, params: Params, model: Model, folder: Folder) -> None:
        here = distributed.current()
        super().__init__(maker, run.train.batch_size, here.rank, here.world)
        asked = read_json(folder.rungs)
        steps = loop.total_steps(run.train, self.per_epoch)
        self._steps = {max(1, round(share * steps)) for share in asked["shares"]} - {steps}
        self._run, self._params, self._model, self._file = run, params, model, folder.intermediate
        self._benchmarks = score.load(params.benchmarks, asked["benchmarks"]).benchmarks

    def before(self, step):
        """Score the model where a rung is reached; the first process does it, the others go on and wait for it."""
        if distributed.current().rank == 0 and step in self._steps and step not in self._scored():
            self._score(step)

    def _scored(self) -> set[int]:
        """The steps that are written whole; what a kill left half-written is cut off."""
        if not self._file.is_file():
            return set()
        text = read_text(self._file)
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            os.truncate(self._file, len(whole.encode()))
        return {json.loads(line)["step"] for line in whole.splitlines()}

    def _score(self, step: int) -> None:
        asked, clip = self._params.evaluate, self._model.clip
        mode = clip.training
        with torch.random.fork_rng():
            scored = score.outcomes(self._model, self._benchmarks, asked.batch_size, asked.threads)
        clip.train(mode)
        torch.set_num_threads(self._run.train.threads)
        metrics = {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}
        with open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "metrics": metrics}) + "\n")
