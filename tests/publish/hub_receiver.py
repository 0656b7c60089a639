"""What of a hub its library asks for: a repository is made, files come in, large ones apart, a commit; files go out."""

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.http_server import QuietHandler, run_server, send_answer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = ".safetensors"


@dataclass
class Hub:
    """The running hub: its repositories' files, how each was made, what was asked, and the one token that may write."""

    token: str
    url: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    creations: dict[str, dict] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)
    uploads: dict[str, bytes] = field(default_factory=dict)  # large files by their SHA-256
    requests: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, method: str, path: str, body: bytes, authorization: str) -> tuple[int, object]:
        self.requests.append((method, path))
        if method == "PUT":
            self.uploads[path.rpartition("/")[2]] = body
            return 200, {}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if authorization != f"Bearer {self.token}":
            return 401, {"error": "Invalid credentials"}
        value = [json.loads(line) for line in body.splitlines() if line.strip()]
        if path == "/api/repos/create":
            name = f"{value[0]['organization']}/{value[0]['name']}"
            self.files[name], self.creations[name] = {".gitattributes": b""}, value[0]
            return 200, {"url": f"{self.url}/{name}"}
        return self._answer_repository(path, value)

    def _answer_repository(self, path: str, value: list[dict]) -> tuple[int, object]:
        name = "/".join(path.removeprefix("/api/models").removesuffix(".git/info/lfs/objects/batch").split("/")[1:3])
        if name not in self.files:
            return 404, {"error": "Repository not found"}
        if "/tree/" in path:
            files = self.files[name].items()
            return 200, [{"type": "file", "path": p, "size": len(body), "oid": "0" * 40} for p, body in files]
        if "/preupload/" in path:
            files = [file | {"shouldIgnore": False, "oid": None} for file in value[0]["files"]]
            modes = [{"uploadMode": "lfs" if file["path"].endswith(LARGE) else "regular"} for file in files]
            return 200, {"files": [file | mode for file, mode in zip(files, modes, strict=True)]}
        if path.endswith("/objects/batch"):
            actions = [{"upload": {"href": f"{self.url}/upload/{item['oid']}"}} for item in value[0]["objects"]]
            objects = [item | {"actions": of_one} for item, of_one in zip(value[0]["objects"], actions, strict=True)]
            return 200, {"transfer": "basic", "objects": objects}
        if "/commit/" in path:
            self._commit(name, value)
            return 200, {"commitUrl": f"{self.url}/{name}/commit/{COMMIT}", "commitOid": COMMIT}
        return 200, {"id": name, "sha": COMMIT, "siblings": []}

    def send_file(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and bytes of a repository's file, as its newest commit has it."""
        name, file = path.removeprefix("/").split("/resolve/main/")
        if (body := self.files.get(name, {}).get(file)) is None:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT}, b""
        return 200, {"ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Repo-Commit": COMMIT}, body

    def _commit(self, name: str, lines: list[dict]) -> None:
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.commits.append(value["summary"])
            elif line["key"] == "file":
                self.files[name][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                body = self.uploads[value["oid"]]
                assert hashlib.sha256(body).hexdigest() == value["oid"]
                self.files[name][value["path"]] = body
            elif line["key"] == "deletedFile":
                del self.files[name][value["path"]]


@contextlib.contextmanager
def serve(token: str) -> Iterator[Hub]:

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            authorization = self.headers.get("Authorization", "")
            if "/resolve/" in self.path:
                send_answer(self, *hub.send_file(urlsplit(self.path).path))
                return
            with lock:
                status, value = hub.answer(self.command, urlsplit(self.path).path, body, authorization)
            headers = {"Content-Type": "application/json"}
            if status == 404:
                headers["X-Error-Code"] = "RepoNotFound"
            send_answer(self, status, headers, json.dumps(value).encode())

        do_POST = do_PUT = do_HEAD = do_GET

    lock, hub = threading.Lock(), Hub(token)
    with run_server(Handler) as hub.url:
        yield hub
