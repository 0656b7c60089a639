"""The confirmation of a front: a grid of new seeds with the very values of the trials, and verdicts on made results."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.config.cell import Cell
from compclip.report import tables
from compclip.report.statistics import student_quantile
from compclip.runs.item_outcomes import CLASSIFICATION, COMPOSITION, RETRIEVAL, Items
from compclip.runs.result_files import FinishedRun, Result
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import confirmation, study_declaration, study_page
from tests import fake_sweep

TWO = ["sugarcrepe/swap", {"column": "retrieval/loss", "direction": "minimize"}]
TRIALS = [
    {"number": 1, "params": {"gamma": 1.5, "lambda_global": 0.25, "attention": "softmax"}},
    {"number": 7, "params": {"gamma": 0.0, "lambda_global": 1.0, "attention": "minmax", "lambda_local": 0.5}},
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A project of made runs whose grid has another method beside the study's."""
    monkeypatch.chdir(tmp_path)
    fake_sweep.make(tmp_path)
    text = fake_sweep.PARAMS.replace("methods: [pretrained, fsc_clip]", "methods: [hard_positives, fsc_clip]")
    Path("params.yaml").write_text(text)
    return tmp_path


def study(**changes) -> study_declaration.Study:
    raw = OmegaConf.to_container(OmegaConf.create(fake_sweep.STUDY)) | {"objectives": TWO}
    return study_declaration.parse_study("s", raw | changes)


def test_the_grid_trains_the_very_trials_under_new_seeds(folder):
    """Method and training of each variant are those of its trial; the study's and the grid's seeds are left out."""
    narrow = ["train.max_steps=3", "evaluate.benchmarks=[sugarcrepe]"]
    declaration = study(overrides=narrow, seed=2)
    text = confirmation.confirmation_grid(declaration, Path("params.yaml"), ["train.lr=0.5"], TRIALS, 5)
    Path("out.yaml").write_text(text)
    params = read.load_params("out.yaml", together=True)
    assert params.grid.methods == ["pretrained", "hard_positives", "fsc_clip.trial1", "fsc_clip.trial7"]
    assert params.grid.seeds == [1, 3, 4, 5, 6] and params.evaluate.benchmarks == ["sugarcrepe", "retrieval"]
    for trial in TRIALS:
        overrides = ["train.lr=0.5", *study_declaration.trial_overrides(declaration, trial["params"], params.methods)]
        expected_run = study_declaration.trial_run(declaration, read.load_params("params.yaml", overrides))
        settings = grid.method_config(params, f"fsc_clip.trial{trial['number']}", "scenes")
        assert settings == (expected_run.method, expected_run.train)


def test_a_study_of_a_variant_and_of_training_parameters(folder):
    """A trial stands over the variant's own values, and over what holds on its data alone."""
    changed = ["methods.fsc_clip={epsilon: 0.1, variants: {mine: {lambda_local: 0.9, train: {warmup_steps: 1}}}, "
               "per_data: {scenes: {gamma: 5.0}}}"]  # fmt: skip
    merged = read.read_with_overrides("params.yaml", changed)
    Path("params.yaml").write_text(OmegaConf.to_yaml(merged))
    declaration = study(
        method="fsc_clip.mine", space={"gamma": {"float": [0, 5]}, "train.lr": {"float": [0, 1]}}, paper=[]
    )
    trial = {"number": 4, "params": {"gamma": 1.0, "train.lr": 0.25}}
    Path("out.yaml").write_text(confirmation.confirmation_grid(declaration, Path("params.yaml"), [], [trial], 1))
    cfg, train = grid.method_config(read.load_params("out.yaml"), "fsc_clip.trial4", "scenes")
    assert (cfg.gamma, cfg.lambda_local, cfg.epsilon, train.lr, train.warmup_steps) == (1.0, 0.9, 0.1, 0.25, 1)


def test_mistakes_are_one_line(folder):
    """No study, no front, nothing to compare with, a file in the way."""
    with pytest.raises(UserError, match=r"trials.json: .*; run `compclip sweep --study s` first"):
        confirmation.load_front(study(), folder)
    write_json(folder / "studies/s/trials.json", {"trials": [], "front": []})
    with pytest.raises(UserError, match="has no front yet"):
        confirmation.load_front(study(), folder)
    Path("alone.yaml").write_text(fake_sweep.PARAMS)
    with pytest.raises(UserError, match="names no other method"):
        confirmation.confirmation_grid(study(), Path("alone.yaml"), [], TRIALS, 5)
    with pytest.raises(UserError, match="--confirm params.yaml: is there already"):
        sweep_command.main(["--study", "s", "--confirm", "params.yaml"])


N = 400  # items


def run(method: str, seed: int, swap: float, loss: float) -> FinishedRun:
    """A run with a share of items right; seeds differ by a few items, the same ones in every method."""
    results = {}
    for name, kind, metric, share in (
        ("sugarcrepe", COMPOSITION, "swap", swap),
        ("retrieval", RETRIEVAL, "loss", loss),
    ):
        values = (np.arange(N) < N * share + seed % 3).astype(float)
        items = {metric: Items(tuple(map(str, range(N))), values)}
        lower = frozenset({"loss"}) & {metric}
        results[name] = Result(name, name, kind, {metric: float(values.mean())}, lower, items=items)
    return FinishedRun(None, Path(), Cell(method, "tiny", "scenes", seed), {}, [], {}, results)


def bare(finished_run: FinishedRun, swap: float) -> FinishedRun:
    """The run with a number of its own for swap, and no items behind it."""
    alone = replace(finished_run.results["sugarcrepe"], metrics={"swap": swap}, items={})
    return replace(finished_run, results={**finished_run.results, "sugarcrepe": alone})


def judged(seeds=(1, 3, 4, 5, 6), other_methods=(("negclip", 0.5, 0.5),), **changes) -> dict[str, str]:
    """Verdicts on a trial with swap 0.6 and loss 0.4, by method."""
    params = read.load_params("params.yaml", [f"grid.seeds=[{', '.join(map(str, seeds))}]"])
    runs = [run(m, s, a, b) for m, a, b in (("fsc_clip.trial1", 0.6, 0.4), *other_methods) for s in seeds]
    document = confirmation.judge_front(study(**changes), params, runs)
    return {p["method"]: p["verdict"] for p in document["pairs"]}


def test_verdicts_by_hand(folder):
    """More swap and less loss is better in both; equal in one objective is no verdict."""
    other_methods = [("worse", 0.5, 0.5), ("better", 0.7, 0.3), ("other", 0.7, 0.5), ("equal", 0.5, 0.4)]
    assert judged(other_methods=other_methods) == {
        "worse": "dominates", "better": "is dominated", "other": "neither", "equal": "undecided"
    }  # fmt: skip
    assert judged(seeds=(1, 3)) == {"negclip": "undecided"}, "two seeds decide nothing"


def test_what_the_study_did_not_evaluate_decides_nothing(folder):
    """One objective and an override of evaluate.benchmarks; the other column is worse."""
    params = read.load_params("params.yaml", ["report.columns=[sugarcrepe/swap, retrieval/loss]"])
    runs = [run(m, s, a, b) for m, a, b in (("fsc_clip.trial1", 0.6, 0.4), ("negclip", 0.5, 0.3)) for s in (1, 3, 4)]
    declaration = study(objectives=["sugarcrepe/swap"], overrides=["evaluate.benchmarks=[sugarcrepe]"])
    (pair,) = confirmation.judge_front(declaration, params, runs)["pairs"]
    assert pair["verdict"] == "dominates" and pair["objectives"][0]["difference"] == pytest.approx(0.1)


def test_a_mean_is_of_the_benchmarks_that_the_study_evaluated(folder):
    """A set of classes that only the confirmation has is no part of its General; as an objective it would be a half."""
    finished_run = run("fsc_clip.trial1", 1, 0.6, 0.4)
    numbers = {"i2t_recall_at_1": 0.4, "t2i_recall_at_1": 0.2}
    recalls = replace(finished_run.results["retrieval"], metrics=numbers, items={})
    classes = {
        name: Result(name, "zeroshot", CLASSIFICATION, {"top_1": share}, headline=("top_1",))
        for name, share in (("symbols", 0.9), ("colours", 0.1))
    }
    runs = [replace(finished_run, results={"retrieval": recalls, **classes})]
    all_params = read.load_params("params.yaml")
    for evaluated, mean in ((["retrieval", "symbols"], 0.5), (["retrieval", "symbols", "colours"], 1.1 / 3)):
        params = replace(all_params, evaluate=replace(all_params.evaluate, benchmarks=evaluated))
        (general,) = study_declaration.columns_of_runs(study(objectives=["summary/General"]), runs, params)
        assert set(study_declaration.list_benchmarks([general])) == set(evaluated)
        assert tables.column_value(runs[0], general) == pytest.approx(mean)


def judge_gaps(gaps, with_items=True) -> tuple[dict, str]:
    """What confirmation.json says of a trial whose swap is better by `gaps`, seed by seed; the page's words for it."""
    gap = {3 * i: g for i, g in enumerate(gaps, 1)}  # seeds of which no two differ in their items
    pairs = [(run("fsc_clip.trial1", s, 0.5 + g, 0.5), run("negclip", s, 0.5, 0.5)) for s, g in gap.items()]
    if not with_items:
        pairs = [(bare(ours, 0.5 + gap[ours.cell.seed]), bare(theirs, 0.5)) for ours, theirs in pairs]
    params = read.load_params("params.yaml", [f"grid.seeds={list(gap)}"])
    runs = [run for pair in pairs for run in pair]
    (pair,) = confirmation.judge_front(study(objectives=["sugarcrepe/swap"]), params, runs)["pairs"]
    return pair["objectives"][0], f"{pair['verdict']}: {study_page.format_difference(pair['objectives'][0])}"


def test_the_interval_by_hand(folder):
    """40 of 400 items differ, under all four seeds alike: the items' variance is 0.1 x 0.9 / 399, the seeds' none."""
    objective, text = judge_gaps([0.1] * 4)
    half = student_quantile(399) * math.sqrt(0.1 * 0.9 / 399)
    assert (objective["difference"], objective["std"]) == (pytest.approx(0.1), pytest.approx(0, abs=1e-9))
    assert objective["interval"] == pytest.approx({"estimate": 0.1, "low": 0.1 - half, "high": 0.1 + half, "items": N})
    facts = [objective[name] for name in ("seeds", "over", "better", "why")]
    assert facts == [4, "seeds and items", True, ""]
    assert text == "dominates: +10.0 ± 0.0 [+7.0, +13.0]"


def test_an_objective_without_items_is_judged_over_its_seeds(folder):
    """Of 9, 10 and 11 points the mean is 10 ± 4.3027 x 1 / sqrt 3, of 1, 10 and 19 nine times as wide."""
    objective, text = judge_gaps([0.09, 0.10, 0.11], with_items=False)
    half = 4.30265 * 0.01 / math.sqrt(3)
    assert objective["interval"] == pytest.approx({"estimate": 0.1, "low": 0.1 - half, "high": 0.1 + half, "items": 0})
    assert (objective["over"], objective["better"], objective["std"]) == ("seeds alone", True, pytest.approx(0.01))
    assert text == "dominates: +10.0 ± 1.0 [+7.5, +12.5] (over seeds alone)"
    objective, text = judge_gaps([0.01, 0.10, 0.19], with_items=False)
    assert objective["better"] is None and text == (
        "undecided: +10.0 ± 9.0 [-12.4, +32.4] (over seeds alone; 6 seeds would decide a difference this large)"
    )


def test_seeds_and_items_are_one_sample(folder):
    """Items never make an interval narrower than its seeds do: of 1.5, 3 and 4.5 points neither is sure, of 2, 3 and 4 both."""
    for gaps, better in ((0.015, 0.03, 0.045), None), ((0.02, 0.03, 0.04), True):
        alone, _ = judge_gaps(gaps, with_items=False)
        both, _ = judge_gaps(gaps)
        assert both["interval"]["low"] < alone["interval"]["low"] and both["over"] == "seeds and items"
        assert alone["better"] is better and both["better"] is better


def test_too_few_seeds_show_their_interval_and_why_it_decides_nothing(folder):
    assert judge_gaps([0.1] * 2)[1] == "undecided: +10.0 ± 0.0 [+7.0, +13.0] (2 of 3 seeds)"
    assert judge_gaps([0.1])[1] == "undecided: +10.0 [+7.0, +13.0] (over items alone; 1 of 3 seeds)"


def test_the_commands_from_a_front_to_its_verdict(folder, monkeypatch, capsys):
    """Trials, the grid of their front, runs of that grid, verdicts beside the study and on its page."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name in ("base_key", "make_sender", "StudyDriver", "record_in_mlflow"):  # put back what the made sweep changes
        monkeypatch.setattr(sweep_command, name, getattr(sweep_command, name))
    text = fake_sweep.STUDY.replace("objectives: [sugarcrepe/swap]", "objectives: [sugarcrepe/swap, retrieval/i2t]")
    (folder / "experiments/studies/s.yaml").write_text(text)
    assert fake_sweep.main(["--study", "s", "--trials", "6", "-j", "2"]) == 0
    front = json.loads(Path("studies/s/trials.json").read_text())["front"]
    assert sweep_command.main(["--study", "s", "--confirm", "out.yaml", "--seeds", "4"]) == 0
    params = read.load_params("out.yaml")
    assert params.grid.methods[2:] == [f"fsc_clip.trial{number}" for number in front]
    runs = []
    for method in params.grid.methods:
        runs += [rename(run(method, seed, 0.6 if "trial" in method else 0.5, 0.5)) for seed in params.grid.seeds]
    monkeypatch.setattr(sweep_command, "collect_runs", lambda cells, benchmarks, root: (runs, []))
    assert sweep_command.main(["--study", "s", "--verdict", "out.yaml"]) == 0
    document = json.loads(Path("studies/s/confirmation.json").read_text())
    assert len(document["pairs"]) == 2 * len(front) and {p["verdict"] for p in document["pairs"]} == {"undecided"}
    assert f"fsc_clip.trial{front[0]}: undecided pretrained, hard_positives" in capsys.readouterr().out
    page = Path("studies/s/index.html").read_text()
    assert "Confirmation of the front" in page
    assert page.count('<td title="undecided" class="undecided">·</td>') == 2 * len(front)


def test_the_page_has_a_line_of_signs_for_each_method():
    """Four pairs by hand: each verdict under its trial, in one order for all methods."""
    verdicts_of_trial = {"h.trial1": ("dominates", "is dominated"), "h.trial2": ("neither", "undecided")}
    pairs = [
        {"trial": trial, "method": method, "verdict": verdict}
        for trial, two in verdicts_of_trial.items()
        for method, verdict in zip(("negclip", "clic"), two, strict=True)
    ]
    lines = [("negclip", ["dominates", "neither"]), ("clic", ["is dominated", "undecided"])]
    assert study_page.list_verdicts({"pairs": pairs}) == (list(verdicts_of_trial), lines)
    assert study_page.SIGNS.keys() == set(confirmation.VERDICTS)


def rename(finished_run: FinishedRun) -> FinishedRun:
    """The run with the study's second metric in place of the loss."""
    old = finished_run.results["retrieval"]
    new = replace(old, metrics={"i2t": old.metrics["loss"]}, lower=frozenset(), items={"i2t": old.items["loss"]})
    return replace(finished_run, results={**finished_run.results, "retrieval": new})
