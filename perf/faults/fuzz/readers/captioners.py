"""Folders of models that caption or answer, and of one that fills in words."""

import random
from collections.abc import Iterator
from pathlib import Path

import transformers
from PIL import Image

from compclip.base import plugins
from compclip.base.files import write_json
from compclip.config.released_lists import MaskedSection
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.evaluate import foreign_models
from compclip.model import backbone
from compclip.prepare import mask_filling
from perf.faults.fuzz.reader import Reader
from tests import tiny_chat, tiny_masked
from tests.prepare.test_recaption_coca import COCA


def readers() -> Iterator[Reader]:
    """A chat, as a model's folder has it, that captions and answers; a CoCa model; a masked language model."""
    small = ("m/chat_template.jinja", "m/processor_config.json", "m/tokenizer_config.json", "m/generation_config.json")
    yield Reader("captioner:hf", _chat, lambda _: _captioned("hf", "m"), small)
    yield Reader("vqascore", _chat, lambda _: _ask_vqa(), (*small, "m/config.json"))
    small_masked = ("m/config.json", "m/tokenizer*.json", "m/model.safetensors")
    yield Reader("masked", _masked, _filled, small_masked)
    yield Reader("captioner:coca", _coca, lambda _: _captioned("coca", "local-dir:m"), ("m/*",))


def _chat(folder: Path) -> None:
    tiny_chat.llava(folder / "m", transformers)
    _picture(folder)


def _ask_vqa() -> object:
    ask, _ = foreign_models.open_scorer("m", "cpu", {"question": "describe this a {}", "answer": "red"})
    return ask([("a.png", "dog"), ("a.png", "red cat")])


def _masked(folder: Path) -> None:
    tiny_masked.bert(folder / "m", transformers)


def _filled(_: random.Random) -> object:
    return mask_filling.open_model(MaskedSection("m"))(["A dog runs on the grass.", "The red cat sleeps."])


def _coca(folder: Path) -> None:
    write_json(folder / "tiny.json", COCA)
    model = backbone.create(str(folder / "tiny.json"), "random", captioner=True)
    model.clip.text_decoder.text_projection.data.normal_()  # which open_clip leaves as the memory was
    model.save(folder / "m")
    _picture(folder)


def _picture(folder: Path) -> None:
    Image.new("RGB", (16, 16), "red").save(folder / "a.png")


def _captioned(name: str, model: str) -> None:
    captioner = plugins.load_plugin(plugins.CAPTIONERS, name)
    short = {"max_new_tokens": 2} if name == "hf" else {}
    cfg = captioner.Config(model=model, device="cpu", **short)
    with captioner.opened(Data("karpathy", "d.json", ".", captioner=name), cfg) as caption:
        caption([Sample("a", "a.png", ("old",))], "00000")
