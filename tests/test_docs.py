"""What the documents name is there: files, commands, functions, headings; and the caption that they follow is real."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from compclip.__main__ import COMMANDS, DAILY
from compclip.config import grid, read
from compclip.data import shards
from compclip.data.images import load
from compclip.data.prepared import Prepared
from compclip.launch.profiles import Profile
from compclip.methods import negclip
from compclip.train.views import Maker
from tests.conftest import ROOT

DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TYPED = re.compile(r"^(?:compclip |.*-m compclip[ .])([a-z_]+)\b", re.M)
FOLDERS = "compclip|docs|experiments|perf|slurm|tests"


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code(path: Path) -> list[str]:
    """What stands between backticks or in blocks of a document."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    return [*blocks, *re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))]


def test_the_readme_is_short():
    """What a newcomer reads at once."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_links_lead_somewhere(path):
    """To a file, and to a heading of it."""
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        there = path.parent / name if name else path
        assert there.is_file(), target
        titles = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M) if heading else []
        assert not heading or heading in [re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles]


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_files_are_there(path):
    """Every path of the checkout that stands in code; patterns and placeholders apart."""
    for text in code(path):
        for name in re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w(?![\w/]*[<*{{])", text):
            assert (ROOT / name).exists() or "FILE" in name, name


@pytest.mark.parametrize("path", DOCS, ids=named)
def test_commands_are_there(path):
    """Every command that is typed."""
    typed = [c for text in code(path) for c in TYPED.findall(text)]
    assert {c for c in typed if c not in COMMANDS} == set()


def test_every_daily_command_is_told():
    """And none is left out."""
    told = {c for path in DOCS for text in code(path) for c in TYPED.findall(text)}
    assert told >= DAILY.keys()


def test_every_key_of_a_profile_is_told():
    """In the table of docs/cluster.md."""
    told = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")))
    assert {f.name for f in fields(Profile)} <= told


def followed() -> str:
    """The section that follows a caption."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    return " ".join(text.partition("## One caption")[2].partition("\n## ")[0].split())


def test_functions_are_there():
    """Every dotted name of the followed caption is defined in the module that it names."""
    names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", followed())
    found = [name for name in names if (ROOT / "compclip" / name.partition(".")[0]).is_dir()]
    assert len(found) > 15
    assert [name for name in found if not _defined(name.split("."))] == []


def _defined(parts: list[str]) -> bool:
    """Whether a module, or a class in it, defines the rest of a dotted name."""
    depth = next((i for i in range(len(parts), 0, -1) if _file(parts[:i]).is_file()), 0)
    body = ast.parse(_file(parts[:depth]).read_text(encoding="utf-8")).body if depth else []
    for part in parts[depth:]:
        node = next((n for n in body if getattr(n, "name", None) == part), None)
        if node is None:
            return False
        body = node.body
    return depth > 0


def _file(parts: list[str]) -> Path:
    return (ROOT / "compclip").joinpath(*parts).with_suffix(".py")


def test_the_followed_caption_is_real(project):
    """Source, captioner, and the negatives of two epochs, as the shipped grid's first sample has them."""
    said = followed()
    raw = json.loads((project / "world" / "train.json").read_text())["images"][0]["sentences"][0]["raw"]
    data = project / "data" / "scenes"
    samples = shards.load(data / "samples" / "00000.arrow")
    maker = Maker(Prepared(data), 0, 64, lambda sample: load(project / sample.image))
    cfg, _ = grid.method_config(read.load(ROOT / "params.yaml"), "negclip")
    first, second = (maker.view(0, epoch, negclip.views(cfg, 0)) for epoch in (0, 1))
    for text in (raw, *samples[0].captions, *first.negatives):
        assert f'"{text}"' in said
    assert second.negatives == ("A little purple anchor is below a large blue king.",)
    record = json.loads((project / "world" / "sugarcrepe" / "swap_att.json").read_text())["0"]
    assert f'"{record["caption"]}"' in said
    assert f'"{record["negative_caption"]}"' in said
