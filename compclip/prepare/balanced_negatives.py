"""Choose negatives that no text tells from their captions: `data.<name>.texts.negative: {balance: blind}`.

C candidates of a caption, F features of a text, W waves.

Rules draw candidates of every caption. One of them is taken, or none, so that the gaps between the features of caption
and negative point as often one way as the other. A distribution of gaps is symmetric where its characteristic function
has no imaginary part. So the sums of sin(w · gap) over the captions are held near zero, at W random frequencies w:
caption by caption the candidate is taken that brings them closest to it (herding: Welling, ICML 2009), and none where
each would lead further away than two captions at random. Whatever a judge computes of the gaps, it is then right in
half of the pairs.

It is the adversarial refinement of SugarCrepe (Hsieh et al., NeurIPS 2023), which makes opposite cells of two scores
equally full. Departures: six scores in place of two, waves in place of cells, and a choice of candidates before any
caption is left out. Each shard is balanced by itself, in its captions' order: the choice depends on the shard and on
the captions that the language models count, never on the number of processes.
"""

from __future__ import annotations

import functools
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from compclip.config.released_lists import BalancedTexts
from compclip.data.sample import Sample
from compclip.data.shard_files import Manifest
from compclip.prepare.shard_writer import choose_shards, load_samples
from compclip.text import negate, replace, sentences, shuffle, swap, true_edits
from compclip.text.annotation import Annotation
from compclip.text.blind_language import FOLDS, FoldedLanguage

RULES: dict[str, Callable[[Annotation, np.random.Generator], str | None]] = {
    **swap.RULES,
    "nouns": swap.nouns,
    "atoms": swap.atoms,
    "negate": negate.crepe,
    "conclip": negate.conclip,
    "wordnet": replace.wordnet,
    "bigram": shuffle.bigram,
    "tokens": shuffle.tokens,
}
# whose captions the language models count, evenly spaced
LANGUAGE_SHARDS = 16
LANGUAGE_PICTURES = 20_000
# frequencies at each scale, in parts of a feature's spread
WAVES_EACH = 64
SCALES = (0.3, 1.0, 3.0)
UNITS = 1024  # of a sine: sums are whole numbers, so that no machine rounds them otherwise


def language_files(folder: Path, samples: Manifest) -> list[str]:
    """Return the shards of samples in data/<name>/ whose captions the language models count."""
    return choose_shards(folder, samples, LANGUAGE_SHARDS)


def fold_of(sample: Sample) -> int:
    """Return the fold of a picture, by its name."""
    return zlib.crc32(sample.id.encode()) % FOLDS


@functools.lru_cache(maxsize=1)
def count_language(files: tuple[str, ...]) -> FoldedLanguage:
    """Return the language models of the captions of some shards, at most LANGUAGE_PICTURES pictures'."""
    captions = list[str]()
    folds = list[int]()
    for file in files:
        samples = load_samples(Path(file))
        for sample in samples[:: max(1, -(-len(samples) * len(files) // LANGUAGE_PICTURES))]:
            captions += sample.captions
            folds += [fold_of(sample)] * len(sample.captions)
    return FoldedLanguage(captions, folds)


class ShardBalance:
    """The candidates of a shard's captions, and the choice among them."""

    def __init__(self, cfg: BalancedTexts, files: Sequence[str]) -> None:
        self.cfg = cfg
        self.files = tuple(files)
        self.captions = dict[str, str]()
        self.candidates = dict[str, list[str]]()

    def draw(self, annotation: Annotation) -> Annotation:
        """Draw the candidates of a caption and return its annotation as it is."""
        cut = len(annotation.sentences) > 1 and self.cfg.caption == "first"
        caption = sentences.first(annotation) if cut else annotation
        rng = np.random.default_rng((self.cfg.seed, zlib.crc32(annotation.text.encode())))
        texts = (RULES[rule](caption, rng) for rule in self.cfg.rules for _ in range(self.cfg.candidates))
        self.captions[annotation.text] = caption.text
        self.candidates[annotation.text] = list(dict.fromkeys(text for text in texts if text is not None))
        return annotation

    def choose(self, samples: Sequence[Sample]) -> tuple[list[tuple[str, ...]], Counter]:
        """Return the negative of every caption of the samples, () where there is none, and counts.

        Counted are captions `negative_without_candidate`, and `negative_unbalanced`: those that were left out.
        """
        candidates = list[list[str]]()
        gaps = list[np.ndarray]()
        for sample in samples:
            for caption in sample.captions:
                candidates.append(self._untrue(sample, caption))
                gaps.append(self._gaps(sample, caption, candidates[-1]))
        negatives = list[tuple[str, ...]]()
        for texts, choice in zip(candidates, herd(gaps, self.cfg.seed), strict=True):
            negatives.append((texts[choice],) if choice >= 0 else ())
        empty = candidates.count([])
        dropped = negatives.count(()) - empty
        return negatives, Counter(negative_without_candidate=empty, negative_unbalanced=dropped)

    def _untrue(self, sample: Sample, caption: str) -> list[str]:
        """Return the candidates of a caption that no caption of its picture says or may say, by rules."""
        untrue = []
        for text in self.candidates[caption]:
            edit = (self.captions[caption], text, sample.captions)
            if not true_edits.is_still_true(*edit) and not true_edits.uses_other_captions(*edit):
                untrue.append(text)
        return untrue

    def _gaps(self, sample: Sample, caption: str, texts: Sequence[str]) -> np.ndarray:
        """Return the features of a caption less those of its candidates, [C, F]."""
        language = count_language(self.files)
        fold = fold_of(sample)
        features = [language.features(text, fold) for text in (self.captions[caption], *texts)]
        return np.array(features[:1]) - np.array(features[1:]).reshape(-1, len(features[0]))


def herd(gaps: Sequence[np.ndarray], seed: int) -> list[int]:
    """Return for each caption which of its candidates is taken, -1 for none; `gaps` has [C, F] of each."""
    frequency_FW = draw_frequencies(gaps, seed)
    sum_W = np.zeros(frequency_FW.shape[1], np.int64)
    choices = []
    for gap_CF in gaps:
        wave_CW = np.rint(UNITS * np.sin(gap_CF @ frequency_FW)).astype(np.int64)
        cost_C = ((sum_W + wave_CW) ** 2).sum(axis=1) - (sum_W**2).sum()
        best = int(cost_C.argmin()) if len(cost_C) else -1
        taken = best >= 0 and cost_C[best] <= UNITS**2 * len(sum_W)  # the squares of two waves
        choices.append(best if taken else -1)
        sum_W += wave_CW[best] if taken else 0
    return choices


def draw_frequencies(gaps: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """Return random frequencies [F, W], in parts of each feature's root mean square over all gaps."""
    gap_NF = np.concatenate([*gaps, np.zeros((1, gaps[0].shape[1] if gaps else 1))])
    spread_F = np.sqrt((gap_NF**2).mean(axis=0))
    spread_F[spread_F == 0] = 1.0
    rng = np.random.default_rng(seed)
    waves = [scale * rng.normal(size=(len(spread_F), WAVES_EACH)) for scale in SCALES]
    return np.concatenate(waves, axis=1) / spread_F[:, None]
