"""What one sample looks like in one epoch: its picture, its caption, and the texts that the rules make of it.

A view depends on (seed, epoch, sample id) and on what the method asks for: never on the batch, the worker count or
the other methods of the grid.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from PIL import Image

from compclip.base.errors import UserError
from compclip.data.images import ImageError
from compclip.data.sample import Sample
from compclip.text import concepts, kept
from compclip.text.annotation import Annotation
from compclip.train import composite
from compclip.train.batch import View, Views


@dataclass(frozen=True)
class TrainSet:
    """Samples and their annotated captions: `annotations[i][j]` belongs to caption j of sample i."""

    samples: tuple[Sample, ...]
    annotations: tuple[tuple[Annotation, ...], ...]
    load: Callable[[str | Path], Image.Image]

    def __len__(self) -> int:
        return len(self.samples)


def generator(seed: int, epoch: int, sample_id: str) -> np.random.Generator:
    """The one source of randomness of a sample in an epoch."""
    return np.random.default_rng((seed, epoch, zlib.crc32(sample_id.encode())))


def order(size: int, seed: int, epoch: int) -> np.ndarray:
    """The order of samples in an epoch: a function of (seed, epoch) alone."""
    return np.random.default_rng((seed, epoch, 1 << 40)).permutation(size)


class Maker:
    """Makes views of a training set: holds what composites need to find a partner of the same orientation."""

    def __init__(self, data: TrainSet, seed: int, side: int) -> None:
        self.data, self.seed, self.side = data, seed, side
        shapes = [composite.orientation(s.width, s.height) for s in data.samples]
        self.partners = {o: np.flatnonzero([s == o for s in shapes]) for o in set(shapes)}
        self.shapes = shapes

    @cached_property
    def nouns(self) -> composite.CommonNouns:
        """Partners by common nouns, found when first asked for."""
        firsts = [[self._sentences(i, j)[0] for j in range(len(own))] for i, own in enumerate(self.data.annotations)]
        return composite.CommonNouns(firsts, self.shapes, self.seed)

    def view(self, index: int, epoch: int, views: Views) -> View:
        """The view of sample `index`. Raises ImageError where a picture cannot be read."""
        sample = self.data.samples[index]
        rng = generator(self.seed, epoch, sample.id)
        which = int(rng.integers(len(self.data.annotations[index])))
        picture = self.data.load(sample.image)
        if views.composite:
            return self._composite(index, which, picture, views, rng)
        caption = _caption(self.data.annotations[index][which], views)
        spans = tuple((start, end) for start, end, _ in concepts.spans(caption)) if views.concepts else ()
        texts = [_texts(rules, caption, rng, views.lowercase) for rules in (views.negatives, views.positives)]
        return View(picture, _case(caption.text, views.lowercase), *texts, concepts=spans)

    def _composite(self, index: int, which: int, picture: Image.Image, views: Views, rng: np.random.Generator) -> View:
        own = self._sentences(index, which)
        if views.partner:
            other, said = self._partner_place(index, which, views.partner, rng)
            their = self._sentences(other, said)
            positives, negative = composite.captions(own, their, views.composite, rng, views.partner == "common_noun")
            theirs = self.data.load(self.data.samples[other].image)
            picture = composite.pictures(picture, theirs, self.side, rng)
        else:
            positives, negative = composite.own_captions(own, views.composite, rng)
        texts = [_case(t, views.lowercase) for t in positives]
        return View(picture, texts[0], (_case(negative, views.lowercase),), tuple(texts[1:]))

    def _partner_place(self, index: int, which: int, kind: str, rng: np.random.Generator) -> composite.Place:
        """A partner and which of its captions; at random where no other first sentence has a noun of this one's."""
        found = self.nouns.draw((index, which), rng) if kind == "common_noun" else None
        other = found[0] if found else self._partner(index, rng)
        return found or (other, int(rng.integers(len(self.data.annotations[other]))))

    def _partner(self, index: int, rng: np.random.Generator) -> int:
        """Another sample of the same orientation; the sample itself only where there is no other."""
        others = self.partners[self.shapes[index]]
        others = others[others != index] if len(others) > 1 else others
        return int(others[rng.integers(len(others))])

    def _sentences(self, index: int, which: int) -> tuple[Annotation, ...]:
        """The sentences of one caption and, where it has a single one, those of the image's other captions."""
        annotations = self.data.annotations[index]
        chosen = kept.split(annotations[which])
        others = (a for j, a in enumerate(annotations) if j != which)
        return chosen if len(chosen) > 1 else chosen + tuple(s for a in others for s in kept.split(a))


def _caption(annotation: Annotation, views: Views) -> Annotation:
    if views.caption == "full" or len(annotation.sentences) <= 1:
        return annotation
    return kept.first(annotation)


def _case(text: str | None, lowercase: bool) -> str | None:
    return text.lower() if text is not None and lowercase else text


def _texts(rules: Sequence, caption: Annotation, rng: np.random.Generator, lowercase: bool) -> tuple[str | None, ...]:
    return tuple(_case(rule(caption, rng), lowercase) for rule in rules)


class Rows:
    """The samples of an epoch in its order, batch by batch; unreadable pictures give way to the next sample.

    Of `world` processes each makes the part of every batch that its `rank` stands for. Raises UserError where the data
    is smaller than a batch, or a batch cannot be shared evenly.
    """

    def __init__(self, maker: Maker, batch_size: int, rank: int = 0, world: int = 1) -> None:
        if len(maker.data) < batch_size:
            count = len(maker.data)
            raise UserError(f"train.batch_size={batch_size}: the data has {count} samples; lower the batch size")
        if batch_size % world:
            raise UserError(
                f"train.batch_size={batch_size}: not a multiple of the {world} processes of this run; "
                "change one of them"
            )
        self.maker, self.batch_size = maker, batch_size
        self.per_epoch = len(maker.data) // batch_size
        self._order = functools.lru_cache(2)(functools.partial(order, len(maker.data), maker.seed))
        self.first, self.own = rank * batch_size // world, batch_size // world

    def batch(self, step: int, views: Views) -> tuple[list[View], dict[str, int]]:
        """The views of optimiser step `step` (counted from 0) and what had to be replaced, by reason."""
        epoch, within = divmod(step, self.per_epoch)
        permuted = self._order(epoch)
        start, dropped = within * self.batch_size + self.first, {}
        rows = [self._readable(permuted, place, epoch, views, dropped) for place in range(start, start + self.own)]
        return rows, dropped

    def _readable(self, permuted: np.ndarray, place: int, epoch: int, views: Views, dropped: dict) -> View:
        for shift in range(len(permuted)):
            try:
                return self.maker.view(int(permuted[(place + shift) % len(permuted)]), epoch, views)
            except ImageError as error:
                dropped[error.reason] = dropped.get(error.reason, 0) + 1
        raise UserError("no picture of the data can be read; check data.<name>.images")
