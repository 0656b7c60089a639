"""The gradients of one step's whole-batch loss, with a batch that may be larger than memory.

B images of this process, D dim. With `train.micro_batch` the batch is encoded in parts, without a graph; the loss of
the whole batch gives the slope of every embedding; then each part is encoded again, with a graph, and hands its slope
on (gradient caching: Gao et al., RepL4NLP 2021, arXiv:2101.06983). The contrast stays that of the whole batch, memory
is that of one part, and the towers that are trained run forward twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from compclip.train import distributed, encode, extras
from compclip.train.batch import Batch, Views
from compclip.train.extras import Extras
from compclip.train.features import Features, join, kinds

Loss = Callable[[Features], dict[str, Tensor]]


def sloped() -> list[tuple[str, str]]:
    """The fields on which a loss leaves a slope, and the tower that makes each."""
    return [(name, kind.tower) for name, kind in kinds().items() if kind.tower]


@dataclass(frozen=True)
class Step:
    """What a step computes with: model, frozen towers, precision, how many images at a time (0: all), and extras."""

    clip: nn.Module
    frozen: frozenset[str]
    autocast: Callable[[], AbstractContextManager]
    micro_batch: int = 0
    extras: Extras = extras.NONE

    def gradients(self, batch: Batch, views: Views, loss: Loss) -> dict[str, Tensor]:
        """The named terms of the loss over all processes' batches; `.grad` of the parameters has its slope."""
        if 0 < self.micro_batch < len(batch):
            terms = self._cached(batch, views, loss)
        else:
            with self.autocast():
                features = encode.features(self.clip, batch.to(self._device), views, self.frozen)
                terms = self._terms(features, self._taught([batch], views), loss)
            sum(terms.values()).backward()
        distributed.sum_gradients(self.clip)
        self.extras.average_gradients()
        return {name: term.detach() for name, term in terms.items()}

    @property
    def _device(self) -> torch.device:
        return self.clip.logit_scale.device

    def _terms(self, own: Features, taught: Features | None, loss: Loss) -> dict[str, Tensor]:
        """The loss of the whole batch, from this process's part of it as model and teacher see it."""
        f = self.extras.shown(distributed.whole(own), taught and distributed.whole(taught))
        terms = loss(f)
        self.extras.after_loss(f)
        return terms

    def _taught(self, parts: list[Batch], views: Views) -> Features | None:
        """What the teacher makes of a batch, given in parts; None without one."""
        if not self.extras.teacher:
            return None
        with torch.no_grad(), self.autocast():
            return join([encode.features(self.extras.teacher, p.to(self._device), views) for p in parts])

    def _cached(self, batch: Batch, views: Views, loss: Loss) -> dict[str, Tensor]:
        parts = [batch.rows(i, i + self.micro_batch) for i in range(0, len(batch), self.micro_batch)]
        seeds = torch.randint(2**62, (len(parts),)).tolist()  # of dropout, which must be the same when encoded again
        with torch.no_grad(), self.autocast():
            seen = [self._encode(part, views, seed) for part, seed in zip(parts, seeds, strict=True)]
        leaves = self._leaves(join(seen))
        with self.autocast():
            terms = self._terms(leaves, self._taught(parts, views), loss)
        sum(terms.values()).backward()
        start, concepts = 0, 0
        for part, seed, before in zip(parts, seeds, seen, strict=True):
            self._hand_on(part, views, seed, before, leaves, (start, concepts))
            start, concepts = start + len(part), concepts + len(before.owner_M)
        return terms

    def _encode(self, part: Batch, views: Views, seed: int, seen: Features | None = None) -> Features:
        torch.manual_seed(seed)
        return encode.features(self.clip, part.to(self._device), views, self.frozen, seen)

    def _leaves(self, f: Features) -> Features:
        """The embeddings as leaves, so that the loss leaves its slope on them; scale and bias in the graph."""
        values = {name: getattr(f, name).detach().requires_grad_(tower not in self.frozen)
                  for name, tower in sloped() if getattr(f, name) is not None}  # fmt: skip
        return replace(f, **values, scale=self.clip.logit_scale.exp(), bias=self.clip.logit_bias)

    def _hand_on(
        self, part: Batch, views: Views, seed: int, seen: Features, leaves: Features, first: tuple[int, int]
    ) -> None:
        """Encode a part again and pull the slope of its embeddings, which stand from `first` on, into the towers."""
        with self.autocast():
            again = self._encode(part, views, seed, seen)
        ends, slopes = [], []
        for name, _ in sloped():
            end, leaf = getattr(again, name), getattr(leaves, name)
            if end is not None and end.requires_grad and leaf.grad is not None:
                start = first[kinds()[name].row == "concept"]
                cut = (slice(start, start + len(end)), *(slice(size) for size in end.shape[1:]))
                ends.append(end)
                slopes.append(leaf.grad[cut])
        if ends:
            torch.autograd.backward(ends, slopes)
