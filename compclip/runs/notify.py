"""A line to a team's webhook when something ended: a launch, a study, a job that failed for good.

The URL is a secret and is in an environment variable, whose name a profile gives (`notify: COMPCLIP_WEBHOOK`): it
is in no file and in no message. What keeps a post out is a warning: nothing depends on it.

A launch on a cluster returns before its jobs are over: there a job that fails says so itself, as sbatch hands the
environment down. Of one that cannot, because its node failed or its memory ran out, SLURM tells (`options: {mail-type:
FAIL}` of a profile).
"""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compclip.base import environment_variables, messages, worker_processes
from compclip.base.errors import UserError

TIMEOUT_S = 5.0  # to the end of the answer's head, however slowly it comes
MOST = 20  # failures in one post


@dataclass(frozen=True)
class News:
    """What is posted: one line for people, the same as numbers, and the names of what failed with their reasons."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def body(self, project: str) -> dict[str, Any]:
        """Return the JSON body; chat services show `text`."""
        lines = [f"[{project}] {self.text}"]
        failed = []
        for name, reason in self.failures.items():
            failed.append({"name": name, "reason": reason})
            if len(failed) <= MOST:
                lines.append(f"{name}: {reason}")
        if len(failed) > MOST:
            lines.append(f"and {len(failed) - MOST} more")
        return {"text": "\n".join(lines), "project": project, "counts": dict(self.counts), "failures": failed}


def check_variable(variable: str, where: str) -> None:
    """Raise UserError for what names no environment variable; the value may be the secret itself and is not shown."""
    if "://" in variable:
        raise UserError(f"{where}: is a URL, which is a secret; put it into an environment variable and name that here")
    environment_variables.check_variable_name(variable, where, "COMPCLIP_WEBHOOK, which holds the URL")


def post(variable: str, news: News, root: Path = Path(".")) -> bool:
    """Post to the URL in an environment variable and return whether it came through; without a variable, nothing."""
    if not variable:
        return False
    try:
        project = os.environ.get("COMPCLIP_PROJECT") or root.resolve().name
        fault = _post_body(environment_variables.read_secret(variable), news.body(project))
    except UserError as error:
        fault = str(error)
    if fault:
        messages.warn(f"{news.text}: not posted to ${variable}: {fault}")
    return not fault


def _post_body(url: str, body: Mapping[str, Any]) -> str:
    """Post and return the fault, without the URL; empty where the post came through."""
    if not url.startswith(("http://", "https://")):
        return "it holds no URL; set it to http(s)://..." if url else "it is not set"
    try:
        headers = {"Content-Type": "application/json", "User-Agent": "compclip"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)  # through a proxy where one is set
        worker_processes.run_within(TIMEOUT_S, lambda: urllib.request.urlopen(request, timeout=TIMEOUT_S).close())
        return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"HTTP {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return type(getattr(error, "reason", error)).__name__
