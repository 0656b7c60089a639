"""What one sample looks like in one epoch: its picture, its caption, and the texts that the rules make of it.

A view depends on (seed, epoch, sample id) and on what the method asks for: never on the batch, the worker count or
the other methods of the grid.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from PIL import Image

from compclip.base.errors import UserError
from compclip.data import images
from compclip.data.images import ImageError
from compclip.data.sample import Sample
from compclip.text import concepts, kept, swap
from compclip.text.annotation import Annotation
from compclip.train import composite, view_shares
from compclip.train.batch import View, Views
from compclip.train.crops import RandomResizedCrop
from compclip.train.ranked import Ranked
from compclip.train.train_set import Numbered, TrainSet

WINDOW = 16  # shards whose samples are mixed at a time
CROPS, NEAR, READ, WORDED = 1, 2, 3, 4  # streams of a sample's randomness beside that of its texts


def _picture(sample: Sample) -> Image.Image:
    return images.load(sample.picture)


def generator(seed: int, epoch: int, sample_id: str, *stream: int) -> np.random.Generator:
    """The source of randomness of a sample in an epoch, or a further one that leaves the first as it is."""
    return np.random.default_rng((seed, epoch, zlib.crc32(sample_id.encode()), *stream))


def order(size: int, seed: int, epoch: int) -> np.ndarray:
    """The order of samples in an epoch: a function of (seed, epoch) alone."""
    numbers = np.arange(size, dtype=np.uint32)
    np.random.default_rng((seed, epoch, 1 << 40)).shuffle(numbers)  # as `permutation`, which makes a copy first
    return numbers


def windowed(sizes: Sequence[int], seed: int, epoch: int) -> np.ndarray:
    """The same for a disk that is slow to seek: shards in random order, samples mixed within some shards at a time."""
    rng = np.random.default_rng((seed, epoch, 1 << 41))
    ends = np.cumsum(sizes)
    shards = rng.permutation(len(sizes))
    windows = [shards[i : i + WINDOW] for i in range(0, len(shards), WINDOW)]
    parts = [np.concatenate([np.arange(ends[s] - sizes[s], ends[s], dtype=np.uint32) for s in w]) for w in windows]
    return np.concatenate([rng.permutation(part) for part in parts])


class Maker:
    """Makes views of a training set.

    `load` opens the picture of a sample, of which `crop` takes a random part, unless it becomes part of a composite;
    `near` has the numbers of each sample's nearest ones, nearest first.
    """

    def __init__(
        self,
        data: TrainSet,
        seed: int,
        side: int,
        load: Callable[[Sample], Image.Image] = _picture,
        crop: RandomResizedCrop | None = None,
        near: Sequence[Sequence[int]] | np.ndarray = (),
    ) -> None:
        self.data, self.seed, self.side, self.load, self.crop, self.near = data, seed, side, load, crop, near
        self.common = composite.CommonNouns(data, seed)

    @cached_property
    def alike(self) -> tuple[Ranked, Ranked]:
        """The samples with tall pictures and those with wide ones, found when first asked for."""
        return Ranked(self.data.wide, False), Ranked(self.data.wide, True)

    def view(self, index: int, epoch: int, views: Views) -> View:
        """The view of sample `index`. Raises ImageError where a picture cannot be read."""
        return _one_sided(self._view(index, epoch, views))

    def _view(self, index: int, epoch: int, views: Views) -> View:
        sample = self.data.sample(index)
        rng = generator(self.seed, epoch, sample.id)
        which = int(rng.integers(self.data.captions(index)))
        picture = self.load(sample)
        if views.composite:
            return self._composite(index, which, picture, views, rng)
        caption = _caption(self.data.annotation(index, which), views)
        texts = [_texts(rules, caption, rng, views.lowercase) for rules in (views.negatives, views.positives)]
        texts[1] += tuple(self._alternatives(index, caption, views, generator(self.seed, epoch, sample.id, WORDED)))
        bag = _bag(caption, views, rng) if views.bag else ((), ())
        cropping = generator(self.seed, epoch, sample.id, CROPS)
        return View(
            self._part(picture, cropping),
            _case(swap.endless(caption.text) if views.ends == swap.CLIC else caption.text, views.lowercase),
            *(own + more for own, more in zip(texts, bag, strict=True)),
            concepts=_concepts(caption, views),
            negative_images=tuple(self._negative_images(index, views.negative_images, cropping)),
            target=self._other_caption(index, views, generator(self.seed, epoch, sample.id, READ)),
        )

    def _said(self, index: int, which: int, views: Views) -> str:
        """One of a picture's captions as a method has it."""
        return _case(_caption(self.data.annotation(index, which), views).text, views.lowercase) or ""

    def _other_caption(self, index: int, views: Views, rng: np.random.Generator) -> str:
        """Any of a picture's captions, to be read."""
        return self._said(index, int(rng.integers(self.data.captions(index))), views) if views.target else ""

    def _alternatives(
        self, index: int, caption: Annotation, views: Views, rng: np.random.Generator
    ) -> list[str | None]:
        """Other wordings of a caption: the picture's other captions, and the stored paraphrases of this one."""
        if not views.alternatives:
            return []
        said = [self._said(index, i, views) for i in range(self.data.captions(index))]
        said += [_case(text, views.lowercase) or "" for text in caption.stored.get("paraphrase", ())]
        own = _case(caption.text, views.lowercase)
        others = list(dict.fromkeys(text for text in said if text != own))
        drawn = [others[i] for i in rng.permutation(len(others))[: views.alternatives]]
        return [*drawn, *[None] * (views.alternatives - len(drawn))]

    def neighbours(self, index: int, epoch: int, count: int) -> list[int]:
        """`count` different samples of those nearest to one, drawn anew in each epoch; fewer where it has fewer."""
        rng = generator(self.seed, epoch, self.data.sample(index).id, NEAR)
        return [int(other) for other in rng.permutation(self.near[index])[:count]]

    def _part(self, picture: Image.Image, rng: np.random.Generator) -> Image.Image:
        return self.crop(picture, self.side, rng) if self.crop else picture

    def _negative_images(self, index: int, count: int, rng: np.random.Generator) -> Iterator[Image.Image | None]:
        """The first pictures stored beside a sample; None for one that is missing or cannot be read."""
        stored = self.data.negative_images(index)[:count] if count else ()
        for place in stored:
            try:
                yield self._part(images.load(place), rng)
            except ImageError:
                yield None
        yield from [None] * (count - len(stored))

    def _composite(self, index: int, which: int, picture: Image.Image, views: Views, rng: np.random.Generator) -> View:
        own = self._sentences(index, which)
        stand_ins = {view_shares.FURTHER} if len(own) < 2 else set()
        if views.partner:
            (other, said), shares_noun = self._partner_place(index, which, views.partner, rng)
            their = self._sentences(other, said)
            stand_ins |= {view_shares.FURTHER} if len(their) < 2 else set()
            stand_ins |= {view_shares.PARTNER} if not shares_noun or other == index else set()
            common = views.partner == "common_noun"
            positives, negative = composite.captions(own, their, views.composite, rng, common, views.ends)
            theirs = self.load(self.data.sample(other))
            picture = composite.pictures(picture, theirs, self.side, rng)
        else:
            positives, negative = composite.own_captions(own, views.composite, rng, views.ends)
        texts = [_case(t, views.lowercase) for t in positives]
        negatives = (_case(negative, views.lowercase),)
        return View(picture, texts[0], negatives, tuple(texts[1:]), stand_ins=frozenset(stand_ins))

    def _partner_place(self, index: int, which: int, kind: str, rng: np.random.Generator) -> tuple[Numbered, bool]:
        """A partner and which of its captions, and whether it is of the kind.

        It is any other one where no other first sentence has a noun of this one's.
        """
        found = self.common.draw((index, which), rng) if kind == "common_noun" else None
        other = found[0] if found else self._partner(index, rng)
        return found or (other, int(rng.integers(self.data.captions(other)))), bool(found) or kind == "random"

    def _partner(self, index: int, rng: np.random.Generator) -> int:
        """Another sample of the same orientation; the sample itself only where there is no other."""
        others = self.alike[int(self.data.wide[index])]
        if len(others) == 1:
            rng.integers(1)  # as many draws wherever a sample stands
            return index
        drawn = int(rng.integers(len(others) - 1))
        return others[drawn + (drawn >= others.rank(index))]

    def _sentences(self, index: int, which: int) -> tuple[Annotation, ...]:
        """The sentences of one caption and, where it has a single one, those of the image's other captions."""
        chosen = kept.split(self.data.annotation(index, which))
        if len(chosen) > 1:
            return chosen
        others = (self.data.annotation(index, j) for j in range(self.data.captions(index)) if j != which)
        return chosen + tuple(s for a in others for s in kept.split(a))


def _one_sided(view: View) -> View:
    """Mask negatives that are the caption or one of the positives: no text is taught as both."""
    said = {text.casefold() for text in (view.caption, *view.positives) if text is not None}
    negatives = tuple([None if text is not None and text.casefold() in said else text for text in view.negatives])
    return view if negatives == view.negatives else replace(view, negatives=negatives)


def _caption(annotation: Annotation, views: Views) -> Annotation:
    if views.caption == "full" or len(annotation.sentences) <= 1:
        return annotation
    return kept.first(annotation)


def _concepts(caption: Annotation, views: Views) -> tuple[tuple[int, int], ...]:
    """The characters of the caption's concepts."""
    if not views.concepts:
        return ()
    found = tuple((start, end) for start, end, _ in concepts.spans(caption))
    return ((0, len(caption.text)),) if views.whole_concept and not found else found


def _case(text: str | None, lowercase: bool) -> str | None:
    return text.lower() if text is not None and lowercase else text


def _texts(rules: Sequence, caption: Annotation, rng: np.random.Generator, lowercase: bool) -> tuple[str | None, ...]:
    return tuple(_case(rule(caption, rng), lowercase) for rule in rules)


def _bag(caption: Annotation, views: Views, rng: np.random.Generator) -> tuple[tuple[str | None, ...], ...]:
    """Negatives and positives of a bag: texts drawn with replacement, and what the rule makes of each."""
    held = (*caption.stored.get("dense", ()), caption.text)
    drawn = [held[place] for place in rng.integers(len(held), size=views.bag)]
    changed = [views.bag_rule(text, rng) for text in drawn] if views.bag_rule else []
    negatives, positives = (tuple(_case(t, views.lowercase) for t in texts) for texts in (changed, drawn))
    return negatives, positives


class Rows:
    """The samples of an epoch in its order, batch by batch; unreadable pictures give way to the next sample.

    Of `world` processes each makes the part of every batch that its `rank` stands for. Raises UserError where the data
    is smaller than a batch, or a batch cannot be shared evenly.
    """

    def __init__(self, maker: Maker, batch_size: int, rank: int = 0, world: int = 1, shuffle: str = "full") -> None:
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
        draw, given = (order, len(maker.data)) if shuffle == "full" else (windowed, maker.data.sizes)
        self._order = functools.lru_cache(2)(functools.partial(draw, given, maker.seed))
        self.first, self.own = rank * batch_size // world, batch_size // world

    def ready(self, step: int) -> None:
        """Make what a step's whole epoch needs."""
        self._order(step // self.per_epoch)

    def batch(self, step: int, views: Views) -> tuple[list[View], dict[str, int]]:
        """The views of optimiser step `step` (counted from 0) and what had to be replaced, by reason."""
        epoch, within = divmod(step, self.per_epoch)
        permuted = self._order(epoch)
        start, dropped = within * self.batch_size + self.first, {}
        found = [self._readable(permuted, place, epoch, views, dropped) for place in range(start, start + self.own)]
        rows = [row for _, row in found]
        for index, _ in found if views.neighbours else ():
            rows += self._neighbours(index, epoch, views, dropped)
        _count_lacking(rows, dropped)
        return rows, dropped

    def _readable(self, permuted: np.ndarray, place: int, epoch: int, views: Views, dropped: dict) -> tuple[int, View]:
        """The first sample from a place on whose picture can be read, and its view."""
        for shift in range(len(permuted)):
            index = int(permuted[(place + shift) % len(permuted)])
            try:
                return index, self.maker.view(index, epoch, views)
            except ImageError as error:
                dropped[error.reason] = dropped.get(error.reason, 0) + 1
        raise UserError("no picture of the data can be read; check data.<name>.images")

    def _neighbours(self, index: int, epoch: int, views: Views, dropped: dict) -> Iterator[View]:
        """Rows of a sample's neighbours; one that cannot be read is left out, and counted."""
        for other in self.maker.neighbours(index, epoch, views.neighbours):
            try:
                yield self.maker.view(other, epoch, views)
            except ImageError as error:
                dropped[f"neighbour_{error.reason}"] = dropped.get(f"neighbour_{error.reason}", 0) + 1


def _count_lacking(rows: Sequence[View], dropped: dict[str, int]) -> None:
    if lacking := sum(picture is None for row in rows for picture in row.negative_images):
        dropped["negative_image_missing"] = dropped.get("negative_image_missing", 0) + lacking
