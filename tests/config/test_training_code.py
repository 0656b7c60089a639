"""The code in a run key: exactly the modules that decide its numbers, and of them what can change a number."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from compclip.base import code_hash, plugins
from compclip.config import training_code
from compclip.config.training_code import NOT_NUMERICAL
from tests.pipeline.test_layers import PACKAGE, modules

METHODS = plugins.list_plugins(plugins.METHODS)
UNTRAINED = {"pretrained", "released"}


def test_the_file_names_the_code_that_is_shipped():
    """`make numbers` writes it: hashes where the numbers are equal, else a further version as well."""
    assert set(training_code.read_numbers().versions) == set(METHODS), "run `make numbers`"
    for method in METHODS:
        uncovered = training_code.list_uncovered(training_code.hash_training_modules(method))
        assert not uncovered, f"{method}: run `make numbers` and commit the file: {', '.join(uncovered)}"


def test_a_version_is_part_of_the_name(monkeypatch):
    """Of its own method alone; runs from before versions, which had one hash for all modules, count as the first."""
    modules = {name: training_code.hash_training_modules(name) for name in ("clic", "negclip")}
    before = {name: training_code.name_code(name, modules[name]) for name in modules}
    numbers = training_code.read_numbers()
    old_modules = modules["clic"] | {"compclip.train.losses": "old"}
    changed = replace(
        numbers,
        versions=dict(numbers.versions) | {"negclip": numbers.versions["negclip"] + 1},
        older={"clic": code_hash.join_hashes(old_modules)},
    )
    monkeypatch.setattr(training_code, "read_numbers", lambda: changed)
    assert training_code.name_code("negclip", modules["negclip"]) != before["negclip"]
    assert training_code.name_code("clic", modules["clic"]) == before["clic"]
    assert training_code.name_code("clic", old_modules) == before["clic"]
    assert training_code.name_code("clic", old_modules | {"compclip.train.batch": "edited"}) != before["clic"]


def test_what_is_left_out_exists_and_would_be_in():
    """A name of the list that stands for nothing any more goes."""
    entries = {entry for method in METHODS for entry in training_code.entries(method)}
    everything = code_hash.find_modules(*entries)
    for name in NOT_NUMERICAL:
        assert name in everything, name


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Iterator[dict[str, Path]]:
    """A copy of the package, whose code is hashed instead of ours: modules and files."""
    root = tmp_path_factory.mktemp("copy") / "compclip"
    shutil.copytree(PACKAGE, root, ignore=shutil.ignore_patterns("__pycache__"))
    files = {f"compclip.{name}": root / path.relative_to(PACKAGE) for name, path in modules().items()}
    files["compclip"] = root / "__init__.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_hash, "_file", files.get)
        yield files


def hashes() -> dict[str, str]:
    """The code of every method as it lies on the disk now."""
    return {m: training_code.hash_training_code.__wrapped__(m) for m in METHODS}


@pytest.fixture(scope="module")
def original_hashes(copy) -> dict[str, str]:
    return hashes()


def edited(file: Path, old: str, new: str) -> dict[str, str]:
    """The code of every method after an edit, which is undone."""
    text = file.read_text()
    assert old in text, f"{file}: no longer has {old!r}"
    file.write_text(text.replace(old, new, 1))
    try:
        return hashes()
    finally:
        file.write_text(text)


def test_a_docstring_in_any_module(copy, original_hashes):
    """All modules of all methods at once: first lines, and a docstring for each file's end."""
    texts = {file: file.read_text() for file in copy.values()}
    for file, text in texts.items():
        file.write_text(text.replace('"""', '"""In other words: ', 1) + '\n"""The end."""  # a comment\n')
    changed = hashes()
    for file, text in texts.items():
        file.write_text(text)
    assert changed == original_hashes


# Module, text, its replacement.
HARMLESS = {
    "comment": ("compclip.train.losses", "from __future__", "# a word\nfrom __future__"),
    "docstring": ("compclip.train.view_maker", "Makes views of a training set.", "Make the views of a training set."),
    "error text": ("compclip.train.loader", "lower the batch size", "take fewer"),
    "error text of the loop": ("compclip.train.recorder", "the loss is", "oh dear, it is"),
    "annotation": ("compclip.train.fine_tuning", "def total_steps(cfg: Train, per_epoch: int)", "def total_steps(cfg, per_epoch)"),
    "redaction": ("compclip.base.errors", "from __future__", "EDITED = 1\nfrom __future__"),
    "option of a benchmark": ("compclip.benchmarks.retrieval", "from __future__", "EDITED = 1\nfrom __future__"),
    "report page": ("compclip.report.__main__", "from __future__", "EDITED = 1\nfrom __future__"),
    "reading of params.yaml": ("compclip.config.read", "from __future__", "EDITED = 1\nfrom __future__"),
    "progress": ("compclip.train.recorder", "from __future__", "EDITED = 1\nfrom __future__"),
    "lock": ("compclip.runs.lock", "from __future__", "EDITED = 1\nfrom __future__"),
    "maker of shards": ("compclip.prepare.recaption_shards", "from __future__", "EDITED = 1\nfrom __future__"),
    "finished files": ("compclip.train.job", "from __future__", "EDITED = 1\nfrom __future__"),
}  # fmt: skip


@pytest.mark.parametrize("edit", HARMLESS)
def test_an_edit_that_changes_no_number(copy, original_hashes, edit):
    module, old, new = HARMLESS[edit]
    assert edited(copy[module], old, new) == original_hashes


TRAINED = set(METHODS) - UNTRAINED
NUMERICAL = {
    "a loss": ("compclip.train.losses", "def clip(", "def clip(*, unused=0, ", TRAINED),
    "a loss of one method": ("compclip.methods.c2lip", "cfg.lambda_npc * npc", "npc", {"c2lip"}),
    "a loss of some methods": ("compclip.methods._parts", ".mean()", ".sum()", {"ahnpl", "ce_clip", "clic", "fsc_clip", "hybrid"}),
    "the order of samples": ("compclip.train.loader", "WINDOW = 16", "WINDOW = 17", TRAINED),
    "the optimiser": ("compclip.train.optimiser", "eps=cfg.eps", "eps=2 * cfg.eps", TRAINED),
    "a text rule": ("compclip.text.shuffle", "return", "yield", {"degla", "fsc_clip", "hybrid", "labclip"}),
    "the captions of composites": ("compclip.text.composite_captions", "return", "yield", {"clic", "hybrid"}),
    "words of masks": ("compclip.text.masked_words", "return", "yield", {"ahnpl", "ce_clip", "dac", "hybrid", "svlc"}),
    "a second text rule": ("compclip.text.negate", "return", "yield", {"con_clip", "crepe", "hybrid", "omni_negclip", "semclip"}),
    "collation": ("compclip.train.loader", '"grey"', '"black"', TRAINED),
    "reading of shards": ("compclip.data.shard_files", "return", "yield", TRAINED),
    "decoder": ("compclip.train.decoders", "return", "yield", {"read_clip"}),
    "a condition of an error": ("compclip.train.loader", "if batch_size % world:", "if not batch_size % world:", TRAINED),
    "reading of foreign weights": ("compclip.model.weight_files", "return", "yield", {"released"}),
    "the backbone": ("compclip.model.clip_model", "return", "yield", set(METHODS)),
}  # fmt: skip


@pytest.mark.parametrize("edit", NUMERICAL)
def test_an_edit_that_may_change_numbers(copy, original_hashes, edit):
    """The keys of the methods that use it change, and no other."""
    module, old, new, methods = NUMERICAL[edit]
    edited_hashes = edited(copy[module], old, new)
    assert {method for method in METHODS if edited_hashes[method] != original_hashes[method]} == methods
