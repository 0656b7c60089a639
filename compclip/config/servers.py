"""Declare the settings of language models behind an OpenAI-compatible endpoint, and check URLs, commands and keys."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict, dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt

from compclip.base import environment_variables
from compclip.base.errors import UserError, redact_secrets
from compclip.config.sections import Data
from compclip.config.validation import RequiredText, Share, load_section

KINDS = ("swap", "replace")  # of hard positives
# Settings for reaching a server; its answers do not depend on them.
WAYS = ("url", "api_key_env", "parallel", "timeout_s", "cache", "server")
PORT = "{port}"
ALLOW = "COMPCLIP_ALLOW_SERVER"  # the environment variable that allows grids to start servers
ADDRESS = re.compile(r"https?://[!-~]*")


@dataclass(frozen=True)
class Server:
    """An endpoint, and how requests are sent to it."""

    url: str = ""  # up to and including /v1; empty if `server` starts a server
    model: RequiredText = ""
    api_key_env: str = ""  # the environment variable with the key; empty: no key is sent
    temperature: NonNegativeFloat = 0.0
    seed: int = 0
    parallel: PositiveInt = 8
    timeout_s: PositiveFloat = 120.0  # for one attempt, until the last byte of the answer
    failures_allowed: Share = 0.05  # share of the requests; if more fail, nothing is written
    cache: str = ".work/answers.sqlite"
    server: str = ""  # a command that serves the model on {port}; it runs while requests are sent

    @property
    def deciding(self) -> dict[str, Any]:
        """The settings that the answers depend on; the server's address is not one of them."""
        return {key: value for key, value in asdict(self).items() if key not in WAYS}

    def __post_init__(self) -> None:
        if self.server and self.url:
            raise UserError(f"url={self.url}: `server` starts a server of its own; remove one of the two")
        if self.server:
            _check_command(self.server)
        else:
            _check_url(self.url)
        environment_variables.check_variable_name(
            self.api_key_env, "api_key_env", "OPENAI_API_KEY, which holds the key"
        )


def check_key(config: Any, where: str) -> None:
    """Raise UserError if a grid would send a key to a server that the user has not allowed to receive it."""
    if isinstance(config, Server) and config.api_key_env:
        address = config.url or environment_variables.OWN_SERVER
        environment_variables.check_key(config.api_key_env, address, f"{where}.api_key_env")


def _check_command(command: str) -> None:
    """Raise UserError for a command without {port}, or with a secret; the message does not show the secret."""
    if redact_secrets(command) != command:
        raise UserError("server: holds a password or a key; give it in an environment variable such as VLLM_API_KEY")
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote
        words = []
    if PORT not in " ".join(words) or "\0" in command:
        text = ascii(command)[1:-1]
        raise UserError(f"server={text}: must be a command, quoted as for a shell, with {PORT} where its port belongs")


def _check_url(url: str) -> None:
    """Raise UserError for a URL that is invalid or may contain a secret; the message does not show the secret."""
    if not url:
        raise UserError(f"url: must be given, as http://HOST:PORT/v1; or `server`, as vllm serve MODEL --port {PORT}")
    if re.search("[@?#]", url):
        raise UserError("url: must have no user, password, ? or # in it; give a key as api_key_env")
    try:
        split = urlsplit(url)
        is_address = bool(ADDRESS.fullmatch(url) and split.hostname and split.port != 0)
    except ValueError:  # an invalid port
        is_address = False
    if not is_address:
        raise UserError(f"url={ascii(url)[1:-1]}: must be as http://HOST:PORT/v1 or https://HOST/v1, in ASCII")


@dataclass(frozen=True)
class Rewriter(Server):
    """The endpoint that writes hard positives, and the kinds that it writes."""

    kinds: Literal["both", "swap", "replace"] = "both"
    replace_words: Literal["any", "verbs", "prepositions"] = "any"  # the words that REPLACE may change; verbs …: D.3


def rewriter_config(data: Data, where: str = "rewriter") -> Rewriter | None:
    """Return the endpoint that writes hard positives for a data set; None if it has none."""
    config = load_section(Rewriter, data.rewriter, where) if data.rewriter else None
    check_key(config, where)
    return config
