"""Whatever stands at a key of params.yaml, a study or a profile: parameters, or one line that says what is wrong."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.config import grid, plan, read
from compclip.launch import profiles
from compclip.sweep import study_declaration
from tests.tiny_project import PARAMS

BASE = yaml.safe_load(PARAMS.replace("STEPS", "10")) | {"wise_ft": {}, "report": {}, "tune": {}}
BASE["methods"]["clic"] = {"variants": {"v": {}}, "per_data": {"scenes": {}}, "train": {}}
BASE["grid"]["versions"] = {}
STUDY = {
    "method": "fsc_clip", "backbone": "tiny", "data": "scenes", "seed": 0, "overrides": ["train.epochs=2"],
    "space": {"gamma": {"float": [0, 5], "log": False}, "attention": {"categorical": ["minmax", "softmax"]},
              "lambda_local": {"float": [0, 1], "when": {"attention": ["minmax"]}}},
    "paper": [{"gamma": 2.0, "attention": "softmax"}], "sampler": "tpe", "startup_trials": 5, "pruner": "none",
    "rungs": [0.25, 0.5], "objectives": [{"column": "sugarcrepe/swap", "direction": "maximize"}], "trials": 12,
}  # fmt: skip
PROFILE = {f.name: None for f in fields(profiles.Profile)} | {"options": {"nice": "5"}, "setup": ["module load x"]}
ODD = [
    "",
    "???",
    "${",
    "${grid.seeds}",
    "${nope}",
    "1e400",
    "nan",
    "inf",
    "../x",
    "$(x)",
    "\0",
    "a\nb",
    "true",
    "1" * 5000,
]
scalars = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.just(10**400) | st.floats() | st.text(max_size=5)
    | st.sampled_from(ODD) | st.binary(max_size=2) | st.dates()
)  # fmt: skip
keys = st.text(max_size=3) | st.integers(-3, 3) | st.none() | st.booleans() | st.sampled_from(["train", "float", "int"])
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(keys, v, max_size=3), max_leaves=5)


def list_paths(value: object, prefix: tuple = ()) -> list[tuple]:
    """Every place of nested mappings and lists."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [prefix] * bool(prefix) + [path for key, v in below for path in list_paths(v, (*prefix, key))]


def schema() -> list[tuple]:
    """The places of BASE, and every field that it leaves out."""
    kinds = {(name,): kind for name, kind in read.SECTIONS.items()}
    kinds |= {(name, next(iter(BASE[name]))): kind for name, kind in read.TABLES.items()}
    return [*list_paths(BASE), *((*path, f.name) for path, kind in kinds.items() for f in fields(kind))]


def put(base: dict, path: tuple, value: object) -> str:
    """The YAML of `base` with a value at a place."""
    document = json.loads(json.dumps(base))
    below = document
    for key in path[:-1]:
        below = below[key]
    below[path[-1]] = value
    return yaml.safe_dump(document, allow_unicode=True, sort_keys=False)


@settings(max_examples=100)
@given(path=st.sampled_from(schema()), value=values)
def test_params(tmp_path_factory, path, value):
    """What is accepted can be planned and written."""
    file = tmp_path_factory.mktemp("p") / "params.yaml"
    file.write_text(put(BASE, path, value), errors="surrogatepass")
    try:
        params = read.load_params(file)
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    for stage, item, document in plan.build_documents(params):
        assert json.dumps(document, allow_nan=False) and "/" not in f"{stage}{item}"
    for run in grid.resolve_all(params):
        assert grid.parse_run(yaml.safe_load(grid.run_to_yaml(run)), "f").cell == run.cell


@settings(max_examples=60)
@given(path=st.sampled_from(list_paths(STUDY)), value=values)
def test_studies(tmp_path_factory, path, value):
    """What is accepted has an identity that is kept as JSON, and a first trial."""
    folder = tmp_path_factory.mktemp("s")
    (folder / "s.yaml").write_text(put(STUDY, path, value), errors="surrogatepass")
    try:
        study = study_declaration.load_study("s", folder)
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    assert json.dumps(study.identity(), allow_nan=False)
    assert study_declaration.trial_overrides(study, study_declaration.corner_values(study), {})


@settings(max_examples=60)
@given(path=st.sampled_from(list_paths(PROFILE)), value=values)
def test_profiles(tmp_path_factory, path, value):
    """A profile, or a line."""
    file = tmp_path_factory.mktemp("f") / "profile.yaml"
    given_now = {path[0]: PROFILE[path[0]]} if len(path) > 1 else {}
    file.write_text(put(given_now, path, value), errors="surrogatepass")
    try:
        assert profiles.load_profile(file).tasks >= 1
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("grid", "seeds"), [[0]], r"grid.seeds.0=\[0\]: must be int"),
        (("grid", "seeds"), [True], r"grid.seeds.0=True: must be int"),
        (("report", "columns"), [["a/b"]], r"report.columns.0=\['a/b'\]: must be str"),
        (("report", "columns"), [{"a": 1}], r"report.columns.0=.*: must be str"),
        (("wise_ft", "seeds"), [[0]], r"wise_ft.seeds.0=.*: must be int"),
        (("train", "lora"), {"targets": [["mlp"]]}, r"train.lora.targets.0: unknown target "),
        (("train", "batch_size"), 10**400, "train.batch_size: a number beyond 2[*][*]63; give a smaller one"),
        (("train", "lr"), 10**400, "train.lr: a number beyond"),
        (("train", "lr"), float("inf"), "train.lr=inf: must be a finite number"),
        (("train", "lr"), True, "train.lr=True: must be float"),
        (("train", "epochs"), "1" * 5000, "train.epochs="),
        (("scenes", "joined"), "nan", "scenes.joined='nan': must be float"),
        (("evaluate", "threads"), True, "evaluate.threads=True: must be int"),
        (("train", None), 1, "not YAML: Incompatible key type 'NoneType'"),
        (("train", True), 1, "train: key True: must be a text; put it into quotes"),
        (("train", "lr"), b"x", "train.lr: is a bytes; write a text"),
        (("train", "lr"), {"a", "b"}, "not YAML: Value 'set' is not a supported"),
        (("train", "lr"), "${", "not YAML: no viable alternative"),
        (
            ("train", "lr"),
            "${oc.select:grid}",
            r"train.lr: '\$\{oc.select:grid\}': give \$\{key\}, \$\{oc.env:NAME\} or",
        ),
        (("data", "scenes", "path"), "a\0b", r"data.scenes.path: holds the character '\\x00'; remove it"),
        (("data", "x" * 300), {}, "data 'x+...': must be letters"),
    ],
)
def test_values_that_ended_with_a_traceback_or_passed(tmp_path, path, value, message):
    """Each names the file and the key."""
    file = tmp_path / "params.yaml"
    file.write_text(put(BASE, path, value))
    with pytest.raises(UserError, match=message) as error:
        read.load_params(file)
    assert str(error.value).startswith(f"{file}: ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("space", "gamma", "log"), "abc", "space.gamma.log='abc': must be true or false"),
        (("space", "gamma", "float"), [0, float("inf")], "space.gamma.float=inf: must be a finite number"),
        (("space", "gamma", "float"), [0, 10**400], "space.gamma.float: a number beyond"),
        (
            ("space", "attention", "categorical"),
            [["a"], ["b"]],
            r"space.attention.categorical.0.float=\['a'\]: must be float",
        ),
        (("rungs",), [[0.5]], r"rungs.0=\[0.5\]: must be float"),
        (("rungs",), ["a"], "rungs.0='a': must be float"),
        (("overrides",), [["a"]], r"overrides.0=\['a'\]: must be str"),
        (("method",), ["clic"], r"method=\['clic'\]: must be str"),
        (("data",), "../x", "data '../x': must be letters"),
        (("seed",), 2**32, "seed=4294967296: must be < 4294967296"),
        (("trials",), True, "trials=True: must be int"),
    ],
)
def test_studies_that_ended_with_a_traceback_or_passed(tmp_path, path, value, message):
    """Each names the file and the key."""
    (tmp_path / "s.yaml").write_text(put(STUDY, path, value))
    with pytest.raises(UserError, match=message) as error:
        study_declaration.load_study("s", tmp_path)
    assert "s.yaml" in str(error.value) and "\n" not in str(error.value)
