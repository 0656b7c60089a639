"""One run of a sweep in a process of its own: `python -m compclip.sweep.job KEY`, from the project's root.

Reads run.yaml, params.yaml and, where a pruner is to look at it, rungs.json in .work/KEY/; trains, scores the model at
the rungs into intermediate.jsonl, and ends with final/results/. It holds the run key's lock throughout: another process
with the same key waits and then finds everything there. Killed, the same command goes on from the last checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch

from compclip import backbone, config, environment, evaluate, modules, run_key, train
from compclip.backbone import Model
from compclip.errors import UserError, entry
from compclip.files import fingerprint, read_json, read_text
from compclip.publish import Publisher
from compclip.sections import Params, Run
from compclip.views import Maker, Rows


def publisher(run: Run, root: Path = Path(".")) -> Publisher:
    """The folders of a run that need not be a cell of the grid. Raises UserError for inputs that were not made yet."""
    data, base = root / "data" / run.cell.data, root / "models" / run.cell.backbone
    for path, stage in ((data / "annotations.parquet", "annotate"), (base, "backbone")):
        if not path.exists():
            raise UserError(f"{path}: not there; run `dvc repro {stage}` first")
    inputs = fingerprint(data / "samples.parquet", data / "annotations.parquet", base)
    key = run_key.of(run, inputs)
    return Publisher(run, key, data, base, root / ".work" / key, root / "runs" / run.cell.name)


def finish(run: Run, params: Params, made: Publisher) -> None:
    """Train unless the run key is finished, then score it unless it is scored."""
    with made.lock():
        if not made.finished():
            _train(run, params, made)
        results = made.work / "final" / "results"
        if not all((results / f"{name}.json").is_file() for name in params.evaluate.benchmarks):
            _score(params, made.work / "final" / "checkpoint", results)


def _train(run: Run, params: Params, made: Publisher) -> None:
    """What train.run_cell does, with the rungs looked at on the way and nothing published."""
    started = time.time()
    torch.set_num_threads(run.train.threads)
    method, device = modules.find("compclip.methods", run.method_name), _device()
    model = backbone.load(made.backbone_folder, device=device)
    dropped: dict[str, int] = {}
    if getattr(method, "TRAINS", True):
        if (needs := getattr(method, "needs_bias", None)) and needs(run.method):
            model.add_bias(run.method.init_bias)
        maker = Maker(made.train_set(), run.cell.seed, model.image_size)
        rows = Rows(maker, run.train.batch_size)
        if (made.work / "rungs.json").is_file():
            rows = Watched(maker, run, params, model, made.work)
        dropped = train.train(run, model, rows, made.work)
    seconds = round(time.time() - started, 3)
    made.finish(model, environment.facts(device) | {"dropped": dropped, "seconds": seconds})


class Watched(Rows):
    """Batches whose making first scores the model where a rung is reached: before step n it has had n updates.

    Scoring leaves the bits of the training as they are: mode, threads and random state are put back.
    """

    def __init__(self, maker: Maker, run: Run, params: Params, model: Model, work: Path) -> None:
        super().__init__(maker, run.train.batch_size)
        asked = read_json(work / "rungs.json")
        steps = train.total_steps(run.train, self.per_epoch)
        self._steps = {max(1, round(share * steps)) for share in asked["shares"]} - {steps}
        self._run, self._params, self._model, self._file = run, params, model, work / "intermediate.jsonl"
        self._benchmarks = evaluate.load_benchmarks(params, asked["benchmarks"])[0]

    def batch(self, step, views):
        """The batch of a step."""
        if step in self._steps and step not in self._scored():
            self._score(step)
        return super().batch(step, views)

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
            scored = evaluate.outcomes(self._model, self._benchmarks, asked.batch_size, asked.threads)
        clip.train(mode)
        torch.set_num_threads(self._run.train.threads)
        metrics = {f"{name}/{metric}": value for name, o in scored.items() for metric, value in o.metrics.items()}
        with open(self._file, "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "metrics": metrics}) + "\n")


def _score(params: Params, checkpoint: Path, results: Path) -> None:
    benchmarks, module_of = evaluate.load_benchmarks(params, params.evaluate.benchmarks)
    asked = params.evaluate
    documents = evaluate.run(
        evaluate.Job(str(checkpoint), benchmarks, module_of, asked.batch_size, asked.threads, device=_device())
    )
    for line in evaluate.warnings(documents):
        print(line, file=sys.stderr)
    evaluate.publish(documents, results)


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def main(argv: list[str]) -> int:
    """Bring one run key to its results."""
    if len(argv) != 1:
        raise UserError(f"job: {len(argv)} arguments; give one run key, whose folder is in .work")
    work = Path(".work") / argv[0]
    run = config.from_yaml(work / "run.yaml")
    made = publisher(run)
    if made.key != argv[0]:
        raise UserError(f"{work}: code or data changed since it was submitted (key now {made.key}); undo that")
    finish(run, config.load(work / "params.yaml"), made)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
