"""Which runs of the grid are to be made, and what they need first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compclip import config, jobs
from compclip.errors import UserError
from compclip.files import read_json
from compclip.publish import Publisher
from compclip.sections import Params


def prepare(params: Params, root: Path) -> None:
    """Bring the stages before training up to date, where DVC has the project. Raises UserError where one fails."""
    if not (root / "dvc.yaml").is_file() or not (root / ".dvc").is_dir():
        return
    targets = [*(f"annotate@{d}" for d in params.grid.data), *(f"backbone@{b}" for b in params.grid.backbones)]
    done = subprocess.run([sys.executable, "-m", "dvc", "repro", "--quiet", *targets], cwd=root)
    if done.returncode:
        raise UserError(f"dvc repro {' '.join(targets)}: failed, see above; nothing was sent")


def runs(params: Params, root: Path) -> dict[str, Publisher]:
    """The runs of all cells by run key; cells with equal keys share one."""
    made = (Publisher.of_run(config.resolve(params, cell), root) for cell in config.cells(params))
    return {publisher.key: publisher for publisher in made}


def stale(publisher: Publisher, root: Path) -> bool:
    """Whether a run lacks its training or results, both in .work and among the published files."""
    if publisher.finished() and jobs.scored(publisher.key, root):
        return False
    facts = publisher.target / "environment.json"
    published = facts.is_file() and read_json(facts).get("run_key") == publisher.key
    return not (published and (publisher.target / "results" / "summary.json").is_file())
