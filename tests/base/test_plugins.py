"""Methods, benchmarks, sources, captioners, samplers of other packages: found by name, checked as ours."""

import re
import shutil
import subprocess
import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest
from PIL import Image

from compclip.base import code_hash, plugins
from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.config import __main__ as config_command
from compclip.config import read
from compclip.config.training_code import hash_training_code
from compclip.prepare import shard_stages, shard_writer
from compclip.train import __main__ as train_command
from tests import tiny_project
from tests.conftest import ROOT
from tests.shipped_files import SHIPPED_PARAMS, SHIPPED_PROJECT
from tests.tiny_project import at, steps, trained

EXAMPLE = ROOT / "tests" / "example_plugin"
GIVEN = {
    plugins.METHODS: ("margin", "margin_clip.method"), plugins.BENCHMARKS: ("couples", "margin_clip.benchmark"),
    plugins.SOURCES: ("tabbed", "margin_clip.source"), plugins.CAPTIONERS: ("prefixed", "margin_clip.captioner"),
    plugins.SAMPLERS: ("gaussian", "margin_clip.sampler"),
}  # fmt: skip
GOOD = """
from dataclasses import dataclass

TRAINS = True


@dataclass(frozen=True)
class Config:
    width: int = 3

    def __post_init__(self):
        if self.width < 0:
            raise ValueError(f"width={self.width}: must be >= 0")


def views(cfg, step): ...
def loss(f, cfg, step): ...
"""
# A grid with the example's method; WiSE-FT wants two of ours in it.
GRID = ("methods.margin={}", "grid.methods=[pretrained,negclip,fsc_clip,margin]", "report.reference=negclip")


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder into which pip has installed the example package."""
    source, target = tmp_path_factory.mktemp("source") / "example", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--no-compile", "--target")
    done = run("pip", "install", *options, target, source)
    assert done.returncode == 0, done.stderr
    return target


def run(*argv: str | Path, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A module as a Python process that finds this checkout."""
    env = {**tiny_project.environment(), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-m", *argv], capture_output=True, text=True, cwd=folder, env=env)


@pytest.fixture
def on_path(monkeypatch):
    """Puts a folder of packages where Python looks for them, until the test is over."""
    sites: list[Path] = []

    def put(site: Path) -> None:
        sites.append(site)
        monkeypatch.syspath_prepend(str(site))
        _forget()

    yield put
    for name, module in list(sys.modules.items()):
        if any(Path(getattr(module, "__file__", None) or "/").is_relative_to(site) for site in sites):
            del sys.modules[name]
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    plugins._list_entry_points.cache_clear()
    code_hash._file.cache_clear()
    invalidate_caches()


def package(site: Path, name: str, points: dict[str, str], group: str = "compclip.methods", **modules: str) -> None:
    """What pip leaves of a package: its modules, its name, and its entry points."""
    about = site / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("\n".join([f"[{group}]", *(f"{k} = {v}" for k, v in points.items())]))
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)


@pytest.mark.parametrize("kind", GIVEN)
def test_found_by_name(kind, installed, on_path):
    """Beside ours, located without an import, imported when it is named, and gone with its package."""
    name, module = GIVEN[kind]
    assert name not in plugins.list_plugins(kind)
    ours = plugins.list_plugins(kind)
    on_path(installed)
    assert plugins.list_plugins(kind) == sorted([*ours, name])
    assert plugins.locate_plugin(kind, name) == module
    assert module not in sys.modules
    assert plugins.load_plugin(kind, name) is sys.modules[module]


def test_the_command_checks_it(installed, on_path, monkeypatch):
    """`config check` takes its method, and refuses an impossible value in one line; without the package it is unknown."""
    monkeypatch.chdir(SHIPPED_PROJECT)
    with pytest.raises(UserError, match="^params.yaml: unknown method 'margin'; "):
        config_command.main(["check", *GRID])
    on_path(installed)
    assert config_command.main(["check", *GRID]) == 0
    with pytest.raises(UserError, match="^params.yaml: methods.margin.margin=3.0: must be >= 0 and <= 2"):
        config_command.main(["check", *GRID, "methods.margin.margin=3"])


def test_an_edit_of_its_code_is_another_hash(installed, on_path, tmp_path):
    """Of the module itself or of one that it imports; not of its package's others."""
    shutil.copytree(installed, tmp_path / "site")
    on_path(tmp_path / "site")
    module = plugins.locate_plugin(plugins.METHODS, "margin")
    hashes = [code_hash.hash_code(module)]
    for name in ("method", "hinge", "captioner"):
        with open(tmp_path / "site" / "margin_clip" / f"{name}.py", "a") as file:
            file.write("EDITED = 1\n")
        hashes.append(code_hash.hash_code(module))
    assert len(set(hashes[:3])) == 3
    assert hashes[3] == hashes[2]


def test_ours_for_every_method_hold_for_it(installed, on_path, monkeypatch, capfd):
    """The conformance tests take methods by name, other packages' with ours."""
    on_path(installed)
    monkeypatch.chdir(ROOT)
    words = ["-p", "no:cacheprovider", "tests/methods/test_every_method.py", "-k", "margin"]
    assert tiny_project.forked(lambda: run_tests(words)) == 0, capfd.readouterr().out
    assert " passed" in capfd.readouterr().out


def run_tests(words: list[str]) -> None:
    """Run pytest on tests that are collected anew, in a copy of this process."""
    sys.modules.pop("tests.methods.test_every_method", None)
    code = pytest.main(words)
    sys.stdout.flush()
    assert code == 0


def test_its_source_and_captioner_prepare_data(installed, on_path, tmp_path, monkeypatch):
    """The stage `recaption`, as its command."""
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    (tmp_path / "captions.txt").write_text("a.png\ta red star\nno tab here\n")
    (tmp_path / "params.yaml").write_text(
        "data: {web: {source: tabbed, path: captions.txt, images: ., captioner: prefixed, options: {words: 'seen:'}}}\n"
        "methods: {margin: {}}\nbackbones: {b: {model: ViT-B-32}}\n"
        "grid: {methods: [margin], backbones: [b], data: [web], seeds: [0]}\n"
    )
    monkeypatch.chdir(tmp_path)
    on_path(installed)
    assert shard_stages.main(["--data", "web"]) == 0
    (sample,) = shard_writer.load_samples(tmp_path / "data" / "web" / "samples" / "00000.arrow")
    assert (sample.id, sample.captions, sample.width, sample.height) == ("a", ("seen: a red star",), 8, 6)
    counts = read_json(tmp_path / "data" / "web" / "counts.json")
    assert (counts["malformed_lines"], counts["prefixed"]) == (1, 1)


@pytest.mark.parametrize("text,names", [
    ("\nimport nowhere_to_be_found", "broken_module.py:2: ModuleNotFoundError: .*'nowhere_to_be_found'"),
    ("def f(:", "broken_module.py:1: SyntaxError: "), ("import os\nos.nothing", "broken_module.py:2: AttributeError: "),
    ("raise RuntimeError('two\\nlines')", "broken_module.py:1: RuntimeError: two lines"),
    ("import sys; sys.exit('gone')", "broken_module.py:1: SystemExit: gone"), ("", "TRAINS .*Config .*views .*loss"),
    (GOOD.replace("def loss", "def lost"), "no loss"), (GOOD.replace("@dataclass(frozen=True)", ""), "Config"),
    (GOOD.replace("int = 3", "int"), "Config.width"),
])  # fmt: skip
def test_a_module_that_fails(text, names, on_path, tmp_path):
    """One line that names the plug-in, its module and what is wrong, in whatever command names it."""
    package(tmp_path, "broken-pack", {"broken": "broken_module"}, broken_module=text)
    on_path(tmp_path)
    with pytest.raises(UserError, match=f"method 'broken': broken_module: .*{names}") as error:
        plugins.load_plugin(plugins.METHODS, "broken")
    assert "\n" not in str(error.value)


BROKEN_PARAMS = """
data: {web: {source: tabbed, path: a.txt, images: ., captioner: prefixed, options: {words: 'seen:'}}}
methods: {margin: {}}
backbones: {b: {model: ViT-B-32}}
benchmarks: {couples: {path: a.json, images: .}}
grid: {methods: [margin], backbones: [b], data: [web], seeds: [0]}
"""
BROKEN = {  # what a plug-in's function does that it may not, and the command that calls it
    "method": ("def views(cfg, step):\n    return losses.nothing", "compclip.config", ["check"]),
    "source": ("def records(cfg, counts):\n    yield counts.nothing", "compclip.prepare.shard_stages", ["--data", "web"]),
    "captioner": ("def opened(data, cfg):\n    return data.nothing", "compclip.prepare.shard_stages", ["--data", "web"]),
    "benchmark": ("def load(path, images, split=''):\n    return path.nothing", "compclip.evaluate",
                  ["--census", "couples"]),
}  # fmt: skip


@pytest.mark.usefixtures("forked_commands")
@pytest.mark.parametrize("kind", BROKEN)
def test_a_wrong_attribute_is_one_line_and_a_traceback_where_one_asks(kind, installed, on_path, tmp_path):
    """In whatever function of a plug-in it stands, in this process or in one of a pool."""
    text, module, argv = BROKEN[kind]
    site = shutil.copytree(installed, tmp_path / "site")
    path = site / "margin_clip" / f"{kind}.py"
    path.write_text(f"{path.read_text()}\n\n{text}\n")
    line = len(path.read_text().splitlines())
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("a.png\ta red star\n")
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "params.yaml").write_text(BROKEN_PARAMS)
    on_path(site)
    done = run(module, *argv, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert re.search(rf"^error: [^\n]*{path}:{line}: (Attribute|Name)Error: [^\n]* with -v$", done.stderr, re.MULTILINE)
    assert "Traceback" not in done.stderr
    done = run(module, *argv, "-v", folder=tmp_path)
    assert f'File "{path}", line {line}' in done.stderr


@pytest.mark.parametrize("text,override,message", [
    (GOOD, "methods.quoted.width=-1", r"methods.quoted.width=-1: must be >= 0"),
    (GOOD, "methods.quoted.width=far", r"methods.quoted.width='far': must be int; the default is 3"),
    (GOOD.replace("int", "set[int]").replace("3", "frozenset()"), "methods.quoted={}", "quoted_module.Config: "),
    (GOOD.replace("int = 3", "'Undefined' = 3"), "methods.quoted={}", r"methods.quoted: quoted_module.Config: "),
])  # fmt: skip
def test_a_config_that_knows_nothing_of_our_errors(text, override, message, on_path, tmp_path):
    """Its ValueErrors, and types that YAML has not, are one line too."""
    package(tmp_path, "quoted-pack", {"quoted": "quoted_module"}, quoted_module=text)
    on_path(tmp_path)
    with pytest.raises(UserError, match=message) as error:
        read.load_params(SHIPPED_PARAMS, ("methods.quoted={}", override))
    assert "\n" not in str(error.value)


def test_two_packages_of_one_name(on_path, tmp_path):
    """Neither is taken, nor is ours where a package gives its name."""
    package(tmp_path, "first-pack", {"twin": "first_module", "negclip": "first_module"}, first_module=GOOD)
    package(tmp_path, "second-pack", {"twin": "second_module"}, second_module=GOOD)
    on_path(tmp_path)
    both = r"first-pack \(first_module\) and second-pack \(second_module\)|second-pack .* and first-pack "
    with pytest.raises(UserError, match=rf"method 'twin': is given by ({both}).*; uninstall one"):
        plugins.locate_plugin(plugins.METHODS, "twin")
    with pytest.raises(UserError, match=r"method 'negclip': is given by compclip and first-pack \(first_module\)"):
        plugins.load_plugin(plugins.METHODS, "negclip")
    assert plugins.load_plugin(plugins.METHODS, "fsc_clip").__name__ == "compclip.methods.fsc_clip"


def test_a_package_that_is_on_the_path_twice(on_path, tmp_path):
    """An editable install beside a checkout's folder gives the same twice, which is once."""
    for site in (tmp_path / "a", tmp_path / "b"):
        package(site, "same-pack", {"same": "same_module"}, same_module=GOOD)
        on_path(site)
    assert plugins.load_plugin(plugins.METHODS, "same").Config().width == 3


@pytest.mark.parametrize("point,module,message", [
    ("my-method", "odd_module", r"odd-pack: a name is a letter, then letters, digits and _"),
    ("odd", "odd_module:Config", r"odd-pack: 'odd_module:Config' is no module's name"),
])  # fmt: skip
def test_an_entry_point_that_cannot_be_meant(point, module, message, on_path, tmp_path):
    """A name that no params.yaml can hold, or an object of a module: said when it is named, in nobody else's way."""
    package(tmp_path, "odd-pack", {point: module}, odd_module=GOOD)
    on_path(tmp_path)
    with pytest.raises(UserError, match=f"method '{point}': {message}; repair that package"):
        plugins.locate_plugin(plugins.METHODS, point)
    assert plugins.load_plugin(plugins.METHODS, "negclip")
    assert "my-method" not in plugins.list_plugins(plugins.METHODS)


def test_its_method_is_trained_and_its_code_is_in_the_run_key(installed, on_path, project, tmp_path, monkeypatch):
    """As ours are: a cell of the grid, published with its terms logged; an edit of its package gives another key."""
    site, root = tmp_path / "site", tmp_path / "p"
    shutil.copytree(installed, site)
    shutil.copytree(project, root)
    monkeypatch.chdir(root)
    on_path(site)
    overrides = ["methods.margin={}", "grid.methods=[pretrained,margin]"]
    before = at("margin-tiny-scenes-0", *overrides).key
    assert train_command.main(["--cell", "margin-tiny-scenes-0", *overrides]) == 0
    logged = steps(trained(root, "margin-tiny-scenes-0") / "metrics.jsonl")
    assert len(logged) == 10 and all({"clip", "margin"} <= set(row) for row in logged)
    hinge = site / "margin_clip" / "hinge.py"
    hinge.write_text(hinge.read_text() + "\nEDITED = 1\n")
    hash_training_code.cache_clear()
    assert at("margin-tiny-scenes-0", *overrides).key != before
