"""The share of samples that had each text and picture: counted by hand, the same however a run is cut, and never 0."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest

from compclip.base.errors import UserError
from compclip.config import grid, read
from compclip.interface.method import load_method
from compclip.interface.views import Views
from compclip.methods import clic, hard_positives
from compclip.model import backbone
from compclip.runs.run_folder import REPLACED, Inputs
from compclip.train import __main__ as train_command
from compclip.train import fine_tuning, view_shares
from compclip.train.batch import View
from tests.small_training import Killed, kill_at, train
from tests.tiny_project import at, steps, trained
from tests.train.test_distributed import two

PIXELS = np.zeros((1, 1, 3), np.uint8)


def view(negatives=(), positives=(), **more) -> View:
    return View(PIXELS, "a dog", tuple(negatives), tuple(positives), **more)


def shares_of(rows, views: Views, samples: int | None = None) -> dict[str, float]:
    return view_shares.shares(view_shares.tally_parts(rows, views, len(rows) if samples is None else samples))


def names_of_parts(views: Views) -> set[str]:
    """Names of the parts of a sample that has all of them."""
    row = view(("x",) * views.negative_texts, ("y",) * views.positive_texts, concepts=((0, 1),), texts={"target": ("z",)},
               negative_images=(PIXELS,) * views.negative_images)  # fmt: skip
    shares = shares_of([row] * (1 + views.neighbours), views, 1)
    assert set(shares.values()) == {1.0}
    return set(shares)


def of_words(module: str, ending: str = "") -> list[str]:
    """CE-CLIP's negatives of three kinds of words."""
    return [f"negatives/{module}.of_{kind}{ending}" for kind in ("adj", "noun", "verb")]


def test_each_rule_has_a_share_of_its_own():
    views = hard_positives.views(hard_positives.Config(), 0)
    rows = [view(("x", "y"), (None, "z")), view((None, "y"), (None, None)), view(("x", None), (None, "z"))]
    assert shares_of(rows, views) == {
        "captions": 1.0,
        "negatives/replace.wordnet": 0.666667,
        "negatives/swap.negclip": 0.666667,
        "positives/positives.replace": 0.666667,
        "positives/positives.swap": 0.0,
    }


@pytest.mark.parametrize(("method", "options", "step", "part_names"), [
    ("read_clip", {}, 0, {"negatives/swap.negclip", "positives/alternatives", "targets"}),
    ("dac", {}, 0, {"negatives/wordlists.rule", "negatives/bag", "positives/bag"}),
    ("dac", {"negatives": "both"}, 0, {"negatives/svlc.either", "negatives/bag", "positives/bag"}),
    ("gnm_clip", {}, 0, {"negatives/stored.negative_0", "negatives/stored.negative_1", "negative_images"}),
    ("gnm_clip", {"draw": "scores"}, 0, {"negatives/variations", "negative_images"}),
    ("ce_clip", {"words": "masked_released"}, 0, {"negatives/swap.nouns_released", *of_words("masked", "_released")}),
    ("ce_clip", {"words": "masked"}, 0, {"negatives/swap.nouns", *of_words("masked")}),
    ("ce_clip", {"words": "wordnet"}, 0, {"negatives/swap.nouns", *of_words("replace")}),
    ("negclip", {"hard_images": 1}, 0, {"negatives/swap.negclip", "neighbours"}),
    ("fsc_clip", {"replace": "clove"}, 0, {"negatives/swap.negclip", "negatives/clove.replace", "negatives/shuffle.bigram"}),
    ("hybrid", {"concepts": "pooled"}, 0, {"concepts"}),
    ("mosaiclip", {}, 0, {"negatives/swap.negclip", "negatives/sub_graphs.draw_one", "positives/sub_graphs.draw_one"}),
    ("mosaiclip", {}, 1000, {"negatives/swap.negclip", "negatives/sub_graphs.draw", "positives/sub_graphs.draw"}),
    ("clip_in", {}, 0, {"negatives/stored.first_negative", "positives/sentences.first_of_several", "negative_images"}),
])  # fmt: skip
def test_parts_are_what_views_ask_for(method, options, step, part_names):
    declared = load_method(method)
    assert names_of_parts(declared.views(declared.Config(**options), step)) == {"captions", *part_names}
    nameless = names_of_parts(Views(negatives=(lambda a, rng: None,)))  # it has a name that MLflow takes
    assert nameless == {"captions", "negatives/test_view_shares._lambda_"}


def test_a_composite_says_what_stood_in():
    views = clic.views(clic.Config(partner="common_noun"), 0)
    full = view(("n",), ("p2", "p3", "p4"))
    short = replace(full, negatives=(None,), faults={view_shares.PARTNER: 1, view_shares.FURTHER: 1})
    assert shares_of([full, full, full, short], views) == {
        "captions": 1.0, "negatives/composite": 0.75, "partners": 0.75, "positives/further": 0.75, "positives/second": 1.0
    }  # fmt: skip


def test_replaced_samples_have_a_share_where_there_are_any():
    """Counted of the batch's own samples, no neighbours; as no method asks for them, their absence stops no run."""
    views = Views(neighbours=1)
    counts = view_shares.tally_parts([view()] * 8, views, 4)
    assert REPLACED not in view_shares.shares(counts)
    view_shares.check_parts(counts, None, epoch_ended=True)
    replaced = view(faults={REPLACED: 1})
    assert shares_of([replaced, view(), view(), view(), replaced], views, 4)[REPLACED] == 0.25


@pytest.mark.parametrize(("asked_count", "had_count", "epoch_ended", "stops"), [
    (view_shares.CHECKED, 0, False, True),
    (view_shares.CHECKED - 1, 0, False, False),  # too few to say
    (view_shares.CHECKED - 1, 0, True, True),
    (12, 0, True, True),  # all that a small data set has
    (10**6, 1, True, False),  # rare, and there
    (0, 0, True, False),  # of steps to come
])  # fmt: skip
def test_a_part_that_no_sample_had_stops_the_run(asked_count, had_count, epoch_ended, stops, here):
    run = at("finetune-tiny-scenes-0").run
    counts = {"asked": {"positives/x.y": asked_count}, "had": {"positives/x.y": had_count}}
    samples = f"the first {asked_count:,} samples of data.scenes"
    line = f"methods.finetune: positives/x.y: none of {samples} had one; train without"
    with pytest.raises(UserError, match=line) if stops else contextlib.nullcontext():
        view_shares.check_parts(counts, run, epoch_ended)


def test_when_parts_are_judged():
    """After 16,384 samples or a few more, at the end of each epoch and of the run; by numbers of the run alone."""
    assert [s for s in range(1, 700) if view_shares.is_due(s, 100, 300, 650)] == [164, 300, 328, 492, 600, 650, 656]


CELL = "hard_positives-tiny-scenes-0"
LACKING = ["methods.hard_positives={caption: first, hard_positives: both}", "train.max_steps=5"]


@pytest.fixture
def with_method(here):
    """The tiny project with a cell of hard_positives; its first sentences have no "and"."""
    text = (here / "params.yaml").read_text()
    text = text.replace("[pretrained, finetune, fsc_clip]", "[pretrained, finetune, fsc_clip, hard_positives]")
    (here / "params.yaml").write_text(text.replace("fsc_clip: {}", "fsc_clip: {}, hard_positives: {}"))
    return here


def test_a_run_without_a_part_publishes_nothing(with_method):
    line = "methods.hard_positives: positives/positives.swap: none of the first 40 samples"
    with pytest.raises(UserError, match=line):
        train_command.main(["--cell", CELL, *LACKING])
    assert not trained(with_method, CELL).exists()
    stored = at(CELL, *LACKING)
    assert not stored.adopt_if_finished() and not stored.folder.final.path.exists()
    with pytest.raises(UserError, match="none of the first 40 samples"):  # again, from its last checkpoint
        train_command.main(["--cell", CELL, *LACKING])


def direct_shares(root, run) -> dict[str, float]:
    """The shares over all steps, counted from the views themselves."""
    model, inputs = backbone.load(root / "models" / "tiny"), Inputs(root, run.cell)
    method = load_method("hard_positives")
    rows, views = fine_tuning.build_sampler(run, method, model, inputs), method.views(run.method, 0)
    view_rows = [row for step in range(run.train.max_steps) for row in rows.batch(step, views)[0]]
    columns = zip(*((row.caption, *row.negatives, *row.positives) for row in view_rows), strict=True)
    had = [sum(text is not None for text in texts) / len(view_rows) for texts in columns]
    return dict(zip(("captions", *NAMES), had, strict=True))


NAMES = [f"negatives/{rule}" for rule in ("swap.negclip", "replace.wordnet")]
NAMES += [f"positives/positives.{kind}" for kind in ("swap", "replace")]
SHORT = ["train.max_steps=7"]


@pytest.mark.parametrize("how", [[], ["train.workers=2"], ["train.micro_batch=3"]], ids=["plain", "workers", "parts"])
def test_a_run_says_what_its_samples_had(with_method, how):
    """environment.json and the last line of metrics.jsonl have the shares of the views themselves."""
    assert train_command.main(["--cell", CELL, *SHORT, *how]) == 0
    folder = at(CELL, *SHORT, *how).folder.final.path
    shares = json.loads((folder / "environment.json").read_text())["view_shares"]
    expected = direct_shares(with_method, grid.resolve(read.load_params("params.yaml", SHORT), CELL))
    assert shares == pytest.approx(expected, abs=1e-6) and len(set(shares.values())) > 1
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    assert {k: v for k, v in last.items() if k.startswith("share/")} == {f"share/{k}": v for k, v in shares.items()}


def test_two_processes_count_together(with_method):
    """Each makes half of every batch; the log has the shares of the whole."""
    processes = two("-m", "compclip.train", "--cell", CELL, *SHORT, cwd=with_method)
    assert [p.wait(timeout=120) for p in processes] == [0, 0]
    shares = at(CELL, *SHORT).folder.final.facts()["view_shares"]
    expected = direct_shares(with_method, grid.resolve(read.load_params("params.yaml", SHORT), CELL))
    assert shares == pytest.approx(expected, abs=1e-6)


def test_a_run_that_was_cut_counts_each_sample_once(with_method):
    """Stopped between two checkpoints, a run counts what it makes again once; its lines are those of one that was not."""
    uninterrupted, cut = with_method / "whole", with_method / "cut"
    train(with_method, "hard_positives", uninterrupted)
    with pytest.raises(Killed):
        train(with_method, "hard_positives", cut, kill_at(7))
    train(with_method, "hard_positives", cut)
    resumed, expected = (steps(work / "metrics.jsonl") for work in (cut, uninterrupted))
    assert resumed == expected and len(expected) == 10
    assert len({row["share/positives/positives.swap"] for row in resumed}) > 1
