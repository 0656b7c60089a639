"""VQAScore by tiny random models that chat."""

import json
import math
import shutil
from functools import cache

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from compclip.base.errors import UserError
from compclip.benchmarks import retrieval, sugarcrepe, winoground
from compclip.evaluate import foreign_models
from compclip.evaluate import vqascore as command
from compclip.evaluate.foreign_models import VqaQuestion
from compclip.prepare.captioners import hf
from tests import tiny_blip, tiny_chat

ASKING = VqaQuestion("describe this a {}", "red")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder, rng, paths = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0), []
    for i, (height, width) in enumerate(((40, 30), (32, 32), (20, 60))):
        paths.append(str(folder / f"{i}.png"))
        Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(paths[-1])
    return paths


@pytest.fixture(scope="module")
def folder_of(transformers, tmp_path_factory):
    """The folder of a tiny model by its name: llava and qwen chat, blip does not, instructblip encodes and decodes."""

    @cache
    def make(name):
        module = tiny_chat if name in ("llava", "qwen") else tiny_blip
        return str(getattr(module, name)(tmp_path_factory.mktemp(name), transformers))

    return make


@pytest.fixture(scope="module", params=["llava", "qwen"])
def folder(request, folder_of):
    return folder_of(request.param)


def ask(folder, asking, pairs):
    return foreign_models.scores_by_model(*hf.load_model(str(folder), "cpu"), asking)(pairs)


@torch.inference_mode()
def test_the_probability_of_the_answer_after_the_question(pictures, folder):
    """As the plain forward pass of one picture and its prompt tells it."""
    pairs = [(pictures[0], "dog"), (pictures[2], "red cat on tree"), (pictures[1], "blue dog")]
    scores = ask(folder, ASKING, pairs)
    processor, model = hf.load_model(folder, "cpu")
    word = processor.tokenizer.convert_tokens_to_ids("red")
    for score, (ref, text) in zip(scores, pairs, strict=True):
        inputs = hf._build_inputs(processor, [foreign_models.load_picture(ref)], [f"describe this a {text}"])
        expected = model(**inputs).logits[0, -1].softmax(-1)[word].item()
        assert score == pytest.approx(expected, rel=1e-4) and 0 < score < 1


# --- the answer and its end, as the authors score LLaVA-1.5 and InstructBLIP


def mean_probability(logits_LV, tokens):
    """exp of minus the mean cross entropy, token by token."""
    logs = [torch.log_softmax(row.double(), 0)[token].item() for row, token in zip(logits_LV, tokens, strict=True)]
    return math.exp(sum(logs) / len(logs))


DIALOGUE = "USER: <|vision_start|><image><|vision_end|> {} ASSISTANT: "


def likelihood_question(**words):
    """Scored over the answer and its end."""
    return VqaQuestion(**{"question": "describe this a {}", "answer": "red", "score": "answer_likelihood"} | words)


@torch.inference_mode()
@pytest.mark.parametrize("answer", ["red", "red dog"])
def test_the_likelihood_of_the_answer_and_its_end(pictures, folder, answer):
    """By the plain forward pass over one picture, its prompt, the answer and the token that ends it."""
    pairs = [(pictures[0], "dog"), (pictures[2], "red cat on tree"), (pictures[1], "blue dog"), (pictures[2], "cat")]
    processor, model = hf.load_model(folder, "cpu")
    scores = ask(folder, likelihood_question(answer=answer, dialogue=DIALOGUE), pairs)
    tokens = processor.tokenizer.convert_tokens_to_ids([*answer.split(), "</s>"])
    for score, (ref, text) in zip(scores, pairs, strict=True):
        inputs = hf._build_inputs(processor, [foreign_models.load_picture(ref)], [f"describe this a {text}"], DIALOGUE)
        inputs["input_ids"] = torch.cat([inputs["input_ids"], torch.tensor([tokens])], 1)
        for name in inputs.keys() - {"input_ids", "pixel_values", "image_grid_thw"}:  # masks and kinds of tokens
            inputs[name] = torch.cat([inputs[name], inputs[name][:, -1:].repeat(1, len(tokens))], 1)
        logits_LV = model(**inputs).logits[0]
        assert score == pytest.approx(mean_probability(logits_LV[-len(tokens) - 1 : -1], tokens), rel=1e-4)
        first = torch.softmax(logits_LV[-len(tokens) - 1], 0)[tokens[0]].item()
        assert score != pytest.approx(first, rel=0.05), "the first token's probability is another number"


@torch.inference_mode()
def test_an_encoder_and_a_decoder_score_the_answer_and_its_end(pictures, folder_of):
    """The decoder is fed token by token, from its start token on."""
    pairs = [(pictures[0], "dog"), (pictures[2], "red cat"), (pictures[1], "blue tree"), (pictures[0], "cat")]
    processor, model = hf.load_model(folder_of("instructblip"), "cpu")
    scores = ask(folder_of("instructblip"), likelihood_question(question="is a {}", answer="yes"), pairs)
    tokens = processor.tokenizer.convert_tokens_to_ids(["yes", "</s>"])
    for score, (ref, text) in zip(scores, pairs, strict=True):
        inputs = processor(images=[foreign_models.load_picture(ref)], text=[f"is a {text}"], return_tensors="pt")
        logits_LV = model(**inputs, decoder_input_ids=torch.tensor([[0, tokens[0]]])).logits[0]
        assert score == pytest.approx(mean_probability(logits_LV, tokens), rel=1e-4)
    assert len(np.unique(scores.round(9))) == len(pairs)


OF_ANSWERS = likelihood_question(question="a {}", dialogue=DIALOGUE)
BATCHED = [("llava", ASKING), ("qwen", ASKING), ("llava", OF_ANSWERS), ("qwen", OF_ANSWERS),
           ("instructblip", likelihood_question(question="a {}", answer="yes")),
           ("blip", VqaQuestion("a picture of {}", "runs"))]  # fmt: skip


@pytest.mark.parametrize(("name", "asking"), BATCHED)
def test_batches_change_nothing(pictures, folder_of, name, asking):
    """Prompts of different lengths in one call; blip does not chat and continues the question."""
    processor, weights = hf.load_model(folder_of(name), "cpu")
    model = processor, weights.double()  # random weights amplify float32 roundings on some processors
    pairs = [(ref, text) for ref in pictures for text in ("dog", "red cat", "tree on grass", "a blue tree")]
    alone = foreign_models.scores_by_model(*model, asking, batch_size=1)(pairs)
    np.testing.assert_allclose(foreign_models.scores_by_model(*model, asking, batch_size=5)(pairs), alone, rtol=1e-4)
    assert len(np.unique(alone.round(9))) == len(pairs)


@pytest.mark.parametrize("shape", [(40, 30), (20, 60), (33, 60), (32, 32)])
def test_pictures_become_squares_as_in_the_authors_code(shape, folder_of):
    """LLaVA's are padded with the mean colour, InstructBLIP's cut from the middle; pixel by pixel."""
    height, width = shape
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
    processor, _ = hf.load_model(folder_of("llava"), "cpu")
    padded = np.asarray(foreign_models.make_square(picture, "square_padded", processor))
    side, top, left = max(shape), (max(shape) - height) // 2, (max(shape) - width) // 2
    expected = np.full((side, side, 3), [int(mean * 255) for mean in processor.image_processor.image_mean], np.uint8)
    expected[top : top + height, left : left + width] = np.asarray(picture)
    np.testing.assert_array_equal(padded, expected)
    cut = foreign_models.make_square(picture, "square_cut", hf.load_model(folder_of("instructblip"), "cpu")[0])
    assert cut.size == (32, 32)
    if height == 40:  # resized to 42 x 32 or so, of which the middle 32 rows are left
        rows = np.asarray(picture.resize((32, 42), Image.Resampling.BICUBIC))[5:37]
        np.testing.assert_array_equal(np.asarray(cut), rows)


SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions."
)


def test_families_are_asked_as_in_the_authors_program(folder_of):
    """Questions, answers and scores of t2v_metrics; results say all of it."""
    llava, qwen, instructblip = map(folder_of, ("llava", "qwen", "instructblip"))
    settings = {name: foreign_models.open_scorer(name, "cpu", {})[1] for name in (llava, qwen, instructblip)}
    assert settings[llava]["question"] == 'Does this figure show "{}"? Please answer yes or no.'
    assert settings[llava]["dialogue"] == SYSTEM + " USER: <image>\n{} ASSISTANT: "
    assert (settings[llava]["answer"], settings[llava]["score"]) == ("Yes", "answer_likelihood")
    assert settings[llava]["pictures"] == "square_padded"
    assert settings[instructblip]["question"] == 'Question: Does this figure show "{}"? Please answer yes or no.'
    assert (settings[instructblip]["answer"], settings[instructblip]["score"]) == ("yes", "answer_likelihood")
    assert settings[qwen]["question"] == 'Does this figure show "{}"? Please answer Yes or No.'
    assert (settings[qwen]["answer"], settings[qwen]["score"], settings[qwen]["dialogue"]) == ("Yes", "first_token", "")
    changed = foreign_models.open_scorer(llava, "cpu", {"score": "first_token", "answer": "red", "question": ""})[1]
    assert changed["question"] == settings[llava]["question"]
    assert (changed["score"], changed["answer"]) == ("first_token", "red")


def test_a_space_before_the_answer_belongs_to_its_first_token():
    """As Llama's tokens have it: the prompt alone ends in a token of its own for the space."""

    class Llama:
        unk_token_id = 0

        def __call__(self, text, add_special_tokens):
            assert not add_special_tokens
            return {"input_ids": {"ASSISTANT: ": [8, 9, 5], "ASSISTANT: Yes</s>": [8, 9, 7, 2]}[text]}

    processor = type("Processor", (), {"tokenizer": Llama(), "image_token": ""})
    assert hf._answer_tokens(processor, "", "ASSISTANT: {}", "Yes</s>") == [7, 2]


def test_a_model_that_continues_text_has_no_end_to_score(pictures, folder_of):
    with pytest.raises(UserError, match=r"--score answer_likelihood: this model does not chat; give first_token"):
        ask(folder_of("blip"), likelihood_question(), [(pictures[0], "dog")])


def test_clip_flant5_is_refused_by_name(transformers, tmp_path):
    config = {"architectures": ["CLIPT5ForConditionalGeneration"], "model_type": "t5"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=r"CLIP-FlanT5 is no class of transformers; take LLaVA-1.5 or InstructBLIP"):
        foreign_models.open_scorer(str(tmp_path), "cpu", {})


HOSTILE = {"fails": "{{ raise_exception('no') }}", "undefined": "{{ a.b.c }}", "no_text": "x", "divides": "{{ 1 / 0 }}",
           "no_syntax": "{% for %}", "two_pictures": "<image><image>{{ messages[0].content[1].text }}"}  # fmt: skip


@pytest.mark.parametrize("template", HOSTILE)
def test_a_template_that_asks_nothing_is_one_line(pictures, folder, tmp_path, template):
    hostile = shutil.copytree(folder, tmp_path / "m")
    (hostile / "chat_template.jinja").write_text(HOSTILE[template])
    with pytest.raises(UserError, match=f"vqascore {hostile}: cannot be asked: .*; take a whole image-to-text"):
        ask(hostile, ASKING, [(pictures[0], "dog")])


@pytest.mark.parametrize("change", [{"eos_token_id": "x"}, {"patch_size": 0}, {"image_token_index": 999}])
def test_settings_that_fit_no_picture_are_one_line(pictures, folder_of, tmp_path, change):
    """Each in the file that has it: of answers, of pictures, of the model."""
    folder = shutil.copytree(folder_of("llava"), tmp_path / "m")
    for name in ("generation_config.json", "processor_config.json", "config.json"):
        raw = json.loads((folder / name).read_text())
        if change.keys() & raw.keys() or name == "generation_config.json" and "eos_token_id" in change:
            (folder / name).write_text(json.dumps(raw | change))
    with pytest.raises(UserError, match=f"vqascore {folder}: cannot be asked: "):
        ask(folder, ASKING, [(pictures[0], "dog")])


def test_weights_that_answer_with_no_number_are_refused(pictures, folder_of, tmp_path):
    """NaN would be a score that never wins."""
    folder = shutil.copytree(folder_of("blip"), tmp_path / "m")
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t.fill_(math.nan) for name, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="answers with no numbers"):
        ask(folder, VqaQuestion("a picture of {}", "runs"), [(pictures[0], "dog")])


# --- benchmarks


def answering(table):
    """Scores from {(picture's name, text): score}, and the pairs that were asked."""
    seen = []

    def answer(pairs):
        seen.extend((ref.rpartition("/")[2], text) for ref, text in pairs)
        return np.array([table[ref.rpartition("/")[2], text] for ref, text in pairs])

    return answer, seen


def test_a_benchmark_of_pairs_is_scored_and_each_pair_asked_once(tmp_path, pictures):
    row = {"id": 0, "image_0": "0.png", "image_1": "1.png", "caption_0": "x", "caption_1": "y"}
    lost = row | {"id": 1, "image_1": "9.png"}
    (tmp_path / "examples.jsonl").write_text("\n".join(map(json.dumps, (row, lost))))
    benchmark = winoground.load(tmp_path, images=pictures[0].rpartition("/")[0])
    scores = {("0.png", "x"): 0.9, ("0.png", "y"): 0.2, ("1.png", "x"): 0.95, ("1.png", "y"): 0.96}
    answer, seen = answering(scores)
    seen_by = foreign_models.score_targets(benchmark.images, answer)
    result = [benchmark.score(seen_by) for _ in range(2)][1]
    assert result.metrics == {"text": 1.0, "image": 0.0, "group": 0.0}
    assert result.counts["missing_image"] == 1 and sorted(seen) == sorted(scores)


def test_a_retrieval_asks_for_every_pair(tmp_path, pictures):
    answer, seen = answering({("0.png", "x"): 0.5, ("1.png", "x"): 0.25, ("0.png", "y"): 0.75, ("1.png", "y"): 1.0})
    coco = {"images": [{"id": i, "file_name": f"{i}.png"} for i in (0, 1)],
            "annotations": [{"image_id": i, "caption": text} for i, text in enumerate("xy")]}  # fmt: skip
    (tmp_path / "captions.json").write_text(json.dumps(coco))
    benchmark = retrieval.load(tmp_path, images=pictures[0].rpartition("/")[0])
    result = benchmark.score(foreign_models.score_targets(benchmark.images, answer))
    assert result.items["i2t_recall_at_1"].values.tolist() == [0, 1]
    assert result.items["t2i_recall_at_1"].values.tolist() == [1, 1] and len(seen) == 4


PARAMS = """
grid: {methods: [pretrained], backbones: [vit], data: [d], seeds: [0]}
methods: {pretrained: {}}
data: {d: {source: coco, path: c.json, images: p, captioner: none}}
backbones: {vit: {model: ViT-B-32}}
benchmarks: {sugarcrepe: {path: s, images: PICTURES, split: swap_att}}
evaluate: {benchmarks: [sugarcrepe]}
"""


def test_the_whole_command(tmp_path, pictures, monkeypatch, capsys):
    """A table on stdout, result files that say who answered, and one line for what cannot be asked."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").mkdir()
    row = {"filename": "0.png", "caption": "a red dog", "negative_caption": "a cat"}
    (tmp_path / "s/swap_att.json").write_text(json.dumps({"0": row, "1": row | {"filename": "9.png"}}))
    (tmp_path / "params.yaml").write_text(PARAMS.replace("PICTURES", pictures[0].rpartition("/")[0]))
    assert len(sugarcrepe.load("s", split="swap_att")) == 2
    answer, _ = answering({("0.png", "a red dog"): 0.7, ("0.png", "a cat"): 0.2})
    with monkeypatch.context() as patch:
        patch.setattr(foreign_models, "open_scorer", lambda *_: (answer, {"vqascore": "m"}))
        assert command.main(["m", "--out", "made"]) == 0
    printed = capsys.readouterr()
    assert "swap_att" in printed.out and "100.00" in printed.out and "1 missing_image" in printed.err
    document = json.loads((tmp_path / "made/sugarcrepe.json").read_text())
    assert document["checkpoint"]["vqascore"] == "m" and document["metrics"]["swap_att"] == 1.0
    for option, value, message in (("--question", "Is it?", r"question='Is it\?': must have {} where the text belongs"),
                                   ("--score", "first", r"unknown score 'first'.*first_token")):  # fmt: skip
        with pytest.raises(UserError, match=message):
            command.main(["nowhere", option, value])
    with pytest.raises(UserError, match=r"nowhere: no config.json there"):
        command.main(["nowhere"])
