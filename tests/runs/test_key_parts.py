"""What a run's key was made of: `compclip runs why` compares it with a cell's key.

Finished runs whose key was another one are taken over where their code gives the numbers of now.
"""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from compclip.base import code_hash, yaml_text
from compclip.base.files import read_json, read_mapping, write_atomic, write_json
from compclip.config import training_code
from compclip.runs import key_parts, lock, run_store
from compclip.runs.run_store import StoredRun
from tests import fake_store, tiny_project

CELL = "fsc_clip.v0-tiny-scenes-0"
METHOD = "fsc_clip"
RELEASED = yaml_text.to_plain(
    yaml_text.read_yaml(Path(__file__).with_name("released_runs.yaml"), "must be a mapping"), "released_runs.yaml"
)


def ask(capsys, *argv: str) -> str:
    assert key_parts.main([CELL, *argv]) == 0
    return capsys.readouterr().out


def test_a_finished_cell_is_up_to_date(recorded, capsys):
    """With its run's key, as text and as JSON."""
    assert ask(capsys) == f"{CELL}: up to date, run {recorded.key}\n"
    answer = json.loads(ask(capsys, "--json"))
    assert (answer["finished"], answer["run_key"], answer["nearest"]) == (True, recorded.key, None)


def test_a_parameter(recorded, capsys):
    """Old and new value, of a schedule or of the method; what it cost, and that code is equal."""
    text = ask(capsys, "train.lr=0.5", "methods.fsc_clip.variants.v0.gamma=1.5")
    assert f"nearest: {recorded.key}, made for {CELL}" in text
    assert "  parameter  train.lr: 1e-05 -> 0.5\n" in text
    assert "  parameter  config.gamma: 0.0 -> 1.5\n" in text
    assert "took 65 s" in text
    assert "code" not in text
    assert ask(capsys, "train.lr=0.5", "train.workers=2").count("parameter") == 1, "resources are no part of a key"
    answer = json.loads(ask(capsys, "train.lr=0.5", "--json"))
    assert [difference["name"] for difference in answer["differences"]] == ["train.lr"]


def test_a_backbone_and_data(recorded, capsys):
    """By fingerprints, that of the columns that are read with their names."""
    write_atomic("models/tiny/config.json", "another")
    text = ask(capsys)
    assert text.count("->") == 1 and "  backbone   tiny: " in text
    fake_store.write_data(Path("."), candidates="mended", masked="mended")
    text = ask(capsys)
    assert text.count("->") == 3 and "  data       scenes: " in text and "  column     candidates: " in text


def test_code(recorded, capsys, monkeypatch):
    hashes = training_code.hash_training_modules("fsc_clip") | {"compclip.train.losses": "edited"}
    monkeypatch.setattr(training_code, "hash_training_modules", lambda _: hashes)
    monkeypatch.setattr(training_code, "hash_training_code", lambda _: "edited")
    text = ask(capsys)
    assert text.count("->") == 1 and "  code       compclip.train.losses: " in text and "-> edited\n" in text
    assert json.loads(ask(capsys, "--json"))["device_seconds"] == 65


def test_an_option_that_is_newer_than_the_run(recorded, capsys):
    """At its default it is no parameter that differs; at another value it is."""
    config = recorded.folder.final.config
    config.chmod(0o644)
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "max_logit_scale" not in line))
    recorded.folder.path.rename(recorded.folder.path.with_name("0" * 16))
    text = ask(capsys)
    assert "  option     train.max_logit_scale: not there -> " in text
    assert "parameter" not in text
    answer = json.loads(ask(capsys, "--json"))
    assert [(d["kind"], d["name"]) for d in answer["differences"]] == [("option", "train.max_logit_scale")]
    assert "  parameter  train.max_logit_scale: not there -> 2.0\n" in ask(capsys, "train.max_logit_scale=2")


def test_code_of_the_same_numbers(recorded, capsys, monkeypatch):
    """A run of other modules that gave the same numbers differs in nothing; its key, by its parameters, in those."""
    parts = key_parts.describe_key(recorded.run, recorded.root)
    key_parts.write_parts(recorded.folder, replace(parts, modules=parts.modules | {"compclip.train.losses": "before"}))
    answer = json.loads(ask(capsys, "train.lr=0.5", "--json"))
    assert [difference["name"] for difference in answer["differences"]] == ["train.lr"]


def test_the_nearest_run_is_that_of_the_cell_with_the_fewest_differences(recorded, capsys):
    """Of two runs that were made for the cell; those of other cells are for a cell without one."""
    farther = fake_store.runs(Path("."), "params.yaml", "train.lr=0.5", "train.beta1=0.5")[0]
    key_parts.write_parts(fake_store.finish(farther).folder, key_parts.describe_key(farther.run, farther.root))
    assert f"nearest: {recorded.key}" in ask(capsys, "train.lr=0.25")
    other_seed = fake_store.runs(Path("."))[1]
    assert key_parts.main([other_seed.name]) == 0
    text = capsys.readouterr().out
    assert f"nearest: {recorded.key}, made for {CELL}" in text and "parameter  seed: 0 -> 1\n" in text


# --- finished runs of former keys


@pytest.fixture
def finished(made_project, monkeypatch) -> StoredRun:
    """A cell's finished run, of a module that was another one before."""
    modules = training_code.hash_training_modules(METHOD) | {"compclip.train.losses": "before"}
    parts = key_parts.describe_key(fake_store.runs(Path("."))[0].run, Path("."))
    with monkeypatch.context() as patch:
        patch.setattr(training_code, "hash_training_code", lambda _: code_hash.join_hashes(modules))
        run = fake_store.finish(fake_store.runs(Path("."))[0], seconds=65)
    key_parts.write_parts(run.folder, replace(parts, modules=modules, code=code_hash.join_hashes(modules)))
    return run


def cover(monkeypatch) -> None:
    """Let the shipped file name the module of before, as one that was shown to give the numbers of now."""
    name = "compclip.train.losses"
    now = training_code.hash_training_modules(METHOD)[name]
    numbers = training_code.read_numbers()
    numbers = replace(numbers, modules={**numbers.modules, name: ["before", now]})
    monkeypatch.setattr(training_code, "read_numbers", lambda: numbers)


def take_over() -> StoredRun:
    """The cell as it is now, after the store was looked through."""
    run = fake_store.runs(Path("."))[0]
    key_parts.take_over([run], Path("."))
    return run


def test_a_run_of_an_edit_that_was_shown_to_be_equal_since(finished, monkeypatch, capsys):
    """Its modules are those that the file names now; its files are shared, and nothing is written into it."""
    before = {path: path.stat().st_mtime_ns for path in finished.folder.path.rglob("*")}
    cover(monkeypatch)
    run = take_over()
    assert run.adopt_if_finished() and run.key != finished.key
    assert run.folder.final.weights.samefile(finished.folder.final.weights)
    assert (run.folder.scores("e1") / "sugarcrepe.json").is_file()
    facts = read_json(run.folder.final.environment)
    assert (facts["run_key"], facts["carried"]["from"]) == (run.key, finished.key)
    assert f"{run.name} from {finished.key} to {run.key}" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in finished.folder.path.rglob("*")} == before


def test_a_run_of_other_numbers_stays_where_it_is(finished):
    """Its module is none that the file names."""
    assert not take_over().adopt_if_finished()


def test_of_other_parameters(finished, monkeypatch):
    """Another seed's, or another value's, is no run of this cell."""
    cover(monkeypatch)
    others = fake_store.runs(Path("."))[1:] + fake_store.runs(Path("."), "params.yaml", "train.lr=0.5")
    key_parts.take_over(others, Path("."))
    assert not any(run.adopt_if_finished() for run in others)


def test_options_that_are_newer_or_gone(finished, monkeypatch):
    """A newer one at its default, although that is not off; one that was off in the run and is no more."""
    config = finished.folder.final.config
    config.chmod(0o644)
    lines = [line for line in config.read_text().splitlines(True) if "max_logit_scale" not in line]
    config.write_text("".join(lines).replace("train:\n", "train:\n  of_before: false\n"))
    cover(monkeypatch)
    assert take_over().adopt_if_finished()


def test_where_somebody_trains_it_already(finished, monkeypatch, capsys):
    """It is left to them, and said."""
    cover(monkeypatch)
    run = fake_store.runs(Path("."))[0]
    with lock.hold(run.folder):
        key_parts.take_over([run], Path("."))
    assert not run.folder.finished and run.key in capsys.readouterr().err


def test_what_is_off_is_no_part_of_a_key():
    """A new option that is off by default changes no key; switched on it does."""
    run = {"cell": {"method": "clic", "seed": 0}, "method": {"gamma": 2.0}, "train": {"lr": 0.5, "lora": None}}
    newer = run | {"method": {"gamma": 2.0, "new": False, "inner": {"weight": 0.0}}}
    key = run_store.hash_parameters(run, trains=True)
    assert run_store.hash_parameters(newer, trains=True) == key
    newer["method"]["inner"]["weight"] = 0.5
    assert run_store.hash_parameters(newer, trains=True) != key


@pytest.mark.parametrize("number", [0, 1])
def test_a_run_whose_key_had_other_fingerprints_of_its_data(made_project, number):
    """The pictures' places (0), or before that the whole manifest (1): the cell's while these are the same."""
    run = fake_store.runs(Path("."))[0]
    before = replace(run, key="0123456789abcdef", folder=run_store.find_folder("0123456789abcdef"))
    fake_store.finish(before, publish=True)
    everything = run_store.hash_run_inputs(run.run, run.root).former[number]
    now = key_parts.describe_key(run.run, run.root)
    key_parts.write_parts(before.folder, replace(now, data="", inputs=everything, columns={}))
    run = take_over()
    assert run.adopt_if_finished() and run.published.trained.run_key == run.key != before.key
    assert read_mapping(run.folder.code) == asdict(now)
    fake_store.write_data(Path("."), pictures="r", **{("image", "masked")[number]: "another"})
    assert not take_over().adopt_if_finished()


@pytest.mark.parametrize("changed", ["id", "pictures", "text", "tokens", "candidates", "masked", "new", "image"])
def test_a_key_changes_where_a_column_that_is_read_does_and_only_there(finished, changed):
    """fsc_clip reads parses and candidates, and no masked words, nor where pictures lie."""
    key = fake_store.runs(Path("."))[0].key
    fake_store.write_data(Path("."), **{changed: "another"})
    assert (fake_store.runs(Path("."))[0].key != key) == (changed not in ("masked", "new", "image"))


def test_the_stage_keys_takes_over(finished, monkeypatch):
    """The published files of the run follow."""
    finished.publish()
    cover(monkeypatch)
    tiny_project.plan()
    [run] = [run for run in run_store.list_planned() if run.cell == finished.cell]
    assert run.adopt_if_finished() and run.published.trained.run_key == run.key != finished.key


def finish_released(run: StoredRun, commit: str) -> None:
    """The finished run of a cell as the code of a commit left it in the store."""
    commit_record = RELEASED["commits"][commit]
    record = commit_record["runs"][run.run.method_name]
    resolved = {**run.resolved, "method": record["method"], "train": commit_record["train"]}
    names = record.get("further_modules", ())
    modules = RELEASED["modules"] | {name: RELEASED["further_modules"][name] for name in names}
    before = replace(run, key=record["key"], folder=run_store.find_folder(record["key"]), resolved=resolved)
    fake_store.finish(before)
    code = {name: RELEASED[name] for name in ("inputs", "backbone")} | {"data": "", "modules": modules}
    write_json(before.folder.code, code | ({"code": record["code"]} if "code" in record else {}))


@pytest.mark.parametrize("commit", RELEASED["commits"])
def test_a_store_of_a_released_commit_is_taken_over(tmp_path, monkeypatch, commit):
    """Every run, by what numbers.json says of versions and of older code; an edit that waits for `make numbers` is none."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    monkeypatch.delenv(run_store.VARIABLE, raising=False)
    monkeypatch.setattr(training_code, "hash_training_code", lambda method: training_code.name_code(method, {}))
    methods = list(RELEASED["commits"][commit]["runs"])
    overrides = [f"grid.methods=[{','.join(methods)}]", "grid.seeds=[0]", *(f"methods.{name}={{}}" for name in methods)]
    runs = fake_store.runs(Path("."), "params.yaml", *overrides)
    for run in runs:
        finish_released(run, commit)
    key_parts.take_over(runs, Path("."))
    assert [run.name for run in runs if not run.adopt_if_finished()] == []


@pytest.mark.parametrize("edit", [
    {"columns": {"text": ["a", "list"]}}, {"modules": ["a", "list"]}, {"data": {}}, {"unknown": "key"}, {"inputs": None},
], ids=str)  # fmt: skip
def test_a_record_that_is_damaged_is_left_out(finished, edit):
    """`runs why` compares with the others, in place of a traceback."""
    assert [run.folder.key for run in key_parts.list_recorded(Path("."), {"fsc_clip"})] == [finished.key]
    write_json(finished.folder.code, read_mapping(finished.folder.code) | edit)
    assert list(key_parts.list_recorded(Path("."), {"fsc_clip"})) == []
    run = replace(fake_store.runs(Path("."))[0], key="0123456789abcdef")
    assert key_parts.find_nearest(run) is None
