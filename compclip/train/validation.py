"""Validate a run along its training: contrastive loss and recall of held-out pictures, at tenths of its steps.

N held-out pictures, each with one caption, B of a block, D joint dim, L text length, T texts.

The pictures are validation items of a retrieval benchmark with which the data set shares none (data/overlaps), those
with the lowest hashes of their names: the same for all runs and machines. The training does not notice. Towers are in
evaluation mode meanwhile, no generator is drawn from, and no other process waits but for the next step. So it is no
part of a run key.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.base import messages
from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.base.messages import format_count
from compclip.config import columns, read
from compclip.data import images
from compclip.data.sample import ImageLocation
from compclip.model import towers
from compclip.model.clip_model import normalise_pictures
from compclip.model.inference_towers import embed_images, embed_texts, evaluation_mode
from compclip.prepare import benchmark_overlap, record_writer
from compclip.runs.item_outcomes import hash_picture
from compclip.runs.picture_splits import is_validation
from compclip.runs.run_folder import VALIDATION
from compclip.train import fine_tuning

if TYPE_CHECKING:
    from compclip.config.sections import Params, Train
    from compclip.model.clip_model import ClipModel
    from compclip.runs.run_store import StoredRun

TIME_SHARE = 0.02  # of a run's time at most
POINTS = 10  # of a curve at most
MOST = 1_000  # pictures
MOST_BY_PAIRS = 100  # of a model whose head compares each pair by itself
LEAST = 50  # pictures, for which a curve has fewer points
BLOCK = 64  # pictures or texts that are encoded at once
READERS = 8  # threads that read pictures
# Forward passes that a training sample costs at least: the backward pass of a tower costs two, the text tower less.
FORWARD_PASSES = {"all": 3.0, "image": 2.0, "text": 1.5, "none": 1.0}
KS = (1, 5)
GROUP = "retrieval"


@dataclass(frozen=True)
class HeldOutPictures:
    """Pictures that a run does not train on, in the order of their hashes, each with a caption that no other has."""

    benchmark: str
    pictures: Sequence[ImageLocation]
    captions: Sequence[str]


def find_held_out(run: StoredRun) -> HeldOutPictures | None:
    """Return the held-out pictures of a run's project; None where it knows none.

    The benchmarks that the data set excludes come first, then those that are evaluated, then all others.
    """
    sent = run.folder.params  # later edits of the project's file do not reach a run that was sent
    params = read.load_params(sent if sent.is_file() else run.root / read.DEFAULT)
    path = run.root / "data" / benchmark_overlap.OVERLAPS / f"{run.cell.data}.json"
    shared = read_mapping(path) if path.is_file() else {}
    for name in dict.fromkeys((*run.run.data.exclude, *params.evaluate.benchmarks, *params.benchmarks)):
        section = params.benchmarks.get(name)
        if section is None or columns.find_group(section.benchmark or name) != GROUP:
            continue
        source = section.validation or name
        records = record_writer.records_file(run.root, source)
        if source in shared and not shared[source].get("pictures") and records.is_file():
            held_out = _select_pictures(source, records, params)
            if len(held_out.pictures) > 1:  # a contrast needs two
                return held_out
    return None


def _select_pictures(name: str, path: Path, params: Params) -> HeldOutPictures:
    """Select the validation items of a benchmark; of an authors' validation set, and of one that is not scored, all."""
    authors = {section.validation for section in params.benchmarks.values()}
    is_whole = name in authors or name not in params.evaluate.benchmarks
    records = record_writer.read_records(path)
    numbered: dict[int, tuple[ImageLocation, str]] = {}
    for index in range(len(records.batch)):
        for picture in records.pictures(index)[:1]:
            number = hash_picture(picture.path, picture.offset if picture.length else None)
            if not picture.box and (is_whole or is_validation(number, params.evaluate.validation_share)):
                numbered[number] = picture.location, records.texts(index)[0]
    by_caption: dict[str, ImageLocation] = {}
    for number in sorted(numbered):
        location, caption = numbered[number]
        by_caption.setdefault(caption, location)
    return HeldOutPictures(name, list(by_caption.values()), list(by_caption))


# --- how many pictures, and when ------------------------------------------------------------------------------------


def plan_points(cfg: Train, steps: int, processes: int, available: int) -> tuple[int, list[int]]:
    """Return how many pictures are measured, and after which steps, such that it costs `TIME_SHARE` at most.

    Counted are forward passes of the process that measures. Every point is a step that is logged. Few steps have fewer
    points, and too few have none.
    """
    passes = min(FORWARD_PASSES[cfg.trainable], 1.5 if cfg.lora else 3)  # an adapter asks for no slope of the weights
    budget = TIME_SHARE * passes * steps * cfg.batch_size / processes
    pictures = min(available, MOST, max(LEAST, int(budget / POINTS)))
    points = min(POINTS, int(budget / pictures))
    every = cfg.log_every_steps
    due = {min(steps, -(-round(steps * point / points) // every) * every) for point in range(1, points + 1)}
    return pictures, sorted(due)


def thin_points(due: Sequence[int], allowed: int) -> list[int]:
    """Return at most `allowed` of the points, evenly, the last one among them."""
    return list(due[:: -max(1, -(-len(due) // allowed))][::-1]) if allowed > 0 else []


# --- measured beside the training -----------------------------------------------------------------------------------


def open_validator(run: StoredRun, processes: int) -> Validator | None:
    """Return what validates a run along its training; None where it is switched off or no picture is held out.

    A file that cannot be read is a note, and ends no training.
    """
    try:
        held_out = find_held_out(run) if run.run.train.validate else None
    except UserError as error:
        messages.note(f"{run.name}: is not validated along its training: {error}")
        return None
    return Validator(run.run.train, held_out, processes) if held_out else None


class Validator:
    """Measures a model on held-out pictures after some steps, in the first process of a run.

    Where a clock says that it takes more than `TIME_SHARE` of the training, some of the points are left out.
    """

    def __init__(self, cfg: Train, held_out: HeldOutPictures, processes: int) -> None:
        self.cfg = cfg
        self.held_out = held_out
        self.processes = processes
        self.due: list[int] = []
        self.left_out = 0
        self.seconds = 0.0

    def start(self, model: ClipModel, first_step: int, steps: int) -> None:
        """Plan the points of a run that goes on from `first_step`: they are the same as of one that never stopped."""
        self.model = model
        self.first_step = first_step
        self.steps = steps
        available = len(self.held_out.pictures)
        if model.head is not None and model.head.scores_pairs:
            available = min(available, MOST_BY_PAIRS)
        self.pictures, due = plan_points(self.cfg, steps, self.processes, available)
        self.due = [step for step in due if step > first_step]
        self._inputs: tuple[Tensor, Tensor] | None = None
        self._started = time.monotonic()
        what = f"{format_count(self.pictures, 'held-out picture')} of {self.held_out.benchmark}"
        if self.due:
            messages.note(f"validation: {what} at {format_count(len(due), 'step')}")

    def measure(self, step: int) -> dict[str, float]:
        """Return loss, its standard error and recalls of the model after `step` steps, by name; empty where not due."""
        if step not in self.due:
            return {}
        began = time.monotonic()
        if self._inputs is None:
            self._inputs = self._read_inputs()
            if len(self._inputs[1]) < 2:
                self.due = []
                messages.note(f"validation: {self.held_out.benchmark}: its pictures cannot be read")
                return {}
        inputs_ready = time.monotonic()
        numbers = measure_model(self.model, *self._inputs, self.cfg)
        ended = time.monotonic()
        self.seconds += ended - began
        self._keep_within_time(step, ended - inputs_ready)
        return {f"{VALIDATION}{name}": value for name, value in numbers.items()}

    def describe(self) -> dict[str, Any]:
        """Return what environment.json says of it, of this life of the run."""
        pictures = len(self._inputs[1]) if self._inputs else 0
        points = {"left_out": self.left_out, "seconds": round(self.seconds, 3)}
        return {"benchmark": self.held_out.benchmark, "pictures": pictures, **points}

    def _keep_within_time(self, step: int, cost: float) -> None:
        """Leave out points that would take more than the share of the time that the steps of this life take."""
        training = time.monotonic() - self._started - self.seconds
        projected = training / (step - self.first_step) * (self.steps - self.first_step)
        left = [due for due in self.due if due > step]
        self.due = thin_points(left, int((TIME_SHARE * projected - self.seconds) / cost)) if cost else left
        dropped = len(left) - len(self.due)
        self.left_out += dropped
        if dropped:
            why = f"each takes {cost:.2g} s, and all at most {TIME_SHARE:.0%} of the time"
            messages.note(f"validation: {dropped} of {format_count(len(left), 'further point')} left out: {why}")

    def _read_inputs(self) -> tuple[Tensor, Tensor]:
        """Return pictures of uint8 [N, 3, H, W] and texts [N, L]; what cannot be read is left out."""
        locations = self.held_out.pictures[: self.pictures]
        with ThreadPoolExecutor(READERS) as pool:
            prepared = list(pool.map(self._read_picture, locations))
        texts = [text for text, picture in zip(self.held_out.captions, prepared, strict=False) if picture]
        pictures = [picture for picture in prepared if picture]
        if not pictures:
            return torch.zeros(0), torch.zeros(0)
        return self.model.stack_pictures(pictures), self.model.tokenize(texts)

    def _read_picture(self, location: ImageLocation) -> Any:
        try:
            return self.model.fit_picture(images.load_image(location))
        except images.ImageError:
            return None


def measure_model(model: ClipModel, picture_N3HW: Tensor, text_NL: Tensor, cfg: Train) -> dict[str, float]:
    """Return loss and recalls of pictures of uint8 and their texts, at the model's temperature."""
    modules = [model.clip] if model.head is None else [model.clip, model.head]
    device = model.clip.logit_scale.device
    with torch.no_grad(), evaluation_mode(modules), fine_tuning.autocast_to(cfg.precision, device.type):
        blocks = [embed_texts(model, text_BL.to(device)) for text_BL in text_NL.split(BLOCK)]
        scores_NN = torch.cat(list(_score_pictures(model, picture_N3HW, torch.cat(blocks))))
        return describe_scores(scores_NN.double().cpu(), model.clip.logit_scale.double().exp().item())


def _score_pictures(model: ClipModel, picture_N3HW: Tensor, text_TD: Tensor) -> Iterator[Tensor]:
    """Yield the cosines [B, T] of blocks of pictures with all texts, or what the model's head has in their place."""
    statistics_23 = model.statistics().to(text_TD.device)
    for picture_B3HW in picture_N3HW.split(BLOCK):
        value_B3HW = normalise_pictures(picture_B3HW.to(text_TD.device), statistics_23)
        if model.head is not None and model.head.scores_pairs:
            yield model.head.score(towers.encode_images(model.clip, value_B3HW, tokens=True)[1], text_TD)
        else:
            image_BD = embed_images(model, value_B3HW)
            yield image_BD.float() @ text_TD[:, : image_BD.shape[1]].float().T


def describe_scores(scores_NN: Tensor, scale: float) -> dict[str, float]:
    """Return the symmetric contrastive loss with its standard error over pictures, and recalls; a tie is wrong."""
    N = len(scores_NN)
    own_N = torch.arange(N)
    ways = {"i2t": scores_NN, "t2i": scores_NN.T}
    losses_2N = torch.stack([F.cross_entropy(scale * table_NN, own_N, reduction="none") for table_NN in ways.values()])
    loss_N = losses_2N.mean(dim=0)
    numbers = {"loss": loss_N.mean().item(), "loss_error": (loss_N.std() / N**0.5).item()}
    for way, table_NN in ways.items():
        rank_N = (~(table_NN < table_NN.diagonal()[:, None])).sum(dim=1)
        numbers |= {f"{way}_recall_at_{k}": (rank_N <= k).double().mean().item() for k in KS}
    return numbers
