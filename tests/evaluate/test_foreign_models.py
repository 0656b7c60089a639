"""Models that are no open_clip models, and `compclip.api.evaluate`: the same numbers by every way in."""

import numpy as np
import open_clip
import pytest
import torch

from compclip import api
from compclip.base.errors import UserError
from compclip.benchmarks import sugarcrepe
from compclip.config.sections import BenchmarkSection as Section
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import benchmark_module, foreign_models, score
from tests.evaluate.test_evaluate import COLOURS, checkpoint, root  # noqa: F401

RGB = {"red": (255, 0, 0), "green": (0, 128, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}


class ColourModel:
    """Knows colours: a picture's vector is its mean, a text's the colour that it names."""

    def encode_images(self, pictures):
        assert all(picture.mode == "RGB" for picture in pictures)
        return np.stack([np.asarray(picture, float).mean((0, 1)) - 100 for picture in pictures])

    def encode_texts(self, texts):
        return torch.tensor([RGB[next(c for c in COLOURS if c in text)] for text in texts]) - 100.0


class PairModel:
    """Knows the same of pairs alone."""

    def score_pairs(self, pictures, texts):
        one, other = ColourModel().encode_images(pictures), ColourModel().encode_texts(texts).numpy()
        return -np.square(one - other).sum(1)


@pytest.fixture
def sugarcrepe_files(root, monkeypatch):  # noqa: F811
    """Where the benchmark's files are, from an empty folder."""
    (root / "empty").mkdir()
    monkeypatch.chdir(root / "empty")
    return {"files": {"sugarcrepe": root / "sc"}, "images": root / "images"}


@pytest.mark.parametrize("model", [ColourModel(), PairModel()], ids=["vectors", "pairs"])
def test_a_model_that_knows_is_right(model, sugarcrepe_files):
    """Always; an interval of no width."""
    result = api.evaluate(model, ["sugarcrepe"], **sugarcrepe_files)["sugarcrepe"]
    assert {result.metrics[subset] for subset in sugarcrepe.SUBSETS} == {1.0}
    assert result.intervals["add_att"] == (1.0, 1.0)
    assert result.items["add_att"] == {"0": 1, "1": 1, "2": 1, "3": 1}
    assert result.document["checkpoint"] == {"model": type(model).__name__}


def test_a_benchmark_that_no_section_names_is_scored_on_its_files(root, sugarcrepe_files):  # noqa: F811
    """A test set of one's own."""
    (root / "mine.csv").write_text("image,caption,negative\nred.png,a red wall,a blue wall\n")
    result = api.evaluate(ColourModel(), ["pairs"], files={"pairs": root / "mine.csv"}, images=root / "images")
    assert result["pairs"].metrics["accuracy"] == 1.0


def test_the_same_numbers_by_every_way_in(checkpoint, root, sugarcrepe_files, tmp_path):  # noqa: F811
    """A checkpoint, the module of a training loop, and what the command scores."""
    module, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{checkpoint}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{checkpoint}")
    module.train()
    by_module = api.evaluate(module, ["sugarcrepe"], preprocess=preprocess, tokenizer=tokenizer, **sugarcrepe_files)
    assert module.training
    by_path = api.evaluate(str(checkpoint), ["sugarcrepe"], **sugarcrepe_files)
    sections = {"sugarcrepe": Section("", str(root / "sc"), str(root / "images"))}
    loaded = benchmark_module.load_benchmarks(sections, ["sugarcrepe"])
    by_command = score.score_checkpoint(score.checkpoint_at(str(checkpoint)), loaded)["sugarcrepe"]
    assert by_module["sugarcrepe"].metrics == by_path["sugarcrepe"].metrics == by_command["metrics"]
    assert by_module["sugarcrepe"].items == by_path["sugarcrepe"].items


class Broken(ColourModel):
    def __init__(self, encode_images):
        self.encode_images = encode_images


@pytest.mark.parametrize(
    ("model", "message"),
    [(object(), "object: has no encode_images with encode_texts, and no score_pairs"),
     (Broken(lambda p: np.ones((len(p) + 1, 3))), r"Broken.encode_images: gave \[5, 3\] for 4; give \[4, D\]"),
     (Broken(lambda p: np.ones((len(p), 2))), "Broken: vectors of pictures and texts have 2 and 3 numbers"),
     (Broken(lambda p: np.full((len(p), 3), np.nan)), "encode_images: gave vectors that are zero or no numbers"),
     (Broken(lambda p: 1 / 0), "Broken: ZeroDivisionError: division by zero; repair that model"),
     (open_clip.CLIP, "needs its preprocess and tokenizer")],
)  # fmt: skip
def test_mistakes_of_a_model(model, message, sugarcrepe_files):
    with pytest.raises(UserError, match=message):
        api.evaluate(model, ["sugarcrepe"], **sugarcrepe_files)


def test_pairs_have_no_vectors(sugarcrepe_files, root):  # noqa: F811
    with pytest.raises(UserError, match="vectors of texts, to compare them with each other, and here are scores"):
        api.evaluate(PairModel(), ["sugarcrepe_pp"], files={"sugarcrepe_pp": root / "pp"}, images=root / "images")


SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION = {**SMALL, "image_size": 16, "patch_size": 8}
TEXTS = [f"a {name} wall" for name in COLOURS]


@pytest.fixture
def pictures(sugarcrepe_files):
    return [foreign_models.load_picture(str(sugarcrepe_files["images"] / f"{name}.png")) for name in COLOURS]


def test_two_towers_of_transformers(transformers, tmp_path, sugarcrepe_files, pictures, capsys):
    """A folder as transformers writes it, by the command; its numbers are those of its own towers, compared by hand."""
    text = {**SMALL, "max_position_embeddings": 16, "vocab_size": 60}
    config = transformers.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=8)
    torch.manual_seed(0)
    transformers.CLIPModel(config).save_pretrained(tmp_path / "clip")
    words = ["<|startoftext|>", "<|endoftext|>", *(f"{w}</w>" for w in ("a", "wall", *COLOURS)), *"awlredgnbuhit"]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    (tmp_path / "vocab.json").write_text(str(vocabulary).replace("'", '"'))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    tokenizer = transformers.CLIPTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    processor = transformers.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    transformers.CLIPProcessor(processor, tokenizer).save_pretrained(tmp_path / "clip")
    paths = {"path": sugarcrepe_files["files"]["sugarcrepe"], "images": sugarcrepe_files["images"]}
    files = [f"benchmarks.sugarcrepe.{key}={path}" for key, path in paths.items()]
    argv = ["--checkpoint", str(tmp_path / "clip"), "--loader", "transformers_dual", "--benchmarks", "sugarcrepe"]
    assert evaluate_command.main([*argv, *files]) == 0
    printed = next(line.split() for line in capsys.readouterr().out.splitlines() if " add_att " in line)
    model = foreign_models.load_model("transformers_dual", str(tmp_path / "clip"), "cpu")
    with torch.no_grad():
        image_ID = torch.nn.functional.normalize(model.encode_images(pictures).double())
        text_TD = torch.nn.functional.normalize(model.encode_texts(TEXTS).double())
    cosine = image_ID @ text_TD.T
    right = [float(cosine[i, i] > cosine[i, i - 1]) for i in range(4)]
    assert float(printed[2]) == pytest.approx(np.mean(right), abs=1e-4)


@pytest.fixture
def bert_tokenizer(transformers, tmp_path):
    """BERT's, of the words of TEXTS."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]", "[ENC]", "a", "wall", *COLOURS]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    return transformers.BertTokenizer(str(tmp_path / "vocab.txt"))


@pytest.fixture
def blip_folder(transformers, tmp_path, bert_tokenizer):
    """A folder of BLIP for retrieval, with random weights."""
    text = {**SMALL, "vocab_size": len(bert_tokenizer), "max_position_embeddings": 16, "encoder_hidden_size": 16}
    text |= {"pad_token_id": 0, "bos_token_id": 5, "sep_token_id": 3, "eos_token_id": 3}
    torch.manual_seed(0)
    config = transformers.BlipConfig(text_config=text, vision_config=VISION, image_text_hidden_size=8)
    transformers.BlipForImageTextRetrieval(config).save_pretrained(tmp_path / "blip")
    processor = transformers.BlipImageProcessor(size={"height": 16, "width": 16})
    transformers.BlipProcessor(processor, bert_tokenizer).save_pretrained(tmp_path / "blip")
    return tmp_path / "blip"


def test_contrastive_towers_of_blip(blip_folder, pictures):
    """Cosines are those of its own forward without the head."""
    towers = foreign_models.load_model("blip_itc", str(blip_folder), "cpu")
    with torch.no_grad():
        image_ID = torch.nn.functional.normalize(towers.encode_images(pictures))
        text_TD = torch.nn.functional.normalize(towers.encode_texts(TEXTS))
        inputs = towers.processor(images=pictures, text=TEXTS, padding=True, return_tensors="pt")
        expected_IT = towers.model(**inputs, use_itm_head=False).itm_score
    assert torch.allclose(image_ID @ text_TD.T, expected_IT, atol=1e-5) and expected_IT.std() > 0


def test_flava_compares_first_tokens(transformers, tmp_path, bert_tokenizer, pictures):
    """As its contrastive loss: the first token of each tower, projected; texts of different lengths."""
    text = {**SMALL, "vocab_size": len(bert_tokenizer), "max_position_embeddings": 16}
    torch.manual_seed(0)
    config = transformers.FlavaConfig(text_config=text, image_config=VISION, multimodal_config=SMALL, projection_dim=8)
    model = transformers.FlavaModel(config).eval()
    model.save_pretrained(tmp_path / "flava")
    square = {"height": 16, "width": 16}
    processor = transformers.FlavaImageProcessor(size=square, crop_size=square)
    transformers.FlavaProcessor(processor, bert_tokenizer).save_pretrained(tmp_path / "flava")
    towers = foreign_models.load_model("transformers_dual", str(tmp_path / "flava"), "cpu")
    texts = ["a wall", *TEXTS[1:]]
    inputs = towers.processor(images=pictures, text=texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**inputs)
        expected_ID = model.image_projection(output.image_embeddings[:, 0])
        expected_TD = model.text_projection(output.text_embeddings[:, 0])
        assert torch.allclose(towers.encode_images(pictures), expected_ID, atol=1e-5)
        assert torch.allclose(towers.encode_texts(texts), expected_TD, atol=1e-5)
    assert expected_ID.std(0).min() > 0


def test_matching_head_of_blip(blip_folder, pictures, sugarcrepe_files):
    """A folder of BLIP for retrieval: the probability of its head for each pair, asked one by one by hand."""
    head = foreign_models.load_model("blip_itm", str(blip_folder), "cpu")
    with torch.no_grad():
        together = head.score_pairs(pictures, TEXTS)
        one_by_one = [head.score_pairs([p], [t]) for p, t in zip(pictures, TEXTS, strict=True)]
        inputs = head.processor(images=pictures[0], text=TEXTS[0], return_tensors="pt")
        assert one_by_one[0].item() == pytest.approx(head.model(**inputs).itm_score.softmax(-1)[0, 1].item())
    assert torch.allclose(together, torch.cat(one_by_one), atol=1e-6)
    assert together.min() > 0 and together.max() < 1 and together.std() > 0
    result = api.evaluate(head, ["sugarcrepe"], **sugarcrepe_files)["sugarcrepe"]
    with torch.no_grad():
        wrong = head.score_pairs(pictures, [TEXTS[i - 1] for i in range(4)])
    assert list(result.items["add_att"].values()) == (together > wrong).int().tolist()
