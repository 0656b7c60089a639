"""The hf captioner with tiny random models that chat."""

import json
import shutil

import pytest
import torch
from PIL import Image

from compclip.base.errors import UserError
from compclip.prepare.captioners import QUERY, hf
from tests import tiny_chat
from tests.captioned import captioned, noise_pictures

PROMPT = "describe this"


@pytest.fixture(scope="module", params=["llava", "qwen"])
def model(request, tmp_path_factory):
    """The folder of a model; pictures of Qwen's kind take more tokens the larger they are."""
    transformers = pytest.importorskip("transformers", reason="optional: pip install compclip[captioners]")
    return getattr(tiny_chat, request.param)(tmp_path_factory.mktemp(request.param), transformers)


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    """Five pictures of noise in different shapes."""
    return noise_pictures(tmp_path_factory.mktemp("pictures"))


def config(model, **overrides):
    """Settings for six words."""
    return hf.Config(**{"model": str(model), "max_new_tokens": 6, "device": "cpu", "prompt": PROMPT} | overrides)


def test_answers_alone_in_their_order_whatever_the_batch_and_the_devices(samples, model):
    """Nothing of the prompt is in a caption; batches of one, two, five, and two replicas give the same."""
    alone, counts = captioned(hf, samples, config(model, batch_size=1))
    assert [s.id for s in alone] == ["0", "1", "2", "3", "4"]
    assert +counts == {"cut_short": 5}
    assert len({s.captions for s in alone}) > 2
    assert not any("describe this" in s.captions[0] or "USER:" in s.captions[0] for s in alone)
    for more in ({"batch_size": 2}, {"batch_size": 5}, {"batch_size": 2, "device": "cpu, cpu"}):
        assert captioned(hf, samples, config(model, **more)) == (alone, counts)


@torch.inference_mode()
def test_answers_are_greedy(samples, model):
    """The same as taking the likeliest word step by step with the plain forward pass of everything so far."""
    cfg = config(model)
    processor, network = hf.load_model(cfg.model, "cpu")
    for sample in samples[:2]:
        with Image.open(sample.image) as picture:
            inputs = hf._build_inputs(processor, [picture.convert("RGB")], [PROMPT])
        begun = inputs["input_ids"].shape[1]
        for _ in range(6):
            word = network(**inputs, use_cache=False).logits[:, -1:].argmax(-1)
            inputs["input_ids"] = torch.cat([inputs["input_ids"], word], 1)
            for name in {"attention_mask", "mm_token_type_ids"} & set(inputs):
                one = torch.full_like(word, int(name == "attention_mask"))
                inputs[name] = torch.cat([inputs[name], one], 1)
        expected = processor.tokenizer.decode(inputs["input_ids"][0, begun:], skip_special_tokens=True)
        output, _ = captioned(hf, [sample], cfg)
        assert output[0].captions == (expected,)


def test_it_is_asked_clics_query(model):
    """Where no prompt is given: as many unknown words as the query has."""
    processor, _ = hf.load_model(config(model).model, "cpu")
    picture = Image.new("RGB", (16, 16))
    ids = hf._build_inputs(processor, [picture], [hf.choose_prompt(processor, config(model, prompt=""))])["input_ids"]
    assert (ids == 1).sum() == sum(word not in tiny_chat.WORDS for word in QUERY.split()) > 40
    assert (ids == 2).sum() == int(processor.tokenizer.decode(ids[0]).startswith("<s>"))  # not once more
    assert hf.choose_max_tokens(processor, hf.Config("m")) == 512


def test_an_answer_that_ends_is_not_cut_short(samples, model, tmp_path):
    """At a token that ends answers, here the second word of one."""
    (uncut,), _ = captioned(hf, samples[:1], config(model))
    folder, last = shutil.copytree(model, tmp_path / "m"), uncut.captions[0].split()[1]
    settings = json.loads((folder / "generation_config.json").read_text())
    settings["eos_token_id"] = [3, tiny_chat.WORDS.index(last)]
    (folder / "generation_config.json").write_text(json.dumps(settings))
    output, counts = captioned(hf, samples[:1], config(folder))
    words = uncut.captions[0].split()
    assert output[0].captions[0].split() == words[: words.index(last) + 1]
    assert +counts == {}


@pytest.mark.parametrize("template", ["{% for", "{{ raise_exception('no') }}", "{{ ''.__class__.__mro__ }}", "none"])
def test_a_template_of_another_kind_is_one_line(samples, model, tmp_path, monkeypatch, template):
    """Damaged, unwilling, reaching out of its sandbox, or without a place for the picture; and one without end."""
    folder = shutil.copytree(model, tmp_path / "m")
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(UserError, match="options.model=.*: cannot caption: ") as caught:
        captioned(hf, samples[:1], config(folder))
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(hf, "TEMPLATE_S", 0.0, raising=False)
    loops = "{% for a in range(30000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}"  # each within the bound
    (folder / "chat_template.jinja").write_text(loops)
    with pytest.raises(UserError, match=r"^options.model=\S+: the chat template .* is not through after 0 s; take the"):
        captioned(hf, samples[:1], config(folder))
