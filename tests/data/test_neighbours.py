"""The nearest pictures: against all pairs, in blocks, through the stage, and in the runs of a method that shows them.

N pictures, D joint dim.
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.files import read_sealed, write_sealed
from compclip.config import grid, read
from compclip.data.prepared_dataset import PreparedDataset, map_neighbours
from compclip.interface.method import load_method
from compclip.interface.views import STORED_NEIGHBOURS
from compclip.methods import negclip
from compclip.model import backbone
from compclip.runs.run_folder import Inputs
from compclip.train import distributed, fine_tuning, neighbours, recorder
from tests import small_training, tiny_project
from tests.tiny_project import at

HARD = tiny_project.PARAMS.replace("[pretrained, finetune, fsc_clip]", "[negclip.hard]").replace(
    "{pretrained: {}, finetune: {}, fsc_clip: {}}", "{negclip: {variants: {hard: {hard_images: 1}}}, finetune: {}}"
)
CELL = "negclip.hard-tiny-scenes-0"
NPY = Path("data/neighbours/scenes/tiny.npy")


def vectors(folder: Path, vector_ND: np.ndarray, there_N: np.ndarray | None = None) -> neighbours.VectorFile:
    file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 (open as long as the vectors are)
    file.write(vector_ND.astype(np.float32).tobytes())
    file.flush()
    is_there_N = np.ones(len(vector_ND), bool) if there_N is None else there_N
    return neighbours.VectorFile(file, vector_ND.shape[1], torch.from_numpy(is_there_N))


def of_all_pairs(vector_ND: np.ndarray, there_N: np.ndarray, count: int) -> np.ndarray:
    """The slow reference: every cosine, sorted."""
    score_NN = vector_ND.astype(np.float64) @ vector_ND.astype(np.float64).T
    score_NN[:, ~there_N] = -np.inf
    np.fill_diagonal(score_NN, -np.inf)
    return np.argsort(-score_NN, axis=1)[:, :count]


@given(*[st.integers(*bounds) for bounds in ((3, 40), (1, 9), (1, 9), (0, 5000), (1, 9), (0, 99))])
def test_blocks_of_any_size_find_what_all_pairs_have(tmp_path_factory, size, rows, columns, held_bytes, count, seed):
    rng = np.random.default_rng(seed)
    vector_ND = rng.normal(size=(size, 16))
    vector_ND /= np.linalg.norm(vector_ND, axis=1, keepdims=True)
    is_there_N = rng.random(size) < 0.8
    is_there_N[:2] = True
    count = min(count, int(is_there_N.sum()) - 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "ROWS", rows)
        patch.setattr(neighbours, "COLUMNS", columns)
        patch.setattr(neighbours, "HELD_BYTES", held_bytes)
        neighbours_NK = neighbours.find_nearest(vectors(tmp_path_factory.getbasetemp(), vector_ND, is_there_N), count)
    assert np.array_equal(neighbours_NK, of_all_pairs(vector_ND, is_there_N, count))


def test_the_file_is_read_once_for_each_group_of_held_vectors(tmp_path, monkeypatch):
    """Twenty blocks of rows, held together, in two groups, or one by one (beside all columns then)."""
    vector_ND = np.random.default_rng(0).normal(size=(2000, 16))
    vector_ND /= np.linalg.norm(vector_ND, axis=1, keepdims=True)
    file, bytes_read, read_file = vectors(tmp_path, vector_ND), [], os.pread
    monkeypatch.setattr(neighbours, "ROWS", 100)
    monkeypatch.setattr(neighbours, "COLUMNS", 500)
    monkeypatch.setattr(os, "pread", lambda *args: bytes_read.append(args[1]) or read_file(*args))
    results_NK = []
    for passes, held_bytes in ((1, neighbours.HELD_BYTES), (2, 2000 * 16 * 2), (21, 1)):
        monkeypatch.setattr(neighbours, "HELD_BYTES", held_bytes)
        bytes_read.clear()
        results_NK.append(neighbours.find_nearest(file, 10))
        assert sum(bytes_read) == passes * 2000 * 16 * 4
    assert np.array_equal(results_NK[0], results_NK[1]) and np.array_equal(results_NK[0], results_NK[2])


@pytest.fixture(scope="module")
def hard(project, tmp_path_factory):
    """A project whose grid shows neighbours, up to its keys."""
    root = tiny_project.other(project, tmp_path_factory.mktemp("hard") / "project", 6, HARD)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        tiny_project.config_command.main(["plan"])
        assert neighbours.main([]) == 0
        tiny_project.plan()
    return root


@pytest.fixture
def here(hard, tmp_path, monkeypatch):
    """A copy of it, as the current folder."""
    root = shutil.copytree(hard, tmp_path / "project")
    monkeypatch.chdir(root)
    return root


def test_the_stage_finds_what_the_backbone_says(here):
    """Of 40 pictures the ten whose cosines are largest, by embeddings made one by one."""
    data, model = PreparedDataset(Path("data/scenes")), backbone.load("models/tiny")
    with torch.inference_mode():
        vector_ND = torch.cat([
            model.clip.encode_image(model.pixels([neighbours.images.load_image(data.sample(i).picture)]), normalize=True)
            for i in range(len(data))
        ]).double().numpy()  # fmt: skip
    neighbours_NK = map_neighbours(NPY)
    score_NN = vector_ND @ vector_ND.T
    expected = of_all_pairs(vector_ND, np.ones(len(data), bool), STORED_NEIGHBOURS)
    assert neighbours_NK.shape == (len(data), 10)
    actual_NK, expected_NK = (np.take_along_axis(score_NN, k.astype(int), 1) for k in (neighbours_NK, expected))
    np.testing.assert_allclose(actual_NK, expected_NK, atol=1e-5)
    record = json.loads(Path("data/neighbours/made.json").read_text())["scenes/tiny"]
    assert (record["samples"], record["unreadable"]) == (len(data), 0)


def test_what_is_there_stays_until_its_data_or_backbone_change(here, capsys):
    written_at = NPY.stat().st_mtime_ns
    assert neighbours.main([]) == 0 and NPY.stat().st_mtime_ns == written_at
    assert capsys.readouterr().out == "nothing made\n"
    assert neighbours.main(["--data", "scenes", "--backbone", "tiny"]) == 0 and NPY.stat().st_mtime_ns == written_at
    fingerprints = Path("data/fingerprints/scenes.json")
    record = read_sealed(fingerprints, "")
    write_sealed(fingerprints, record | {"columns": record["columns"] | {"tokens": "mended"}})
    assert neighbours.main([]) == 0 and NPY.stat().st_mtime_ns == written_at, "of pictures alone"
    write_sealed(fingerprints, record | {"columns": record["columns"] | {"pictures": "others"}})
    with pytest.raises(UserError, match="tiny.npy: not there, or of other data; run `compclip repro neighbours`"):
        at(CELL)
    assert neighbours.main([]) == 0 and NPY.stat().st_mtime_ns != written_at
    assert at(CELL).key


def test_pictures_that_cannot_be_read_are_counted_and_near_to_nobody(here, capsys):
    data = PreparedDataset(Path("data/scenes"))
    for index in (3, 5):
        Path(data.sample(index).image).write_bytes(b"no picture")
    shutil.rmtree("data/neighbours")
    assert neighbours.main([]) == 0
    assert json.loads(Path("data/neighbours/made.json").read_text())["scenes/tiny"]["unreadable"] == 2
    assert not np.isin(map_neighbours(NPY), (3, 5)).any()
    for index in range(1, len(data)):
        Path(data.sample(index).image).write_bytes(b"no picture")
    shutil.rmtree("data/neighbours")
    with pytest.raises(UserError, match="1 of 40 pictures can be read: none has a neighbour"):
        neighbours.main([])
    assert not NPY.exists()


def test_the_neighbours_are_in_the_key_of_the_methods_that_ask(here):
    """Others' keys know nothing of them."""
    off = "methods.negclip.variants.hard.hard_images=0"
    plain, with_neighbours = at(CELL, off).key, at(CELL).key
    near_NK = np.load(NPY)
    np.save(NPY, near_NK[:, ::-1])
    assert at(CELL).key != with_neighbours
    NPY.unlink()
    assert at(CELL, off).key == plain
    with pytest.raises(UserError, match="compclip stage neighbours --data scenes --backbone tiny"):
        at(CELL)


def test_two_processes_share_the_rows_of_one(here):
    """Each makes its own samples' neighbours; in what order rows stand changes nothing of the loss."""
    run = grid.resolve(read.load_params("params.yaml", []), CELL)
    views, model = negclip.views(run.method, 0), backbone.load("models/tiny")
    texts_by_process = []
    for rank, world in ((0, 1), (0, 2), (1, 2)):
        process = distributed.Process(rank, world)
        rows = fine_tuning.build_sampler(run, load_method(run.method_name), model, Inputs(here, run.cell), process)
        texts_by_process.append([(view.caption, view.negatives) for view in rows.batch(3, views)[0]])
    alone, first, second = texts_by_process
    assert [len(alone), len(first), len(second)] == [16, 8, 8]
    assert sorted(alone, key=str) == sorted([*first, *second], key=str)


def test_a_run_that_was_stopped_ends_with_the_same_bits(here, tmp_path):
    uninterrupted = small_training.train(here, "negclip.hard", tmp_path / "whole")
    with pytest.raises(small_training.Killed):
        small_training.train(here, "negclip.hard", tmp_path / "cut", small_training.kill_at(3))
    again = small_training.train(here, "negclip.hard", tmp_path / "cut")
    off = "methods.negclip.variants.hard.hard_images=0"
    without_neighbours = small_training.train(here, "negclip.hard", tmp_path / "other", recorder.do_nothing, off)
    state = [m.clip.state_dict() for m in (uninterrupted, again, without_neighbours)]
    assert all(torch.equal(state[0][name], state[1][name]) for name in state[0])
    assert any(not torch.equal(state[0][name], state[2][name]) for name in state[0])
