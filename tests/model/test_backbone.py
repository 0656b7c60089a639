"""Where models come from: activations that must fit, foreign files, tokenizers and hubs that are not at hand."""

import open_clip
import pytest
import torch
from safetensors.torch import load_file

from compclip.base.errors import UserError
from compclip.base.files import read_json, write_json
from compclip.config.sections import Train
from compclip.model import __main__ as model_command
from compclip.model import backbone, clip_model, hub_cache, tokenizers, towers
from compclip.model.clip_model import ClipModel
from compclip.train import optimiser
from tests.model.test_towers import TEXTS, TINY

SIGLIP = {
    "embed_dim": 64, "init_logit_bias": -10, "custom_text": True,
    "vision_cfg": {"image_size": 160, "timm_model_name": "test_vit", "timm_pool": "map", "timm_proj": "none"},
    "text_cfg": {"context_length": 16, "vocab_size": 1000, "hf_tokenizer_name": "nobody/tiny", "width": 32, "heads": 2,
                 "layers": 2, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No hub, and an empty cache."""
    monkeypatch.setattr(hub_cache.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub_cache.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


def make_model(folder, kind: str, name: str = "", **kwargs) -> ClipModel:
    """A tiny model: gelu, quickgelu or siglip."""
    cfg = {"gelu": TINY, "quickgelu": TINY | {"quick_gelu": True}, "siglip": SIGLIP}[kind]
    path = folder / f"{name or kind}.json"
    write_json(path, cfg)
    return backbone.create(str(path), seed=2, tokenizer="clip" if kind == "siglip" else "", **kwargs)


def pixels(model) -> torch.Tensor:
    return torch.randn(2, 3, model.image_size, model.image_size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", ["gelu", "quickgelu", "siglip"])
def test_saved_checkpoint_in_plain_open_clip_gives_our_bits(tmp_path, kind):
    """Both encoders, bit for bit, in open_clip and here again, the activation among what is compared."""
    model = make_model(tmp_path, kind)
    model.save(tmp_path / "saved")
    plain = open_clip.create_model(f"local-dir:{tmp_path / 'saved'}").eval()
    again = backbone.load(tmp_path / "saved")
    image, text = pixels(model), model.tokenize([*TEXTS, "word " * 100])
    for clip in (model.clip, again.clip):
        clip.eval()
        assert torch.equal(towers.encode_images(clip, image)[0], plain.encode_image(image, normalize=True))
        assert torch.equal(towers.encode_texts(clip, text)[0], plain.encode_text(text, normalize=True))
    assert torch.equal(again.tokenize(TEXTS), model.tokenize(TEXTS))


def test_files_and_folders_tell_their_activation(tmp_path):
    """One that is stated and fits changes nothing; another is refused, of a folder, its config, and a file out of it."""
    model, folder, moved = make_model(tmp_path, "quickgelu"), tmp_path / "saved", tmp_path / "moved.safetensors"
    model.save(folder)
    moved.write_bytes((folder / clip_model.WEIGHTS).read_bytes())
    assert backbone.load(folder, activation="quickgelu").model_cfg == model.model_cfg
    make_model(tmp_path, "quickgelu", weights=str(moved))
    with pytest.raises(UserError, match="trained with gelu .*computes quickgelu"):
        backbone.load(folder, activation="gelu")
    with pytest.raises(UserError, match="trained with gelu .*computes quickgelu"):
        make_model(tmp_path, "quickgelu", weights=str(folder), activation="gelu")
    with pytest.raises(UserError, match="moved.safetensors: trained with quickgelu .*header.*computes gelu"):
        make_model(tmp_path, "gelu", weights=str(moved))
    write_json(folder / clip_model.CONFIG, {"model_cfg": TINY, "preprocess_cfg": {}})
    with pytest.raises(UserError, match="trained with quickgelu"):
        backbone.load(folder)


def test_foreign_file_must_say_its_activation_where_the_name_does_not(tmp_path, monkeypatch):
    """A plain name that also exists with -quickgelu asks, and the answer is checked."""
    monkeypatch.setattr(open_clip, "list_models", lambda: ["twin", "twin-quickgelu"])
    state = make_model(tmp_path, "gelu", "twin").clip.state_dict()
    torch.save(state, tmp_path / "w.pt")
    for activation, message in (("", "does not say with which activation.*twin-quickgelu"),
                                ("quickgelu", "trained with quickgelu .*give model twin-quickgelu"),
                                ("gulu", "unknown activation 'gulu'; did you mean 'gelu'")):  # fmt: skip
        with pytest.raises(UserError, match=message):
            make_model(tmp_path, "gelu", "twin", weights=str(tmp_path / "w.pt"), activation=activation)
    torch.save(state | {"logit_bias": torch.tensor(-7.5)}, tmp_path / "w.pt")  # as C2LIP tunes CLIP: the bias is kept
    loaded = make_model(tmp_path, "gelu", "twin", weights=str(tmp_path / "w.pt"), activation="gelu").clip.state_dict()
    assert loaded.pop("logit_bias").item() == -7.5 and all(torch.equal(v, state[k]) for k, v in loaded.items())


def test_openai_archive_is_quickgelu(tmp_path):
    """OpenAI's TorchScript file loads by path, its sizes left out, and only into a QuickGELU model."""
    model = make_model(tmp_path, "quickgelu")
    archive = torch.nn.Module()
    archive.register_buffer("input_resolution", torch.tensor(32))
    for name, tensor in model.clip.state_dict().items():
        place = archive
        *parents, leaf = name.split(".")
        for parent in parents:
            if not hasattr(place, parent):
                place.add_module(parent, torch.nn.Module())
            place = getattr(place, parent)
        place.register_buffer(leaf, tensor)
    torch.jit.script(archive).save(str(tmp_path / "tiny.pt"))
    loaded = make_model(tmp_path, "quickgelu", weights=str(tmp_path / "tiny.pt"))
    assert torch.equal(loaded.clip.encode_image(pixels(model)), model.clip.encode_image(pixels(model)))
    with pytest.raises(UserError, match="OpenAI's archive.*computes gelu"):
        make_model(tmp_path, "gelu", weights=str(tmp_path / "tiny.pt"))


@pytest.mark.parametrize("kwargs,names", [
    ({"model": "ViT-B-32-quickgelu", "weights": "openai"},
     "open_clip_model.safetensors.*timm/vit_base_patch32_clip_224.openai.*snapshots"),
    ({"model": "ViT-B-16", "weights": "datacomp_xl_s13b_b90k"}, "laion/CLIP-ViT-B-16-DataComp.XL-s13B-b90K"),
    ({"model": "ViT-B-32", "weights": "laion400m_e32"}, "ViT-B-32-quickgelu"),
    ({"model": "ViT-B-16-SigLIP"}, "tokenizer.json.*timm/ViT-B-16-SigLIP.*tokenizer: clip"),
    ({"model": "ViT-B-16-SigLIP", "tokenizer": "no/where"}, "'no/where'.*tokenizer.json"),
    ({"model": "ViT-B-32", "tokenizer": "no/where"}, "CLIP's own tokenizer"),
    ({"model": "hf-hub:nobody/nothing"}, "hf-hub:nobody/nothing"),
    ({"model": "hf-hub:"}, "hf-hub:OWNER/NAME"),
    ({"model": "local-dir:no/where"}, "no/where"),
])  # fmt: skip
def test_what_cannot_be_fetched_is_named_with_its_place(kwargs, names):
    """One line: file, repository, where to put it."""
    with pytest.raises(UserError, match=names) as caught:
        backbone.create(**kwargs)
    assert "\n" not in str(caught.value)


def test_stand_in_fits_the_vocabulary_and_is_recorded(tmp_path):
    """All ids are within it, the end fills up, and the checkpoint says so; spans count from position 0."""
    model = make_model(tmp_path, "siglip")
    ids = model.tokenize(["a star", "", "ünïcode ✂ <start_of_text> 42 " * 9])
    assert int(ids.max()) < 1000 and ids.shape == (3, 16)
    assert ids[1].tolist() == [1] * 16 and ids[2, -1] == 1
    assert model.starts == 0 and ids[0, model.count_tokens("a star")] == 1
    mask = towers.mask_own_tokens(ids[:2], 16, model.clip.layout)
    assert mask.sum(1).tolist() == [model.count_tokens("a star") + 1, 1]
    model.save(tmp_path / "saved")
    assert read_json(tmp_path / "saved" / clip_model.CONFIG)["tokenizer"] == tokenizers.STAND_IN
    assert backbone.load(tmp_path / "saved").tokenizer.record == tokenizers.STAND_IN


def _hf_tokenizer(folder, words="<unk> </s> a red star", template="$A </s>", **marks):
    """A small tokenizer as a hub has it: words, then by default </s>, which also pads."""
    transformers, library = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    numbers = {word: number for number, word in enumerate(words.split())}
    marks = marks or {"eos_token": "</s>", "pad_token": "</s>", "unk_token": "<unk>"}
    tokenizer = library.Tokenizer(library.models.WordLevel(numbers, marks["unk_token"]))
    tokenizer.pre_tokenizer = library.pre_tokenizers.Whitespace()
    special_tokens = [(mark, numbers[mark]) for mark in set(marks.values())]
    tokenizer.post_processor = library.processors.TemplateProcessing(template, special_tokens=special_tokens)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(str(folder))


def test_tokenizer_from_a_folder_travels_with_the_checkpoint(tmp_path):
    """Its layout is found out, the checkpoint's folder holds it, and plain open_clip reads it from there."""
    _hf_tokenizer(tmp_path / "tok")
    write_json(tmp_path / "own.json", SIGLIP)
    model = backbone.create(str(tmp_path / "own.json"), tokenizer=str(tmp_path / "tok"))
    assert model.tokenize(["a red star"])[0].tolist() == [2, 3, 4] + [1] * 13
    assert model.clip.layout == tokenizers.TokenLayout(starts=0, end=1) and model.count_tokens("a red") == 2
    model.save(tmp_path / "saved")
    plain = open_clip.get_tokenizer(f"local-dir:{tmp_path / 'saved'}")
    for again in (backbone.load(tmp_path / "saved").tokenizer, plain):
        assert torch.equal(again(["a red star"]), model.tokenize(["a red star"]))


def test_the_layout_of_clips_is_not_that_of_its_tokenizer(tmp_path):
    """BERT's writes [CLS] text [SEP]; CLIPS reads [BOS] text [EOS], and [CLS] at the last position."""
    marks = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "BOS", "EOS", "CLS", "SEP")}
    words = " ".join([*marks.values(), "a red star"])
    _hf_tokenizer(tmp_path / "tok", words, "[CLS] $A [SEP]", **marks)
    text_cfg = SIGLIP["text_cfg"] | {"context_length": 8, "tokenizer_mode": "clips", "proj_bias": False}
    write_json(tmp_path / "clips.json", TINY | {"text_cfg": text_cfg})
    model = backbone.create(str(tmp_path / "clips.json"), tokenizer=str(tmp_path / "tok"))
    ids = model.tokenize(["a red star", "a"])
    assert ids.tolist() == [[2, 6, 7, 8, 3, 0, 0, 4], [2, 6, 3, 0, 0, 0, 0, 4]]
    assert model.clip.layout == tokenizers.TokenLayout(starts=1, end=3)
    assert towers.mask_own_tokens(ids, 8, model.clip.layout).sum(1).tolist() == [4, 2]


def test_an_architecture_is_read_without_weights(tmp_path):
    """From a folder whose weights are gone, a config file and a name; an unknown one is told with close matches."""
    model = make_model(tmp_path, "gelu")
    model.save(tmp_path / "saved")
    (tmp_path / "saved" / clip_model.WEIGHTS).unlink()
    assert backbone.read_architecture(f"local-dir:{tmp_path / 'saved'}") == model.model_cfg
    write_json(tmp_path / "small.json", model.model_cfg)
    assert backbone.read_architecture(str(tmp_path / "small.json")) == model.model_cfg
    assert backbone.read_architecture("ViT-B-32")["embed_dim"] == 512
    with pytest.raises(UserError, match="unknown model 'ViT-B-33'; did you mean"):
        backbone.read_architecture("ViT-B-33")
    with pytest.raises(UserError, match="hf-hub:nobody/nothing: cannot fetch it"):
        backbone.read_architecture("hf-hub:nobody/nothing")


def test_commands_read_a_hub_repository_from_its_cache(tmp_path, monkeypatch):
    """The cache's documented layout is enough without a network."""
    model = make_model(tmp_path, "gelu")
    repository = tmp_path / "home" / "hub" / "models--nobody--tiny"
    model.save(repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    (tmp_path / "params.yaml").write_text(
        "grid: {methods: [pretrained], backbones: [there], data: [d], seeds: [0]}\nmethods: {pretrained: {}}\n"
        "backbones: {there: {model: 'hf-hub:nobody/tiny'}}\n"
        "data: {d: {source: coco, path: x, images: y, captioner: none}}\n"
    )
    monkeypatch.setattr(hub_cache.constants, "HF_HUB_CACHE", str(tmp_path / "home" / "hub"))
    monkeypatch.chdir(tmp_path)
    assert model_command.main(["--backbone", "there"]) == 0
    saved = load_file(tmp_path / "models" / "there" / clip_model.WEIGHTS)
    assert all(torch.equal(v, saved[k]) for k, v in model.clip.state_dict().items())


@pytest.mark.parametrize("kind", ["gelu", "siglip"])
def test_frozen_towers_are_known_by_open_clips_names(tmp_path, kind):
    """The image tower is `visual.`, the rest is text but for scale and bias, which always may move."""
    model = make_model(tmp_path, kind)
    model.add_bias(-10.0)
    names = {name for name, _ in model.clip.named_parameters()}
    image, scale = {name for name in names if name.startswith("visual.")}, {"logit_scale", "logit_bias"}
    for trainable, expected in (("image", image | scale), ("text", names - image), ("none", scale)):
        optimiser.freeze(model.clip, Train(trainable=trainable))
        assert {name for name, p in model.clip.named_parameters() if p.requires_grad} == expected


def test_preprocessing_is_the_weights_own():
    """Random SigLIP and files by path prepare pictures as SigLIP does."""
    model = backbone.create("ViT-B-16-SigLIP", tokenizer="clip")
    assert model.preprocess_cfg["mean"] == [0.5] * 3 and model.preprocess_cfg["resize_mode"] == "squash"
