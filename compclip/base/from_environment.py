"""What parameters take from the environment by `${oc.env:NAME}`: paths and names, and no part of a URL.

Resolved parameters are written to config.yaml, the plan and MLflow, and what an environment variable adds to a URL is
as a rule a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from compclip.base.errors import UserError

READ = re.compile(r"\$\{\s*oc\.env\s*:\s*['\"]?([A-Za-z_]\w*)")
PATHS = ("sqlite:", "file:")  # URLs of files
SHORTEST = 6  # characters: a shorter value may stand in a URL by chance


def check(raw: Any, values: Any, where: str) -> None:
    """Raise UserError naming the key of a URL that holds a variable's value; `raw` has them as written."""
    names = {name for _, text in _texts(raw, "") for name in READ.findall(text)}
    read = [value for name in names if len(value := os.environ.get(name, "")) >= SHORTEST]
    for key, text in _texts(values, "") if read else ():
        if "://" in text and not text.startswith(PATHS) and any(value in text for value in read):
            raise UserError(
                f"{where}: {key}: is a URL with something of ${{oc.env:...}} in it, which would be written to "
                "config.yaml and MLflow; write the URL, and name the variable of a key as api_key_env"
            )


def _texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    """Each text and its key."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from _texts(below, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below, key)
    elif isinstance(value, str):
        yield key, value
