"""The coca captioner with a tiny random CoCa of open_clip, saved as a folder of open_clip's."""

import pytest
import torch

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config.validation import load_section
from compclip.data import images
from compclip.model import backbone, clip_model
from compclip.prepare.captioners import coca as captioner
from tests.captioned import captioned, noise_pictures
from tests.model.test_towers import TINY

PLACES = 12
WORDS = {"context_length": PLACES, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 2}
COCA = {
    "embed_dim": 16,
    "vision_cfg": TINY["vision_cfg"] | {"attentional_pool": True, "attn_pooler_heads": 2, "output_tokens": True},
    "text_cfg": WORDS | {"embed_cls": True, "output_tokens": True},
    "multimodal_cfg": WORDS | {"attn_pooler_heads": 2},
    "custom_text": True,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose captions differ and end at different lengths."""
    folder = tmp_path_factory.mktemp("coca")
    write_json(folder / "tiny.json", COCA)
    output = backbone.create(str(folder / "tiny.json"), "random", captioner=True)
    drawn = torch.Generator().manual_seed(0)
    for weights in output.clip.parameters():
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.5, generator=drawn)
    output.clip.text_decoder.text_projection.data[:, captioner.END_TOKEN] *= 6
    output.save(folder / "model")
    return folder / "model"


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return noise_pictures(tmp_path_factory.mktemp("pictures"), [(32, 32)] * 6)


def config(folder, **overrides):
    """Settings for a model's captions on the CPU."""
    values = {"model": f"local-dir:{folder}", "device": "cpu"} | overrides
    return load_section(captioner.Config, values, "options")


@torch.inference_mode()
def slowly(folder, sample):
    """One picture's words with the whole forward pass of both towers and the decoder at each."""
    model = captioner.load_captioner(f"local-dir:{folder}")
    image, token_ids = model.pixels([images.load_image(sample.picture)]), [captioner.START_TOKEN]
    while len(token_ids) <= PLACES and token_ids[-1] != captioner.END_TOKEN:
        output = model.clip(image, torch.tensor([token_ids]), output_labels=False)
        token_ids.append(int(output["logits"][0, -1].argmax()))
    answer = captioner._decode(token_ids[1:])
    return answer.text, not answer.cut_short


def test_captions_are_greedy_whatever_the_batch_and_the_devices(samples, folder):
    """The same as word by word from scratch; some end and some are cut."""
    slow = [slowly(folder, sample) for sample in samples]
    assert {ended for _, ended in slow} == {True, False}
    assert len({text for text, _ in slow}) > 3
    expected = [(s.id, (" ".join(text.split()),)) for s, (text, _) in zip(samples, slow, strict=True) if text]
    for more in ({"batch_size": 1}, {"batch_size": 4}, {"batch_size": 6}, {"batch_size": 2, "device": "cpu,cpu"}):
        output, counts = captioned(captioner, samples, config(folder, **more))
        assert [(s.id, s.captions) for s in output] == expected
        assert counts["cut_short"] == sum(not ended for _, ended in slow)


def test_what_cannot_be_is_one_line(samples, folder, tmp_path):
    """No weights, another kind of model, a decoder that does not fit."""
    for options, error in (
        ({"model": "coca_ViT-B-32"}, "weights: must be given"),
        (
            {"model": "ViT-B-32", "weights": "random"},
            "model ViT-B-32: has no multimodal_cfg, and so writes no captions",
        ),
        ({"model": "coca_ViT-B-32", "weights": str(folder / clip_model.WEIGHTS)}, "another architecture"),
    ):
        with pytest.raises(UserError, match=error) as caught:
            captioned(captioner, samples, config(folder, **options))
        assert "\n" not in str(caught.value)
    write_json(tmp_path / "odd.json", COCA | {"multimodal_cfg": WORDS | {"width": 32}})
    with pytest.raises(UserError, match="odd.json: cannot caption: RuntimeError: "):
        captioned(captioner, samples, config(folder, model=str(tmp_path / "odd.json"), weights="random"))
    write_json(tmp_path / "huge.json", COCA | {"multimodal_cfg": WORDS | {"layers": 200, "width": 16384}})
    with pytest.raises(UserError, match="another architecture: holds .* describes"):  # before it is built
        captioner.load_captioner(str(tmp_path / "huge.json"), str(folder / clip_model.WEIGHTS))


def test_a_captioner_is_no_backbone(folder):
    """Its towers give tokens, which methods and benchmarks know nothing of."""
    for opened in (lambda: backbone.load(folder), lambda: backbone.create("coca_ViT-B-32", "random")):
        with pytest.raises(UserError, match="a CoCa model is no backbone; .* captioner: coca"):
            opened()
