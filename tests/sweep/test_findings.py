"""What a study found: planted effects are seen, absent ones are not, and the best trial stands beside the paper's."""

import numpy as np
import pytest
from omegaconf import OmegaConf

from compclip.config import read
from compclip.config.cell import Cell
from compclip.report.tables import Column
from compclip.runs.item_outcomes import Items
from compclip.runs.result_files import FinishedRun, Result
from compclip.sweep import findings, study_declaration
from tests.fake_sweep import PARAMS, STUDY

COLUMN = Column("sugarcrepe", "swap")
GAMMA = {"space": {"gamma": {"float": [0, 5]}}, "paper": [{"gamma": 2.0}]}
ITEMS = 400


def make_run(values: np.ndarray) -> FinishedRun:
    """A run with these outcomes, each of a picture of its own."""
    items = {COLUMN.metric: Items(tuple(map(str, range(len(values)))), values)}
    metrics = {COLUMN.metric: float(values.mean())}
    result = Result("sugarcrepe", "sugarcrepe", "composition", metrics, items=items)
    return FinishedRun(None, None, Cell("fsc_clip", "tiny", "scenes", 0), {}, [], {}, {"sugarcrepe": result})


def find(tmp_path, params_T: list[dict], rate_T: np.ndarray, seed: int, changes=GAMMA, flips=0.05) -> dict:
    """What a study of these trials found: a trial's items are the pretrained model's, and others by its rate."""
    rng = np.random.default_rng(seed)
    study = study_declaration.parse_study("s", OmegaConf.to_container(OmegaConf.create(STUDY)) | changes)
    (tmp_path / "params.yaml").write_text(PARAMS)
    params = read.load_params(tmp_path / "params.yaml")
    difficulty = rng.random(ITEMS)
    runs = {}
    for number, rate in enumerate(rate_T):
        flipped = rng.random(ITEMS) < flips  # how this training differs from every other one
        runs[number] = make_run(((difficulty < rate) ^ flipped).astype(float))
    trials = []
    for number, values in enumerate(params_T):
        score = runs[number].results["sugarcrepe"].metrics[COLUMN.metric]
        trials.append({"number": number, "state": "complete", "params": values, "values": [score]})
    best = max(trials, key=lambda trial: trial["values"])["number"]
    found = findings.find(study, params, [COLUMN], trials, best, runs, make_run((difficulty < 0.5).astype(float)))
    return {"study": "s", "objectives": [{"metric": COLUMN.name}], "trials": trials, "found": found}


def draw_gamma(rng: np.random.Generator, trials: int = 12) -> list[dict]:
    return [{"gamma": 2.0}, *({"gamma": float(g)} for g in rng.uniform(0, 5, trials - 1))]


def test_a_parameter_that_does_nothing_is_rarely_seen(tmp_path):
    """Of sixty studies in which trainings and items alone differ, about one in twenty."""
    seen = 0
    for seed in range(60):
        gammas = draw_gamma(np.random.default_rng(seed))
        (effect,) = find(tmp_path, gammas, np.full(12, 0.6), seed)["found"]["effects"]
        seen += effect["range"] > effect["noise"]
    assert seen <= 6


@pytest.mark.parametrize("shape", [lambda g: 0.5 + 0.05 * g, lambda g: 0.75 - 0.04 * (g - 2.5) ** 2])
def test_a_planted_effect_is_seen(tmp_path, shape):
    """A line, and a hill whose top is inside; the sentence names where it is highest."""
    gammas = draw_gamma(np.random.default_rng(0))
    document = find(tmp_path, gammas, np.array([shape(p["gamma"]) for p in gammas]), 1, flips=0.02)
    (effect,) = document["found"]["effects"]
    highest = max(gammas, key=lambda p: shape(p["gamma"]))["gamma"]
    assert effect["range"] > 2 * effect["noise"] and abs(effect["best"] - highest) < 0.6
    (line,) = findings.describe(document)
    assert f"gamma: {100 * effect['range']:.1f} points over its space" in line and "an effect, best about" in line


def test_items_are_noise_too(tmp_path):
    """With few items, what many items would show is none: the trials alone would call it an effect."""
    gammas = draw_gamma(np.random.default_rng(0))
    document = find(tmp_path, gammas, np.array([0.6 + 0.0015 * p["gamma"] for p in gammas]), 3, flips=0.0)
    (effect,) = document["found"]["effects"]
    values = [trial["values"][0] for trial in document["trials"]]
    assert np.corrcoef([p["gamma"] for p in gammas], values)[0, 1] > 0.8
    assert effect["range"] < effect["noise"] and "no effect seen" in findings.describe(document)[0]


def test_parameters_of_every_kind(tmp_path):
    """A choice that matters, a number drawn with that choice alone, and one that does nothing, told apart."""
    rng = np.random.default_rng(0)
    params = []
    for number in range(24):
        values = {"gamma": float(rng.uniform(0, 5)), "lambda_global": float(np.exp(rng.uniform(-4, 2)))}
        values |= (
            {"attention": "minmax", "lambda_local": float(rng.random())} if number % 2 else {"attention": "softmax"}
        )
        params.append(values)
    rates = np.array([0.5 + 0.15 * (p["attention"] == "minmax") + 0.2 * p.get("lambda_local", 0) for p in params])
    found = find(tmp_path, params, rates, 0, changes={}, flips=0.02)["found"]
    seen = {e["parameter"]: e["range"] > e["noise"] for e in found["effects"]}
    assert seen == {"gamma": False, "lambda_global": False, "attention": True, "lambda_local": True}
    best = {e["parameter"]: e["best"] for e in found["effects"]}
    assert best["attention"] == "minmax" and best["lambda_local"] > 0.8


def test_the_best_beside_the_paper_and_the_grid(tmp_path):
    """The difference is that of the items, its interval over pictures; the grid's value is named where it was not tried."""
    gammas = [{"gamma": g} for g in (1.0, 1.5, 3.0)]
    changes = GAMMA | {"paper": [{"gamma": 1.0}]}
    document = find(tmp_path, gammas, np.array([0.5, 0.9, 0.6]), 0, changes)
    paper, grid = document["found"]["comparisons"]
    values = [trial["values"][0] for trial in document["trials"]]
    assert paper["difference"] == pytest.approx(values[1] - values[0]) and paper["trial"] == 0
    assert paper["interval"][0] < paper["difference"] < paper["interval"][1] and paper["interval"][0] > 0.3
    assert (grid["name"], grid["values"], grid["trial"]) == ("the grid's", {"gamma": 2.0}, None)
    (line,) = findings.describe(document)
    assert line.startswith("sugarcrepe/swap: trial 1 of 3, gamma=1.5; ") and line.endswith(findings.TOO_FEW)
    assert "to the paper's gamma=1, a difference on the items that it was chosen by; the grid's gamma=2, was" in line


def test_the_paper_s_may_be_the_best(tmp_path):
    """Then there is nothing to compare."""
    document = find(tmp_path, [{"gamma": 2.0}, {"gamma": 1.0}], np.array([0.9, 0.5]), 0)
    assert "; that is the paper's and the grid's gamma=2; " in findings.describe(document)[0]
