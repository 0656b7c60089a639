"""What code a result depends on: the import closure, by hand on a small package, and against what importing really runs."""

import builtins
import importlib
import json
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest

from compclip.base import code_hash, plugins
from compclip.base.errors import UserError
from compclip.config import plan
from tests import tiny_project

FILES = {
    "__init__.py": "from handmade import early",
    "early.py": "",
    "method.py": """
import json, handmade.plain, elsewhere
from typing import TYPE_CHECKING
import typing
from compclip.base import errors
from handmade.module import NAME as other
from . import near
from .sub.deep import value
from handmade.star import *
if TYPE_CHECKING:
    from handmade import for_types
    if value:
        from handmade import for_types_too
else:
    from handmade import at_runtime
if typing.TYPE_CHECKING:
    import handmade.for_types
if not TYPE_CHECKING:
    import handmade.also_at_runtime
def function():
    from handmade.inner import thing
    try:
        import handmade.tried
    except ImportError:
        import handmade.fallback
    else:
        import handmade.otherwise
    finally:
        import handmade.at_last
    with open("x") as file:
        for line in file:
            while line:
                import handmade.nested
    match other:
        case 1:
            import handmade.matched
class Class:
    async def method(self):
        async with self:
            from handmade import of_a_class
""",
    "sub/__init__.py": "from . import of_package",
    "sub/of_package.py": "",
    "sub/deep.py": "from .. import above\nfrom ..sub2 import sideways\nvalue = 1",
    "sub2/__init__.py": "",
    "sub2/sideways.py": "import handmade.method",  # a circle
    "sub2/not_imported.py": "",
}
PLAIN = ("plain", "module", "near", "star", "at_runtime", "also_at_runtime", "inner", "tried", "fallback", "otherwise",
         "at_last", "nested", "matched", "of_a_class", "above", "for_types", "for_types_too")  # fmt: skip


@pytest.fixture
def handmade(tmp_path, monkeypatch) -> Path:
    """A package, and another one that it imports."""
    for name, text in (FILES | {f"{name}.py": "NAME = 1" for name in PLAIN}).items():
        (tmp_path / "handmade" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "handmade" / name).write_text(text)
    (tmp_path / "elsewhere.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "handmade"
    code_hash._file.cache_clear()


def test_the_closure_of_a_package_by_hand(handmade):
    """Imports at any depth and relative ones, the packages around them, of its own package and ours; no others."""
    modules = code_hash.find_modules("handmade.method")
    below = {"early", "method", "sub", "sub.of_package", "sub.deep", "sub2", "sub2.sideways", *PLAIN}
    expected = {f"handmade.{name}" for name in below - {"for_types", "for_types_too"}}
    assert set(modules) == expected | {"handmade", "compclip", "compclip.base", "compclip.base.errors"}
    assert modules["handmade"] == handmade / "__init__.py" and modules["handmade.method"] == handmade / "method.py"
    assert list(modules) == sorted(modules)


def test_nothing_of_it_is_imported(handmade):
    """To know what training depends on costs none of training's imports, nor may another package's code run."""
    (handmade / "sub" / "deep.py").write_text("raise SystemExit('imported')")
    assert "handmade.sub.deep" in code_hash.find_modules("handmade.method")
    assert not [name for name in sys.modules if name.startswith("handmade")]


def test_an_entry_of_another_package_is_followed_into_it(handmade):
    """Where ours alone is asked for, other packages stay outside."""
    (handmade / "early.py").write_text("import elsewhere")
    both = code_hash.find_modules("handmade.early", "elsewhere")
    assert {"handmade", "handmade.early", "elsewhere"} == set(both)
    assert set(code_hash.find_modules("handmade.early")) == {"handmade", "handmade.early"}


def test_the_digest_sees_every_file_of_the_closure_and_no_other(handmade):
    """A statement more in any of them, one by one; a new import; a file that nothing imports changes nothing."""
    before, files = code_hash.hash_code("handmade.method"), code_hash.find_modules("handmade.method")
    seen = {before}
    own_files = [file for name, file in files.items() if name.startswith("handmade")]
    for file in own_files:
        text = file.read_text()
        file.write_text(f"{text}\nEDITED = 1\n")
        seen.add(code_hash.hash_code("handmade.method"))
        file.write_text(text)
    assert len(seen) == 1 + len(own_files)
    (handmade / "sub2" / "not_imported.py").write_text("x = 1")
    assert code_hash.hash_code("handmade.method") == before
    (handmade / "sub" / "of_package.py").write_text("import handmade.sub2.not_imported")
    assert "handmade.sub2.not_imported" in code_hash.find_modules("handmade.method")


def test_words_beside_a_module_are_part_of_it(handmade):
    """A TOML file of a module's name: an edit changes the hash of that module and no other's."""
    (handmade / "early.toml").write_text("colours = 'red blue'")
    before = code_hash.hash_modules("handmade.method")
    (handmade / "early.toml").write_text("colours = 'red green'")
    after = code_hash.hash_modules("handmade.method")
    assert [name for name in before if before[name] != after[name]] == ["handmade.early"]


def test_an_entry_that_is_no_module(handmade):
    for name in ("handmade.methd", "no_such_package", "handmade.method.Class"):
        with pytest.raises(UserError, match=f"{name}: no such module; install its package or correct the name"):
            code_hash.find_modules(name)


ENTRIES = (
    *plan.ENTRIES.values(),
    *(plugins.locate_plugin(package, name)
      for package in (plugins.METHODS, plugins.BENCHMARKS, plugins.SOURCES, plugins.CAPTIONERS)
      for name in plugins.list_plugins(package)),
)  # fmt: skip
HEAVY = {"torch", "numpy", "omegaconf", "spacy", "mlflow"}


def find_closures(file: Path) -> None:
    """Write what the entries hold, and which of some heavy packages were imported for it."""
    for name in [name for name in sys.modules if name.partition(".")[0] in HEAVY]:
        del sys.modules[name]
    closures = {entry: sorted(code_hash.find_modules(entry)) for entry in ENTRIES}
    file.write_text(json.dumps([closures, sorted(HEAVY & set(sys.modules))]))


def note_imports(file: Path) -> None:
    """Import all entries anew, and write which of our modules each of them imports on the way."""
    imported: dict[str, set[str]] = {}
    real_import = builtins.__import__

    def noting_import(name, globals=None, locals=None, fromlist=(), level=0):
        module = real_import(name, globals, locals, fromlist, level)
        importer = (globals or {}).get("__name__", "")
        if importer.startswith("compclip"):
            base = resolve_name("." * level + name, globals["__package__"]) if level else name
            names = {base, *(f"{base}.{member}" for member in fromlist or ())}
            imported.setdefault(importer, set()).update(n for n in names & set(sys.modules) if n.startswith("compclip"))
        return module

    for name in [name for name in sys.modules if name.startswith("compclip")]:
        del sys.modules[name]
    builtins.__import__ = noting_import
    for entry in ENTRIES:
        importlib.import_module(entry)
    file.write_text(json.dumps({name: sorted(names) for name, names in imported.items()}))


def test_it_holds_all_that_importing_the_entry_loads(tmp_path):
    """Of every stage and every plug-in; found without importing a package of others or a module of the closure.

    A closure holds an entry, and with each module all that this one imports: so all that importing the entry loads.
    """
    assert tiny_project.forked(lambda: find_closures(tmp_path / "closures.json")) == 0
    closures, heavy = json.loads((tmp_path / "closures.json").read_text())
    assert heavy == []
    assert tiny_project.forked(lambda: note_imports(tmp_path / "imported.json")) == 0
    imported = json.loads((tmp_path / "imported.json").read_text())
    assert imported.keys() >= set(plan.ENTRIES.values())
    for entry, closure in closures.items():
        assert entry in closure
        for name in closure:
            assert set(imported.get(name, ())) <= set(closure), (entry, name)
