"""The code in a run key: exactly the modules that decide its numbers, and of them what can change a number."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compclip.base import code_hash, plugins
from compclip.config import training_code
from compclip.config.training_code import NOT_NUMERICAL
from tests.pipeline.test_layers import PACKAGE, modules

METHODS = plugins.list_plugins(plugins.METHODS)
UNTRAINED = {"pretrained", "released"}
# A module that joins one of these lists retrains runs with each edit: let it decide a number, or cut the import.
START = {
    "compclip",
    "compclip.methods",
    "compclip.model",
    "compclip.model.clip_model",
    "compclip.model.tokenizers",
}
TRAINING = START | {
    "compclip.data",
    "compclip.interface",
    "compclip.interface.method",
    "compclip.interface.views",
    "compclip.data.images",
    "compclip.data.prepared_dataset",
    "compclip.data.sample",
    "compclip.data.shard_files",
    "compclip.model.local_patches",
    "compclip.model.lora",
    "compclip.model.t5",
    "compclip.model.towers",
    "compclip.text",
    "compclip.text.annotation",
    "compclip.text.annotation_rows",
    "compclip.text.dense_texts",
    "compclip.text.sentences",
    "compclip.text.word_edits",
    "compclip.train",
    "compclip.train.accumulate",
    "compclip.train.batch",
    "compclip.train.composite",
    "compclip.train.context_reading",
    "compclip.train.device_copy",
    "compclip.train.distributed",
    "compclip.train.encode",
    "compclip.train.extras",
    "compclip.interface.features",
    "compclip.train.fine_tuning",
    "compclip.train.gradient_sums",
    "compclip.train.loader",
    "compclip.train.loss_scale",
    "compclip.train.losses",
    "compclip.train.optimiser",
    "compclip.train.phases",
    "compclip.train.text_groups",
    "compclip.train.picture_resizing",
    "compclip.train.region_pooling",
    "compclip.train.region_views",
    "compclip.train.view_maker",
}
AGREEMENT = {"compclip.text.agreement", "compclip.text.inflect"}
SWAPS = AGREEMENT | {
    "compclip.text.swap",
    "compclip.text.blind_language",
    "compclip.text.caption_words",
    "compclip.text.exchangeable_atoms",
    "compclip.text.fitting_words",
    "compclip.text.mended_parse",
    "compclip.text.scene_graph",
    "compclip.text.true_edits",
}
POSITIVES = {
    "compclip.text.conjunct_kinds",
    "compclip.text.conjunct_order",
    "compclip.text.joined_phrases",
    "compclip.text.positives",
}
LISTS = AGREEMENT | {
    "compclip.text.caption_words",
    "compclip.text.fitting_words",
    "compclip.text.mended_parse",
    "compclip.text.wordlists",
}
MASKED = {
    "compclip.methods._kinds",
    "compclip.methods._parts",
    "compclip.text.masked_words",
    "compclip.text.replace",
    "compclip.train.own_rows",
}
CODEBOOK = {"compclip.methods._codebook", "compclip.model.heads"}
DENIALS = {"compclip.text.caption_words", "compclip.text.inflect", "compclip.text.negate", "compclip.text.scene_graph"}
MORE = {  # beside the method's own file
    "pretrained": {"compclip.model.hub_cache"},
    "released": {  # its weights are foreign ones
        "compclip.model.author_layouts",
        "compclip.model.backbone",
        "compclip.model.class_tokens",
        "compclip.model.heads",
        "compclip.model.hub_cache",
        "compclip.model.hub_repositories",
        "compclip.model.model_weights",
        "compclip.model.released_heads",
        "compclip.model.run_weights",
        "compclip.model.towers",
        "compclip.model.rotary_text",
        "compclip.model.weight_archives",
        "compclip.model.model_config",
        "compclip.model.transformers_files",
        "compclip.model.weight_files",
    },
    "ahnpl": SWAPS | MASKED,
    "ce_clip": SWAPS | MASKED,
    "c2lip": {"compclip.train.own_rows"},
    "clic": SWAPS | {"compclip.text.composite_captions", "compclip.methods._parts", "compclip.train.own_rows"},
    "clip_in": {"compclip.model.class_tokens", "compclip.model.rotary_text", "compclip.text.stored_texts"},
    "clove": {
        "compclip.text.scene_graph",
        "compclip.text.replace",
    },
    "codebook_clip": CODEBOOK,
    "con_clip": DENIALS | {"compclip.text.stored_texts"},
    "crepe": SWAPS | {"compclip.text.negate", "compclip.text.replace"},
    "cs_clip": SWAPS | {"compclip.text.replace", "compclip.text.units"},
    "dac": LISTS | {"compclip.text.masked_words"},
    "degla": SWAPS
    | {
        "compclip.text.replace",
        "compclip.text.shuffle",
        "compclip.text.stored_texts",
    },
    "fg_clip": {"compclip.model.heads", "compclip.model.whole_pictures", "compclip.text.stored_texts"},
    "fineclip": {"compclip.model.whole_pictures"},
    "flair": {"compclip.model.heads", "compclip.text.sub_captions"},
    "fsc_clip": SWAPS
    | {
        "compclip.methods._parts",
        "compclip.train.own_rows",
        "compclip.text.replace",
        "compclip.text.shuffle",
    },
    "gnm_clip": {"compclip.text.stored_texts"},
    "hard_positives": SWAPS | POSITIVES | {"compclip.text.replace"},
    "hybrid": SWAPS
    | POSITIVES
    | LISTS
    | {
        "compclip.text.composite_captions",
        "compclip.methods._parts",
        "compclip.train.own_rows",
        "compclip.text.masked_words",
        "compclip.text.negate",
        "compclip.text.replace",
        "compclip.text.shuffle",
        "compclip.text.stored_texts",
        "compclip.text.wordlists",
    },
    "il_clip": CODEBOOK,
    "llip": {"compclip.model.class_tokens", "compclip.model.heads"},
    "labclip": SWAPS | {"compclip.model.heads", "compclip.text.shuffle"},
    "mosaiclip": SWAPS | {"compclip.text.sub_graphs"},
    "negclip": SWAPS,
    "read_clip": SWAPS | {"compclip.train.decoders"},
    "svlc": LISTS | {"compclip.text.masked_words", "compclip.text.stored_texts"},
    "triplet_clip": {"compclip.text.stored_texts"},
}


@pytest.mark.parametrize("method", METHODS)
def test_the_modules_that_decide_the_numbers(method):
    """By name: those of every run, and those of the method."""
    expected = (START if method in UNTRAINED else TRAINING) | MORE.get(method, set()) | {f"compclip.methods.{method}"}
    found_modules = code_hash.find_modules(*training_code.entries(method), without=training_code.left_out(method))
    assert set(found_modules) == expected


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
    """The same before any edit."""
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
    "redaction": ("compclip.base.redact", "from __future__", "EDITED = 1\nfrom __future__"),
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
    """No key changes."""
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
    "a second text rule": ("compclip.text.negate", "return", "yield", {"con_clip", "crepe", "hybrid"}),
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
