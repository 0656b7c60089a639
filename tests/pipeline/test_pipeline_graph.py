"""The graph that DVC makes of dvc.yaml and each grid: who waits for the embedded world."""

import shutil

import networkx
import pytest
from dvc.repo import Repo

from compclip.base.errors import UserError
from compclip.config import read
from tests.conftest import ROOT

WORLD = "data/scenes_world"
GRIDS = sorted(ROOT.glob("experiments/grids/*.yaml")) + [ROOT / "params.yaml"]


@pytest.fixture
def repository(tmp_path):
    Repo.init(str(tmp_path), no_scm=True).close()
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    return tmp_path


def needed(repository, grid):
    """By target, the names of the stages that `dvc repro` of it would look at."""
    (repository / "params.yaml").write_text(read.write_out(grid))
    with Repo(str(repository)) as repo:
        graph = repo.index.graph
        return {
            stage.name: {s.name for s in networkx.descendants(graph, stage)}
            for stage in graph
            if stage.name in ("report", "track", "look")
        }


def find_places(params) -> tuple[bool, tuple[str, ...]]:
    """Whether data lie in the world, and what of it benchmarks read: grids with the same places have the same edges."""
    sections = params.benchmarks.values()
    places = {place for section in sections for place in (section.path, section.images) if WORLD in place}
    has_data = any(WORLD in place for section in params.data.values() for place in (section.path, section.images))
    return has_data, tuple(sorted(places))


def test_a_grid_makes_the_world_where_it_has_a_part_in_it(repository):
    """And then before its files are listed: of all grids, one of each kind of places in the world."""
    grids = {find_places(read.load_params(grid)): grid for grid in GRIDS}
    assert {has_data for has_data, _ in grids} == {True, False}
    for (has_data, _), grid in grids.items():
        stages = needed(repository, grid)
        assert ("scenes" in stages["report"] | stages["track"]) == has_data, grid
        assert ("scenes" in stages["look"]) == has_data, grid


def test_data_of_the_world_needs_a_benchmark_of_it(tmp_path):
    """By which DVC knows that the world is to be made: the files of data sets are no dependency of any stage."""
    shutil.copytree(ROOT / "experiments" / "grids", tmp_path, dirs_exist_ok=True)
    grid = tmp_path / "grid.yaml"
    grid.write_text("base: c2lip_checkpoints\n")  # whose `world` it does not name
    with pytest.raises(
        UserError, match=r"data.scenes: lies in data/scenes_world, .*add benchmarks.world: \{benchmark: "
    ):
        read.load_params(grid, together=True)
