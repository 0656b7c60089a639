"""What a grid takes from the environment: paths and names by `${oc.env:NAME}`, and the keys of servers.

A grid may be a stranger's. Its values are written to config.yaml, the plan and MLflow, and its keys are sent to the
servers that it names. It reads the variables that the reader allowed, by their names, and no others:

    COMPCLIP_ALLOW_ENV=DATA_ROOT,OPENAI_API_KEY@https://api.openai.com

A bare name may stand in values. NAME@SERVER is a key that goes to this server alone, and never into a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from compclip.base.errors import UserError

ALLOW = "COMPCLIP_ALLOW_ENV"
OWN_SERVER = "server"  # in place of an address: the one that the grid starts itself
READ = re.compile(r"\$\{oc\.env:\s*([A-Za-z_]\w*)", re.ASCII)
PORTS = {"http": 80, "https": 443}
PATHS = ("sqlite:", "file:")  # URLs of files
SHORTEST = 6  # characters: a shorter value may stand in a URL by chance


def check_allowed(raw: Any, where: str) -> None:
    """Raise UserError naming the first key that reads a variable which is not allowed; nothing is resolved."""
    allowed = _entries()
    denied: dict[str, str] = {}
    for key, text in _texts(raw, ""):
        for name in READ.findall(text):
            if name not in allowed:
                denied.setdefault(name, key)
    for name, key in denied.items():
        raise UserError(
            f"{where}: {key}: reads the environment variable {name}, whose value would be written to files; if this "
            f"grid may have it, {_advice(denied)}"
        )


def check_key(variable: str, server: str, where: str) -> None:
    """Raise UserError for a key that the reader has not allowed for a server, an address or OWN_SERVER."""
    place, allowed = _origin(server), _entries()
    pairs = [(name, _origin(to)) for name, _, to in (entry.partition("@") for entry in allowed)]
    if (variable, place) not in pairs:
        raise UserError(
            f"{where}={variable}: would send this environment variable to {place}; if it is the key of that server, "
            f"{_advice([f'{variable}@{place}'])}"
        )


def _advice(entries: Iterable[str]) -> str:
    """What to type; what is allowed already stays."""
    return f"export {ALLOW}={f'${ALLOW},' if _entries() else ''}{','.join(entries)}"


def _entries() -> list[str]:
    return os.environ.get(ALLOW, "").replace(",", " ").split()


def _origin(server: str) -> str:
    """Scheme, host and port of an address: what decides who is at its other end."""
    try:
        parts = urlsplit(server)
        port, host = parts.port, parts.hostname
    except ValueError:
        return server
    if not host:
        return server
    suffix = "" if port in (None, PORTS.get(parts.scheme)) else f":{port}"
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{suffix}"


def check_urls(raw: Any, values: Any, where: str) -> None:
    """Raise UserError naming the key of a URL that holds a variable's value; `raw` has them as written.

    What an environment variable adds to a URL is as a rule a key.
    """
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
