"""Scores of a model while it trains, for a pruner: rungs.json in the run's folder asks, intermediate.jsonl answers.

train(..., on_step=Rungs.load(folder, params))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from compclip.base import json_text
from compclip.base.files import read_mapping, read_text
from compclip.base.shared_folders import open_plain
from compclip.config.sections import Scoring
from compclip.evaluate import score
from compclip.evaluate.benchmark import Benchmark

if TYPE_CHECKING:
    from compclip.config.sections import Params
    from compclip.model.clip_model import ClipModel
    from compclip.runs.run_folder import RunFolder


@dataclass(frozen=True)
class Rungs:
    """Scores the model when it has had each of some shares of its steps, once, however often the run is resumed.

    Scoring leaves the bits of the training as they are: mode, threads and random state are put back.
    """

    shares: tuple[float, ...]
    benchmarks: Mapping[str, Benchmark]
    how: Scoring
    out: Path

    @classmethod
    def load(cls, folder: RunFolder, params: Params) -> Rungs:
        """Read what a pruner asks of a run, scored as `params.evaluate` says."""
        request, how = read_mapping(folder.rungs), params.evaluate.scoring
        benchmarks = score.load_benchmarks(params.benchmarks, request["benchmarks"]).benchmarks
        return cls(tuple(request["shares"]), benchmarks, how, folder.intermediate)

    def __call__(self, step: int, steps: int, model: ClipModel) -> None:
        """Score the model where a rung is reached; the last step has its results, and is none."""
        reached = {max(1, round(share * steps)) for share in self.shares} - {steps}
        if step not in reached or step in self._scored_steps():
            return
        mode, threads = model.clip.training, torch.get_num_threads()
        with torch.random.fork_rng():
            scored = score.score_model(model, self.benchmarks, self.how)
        model.clip.train(mode)
        torch.set_num_threads(threads)
        metrics = {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}
        with open_plain(self.out, "a") as file:
            file.write(json.dumps({"step": step, "metrics": metrics}) + "\n")

    def _scored_steps(self) -> set[int]:
        """Return the steps that are written whole; what a kill left half-written is cut off."""
        if not self.out.is_file():
            return set()
        text = read_text(self.out)
        complete_lines = text[: text.rfind("\n") + 1]
        if complete_lines != text:
            with open_plain(self.out, "ab") as file:
                file.truncate(len(complete_lines.encode()))
        lines = enumerate(complete_lines.splitlines(), 1)
        return {json_text.parse_json(line, str(self.out), "remove the file", i)["step"] for i, line in lines}
