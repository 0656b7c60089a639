"""A stand-in for a server of models, as a program: `python stand_in.py PORT [WAY…]`.

It says its pid and what it is asked, and answers every chat with the same words. Ways: `loads` (answers 503 twice before
it is well), `bare` (has no /health), `never` (is never well), `fails` (ends at once), `dies` (ends when it is asked),
`deaf` (ends by SIGKILL alone), `parent` (has a child).
"""

import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, WAYS = int(sys.argv[1]), set(sys.argv[2:])
SAID = {"choices": [{"message": {"content": "A picture."}, "finish_reason": "stop"}]}
looks = iter([503, 503])


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_known_path = self.path == ("/v1/models" if "bare" in WAYS else "/health")
        loading = 503 if "never" in WAYS else next(looks, 200) if "loads" in WAYS else 200
        self.answer(loading if is_known_path else 404, {})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        print("asked", self.path, flush=True)
        if "dies" in WAYS:
            print("CUDA error: an illegal memory access", flush=True)
            os._exit(7)
        self.answer(200, SAID)

    def answer(self, status: int, value: dict) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args) -> None:
        """Nothing of each request."""


if "deaf" in WAYS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "fails" in WAYS:
    sys.exit("out of memory\n\nlower --gpu-memory-utilization")
child = [subprocess.Popen(["sleep", "600"]).pid] if "parent" in WAYS else []
server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print("pids", os.getpid(), *child, flush=True)
server.serve_forever(poll_interval=0.02)
