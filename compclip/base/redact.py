"""Hide secrets in messages: those that this process has read, and text that looks like one.

Every UserError passes through `redact` as it is made, so that no message, file or post made of it holds a secret;
`errors.entry` shows tracebacks through it, too.
"""

from __future__ import annotations

import json
import re
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST = 8  # characters: no key is shorter, and stand-ins for one (EMPTY, test) are words of captions
_NAMES = r"[\w.-]{0,40}(?:pass|pwd|token|key|secret|auth|sig|cred)[\w.-]{0,40}"
# Bounded: a message may quote megabytes of a stranger's file. Compiled when there is a message, which is rare.
_PATTERNS = (
    # user:password@ of a URL, to the last @: a password may hold / and @ itself
    (r"(\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)(?:[^\s@]{0,500}@)+", rf"\1{MASK}@"),
    (rf"(?i)([?&;]{_NAMES}=)[^\s&;\"'#]+", rf"\1{MASK}"),
    (r"(?i)(\b(?:password|passwd|pwd)\s*=\s*)[^\s&;\"',]+", rf"\1{MASK}"),  # of a connection's string
    (r"(?i)(\bbearer\s+)[^\s\"',;]+", rf"\1{MASK}"),
    (r"\b(sk-|xox[abp]-)[A-Za-z0-9_-]{8,}", rf"\1{MASK}"),
    (r"\b(hf_|gh[opsu]_)[A-Za-z0-9]{16,}", rf"\1{MASK}"),  # hf_tokenizer_name is a key of a config
)
_secrets: set[str] = set()


def remember_secret(secret: str) -> None:
    """Hide this secret from now on, in each form in which a server or a library may repeat it."""
    for text in {secret, " ".join(secret.split()), *secret.splitlines()}:
        quoted = {quote(text), quote(text, safe=""), quote_plus(text), json.dumps(text)[1:-1], repr(text)[1:-1]}
        _secrets.update(form for form in {text, *quoted} if len(form) >= SHORTEST)


def hide_known(text: str) -> str:
    """Return `text` without the secrets that this process has read."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def redact_secrets(text: str) -> str:
    """Return `text` without known secrets and what looks like one: the user of a URL, a key in its query, a token."""
    text = hide_known(text)
    for pattern, masked in _PATTERNS:
        text = re.sub(pattern, masked, text)
    return text
