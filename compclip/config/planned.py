"""Files of the plan, read, and whether they are up to date. None of that imports how the plan is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from compclip.base import stamp
from compclip.base.errors import UserError
from compclip.base.files import read_bytes, read_mapping, write_json

FOLDER = Path("plan")
MADE = Path(".work/plan.json")  # of what the plan was made, and how it was left


@contextlib.contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Take apart what a file of the plan says. Raises UserError where it says something else."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); run `dvc repro plan` again") from error


def current(params: str) -> bool:
    """Whether the plan is there as it was left, and what it was made of is as it was.

    A plan that looks up something in the environment never is.
    """
    with contextlib.suppress(UserError, LookupError, TypeError):
        made = read_mapping(MADE)
        return made["of"] == inputs(params) and made["left"] == _left(made["watched"])
    return False


def inputs(params: str) -> str:
    """A stamp of the params file and of our code."""
    return stamp.of(b"", [params, stamp.PACKAGE])


def remember(params: str, before: str, watched: Iterable[str]) -> None:
    """The plan was made of `inputs`, taken before, and of `watched`, files of other packages' code."""
    if stamp.REFERENCE not in read_bytes(params):
        files = sorted(watched)
        write_json(MADE, {"of": before, "watched": files, "left": _left(files)})


def _left(watched: Iterable[str]) -> str:
    return stamp.of(b"", [FOLDER, *watched])
