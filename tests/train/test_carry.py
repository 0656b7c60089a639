"""`compclip carry`: runs are taken over where only code differs and numbers are equal, and refused where they are not."""

from __future__ import annotations

import json
import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_json, write_json
from compclip.config import training_code
from compclip.interface.method import load_method
from compclip.runs import __main__ as runs_command
from compclip.runs import inventory, key_parts, lock, release_proof, run_store
from compclip.runs.run_folder import RunFolder, Trained
from compclip.train import __main__ as train_command
from compclip.train import carry, driver, trial_steps
from perf import older_commit
from perf import release_proof as write_proof
from tests import tiny_project
from tests.tiny_project import at, cell
from tests.train import seeded_edits
from tests.train.seeded_edits import STEPS

GRID = tiny_project.PARAMS.replace("[pretrained, finetune, fsc_clip]", "[pretrained, finetune, negclip]").replace(
    "fsc_clip: {}}", "negclip: {}}"
)
METHODS = ("pretrained", "finetune", "negclip")
TRAINED_BY = {name: training_code.hash_training_code(name) for name in METHODS}


@pytest.fixture(scope="module")
def trained(project, tmp_path_factory) -> Path:
    """A grid whose cells are finished; negclip's keeps a checkpoint. One has results."""
    root = tiny_project.other(project, tmp_path_factory.mktemp("carry") / "p", STEPS, GRID)
    text = (root / "params.yaml").read_text().replace("negclip: {}}", "negclip: {train: {keep_checkpoint: true}}}")
    (root / "params.yaml").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for name in map(cell, METHODS):
            assert train_command.main(["--cell", name]) == 0
        write_json(at(cell("finetune")).folder.scores("e1") / "sugarcrepe.json", {"metrics": {}})
    return root


@pytest.fixture
def here(trained, tmp_path, monkeypatch) -> Path:
    """A copy of it, the current folder, of code with other hashes."""
    root = shutil.copytree(trained, tmp_path / "p")
    monkeypatch.chdir(root)
    edit_code(monkeypatch)
    return root


def edit_code(monkeypatch, word: str = "edited") -> None:
    """Make all keys see other code in one module."""
    hashes = {name: training_code.hash_training_modules(name) for name in METHODS}
    edited = {name: {**modules, "compclip.train.losses": word} for name, modules in hashes.items()}
    monkeypatch.setattr(key_parts, "hash_training_modules", edited.__getitem__)
    monkeypatch.setattr(training_code, "hash_training_code", lambda name: f"{word} {name}")


REPLACE = os.replace


def old_folder(root: Path, name: str) -> RunFolder:
    """The folder of a run by the key that it was trained under."""
    return run_store.find_folder(Trained(tiny_project.trained(root, name)).run_key, root)


def refusal(capsys, *argv: str) -> str:
    """What is said of cells that part; their keys have no run."""
    assert carry.main(argv) == 1
    return capsys.readouterr().err


def test_equal_numbers_carry(here, capsys, monkeypatch):
    """New keys, the same files, a certificate; the old runs stay as they were, and nothing is trained afterwards."""
    folders = {name: old_folder(here, cell(name)) for name in METHODS}
    before = {name: fingerprint(folder.path) for name, folder in folders.items()}
    assert carry.main([]) == 0
    assert "3 cells: 3 carried, 0 part" in capsys.readouterr().out
    assert before == {name: fingerprint(folder.path) for name, folder in folders.items()}
    stored = at(cell("finetune"))
    assert stored.finished and stored.folder.final.run_key == stored.key != folders["finetune"].key
    assert stored.folder.final.weights.samefile(folders["finetune"].final.weights)
    assert (stored.folder.scores("e1") / "sugarcrepe.json").is_file()
    certificate = read_json(stored.folder.final.certificate)
    assert (certificate["from"], certificate["to"]) == (folders["finetune"].key, stored.key)
    assert certificate["modules"] == {"changed": ["compclip.train.losses"], "added": [], "removed": []}
    assert certificate["compared"].startswith(f"steps 1 to 3 of {STEPS} with weights: equal bits; no later step")
    tiny_project.plan()
    monkeypatch.setattr(driver, "train_runs", None)
    assert [train_command.main(["--method", name]) for name in METHODS] == [0, 0, 0]
    assert "1 cell, 1 run: 1 finished before" in capsys.readouterr().out
    assert Trained(tiny_project.trained(here, cell("finetune"))).run_key == stored.key
    assert carry.main([]) == 0
    assert "3 with a run" in capsys.readouterr().out


def test_the_list_of_runs_shows_where_one_came_from(here, capsys):
    """And counts its hours once."""
    assert carry.main(["finetune"]) == 0
    capsys.readouterr()
    assert runs_command.main([]) == 0
    assert f"carried from {old_folder(here, cell('finetune')).key}" in capsys.readouterr().out
    assert inventory.inspect_run(at(cell("finetune")).folder).device_seconds == 0


def test_a_carried_run_is_carried_again(here, capsys, monkeypatch):
    """By what was recorded when it was trained."""
    assert carry.main(["negclip"]) == 0
    first = at(cell("negclip"))
    shutil.rmtree(old_folder(here, cell("negclip")).path)
    edit_code(monkeypatch, "edited twice")
    assert carry.main(["negclip"]) == 0
    certificate = read_json(at(cell("negclip")).folder.final.certificate)
    assert certificate["from"] == first.key and certificate["carried_before"]


def test_a_kept_checkpoint_lets_the_end_be_compared(here):
    """The last steps from it, and the finished weights."""
    assert carry.main(["negclip"]) == 0
    compared = read_json(at(cell("negclip")).folder.final.certificate)["compared"]
    assert compared.endswith(f"steps {STEPS - 1}, {STEPS}, the finished weights: equal bits")


@pytest.mark.parametrize("name", seeded_edits.OTHER_NUMBERS)
def test_other_numbers_are_refused(here, capsys, monkeypatch, name):
    """With the step and the term at which they part; the run is not entered."""
    method, edit, where = seeded_edits.OTHER_NUMBERS[name]
    edit(monkeypatch)
    line = refusal(capsys, method)
    assert f"{cell(method)} from {old_folder(here, cell(method)).key}: {where}: recorded" in line, line
    assert not at(cell(method)).folder.path.exists()


@pytest.mark.parametrize("name", seeded_edits.EQUAL_NUMBERS)
def test_other_code_with_equal_numbers_is_carried(here, monkeypatch, name):
    """Steps with weights and moments."""
    seeded_edits.EQUAL_NUMBERS[name](monkeypatch)
    assert carry.main(["negclip"]) == 0
    assert at(cell("negclip")).finished


def test_what_comes_later_is_seen_from_a_kept_checkpoint_alone(here, capsys, monkeypatch):
    """An edit of the seventh step's loss: refused where a checkpoint was kept; else the certificate says what was not run."""
    seeded_edits.edit_later_loss(monkeypatch, "negclip")
    assert f"step {STEPS - 1}, negclip: recorded" in refusal(capsys, "negclip")
    seeded_edits.edit_later_loss(monkeypatch, "finetune")
    assert carry.main(["finetune"]) == 0
    assert "no later step but its learning rate (8 logged ones)" in capsys.readouterr().out
    assert carry.main(["finetune", "--steps", "8"]) == 0, "it has a run now"


def test_the_whole_run_can_be_tried(here, capsys, monkeypatch):
    """With as many steps as it has, to the finished weights: what comes after the last step is compared too."""
    with monkeypatch.context() as patch:
        seeded_edits.edit_finished_weights(patch)
        assert "the finished weights differ" in refusal(capsys, "finetune", "--steps", str(STEPS))
    assert carry.main(["finetune", "--steps", str(STEPS)]) == 0
    assert "the finished weights: equal bits" in capsys.readouterr().out


def test_a_run_of_a_store_without_records(here, capsys):
    """It is compared by the steps that it logged, as far as --steps reaches; the certificate says what is not known."""
    folder = old_folder(here, cell("finetune"))
    folder.code.unlink()
    folder.first_steps.unlink()
    lines = folder.final.metrics.read_text().splitlines(keepends=True)
    folder.final.metrics.chmod(0o644)
    folder.final.metrics.write_text("".join(lines[4:]))
    assert "no number of its first 3 steps was recorded; --steps 5 reaches the first that was" in refusal(
        capsys, "finetune"
    )
    assert carry.main(["finetune", "--steps", "6"]) == 0
    certificate = read_json(at(cell("finetune")).folder.final.certificate)
    assert certificate["details"]["steps"] == [5, 6] and not certificate["details"]["hashes"]
    assert (certificate["modules"], certificate["inputs"]) == (
        "not recorded",
        "data equal; the backbone was not recorded",
    )


def test_other_parameters_or_inputs_have_nothing_to_carry(here, capsys):
    """No trial is made."""
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("lr: 1.0e-3", "lr: 1.0e-4"))
    assert carry.main(["finetune"]) == 0
    assert "nothing  finetune-tiny-scenes-0: no finished run with equal parameters" in capsys.readouterr().out
    Path("params.yaml").write_text(text)
    manifest = Path("data/scenes/manifest.json")
    manifest.write_text(manifest.read_text() + "\n")
    assert carry.main(["finetune"]) == 0
    assert "1 with nothing to carry" in capsys.readouterr().out


def test_every_seed_is_tried_by_itself(here, capsys):
    """A seed that has no run of its own is not carried by another one's."""
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("seeds: [0]", "seeds: [0, 1]"))
    assert carry.main(["finetune"]) == 0
    assert "2 cells: 1 carried, 0 part, 0 failed, 1 with nothing to carry" in capsys.readouterr().out


def test_a_gpu_s_numbers_agree_within_a_tolerance(here, capsys, monkeypatch):
    """Hashes are not compared then; numbers farther apart are refused."""
    seeded_edits.OTHER_NUMBERS["loss"][1](monkeypatch)
    monkeypatch.setattr(carry, "_describe_machine", lambda tolerance: carry.Machine(facts, tolerance))
    facts = old_folder(here, cell("finetune")).final.facts()
    assert "step 1, clip" in refusal(capsys, "finetune", "--tolerance", "1e-8")
    assert carry.main(["finetune", "--tolerance", "1e-3"]) == 0
    assert "equal within 0.001" in read_json(at(cell("finetune")).folder.final.certificate)["compared"]


@pytest.mark.parametrize(
    ("key", "value", "words"), [("device", "H100", "was trained on H100"), ("processes", 8, "by 8 ")]
)
def test_what_cannot_be_compared(here, capsys, key, value, words):
    """Runs of other devices, or of several processes."""
    environment = old_folder(here, cell("finetune")).final.environment
    environment.chmod(0o644)
    environment.write_text(environment.read_text().replace(f'"{key}": ', f'"{key}": "{value}", "then": '))
    assert words in refusal(capsys, "finetune")


def test_killed_before_the_last_rename_leaves_no_finished_run(here):
    """What is there is no run for anybody; the same command enters it."""

    def carry_and_die() -> None:
        os.replace = lambda *_: os._exit(9) if _[1].name == "final" else REPLACE(*_)
        carry.main(["finetune"])

    assert tiny_project.forked(carry_and_die) == 9
    stored = at(cell("finetune"))
    assert not stored.folder.finished and inventory.inspect_run(stored.folder).state == inventory.EMPTY
    assert carry.main(["finetune"]) == 0
    assert stored.folder.finished and stored.folder.final.certificate.is_file()


def test_a_training_under_way_keeps_its_key(here, capsys):
    """Whoever works on the new key is not disturbed."""
    with lock.hold(at(cell("finetune")).folder):
        assert carry.main(["finetune"]) == 1
    assert "wait for it, or stop it first" in capsys.readouterr().err


def test_a_method_that_is_not_in_the_grid(here):
    """With the nearest name."""
    with pytest.raises(UserError, match="unknown method 'finetun'; did you mean 'finetune'"):
        carry.main(["finetun"])


def test_entries_are_written_into_the_own_key_alone(here):
    """In a shared store, the folder of a run that others made is read, never written."""
    folder = old_folder(here, cell("negclip"))
    stamps = {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}
    assert carry.main(["negclip"]) == 0
    assert {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")} == stamps


@pytest.fixture
def proof(here, tmp_path, monkeypatch) -> Path:
    """A release's proof that the code which trained the grid equals the edited code."""
    path = tmp_path / "equal_code.json"
    log = {"commit": "c", "code": TRAINED_BY, "carried_by": {name: f"edited {name}" for name in METHODS}}
    rows = [log | {"outcomes": dict.fromkeys(METHODS, ["carried", "the finished weights: equal bits"])}]
    write_json(path, {"compared": "", "methods": {}})
    monkeypatch.setattr(release_proof, "PROOF", path)
    (tmp_path / "log").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert write_proof.main([str(tmp_path / "log")]) == 0
    return path


def test_what_a_release_has_proven_is_taken_over_without_a_trial(here, proof, capsys, monkeypatch):
    """An upgrade trains nothing and tries nothing; code.json is not needed. The certificate names the release."""
    monkeypatch.setattr(trial_steps, "run_trial", None)
    monkeypatch.setattr(driver, "train_runs", None)
    old = old_folder(here, cell("finetune"))
    old.code.unlink()
    tiny_project.plan()
    assert train_command.main(["--method", "finetune"]) == 0
    assert f"taken over: {cell('finetune')} from {old.key}" in capsys.readouterr().err
    final = at(cell("finetune")).folder.final
    certificate = read_json(final.certificate)
    assert certificate["release"] == f"compclip {metadata.version('compclip')}"
    assert certificate["code"] == {"from": TRAINED_BY["finetune"], "to": "edited finetune"}
    assert certificate["compared"].startswith(
        f"nothing here; {certificate['release']} found the code equal on all steps"
    )
    assert carry.main([]) == 0
    assert "3 cells: 2 carried, 0 part, 0 failed, 0 with nothing to carry, 1 with a run\n" in capsys.readouterr().out


def test_a_run_under_way_does_not_hold_the_proven_ones_up(here, proof, capsys):
    """Its worker is noted, and the next run is entered."""
    with lock.hold(at(cell("finetune")).folder):
        release_proof.take_over([at(cell("finetune")), at(cell("negclip"))], here)
    assert "wait for it, or stop it first" in capsys.readouterr().err
    assert at(cell("negclip")).finished and not at(cell("finetune")).finished


def test_steps_asks_for_a_trial_all_the_same(here, proof):
    """The certificate says what was compared here."""
    assert carry.main(["finetune", "--steps", "2"]) == 0
    assert read_json(at(cell("finetune")).folder.final.certificate)["compared"].startswith("steps 1, 2 of 8")


@pytest.mark.parametrize(
    ("old", "new"),
    [("warmup_steps: 2", "warmup_steps: 2, text_groups: 2"), ("negclip: {", "negclip: {caption: first, ")],
)
def test_a_release_s_proof_ends_where_options_begin(trained, proof, old, new):
    """Options that it was not tried with, of training or of the method, whatever the key says."""
    text = Path("params.yaml").read_text()
    assert release_proof.is_covered(at(cell("negclip")))
    Path("params.yaml").write_text(text.replace(old, new))
    assert not release_proof.is_covered(at(cell("negclip")))


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("text_cfg", {"hf_model_name": "xlm"}),
        ("vision_cfg", {"layers": [1, 1]}),
        ("vision_cfg", {"timm_model_name": "vit"}),
    ],
)
def test_a_release_s_proof_covers_plain_transformers_alone(here, proof, section, values):
    """Towers that the tiny project does not have are tried."""
    path = Path("models/tiny/open_clip_config.json")
    config = read_json(path)
    config["model_cfg"][section] |= values
    path.write_text(json.dumps(config))
    assert not release_proof.is_covered(at(cell("negclip")))


def test_other_code_than_a_release_s_is_not_covered(here, proof, monkeypatch):
    """Neither that of now, nor that which trained the run."""
    codes = release_proof.read_equal_code("finetune")
    assert codes == {TRAINED_BY["finetune"]}
    run = next(key_parts.list_recorded(here, "finetune"))
    current = key_parts.describe_key(at(cell("finetune")).run, here)
    assert release_proof.find_code(run, current, codes) == TRAINED_BY["finetune"]
    assert not release_proof.find_code(run, current, {"another"})
    edit_code(monkeypatch, "edited twice")
    assert not release_proof.read_equal_code("finetune")


def test_the_file_that_is_shipped():
    """Hashes, each in one class of its method; methods that exist."""
    for method, classes in read_json(release_proof.PROOF)["methods"].items():
        hashes = [code for members in classes for code in members]
        assert load_method(method).TRAINS and len(set(hashes)) == len(hashes)
        assert all(len(code) == 64 and int(code, 16) for code in hashes)


def test_classes_that_share_code_become_one():
    """A release adds to what earlier ones had proven."""
    assert write_proof.join_classes([["a", "b"], ["c", "d"], ["b", "c"], ["e", "f"]]) == [list("abcd"), ["e", "f"]]
    rows = [{"outcomes": {"m": ["carried", "steps 1 to 3: equal bits; no later step"]}, "code": {"m": "a"}}]
    assert not write_proof.list_pairs(rows), "three steps are no proof of the rest"


def test_older_commits_projects_can_be_cut_to_some_methods():
    """perf/carried_commits.py replaces these words in tests/tiny_project.py, of this commit too."""
    assert all(tiny_project.PARAMS.count(words) == 1 for words in older_commit.OF_ALL_COMMITS)
