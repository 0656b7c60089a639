"""Declarations of studies: every mistake is one line; the shipped ones fit params.yaml; best and front by hand."""

from types import SimpleNamespace

import optuna
import pytest
from omegaconf import OmegaConf

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config import grid, read
from compclip.methods import hybrid
from compclip.report.tables import Column
from compclip.sweep import __main__ as sweep_command
from compclip.sweep import study_declaration, study_page, study_results
from compclip.sweep.study_driver import draw_values
from tests.conftest import ROOT
from tests.fake_sweep import PARAMS, STUDY
from tests.shipped_files import SHIPPED_PROJECT, list_shipped

SHIPPED = sorted(p.stem for p in list_shipped("experiments/studies/*.yaml"))


def parse(**changes) -> study_declaration.Study:
    """The tests' study with some keys replaced."""
    return study_declaration.parse_study("s", OmegaConf.to_container(OmegaConf.create(STUDY)) | changes)


def test_the_papers_studies_are_there():
    """Those of the papers' own parameters, and one of two objectives."""
    expected_names = {
        "fsc_gamma", "fsc_lambda", "fsc_epsilon", "fsc_joint", "clic_lambda", "c2lip_lambda", "hard_positives_mix",
    }  # fmt: skip
    assert expected_names <= set(SHIPPED)
    assert any(len(study_declaration.load_study(n, ROOT / "experiments/studies").objectives) == 2 for n in SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_studies_fit_the_grid(name, monkeypatch):
    """Their parameters, benchmarks, backbone and data exist, and every corner of their space is a valid run."""
    monkeypatch.chdir(SHIPPED_PROJECT)
    study = study_declaration.load_study(name)
    params = read.load_params(study.params, study.overrides)
    study_declaration.check_study(study, params)
    for values in (study_declaration.corner_values(study), *study.paper):
        tried = read.load_params(study.params, study_declaration.trial_overrides(study, values, params.methods))
        trial_run = study_declaration.trial_run(study, tried)
        for key, value in values.items():
            config = trial_run.train if key.startswith("train.") else trial_run.method
            assert getattr(config, key.removeprefix("train.")) == value


def test_every_draw_of_the_hybrid_study_is_a_valid_method():
    """Its switches are such that no trial fails for its values; together the draws reach every choice."""
    study = study_declaration.load_study("hybrid_pareto", ROOT / "experiments/studies")
    opened = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn_values = set()
    for _ in range(300):
        values = draw_values(opened.ask(), study)
        hybrid.Config(**{name: value for name, value in values.items() if not name.startswith("train.")})
        drawn_values |= set(values.items())
    assert all((d.name, choice) in drawn_values for d in study.space for choice in d.choices)
    assert study.trials >= 60 and len(study.objectives) == 2 and study.pruner == "dominated"


@pytest.mark.parametrize(("changes", "message"), [
    ({"method": None}, "method: must be given"),
    ({"sampler": "tpee"}, "unknown sampler 'tpee'; did you mean"),
    ({"trials": 0}, "trials=0: must be > 0"),
    ({"sampler": "nsga2", "startup_trials": 1}, "startup_trials=1: must be >= 2 with the sampler nsga2"),
    ({"rungs": [0.5, 0.25]}, "must rise and lie between 0 and 1"),
    ({"objectives": ["swap"]}, "must have a column as benchmark/metric"),
    ({"objectives": ["a/b", "a/b"]}, "names a column twice"),
    ({"space": {"g": {"float": [1, 0]}}, "paper": []}, "space.g={'float': [1, 0]}: must rise"),
    ({"space": {"g": {"float": [0, 1], "log": True}}, "paper": []}, "begin above 0 for log"),
    ({"space": {"g": {"flaot": [0, 1]}}, "paper": []}, "unknown key 'flaot'; did you mean 'float'"),
    ({"space": {"g": {"log": True}}, "paper": []}, "must have one of float, int, categorical"),
    ({"space": {"g": {"categorical": ["a", "a"]}}, "paper": []}, "two or more different choices"),
    ({"space": {"g": {"float": [0, 1], "when": {"h": [1]}}}, "paper": []}, "unknown dimension 'h'"),
    ({"space": {"h": {"int": [0, 3]}, "g": {"float": [0, 1], "when": {"h": [9]}}}, "paper": []}, "is not in the space of h"),
    ({"paper": [{"gamma": 9.0, "lambda_global": 1, "attention": "softmax"}]}, "gamma is outside its space"),
    ({"paper": [{"gamma": 1.0, "attention": "softmax"}]}, "lambda_global is missing"),
    ({"paper": [{"gamma": 1.0, "lambda_global": 1, "attention": "softmax", "lambda_local": 0.1}]}, "lambda_local is not drawn then"),
])  # fmt: skip
def test_mistakes_are_one_line(changes, message):
    with pytest.raises(UserError) as caught:
        parse(**changes)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_unknown_study_and_no_mapping(tmp_path):
    (tmp_path / "gamma.yaml").write_text("[]")
    with pytest.raises(UserError, match="did you mean 'gamma'"):
        study_declaration.load_study("gama", tmp_path)
    with pytest.raises(UserError, match="gamma.yaml: .*must be a mapping"):
        study_declaration.load_study("gamma", tmp_path)


@pytest.mark.parametrize(("changes", "message"), [
    ({"space": {"gama": {"float": [0, 1]}}, "paper": []}, "unknown parameter 'gama'; did you mean 'gamma'"),
    ({"objectives": ["summary/Comb"]}, "summary/Comb: unknown summary 'Comb'; did you mean 'Comp'"),
    ({"objectives": ["sugarcrep/swap"]}, "not among evaluate.benchmarks: unknown benchmark 'sugarcrep'"),
    ({"method": "fsc"}, "unknown method 'fsc'"),
    ({"backbone": "b"}, "unknown backbone 'b'.*grid.yaml has no such section: give a grid that has it"),
    ({"method": "negclip"}, "study .*: unknown method 'negclip'.*grid.yaml has no such section: give a grid that has it"),
])  # fmt: skip
def test_what_params_do_not_have(tmp_path, changes, message):
    (tmp_path / "params.yaml").write_text(PARAMS)
    with pytest.raises(UserError, match=message):
        study_declaration.check_study(parse(**changes), read.load_params(tmp_path / "params.yaml"), "grid.yaml")


def test_values_go_into_the_variants_section():
    """A method with a variant is overlaid there; texts survive YAML."""
    study = parse(method="fsc_clip.mine", overrides=["train.epochs=2"])
    assert study_declaration.trial_overrides(study, {"gamma": 1e-7, "attention": "no"}, {}) == [
        "train.epochs=2",
        "methods.fsc_clip.variants.mine.gamma=1e-07",
        'methods.fsc_clip.variants.mine.attention="no"',
    ]


def test_a_trial_stands_over_what_holds_on_its_data(tmp_path):
    """per_data would hide the trial's value otherwise; what it says of other parameters holds in the sweep."""
    (tmp_path / "params.yaml").write_text(PARAMS)
    base = ["methods.fsc_clip.per_data.scenes={gamma: 4.0, lambda_local: 0.7}"]
    methods = read.load_params(tmp_path / "params.yaml", base).methods
    trial = study_declaration.trial_overrides(parse(), {"gamma": 0.5}, methods)
    trial_run = study_declaration.trial_run(parse(), read.load_params(tmp_path / "params.yaml", base + trial))
    assert (trial_run.method.gamma, trial_run.method.lambda_local) == (0.5, 0.7)


def trial(number: int, *values: float, state: str = "complete") -> dict:
    """A trial as in trials.json."""
    params = {"gamma": number / 10, "lambda_global": 0.1 + number, "attention": "softmax"}
    return {"number": number, "state": state, "params": params, "values": list(values) or None, "run_key": f"k{number}",
            "folder": None, "started": None, "ended": None, "reason": "", "paper": number == 0, "retry_of": None,
            "intermediate": {}}  # fmt: skip


TWO = [{"column": "sugarcrepe/swap"}, {"column": "retrieval/loss", "direction": "minimize"}]
POINTS = [
    trial(0, 0.5, 0.5), trial(1, 0.6, 0.6), trial(2, 0.6, 0.5), trial(3, 0.4, 0.1), trial(4, 0.4, 0.2),
    trial(5, 0.6, 0.5), trial(6, state="failed"),
]  # fmt: skip


def test_front_and_choice_by_hand():
    """2 and its equal 5, and 3; the sum of gains over (0.5, 0.5) is 0.1 for 2 and 0.3 for 3."""
    study = parse(objectives=TWO)
    assert study_results.pareto_front(study, POINTS) == [2, 3, 5]
    assert study_results.best_trial(study, POINTS, [0.5, 0.5])["number"] == 3
    assert study_results.best_trial(parse(), [trial(0, 0.4), trial(1, 0.7), trial(2, 0.7)], None)["number"] == 1
    assert study_results.best_trial(parse(objectives=[TWO[1]]), [trial(0, 0.4), trial(1, 0.7)], None)["number"] == 0
    assert study_results.best_trial(study, [], None) is None


def test_best_yaml_is_a_grid(tmp_path, monkeypatch):
    """`config use` takes it, the values are in the method's section, and the method is in the grid."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "params.yaml").write_text(PARAMS)
    study = study_declaration.parse_study("s", {
        "method": "hard_positives", "backbone": "tiny", "data": "scenes", "trials": 1, "objectives": ["sugarcrepe/swap"],
        "space": {"lambda_s_neg": {"float": [0, 2]}, "hard_positives": {"categorical": ["none", "swap"]},
                  "train.lr": {"float": [1e-6, 1], "log": True}}, "overrides": ["train.epochs=3"],
    })  # fmt: skip
    values = {"lambda_s_neg": 0.123456789012345, "hard_positives": "none", "train.lr": 1e-6}
    best_trial = trial(3, 0.75) | {"params": values}
    text = study_results.best_yaml(study, tmp_path / "params.yaml", best_trial, "sugarcrepe/swap 75.00 %")
    (tmp_path / "best.yaml").write_text(text)
    read.use_grid("best.yaml", force=True)
    cell = grid.resolve(read.load_params("params.yaml"), "hard_positives-tiny-scenes-0")
    assert (cell.method.lambda_s_neg, cell.method.hard_positives) == (0.123456789012345, "none")
    assert (cell.train.lr, cell.train.epochs) == (1e-6, 3)
    assert "sugarcrepe/swap 75.00 %" in (tmp_path / "params.yaml").read_text().splitlines()[0]


def test_what_a_study_writes_keeps_the_key_on(tmp_path):
    """YAML 1.1 takes it for true, and DVC, which reads 1.2, has no key `true` to resolve."""
    source = tmp_path / "params.yaml"
    source.write_text(
        PARAMS.replace("captioner: scenes}", "captioner: none, captions: {file: list, on: url, column: c}}")
    )
    study = parse(overrides=["data.scenes.texts={dense: {file: n.csv, on: image, column: n}}"])
    values = {"gamma": 1.5, "lambda_global": 0.5, "attention": "softmax"}
    best = study_results.best_yaml(study, source, trial(3, 0.75) | {"params": values}, "")
    fixed = sweep_command.fixed_params(study, source, [], tmp_path).read_text()
    for text in (best, fixed):
        assert "'on': url" in text and "'on': image" in text and "true" not in text
        (tmp_path / "made.yaml").write_text(text)
        data_config = read.load_params(tmp_path / "made.yaml").data["scenes"]
        assert (data_config.captions["on"], data_config.texts["dense"]["on"]) == ("url", "image")


def test_scores_name_what_is_missing(tmp_path):
    (tmp_path / "sugarcrepe.json").write_text('{"metrics": {"swop": 0.5}}')
    with pytest.raises(UserError, match="unknown metric 'swap'; did you mean 'swop'"):
        study_declaration.read_scores((Column("sugarcrepe", "swap"),), tmp_path)
    (tmp_path / "sugarcrepe.json").write_text('{"metrics": {"swap": null}}')
    with pytest.raises(UserError, match="swap=None: must be a number"):
        study_declaration.read_scores((Column("sugarcrepe", "swap"),), tmp_path)


MEANS = ["summary/Comp", "summary/General"]
KINDS = {"sugarcrepe": ("composition", {"average": 0.6, "swap": 0.1}), "zeroshot": ("classification", {"top_1": 0.9}),
         "retrieval": ("retrieval", {"i2t_recall_at_1": 0.4, "t2i_recall_at_1": 0.2})}  # fmt: skip


def test_means_of_the_report_are_objectives(tmp_path):
    """General is the mean of 0.9, 0.4 and 0.2; of a rung's metrics and of a run's files the same, and nothing missing."""
    for name, (kind, metrics) in KINDS.items():
        headline = [metric for metric in metrics if metric != "swap"]
        document = {
            "benchmark": name, "kind": kind, "lower": [], "scores": [], "headline": headline, "metrics": metrics,
        }  # fmt: skip
        write_json(tmp_path / f"{name}.json", document)
    (tmp_path / "params.yaml").write_text(
        PARAMS.replace("{sugarcrepe: {path: s, images: t}, retrieval: {path: r, images: t}}",
                       f"{{{', '.join(f'{name}: {{path: s, images: t}}' for name in KINDS)}}}")
        .replace("[sugarcrepe, retrieval]", f"[{', '.join(KINDS)}]")
    )  # fmt: skip
    params, study = read.load_params(tmp_path / "params.yaml"), parse(objectives=MEANS)
    study_declaration.check_study(study, params)
    stored_run = SimpleNamespace(folder=SimpleNamespace(final=None), cell=None)
    columns = study_declaration.objective_columns(study, stored_run, tmp_path, params)
    assert study_declaration.list_benchmarks(columns) == list(KINDS)
    assert study_declaration.read_scores(columns, tmp_path) == pytest.approx([0.6, 0.5])
    rung = {f"{name}/{metric}": v for name, (_, metrics) in KINDS.items() for metric, v in metrics.items()}
    assert study_declaration.column_values(columns, rung) == pytest.approx([0.6, 0.5])
    with pytest.raises(KeyError, match="zeroshot/top_1"):
        study_declaration.column_values(columns, {k: v for k, v in rung.items() if k != "zeroshot/top_1"})
    fewer = read.load_params(tmp_path / "params.yaml", ["evaluate.benchmarks=[sugarcrepe]"])
    with pytest.raises(UserError, match="summary/General"):
        study_declaration.objective_columns(study, stored_run, tmp_path, fewer)


def test_page_is_self_contained():
    """Every trial, the paper's mark, both slices of each parameter, the front; no script, no markup of a failure's text,
    nothing fetched; without a finished trial nothing is drawn."""
    study = parse(objectives=TWO)
    reference = {"run_key": "r", "folder": "f", "values": [0.5, 0.5]}
    points = [*POINTS[:6], POINTS[6] | {"reason": "<b>loss</b>"}]
    text = study_page.format_page(study_results.study_to_json(study, points, reference))
    assert "&lt;b&gt;loss" in text and "<b>loss" not in text
    assert all(f"<code>k{n}</code>" in text for n in range(7)) and "the paper&#39;s values" in text
    assert 'aria-label="Pareto front"' in text
    assert 'aria-label="sugarcrepe/swap against gamma"' in text
    assert "<script" not in text and "http" not in text.replace("http-equiv", "")
    assert "None" not in text
    assert "sugarcrepe/swap 40.00 % (pretrained 50.00)" in text and "<th>sugarcrepe/swap (%)</th>" in text
    empty = study_page.format_page(study_results.study_to_json(parse(), [trial(0, state="running")], None))
    assert "1 running" in empty and "<svg" not in empty


def test_a_cosine_is_not_shown_in_percent():
    """It is marked in trials.json, whose values are as they were measured."""
    study = parse(objectives=TWO)
    columns = [Column("sugarcrepe", "swap", score=True), Column("retrieval", "loss")]
    document = study_results.study_to_json(study, [trial(0, 0.25, 0.5)], None, columns)
    assert [o.get("score") for o in document["objectives"]] == [True, None]
    assert document["trials"][0]["values"] == [0.25, 0.5]
    page = study_page.format_page(document)
    assert "<td>0.2500</td><td>50.00</td>" in page and "sugarcrepe/swap (a cosine)" in page
