"""Balanced negatives: a judge is at chance where the rules' own texts are told, and what is left out is counted."""

import numpy as np
import pytest

from compclip.audit import rule_audit
from compclip.base.errors import UserError
from compclip.config import released_lists
from compclip.config.released_lists import BalancedTexts
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.data.shard_files import SAMPLES, Manifest, Shard
from compclip.prepare import balanced_negatives, shard_writer
from compclip.prepare.balanced_negatives import ShardBalance
from compclip.text.annotation import Annotation
from compclip.text.blind_language import FOLDS

COLOURS, THINGS = ("red", "blue", "green", "golden"), ("dog", "cat", "kite", "cup", "tree")
CFG = BalancedTexts(rules=["negclip"])


def make_samples(count: int) -> list[Sample]:
    """Pictures with a caption each, in which every colour has a thing that it mostly goes with."""
    rng = np.random.default_rng(0)
    captions = []
    for colours in rng.integers(len(COLOURS), size=(count, 2)):
        usual = rng.random(2) < 0.8
        things = np.where(usual, colours, rng.integers(len(THINGS), size=2))
        pairs = [f"a {COLOURS[colour]} {THINGS[thing]}" for colour, thing in zip(colours, things, strict=True)]
        captions.append(" above ".join(pairs))
    return [Sample(f"{i}", f"{i}.png", (caption,)) for i, caption in enumerate(captions)]


def exchange(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Exchange the colours, the things or both: the first two make unusual pairs."""
    _, colour, thing, _, _, other_colour, other_thing = annotation.text.split()
    kind = rng.choice(3, p=(0.45, 0.45, 0.1))  # 2: both
    first = (other_colour if kind != 1 else colour, other_thing if kind else thing)
    second = (colour if kind != 1 else other_colour, thing if kind else other_thing)
    return f"a {' '.join(first)} above a {' '.join(second)}"


def recolour(annotation: Annotation, rng: np.random.Generator) -> str | None:
    """Put a word that no caption has in a colour's place: always told."""
    return annotation.text.replace(annotation.text.split()[1], "tenterhook", 1)


@pytest.fixture
def samples(tmp_path, monkeypatch) -> list[Sample]:
    """A shard of made captions in data/x/samples; the rule `negclip` is `exchange`."""
    monkeypatch.setitem(balanced_negatives.RULES, "negclip", exchange)
    monkeypatch.chdir(tmp_path)
    shard_samples = make_samples(600)
    shard_writer.save_samples(tmp_path / SAMPLES / "00000.arrow", shard_samples)
    balanced_negatives.count_language.cache_clear()
    return shard_samples


def choose(samples, tmp_path, cfg=CFG):
    manifest = Manifest((Shard("00000", len(samples), len(samples), 0, ""),))
    balance = ShardBalance(cfg, balanced_negatives.language_files(tmp_path, manifest))
    for sample in samples:
        for caption in sample.captions:
            balance.draw(Annotation(caption))
    return balance.choose(samples), balance


def recognise(samples, negatives, files):
    language = balanced_negatives.count_language(files)
    pairs = [(sample, texts[0]) for sample, texts in zip(samples, negatives, strict=True) if texts]
    folds = [balanced_negatives.fold_of(sample) for sample, _ in pairs]
    return rule_audit.share_recognised([(sample.captions[0], text) for sample, text in pairs], folds, language)


def test_a_judge_is_at_chance(samples, tmp_path):
    """The rule's own texts are told in three of four pairs; of the chosen ones half, and two thirds of the captions have one."""
    (negatives, counts), balance = choose(samples, tmp_path)
    raw = [tuple(balance.candidates[s.captions[0]][:1]) for s in samples]
    assert recognise(samples, raw, balance.files) > 0.7
    assert abs(recognise(samples, negatives, balance.files) - 0.5) < 0.06  # three deviations
    chosen = sum(map(bool, negatives))
    assert chosen > 0.6 * len(samples)
    assert chosen + counts["negative_unbalanced"] + counts["negative_without_candidate"] == len(samples)


def test_what_cannot_be_balanced_is_left_out_and_counted(samples, tmp_path, monkeypatch):
    """A rule whose texts all lean one way gives next to nothing."""
    monkeypatch.setitem(balanced_negatives.RULES, "negclip", recolour)
    (negatives, counts), _ = choose(samples, tmp_path)
    assert sum(map(bool, negatives)) < 0.05 * len(samples)
    assert counts["negative_unbalanced"] > 0.95 * len(samples)


def test_the_choice_depends_on_shard_and_seed_alone(samples, tmp_path, monkeypatch):
    (first, _), _ = choose(samples, tmp_path)
    assert choose(samples, tmp_path)[0][0] == first
    monkeypatch.setattr(BalancedTexts, "seed", 1)
    assert choose(samples, tmp_path)[0][0] != first


def test_a_caption_of_the_picture_is_no_negative(samples, tmp_path):
    """Nor the caption itself; what has no other candidate is counted apart."""
    captions = ("a red dog above a blue cat", "a blue cat above a red dog")
    two = [Sample("x", "x.png", (*captions, "A blue dog above a red cat", "a red cat above a blue dog"))]
    (negatives, counts), _ = choose(two, tmp_path)
    assert negatives == [(), (), (), ()] and counts["negative_without_candidate"] == 4


def test_what_may_be_true_is_no_negative(samples, tmp_path, monkeypatch):
    """A text whose new word another caption of the picture has: a judge of texts cannot tell that it is false."""
    monkeypatch.setitem(balanced_negatives.RULES, "negclip", lambda a, rng: a.text.replace("dog", "puppy"))
    for captions, expected in ((("a red dog",), 0), (("a red dog", "this puppy"), 1)):
        _, counts = choose([Sample("x", "x.png", captions)], tmp_path)[0]
        assert counts["negative_without_candidate"] - captions.count("this puppy") == expected


def test_folds_hold_out_a_pictures_own_captions(samples, tmp_path):
    """A word of one caption alone is unknown to the models of its picture's fold."""
    odd = Sample("odd", "odd.png", ("a zebra above a cup",))
    shard_writer.save_samples(tmp_path / SAMPLES / "00000.arrow", [*samples, odd])
    language = balanced_negatives.count_language((str(tmp_path / SAMPLES / "00000.arrow"),))
    zebra_counts = [language.models[fold][2].words["zebra"] for fold in range(FOLDS)]
    assert zebra_counts[balanced_negatives.fold_of(odd)] == 0 and sum(zebra_counts) == FOLDS - 1
    shards = tuple(Shard(shard_writer.shard_name(i), 1, 1, 0, "") for i in range(1000))  # few of many are counted
    assert len(balanced_negatives.language_files(tmp_path, Manifest(shards))) <= balanced_negatives.LANGUAGE_SHARDS


@pytest.mark.parametrize(("section", "message"), [
    ({"negative": {"balance": "blind", "rules": ["negclap"]}}, "rules.*negclip"),
    ({"negative": {"balance": "blind", "rules": ["negclip", "negclip"]}}, "rules=.*must name each once"),
    ({"paraphrase": {"balance": "blind"}}, "balance"),
])  # fmt: skip
def test_mistakes_name_the_fix(section, message):
    with pytest.raises(UserError, match=message) as error:
        released_lists.texts_config(Data(texts=section))
    assert "\n" not in str(error.value)
