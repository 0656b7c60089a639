"""What of a hub its library asks for: a repository's commit, its files with sizes and sums, and their bytes."""

import hashlib
import json
from http.server import BaseHTTPRequestHandler

from tests.fetch.file_server import Files, Special
from tests.http_server import send_answer

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def repository(
    files: Files,
    name: str,
    bodies: dict[str, bytes],
    kind: str = "datasets",
    gated: bool = False,
    revision: str = "main",
) -> None:
    """Have the server play the hub for one repository, by its commit and a revision."""
    short = {"datasets": "datasets/", "models": ""}[kind]
    files.specials["/"] = _json({})
    files.specials[f"/api/{kind}/{name}/revision/{revision}"] = _json({"id": name, "sha": COMMIT, "siblings": []})
    files.specials[f"/api/{kind}/{name}"] = _json({"id": name, "sha": COMMIT, "siblings": []})
    entries = _json([_entry(path, body) for path, body in bodies.items()])
    answers = {path: _refused if gated else _file(body) for path, body in bodies.items()}
    for version in (revision, COMMIT):
        files.specials[f"/api/{kind}/{name}/tree/{version}"] = entries
        for path, answer in answers.items():
            files.specials[f"/{short}{name}/resolve/{version}/{path}"] = answer


def _entry(path: str, body: bytes) -> dict:
    lfs = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 100}
    return {"type": "file", "path": path, "size": len(body), "oid": "0" * 40, "lfs": lfs}


def _json(value: object) -> Special:
    body = json.dumps(value).encode()
    return lambda handler: send_answer(handler, 200, {"Content-Type": "application/json"}, body)


def _file(body: bytes) -> Special:
    headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}
    return lambda handler: send_answer(handler, 200, headers, body)


def _refused(handler: BaseHTTPRequestHandler) -> None:
    send_answer(handler, 403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access to it is restricted"})
