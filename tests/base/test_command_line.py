"""Wrong calls are one line with exit code 2, of subcommands too; help names defaults."""

import gc
import sys
from pathlib import Path

import pytest

from compclip import __main__ as compclip_command
from compclip.base import errors
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError


def make_parser() -> CommandParser:
    parser = CommandParser(prog="compclip x")
    parser.add_argument("--steps", type=int, default=3, help="how many")
    parser.add_argument("--root", type=Path, default=Path(), help="where")
    parser.add_argument("--model", default="", help="which; default: any")
    parser.add_argument("--all", action="store_true", help="everything")
    parser.add_subparsers().add_parser("y").add_argument("name", help="a name")
    return parser


@pytest.mark.parametrize(("argv", "text"), [
    (["--step-s=1", "y", "a"], "compclip x: unrecognized arguments: --step-s=1; did you mean --steps? "),
    (["--steps", "many"], "compclip x: argument --steps: invalid int value: 'many'; "),
    (["y"], "compclip x y: the following arguments are required: name; "), (["z"], "compclip x: argument "),
])  # fmt: skip
def test_a_wrong_call_is_one_line(argv, text, capsys):
    with pytest.raises(SystemExit) as exit_info:
        make_parser().parse_args(argv)
    out, err = capsys.readouterr()
    assert (exit_info.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {text}") and err.endswith(" --help` lists what it takes\n")


def test_every_command_has_this_parser():
    """Whatever makes one of argparse's own would print its usage with an error."""
    sources = Path(errors.__file__).parents[1].rglob("*.py")
    assert [path.name for path in sources if "argparse.ArgumentParser(" in path.read_text()] == []


def test_an_ended_command_leaves_nothing_to_the_collector():
    """The interpreter collects on its way out, over everything that a command imported."""
    gc.unfreeze()
    assert errors.entry(lambda _argv: 0) == 0
    assert gc.get_freeze_count()
    gc.unfreeze()


@pytest.mark.parametrize("name, is_line", [("omegaconf", True), ("compclip.nowhere", False)])
def test_a_python_without_the_packages(name, is_line, capsys):
    """Another environment's is a line that names it; what the package itself lacks is a defect, and raised."""

    def main(_argv):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    if is_line:
        assert errors.entry(main) == 2
        assert capsys.readouterr().err.startswith(f"error: {sys.executable}: has no package '{name}'; activate ")
    else:
        with pytest.raises(ModuleNotFoundError):
            errors.entry(main)


@pytest.mark.parametrize(
    "words", [["repro", "report", "train.lr=1e-5"], ["launch", "slurm/local.yaml", "train.lr=1e-5"]]
)
def test_values_are_set_in_the_grid(words):
    """A command that brings the grid up to date says which of two others is meant."""
    with pytest.raises(
        UserError, match="`compclip config set train.lr=1e-5`.*`compclip config vary METHOD train.lr=1e-5`"
    ):
        compclip_command.main(words)
