"""Embeddings set by hand, images of one colour, and files in the official formats."""

import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from compclip.base import plugins
from compclip.evaluate.benchmark import Benchmark
from compclip.evaluate.embeddings import Embeddings

NAMES = plugins.list_plugins(plugins.BENCHMARKS)


@pytest.fixture
def embeddings() -> Callable[..., Embeddings]:
    """Embeddings from {image: vector}, {text: vector}; vectors are used as they are. Other images are missing."""

    def make(images: Mapping[Any, list[float]], texts: Mapping[str, list[float]], failed: Mapping[Any, str] = {}):  # noqa: B006
        return Embeddings(
            np.array(list(images.values()), dtype=np.float32), np.array(list(texts.values()), dtype=np.float32),
            {str(path): i for i, path in enumerate(images)}, {text: i for i, text in enumerate(texts)},
            {str(path): reason for path, reason in failed.items()},
        )  # fmt: skip

    return make


@pytest.fixture
def dump(tmp_path: Path) -> Callable[[str, Any], Path]:
    """Write a value as JSON, records as JSON lines, or text as it is, below the test's folder."""

    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith((".jsonl", ".jsonlines")) and isinstance(content, list):
            content = "".join(f"{json.dumps(row)}\n" for row in content)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[str], Path]:
    def write(name: str, colour: str = "red") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), colour).save(path)
        return path

    return write


@pytest.fixture(autouse=True)
def declared_metrics(request, monkeypatch):
    """Whatever a test file of one benchmark scores, its module declares: `config check` refuses columns by that."""
    name = request.path.stem.removeprefix("test_")
    declared = getattr(plugins.load_plugin(plugins.BENCHMARKS, name), "METRICS") if name in NAMES else None  # noqa: B009
    score = Benchmark.score

    def checked(self, *args, **kwargs):
        outcomes = score(self, *args, **kwargs)
        undeclared = {m for m in outcomes.metrics if "/" not in m and not any(fnmatchcase(m, d) for d in declared)}
        assert not undeclared
        return outcomes

    if declared is not None:
        monkeypatch.setattr(Benchmark, "score", checked)
