"""Files of the plan, read. A stage that finds its work done imports nothing of how the plan was made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from compclip.base.errors import UserError

FOLDER = Path("plan")


@contextlib.contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Take apart what a file of the plan says. Raises UserError where it says something else."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path}: damaged ({type(error).__name__}); run `dvc repro plan` again") from error
