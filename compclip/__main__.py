"""Every command of compclip: `compclip` lists them by what one wants to do, `compclip COMMAND` runs one."""

from __future__ import annotations

import importlib
import os
import sys

from compclip.base import messages
from compclip.base.errors import entry, unknown

Commands = dict[str, tuple[str, str]]  # by name: the module whose `main` it is, and what it is for
GROUPS: dict[str, Commands] = {
    "begin": {
        "init": ("compclip.begin.__main__", "begin a project, with your data in it, or bring one up to date"),
        "config": ("compclip.config.__main__", "check, show and switch the grid; what it costs and can decide"),
        "list": ("compclip.config.listing", "what a grid may name: methods, benchmarks, captioners, sources"),
        "fetch": ("compclip.fetch.__main__", "bring public benchmarks, captions and weights to where grids look"),
        "doctor": ("compclip.doctor.__main__", "what is missing here; `--gpu`: how its GPUs compute"),
    },
    "run": {
        "repro": ("compclip.launch.repro", "bring the whole grid up to date; `--on PROFILE`: on a cluster"),
        "train": ("compclip.train.__main__", "train the stale runs of a method, or one cell"),
        "evaluate": ("compclip.evaluate.__main__", "score the runs of a method, or any checkpoint"),
        "sweep": ("compclip.sweep.__main__", "search a method's parameters with a declared study"),
        "launch": ("compclip.launch.__main__", "stop the grid's jobs, or send the shards that a stage lacks"),
        "status": ("compclip.runs.status", "one row a run: state, step, loss, time left, job, last error"),
    },
    "look": {
        "report": ("compclip.report.__main__", "compare all cells of the grid: page, tables, claims"),
        "field": ("compclip.field.__main__", "all published numbers: trade-off, conflicts, which findings come back"),
        "items": ("compclip.items.__main__", "where two rows differ on a benchmark: words, edits, items"),
        "audit": ("compclip.audit.rule_audit", "what rules make of captions, and how much gives them away"),
        "track": ("compclip.track.__main__", "bring MLflow up to date with the run files"),
        "dashboard": ("compclip.track.dashboard", "open MLflow over all runs"),
    },
    "share": {
        "publish": ("compclip.publish.__main__", "write a run for open_clip, transformers and diffusers, with a card"),
    },
    "keep": {
        "runs": ("compclip.runs.__main__", "the runs of the store: list, keep, remove, collect what nobody uses"),
    },
}
COMMANDS: Commands = {name: command for group in GROUPS.values() for name, command in group.items()}
# Commands of two words. The stages are what `compclip repro` runs before the first cell is trained.
BELOW: Commands = {
    "config check": ("compclip.launch.grid_check", "is params.yaml valid, and is all there that its grid reads?"),
    "config cost": ("compclip.launch.cost_table", "memory, time and money of each run on a card"),
    "config power": ("compclip.evaluate.power_table", "the least difference that so many seeds and items decide"),
    "evaluate compare": ("compclip.evaluate.compare", "results against somebody else's numbers, metric by metric"),
    "evaluate blind": ("compclip.evaluate.blind_rows", "benchmarks without their pictures: length, words, word pairs"),
    "evaluate vqascore": ("compclip.evaluate.vqascore", "a generative model by VQAScore"),
    "evaluate wise_ft": ("compclip.evaluate.wise_ft", "the models between pretrained and tuned weights, or write one"),
    "sweep tune": ("compclip.sweep.tune_stage", "choose each method's parameters on validation items"),
    "runs why": ("compclip.runs.key_parts", "why a cell would be trained again, and what that costs"),
    "stage wordnet": ("compclip.text.wordnet", "find, fetch or copy WordNet"),
    "stage scenes": ("compclip.scenes.__main__", "draw the embedded world, its captions and benchmarks"),
    "stage prepare": ("compclip.launch.shard_jobs", "read and caption a data set, have it rewritten, annotate it"),
    "stage backbone": ("compclip.model.__main__", "get a pretrained model"),
    "stage neighbours": ("compclip.train.neighbours", "find each picture's nearest ones"),
    "stage keys": ("compclip.runs.keys", "write the run key of every cell"),
}
# What commands of two words were called before.
FORMER = {name.partition(" ")[2]: name for name in BELOW if not name.startswith("config ")}


def listing() -> str:
    """The commands by what one wants to do, a line each, and the names of those of two words."""
    lines = ["compclip COMMAND [--help]      -v: details; -q: no notes or warnings", ""]
    for group, group_commands in GROUPS.items():
        lines += [group, *_format_lines(group_commands)]
    lines += ["", "of two words:"]
    second_words: dict[str, list[str]] = {}
    for name in BELOW:
        first, _, second = name.partition(" ")
        second_words.setdefault(first, []).append(second)
    lines += [f"compclip {first} {' | '.join(words)}" for first, words in second_words.items()]
    return "\n".join(lines)


def list_stages() -> str:
    """The stages, a line each."""
    return "\n".join(_format_lines({name: BELOW[name] for name in BELOW if name.startswith("stage ")}))


def _format_lines(commands: Commands) -> list[str]:
    width = max(map(len, commands))
    return [f"  {name:<{max(width, 10)}}  {summary}" for name, (_, summary) in commands.items()]


def main(argv: list[str]) -> int:
    """Run a command with the rest of the arguments; without one, list them; `--version` prints the package's."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(listing())
        return 0
    if argv[0] == "--version":
        from importlib import metadata

        print(f"compclip {metadata.version('compclip')}")
        return 0
    if argv[0] in FORMER:
        messages.note(f"`compclip {argv[0]}` is `compclip {FORMER[argv[0]]}` now")
        argv = [*FORMER[argv[0]].split(), *argv[1:]]
    two_words = " ".join(argv[:2])
    if two_words in BELOW:
        return _call(BELOW[two_words], argv[2:])
    if argv[0] == "stage" and argv[1:] in ([], ["-h"], ["--help"]):
        print(list_stages())
        return 0
    if argv[0] == "stage":
        raise unknown("command", two_words, BELOW)
    if argv[0] not in COMMANDS:
        raise unknown("command", argv[0], COMMANDS)
    return _call(COMMANDS[argv[0]], argv[1:])


def _call(command: tuple[str, str], argv: list[str]) -> int:
    return int(importlib.import_module(command[0]).main(argv))


def script() -> int:
    """The installed command `compclip`; called by a shell that completes a word, print how that goes on."""
    if "_ARGCOMPLETE" in os.environ:
        from compclip.config import completion

        completion.complete()
    return entry(main)


if __name__ == "__main__":
    sys.exit(script())
