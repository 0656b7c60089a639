"""The hf captioner with a tiny randomly initialised BLIP, saved as a hub's folder is laid out."""

import contextlib
import importlib.util
import json
import shutil

import pytest
import torch
from PIL import Image

from compclip.base.errors import UserError
from compclip.prepare.captioners import hf
from tests import tiny_blip
from tests.captioned import captioned, noise_pictures
from tests.model.test_weight_archives import Runs


@pytest.fixture(scope="module")
def blip(tmp_path_factory):
    """A folder with config, random weights, tokenizer and image processor."""
    transformers = pytest.importorskip("transformers", reason="optional: pip install compclip[captioners]")
    return tiny_blip.blip(tmp_path_factory.mktemp("blip"), transformers)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Five pictures of noise in different shapes and modes."""
    return noise_pictures(tmp_path_factory.mktemp("pictures"), grey=3)


def captions(samples, blip, **overrides):
    """What the captioner makes of the samples, by id."""
    options = {"model": str(blip), "max_new_tokens": 8, "device": "cpu"} | overrides
    output, _ = captioned(hf, samples, hf.Config(**options))
    return {s.id: s.captions for s in output}


def test_captions_are_greedy(samples, blip):
    """The same as taking the likeliest word step by step with the plain forward pass, whatever the batch."""
    processor, model = hf.load_model(str(blip), "cpu")
    expected = {}
    for sample in samples:
        with Image.open(sample.image) as picture:
            pixels = processor(images=picture.convert("RGB"), return_tensors="pt")["pixel_values"]
        tokens = [model.config.text_config.bos_token_id]
        with torch.inference_mode():
            patches = model.vision_model(pixels)[0]
            while len(tokens) <= 8 and tokens[-1] != model.config.text_config.sep_token_id:
                logits = model.text_decoder(torch.tensor([tokens]), encoder_hidden_states=patches).logits
                tokens.append(int(logits[0, -1].argmax()))
        expected[sample.id] = (processor.tokenizer.decode(tokens, skip_special_tokens=True),)
    assert len(set(expected.values())) > 1
    for batch_size in (1, 2, 5):
        assert list(captions(samples, blip, batch_size=batch_size).items()) == list(expected.items())


def test_a_prompt_is_continued(samples, blip):
    """Every caption begins with the prompt's words; more tokens than the model has places for is one line."""
    with pytest.raises(UserError, match="cannot caption: IndexError: .*; lower batch_size=16 or max_new_tokens"):
        captioned(hf, samples[:1], hf.Config(str(blip), device="cpu"))
    output = captions(samples, blip, prompt="a picture of")
    assert all(texts[0].startswith("a picture of ") for texts in output.values())


def test_what_is_missing_is_one_line(tmp_path, blip, monkeypatch):
    """No folder, a folder without weights, a model of another kind, no package: what to get and where it goes."""
    nowhere = r"options.model=\S*nowhere: no config.json there; .*hf download Salesforce/blip"
    with pytest.raises(UserError, match=nowhere):
        captioned(hf, [], hf.Config(model=str(tmp_path / "nowhere")))
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_bytes((blip / "config.json").read_bytes())
    with pytest.raises(UserError, match=r"options.model=\S*half: transformers cannot open it: "):
        captioned(hf, [], hf.Config(model=str(half)))
    (half / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UserError, match=r"options.model=\S*half: transformers cannot open it: ") as caught:
        captioned(hf, [], hf.Config(model=str(half)))
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs the package transformers; run `pip install compclip\[captioners\]`"):
        captioned(hf, [], hf.Config(model=str(blip)))


def test_nothing_of_a_models_folder_is_run(tmp_path, blip):
    """A module that its configs name, a pickle for weights, an adapter: one line, nothing run, and nobody asked."""
    ran = tmp_path / "ran"
    maps = {"auto_map": {"AutoConfig": "own.Own", "AutoProcessor": "own.Own", "AutoTokenizer": [None, "own.Own"]}}
    names = ("config.json", "tokenizer_config.json", "processor_config.json", "preprocessor_config.json")
    for number, file in enumerate(names):
        folder = shutil.copytree(blip, tmp_path / str(number))
        (folder / "own.py").write_text(f"import os\nos.mkdir({str(ran)!r})\n")
        foreign_classes = {"model_type": "own", "processor_class": "Own", "tokenizer_class": "Own"} | maps
        values = json.loads((blip / file).read_text()) if (blip / file).is_file() else {}
        (folder / file).write_text(json.dumps(values | foreign_classes))
        with contextlib.suppress(UserError):  # classes of transformers' own may stand in
            hf.load_model(str(folder), "cpu")
    folder = shutil.copytree(blip, tmp_path / "pickle")
    (folder / "model.safetensors").unlink()
    torch.save({"a": Runs(f"mkdir {ran}")}, folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="pickle: transformers cannot open it: "):
        hf.load_model(str(folder), "cpu")
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match="pickle: .*an adapter, which names a model elsewhere"):
        hf.load_model(str(folder), "cpu")
    assert not ran.exists()


@pytest.mark.parametrize("damage", [lambda raw: raw[:-5], lambda raw: b"", lambda raw: b"\xff" * 20])
def test_damaged_weights_are_one_line(tmp_path, blip, damage):
    """safetensors' own error has no base to catch."""
    folder = shutil.copytree(blip, tmp_path / "m")
    (folder / "model.safetensors").write_bytes(damage((blip / "model.safetensors").read_bytes()))
    with pytest.raises(UserError, match="m: transformers cannot open it: "):
        hf.load_model(str(folder), "cpu")
