"""Addresses of databases and servers: shown without what is secret in them, refused where nobody could tell what is."""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from compclip.base import messages
from compclip.base.errors import UserError

HIDDEN = "***"
SECRET = re.compile("pass|pwd|token|key|secret|sig|auth|cred", re.IGNORECASE)  # names of options whose value may be one
NAME = re.compile(r"[\w.%+-]+")
FILES = ("sqlite:", "file:")
ESCAPES = "in a user's name and password write / as %2F, @ as %40, : as %3A, ? as %3F and # as %23"


def mask_url(uri: str) -> str:
    """Return the address without its password, and without the values of options that may be secrets.

    Where libraries would not agree what the password is, too much is hidden rather than too little.
    """
    scheme, separator, address = uri.partition("://")
    if not separator:
        return HIDDEN if "@" in uri or SECRET.search(uri) and "=" in uri else uri
    user, at, host = ("", "", address) if _is_file(uri) else address.rpartition("@")
    if SECRET.search(unquote(user.partition("?")[2])):
        return f"{scheme}://{HIDDEN}"
    return f"{scheme}://{_mask_user(user, scheme) + at}{_mask_options(host)}"


def _is_file(uri: str) -> bool:
    return uri.startswith(FILES) and uri.partition("://")[2].startswith("/")


def _mask_user(text: str, scheme: str) -> str:
    """Return who logs in; a server's user without a password is masked too, since it may be a token."""
    name, _, password = text.partition(":")
    plain = NAME.fullmatch(name) and (password or not scheme.startswith("http"))
    return (name if plain else HIDDEN if name else "") + (f":{HIDDEN}" if password else "")


def _mask_options(host: str) -> str:
    path, mark, query = host.partition("?")
    masked = []
    for option in query.split("&"):
        name, equals, _ = option.partition("=")
        masked.append(f"{name}={HIDDEN}" if equals and SECRET.search(unquote(name)) else option)
    return path + mark + "&".join(masked)


def check_url(uri: str, what: str) -> str:
    """Return the address. Raises UserError, without its secrets, for one that libraries may take apart differently."""
    address = uri.partition("://")[2]
    authority = re.split("[/?#]", address, maxsplit=1)[0]
    try:
        _ = urlsplit(uri).port
    except ValueError:
        fault = "its host and port cannot be told"
    else:
        fault = "holds a control character" if re.search(r"[\x00-\x1f\x7f]", uri) else ""
        if not _is_file(uri) and ("@" in address[len(authority) :] or authority.count("@") > 1 or " " in uri):
            fault = "its host cannot be told"
    if fault:
        raise UserError(f"{what}={mask_url(uri)!r}: {fault}; {ESCAPES}")
    return uri


def warn_of_password(address: str | None, option: str, instead: str) -> None:
    """Warn of a secret on a command line, which other users of the machine can read in its processes."""
    if address and mask_url(address) != address:
        messages.warn(f"{option} holds a password, which `ps` shows to others; give it as {instead}")


def mask_message(text: str, uri: str) -> str:
    """Return a library's message about an address, without the secrets in it."""
    text = text.replace(uri, mask_url(uri))
    for secret in sorted(filter(None, _secret_spellings(uri)), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _secret_spellings(uri: str) -> set[str]:
    """Return the secrets of an address as written, decoded, and in the encodings that a library may use."""
    url = urlsplit(uri)
    secrets = {value for name, value in parse_qsl(url.query) if SECRET.search(name)}
    secrets |= {unquote(url.password or "")}
    if url.scheme.startswith("http") and not url.password:
        secrets |= {unquote(url.username or "")}
    ways: tuple[Callable[[str], str], ...]
    ways = (str, quote, quote_plus, lambda s: quote(s, safe=""), lambda s: repr(s)[1:-1])
    return {url.password or "", *(way(secret) for secret in secrets for way in ways)}
