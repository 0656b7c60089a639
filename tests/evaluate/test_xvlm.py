"""X-VLM: the scores that the authors' program gives of the same small weights, and mistakes in a folder."""

import numpy as np
import pytest
import torch
from PIL import Image

from compclip.base.errors import UserError
from compclip.evaluate import foreign_models

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(35)))
TEXTS = ("w1 w2 w3", "w5", " ".join(f"w{number % 30}" for number in range(45)))  # the last one is cut
# Of the program in github.com/amitakamath/hard_positives (model_zoo/xvlm_utils), on this file, pictures and texts.
PRINTED = (0.17459, 0.96217, 0.16108)


def list_shapes():
    """X-VLM's tensors by the authors' names: Swin of a block a stage and 64 pixels, BERT of 64 dims."""
    shapes = {}

    def add_pair(name, *shape):
        shapes[f"{name}.weight"] = shape
        shapes[f"{name}.bias"] = shape[:1]

    add_pair("vision_encoder.patch_embed.proj", 32, 3, 4, 4)
    for name, width in (("vision_encoder.patch_embed.norm", 32), ("vision_encoder.norm", 256)):
        add_pair(name, width)
    for stage, width in enumerate((32, 64, 128, 256)):
        block = f"vision_encoder.layers.{stage}.blocks.0"
        for name, out, inside in (("attn.qkv", 3, 1), ("attn.proj", 1, 1), ("mlp.fc1", 4, 1), ("mlp.fc2", 1, 4)):
            add_pair(f"{block}.{name}", out * width, inside * width)
        for name in ("norm1", "norm2"):
            add_pair(f"{block}.{name}", width)
        shapes[f"{block}.attn.relative_position_bias_table"] = (9, 2**stage)
        if stage < 3:
            add_pair(f"vision_encoder.layers.{stage}.downsample.norm", 4 * width)
            shapes[f"vision_encoder.layers.{stage}.downsample.reduction.weight"] = (2 * width, 4 * width)
    for kind, count in (("word", len(WORDS)), ("position", 32), ("token_type", 2)):
        shapes[f"text_encoder.bert.embeddings.{kind}_embeddings.weight"] = (count, 64)
    add_pair("text_encoder.bert.embeddings.LayerNorm", 64)
    for number in range(12):
        layer = f"text_encoder.bert.encoder.layer.{number}"
        for attention, read in (("attention", 64), ("crossattention", 256))[: 1 + (number >= 6)]:
            for name, inside in (("self.query", 64), ("self.key", read), ("self.value", read), ("output.dense", 64)):
                add_pair(f"{layer}.{attention}.{name}", 64, inside)
            add_pair(f"{layer}.{attention}.output.LayerNorm", 64)
        add_pair(f"{layer}.intermediate.dense", 128, 64)
        add_pair(f"{layer}.output.dense", 64, 128)
        add_pair(f"{layer}.output.LayerNorm", 64)
    for name, *shape in (("vision_proj", 16, 256), ("text_proj", 16, 64), ("itm_head.0", 128, 64), ("itm_head.1", 128),
                         ("itm_head.3", 2, 128)):  # fmt: skip
        add_pair(name, *shape)
    return shapes


@pytest.fixture
def folder(tmp_path):
    """A folder with weights of drawn numbers, those of a norm around one, and a vocabulary."""
    generator = np.random.default_rng(0)
    state = {}
    for name, shape in sorted(list_shapes().items()):
        center = float(name.endswith("weight") and len(shape) == 1)
        state[name] = torch.from_numpy(generator.normal(center, 0.2, shape)).float()
    torch.save({"model": state}, tmp_path / "model.th")
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def draw_pictures():
    generator = np.random.default_rng(1)
    return [Image.fromarray(generator.integers(0, 255, (50, 70, 3), dtype=np.uint8)) for _ in TEXTS]


def test_scores_are_those_of_the_authors_program(transformers, folder):
    model = foreign_models.load_model("xvlm", str(folder), "cpu")
    with torch.no_grad():
        scores = model.score_pairs(draw_pictures(), TEXTS)
    assert scores.tolist() == pytest.approx(PRINTED, abs=1e-4)


def test_a_file_of_another_model_is_one_line(transformers, folder):
    torch.save({"model": {"logit_scale": torch.ones(1)}}, folder / "model.th")
    with pytest.raises(UserError, match=r"KeyError.*give a folder with X-VLM's model.th and BERT's vocab.txt"):
        foreign_models.load_model("xvlm", str(folder), "cpu")
