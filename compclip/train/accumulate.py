"""The gradients of one step's whole-batch loss, with a batch that may be larger than memory.

B images of this process, D dim. With `train.micro_batch` the batch is encoded in parts, without a graph; the loss of
the whole batch gives the slope of every embedding; then each part is encoded again, with a graph, and hands its slope
on (gradient caching: Gao et al., RepL4NLP 2021, arXiv:2101.06983). The contrast stays that of the whole batch, memory
is that of one part, and the towers that are trained run forward twice.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from compclip.interface.features import Features, Kind, change_rows, join, list_rows
from compclip.interface.views import Views
from compclip.model.clip_model import ClipModule
from compclip.train import distributed, encode, extras
from compclip.train.batch import Batch
from compclip.train.extras import Extras

Loss = Callable[[Features], dict[str, Tensor]]


def sum_terms(terms: dict[str, Tensor]) -> Tensor:
    """Return the sum of the terms, a scalar."""
    return functools.reduce(operator.add, terms.values())


@dataclass(frozen=True)
class GradientComputer:
    """What a step computes with: model, frozen towers, precision, how many images at a time (0: all), and extras."""

    clip: ClipModule
    frozen: frozenset[str]
    autocast: Callable[[], AbstractContextManager]
    micro_batch: int = 0
    extras: Extras = extras.NONE
    text_groups: int = 1  # blocks of texts that are encoded together, at most

    def compute_gradients(self, batch: Batch, views: Views, loss: Loss) -> dict[str, Tensor]:
        """Return the named terms of the loss over all processes' batches; `.grad` then has the sum's gradient."""
        batch = copy_batch(batch, self.clip.logit_scale.device)
        sums = distributed.GradientSums(self.clip)
        if 0 < self.micro_batch < len(batch):
            terms = self._compute_in_parts(batch, views, loss, sums)
        else:
            with self.autocast():
                features = encode.encode_features(self.clip, batch, views, self.frozen, text_groups=self.text_groups)
                terms = self._compute_terms(features, self._encode_by_teacher([batch], views), views, loss)
            with sums.watch_backward():
                self.extras.scale_loss(sum_terms(terms)).backward()
        sums.finish()
        self.extras.average_gradients()
        return {name: term.detach() for name, term in terms.items()}

    def _compute_terms(
        self, local_features: Features, teacher_features: Features | None, views: Views, loss: Loss
    ) -> dict[str, Tensor]:
        """Return the terms of the whole batch's loss from this process's features, as model and teacher give them."""
        f = self.extras.extend_features(
            distributed.gather_features(local_features, views.own_tokens),
            teacher_features and distributed.gather_features(teacher_features, views.own_tokens),
        )
        terms = loss(f)
        self.extras.after_loss(f)
        return terms

    def _encode_by_teacher(self, micro_batches: list[Batch], views: Views) -> Features | None:
        """Return the teacher's features of a batch given in parts; None without a teacher."""
        if not self.extras.teacher:
            return None
        with torch.no_grad(), self.autocast():
            features_of_parts = []
            for micro_batch in micro_batches:
                f = encode.encode_features(self.extras.teacher, micro_batch, views, text_groups=self.text_groups)
                features_of_parts.append(f)
            return join(features_of_parts)

    def _compute_in_parts(
        self, batch: Batch, views: Views, loss: Loss, sums: distributed.GradientSums
    ) -> dict[str, Tensor]:
        micro_batches = [batch.rows(i, i + self.micro_batch) for i in range(0, len(batch), self.micro_batch)]
        # of dropout, which must be the same when encoded again
        seeds = torch.randint(2**62, (len(micro_batches),)).tolist()
        features_of_parts = []
        with torch.no_grad(), self.autocast():
            for micro_batch, seed in zip(micro_batches, seeds, strict=True):
                features_of_parts.append(self._encode(micro_batch, views, seed))
        leaves = self._detach_embeddings(join(features_of_parts))
        with self.autocast():
            terms = self._compute_terms(leaves, self._encode_by_teacher(micro_batches, views), views, loss)
        self.extras.scale_loss(sum_terms(terms)).backward()
        start = 0
        concepts = 0
        for micro_batch, seed, features in zip(micro_batches, seeds, features_of_parts, strict=True):
            is_last = micro_batch is micro_batches[-1]
            with sums.watch_backward() if is_last else nullcontext():
                self._backpropagate_part(micro_batch, views, seed, features, leaves, (start, concepts))
            start += len(micro_batch)
            concepts += len(features.owner_M)
        return terms

    def _encode(self, micro_batch: Batch, views: Views, seed: int, first_features: Features | None = None) -> Features:
        torch.manual_seed(seed)
        return encode.encode_features(self.clip, micro_batch, views, self.frozen, first_features, self.text_groups)

    def _detach_embeddings(self, f: Features) -> Features:
        """Return the embeddings as leaves that collect the loss's gradient; scale and bias stay in the graph."""

        def detach(_name: str, tensor: Tensor, kind: Kind) -> Tensor:
            return tensor.detach().requires_grad_(kind.tower not in self.frozen) if kind.tower else tensor

        return replace(change_rows(f, detach), scale=self.clip.logit_scale.exp(), bias=self.clip.logit_bias)

    def _backpropagate_part(
        self,
        micro_batch: Batch,
        views: Views,
        seed: int,
        first_features: Features,
        leaves: Features,
        first: tuple[int, int],
    ) -> None:
        """Encode a part again and pull the slope of its embeddings, which stand from `first` on, into the towers."""
        with self.autocast():
            encoded = self._encode(micro_batch, views, seed, first_features)
        ends: list[Tensor] = []
        slopes: list[Tensor] = []
        leaf_rows = list_rows(leaves)
        for name, (end, kind) in list_rows(encoded).items():
            slope = leaf_rows[name][0].grad if end.requires_grad else None
            if slope is not None:
                start = first[kind.row == "concept"]
                ends.append(end)
                slopes.append(slope[(slice(start, start + len(end)), *map(slice, end.shape[1:]))])
        if ends:
            torch.autograd.backward(ends, slopes)


# The copy of a batch to its device, which on a GPU runs while the step before still computes.
#
# The host enqueues a step without waiting for the device. So when it has the next batch, the device is busy; on a
# stream of its own the copy does not queue behind that work. Never measured: there was no GPU.


def copy_batch(batch: Batch, device: torch.device) -> Batch:
    """Return the batch on a device; kernels that are enqueued from now on see it whole."""
    if device.type != "cuda":
        return batch.to(device)
    compute = torch.cuda.current_stream(device)
    copying = _copy_stream(device)
    with torch.cuda.stream(copying):
        copy = batch.to(device)
    compute.wait_stream(copying)
    for tensor in copy.tensors():
        tensor.record_stream(compute)  # its memory is not given away before the step has used it
    return copy


@functools.cache
def _copy_stream(device: torch.device) -> Any:
    return torch.cuda.Stream(device)
