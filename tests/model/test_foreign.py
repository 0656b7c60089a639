"""Checkpoints, adapters and tokenizers of strangers: opened as what they are, or refused in a line; no code of theirs."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from compclip.base.errors import UserError
from compclip.base.files import read_json, write_json
from compclip.config.sections import Lora
from compclip.model import backbone, clip_model, lora
from tests.model.test_backbone import SIGLIP, _hf_tokenizer, offline  # noqa: F401
from tests.model.test_towers import TINY, make_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    make_model(root).save(root / "saved")
    return root / "saved"


@pytest.fixture
def folder(tiny, tmp_path) -> Path:
    return shutil.copytree(tiny, tmp_path / "folder")


def put(folder: Path, **tensors: torch.Tensor) -> None:
    """Replace tensors of a folder's weights; `_` stands for the dot of their names."""
    state = load_file(folder / clip_model.WEIGHTS)
    named = {name.replace(".", "_"): name for name in state}
    save_file(state | {named[k]: v for k, v in tensors.items()}, folder / clip_model.WEIGHTS, {"activation": "gelu"})


def configure(folder: Path, section: str, **values: object) -> None:
    """Change some keys of a folder's config."""
    config = read_json(folder / clip_model.CONFIG)
    place = config["model_cfg"] if section == "model_cfg" else config.get(section) or config["model_cfg"][section]
    place.update(values)
    write_json(folder / clip_model.CONFIG, config)


def refusal_of(ref: object, **kwargs: str) -> str:
    """The line that a checkpoint is refused with."""
    with pytest.raises(UserError) as error:
        backbone.load(str(ref), **kwargs)
    assert "\n" not in str(error.value) and len(str(error.value)) < 1200
    return str(error.value)


@pytest.mark.parametrize("dtype,kind", [(torch.int8, "int8"), (torch.complex64, "complex64")])
def test_weights_are_floats(folder, dtype, kind):
    """The tensor is named, in a folder and in a file."""
    put(folder, visual_proj=torch.ones(32, 16, dtype=dtype))
    assert f"{clip_model.WEIGHTS}: 'visual.proj': holds {kind}, not floats; convert the file" in refusal_of(folder)
    write_json(folder / "own.json", TINY)
    assert "'visual.proj': holds" in refusal_of(folder / clip_model.WEIGHTS, model=str(folder / "own.json"))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_are_finite(folder, value):
    """One value among all is enough; one that a float32 cannot hold is infinite."""
    weight = torch.ones(32, 16)
    weight[31, 15] = value
    put(folder, visual_proj=weight)
    assert "'visual.proj': holds NaN or infinite weights" in refusal_of(folder)
    put(folder, visual_proj=torch.full((32, 16), 1e300, dtype=torch.float64))
    assert "'visual.proj': holds NaN or infinite weights" in refusal_of(folder)
    put(folder, visual_proj=torch.full((32, 16), 3e38))  # the sum alone is infinite
    backbone.load(folder)


def test_buffers_of_whole_numbers_stay_so(tmp_path):
    """A ResNet counts its batches; floats in their place are refused."""
    vision_cfg = {"layers": [1, 1, 1, 1], "width": 8, "image_size": 64, "head_width": 8}
    make_model(tmp_path, {"vision_cfg": vision_cfg}).save(tmp_path / "rn")
    assert backbone.load(tmp_path / "rn").clip.visual.bn1.num_batches_tracked.dtype == torch.int64
    put(tmp_path / "rn", visual_bn1_num_batches_tracked=torch.tensor(1.0))
    assert "'visual.bn1.num_batches_tracked': holds float32, not whole numbers" in refusal_of(tmp_path / "rn")


def test_a_tensor_of_another_shape_is_named(folder):
    """Name and both shapes; a missing one and one too many as well."""
    put(folder, visual_proj=torch.ones(16, 32))
    assert "1 tensors differ, as 'visual.proj', [16, 32] and not [32, 16]" in refusal_of(folder)
    state = load_file(folder / clip_model.WEIGHTS)
    save_file({k: v for k, v in state.items() if k != "visual.proj"}, folder / clip_model.WEIGHTS)
    assert "as 'visual.proj', which the file lacks" in refusal_of(folder)
    save_file(state | {"other": torch.ones(1)}, folder / clip_model.WEIGHTS)
    assert "as 'other', which the model lacks" in refusal_of(folder)


@pytest.mark.parametrize(
    "section,values,message",
    [("vision_cfg", {"layers": 200, "width": 16384}, "at least"),
     ("text_cfg", {"context_length": 8192, "vocab_size": 4_000_000}, "at least"),
     ("vision_cfg", {"head_width": 64}, "does not describe"), ("text_cfg", {"vocab_size": 1000}, "vocab_size=1000"),
     ("text_cfg", {"tokenizer_kwargs": {"clean": "whitespace"}}, "takes no options"),
     ("preprocess_cfg", {"size": 64}, "preprocess_cfg.size=64"), ("model_cfg", {"multimodal_cfg": {}}, "CoCa")],
)  # fmt: skip
def test_a_config_that_cannot_be_is_refused_before_it_is_built(folder, section, values, message):
    """Sizes against the weights at hand; parts that do not go together; what the towers take."""
    configure(folder, section, **values)
    assert message in refusal_of(folder)


@pytest.mark.parametrize("text", ["3", "[]", "null", '{"embed_dim": 4}', "{"])
def test_a_config_by_path_is_checked_too(tmp_path, text):
    """A backbone's `model` may be a file from anywhere."""
    (tmp_path / "own.json").write_text(text)
    with pytest.raises(UserError, match=r"own.json: "):
        backbone.create(str(tmp_path / "own.json"))


def test_what_is_no_checkpoint_is_not_read_through(tmp_path):
    """A whole disk, a device or a pipe is no checkpoint; random weights are asked for by their name."""
    os.mkfifo(tmp_path / "pipe")
    for ref in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match=f"checkpoint '{ref}': no weights file"):
            backbone.identify_checkpoint(str(ref))
    assert backbone.identify_checkpoint("ViT-B-32::openai") == "ViT-B-32::openai"
    assert "no such weights file" in refusal_of(tmp_path / "pipe", model="ViT-B-32")
    assert "checkpoint 'ViT-B-32::': no weights after '::'; give one of openai, " in refusal_of("ViT-B-32::")
    assert "random" in refusal_of("ViT-B-32::") and "no weights after" in refusal_of("::")


@settings(max_examples=25)
@given(st.data())
def test_a_damaged_folder_loads_or_is_refused_in_a_line(tiny, tmp_path_factory, data):
    """Weights or config cut short, or some bytes changed."""
    name = data.draw(st.sampled_from((clip_model.WEIGHTS, clip_model.CONFIG)))
    raw = bytearray((tiny / name).read_bytes())
    for place in data.draw(st.lists(st.integers(0, min(len(raw), 6000) - 1), max_size=3)):
        raw[place] = data.draw(st.integers(0, 255))
    folder = shutil.copytree(tiny, tmp_path_factory.getbasetemp() / "damaged", dirs_exist_ok=True)
    (folder / name).write_bytes(raw[: data.draw(st.sampled_from((len(raw), len(raw) - 1, len(raw) // 2, 100, 9, 0)))])
    try:
        backbone.load(folder)
    except UserError as error:
        assert str(folder) in str(error)


def test_a_file_holds_tensors_by_name(tmp_path):
    """And not more of them than it has bytes."""
    write_json(tmp_path / "own.json", TINY)
    for content, message in (
        ({"net": {"a": torch.ones(1)}}, "'net' is a dict, not a tensor; give a file of tensors by name"),
        ({1: torch.ones(1)}, "names something by a int"),
        ({"model": {"visual.a": argparse.Namespace()}}, "'visual.a' is a argparse.Namespace, not a tensor"),
        ({"a": torch.ones(1).expand(1 << 30)}, "its tensors are larger than the file"),
        ({"a": torch.ones(1, device="meta")}, "'a' is no plain tensor"),
    ):
        torch.save(content, tmp_path / "w.pt")
        assert message in refusal_of(tmp_path / "w.pt", model=str(tmp_path / "own.json"))


CODE = "import pathlib\npathlib.Path({!r}).touch()\nfrom transformers import PreTrainedTokenizerFast as Own\n"


@pytest.fixture
def siglip(tmp_path, monkeypatch) -> Path:
    """A checkpoint whose folder has a tokenizer, and a module beside it that marks that it was run."""
    monkeypatch.setattr(sys, "stdin", None)
    _hf_tokenizer(tmp_path / "tok")
    write_json(tmp_path / "own.json", SIGLIP)
    backbone.create(str(tmp_path / "own.json"), tokenizer=str(tmp_path / "tok")).save(tmp_path / "saved")
    (tmp_path / "saved" / "own.py").write_text(CODE.format(str(tmp_path / "ran")))
    return tmp_path / "saved"


MAP = {"auto_map": {"AutoTokenizer": [None, "own.Own"], "AutoConfig": "own.Own"}}


@pytest.mark.parametrize(
    "file,content,message",
    [("tokenizer_config.json", MAP, "auto_map asks to run the code that lies beside it; nobody's code is run"),
     ("config.json", MAP, "config.json: auto_map asks to run the code"),
     ("tokenizer_config.json", {"tokenizer_class": "Own"}, "is a Own, a class of its own"),
     ("tokenizer_config.json", {"tokenizer_class": "RagTokenizer"}, "is a RagTokenizer, a class of its own"),
     ("config.json", {"tokenizer_class": "AutoModel"}, "is a AutoModel"), ("tokenizer.json", [], "its tokenizer ")],
)  # fmt: skip
def test_a_tokenizer_with_code_or_a_class_of_its_own_is_refused(siglip, tmp_path, file, content, message):
    """In a checkpoint's folder, and as a backbone's; what it brings is not run, and nobody is asked."""
    write_json(siglip / file, content)
    for name in {"tokenizer_config.json", "tokenizer.json", file}:
        shutil.copy(siglip / name, tmp_path / "tok" / name)
    assert message in refusal_of(siglip)
    with pytest.raises(UserError):
        backbone.create(str(tmp_path / "own.json"), tokenizer=str(tmp_path / "tok"))
    assert not (tmp_path / "ran").exists()


def test_options_of_a_tokenizer_are_known_ones(siglip, tmp_path):
    """Those that say how a text is cleaned pass; the one that would run code does not, with or without a map."""
    configure(siglip, "text_cfg", tokenizer_kwargs={"clean": "canonicalize", "strip_sep_token": False})
    backbone.load(siglip)
    write_json(siglip / "tokenizer_config.json", read_json(siglip / "tokenizer_config.json") | MAP)
    configure(siglip, "text_cfg", tokenizer_kwargs={"trust_remote_code": True})
    assert "text_cfg.tokenizer_kwargs: unknown key 'trust_remote_code'" in refusal_of(siglip)
    assert not (tmp_path / "ran").exists()


def test_a_timm_tower_is_tried_without_weights(siglip):
    """What it takes, what it gives, and how large it is, before it is built."""
    configure(siglip, "vision_cfg", image_size=100)
    configure(siglip, "preprocess_cfg", size=100)
    assert "does not describe an open_clip model: Input height (100) should be divisible by" in refusal_of(siglip)
    configure(siglip, "vision_cfg", image_size=160)
    configure(siglip, "preprocess_cfg", size=160)
    configure(siglip, "model_cfg", embed_dim=32)
    assert "embed_dim=32: vision_cfg gives [64]" in refusal_of(siglip)
    huge = {"timm_model_name": "eva02_enormous_patch14_clip_224", "timm_pool": "token", "timm_proj": "linear"}
    configure(siglip, "vision_cfg", **huge)
    assert "at least; give the model it was trained with" in refusal_of(siglip)


def test_a_tokenizer_without_padding_or_with_too_many_words(siglip):
    """Both would be met by the first batch of texts."""
    configure(siglip, "text_cfg", vocab_size=3)
    state = load_file(siglip / clip_model.WEIGHTS)
    state["text.token_embedding.weight"] = state["text.token_embedding.weight"][:3].contiguous()
    save_file(state, siglip / clip_model.WEIGHTS, {"activation": "gelu"})
    with pytest.raises(UserError, match="gives the id 4, and text_cfg.vocab_size=3"):
        backbone.load(siglip).tokenize(["a star"])
    config = read_json(siglip / "tokenizer_config.json")
    write_json(siglip / "tokenizer_config.json", {k: v for k, v in config.items() if k != "pad_token"})
    write_json(siglip / "tokenizer.json", read_json(siglip / "tokenizer.json") | {"padding": None})
    assert "its tokenizer" in refusal_of(siglip)


@pytest.fixture
def adapter(tmp_path) -> Path:
    """A folder with an adapter of the tiny model."""
    clip = make_model(tmp_path).clip
    lora.inject(clip, Lora(rank=2), ("image", "text"))
    lora.save_and_merge(clip, tmp_path / "adapter")
    return tmp_path / "adapter"


def fits(adapter: Path) -> None:
    """Load an adapter into the model that it was made for."""
    lora.load_adapter(make_model(adapter.parent).clip, adapter)


@pytest.mark.parametrize(
    "change,message",
    [({"r": 1_000_000_000}, "r=1000000000: must be a whole number from 1 to 4096"), ({"r": 3}, "is .*, not of rank 3"),
     ({"lora_alpha": float("nan")}, "lora_alpha=nan: must be a number above 0"),
     ({"use_dora": True}, "use_dora: adapters with it are not supported"),
     ({"rank_pattern": {"x": 3}}, "rank_pattern: adapters with it are not supported")],
)  # fmt: skip
def test_settings_of_an_adapter(adapter, change, message):
    """Its config is a stranger's too; the pattern that it names modules by is not used."""
    write_json(adapter / lora.CONFIG, read_json(adapter / lora.CONFIG) | {"target_modules": "(x+x+)+y"})
    fits(adapter)
    (adapter / lora.CONFIG).write_text(json.dumps(read_json(adapter / lora.CONFIG) | change))
    with pytest.raises(UserError, match=message):
        fits(adapter)


@pytest.mark.parametrize(
    "change,message",
    [(lambda s, n: s | {n: s[n][..., :1].contiguous()}, r"c_fc.lora_A.weight', \[2, 1\] and not"),
     (lambda s, n: s | {n: s[n] * float("nan")}, "holds NaN or infinite weights"),
     (lambda s, n: s | {n: s[n].to(torch.int8)}, "holds int8, not floats"),
     (lambda s, n: {k: v for k, v in s.items() if k != n}, "c_fc.lora_A.weight', which the file lacks"),
     (lambda s, n: {"x": s[n]}, "'x' is no factor of an adapter"),
     (lambda s, n: {"no.such.lora_A.weight": torch.ones(2, 2)}, "not an adapter of this model"),
     (lambda s, n: {}, "holds no factors")],
)  # fmt: skip
def test_factors_of_an_adapter(adapter, change, message):
    """Shapes are not stretched to fit, and numbers are numbers."""
    state = load_file(adapter / lora.WEIGHTS)
    save_file(change(state, "transformer.resblocks.0.mlp.c_fc.lora_A.weight"), adapter / lora.WEIGHTS)
    with pytest.raises(UserError, match=message):
        fits(adapter)
