"""Whatever stands at a key of params.yaml, a study or a profile: parameters, or one line that says what is wrong."""

import json
from dataclasses import fields

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
    "", "???", "${", "${grid.seeds}", "${nope}", "1e400", "nan", "inf", "../x", "$(x)", "\0", "a\nb", "true",
    "1" * 5000,
]  # fmt: skip
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
    file = tmp_path_factory.mktemp("f") / "profile.yaml"
    given_now = {path[0]: PROFILE[path[0]]} if len(path) > 1 else {}
    file.write_text(put(given_now, path, value), errors="surrogatepass")
    try:
        assert profiles.load_profile(file).tasks >= 1
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017
