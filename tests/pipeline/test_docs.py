"""The documents name files, commands, functions and headings that exist, and the caption that they follow is real."""

import ast
import json
import re
import runpy
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import pytest

from compclip import api
from compclip.__main__ import BELOW, COMMANDS, FORMER
from compclip.base.plugins import NEEDS
from compclip.config import grid, listing, read
from compclip.config.__main__ import main
from compclip.config.sections import Params
from compclip.data.images import load_image
from compclip.data.prepared_dataset import PreparedDataset
from compclip.launch.profiles import Profile
from compclip.methods import negclip
from compclip.prepare import shard_writer
from compclip.runs.run_folder import Trained
from compclip.train.view_maker import ViewMaker
from tests.conftest import ROOT
from tests.pipeline.test_layers import ROOMS
from tests.shipped_files import SHIPPED_PARAMS, SHIPPED_PROJECT

PAGES = sorted((ROOT / "docs").glob("*.md"))
README = ROOT / "README.md"
LOG = ROOT / "experiments" / "LOG.md"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
TYPED_COMMAND = re.compile(r"^(?:compclip |.*-m compclip[ .])([a-z_]+)\b", re.M)
FOLDERS = "compclip|docs|experiments|perf|slurm|tests"
LINK = re.compile(r"\]\(([^)]+)\)")


def relative_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read_page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def read_code(path: Path) -> list[str]:
    """Return the texts between backticks, and the code blocks, of a document."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    return [*blocks, *re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))]


@pytest.mark.parametrize("path", [README, *PAGES], ids=relative_name)
def test_a_page_is_short(path):
    """One page for one task, and few of them."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= (70 if path == README else 150)
    assert len(PAGES) <= 26


@pytest.mark.parametrize("path", [README, *PAGES], ids=relative_name)
def test_sentences_are_short_and_plain(path):
    """Of the words outside of code: at most 25 between two stops, none of those that others have to learn."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", text))
    unwanted = r"\b(?:stands?|stood|hangs? on|(?:is|are) told|by itself|is had|mends?|mended)\b"
    assert re.findall(unwanted, text, re.I) == []
    pieces = re.split(r"\n\s*\n|\n(?=[-*#] |\d+\. )|\||(?<=[.!?:;])[\"*)_]*\s", text)
    long_pieces = [piece for piece in pieces if len(re.findall(r"\S*\w\S*", piece)) > 25]
    assert long_pieces == []


def test_the_readme_s_grid_is_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(SHIPPED_PROJECT)  # its base is there
    (block,) = re.findall(r"^```yaml\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert len(block.splitlines()) <= 10
    (tmp_path / "grid.yaml").write_text(block, encoding="utf-8")
    assert main(["check", "--params", str(tmp_path / "grid.yaml")]) == 0


@pytest.mark.parametrize("path", [*DOCUMENTS, LOG, *ROOT.glob("perf/*.md")], ids=relative_name)
def test_links_lead_somewhere(path):
    """To a file, and to a heading in it."""
    for target in LINK.findall(path.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        name, _, heading = target.partition("#")
        linked_file = path.parent / name if name else path
        assert linked_file.is_file(), target
        titles = re.findall(r"^#+ (.*)$", linked_file.read_text(encoding="utf-8"), re.M) if heading else []
        headings = {re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles}
        assert not heading or heading in headings, target


def test_the_log_begins_with_what_holds_today():
    """Each finding of the first page is one line, with the entry that has its command."""
    index = LOG.read_text(encoding="utf-8").partition("\n## ")[0]
    findings = re.findall(r"^- .*$", index, re.M)
    assert len(findings) > 50 and len(index.splitlines()) <= 120
    assert [finding for finding in findings if not re.search(r": \[2026-11-\d\d\]\([^)]*#[^)]+\)$", finding)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=relative_name)
def test_files_exist(path):
    """Every path of the checkout that stands in code, except patterns and placeholders."""
    for text in read_code(path):
        for name in re.findall(rf"(?<![\w/.-])(?:{FOLDERS})/[\w./-]*\w(?![\w/]*[<*{{])", text):
            assert (ROOT / name).exists() or "FILE" in name, name


def test_commands_exist_and_the_daily_ones_are_documented():
    commands = {command for path in DOCUMENTS for text in read_code(path) for command in TYPED_COMMAND.findall(text)}
    assert commands <= COMMANDS.keys() | FORMER.keys() | {name.partition(" ")[0] for name in BELOW}
    assert commands >= COMMANDS.keys()


@pytest.mark.parametrize(
    "page",
    ["README.md", "params.yaml", "experiments/grids/README.md", "experiments/grids/fair_scenes.yaml"]
    + [f"docs/{name}.md" for name in ("scenes", "claims", "field", "report", "sweeps")],
)
def test_a_page_of_the_scenes_says_first_what_they_are_for(page):
    """Numbers of drawings never stand without the sentence that they do not rank methods."""
    text = " ".join((SHIPPED_PROJECT / page).read_text(encoding="utf-8").replace("#", " ").split())
    assert re.search("not (rank|for ranking) methods", text[:3000])


def test_every_key_of_a_profile_is_documented():
    """In the table of docs/cluster.md."""
    assert {field.name for field in fields(Profile)} <= set(re.findall(r"`(\w+)`", read_page("cluster.md")))


def test_every_environment_variable_is_documented():
    """In the tables of docs/security.md; and no variable there is one that nothing reads."""
    sources = [*(ROOT / "compclip").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "slurm").iterdir()]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    variables = set(re.findall(r"COMPCLIP_[A-Z]+(?:_[A-Z]+)*", text))
    assert set(re.findall(r"^\| `(COMPCLIP_\w+)`", read_page("security.md"), re.M)) == variables


def test_every_room_is_documented():
    """The table of docs/architecture.md has each folder of the package in one line, with the floor that the layers have."""
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", read_page("architecture.md"), re.M)
    expected = [(str(floor), room) for floor, rooms in enumerate(ROOMS, 1) for room in rooms]
    assert rows == expected
    assert {room for _, room in rows} == {path.parent.name for path in (ROOT / "compclip").glob("*/__init__.py")}


def read_walkthrough() -> str:
    """Return the section that follows one caption, on one line."""
    text = read_page("architecture.md")
    return " ".join(text.partition("## One caption")[2].partition("\n## ")[0].split())


def test_functions_exist():
    """Every dotted name of the followed caption is defined in the module that it names."""
    names = re.findall(r"`([a-z_]+(?:\.\w+)+)`", read_walkthrough())
    package_names = [name for name in names if (ROOT / "compclip" / name.partition(".")[0]).is_dir()]
    assert len(package_names) > 15
    assert [name for name in package_names if not _is_defined(name.split("."))] == []


def _is_defined(name_parts: list[str]) -> bool:
    """Whether a module, or a class in it, defines the rest of a dotted name."""
    depth = next((i for i in range(len(name_parts), 0, -1) if _file(name_parts[:i]).is_file()), 0)
    body = ast.parse(_file(name_parts[:depth]).read_text(encoding="utf-8")).body if depth else []
    for name in name_parts[depth:]:
        node = next((n for n in body if getattr(n, "name", None) == name), None)
        if node is None:
            return False
        body = node.body
    return depth > 0


def _file(name_parts: list[str]) -> Path:
    return (ROOT / "compclip").joinpath(*name_parts).with_suffix(".py")


def test_the_followed_caption_is_real(project):
    """Source, captioner, and the negatives of two epochs, as the shipped grid's first sample has them."""
    walkthrough = read_walkthrough()
    raw = json.loads((project / "world" / "train.json").read_text())["images"][0]["sentences"][0]["raw"]
    data = project / "data" / "scenes"
    samples = shard_writer.load_samples(data / "samples" / "00000.arrow")
    maker = ViewMaker(PreparedDataset(data), 0, 64, lambda sample: load_image(project / sample.image))
    cfg, _ = grid.method_config(read.load_params(SHIPPED_PARAMS), "negclip")
    first, second = (maker.view(0, epoch, negclip.views(cfg, 0)) for epoch in (0, 1))
    for text in (raw, *samples[0].captions, *first.negatives):
        assert f'"{text}"' in walkthrough
    assert second.negatives == ("A little purple anchor is below a large blue king.",)
    record = json.loads((project / "world" / "sugarcrepe" / "swap_att.json").read_text())["0"]
    assert f'"{record["caption"]}"' in walkthrough
    assert f'"{record["negative_caption"]}"' in walkthrough


def read_public_names() -> dict[str, list[str]]:
    """Return the table of CHANGELOG.md of what is public, by the first word or name of each row."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("## [")[0]
    rows = re.findall(r"^\| (.*?) \| (`.*) \|$", text, re.M)
    return {re.sub(r",.*| with .*", "", what): re.findall(r"`([^`]+)`", names) for what, names in rows}


def test_what_is_public_exists_and_all_of_it_is_named():
    """Commands, sections, files, kinds of plug-ins and names of the API: a row of the CHANGELOG is what the code has."""
    public = read_public_names()
    report_code = ast.walk(ast.parse((ROOT / "compclip/report/report_page.py").read_text(encoding="utf-8")))
    constants = {node.value for node in report_code if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    files = {name for name in constants if re.fullmatch(r"\w+\.(?:html|md|csv|tex|json)", name)}
    assert set(public.pop("files of a report")) == files
    of_the_api = [name for name, value in vars(api).items() if getattr(value, "__module__", "") == api.__name__]
    assert public == {
        "commands": [*COMMANDS, *BELOW],
        "sections of `params.yaml`": [field.name for field in fields(Params)],
        "files of a run": [path.name for path in Trained(Path()).published_files],
        "kinds of plug-ins": [package.rpartition(".")[2] for package in NEEDS],
        "`compclip.api`": [name for name in of_the_api if not name.startswith("_")],
    }


@pytest.mark.parametrize("kind", ["methods", "benchmarks"])
def test_the_page_of_lists_and_the_command_agree(monkeypatch, capsys, kind):
    """The built page has what `compclip list` prints: each plug-in of ours with the first line of its docstring."""
    monkeypatch.chdir(SHIPPED_PROJECT)
    assert listing.main([kind, "--markdown"]) == 0
    table = capsys.readouterr().out
    hooks = runpy.run_path(str(ROOT / "docs" / "site_hooks.py"))
    page = SimpleNamespace(file=SimpleNamespace(src_uri="lists.md"), meta={})
    assert table in hooks["on_page_markdown"](read_page("lists.md"), page)
    for path in sorted((ROOT / "compclip" / kind).glob("[!_]*.py")):
        first = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).splitlines()[0]
        assert f"| `{path.stem}` | {first.rstrip('.')} |" in table
