"""What a model's config may say: all that open_clip's own say, and nothing that it does not know or cannot build."""

from __future__ import annotations

import copy
import dataclasses
import json

import open_clip
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.model import architecture, weights
from tests.test_towers import TINY

RECORD = {"model_cfg": TINY, "preprocess_cfg": {"size": 32, "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}


def changed(path: str, value: object) -> dict:
    """The record with one value at a dotted key."""
    made = copy.deepcopy(RECORD)
    section = made
    *above, last = path.split(".")
    for key in above:
        section = section.setdefault(key, {})
    section[last] = value
    return made


def refused(tmp_path, record: object) -> str:
    """What is said of a config."""
    (tmp_path / "c.json").write_text(record if isinstance(record, str) else json.dumps(record))
    with pytest.raises(UserError) as error:
        architecture.read(tmp_path / "c.json")
    assert "\n" not in str(error.value) and len(str(error.value)) < 1000
    return str(error.value).replace(f"{tmp_path}/", "")


@pytest.mark.parametrize("name", open_clip.list_models())
def test_every_config_of_open_clip_passes(name):
    """Each architecture, and how the pictures of its weights are prepared."""
    architecture.check(open_clip.get_model_config(name), name)
    for tag in open_clip.list_pretrained_tags_by_model(name):
        found = weights.preprocessing(open_clip.pretrained.get_pretrained_cfg(name, tag))
        plain = json.loads(json.dumps(found))
        architecture._check_keys(plain, architecture.PREPROCESS, name, "preprocess_cfg")


def test_the_tables_are_open_clips():
    """A field that open_clip adds is seen here, and not at a user's."""
    multimodal = {"dim_head", "n_queries", "attn_pooler_heads"}
    for rules, declared, more in (
        (architecture.VISION, open_clip.CLIPVisionCfg, set()),
        (architecture.TEXT, open_clip.CLIPTextCfg, set()),
        (architecture.MODEL["multimodal_cfg"], open_clip.CLIPTextCfg, multimodal),
        (architecture.PREPROCESS, open_clip.transform.PreprocessCfg, set()),
    ):
        assert set(rules) == {f.name for f in dataclasses.fields(declared)} | more


@pytest.mark.parametrize(
    "key,value,told",
    [
        ("model_cfg.vision_cfg.layers", 1_000_000_000, "vision_cfg.layers=1000000000: must be a whole number from 1"),
        ("model_cfg.text_cfg.layers", 0, "model_cfg.text_cfg.layers=0: must be a whole number from 1 to 200"),
        ("model_cfg.text_cfg.layers", True, "text_cfg.layers=true: must be"),
        ("model_cfg.vision_cfg.layers", [1, 2, 3], "vision_cfg.layers=[1, 2, 3]: must be a whole number from 1 to 200, or a"),
        ("model_cfg.vision_cfg.width", -1, "vision_cfg.width=-1: must be"),
        ("model_cfg.vision_cfg.mlp_ratio", 1e308, "mlp_ratio=1e+308: must be a number from 0.01 to 64"),
        ("model_cfg.vision_cfg.mlp_ratio", float("nan"), "mlp_ratio=NaN: must be"),
        ("model_cfg.vision_cfg.image_size", [32, 1 << 40], "image_size=[32, 1099511627776]: must be"),
        ("model_cfg.vision_cfg.image_size", 8, "image_size=8: must be at least patch_size=16"),
        ("model_cfg.vision_cfg.patch_size", 33, "image_size=32: must be at least patch_size=33"),
        ("model_cfg.vision_cfg.layers", [1, 1, 1, 1], None),
        ("model_cfg.vision_cfg.ls_init_value", "x", 'ls_init_value="x": must be a number'),
        ("model_cfg.vision_cfg.act_kwargs", {"inplace": True}, "vision_cfg.act_kwargs: unknown key 'inplace'"),
        ("model_cfg.vision_cfg.pool_type", "none", 'pool_type="none": must be "tok" or "avg"'),
        ("model_cfg.vision_cfg.output_tokens", True, "vision_cfg.output_tokens=true: gives no embedding; must be false"),
        ("model_cfg.vision_cfg.timm_model_name", "hf-hub:nobody/it", "timm_model_name=\"hf-hub:nobody/it\": must be a name"),
        ("model_cfg.vision_cfg.timm_model_name", "local-dir:/tmp", "must be a name of timm's, no path and no hub's"),
        ("model_cfg.vision_cfg.heads", 2, "vision_cfg: unknown key 'heads'; did you mean"),
        ("model_cfg.text_cfg.context_length", 2, "context_length=2: must be a whole number from 3 to 8192"),
        ("model_cfg.text_cfg.vocab_size", 10**400, "vocab_size=1000"),
        ("model_cfg.text_cfg.embed_cls", True, "text_cfg.embed_cls=true: needs custom_text"),
        ("model_cfg.text_cfg.hf_model_name", "../models", 'hf_model_name="../models": must be a hub'),
        ("model_cfg.text_cfg.hf_tokenizer_name", "/etc", 'hf_tokenizer_name="/etc": must be a hub'),
        ("model_cfg.text_cfg.tokenizer_mode", "clip", 'tokenizer_mode="clip": must be'),
        ("model_cfg.text_cfg.tokenizer_kwargs", {"trust_remote_code": True}, "tokenizer_kwargs: unknown key 'trust_remote_code'"),
        ("model_cfg.text_cfg.tokenizer_kwargs", {"cache_dir": "/"}, "tokenizer_kwargs: unknown key 'cache_dir'; known: clean"),
        ("model_cfg.text_cfg.tokenizer_kwargs", {"clean": "lowr"}, 'tokenizer_kwargs.clean="lowr": must be "canonicalize"'),
        ("model_cfg.text_cfg.tokenizer_kwargs", [1], "text_cfg.tokenizer_kwargs: [1] is no section"),
        ("model_cfg.embed_dim", None, "model_cfg.embed_dim=null: must be a whole number from 1 to 16384"),
        ("model_cfg.embed_dm", 16, "model_cfg: unknown key 'embed_dm'; did you mean 'embed_dim'"),
        ("model_cfg.cast_dtype", "fp16", "model_cfg: unknown key 'cast_dtype'"),
        ("model_cfg.vision_cfg", [], "model_cfg.vision_cfg: [] is no section"),
        ("model_cfg", 3, "model_cfg: 3 is no section"),
        ("preprocess_cfg.maen", [0, 0, 0], "preprocess_cfg: unknown key 'maen'; did you mean 'mean'"),
        ("preprocess_cfg.interpolation", "lanczos", 'interpolation="lanczos": must be "bicubic" or "bilinear" or "random"'),
        ("preprocess_cfg.resize_mode", "crop", 'resize_mode="crop": must be "shortest" or "longest" or "squash"'),
        ("preprocess_cfg.mean", 0.5, "mean=0.5: must be a list of 3"),
        ("preprocess_cfg.std", [1, 1, 0], "std=[1, 1, 0]: must be a list of 3"),
        ("preprocess_cfg.size", 0, "size=0: must be a whole number from 1 to 4096, or a list of 2"),
        ("preprocess_cfg.mode", "L", 'mode="L": must be "RGB"'),
        ("tokenizer", "/somewhere", 'tokenizer="/somewhere": must be "" or "clip"'),
        ("preproces_cfg", {}, "unknown key 'preproces_cfg'; did you mean 'preprocess_cfg'"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, key, value, told):
    """One line with file, key, value and what it must be."""
    if told is None:
        write_json(tmp_path / "c.json", changed(key, value))
        architecture.read(tmp_path / "c.json")
    else:
        assert f"c.json: {told}" in (said := refused(tmp_path, changed(key, value))) or told in said


@pytest.mark.parametrize(
    "text,told",
    [
        ("", "c.json: not JSON at line 1"),
        ("[]", "c.json: no key 'model_cfg'; not an open_clip config"),
        ("{}", "c.json: no key 'model_cfg'; not an open_clip config"),
        ('{"model_cfg": ' * 100_000, "c.json: "),
        ('{"model_cfg": {"embed_dim": 1' + "0" * 5000 + "}}", "c.json: has a number of thousands of digits"),
        ('{"model_cfg": {}}', "c.json: model_cfg: no key 'embed_dim'; not an open_clip config"),
    ],
)
def test_what_is_no_config(tmp_path, text, told):
    """Texts of every kind."""
    assert refused(tmp_path, text).startswith(told)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=9), v, max_size=4),
    max_leaves=8,
)
KEYS = [f"model_cfg.{tower}.{key}" for tower in ("vision_cfg", "text_cfg") for key in architecture.MODEL[tower]]
KEYS += [f"preprocess_cfg.{key}" for key in architecture.PREPROCESS] + [
    f"model_cfg.{key}" for key in architecture.MODEL
]


@given(st.sampled_from(KEYS), JSON)
def test_any_value_of_any_key_is_taken_or_named(key, value):
    """A config, or a line that names the key."""
    record = changed(key, value)
    try:
        architecture._check_keys(record, architecture.RECORD, "f", "")
        architecture._check_together(record["model_cfg"], "f")
        assert architecture.least_weights(record["model_cfg"]) < 1 << 50
    except UserError as error:
        assert str(error).startswith("f: ") and "\n" not in str(error)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"vision_cfg": {"layers": [1, 1, 2, 1], "width": 8, "image_size": 64}},
        {"vision_cfg": TINY["vision_cfg"] | {"image_size": [32, 64], "attentional_pool": True, "qk_norm": True}},
        {"text_cfg": TINY["text_cfg"] | {"mlp_ratio": 0.01, "block_type": "custom"}, "custom_text": True},
    ],
)
def test_the_least_number_of_weights_is_one(changes):
    """It is below the true one, and near it."""
    cfg = TINY | changes
    kind = open_clip.CustomTextCLIP if cfg.get("custom_text") else open_clip.CLIP
    made = kind(**{k: v for k, v in cfg.items() if k != "custom_text"})
    true = sum(p.numel() for p in made.state_dict().values())
    assert 0.8 * true < architecture.least_weights(cfg) <= true
