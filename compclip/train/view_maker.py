"""What one sample looks like in one epoch: its picture, its caption, and the texts that the rules make of it.

A view depends on (seed, epoch, sample id) and on what the method asks for: never on the batch, the worker count or
the other methods of the grid.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from PIL import Image

from compclip.base.errors import UserError
from compclip.data import images
from compclip.data.images import ImageError
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import Sample
from compclip.interface.views import Views
from compclip.text import concepts, sentences
from compclip.text.annotation import Annotation
from compclip.train import composite
from compclip.train.batch import FURTHER, PARTNER, View
from compclip.train.composite import Caption
from compclip.train.crops import RandomResizedCrop
from compclip.train.ranked import RankedSamples

WINDOW = 16  # shards whose samples are mixed at a time
CROPS, NEAR, READ, WORDED = 1, 2, 3, 4  # streams of a sample's randomness beside that of its texts

Texts = tuple[str | None, ...]  # None where a rule gave nothing


def _load_picture(sample: Sample) -> Image.Image:
    return images.load_image(sample.picture)


def sample_generator(seed: int, epoch: int, sample_id: str, *stream: int) -> np.random.Generator:
    """Return the generator of a sample in an epoch; `stream` gives further, independent ones."""
    return np.random.default_rng((seed, epoch, zlib.crc32(sample_id.encode()), *stream))


def full_order(size: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of samples in an epoch: a function of (seed, epoch) alone."""
    numbers = np.arange(size, dtype=np.uint32)
    np.random.default_rng((seed, epoch, 1 << 40)).shuffle(numbers)  # as `permutation`, which makes a copy first
    return numbers


def windowed_order(sizes: Sequence[int], seed: int, epoch: int) -> np.ndarray:
    """Return an order for disks that are slow to seek: shards in random order, samples mixed within `WINDOW` shards."""
    rng = np.random.default_rng((seed, epoch, 1 << 41))
    ends = np.cumsum(sizes)
    shards = rng.permutation(len(sizes))
    windows = [shards[i : i + WINDOW] for i in range(0, len(shards), WINDOW)]
    windows_of_samples = [
        np.concatenate([np.arange(ends[s] - sizes[s], ends[s], dtype=np.uint32) for s in w]) for w in windows
    ]
    return np.concatenate([rng.permutation(window) for window in windows_of_samples])


class ViewMaker:
    """Makes views of a training set.

    `load` opens the picture of a sample, of which `crop` takes a random part, unless it becomes part of a composite;
    `near` has the numbers of each sample's nearest ones, nearest first.
    """

    def __init__(
        self,
        data: PreparedDataset,
        seed: int,
        side: int,
        load: Callable[[Sample], Image.Image] = _load_picture,
        crop: RandomResizedCrop | None = None,
        nearest: Sequence[Sequence[int]] | np.ndarray = (),
    ) -> None:
        self.data, self.seed, self.side, self.load, self.crop, self.near = data, seed, side, load, crop, nearest
        self.common = composite.CommonNounPartners(data, seed)

    @cached_property
    def by_orientation(self) -> tuple[RankedSamples, RankedSamples]:
        """The samples with tall pictures and those with wide ones, computed at the first access."""
        return RankedSamples(self.data.wide, False), RankedSamples(self.data.wide, True)

    def view(self, index: int, epoch: int, views: Views) -> View:
        """Return the view of sample `index`. Raises ImageError where a picture cannot be read."""
        return _mask_true_negatives(self._view(index, epoch, views))

    def _view(self, index: int, epoch: int, views: Views) -> View:
        sample = self.data.sample(index)
        rng = sample_generator(self.seed, epoch, sample.id)
        which = int(rng.integers(self.data.captions(index)))
        picture = self.load(sample)
        if views.composite:
            return self._composite(index, which, picture, views, rng)
        caption = _cut_caption(self.data.annotation(index, which), views)
        clic_ends = views.ends == sentences.CLIC_ENDS
        text = sentences.strip_full_stop(caption.text) if clic_ends else caption.text
        negatives = _apply_rules(views.negatives, caption, rng, views.lowercase)
        positives = _apply_rules(views.positives, caption, rng, views.lowercase)
        positives += tuple(
            self._alternatives(index, caption, views, sample_generator(self.seed, epoch, sample.id, WORDED))
        )
        bag_negatives, bag_positives = _draw_bag(caption, views, rng) if views.bag else ((), ())
        cropping = sample_generator(self.seed, epoch, sample.id, CROPS)
        target = ""
        if views.target:
            reading = sample_generator(self.seed, epoch, sample.id, READ)
            target = self._wording(index, int(reading.integers(self.data.captions(index))), views)
        return View(
            self._crop_picture(picture, cropping),
            _apply_case(text, views.lowercase),
            negatives + bag_negatives,
            positives + bag_positives,
            concepts=_concept_spans(caption, views),
            negative_images=tuple(self._negative_images(index, views.negative_images, cropping)),
            target=target,
        )

    def _wording(self, index: int, which: int, views: Views) -> str:
        """Return one of a picture's captions as the views want it: cut and in their case."""
        return _apply_case(_cut_caption(self.data.annotation(index, which), views).text, views.lowercase)

    def _alternatives(
        self, index: int, caption: Annotation, views: Views, rng: np.random.Generator
    ) -> list[str | None]:
        """Return other wordings of a caption: the picture's other captions, and stored paraphrases of this one."""
        if not views.alternatives:
            return []
        wordings = [self._wording(index, i, views) for i in range(self.data.captions(index))]
        wordings += [_apply_case(text, views.lowercase) for text in caption.stored.get("paraphrase", ())]
        caption_text = _apply_case(caption.text, views.lowercase)
        different = list(dict.fromkeys(text for text in wordings if text != caption_text))
        texts = [different[i] for i in rng.permutation(len(different))[: views.alternatives]]
        return [*texts, *[None] * (views.alternatives - len(texts))]

    def neighbours(self, index: int, epoch: int, count: int) -> list[int]:
        """Draw `count` different samples of those nearest to one, anew in each epoch; fewer where it has fewer."""
        rng = sample_generator(self.seed, epoch, self.data.sample(index).id, NEAR)
        return [int(neighbour) for neighbour in rng.permutation(self.near[index])[:count]]

    def _crop_picture(self, picture: Image.Image, rng: np.random.Generator) -> Image.Image:
        return self.crop(picture, self.side, rng) if self.crop else picture

    def _negative_images(self, index: int, count: int, rng: np.random.Generator) -> Iterator[Image.Image | None]:
        """Yield the first pictures stored with a sample; None for one that is missing or cannot be read."""
        locations = self.data.negative_images(index)[:count] if count else ()
        for location in locations:
            try:
                yield self._crop_picture(images.load_image(location), rng)
            except ImageError:
                yield None
        yield from [None] * (count - len(locations))

    def _composite(self, index: int, which: int, picture: Image.Image, views: Views, rng: np.random.Generator) -> View:
        sentences = self._sentences(index, which)
        stand_ins = {FURTHER} if len(sentences) < 2 else set()
        partner, partner_sentences = None, None
        if views.partner:
            (partner, partner_caption), shares_noun = self._draw_partner(index, which, views.partner, rng)
            partner_sentences = self._sentences(partner, partner_caption)
            stand_ins |= {FURTHER} if len(partner_sentences) < 2 else set()
            stand_ins |= {PARTNER} if not shares_noun or partner == index else set()
        assert views.compose is not None  # views with a composite have one
        positives, negative = views.compose(
            sentences, partner_sentences, views.composite, rng, views.partner == "common_noun", views.ends
        )
        if partner is not None:
            partner_picture = self.load(self.data.sample(partner))
            picture = composite.join_pictures(picture, partner_picture, self.side, rng)
        texts = [_apply_case(t, views.lowercase) for t in positives]
        negatives = _apply_cases([negative], views.lowercase)
        return View(picture, texts[0], negatives, tuple(texts[1:]), stand_ins=frozenset(stand_ins))

    def _draw_partner(self, index: int, which: int, kind: str, rng: np.random.Generator) -> tuple[Caption, bool]:
        """Draw a partner and one of its captions; return them and whether they are of the kind asked for.

        It is any other one where no other first sentence has a noun of this one's.
        """
        partner_caption = self.common.draw((index, which), rng) if kind == "common_noun" else None
        partner = partner_caption[0] if partner_caption else self._draw_any_partner(index, rng)
        return partner_caption or (partner, int(rng.integers(self.data.captions(partner)))), bool(
            partner_caption
        ) or kind == "random"

    def _draw_any_partner(self, index: int, rng: np.random.Generator) -> int:
        """Draw another sample of the same orientation; the sample itself only where there is no other."""
        same_orientation = self.by_orientation[int(self.data.wide[index])]
        if len(same_orientation) == 1:
            rng.integers(1)  # as many draws wherever a sample stands
            return index
        rank = int(rng.integers(len(same_orientation) - 1))
        return same_orientation[rank + (rank >= same_orientation.rank(index))]

    def _sentences(self, index: int, which: int) -> tuple[Annotation, ...]:
        """Return the sentences of one caption; where it has a single one, those of the image's other captions too."""
        selected = sentences.select(self.data.annotation(index, which))
        if len(selected) > 1:
            return selected
        other_captions = (self.data.annotation(index, j) for j in range(self.data.captions(index)) if j != which)
        return selected + tuple(s for a in other_captions for s in sentences.select(a))


def _mask_true_negatives(view: View) -> View:
    """Mask negatives that equal the caption or a positive: no text is taught as both."""
    true_texts = {text.casefold() for text in (view.caption, *view.positives) if text is not None}
    negatives = tuple([None if text is not None and text.casefold() in true_texts else text for text in view.negatives])
    return view if negatives == view.negatives else replace(view, negatives=negatives)


def _cut_caption(annotation: Annotation, views: Views) -> Annotation:
    if views.caption == "full" or len(annotation.sentences) <= 1:
        return annotation
    return sentences.first(annotation)


def _concept_spans(caption: Annotation, views: Views) -> tuple[tuple[int, int], ...]:
    """Return the spans of characters of the caption's concepts."""
    if not views.concepts:
        return ()
    spans = tuple((start, end) for start, end, _ in concepts.spans(caption))
    return ((0, len(caption.text)),) if views.whole_concept and not spans else spans


def _apply_case(text: str, lowercase: bool) -> str:
    return text.lower() if lowercase else text


def _apply_cases(texts: Iterable[str | None], lowercase: bool) -> Texts:
    return tuple(None if text is None else _apply_case(text, lowercase) for text in texts)


def _apply_rules(rules: Sequence, caption: Annotation, rng: np.random.Generator, lowercase: bool) -> Texts:
    return _apply_cases((rule(caption, rng) for rule in rules), lowercase)


def _draw_bag(caption: Annotation, views: Views, rng: np.random.Generator) -> tuple[Texts, Texts]:
    """Return negatives and positives of a bag: texts drawn with replacement, and what the rule makes of each."""
    texts_of_sample = (*caption.stored.get("dense", ()), caption.text)
    texts_drawn = [texts_of_sample[index] for index in rng.integers(len(texts_of_sample), size=views.bag)]
    changed = [views.bag_rule(text, rng) for text in texts_drawn] if views.bag_rule else []
    return _apply_cases(changed, views.lowercase), _apply_cases(texts_drawn, views.lowercase)


class EpochSampler:
    """The samples of an epoch in its order, batch by batch; unreadable pictures give way to the next sample.

    Of `world` processes each makes the part of every batch that its `rank` stands for. Raises UserError where the data
    is smaller than a batch, or a batch cannot be shared evenly.
    """

    def __init__(self, maker: ViewMaker, batch_size: int, rank: int = 0, world: int = 1, shuffle: str = "full") -> None:
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
        full = functools.partial(full_order, len(maker.data), maker.seed)
        self._order = functools.lru_cache(2)(
            full if shuffle == "full" else functools.partial(windowed_order, maker.data.sizes, maker.seed)
        )
        self.first, self.share = rank * batch_size // world, batch_size // world

    def prepare_epoch(self, step: int) -> None:
        """Make what a step's whole epoch needs."""
        self._order(step // self.per_epoch)

    def batch(self, step: int, views: Views) -> tuple[list[View], dict[str, int]]:
        """Return the views of optimiser step `step` (counted from 0), and counts of replaced pictures by reason."""
        epoch, step_in_epoch = divmod(step, self.per_epoch)
        permuted = self._order(epoch)
        start = step_in_epoch * self.batch_size + self.first
        dropped: dict[str, int] = {}
        samples = [
            self._readable(permuted, position, epoch, views, dropped) for position in range(start, start + self.share)
        ]
        rows = [row for _, row in samples]
        for index, _ in samples if views.neighbours else ():
            rows += self._neighbours(index, epoch, views, dropped)
        if missing := sum(picture is None for row in rows for picture in row.negative_images):
            dropped["negative_image_missing"] = dropped.get("negative_image_missing", 0) + missing
        return rows, dropped

    def _readable(
        self, permuted: np.ndarray, position: int, epoch: int, views: Views, dropped: dict
    ) -> tuple[int, View]:
        """Return the first sample from a position on whose picture can be read, and its view."""
        for shift in range(len(permuted)):
            index = int(permuted[(position + shift) % len(permuted)])
            try:
                return index, self.maker.view(index, epoch, views)
            except ImageError as error:
                dropped[error.reason] = dropped.get(error.reason, 0) + 1
        raise UserError("no picture of the data can be read; check data.<name>.images")

    def _neighbours(self, index: int, epoch: int, views: Views, dropped: dict) -> Iterator[View]:
        """Yield views of a sample's neighbours; one that cannot be read is left out, and counted."""
        for neighbour in self.maker.neighbours(index, epoch, views.neighbours):
            try:
                yield self.maker.view(neighbour, epoch, views)
            except ImageError as error:
                dropped[f"neighbour_{error.reason}"] = dropped.get(f"neighbour_{error.reason}", 0) + 1
