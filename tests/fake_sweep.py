"""A sweep without training, for tests: a run's score is a formula of its values, written by a process of its own.

`python tests/fake_sweep.py [-j N] [--storage URL]` in a folder that `make` filled drives it; a process that dies leaves
its jobs alone, as the real ones do. Each start of a job is a line in starts.txt.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compclip.base.files import write_atomic
from compclip.config.grid import Run
from compclip.config.sections import Params
from compclip.evaluate import result_store
from compclip.runs.run_folder import RunFolder
from compclip.runs.run_store import StoredRun
from tests import fake_store

PARAMS = """
grid: {methods: [pretrained, fsc_clip], backbones: [tiny], data: [scenes], seeds: [0]}
train: {max_steps: 2, batch_size: 8, threads: 1}
methods: {pretrained: {}, fsc_clip: {}, hard_positives: {}}
backbones: {tiny: {model: tiny.json}}
data: {scenes: {source: karpathy, path: train.json, images: train, captioner: scenes}}
benchmarks: {sugarcrepe: {path: s, images: t}, retrieval: {path: r, images: t}}
evaluate: {benchmarks: [sugarcrepe, retrieval]}
"""
STUDY = """
method: fsc_clip
backbone: tiny
data: scenes
space:
  gamma: {float: [0, 5]}
  lambda_global: {float: [0.01, 10], log: true}
  attention: {categorical: [minmax, softmax]}
  lambda_local: {float: [0, 1], when: {attention: [minmax]}}
paper: [{gamma: 2.0, lambda_global: 0.5, attention: minmax, lambda_local: 0.2}]
objectives: [sugarcrepe/swap]
trials: 24
"""
JOB = """
import json, os, sys
folder, metrics = sys.argv[1], json.loads(sys.argv[2])
with open("starts.txt", "a") as file:
    file.write(os.path.basename(folder) + "\\n")
os.makedirs(os.path.join(folder, "scores", "formula"), exist_ok=True)
for name, values in metrics.items():
    with open(os.path.join(folder, "scores", "formula", name + ".json"), "w") as file:
        json.dump({"benchmark": name, "kind": "composition", "metrics": values, "lower": [], "scores": [],
                   "headline": []}, file)
with open(os.path.join(folder, "scored.tmp"), "w") as file:
    json.dump({"identity": "formula"}, file)
os.replace(os.path.join(folder, "scored.tmp"), os.path.join(folder, "scored.json"))
"""


def make(root: Path) -> Path:
    """Parameters, the study `s`, and files in the places of data and backbone, which run keys are made of."""
    for name, text in (("params.yaml", PARAMS), ("experiments/studies/s.yaml", STUDY), ("models/tiny/weights", "w")):
        write_atomic(root / name, text)
    for name in ("tiny.json", "train.json", "train", "s", "r", "t"):  # read by no one, and asked for
        (root / name).touch()
    fake_store.write_data(root)
    return root


def scored(params: Params, stored: StoredRun) -> bool:
    """Whether a job's last file is there."""
    return stored.folder.scored.is_file()


def leave(folder: RunFolder, documents: Mapping[str, dict]) -> None:
    scores_folder = folder.scores("formula")
    fields = {"kind": "composition", "lower": [], "scores": [], "headline": []}
    documents = {name: {"benchmark": name, **fields, **document} for name, document in documents.items()}
    result_store.write_documents(documents, scores_folder)
    result_store.mark_scored(folder, scores_folder)


def metrics(run: Run) -> dict[str, dict[str, float]]:
    """The formula."""
    cfg = run.method
    if run.method_name == "pretrained":
        return {"sugarcrepe": {"swap": 0.5}, "retrieval": {"i2t": 0.9}}
    swap = 0.7 - 0.01 * (cfg.gamma - 1) ** 2 - 0.02 * abs(cfg.lambda_global - 1) - 0.05 * (cfg.attention == "softmax")
    return {
        "sugarcrepe": {"swap": swap + 0.01 * cfg.lambda_local},
        "retrieval": {"i2t": 0.9 - 0.02 * cfg.lambda_global},
    }


@dataclass
class Job:
    folder: RunFolder
    pid: int
    cancelled: bool = False
    waits_by = ""  # nothing

    def label(self) -> str:
        return f"process {self.pid}"

    def state(self) -> str:
        """done when its last file is there; the process, which writes it before it ends, is asked first."""
        running = alive(self.pid)
        if self.folder.scored.is_file():
            return "done"
        return "running" if running else "failed"

    def reason(self) -> str:
        return "gone"

    def cancel(self) -> None:
        self.cancelled = True


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Processes:
    """Every job a process that outlives this one."""

    def submit(self, stored: StoredRun, params: str | Path) -> Job:
        folder = stored.folder
        folder.path.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-S", "-c", JOB, str(folder.path), json.dumps(metrics(stored.run))]
        pid = subprocess.Popen(command, start_new_session=True).pid
        (folder.path / "pid").write_text(str(pid))
        return Job(folder, pid)

    def attach(self, stored: StoredRun) -> Job | None:
        """A job whose process is there."""
        path = stored.folder.path / "pid"
        pid = int(path.read_text() or 0) if path.is_file() else 0
        return Job(stored.folder, pid) if pid and alive(pid) else None


def main(argv: list[str]) -> int:
    """The real command with these jobs; nothing is evaluated, and MLflow is left alone."""
    from compclip.sweep import __main__ as sweep_command

    sweep_command.base_key, sweep_command.make_sender = lambda study, params: "base", lambda profile: Processes()
    sweep_command.StudyDriver = functools.partial(sweep_command.StudyDriver, scored=scored)
    sweep_command.record_in_mlflow = lambda name, params: None
    return sweep_command.main(argv)


if __name__ == "__main__":
    from compclip.base.errors import entry

    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(entry(main))
