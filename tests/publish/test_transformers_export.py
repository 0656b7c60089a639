"""What transformers and diffusers load of a publication has the embeddings of open_clip's model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from compclip.base.files import write_json
from compclip.model import backbone, transformers_files
from compclip.model.clip_model import ClipModel
from compclip.publish import transformers_export
from tests.model.test_backbone import SIGLIP
from tests.model.test_towers import TINY

transformers = pytest.importorskip("transformers")
TEXTS = ["a red umbrella", "", "A Blue anchor, left of 2 small green stars' moon!", "naïve café 日本", "word " * 200]
WITHIN = 1e-6
VARIANTS = {
    "gelu": {},
    "quickgelu": {"quick_gelu": True},
    "short": {"text_cfg": TINY["text_cfg"] | {"context_length": 24, "mlp_ratio": 2.0}, "init_logit_bias": -10.0},
}


def make_model(folder: Path, cfg: dict) -> ClipModel:
    """A model of a config with random weights, positions and biases included."""
    write_json(folder / "tiny.json", cfg)
    model = backbone.create(str(folder / "tiny.json"), seed=5)
    with torch.no_grad():
        for parameter in model.clip.parameters():
            if parameter.ndim == 1:  # biases are drawn as zeros
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def make_pictures(size: tuple[int, int]) -> list[Image.Image]:
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)) for _ in range(3)]


def largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


@pytest.fixture(params=VARIANTS)
def exported(request, tmp_path) -> tuple[ClipModel, Path]:
    """A model, and its folder in all formats."""
    model = make_model(tmp_path, TINY | VARIANTS[request.param])
    folder = tmp_path / "published"
    model.save(folder)
    assert transformers_export.find_obstacle(model) == ""
    transformers_export.write_clip_model(model, folder)
    return model, folder


@torch.no_grad()
def test_embeddings_are_equal_in_three_libraries(exported):
    """open_clip by local-dir, CLIPModel and CLIPTextModelWithProjection, from pictures and texts as they are."""
    model, folder = exported
    clip, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    clip.eval(), model.clip.eval()
    pictures = make_pictures((32, 32))
    image_BD = clip.encode_image(torch.stack([preprocess(picture) for picture in pictures]), normalize=True)
    text_BD = clip.encode_text(tokenizer(TEXTS), normalize=True)
    assert largest_difference(image_BD, model.clip.encode_image(model.pixels(pictures), normalize=True)) == 0
    assert largest_difference(text_BD, model.clip.encode_text(model.tokenize(TEXTS), normalize=True)) == 0

    theirs, processor = (
        transformers.CLIPModel.from_pretrained(folder),
        transformers.CLIPProcessor.from_pretrained(folder),
    )
    inputs = processor(text=TEXTS, images=pictures, return_tensors="pt", padding="max_length", truncation=True)
    output = theirs.eval()(**inputs)
    assert largest_difference(output.image_embeds, image_BD) <= WITHIN
    assert largest_difference(output.text_embeds, text_BD) <= WITHIN
    assert theirs.logit_scale.item() == clip.logit_scale.item()

    tower = transformers.CLIPTextModelWithProjection.from_pretrained(folder).eval()
    embeds = torch.nn.functional.normalize(tower(input_ids=inputs.input_ids).text_embeds, dim=-1)
    assert largest_difference(embeds, text_BD) <= WITHIN


@torch.no_grad()
def test_the_text_encoder_of_diffusers_is_the_same_tower(exported):
    """Its folder and the tokenizer's, as a pipeline loads them: every position of every text."""
    model, folder = exported
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder, subfolder="tokenizer")
    loaded = transformers.CLIPTextModel.from_pretrained(folder, subfolder="text_encoder", output_loading_info=True)
    tower, info = loaded
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    length = model.clip.context_length
    ids_BL = tokenizer(TEXTS, padding="max_length", truncation=True, return_tensors="pt").input_ids
    assert ids_BL.shape == (len(TEXTS), length)
    clip_model = transformers.CLIPModel.from_pretrained(folder).eval()
    hidden = tower.eval()(input_ids=ids_BL)
    assert largest_difference(hidden.last_hidden_state, clip_model.text_model(input_ids=ids_BL).last_hidden_state) == 0


def test_tokens_are_open_clips(exported):
    """Up to the padding, which is zeros there and end tokens here."""
    model, folder = exported
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXTS, truncation=True).input_ids
    assert [[i for i in row.tolist() if i] for row in model.tokenize(TEXTS)] == ids


def test_the_note_on_texts_is_true(exported):
    """open_clip straightens quotation marks and reads HTML; transformers' tokenizer takes both as they are."""
    model, folder = exported
    tokenizer = transformers.CLIPTokenizer.from_pretrained(folder)
    for text, plain in (("a “red” star", 'a "red" star'), ("salt &amp; pepper", "salt & pepper")):
        assert torch.equal(model.tokenize([text]), model.tokenize([plain]))
        assert tokenizer(text).input_ids != tokenizer(plain).input_ids


def test_nothing_is_left_and_the_tensors_come_back(exported):
    """CLIPModel misses and refuses no tensor, and our own reader of its format gives the same weights to the bit."""
    model, folder = exported
    _, info = transformers.CLIPModel.from_pretrained(folder, output_loading_info=True)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    state = {name: tensor for name, tensor in model.clip.state_dict().items() if name != "logit_bias"}
    renamed = transformers_files.rename_tensors(transformers_export.rename_to_transformers(state))
    assert renamed.keys() == state.keys() and all(torch.equal(renamed[name], state[name]) for name in state)


@pytest.mark.parametrize("options", [{}, {"resize_mode": "squash", "interpolation": "bilinear"}])
def test_pictures_are_prepared_alike(tmp_path, options):
    """With Pillow: crops, or squashes, as open_clip does, to the bit but one rounding."""
    model = make_model(tmp_path, TINY)
    preprocess = model.preprocess_cfg | options
    transform = open_clip.transform.image_transform_v2(open_clip.transform.PreprocessCfg(**preprocess), is_train=False)
    write_json(tmp_path / "preprocessor_config.json", transformers_export.make_preprocessor_config(preprocess))
    processor = transformers.CLIPImageProcessorPil.from_pretrained(tmp_path)
    for size in ((48, 32), (37, 90)):
        pictures = make_pictures(size)
        ours = torch.stack([transform(picture) for picture in pictures])
        theirs = processor(pictures, return_tensors="pt").pixel_values
        assert largest_difference(ours, theirs) <= WITHIN


@pytest.mark.parametrize(
    "change,message_part",
    [
        (
            {"vision_cfg": {"timm_model_name": "vit_tiny_patch16_224", "image_size": 32}},
            "vision_cfg.timm_model_name=vit_",
        ),
        (
            {"vision_cfg": {"layers": [1, 1, 1, 1], "width": 8, "image_size": 64, "head_width": 8}},
            "layers=[1, 1, 1, 1]",
        ),
        ({"vision_cfg": TINY["vision_cfg"] | {"pool_type": "avg"}}, "vision_cfg.pool_type=avg"),
        ({"text_cfg": TINY["text_cfg"] | {"no_causal_mask": True}}, "text_cfg.no_causal_mask=True"),
        ({"text_cfg": TINY["text_cfg"] | {"norm_kwargs": {"eps": 1e-6}}}, "text_cfg.norm_kwargs="),
    ],
)
def test_what_clip_model_cannot_express_is_named(tmp_path, change, message_part):
    """The key and its value, in the line that the command prints."""
    model = make_model(tmp_path, TINY)
    model.model_cfg.update(change)
    obstacle = transformers_export.find_obstacle(model)
    assert message_part in obstacle
    assert transformers_export.list_losses(model, obstacle)[0].endswith("open_clip's format alone was written")


def test_another_tokenizer_is_named(tmp_path):
    """CLIP's layout alone is no CLIP."""
    write_json(tmp_path / "siglip.json", SIGLIP)
    model = backbone.create(str(tmp_path / "siglip.json"), tokenizer="clip")
    assert transformers_export.find_obstacle(model)


def test_a_bias_is_spoken_of(tmp_path):
    """A model of a sigmoid loss has the same embeddings, and other logits."""
    model = make_model(tmp_path, TINY | {"init_logit_bias": -10.0})
    assert "CLIPModel has no logit_bias=" in " ".join(transformers_export.list_losses(model, ""))
    assert json.dumps(transformers_export.make_clip_config(model.model_cfg))
