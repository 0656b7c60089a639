"""What transformers and diffusers load of a publication has the embeddings of open_clip's model."""

import json
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image
from timm.models import VisionTransformer

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


def load_completely(kind, folder: Path, **options):
    """A model of transformers', of which no tensor is missing or left over."""
    model, info = kind.from_pretrained(folder, output_loading_info=True, **options)
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model.eval()


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

    theirs = transformers.CLIPModel.from_pretrained(folder)
    processor = transformers.CLIPProcessor.from_pretrained(folder)
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
    tower = load_completely(transformers.CLIPTextModel, folder, subfolder="text_encoder")
    length = model.clip.context_length
    ids_BL = tokenizer(TEXTS, padding="max_length", truncation=True, return_tensors="pt").input_ids
    assert ids_BL.shape == (len(TEXTS), length)
    clip_model = transformers.CLIPModel.from_pretrained(folder).eval()
    hidden = tower(input_ids=ids_BL)
    assert largest_difference(hidden.last_hidden_state, clip_model.text_model(input_ids=ids_BL).last_hidden_state) == 0


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
    load_completely(transformers.CLIPModel, folder)
    state = {name: tensor for name, tensor in model.clip.state_dict().items() if name != "logit_bias"}
    renamed = transformers_files.rename_tensors(transformers_files.rename_to_transformers(state))
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


RESNET = {"layers": [1, 1, 1, 1], "width": 8, "image_size": 64, "head_width": 8}


@pytest.mark.parametrize("section,change,message_part", [
    ("vision_cfg", {"timm_model_name": "vit_tiny_patch16_224", "image_size": 32}, "vision_cfg.timm_model_name=vit_"),
    ("vision_cfg", RESNET, "layers=[1, 1, 1, 1]"),
    ("vision_cfg", TINY["vision_cfg"] | {"pool_type": "avg"}, "vision_cfg.pool_type=avg"),
    ("text_cfg", TINY["text_cfg"] | {"no_causal_mask": True}, "text_cfg.no_causal_mask=True"),
    ("text_cfg", TINY["text_cfg"] | {"norm_kwargs": {"eps": 1e-6}}, "text_cfg.norm_kwargs="),
])  # fmt: skip
def test_what_clip_model_cannot_express_is_named(tmp_path, section, change, message_part):
    """The key and its value, in the line that the command prints."""
    model = make_model(tmp_path, TINY)
    model.model_cfg[section] = change
    obstacle = transformers_export.find_obstacle(model)
    assert message_part in obstacle
    assert "CLIPModel cannot express" in transformers_export.list_losses(model, obstacle)[0]


def test_another_tokenizer_and_a_bias_are_named(tmp_path):
    """CLIP's layout alone is no CLIP; a model of a sigmoid loss has the same embeddings, and other logits."""
    write_json(tmp_path / "siglip.json", SIGLIP)
    assert transformers_export.find_obstacle(backbone.create(str(tmp_path / "siglip.json"), tokenizer="clip"))
    model = make_model(tmp_path, TINY | {"init_logit_bias": -10.0})
    assert "CLIPModel has no logit_bias=" in " ".join(transformers_export.list_losses(model, ""))
    assert json.dumps(transformers_export.make_clip_config(model.model_cfg))


# --- the image tower alone, in LLaVA ------------------------------------------------------------------------------------

IMAGE_TOKEN = 63
LANGUAGE = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
            "num_attention_heads": 2, "num_key_value_heads": 2}  # fmt: skip
TOWERS = {
    "clip": (TINY | {"quick_gelu": True}, "default", 4),  # class token left away
    "another text tower": (TINY | {"custom_text": True}, "default", 4),
    "siglip": (SIGLIP, "full", 25),
}


@pytest.fixture(params=TOWERS)
def tower(request, tmp_path) -> tuple[ClipModel, Path, str, int]:
    """A model, its folder, and how LLaVA takes its patches: by which name, and how many."""
    cfg, strategy, patches = TOWERS[request.param]
    model = make_model(tmp_path, cfg) if cfg is not SIGLIP else make_siglip(tmp_path)
    assert transformers_export.find_tower_obstacle(model) == ""
    transformers_export.write_vision_tower(model, tmp_path)
    return model, tmp_path / "vision_tower", strategy, patches


def make_siglip(folder: Path) -> ClipModel:
    """SigLIP's tower as timm builds it, tiny: no class token, a head that looks at all patches, GELU by tanh."""
    write_json(folder / "siglip.json", SIGLIP)
    model = backbone.create(str(folder / "siglip.json"), seed=5, tokenizer="clip")
    model.clip.visual.trunk = VisionTransformer(
        160, 32, embed_dim=32, depth=2, num_heads=2, class_token=False, global_pool="map", num_classes=0,
        act_layer="gelu_tanh",
    )  # fmt: skip
    return model


def penultimate(model: ClipModel, pixels: torch.Tensor) -> torch.Tensor:
    """The patches before the last block of open_clip's tower."""
    features: list[torch.Tensor] = []
    visual = model.clip.visual
    blocks = visual.trunk.blocks if hasattr(visual, "trunk") else visual.transformer.resblocks
    handle = blocks[-1].register_forward_pre_hook(lambda _, inputs: features.append(inputs[0]))
    model.clip.eval().encode_image(pixels)
    handle.remove()
    return features[0] if hasattr(visual, "trunk") else features[0][:, 1:]


@torch.no_grad()
def test_llava_sees_the_towers_patches_and_writes(tower):
    """A tiny LLaVA with the tower in it: layer -2 is open_clip's, and tokens are generated."""
    model, folder, strategy, patches = tower
    vision = load_completely(transformers.AutoModel, folder)
    language = transformers.LlamaConfig(**LANGUAGE)
    config = transformers.LlavaConfig(
        vision_config=vision.config, text_config=language, image_token_index=IMAGE_TOKEN, image_seq_length=patches,
        vision_feature_layer=-2, vision_feature_select_strategy=strategy,
    )  # fmt: skip
    llava = transformers.LlavaForConditionalGeneration(config).eval()
    llava.model.vision_tower = vision
    pictures = make_pictures((300, 260))
    processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    pixels = processor(pictures, return_tensors="pt").pixel_values
    assert largest_difference(pixels, model.pixels(pictures)) <= WITHIN
    features = torch.stack(llava.get_image_features(pixels).pooler_output)
    expected = llava.model.multi_modal_projector(penultimate(model, pixels))
    assert features.shape[1] == patches and largest_difference(features, expected) <= WITHIN
    pooled = vision(pixels).pooler_output
    projected = pooled @ model.clip.visual.proj if strategy == "default" else pooled
    assert largest_difference(projected, model.clip.visual(pixels)) <= 5 * WITHIN
    ids = torch.tensor([[1, *[IMAGE_TOKEN] * patches, 5]])
    written = llava.generate(input_ids=ids, pixel_values=pixels[:1], max_new_tokens=3, min_new_tokens=3)
    assert written.shape == (1, ids.shape[1] + 3)


def test_a_tower_that_transformers_lacks_is_named(tmp_path):
    """A pool of another kind, and a tower of timm that is not SigLIP's."""
    model = make_model(tmp_path, TINY)
    model.model_cfg["vision_cfg"] |= {"pool_type": "avg"}
    assert transformers_export.find_tower_obstacle(model) == "vision_cfg.pool_type=avg"
    cfg = SIGLIP | {"vision_cfg": SIGLIP["vision_cfg"] | {"timm_pool": "avg", "timm_proj": "linear"}}
    write_json(tmp_path / "timm.json", cfg)
    timm_model = backbone.create(str(tmp_path / "timm.json"), seed=5, tokenizer="clip")
    assert transformers_export.find_tower_obstacle(timm_model).startswith("vision_cfg.timm_model_name: its visual.")
