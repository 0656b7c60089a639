"""Checkpoints x benchmarks -> result documents; also the models on the line between two checkpoints.

Models that take the same pixels and tokens share the work of reading, decoding and preparing pictures and of tokenising
texts, as many at once as memory holds. The numbers are those of each by itself.
"""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch

from compclip.base import files, messages
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_mapping, read_text
from compclip.base.shared_folders import open_plain
from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.evaluate import embed, pair_scorers
from compclip.evaluate.benchmark import Benchmark, Outcomes
from compclip.evaluate.benchmark_module import LoadedBenchmarks, list_inputs, load_benchmarks, result_documents
from compclip.evaluate.embed import CACHE_BYTES, PreparedPictures
from compclip.model import backbone, clip_model, model_config, tokenizers, transformers_files, weight_files
from compclip.model.clip_model import ClipModel
from compclip.model.inference_towers import copy_models
from compclip.runs import gpus
from compclip.runs.item_outcomes import CUT_TEXTS

if TYPE_CHECKING:
    from compclip.config.sections import Params
    from compclip.runs.run_folder import RunFolder

T = TypeVar("T")
BUDGET = 2 << 30  # bytes of weights that an evaluation holds at once
TOGETHER = 16  # checkpoints of a pass, each of which holds embeddings and outcomes


def device() -> str:
    """Return where checkpoints are scored. Raises UserError where a GPU is asked for and none is seen."""
    return gpus.choose_device()


@dataclass(frozen=True)
class ScoredCheckpoint:
    """A model to score: folder, weights file or MODEL::TAG, how it is opened, and what its results say of it.

    `device`: `cuda` is every GPU that this process sees.
    """

    ref: str
    made_with: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    device: str = "cpu"
    tokenizer: str = ""
    activation: str = ""
    choice: str = ""

    def open(self) -> ClipModel:
        """Load the model."""
        return backbone.load(self.ref, self.model, self.device, self.tokenizer, self.activation, choice=self.choice)


def checkpoint_at(
    ref: str, model: str = "", device: str = "cpu", tokenizer: str = "", activation: str = "", choice: str = ""
) -> ScoredCheckpoint:
    """Return a checkpoint that is known by its path, or by a hub's name and tag, which stand for themselves."""
    made_with = {"path": ref, "fingerprint": backbone.identify_checkpoint(ref)}
    if choice:
        made_with["weights"] = choice
    return ScoredCheckpoint(ref, made_with, model, device, tokenizer, activation, choice)


def score_model(
    model: ClipModel, benchmarks: Mapping[str, Benchmark], how: Scoring = DEFAULT_SCORING
) -> dict[str, Outcomes]:
    """Score `model` on all benchmarks; an image or text that several of them need is encoded once."""
    return score_models([model], benchmarks, how)[0]


def score_models(
    models: Sequence[ClipModel],
    benchmarks: Mapping[str, Benchmark],
    how: Scoring = DEFAULT_SCORING,
    pictures: PreparedPictures | None = None,
    devices: Sequence[str] = (),
) -> list[dict[str, Outcomes]]:
    """Score models that are fed alike on all benchmarks; a picture is read and prepared once for them all.

    `pictures`: those that were prepared for others. `devices`: the models', and further ones that share the work; on
    devices of one kind the numbers are those of one. Raises UserError where a model gives no numbers.
    """
    refs, texts = list_inputs(benchmarks.values())
    replicas = copy_models(models, devices)
    all_embeddings = embed.encode_all(models, refs, texts, how, pictures, replicas[1:])
    pictures = pictures or PreparedPictures()
    all_outcomes = []
    for group, embeddings in zip(zip(*replicas, strict=True), all_embeddings, strict=True):
        targets = pair_scorers.by_head(replace(embeddings, ties=how.ties), group, how, pictures)
        all_outcomes.append({name: benchmark.score(targets) for name, benchmark in benchmarks.items()})
    return all_outcomes


def score_checkpoint(checkpoint: ScoredCheckpoint, loaded: LoadedBenchmarks) -> dict[str, dict]:
    """Return a checkpoint's result documents by benchmark name. `seconds` is the wall time of the whole pass."""
    return _score_together([checkpoint], loaded, PreparedPictures())[0]


def score_checkpoints(
    checkpoints: Sequence[ScoredCheckpoint], loaded: LoadedBenchmarks
) -> Iterator[tuple[ScoredCheckpoint, dict[str, dict] | UserError]]:
    """Yield each checkpoint with its result documents, or with the error that it ended in; the others go on.

    Those that are fed alike share a pass over the pictures, as many at once as memory holds; `seconds` is then an equal
    share of the pass. The next ones take the prepared pictures of those before, as far as these are kept.
    """
    pictures = PreparedPictures(CACHE_BYTES)
    for group in group_by_inputs(checkpoints, lambda checkpoint: checkpoint.ref):
        yield from _score_group(group, loaded, pictures)


def group_by_inputs(requests: Sequence[T], checkpoint: Callable[[T], str], budget: int = BUDGET) -> list[list[T]]:
    """Group requests whose checkpoints take equal inputs, as many together as the budget holds weights of.

    `checkpoint` gives a request's reference. Only folders in open_clip's format are compared; others stand alone.
    """
    alike: dict[str, list[T]] = {}
    for request in requests:
        alike.setdefault(_input_key(checkpoint(request)), []).append(request)
    groups: list[list[T]] = []
    for requests in alike.values():
        room = 0
        for request in requests:
            size = budget
            with contextlib.suppress(UserError):  # no folder with weights counts as the whole budget
                weights = weight_files.find_weights(Path(checkpoint(request)))
                size = sum(file.stat().st_size for file in transformers_files.list_parts(weights))
            if not room or size > room or len(groups[-1]) == TOGETHER:
                groups.append([])
                room = budget
            groups[-1].append(request)
            room = max(0, room - size)
    return groups


def _input_key(ref: str) -> str:
    """Return a text that is equal for checkpoints that take the same pixels and tokens; a damaged one stands alone."""
    folder = Path(ref)
    try:
        config = model_config.read_config(folder / clip_model.CONFIG)
    except UserError:
        return ref
    model = {k: v for k, v in config["model_cfg"].items() if k != "init_logit_bias"}
    files = [folder / name for name in tokenizers.FILES if (folder / name).is_file()]
    preparation = [config.get("preprocess_cfg"), config.get("tokenizer"), fingerprint(*files) if files else ""]
    return json.dumps([model, *preparation], sort_keys=True)


def _score_group(
    checkpoints: Sequence[ScoredCheckpoint], loaded: LoadedBenchmarks, pictures: PreparedPictures
) -> Iterator[tuple[ScoredCheckpoint, dict[str, dict] | UserError]]:
    """Score checkpoints together; where one fails, one by one, to know which."""
    try:
        yield from zip(checkpoints, _score_together(checkpoints, loaded, pictures), strict=True)
    except UserError as error:
        if len(checkpoints) == 1:
            yield checkpoints[0], error
        else:
            for checkpoint in checkpoints:
                yield from _score_group([checkpoint], loaded, pictures)


def _score_together(
    checkpoints: Sequence[ScoredCheckpoint], loaded: LoadedBenchmarks, pictures: PreparedPictures
) -> list[dict[str, dict]]:
    start = time.perf_counter()
    models = [checkpoint.open() for checkpoint in checkpoints]
    devices = gpus.list_devices(checkpoints[0].device)
    scored = score_models(models, loaded.benchmarks, loaded.how, pictures, devices)
    check_outcomes(scored[0])
    seconds = round((time.perf_counter() - start) / len(checkpoints), 3)
    documents = []
    for checkpoint, model, outcomes in zip(checkpoints, models, scored, strict=True):
        changes = {"tokenizer": model.tokenizer.record, "resized": model.resized}
        changed = {name: change for name, change in changes.items() if change}
        documents.append(result_documents(outcomes, loaded, {**checkpoint.made_with, **changed}, seconds))
    for name, benchmark in loaded.benchmarks.items():
        cut_texts = count_cut_texts(models[0], benchmark.texts)
        for checkpoint_documents in documents if cut_texts else ():
            checkpoint_documents[name]["counts"][CUT_TEXTS] = cut_texts
    return documents


def check_outcomes(scored: Mapping[str, Outcomes]) -> None:
    """Raise UserError for a benchmark of which nothing could be scored, with the reasons."""
    for name, outcomes in scored.items():
        if outcomes.metrics:
            continue
        reasons = []
        for reason, count in outcomes.counts.items():
            if count and reason not in ("records", "scored"):
                reasons.append(f"{count} {reason}")
        raise UserError(
            f"benchmarks.{name}: none of its {outcomes.counts['records']} records could be scored "
            f"({', '.join(reasons) or 'its files hold none'}); correct path and images, or take it out of "
            "evaluate.benchmarks"
        )


def list_metrics(scored: Mapping[str, Outcomes]) -> dict[str, float]:
    """Return "benchmark/metric": value of all that was scored."""
    metrics = {}
    for name, outcomes in scored.items():
        for metric, value in outcomes.metrics.items():
            metrics[f"{name}/{metric}"] = value
    return metrics


def count_cut_texts(model: ClipModel, texts: Iterable[str]) -> int:
    """Return how many different texts have more tokens than the model reads; a token is a byte or more."""
    room = model.tokenizer.room
    count = 0
    for text in set(texts):
        is_long = len(text.encode("utf-8", "surrogatepass")) > room
        count += is_long and model.count_tokens(text) > room
    return count


# --- the line between two checkpoints -------------------------------------------------------------------------


def models_on_line(
    pretrained: ClipModel, tuned: ClipModel, alphas: Sequence[float], budget: int = BUDGET
) -> Iterator[list[ClipModel]]:
    """Yield the models of `clip_model.interpolate` in the order of `alphas`, as many at once as the budget holds.

    They are overwritten by the next ones; the first of each list is `tuned` itself. A head goes from what does nothing
    to the trained one; where there is no such start it is the trained one everywhere.
    """
    if pretrained.model_cfg.get("quick_gelu", False) != tuned.model_cfg.get("quick_gelu", False):
        raise UserError(
            f"wise_ft: {pretrained.source} and {tuned.source} differ in quick_gelu; give the checkpoint "
            "that the tuned one was trained from"
        )
    start = copy.deepcopy(dict(pretrained.clip.state_dict()))
    end = copy.deepcopy(dict(tuned.clip.state_dict()))
    model_size = sum(t.nbytes for t in end.values())
    batch_size = min(len(alphas), max(1, budget // max(1, model_size)))
    if pretrained.head is not None:
        raise UserError(f"wise_ft: {pretrained.source}: has a head; give the pretrained model, which has none")
    trained_head = copy.deepcopy(tuned.head)
    if trained_head is not None and trained_head.start_state() is None:
        messages.note(
            f"wise_ft: {tuned.source}: its head ({trained_head.kind}) has no pretrained weights: it is the trained one "
            "at every alpha, and the towers alone are interpolated"
        )
    copies = [tuned]
    while len(copies) < batch_size:
        copies.append(replace(tuned, clip=copy.deepcopy(tuned.clip), head=copy.deepcopy(tuned.head)))
    for first in range(0, len(alphas), max(1, batch_size)):
        alpha_batch = alphas[first : first + batch_size]
        for model, alpha in zip(copies, alpha_batch, strict=False):
            model.clip.load_state_dict(clip_model.interpolate(start, end, alpha))
            if trained_head is not None:
                model.head.load_state_dict(trained_head.state_dict())
                model.head.move_towards_start(alpha)
        yield copies[: len(alpha_batch)]


def score_line(
    pretrained: ClipModel,
    tuned: ClipModel,
    alphas: Sequence[float],
    benchmarks: Mapping[str, Benchmark],
    how: Scoring = DEFAULT_SCORING,
    budget: int = BUDGET,
    devices: Sequence[str] = (),
    pictures: PreparedPictures | None = None,
) -> Iterator[dict]:
    """Yield {"alpha", "metrics": {"benchmark/metric": value}} for each model on the line.

    `devices` and `pictures` are those of `score_models`.
    """
    next_alpha = iter(alphas)
    pictures = pictures or PreparedPictures(CACHE_BYTES)
    for batch in models_on_line(pretrained, tuned, alphas, budget):
        for scored in score_models(batch, benchmarks, how, pictures=pictures, devices=devices):
            yield {"alpha": next(next_alpha), "metrics": list_metrics(scored)}


# --- scores of a model while it trains, for a pruner: rungs.json in the run's folder asks, intermediate.jsonl answers


@dataclass(frozen=True)
class Rungs:
    """Scores the model when it has had each of some shares of its steps, once, however often the run is resumed.

    Scoring leaves the bits of the training as they are: modes, threads and random state are put back.
    """

    shares: tuple[float, ...]
    benchmarks: Mapping[str, Benchmark]
    how: Scoring
    out: Path

    @classmethod
    def load(cls, folder: RunFolder, params: Params) -> Rungs:
        """Read what a pruner asks of a run, scored as `params.evaluate` says."""
        request = read_mapping(folder.rungs)
        how = params.evaluate.scoring
        benchmarks = load_benchmarks(params.benchmarks, request["benchmarks"]).benchmarks
        return cls(tuple(request["shares"]), benchmarks, how, folder.intermediate)

    def __call__(self, step: int, steps: int, model: ClipModel) -> None:
        """Score the model where a rung is reached; the last step has its results, and is none."""
        reached = {max(1, round(share * steps)) for share in self.shares} - {steps}
        if step not in reached or step in self._scored_steps():
            return
        threads = torch.get_num_threads()
        with torch.random.fork_rng():
            scored = score_model(model, self.benchmarks, self.how)
        torch.set_num_threads(threads)
        with open_plain(self.out, "a") as file:
            file.write(json.dumps({"step": step, "metrics": list_metrics(scored)}) + "\n")

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
        return {files.parse_json(line, str(self.out), "remove the file", i)["step"] for i, line in lines}
