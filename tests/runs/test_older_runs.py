"""Finished runs whose key was another one are taken over where their code gives the numbers of now."""

from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base import code_hash
from compclip.base.files import read_json
from compclip.config import training_code
from compclip.runs import key_parts, lock, run_store
from compclip.runs.run_store import StoredRun
from tests import fake_store, tiny_project

METHOD = "fsc_clip"


@pytest.fixture
def finished(tmp_path, monkeypatch) -> StoredRun:
    """A cell's finished run, of a module that was another one before; in the current folder."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    monkeypatch.delenv(run_store.VARIABLE, raising=False)
    modules = training_code.hash_training_modules(METHOD) | {"compclip.train.losses": "before"}
    parts = key_parts.describe_key(fake_store.runs(Path("."))[0].run, Path("."))
    with monkeypatch.context() as patch:
        patch.setattr(training_code, "hash_training_code", lambda _: code_hash.join_hashes(modules))
        run = fake_store.finish(fake_store.runs(Path("."))[0], seconds=65)
    key_parts.write_parts(run.folder, replace(parts, modules=modules, code=""))
    return run


def cover(monkeypatch, **changes) -> None:
    """Let the shipped file be another one."""
    numbers = replace(training_code.read_numbers(), **changes)
    monkeypatch.setattr(training_code, "read_numbers", lambda: numbers)


def take_over() -> StoredRun:
    """The cell as it is now, after the store was looked through."""
    run = fake_store.runs(Path("."))[0]
    key_parts.take_over([run], Path("."))
    return run


def test_a_run_from_before_there_were_versions(finished, monkeypatch, capsys):
    """By the hash of all its modules; with its results, its files shared, and nothing written into it."""
    before = {path: path.stat().st_mtime_ns for path in finished.folder.path.rglob("*")}
    parts = key_parts.read_parts(finished.folder)
    cover(monkeypatch, older={METHOD: code_hash.join_hashes(parts.modules)})
    run = take_over()
    assert run.adopt_if_finished() and run.key != finished.key
    assert run.folder.final.weights.samefile(finished.folder.final.weights)
    assert (run.folder.scores("e1") / "sugarcrepe.json").is_file()
    facts = read_json(run.folder.final.environment)
    assert (facts["run_key"], facts["carried"]["from"]) == (run.key, finished.key)
    assert f"{run.name} from {finished.key} to {run.key}" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in finished.folder.path.rglob("*")} == before


def test_a_run_of_an_edit_that_was_shown_to_be_equal_since(finished, monkeypatch):
    """Its modules are those that the file names now."""
    modules = training_code.hash_training_modules(METHOD)
    cover(monkeypatch, modules=dict(training_code.read_numbers().modules) | {"compclip.train.losses": ["before"]})
    monkeypatch.setattr(training_code, "hash_training_code", lambda _: training_code.name_code(METHOD, {}))
    assert modules and take_over().adopt_if_finished()


def test_a_run_of_other_numbers_stays_where_it_is(finished):
    """Its module is none that the file names."""
    assert not take_over().adopt_if_finished()


def test_of_other_parameters(finished, monkeypatch):
    """Another seed's, or another value's, is no run of this cell."""
    cover(monkeypatch, older={METHOD: code_hash.join_hashes(key_parts.read_parts(finished.folder).modules)})
    others = fake_store.runs(Path("."))[1:] + fake_store.runs(Path("."), "params.yaml", "train.lr=0.5")
    key_parts.take_over(others, Path("."))
    assert not any(run.adopt_if_finished() for run in others)


def test_options_that_are_newer_or_gone(finished, monkeypatch):
    """A newer one at its default, although that is not off; one that was off in the run and is no more."""
    config = finished.folder.final.config
    config.chmod(0o644)
    lines = [line for line in config.read_text().splitlines(True) if "max_logit_scale" not in line]
    config.write_text("".join(lines).replace("train:\n", "train:\n  of_before: false\n"))
    cover(monkeypatch, older={METHOD: code_hash.join_hashes(key_parts.read_parts(finished.folder).modules)})
    assert take_over().adopt_if_finished()


def test_where_somebody_trains_it_already(finished, monkeypatch, capsys):
    """It is left to them, and said."""
    cover(monkeypatch, older={METHOD: code_hash.join_hashes(key_parts.read_parts(finished.folder).modules)})
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


def forget_columns(run: StoredRun, number: int) -> None:
    """Let a finished run be one from before there were hashes of pictures (0), or of columns (1)."""
    inputs = run_store.hash_run_inputs(run.run, run.root)
    data, everything = inputs.former[number]
    parts = replace(key_parts.describe_key(run.run, run.root), data=data, inputs=everything, columns={})
    key_parts.write_parts(run.folder, parts)


@pytest.fixture(params=[1])
def former(tmp_path, monkeypatch, request) -> StoredRun:
    """A cell's finished and published run, whose key was made of the whole manifest; in the current folder."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    monkeypatch.delenv(run_store.VARIABLE, raising=False)
    run = fake_store.runs(Path("."))[0]
    before = replace(run, key="0123456789abcdef", folder=run_store.find_folder("0123456789abcdef"))
    fake_store.finish(before, publish=True)
    forget_columns(before, request.param)
    return before


@pytest.mark.parametrize("former", [0], indirect=True)
@pytest.mark.parametrize("column", ["image", "offset", "length", "head"])
def test_a_run_whose_key_had_the_places_of_pictures(former, column):
    """It is the cell's where they lie in the same places, with the same checksums."""
    assert take_over().adopt_if_finished()
    fake_store.write_data(Path("."), masked="mended", pictures="q")
    assert take_over().adopt_if_finished(), "the place says that they are the same"
    fake_store.write_data(Path("."), pictures="r", **{column: "another"})
    assert not take_over().adopt_if_finished()


@pytest.mark.parametrize("former", [1], indirect=True)
def test_a_run_whose_key_had_the_whole_manifest(former):
    """It is the cell's where the manifest is the same, and its parts are those of now; published files follow."""
    run = take_over()
    assert run.adopt_if_finished() and run.published.trained.run_key == run.key != former.key
    assert key_parts.read_parts(run.folder) == key_parts.describe_key(run.run, Path("."))
    fake_store.write_data(Path("."), masked="mended")
    assert take_over().key == run.key, "a column that the rules do not read"
    fake_store.write_data(Path("."), candidates="mended")
    assert not take_over().adopt_if_finished()


@pytest.mark.parametrize("changed", ["candidates", "masked"])
def test_a_former_run_of_another_manifest_is_not_taken_over(former, changed):
    """Nobody knows which of its columns were others."""
    fake_store.write_data(Path("."), **{changed: "mended"})
    assert not take_over().adopt_if_finished()


@pytest.mark.parametrize("changed", ["id", "pictures", "text", "tokens", "candidates", "masked", "new", "image"])
def test_a_key_changes_where_a_column_that_is_read_does_and_only_there(former, changed):
    """fsc_clip reads parses and candidates, and no masked words, nor where pictures lie."""
    key = fake_store.runs(Path("."))[0].key
    fake_store.write_data(Path("."), **{changed: "another"})
    assert (fake_store.runs(Path("."))[0].key != key) == (changed not in ("masked", "new", "image"))


def test_the_stage_keys_takes_over(former):
    tiny_project.plan()
    [run] = [run for run in run_store.list_planned() if run.cell == former.cell]
    assert run.adopt_if_finished() and run.published.trained.run_key == run.key
