"""Addresses of databases and servers: shown without what is secret in them, refused where nobody could tell what is."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from compclip.base.errors import UserError

HIDDEN = "***"
SECRET = re.compile("pass|pwd|token|key|secret|sig|auth|cred", re.IGNORECASE)  # names of options whose value may be one
NAME = re.compile(r"[\w.%+-]+")
FILES = ("sqlite:", "file:")
ESCAPES = "in a user's name and password write / as %2F, @ as %40, : as %3A, ? as %3F and # as %23"


def shown(uri: str) -> str:
    """The address without its password, and without the values of options that may be secrets.

    Where libraries would not agree what the password is, too much is hidden rather than too little.
    """
    scheme, found, rest = uri.partition("://")
    if not found:
        return HIDDEN if "@" in uri or SECRET.search(uri) and "=" in uri else uri
    user, at, place = ("", "", rest) if _is_file(uri) else rest.rpartition("@")
    if SECRET.search(unquote(user.partition("?")[2])):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{_user(user, scheme) + at}{_options(place)}"


def _is_file(uri: str) -> bool:
    return uri.startswith(FILES) and uri.partition("://")[2].startswith("/")


def _user(text: str, scheme: str) -> str:
    """Who logs in; a server's user without a password may be a token."""
    name, _, password = text.partition(":")
    plain = NAME.fullmatch(name) and (password or not scheme.startswith("http"))
    return (name if plain else HIDDEN if name else "") + (f":{HIDDEN}" if password else "")


def _options(place: str) -> str:
    before, mark, query = place.partition("?")
    return before + mark + "&".join(map(_option, query.split("&")))


def _option(text: str) -> str:
    name, given, _ = text.partition("=")
    return f"{name}={HIDDEN}" if given and SECRET.search(unquote(name)) else text


def checked(uri: str, what: str) -> str:
    """The address, of which every library finds the same parts. Raises UserError, without its secrets, for another."""
    rest = uri.partition("://")[2]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    try:
        _ = urlsplit(uri).port
    except ValueError:
        fault = "its host and port cannot be told"
    else:
        fault = "holds a control character" if re.search(r"[\x00-\x1f\x7f]", uri) else ""
        if not _is_file(uri) and ("@" in rest[len(authority) :] or authority.count("@") > 1 or " " in uri):
            fault = "its host cannot be told"
    if fault:
        raise UserError(f"{what}={shown(uri)!r}: {fault}; {ESCAPES}")
    return uri


def warn_of(given: str | None, option: str, instead: str) -> None:
    """Say that a secret on a command line is everybody's on this machine who looks at its processes."""
    if given and shown(given) != given:
        print(f"warning: {option} holds a password, which `ps` shows to others; give it as {instead}", file=sys.stderr)


def hidden(text: str, uri: str) -> str:
    """What a library says of an address, without the secrets in it."""
    text = text.replace(uri, shown(uri))
    for secret in sorted(filter(None, _secrets(uri)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secrets(uri: str) -> set[str]:
    """As they stand there, as they are, and as somebody may have written them anew."""
    parts = urlsplit(uri)
    found = {value for name, value in parse_qsl(parts.query) if SECRET.search(name)}
    found |= {unquote(parts.password or "")}
    if parts.scheme.startswith("http") and not parts.password:
        found |= {unquote(parts.username or "")}
    ways: tuple[Callable[[str], str], ...]
    ways = (str, quote, quote_plus, lambda s: quote(s, safe=""), lambda s: repr(s)[1:-1])
    return {parts.password or "", *(way(secret) for secret in found for way in ways)}
