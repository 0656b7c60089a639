"""Every command of compclip: `python -m compclip` lists them, `python -m compclip COMMAND` runs one."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata

from compclip.base.errors import entry, unknown

# Command, the module whose `main` it is, and what it is for; in the order of a day's work.
DAILY = {
    "init": ("compclip.config.project_files", "begin a project in a folder, or bring one up to an upgraded package"),
    "config": (
        "compclip.config.__main__",
        "check params.yaml, show a cell, what a grid costs and decides, switch to another, write an ablation",
    ),
    "list": ("compclip.config.listing", "what a grid may name: methods, benchmarks, captioners … and their parameters"),
    "fetch": ("compclip.fetch.__main__", "bring public benchmarks, captions and weights to where the grids look"),
    "train": ("compclip.train.__main__", "train the stale runs of a method, or one cell"),
    "evaluate": ("compclip.evaluate.__main__", "score the runs of a method, or any checkpoint on any benchmarks"),
    "compare": ("compclip.evaluate.compare", "compare results with somebody else's numbers, metric by metric"),
    "vqascore": ("compclip.evaluate.vqascore", "score a generative model, or an endpoint, by VQAScore"),
    "blind": ("compclip.evaluate.blind_rows", "score benchmarks without their pictures: length, frequency, word pairs"),
    "wise_ft": ("compclip.evaluate.wise_ft", "score the models between pretrained and tuned weights, or write one"),
    "attention": ("compclip.evaluate.attention", "draw where a text looks in a picture, before and after fine-tuning"),
    "audit": ("compclip.audit.__main__", "audit training texts: what rules make of captions, and who sees it blind"),
    "items": (
        "compclip.items.__main__",
        "show where two rows differ on a benchmark: words, edits, lengths, items",
    ),
    "report": ("compclip.report.__main__", "compare all cells of the grid: page, tables, claims"),
    "field": ("compclip.field.__main__", "all published numbers: trade-off, conflicts, which findings come back"),
    "track": ("compclip.track.__main__", "bring MLflow up to date with the run files"),
    "dashboard": ("compclip.track.dashboard", "open the MLflow UI over all runs"),
    "launch": (
        "compclip.launch.__main__",
        "send stale runs, or missing shards, to this machine's cores or a SLURM cluster",
    ),
    "runs": ("compclip.runs.__main__", "the runs of the store: list, keep, remove, collect what nobody uses"),
    "status": ("compclip.runs.status", "one row a run: state, step, loss, time left, job, last error"),
    "why": ("compclip.runs.key_parts", "say why a cell would be trained again, and what that costs"),
    "tune": ("compclip.sweep.tune_stage", "choose each method's parameters on validation items, before training"),
    "sweep": ("compclip.sweep.__main__", "search a method's parameters with a declared study"),
    "doctor": ("compclip.doctor.__main__", "say what is missing here; `--gpu`: how its GPUs compute, resume and hurry"),
    "publish": (
        "compclip.publish.__main__",
        "write a run in the formats of open_clip, transformers and diffusers with a model card; `hf:` uploads it",
    ),
    "completion": ("compclip.completion", "print the script that completes commands in bash, zsh or tcsh"),
}
# What `make` and `dvc repro` run before the first cell is trained; in the order of the stages.
STAGES = {
    "wordnet": ("compclip.text.wordnet", "find, fetch or copy WordNet"),
    "scenes": ("compclip.scenes.__main__", "make the embedded world, its pictures, captions and benchmarks"),
    "prepare": ("compclip.launch.shard_jobs", "read and caption a data set, have it rewritten, annotate it"),
    "backbone": ("compclip.model.__main__", "get a pretrained model"),
    "neighbours": ("compclip.train.neighbours", "find each picture's nearest ones, where a method shows them"),
    "keys": ("compclip.runs.keys", "write the run key of every cell"),
}
COMMANDS = DAILY | STAGES
# Words of a command whose module stands further to the right than the command's own.
FURTHER = {
    ("config", "cost"): "compclip.launch.cost_table",
    ("config", "power"): "compclip.evaluate.power_table",
}


def listing() -> str:
    """All commands, a line each."""
    return "\n".join(
        [
            "compclip COMMAND [--help]      -v: details and the libraries' messages; -q: no notes or warnings",
            *_lines(DAILY),
            "The whole grid: dvc repro, which also runs",
            *_lines(STAGES),
        ]
    )


def _lines(commands: dict[str, tuple[str, str]]) -> list[str]:
    wide = max(map(len, COMMANDS))
    return [f"  {name:<{wide}}  {what}" for name, (_, what) in commands.items()]


def main(argv: list[str]) -> int:
    """Run a command with the rest of the arguments; without one, list them; `--version` prints the package's."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(listing())
        return 0
    if argv[0] == "--version":
        print(f"compclip {metadata.version('compclip')}")
        return 0
    if tuple(argv[:2]) in FURTHER:
        return importlib.import_module(FURTHER[tuple(argv[:2])]).main(argv[2:])
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS)
    return importlib.import_module(COMMANDS[argv[0]][0]).main(argv[1:])


def script() -> int:
    """The installed command `compclip`."""
    return entry(main)


if __name__ == "__main__":
    sys.exit(script())
