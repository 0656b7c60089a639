"""Data stages killed at random moments: they end with the shards that nobody disturbed (`data.py kills`).

Tars of a few pictures, captioned by a chat server of this process and annotated by two processes: the real commands,
with their whole process group killed by SIGKILL, until one comes to its end; then from the beginning again. A picture
shows its number in black and white, so that the server knows of which shard it is: a question about one that is made
already is a fault, and no more questions may come twice than were under way when somebody was killed.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from compclip.base import links
from compclip.base.files import LEFT, read_json
from compclip.config import asked as stages
from perf import data_made
from perf.checkout import ROOT, environment
from tests import chat_server

TARS, ROWS, PARALLEL = 24, 8, 4
BITS, BLOCK = 4, 16  # a picture is BITS x BITS blocks of BLOCK pixels
ANSWER_S = 0.03  # of the server: else all is over at once
NAME = "x"
COSTS = ("answered", "cached", "prompt_tokens", "completion_tokens")  # of this life's questions
STAGES = {stages.RECAPTION: (), stages.ANNOTATE: ("--annotate",)}
KEPT = {stages.RECAPTION: (), stages.ANNOTATE: ("samples", "counts.json")}  # of data/, which the stage does not make
PARAMS = """
grid: {{methods: [pretrained], backbones: [tiny], data: [x], seeds: [0]}}
methods: {{pretrained: {{}}}}
backbones: {{tiny: {{model: tiny.json}}}}
data: {{x: {{source: webdataset, path: tars, images: tars, captioner: endpoint, options: {{url: "{url}", model: m, parallel: {parallel}}}}}}}
benchmarks: {{}}
evaluate: {{benchmarks: []}}
"""  # noqa: E501


def numbered(number: int) -> bytes:
    """A picture that shows a number."""
    bits = [number >> place & 1 for place in range(BITS * BITS)]
    cells = np.array(bits, np.uint8).reshape(BITS, BITS) * 255
    raw = io.BytesIO()
    Image.fromarray(np.kron(cells, np.ones((BLOCK, BLOCK), np.uint8))).convert("RGB").save(raw, "JPEG", quality=95)
    return raw.getvalue()


def number_of(raw: bytes) -> int:
    """The number that a picture shows."""
    cells = np.asarray(Image.open(io.BytesIO(raw)).convert("L"))[BLOCK // 2 :: BLOCK, BLOCK // 2 :: BLOCK]
    return sum(int(value > 127) << place for place, value in enumerate(cells.ravel().tolist()))


@dataclass
class Asked:
    """What the server was asked: how often each picture, and those whose shard was made already."""

    root: Path
    texts: list[str]
    times: Counter = field(default_factory=Counter)
    finished: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict) -> str:
        """A caption for the picture of a request."""
        url = body["messages"][0]["content"][1]["image_url"]["url"]
        number = number_of(base64.b64decode(url.partition(",")[2]))
        with self.lock:
            self.times[number] += 1
            if self._made(number // ROWS):
                self.finished.append(number)
        time.sleep(ANSWER_S)
        return chat_server.said(self.texts[number])

    def _made(self, shard: int) -> bool:
        with contextlib.suppress(OSError, ValueError, LookupError):
            place = self.root / stages.FOLDER / stages.RECAPTION / NAME
            items = json.loads((place / stages.LIST).read_text())["items"]
            return (place / f"{items[shard]['key']}.json").is_file()
        return False


@dataclass
class Stage:
    """A command of the project, from cleared ground, and what it left when nobody disturbed it."""

    root: Path
    name: str
    outcome: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 0.0

    def start(self) -> subprocess.Popen:
        """The command, in a process group of its own."""
        words = [sys.executable, "-m", "compclip.data.prepare", "--data", NAME, *STAGES[self.name]]
        with open(self.root / "said.log", "ab") as log:
            return subprocess.Popen(
                words, cwd=self.root, env=environment(ROOT),
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def clear(self) -> None:
        """Take away what the stage makes, and what it remembers."""
        for path in [*(self.root / ".work").rglob(self.name), *(self.root / ".work").glob("answers*")]:
            links.remove(path)
        for path in [*(self.root / "data").glob(f"{NAME}/*"), *(self.root / "data").glob(f"*s/{NAME}.json")]:
            if path.name not in KEPT[self.name]:
                links.remove(path)

    def files(self) -> dict[str, bytes]:
        """All that lies in data/, with the shards and whatever says what is in them, but for what it cost to ask."""
        found = (self.root / "data").rglob("*")
        return {str(p.relative_to(self.root)): _without_costs(p) for p in found if p.is_file() and not _left(p)}

    def made(self) -> int:
        """How many shards are made."""
        return sum(p.name != stages.LIST for p in (self.root / stages.FOLDER / self.name / NAME).glob("*.json"))

    def calm(self) -> None:
        """Run it once."""
        self.clear()
        began = time.perf_counter()
        self._end(self.start())
        self.outcome, self.seconds = self.files(), time.perf_counter() - began

    def life(self, rng: random.Random) -> int:
        """Start it and kill it at a moment: how many shards were made then, or -1 where it came to its end before."""
        process = self.start()
        try:
            process.wait(rng.uniform(0, self.seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return self.made()
        self._end(process)
        return -1

    def _end(self, process: subprocess.Popen) -> None:
        if process.wait():
            raise RuntimeError(f"{self.name}: {(self.root / 'said.log').read_text()[-2000:]}")


def _without_costs(path: Path) -> bytes:
    """A file's bytes; of counts what does not tell whether an answer is new or was kept from an earlier life."""
    if not path.name.startswith("counts."):
        return path.read_bytes()
    lines = (
        [json.loads(line) for line in path.read_text().splitlines()] if path.suffix == ".jsonl" else [read_json(path)]
    )
    return json.dumps([{k: v for k, v in line.items() if k not in COSTS} for line in lines]).encode()


def _left(path: Path) -> bool:
    return bool(LEFT.fullmatch(path.name))


def disturbed(stage: Stage, kills: int, rng: random.Random, asked: Asked) -> dict[str, Any]:
    """Rounds of a stage until it was killed so often; each round ends with a life that nobody disturbs."""
    at, differing, twice, rounds = list[int](), 0, 0, 0
    while len(at) < kills:
        stage.clear()
        asked.times.clear()
        rounds += 1
        while (found := stage.life(rng)) >= 0:
            at.append(found)
            if len(at) == kills:
                stage._end(stage.start())
                break
        differing += stage.files() != stage.outcome
        twice += asked.times.total() - len(asked.times)
    told = {"kills": len(at), "shards_made_when_killed": at, "rounds": rounds, "rounds_that_differ": differing}
    if stage.name == stages.RECAPTION:
        told |= {"questions_twice": twice, "under_way_at_most": PARALLEL * len(at)}
        told["questions_about_finished_shards"] = len(asked.finished)
    return told


def measure(folder: Path, kills: int, seed: int, tars: int = TARS) -> dict[str, Any]:
    """Both stages, each killed so often."""
    texts, found = data_made.captions(tars * ROWS), dict[str, Any]()
    for number in range(tars):
        rows = range(number * ROWS, (number + 1) * ROWS)
        data_made.tar(folder / "tars" / f"{number:05d}.tar", [(f"{i:09d}", numbered(i), "none") for i in rows])
    asked, rng = Asked(folder, texts), random.Random(seed)
    with chat_server.serve(asked.answer) as chat:
        (folder / "params.yaml").write_text(PARAMS.format(url=chat.url, parallel=PARALLEL))
        for name in STAGES:
            stage = Stage(folder, name)
            stage.calm()
            found[name] = {"shards": tars, "seconds": round(stage.seconds, 1)} | disturbed(stage, kills, rng, asked)
            stage.clear()
            stage.calm()
            asked.times.clear()
    return found | {"broken": list(broken(found))}


def broken(found: dict[str, Any]) -> Iterator[str]:
    """What must not be."""
    for name, told in found.items():
        if told["rounds_that_differ"]:
            yield f"{name}: shards differ"
        if told.get("questions_about_finished_shards"):
            yield f"{name}: asked about finished shards"
        if told.get("questions_twice", 0) > told.get("under_way_at_most", 0):
            yield f"{name}: asked twice"
