"""A model's config from elsewhere: bounded, tried with shapes alone, and open to options that open_clip adds."""

import copy
import dataclasses
import json
import resource

import open_clip
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.model import clip_model, model_config, weight_files
from tests.model.test_towers import TINY

RECORD = {"model_cfg": TINY, "preprocess_cfg": {"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}


def changed(path: str, value: object) -> dict:
    """The record with one value at a dotted key."""
    record = copy.deepcopy(RECORD)
    section = record
    *above, last = path.split(".")
    for key in above:
        section = section.setdefault(key, {})
    section[last] = value
    return record


@pytest.mark.parametrize("name", open_clip.list_models())
def test_every_config_of_open_clip_passes(name):
    """Each architecture, and how the pictures of its weights are prepared."""
    model_config.check_config(open_clip.get_model_config(name), name)
    for tag in open_clip.list_pretrained_tags_by_model(name):
        preprocess = weight_files.select_preprocessing(open_clip.pretrained.get_pretrained_cfg(name, tag))
        assert list(model_config.iterate_section_faults(json.loads(json.dumps(preprocess)))) == []


def test_a_new_option_of_open_clip_passes(tmp_path, monkeypatch):
    """A key that open_clip adds to its configs needs no change here; one that it does not know is named."""

    @dataclasses.dataclass
    class NewerVisionCfg(open_clip.CLIPVisionCfg):
        rope_theta: float = 0.0

    record = changed("model_cfg.vision_cfg.rope_theta", 100.0)
    write_json(tmp_path / "c.json", record)
    cfg = model_config.read_config(tmp_path / "c.json")["model_cfg"]
    with pytest.raises(UserError, match="unexpected keyword argument 'rope_theta'"):
        model_config.count_weights(cfg, "c.json", 1 << 30)
    monkeypatch.setattr(open_clip.model, "CLIPVisionCfg", NewerVisionCfg)
    assert model_config.count_weights(cfg, "c.json", 1 << 30) == model_config.count_weights(TINY, "tiny", 1 << 30)


@pytest.mark.parametrize(
    "changes",
    [{}, {"vision_cfg": {"layers": [1, 1, 2, 1], "width": 8, "image_size": 64}},
     {"vision_cfg": TINY["vision_cfg"] | {"image_size": [32, 64], "attentional_pool": True, "qk_norm": True}},
     {"text_cfg": TINY["text_cfg"] | {"mlp_ratio": 0.01, "block_type": "custom"}, "custom_text": True}],
)  # fmt: skip
def test_weights_are_counted_without_memory(changes):
    """The number is that of the model, random numbers are as before, and no hook is left."""
    cfg = TINY | changes
    state = torch.random.get_rng_state()
    count = model_config.count_weights(cfg, "cfg", 1 << 30)
    assert count == sum(p.numel() for p in clip_model.build_module(cfg).state_dict().values())
    torch.random.set_rng_state(state)
    model_config.count_weights(cfg, "cfg", 1 << 30)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not torch.nn.modules.module._global_parameter_registration_hooks


HUGE = {"width": 16384, "layers": 200}
GRID = {"width": 16384, "image_size": 4096, "patch_size": 1, "pos_embed_type": "sin_cos_2d"}


@pytest.mark.parametrize(
    "changes",
    [{"vision_cfg": TINY["vision_cfg"] | HUGE | {"head_width": 64}}, {"text_cfg": TINY["text_cfg"] | HUGE},
     {"vision_cfg": HUGE | {"layers": [200, 200, 200, 200], "image_size": 64}},
     {"vision_cfg": TINY["vision_cfg"] | GRID}, {"embed_dim": 1 << 22, "vision_cfg": TINY["vision_cfg"] | {"width": 16384}}],
)  # fmt: skip
def test_a_huge_model_is_refused_before_memory_is_used(changes):
    """Within seconds, and a few hundred megabytes at most."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most = 1 << 24
    assert model_config.count_weights(TINY | changes, "cfg", most) > most
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


@pytest.mark.parametrize(
    "key,value,message",
    [("vision_cfg.image_size", 8, "does not describe an open_clip model|gives"),
     ("vision_cfg.output_tokens", True, "vision_cfg: gives no embedding; remove output_tokens"),
     ("vision_cfg.layers", 0.5, "does not describe an open_clip model"),
     ("vision_cfg.heads", 2, "unexpected keyword argument 'heads'"),
     ("vision_cfg.timm_model_name", "no_such_tower", "does not describe an open_clip model"),
     ("embed_dim", None, "does not describe an open_clip model")],
)  # fmt: skip
def test_what_open_clip_cannot_build_is_refused(key, value, message):
    """In one line, with open_clip's reason."""
    with pytest.raises(UserError, match=message) as error:
        model_config.count_weights(changed(f"model_cfg.{key}", value)["model_cfg"], "cfg", 1 << 30)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("key,value,message", [
    ("model_cfg.vision_cfg.layers", 1_000_000_000, "vision_cfg.layers=1000000000: must be a number up to 200"),
    ("model_cfg.vision_cfg.layers", [1, 2, 300], "vision_cfg.layers=300: must be a number up to 200"),
    ("model_cfg.vision_cfg.mlp_ratio", float("nan"), "mlp_ratio=NaN: must be"),
    ("model_cfg.vision_cfg.image_size", [32, 1 << 40], "image_size=1099511627776: must be a number up to 4096"),
    ("model_cfg.vision_cfg.timm_model_name", "hf-hub:nobody/it", "timm_model_name=\"hf-hub:nobody/it\": must be a name"),
    ("model_cfg.vision_cfg.new_option", "/etc/passwd", 'new_option="/etc/passwd": must be a word'),
    ("model_cfg.text_cfg.vocab_size", 10**400, "vocab_size=1000"),
    ("model_cfg.text_cfg.context_length", 10_000, "context_length=10000: must be a number up to 8192"),
    ("model_cfg.text_cfg.vocab_size", None, "text_cfg.vocab_size=null: must be a whole number"),
    ("model_cfg.text_cfg.hf_model_name", "../models", 'hf_model_name="../models": must be a hub'),
    ("model_cfg.text_cfg.hf_tokenizer_name", "/etc", 'hf_tokenizer_name="/etc": must be a hub'),
    ("model_cfg.text_cfg.tokenizer_kwargs", {"trust_remote_code": True}, "tokenizer_kwargs: unknown key 'trust_remote_code'"),
    ("model_cfg.vision_cfg", [], "model_cfg: vision_cfg: [] is no section"),
    ("preprocess_cfg", 3, "preprocess_cfg: 3 is no section"),
    ("preprocess_cfg.size", 5000, "size=5000: must be a number up to 4096"),
    ("tokenizer", "/somewhere", 'tokenizer="/somewhere": must be "" or "clip"'),
])  # fmt: skip
def test_what_is_refused(tmp_path, key, value, message):
    """One line with file, key, value and what it must be."""
    (tmp_path / "c.json").write_text(json.dumps(changed(key, value)))
    with pytest.raises(UserError) as error:
        model_config.read_config(tmp_path / "c.json")
    assert message in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 1000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=9), v, max_size=4),
    max_leaves=8,
)
KEYS = [f"model_cfg.{section}.{key}" for section in ("vision_cfg", "text_cfg") for key in ("width", "layers", "name")]
KEYS += ["preprocess_cfg.mean", "preprocess_cfg.size", "model_cfg.embed_dim", "model_cfg.vision_cfg", "model_cfg.other"]


@given(st.sampled_from(KEYS), JSON)
def test_any_value_of_any_key_is_taken_or_named(key, value):
    """A config, or a line that names the key."""
    try:
        model_config.check_config(changed(key, value)["model_cfg"], "f")
    except UserError as error:
        assert str(error).startswith("f: ") or str(error).startswith("f.") and "\n" not in str(error)
