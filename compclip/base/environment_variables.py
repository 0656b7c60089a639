"""Environment variables: secrets, and what a grid takes: paths and names by `${oc.env:NAME}`, and keys of servers.

A grid may be a stranger's. Its values are written to config.yaml, the plan and MLflow, and its keys are sent to the
servers that it names. It reads the variables that the reader allowed, by their names, and no others:

    COMPCLIP_ALLOW_ENV=DATA_ROOT,OPENAI_API_KEY@https://api.openai.com

A bare name may stand in values. NAME@SERVER is a key that goes to this server alone, and never into a value.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from compclip.base import errors
from compclip.base.errors import UserError

ALLOW = "COMPCLIP_ALLOW_ENV"
OWN_SERVER = "server"  # in place of an address: the one that the grid starts itself
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
NO_LINE = re.compile(r"[\x00-\x1f\x7f]")
READ = re.compile(rf"\$\{{oc\.env:\s*({NAME.pattern})", re.ASCII)
PORTS = {"http": ":80", "https": ":443"}
FILES = ("sqlite:", "file:")  # URLs of files
SHORTEST = 6  # characters: a shorter value may be in a URL by chance


def read_secret(variable: str) -> str:
    """Return the value of a variable, "" where it is not set; messages hide it from now on.

    Raises UserError naming the variable where it holds more than a line: a header, a URL and a command end with it.
    """
    value = os.environ.get(variable, "").strip()
    errors.remember_secret(value)
    if NO_LINE.search(value):
        raise UserError(f"${variable}: holds a line break or another control character; set it to one line")
    return value


def check_variable_name(variable: str, where: str, example: str) -> None:
    """Raise UserError for what is no variable's name; it may be the secret itself, so that it is not shown."""
    if variable and not NAME.fullmatch(variable):
        raise UserError(f"{where}: names no environment variable; give one as {example}")


def check_allowed(references: Iterable[tuple[str, str]], where: str) -> None:
    """Raise UserError naming the first key whose text reads a variable that is not allowed; nothing is resolved."""
    denied: dict[str, str] = {}
    for key, text in references:
        for name in READ.findall(text):
            if name not in list_allowed():
                denied.setdefault(name, key)
    for name, key in denied.items():
        raise UserError(
            f"{where}: {key}: reads the environment variable {name}, whose value would be written to files; if this "
            f"grid may have it, {_advise(denied)}"
        )


def check_urls(references: Iterable[tuple[str, str]], texts: Iterable[tuple[str, str]], where: str) -> None:
    """Raise UserError naming the key of a URL that holds the value of a variable which some reference reads.

    What an environment variable adds to a URL is as a rule a key.
    """
    names = READ.findall("\n".join(text for _, text in references))
    values = [os.environ.get(name, "") for name in names]
    for key, text in texts:
        holds_value = any(len(value) >= SHORTEST and value in text for value in values)
        if holds_value and "://" in text and not text.startswith(FILES):
            raise UserError(
                f"{where}: {key}: is a URL with something of ${{oc.env:...}} in it, which would be written to "
                "config.yaml and MLflow; write the URL, and name the variable of a key as api_key_env"
            )


def check_key(variable: str, server: str, where: str) -> None:
    """Raise UserError for a key that the reader has not allowed for a server, an address or OWN_SERVER."""
    origin = _origin(server)
    for entry in list_allowed():
        name, _, address = entry.partition("@")
        if name == variable and _origin(address) == origin:
            return
    raise UserError(
        f"{where}={variable}: would send this environment variable to {origin}; if it is the key of that server, "
        f"{_advise([f'{variable}@{origin}'])}"
    )


def list_allowed(environment: Mapping[str, str] = os.environ) -> list[str]:
    """List what the reader allowed: names of variables, and keys as NAME@SERVER."""
    return environment.get(ALLOW, "").replace(",", " ").split()


def _advise(entries: Iterable[str]) -> str:
    """Return the command that allows the entries; what is allowed already stays."""
    return f"export {ALLOW}={f'${ALLOW},' if list_allowed() else ''}{','.join(entries)}"


def _origin(server: str) -> str:
    """Return scheme, host and port of an address, which decide who answers."""
    url = urlsplit(server)
    return f"{url.scheme}://{url.netloc.lower().removesuffix(PORTS.get(url.scheme, ':'))}" if url.netloc else server


# --- the environment of a child -------------------------------------------------------------------------------------
# The environment of what is started apart: that of the shell, without the place of an enclosing job in it.
#
# A shell inside an allocation, a step of SLURM, MPI or torchrun holds the number, the memory, the cores and the rank
# of that one. A process that took them for its own would be bound to other cores, or wait for processes that never
# come.


PLACE = re.compile(
    r"(SLURMD?|SRUN|SALLOC|SUBMITIT|PMI\w*|MASTER|LOCAL|TORCHELASTIC)_\w+|((GROUP|ROLE)_)?(RANK|WORLD_SIZE)|ROLE_NAME"
)
# How SLURM's commands reach the cluster, and which signal submitit takes for its warning.
CONNECTION = {"SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT", "SUBMITIT_PREEMPT_SIGNAL"}
# What a shell may set for SLURM's commands that ask: a filter hides jobs, a question waits for an answer.
QUESTIONS = ("SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_")


def without_place(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without an enclosing job's variables; those that a grid may read stay."""
    exempt = CONNECTION.union(list_allowed(environment))
    return {name: value for name, value in environment.items() if name in exempt or not PLACE.fullmatch(name)}


def with_own_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `python` is the program that runs here, whether or not a shell activated it."""
    folders = [str(Path(sys.executable).parent), environment.get("PATH", os.defpath)]
    return {**environment, "PATH": os.pathsep.join(folders)}


def without_defaults(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which SLURM's commands answer what they are asked, in their own format, of all jobs."""
    return {name: value for name, value in without_place(environment).items() if not name.startswith(QUESTIONS)}
