"""`python -m compclip` and the installed `compclip` list every command, run one, and refuse a misspelt one."""

import argparse
import ast
import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from compclip import __main__ as commands
from compclip.base.errors import UserError
from compclip.config import completion, project_files
from perf import completion_table
from tests.conftest import ROOT
from tests.shipped_files import SHIPPED_PARAMS

NOT_FOR_PEOPLE = {  # the list; what a job runs, or a stage, or a server's keeper
    "compclip.__main__",
    "compclip.llm.server_guard",
    "compclip.prepare.file_listing",
    "compclip.prepare.shard_stages",
    "compclip.prepare.shard_work",
    "compclip.doctor.device_checks",
    "compclip.doctor.gradient_accuracy",
    "compclip.launch.results_job",
    "compclip.launch.task",
    "compclip.train.job",
}


STAGES = ["wordnet", "scenes", "prepare", "backbone", "neighbours", "keys"]


def run(*argv: str | Path, path: Path = ROOT, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which finds compclip at `path`."""
    env = {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(argv, capture_output=True, text=True, cwd=cwd, env=env)


@functools.cache
def programs() -> dict[str, ast.Module]:
    """The modules that can be run, those that call their `main` when they are."""
    trees = {}
    for path in (ROOT / "compclip").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text if "__main__" in text else "")
        if any(map(_runs, tree.body)):
            trees[".".join(path.relative_to(ROOT).with_suffix("").parts)] = tree
    return trees


def _runs(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def test_every_program_is_a_command():
    """A new command cannot be left out of the list, nor one that is gone stay in it."""
    listed = {module for module, _ in (commands.COMMANDS | commands.BELOW).values()}
    assert listed == programs().keys() - NOT_FOR_PEOPLE


def walk_actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    """Yield every argument of a parser and its subcommands, with the program's name that it stands under."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from walk_actions(subparser)
        else:
            yield parser.prog, action


@pytest.mark.parametrize(("name", "command"), list((commands.COMMANDS | commands.BELOW).items()))
def test_help_of_every_option(name, command):
    """Each argument says what it is for, under one name of the program, however it was started."""
    parser = completion_table.read_parser(command[0])
    actions = list(walk_actions(parser))
    assert parser.prog == f"compclip {name}"
    assert [f"{prog} {'/'.join(a.option_strings) or a.dest}" for prog, a in actions if not a.help] == []
    assert all(f"{prog} ".startswith(f"{parser.prog} ") for prog, _ in actions)


@pytest.mark.parametrize(("name", "command"), list((commands.COMMANDS | commands.BELOW).items()))
@pytest.mark.parametrize("columns", [80, 120])
def test_help_is_a_screen_that_begins_with_an_example(name, command, columns, monkeypatch):
    """At most 40 rows as a terminal wraps them; the example's words are ones that the command takes."""
    monkeypatch.setenv("COLUMNS", str(columns))
    parser = completion_table.read_parser(command[0])
    lines = parser.format_help().splitlines()
    assert sum(1 + max(len(line) - 1, 0) // columns for line in lines) <= 40
    example = shlex.split(lines[0])
    assert example[:2] == ["example:", "compclip"]
    words = example[2 + len(name.split()) :]
    parser.parse_intermixed_args(words) if not parser._subparsers else parser.parse_args(words)


@pytest.mark.parametrize("argv", [[], ["--help"], ["help"]])
def test_the_list(argv, capsys):
    """A line for each of at most 20 commands, and every second word of the others."""
    assert commands.main(argv) == 0
    page = capsys.readouterr().out
    lines = [line.split(maxsplit=1) for line in page.splitlines() if line.startswith("  ")]
    assert dict(lines) == {name: what for name, (_, what) in commands.COMMANDS.items()}
    assert len(lines) <= 20
    words = set(page.partition("of two words")[2].split())
    assert {word for name in commands.BELOW for word in name.split()} <= words


def test_the_stages_are_listed(capsys):
    assert commands.main(["stage"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == STAGES
    with pytest.raises(UserError, match="unknown command 'stage prepar'; did you mean 'stage prepare'"):
        commands.main(["stage", "prepar"])


@pytest.mark.parametrize("former", sorted(commands.FORMER))
def test_a_former_name_works_and_says_the_new_one(former, capsys):
    with pytest.raises(SystemExit):
        commands.main([former, "--help"])
    page = capsys.readouterr()
    assert f"`compclip {commands.FORMER[former]}`" in page.err
    assert f"compclip {commands.FORMER[former]}" in page.out


def test_the_shell_s_table_has_every_argument():
    """`python -m perf.completion_table` writes it anew."""
    assert json.loads(completion.TABLE.read_text(encoding="utf-8")) == completion_table.build()


PARAMS = """
grid: {methods: [clic, finetune.low], backbones: [vit], data: [coco], seeds: [0, 1]}
data: {coco: {}, mine: {}}
benchmarks: {sugarcrepe_mine: {benchmark: sugarcrepe}}
"""


def list_completions(line: str, folder: Path) -> tuple[set[str], set[str]]:
    """What a shell offers behind a line, and the modules that were imported for it."""
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    env = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(answer)}
    env |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    command = [sys.executable, "-X", "importtime", "-c", "from compclip.__main__ import script; script()"]
    process = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
    modules = {imported.rpartition("|")[2].strip() for imported in process.stderr.splitlines()}
    return {word.strip() for word in answer.read_text().split("\n")}, modules


@pytest.mark.parametrize(("line", "words"), [
    ("compclip re", {"report", "repro"}), ("compclip config c", {"check", "cost"}),
    ("compclip evaluate --ce", {"--cell", "--census"}), ("compclip launch slurm/a.yaml can", {"cancel"}),
    ("compclip train --cell cl", {"clic-vit-coco-0", "clic-vit-coco-1"}),
    ("compclip config show finetune.low-vit-coco-", {"finetune.low-vit-coco-0", "finetune.low-vit-coco-1"}),
    ("compclip train --method ", {"clic", "finetune.low"}), ("compclip audit m", {"mine"}),
    ("compclip evaluate --benchmarks sugarcrepe_", {"sugarcrepe_pp", "sugarcrepe_mine"}),
    ("compclip config use experiments/g", {"experiments/grids/a.yaml"}), ("compclip sweep --study ", {"gamma"}),
    ("compclip repro --on ", {"slurm/a.yaml"}), ("compclip repro train@c", {"train@clic"}),
    ("compclip init --grid first_h", {"first_hour"}), ("compclip fetch coco_val", {"coco_val2017"}),
])  # fmt: skip
def test_the_shell_completes(line, words, tmp_path):
    """Commands, options, grids, cells, methods, benchmarks; no command is imported, nor what takes long."""
    files = {"params.yaml": PARAMS, "dvc.yaml": (ROOT / "dvc.yaml").read_text(encoding="utf-8")}
    names = ("experiments/grids/a.yaml", "experiments/studies/gamma.yaml", "slurm/a.yaml")
    for name, text in (files | dict.fromkeys(names, "")).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    offered, modules = list_completions(line, tmp_path)
    assert offered == words
    assert "argcomplete" in modules and not modules & {
        "torch",
        "numpy",
        "omegaconf",
        "pydantic",
        "compclip.config.read",
    }


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder into which the package is installed, as pip does, with nothing of the checkout in reach."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    build_files = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")
    for name in (*build_files, *project_files.list_files(ROOT)):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    shutil.copy(SHIPPED_PARAMS, source / "params.yaml")
    shutil.copytree(ROOT / "compclip", source / "compclip", ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--target")
    process = run(sys.executable, "-m", "pip", "install", *options, target, source, path=target, cwd=source)
    assert process.returncode == 0, process.stderr
    return target


def test_the_installed_package_is_whole(installed):
    """Every module, template and catalogue of the checkout, and the licence; `.ci/wheel` runs it."""
    kinds = ("*.py", "*.j2", "*.yaml")
    ours = {p.relative_to(ROOT) for kind in kinds for p in (ROOT / "compclip").rglob(kind)}
    package = installed / "compclip"
    theirs = {p.relative_to(installed) for kind in kinds for p in package.rglob(kind)}
    assert {p for p in theirs if p.parts[1] != "project_files"} == ours
    about = next(metadata.distributions(name="compclip", path=[str(installed)]))
    assert about.metadata["License-Expression"] == "Apache-2.0"
    licence = next(p for p in about.files if p.name == "LICENSE").locate().read_text(encoding="utf-8")
    assert licence == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Copyright 2026 the compclip authors" in licence
