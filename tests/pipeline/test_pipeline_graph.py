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


@pytest.mark.parametrize("grid", GRIDS, ids=lambda path: path.stem)
def test_a_grid_makes_the_world_where_it_has_a_part_in_it(repository, grid):
    """And then before its files are listed."""
    params = read.load_params(grid)
    used = any(WORLD in value for section in params.data.values() for value in (section.path, section.images))
    stages = needed(repository, grid)
    assert ("scenes" in stages["report"] | stages["track"]) == used
    assert ("scenes" in stages["look"]) == used


def test_data_of_the_world_needs_a_benchmark_of_it(tmp_path):
    """By which DVC knows that the world is to be made: the files of data sets are no dependency of any stage."""
    shutil.copytree(ROOT / "experiments" / "grids", tmp_path, dirs_exist_ok=True)
    grid = tmp_path / "grid.yaml"
    grid.write_text("base: c2lip_checkpoints\n")  # whose `world` it does not name
    with pytest.raises(
        UserError, match=r"data.scenes: lies in data/scenes_world, .*add benchmarks.world: \{benchmark: "
    ):
        read.load_params(grid, together=True)
