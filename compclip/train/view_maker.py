"""What one sample looks like in one epoch: its picture, its caption, and the texts that the rules make of it.

A view depends on (seed, epoch, sample id) and on what the method asks for: never on the batch, the worker count or
the other methods of the grid. H, W pixels.
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from compclip.data import images
from compclip.data.images import ImageError
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import ImageLocation, Sample
from compclip.interface.views import Views
from compclip.runs.run_folder import CUT
from compclip.text import sentences
from compclip.text.annotation import Annotation
from compclip.text.text_groups import SampleTexts
from compclip.train.batch import FURTHER, PARTNER, REGION_LEFT, TARGET, RegionView, View
from compclip.train.picture_views import (
    WHOLE,
    Box,
    Fit,
    Part,
    Partners,
    Resize,
    cut_region,
    draw_regions,
    find_shown_part,
    join_pictures,
    resize_by_pillow,
)

if TYPE_CHECKING:
    from torch import Tensor


# What the model reads of texts: nothing behind its context, no white space, no capitals.


@dataclass(frozen=True)
class ContextReader:
    """Tells whether the model reads two texts as one: their tokens are equal as far as its context goes.

    `tokenize` returns ids [B, L]. A token is a byte or more of a text, so texts whose first `room` bytes differ have
    other tokens: only where these are equal both are tokenised. Without `tokenize` texts are compared by themselves.
    """

    tokenize: Callable[[list[str]], Tensor] | None = None
    room: int = 0

    def start(self, text: str) -> bytes:
        """Return the beginning of a text that is equal for all texts that the model reads as this one."""
        if self.tokenize is None:
            return text.casefold().encode("utf-8", "surrogatepass")
        return "".join(text.casefold().split()).encode("utf-8", "surrogatepass")[: self.room]

    def reads_alike(self, text: str, another: str) -> bool:
        """Return whether the model reads both as one text."""
        if text.casefold() == another.casefold():
            return True
        if self.tokenize is None or self.start(text) != self.start(another):
            return False
        first_L, second_L = self.tokenize([text, another])
        return bool((first_L == second_L).all())


PLAIN_READER = ContextReader()  # of no model: texts are compared whole


class TrueTexts:
    """Texts that are true of a picture; `in` says whether the model reads a text as one of them."""

    def __init__(self, texts: Iterable[str | None], reader: ContextReader) -> None:
        self._reader = reader
        self._by_start: dict[bytes, list[str]] = {}
        for text in texts:
            if text is not None:
                self._by_start.setdefault(reader.start(text), []).append(text)

    def __contains__(self, text: str | None) -> bool:
        if text is None:
            return False
        alike = self._by_start.get(self._reader.start(text), ())
        return any(self._reader.reads_alike(text, true_text) for true_text in alike)

    def mask(self, texts: Texts) -> Texts:
        """Return texts with None in place of those that the model reads as a true one."""
        return tuple(None if text in self else text for text in texts)


# streams of a sample's randomness beside that of its texts
# 4 and 6: groups of texts
CROPS = 1
NEAR = 2
READ = 3
DRAWN_AGAIN = 5
REGIONS = 7
TRUE_DRAWN_AGAIN = 8
TRIES = 10  # as in torchvision: parts that stick out are drawn again, and then the middle is taken
RATIO = (3 / 4, 4 / 3)  # width to height

Texts = tuple[str | None, ...]  # None where a rule gave nothing
Draw = Callable[[np.random.Generator], "str | None"]
Streams = Callable[[int], np.random.Generator]  # of one sample in one epoch, by the numbers above


@dataclass(frozen=True)
class RandomResizedCrop:
    """`low` to `high` of a picture's area, at a width to height of 3/4 to 4/3, scaled to the model's square.

    FSC-CLIP, C2LIP, NegCLIP and SVLC train on 90 to 100 % of a picture's area; the rule is torchvision's, by which they
    do it, drawn from a generator of our own so that a crop depends on (seed, epoch, sample) alone.
    """

    low: float
    high: float
    resize: Resize = resize_by_pillow

    def __call__(self, picture: Image.Image, side: int, rng: np.random.Generator) -> Image.Image:
        """Return a square of `side` pixels, scaled by cubic interpolation as open_clip's training transform does."""
        return self.cut(picture, self.draw_box(*picture.size, rng), side)

    def cut(self, picture: Image.Image, box: Box, side: int) -> Image.Image:
        """Return a box of the picture as a square of `side` pixels."""
        return self.resize(picture.crop(box), (side, side))

    def draw_box(self, width: int, height: int, rng: np.random.Generator) -> Box:
        """Draw the box that is cropped."""
        for _ in range(TRIES):
            area = width * height * rng.uniform(self.low, self.high)
            ratio = math.exp(rng.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
            w = round(math.sqrt(area * ratio))
            h = round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                left = int(rng.integers(width - w + 1))
                upper = int(rng.integers(height - h + 1))
                return left, upper, left + w, upper + h
        return central_box(width, height)


def central_box(width: int, height: int) -> Box:
    """Return the whole picture, cut around its centre to the nearest allowed ratio."""
    w = min(width, max(1, round(height * RATIO[1])))
    h = min(height, max(1, round(width / RATIO[0])))
    left = (width - w) // 2
    upper = (height - h) // 2
    return left, upper, left + w, upper + h


def sample_generator(seed: int, epoch: int, sample_id: str, *stream: int) -> np.random.Generator:
    """Return the generator of a sample in an epoch; `stream` gives further, independent ones."""
    return np.random.default_rng((seed, epoch, zlib.crc32(sample_id.encode()), *stream))


def _load_picture(sample: Sample) -> Image.Image:
    return images.load_image(sample.picture)


@dataclass
class ViewMaker:
    """Makes views of a training set.

    `load` opens the picture of a sample, of which `crop` takes a random part, unless it becomes part of a composite,
    whose parts `resize` scales. Without `crop`, `fit` brings it to the model's size, if that is not left to the batch;
    either as `fit_mode` says ("shortest", …).
    `nearest` has the numbers of each sample's nearest ones. `reader` knows which texts the model reads as one.
    """

    data: PreparedDataset
    seed: int
    side: int
    load: Callable[[Sample], Image.Image] = _load_picture
    crop: RandomResizedCrop | None = None
    nearest: Sequence[Sequence[int]] | np.ndarray = ()
    resize: Resize = resize_by_pillow
    fit: Fit | None = None
    fit_mode: str = "shortest"
    reader: ContextReader = PLAIN_READER

    def __post_init__(self) -> None:
        """Prepare the draws of partners."""
        self.partners = Partners(self.data, self.seed)

    def view(self, index: int, epoch: int, views: Views) -> View:
        """Return the view of sample `index`. Raises ImageError where a picture cannot be read.

        Negatives that the model reads as the caption or as a positive are drawn again, or masked if they stay so: no
        text is both. So are positives in other words that it reads as the caption.
        """
        sample = self.data.sample(index)
        generator = functools.partial(sample_generator, self.seed, epoch, sample.id)
        rng = generator()
        which = int(rng.integers(self.data.captions(index)))
        picture = self.load(sample)
        if views.composite:
            view = self._composite(index, which, picture, views, rng)
        else:
            view = self._single(index, which, picture, views, rng, generator)
        return self._mask_true(view)

    def _mask_true(self, view: View) -> View:
        """Mask the negatives that the model reads as a true text; count those that are written otherwise."""
        true_texts = TrueTexts((view.caption, *view.positives), self.reader)
        as_written = TrueTexts((view.caption, *view.positives), PLAIN_READER)
        negatives = true_texts.mask(view.negatives)
        cut = negatives.count(None) - as_written.mask(view.negatives).count(None)
        return replace(view, negatives=negatives, faults={**view.faults, CUT + "negatives": cut})

    def _single(
        self, index: int, which: int, picture: Image.Image, views: Views, rng: np.random.Generator, generator: Streams
    ) -> View:
        caption = _cut_caption(self.data.annotation(index, which), views)
        clic_ends = views.ends == sentences.CLIC_ENDS
        text = _in_case(sentences.strip_full_stop(caption.text) if clic_ends else caption.text, views)
        texts = self._draw_texts(index, caption, views, rng, generator)
        positives, cut_positives = self._draw_true(text, texts.true, caption, views, generator)
        negatives = self._draw_false(TrueTexts((text, *positives), self.reader), texts, views, generator)
        named = dict(texts.named)
        if views.target:
            which_read = int(generator(READ).integers(self.data.captions(index)))
            caption_read = _cut_caption(self.data.annotation(index, which_read), views)
            named[TARGET] = (text if views.target.is_shown else _in_case(caption_read.text, views),)
        cropping = generator(CROPS)
        shown_picture, part = self._show(picture, views, cropping)
        regions, regions_left = self._regions(index, picture, part, views, generator)
        return View(
            image=shown_picture,
            caption=text,
            negatives=negatives,
            positives=positives,
            concepts=_concept_spans(caption, views),
            negative_images=tuple(self._negative_images(index, texts.pictures, views.negative_images, cropping)),
            texts=named,
            regions=regions,
            faults={CUT + "positives": cut_positives, REGION_LEFT: regions_left},
        )

    def _draw_texts(
        self, index: int, caption: Annotation, views: Views, rng: np.random.Generator, generator: Streams
    ) -> _RuleTexts:
        """Return what all rules make of a caption."""
        false: list[str | None] = []
        redraws: list[Draw] = []
        for rule in views.negatives:
            false.append(rule(caption, rng))
            redraws.append(functools.partial(rule, caption))
        true = [rule(caption, rng) for rule in views.positives]
        named: dict[str, Texts] = {}
        pictures: Sequence[int] = range(views.negative_images)
        sample = SampleTexts(caption, functools.partial(self._read_captions, index, views))
        for group in views.groups:
            drawn = group.draw(sample, generator(group.stream) if group.stream else rng)
            true += _pad(drawn.true, group.true)
            false += _pad(drawn.false, group.false)
            redraws += [*drawn.redraws, *[_draw_nothing] * (group.false - len(drawn.redraws))]
            pictures = pictures if drawn.pictures is None else drawn.pictures
            if group.named:
                named[group.name] = _apply_case(_pad(drawn.named, group.named), views)
        return _RuleTexts(_apply_case(true, views), _apply_case(false, views), redraws, named, pictures)

    def _read_captions(self, index: int, views: Views) -> list[Annotation]:
        """Return all captions of a picture, as the views cut them."""
        return [_cut_caption(self.data.annotation(index, i), views) for i in range(self.data.captions(index))]

    def _draw_false(self, true_texts: TrueTexts, texts: _RuleTexts, views: Views, generator: Streams) -> Texts:
        """Return the false texts; those that the model reads as a true one are drawn anew where their rule can."""
        if not any(text in true_texts for text in texts.false):
            return texts.false
        again = generator(DRAWN_AGAIN)
        pairs = zip(texts.false, texts.redraws, strict=True)
        return tuple(_draw_other(text, true_texts, draw, again, views) for text, draw in pairs)

    def _draw_true(
        self, caption_text: str, positives: Texts, caption: Annotation, views: Views, generator: Streams
    ) -> tuple[Texts, int]:
        """Return the positives without those that the model reads as the caption, though written otherwise; count them.

        A rule draws again before its text is masked.
        """
        read_as_caption = TrueTexts([caption_text], self.reader)

        def is_cut(text: str | None) -> bool:
            return text is not None and text.casefold() != caption_text.casefold() and text in read_as_caption

        if not any(map(is_cut, positives)):
            return positives, 0
        again = generator(TRUE_DRAWN_AGAIN)
        drawn: list[str | None] = []
        cut = 0
        for text, rule in itertools.zip_longest(positives, views.positives):  # texts of groups are not drawn again
            if rule and is_cut(text):
                text = _draw_other(text, read_as_caption, functools.partial(rule, caption), again, views)
            if is_cut(text):
                cut += 1
                text = None
            drawn.append(text)
        return tuple(drawn), cut

    def _show(self, picture: Image.Image, views: Views, rng: np.random.Generator) -> tuple[Image.Image, Part]:
        """Return the picture as it is shown, and which part of it that is."""
        if views.squash:
            return self.resize(picture, (self.side, self.side)), WHOLE
        if not self.crop:
            part = find_shown_part(picture.size, self.fit_mode) if views.regions else WHOLE
            return self._crop_picture(picture, rng), part
        width, height = picture.size
        box = self.crop.draw_box(width, height, rng)
        left, upper, right, lower = box
        return self.crop.cut(picture, box, self.side), (left / width, upper / height, right / width, lower / height)

    def _regions(
        self, index: int, picture: Image.Image, part: Part, views: Views, generator: Streams
    ) -> tuple[tuple[RegionView | None, ...], int]:
        """Return regions that the part of the picture shows, and how many of the picture it does not show."""
        if not views.regions:
            return (), 0
        asked = views.regions
        drawn_regions, unseen_count = draw_regions(self.data.regions(index), part, asked, generator(REGIONS))
        regions = []
        for box, drawn_texts, stored_box in drawn_regions:
            texts = _apply_case(drawn_texts, views)
            captions = texts[:2]  # behind them are false texts, of which none may be read as one of them
            false_texts = TrueTexts(captions, self.reader).mask(texts[2:])
            crop = cut_region(picture, stored_box, asked.crops, self.side, self.resize)
            regions.append(RegionView(box, captions + false_texts, crop))
        return (*regions, *[None] * (asked.count - len(regions))), unseen_count

    def neighbours(self, index: int, epoch: int, count: int) -> list[int]:
        """Draw `count` different samples of those nearest to one, anew in each epoch; fewer where it has fewer."""
        rng = sample_generator(self.seed, epoch, self.data.sample(index).id, NEAR)
        return rng.permutation(self.nearest[index])[:count].tolist()

    def _crop_picture(self, picture: Image.Image, rng: np.random.Generator) -> Image.Image:
        if self.crop:
            return self.crop(picture, self.side, rng)
        return self.fit(picture) if self.fit else picture

    def _negative_images(
        self, index: int, numbers: Sequence[int], count: int, rng: np.random.Generator
    ) -> Iterator[Image.Image | None]:
        """Yield pictures stored with a sample by number, and None for one that is missing or cannot be read."""
        locations = self.data.negative_images(index) if count else ()
        for number in numbers:
            location = locations[number] if number < len(locations) else ImageLocation("")
            try:
                yield self._crop_picture(images.load_image(location), rng)
            except ImageError:
                yield None
        yield from [None] * (count - len(numbers))

    def _composite(self, index: int, which: int, picture: Image.Image, views: Views, rng: np.random.Generator) -> View:
        composite = views.composite
        assert composite is not None
        caption_sentences = self._sentences(index, which)
        faults: Counter[str] = Counter()
        partner = index
        partner_sentences = None
        if composite.partner:
            (partner, partner_caption), is_of_kind = self.partners.draw((index, which), composite.partner, rng)
            partner_sentences = self._sentences(partner, partner_caption)
            faults[PARTNER] = int(not is_of_kind or partner == index)
        if len(caption_sentences) < 2 or (partner_sentences is not None and len(partner_sentences) < 2):
            faults[FURTHER] = 1
        has_common_noun = composite.partner == "common_noun"
        positives, negative = composite.write(
            caption_sentences, partner_sentences, composite.captions, rng, has_common_noun, views.ends
        )
        if composite.partner:
            other = self.load(self.data.sample(partner))
            picture = join_pictures(picture, other, self.side, rng, self.resize)
        caption, *further = [_in_case(text, views) for text in positives]
        return View(picture, caption, _apply_case([negative], views), tuple(further), faults=faults)

    def _sentences(self, index: int, which: int) -> tuple[Annotation, ...]:
        """Return the sentences of one caption; where it has a single one, those of the image's other captions too."""
        selected = sentences.select(self.data.annotation(index, which))
        if len(selected) > 1:
            return selected
        for caption in range(self.data.captions(index)):
            if caption != which:
                selected += sentences.select(self.data.annotation(index, caption))
        return selected


@dataclass(frozen=True)
class _RuleTexts:
    """What all rules made of a caption, in the views' case, and the stored pictures that belong to it, by number."""

    true: Texts
    false: Texts
    redraws: Sequence[Draw]  # of `false`
    named: Mapping[str, Texts]
    pictures: Sequence[int]


def _draw_nothing(_rng: np.random.Generator) -> None:
    return None


def _draw_other(
    text: str | None, true_texts: TrueTexts, draw: Draw, rng: np.random.Generator, views: Views
) -> str | None:
    """Return a text, drawn anew up to ten times while it is one of `true_texts`."""
    for _ in range(TRIES):
        if text not in true_texts:
            break
        other = draw(rng)
        text = text if other is None else _in_case(other, views)
    return text


def _pad(texts: Sequence[str | None], count: int) -> Texts:
    return (*texts[:count], *[None] * (count - len(texts)))


def _cut_caption(annotation: Annotation, views: Views) -> Annotation:
    if views.caption == "full" or len(annotation.sentences) <= 1:
        return annotation
    return sentences.first(annotation)


def _concept_spans(caption: Annotation, views: Views) -> tuple[tuple[int, int], ...]:
    """Return the spans of characters of the caption's concepts."""
    if not views.concepts:
        return ()
    spans = tuple((start, end) for start, end, _ in caption.concepts())
    return ((0, len(caption.text)),) if views.whole_concept and not spans else spans


def _in_case(text: str, views: Views) -> str:
    return text.lower() if views.lowercase else text


def _apply_case(texts: Iterable[str | None], views: Views) -> Texts:
    return tuple(None if text is None else _in_case(text, views) for text in texts)
