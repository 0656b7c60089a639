"""`compclip runs why`: what a cell's key has in it that the nearest finished run had not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base.files import write_atomic
from compclip.config import training_code
from compclip.runs import key_parts, run_store
from compclip.runs.run_store import StoredRun
from tests import fake_store

CELL = "fsc_clip.v0-tiny-scenes-0"


@pytest.fixture
def finished(tmp_path, monkeypatch) -> StoredRun:
    """A cell's finished run, which says what its key was made of; in the current folder."""
    monkeypatch.chdir(fake_store.project(tmp_path / "p"))
    monkeypatch.delenv(run_store.VARIABLE, raising=False)
    run = fake_store.finish(fake_store.runs(Path("."))[0], seconds=65)
    key_parts.write_parts(run.folder, key_parts.describe_key(run.run, run.root))
    return run


def ask(capsys, *argv: str) -> str:
    """What the command prints."""
    assert key_parts.main([CELL, *argv]) == 0
    return capsys.readouterr().out


def test_a_finished_cell_is_up_to_date(finished, capsys):
    """With its run's key, as text and as JSON."""
    assert ask(capsys) == f"{CELL}: up to date, run {finished.key}\n"
    answer = json.loads(ask(capsys, "--json"))
    assert (answer["finished"], answer["run_key"], answer["nearest"]) == (True, finished.key, None)


def test_a_parameter(finished, capsys):
    """Old and new value, of a schedule or of the method; what it cost, and that code is equal."""
    text = ask(capsys, "train.lr=0.5", "methods.fsc_clip.variants.v0.gamma=1.5")
    assert f"nearest: {finished.key}, made for {CELL}" in text
    assert "  parameter  train.lr: 1e-05 -> 0.5\n" in text
    assert "  parameter  config.gamma: 0.0 -> 1.5\n" in text
    assert "took 65 s" in text
    assert "code" not in text
    assert ask(capsys, "train.lr=0.5", "train.workers=2").count("parameter") == 1, "resources are no part of a key"
    answer = json.loads(ask(capsys, "train.lr=0.5", "--json"))
    assert [difference["name"] for difference in answer["differences"]] == ["train.lr"]


def test_a_backbone_and_data(finished, capsys):
    """By fingerprints, that of the columns that are read with their names."""
    write_atomic("models/tiny/config.json", "another")
    text = ask(capsys)
    assert text.count("->") == 1 and "  backbone   tiny: " in text
    fake_store.write_data(Path("."), candidates="mended", masked="mended")
    text = ask(capsys)
    assert text.count("->") == 3 and "  data       scenes: " in text and "  column     candidates: " in text


def test_code(finished, capsys, monkeypatch):
    """By module."""
    hashes = training_code.hash_training_modules("fsc_clip") | {"compclip.train.losses": "edited"}
    monkeypatch.setattr(training_code, "hash_training_modules", lambda _: hashes)
    monkeypatch.setattr(training_code, "hash_training_code", lambda _: "edited")
    text = ask(capsys)
    assert text.count("->") == 1 and "  code       compclip.train.losses: " in text and "-> edited\n" in text
    assert json.loads(ask(capsys, "--json"))["device_seconds"] == 65


def test_an_option_that_is_newer_than_the_run(finished, capsys):
    """At its default it is no parameter that differs; at another value it is."""
    config = finished.folder.final.config
    config.chmod(0o644)
    config.write_text("".join(line for line in config.read_text().splitlines(True) if "max_logit_scale" not in line))
    finished.folder.path.rename(finished.folder.path.with_name("0" * 16))
    text = ask(capsys)
    assert "  option     train.max_logit_scale: not there -> " in text
    assert "parameter" not in text
    answer = json.loads(ask(capsys, "--json"))
    assert [(d["kind"], d["name"]) for d in answer["differences"]] == [("option", "train.max_logit_scale")]
    assert "  parameter  train.max_logit_scale: not there -> 2.0\n" in ask(capsys, "train.max_logit_scale=2")


def test_code_of_the_same_numbers(finished, capsys, monkeypatch):
    """A run of other modules that gave the same numbers differs in nothing; its key, by its parameters, in those."""
    parts = key_parts.describe_key(finished.run, finished.root)
    key_parts.write_parts(finished.folder, replace(parts, modules=parts.modules | {"compclip.train.losses": "before"}))
    answer = json.loads(ask(capsys, "train.lr=0.5", "--json"))
    assert [difference["name"] for difference in answer["differences"]] == ["train.lr"]


def test_the_nearest_run_is_that_of_the_cell_with_the_fewest_differences(finished, capsys):
    """Of two runs that were made for the cell; those of other cells are for a cell without one."""
    farther = fake_store.runs(Path("."), "params.yaml", "train.lr=0.5", "train.beta1=0.5")[0]
    key_parts.write_parts(fake_store.finish(farther).folder, key_parts.describe_key(farther.run, farther.root))
    assert f"nearest: {finished.key}" in ask(capsys, "train.lr=0.25")
    other_seed = fake_store.runs(Path("."))[1]
    assert key_parts.main([other_seed.name]) == 0
    text = capsys.readouterr().out
    assert f"nearest: {finished.key}, made for {CELL}" in text and "parameter  seed: 0 -> 1\n" in text
