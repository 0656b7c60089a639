"""Embeddings without slopes are those of the towers, whatever is left out on the way."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compclip.config.sections import Lora
from compclip.model import inference_towers, lora, towers
from tests.model.test_towers import TINY, make_model

TEXTS = ["a red umbrella", "a red umbrella left of a blue anchor", "a red anchor left of a blue umbrella", "", "a", "!",
         "! !", "a red umbrella left of a blue star", "word " * 200, "a " * 40]  # fmt: skip
VISION, TEXT = TINY["vision_cfg"], TINY["text_cfg"]
OTHERS = {
    "CLIP": {},
    "OpenAI": {"quick_gelu": True},
    "scaled layers": {"vision_cfg": VISION | {"ls_init_value": 0.1}, "text_cfg": TEXT | {"ls_init_value": 0.2}},
    "normalised after pooling": {"vision_cfg": VISION | {"final_ln_after_pool": True}},
    "mean of patches": {"vision_cfg": VISION | {"pool_type": "avg"}},
    "normalised queries": {"text_cfg": TEXT | {"qk_norm": True}, "vision_cfg": VISION | {"qk_norm": True}},
    "a text tower of its own": {"custom_text": True},
    "a text that looks both ways": {"text_cfg": TEXT | {"pool_type": "last", "no_causal_mask": True}},
}


def encoded(model, texts, size):
    """The embeddings of texts in their order, and how many tokens the first block saw."""
    ids_TL, seen = model.tokenize(texts), []
    found_TD = torch.full((len(texts), 16), torch.nan)
    with torch.inference_mode():
        for row_B in inference_towers.text_batches(model.clip, ids_TL, size):
            seen.append(len(row_B))
            found_TD[row_B] = inference_towers.encode_texts(model.clip, ids_TL[row_B])
    assert sum(seen) == len(texts) and max(seen) <= size
    return found_TD


@pytest.mark.parametrize("changes", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_embeddings_are_those_of_the_towers(tmp_path, changes, size):
    model = make_model(tmp_path, changes)
    model.clip.eval()
    image_B3HW = torch.randn(5, 3, 32, 32)
    with torch.inference_mode():
        expected_ID, _ = towers.encode_images(model.clip, image_B3HW)
        torch.testing.assert_close(inference_towers.encode_images(model.clip, image_B3HW), expected_ID)
        expected_TD = torch.cat([towers.encode_texts(model.clip, model.tokenize([text]))[0] for text in TEXTS])
    torch.testing.assert_close(encoded(model, TEXTS, size), expected_TD)


def test_products_in_bfloat16_are_those_of_the_towers(tmp_path):
    """As under `evaluate.precision: bf16`, whose autocast a CPU has too: parts of a block differ in their types."""
    model = make_model(tmp_path, {})
    model.clip.eval()
    image_B3HW = torch.randn(5, 3, 32, 32)
    text_BL = model.tokenize(TEXTS[:4])
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        image_ID = inference_towers.encode_images(model.clip, image_B3HW)
        text_TD = inference_towers.encode_texts(model.clip, text_BL)
        expected_ID, _ = towers.encode_images(model.clip, image_B3HW)
        expected_TD, _ = towers.encode_texts(model.clip, text_BL)
    torch.testing.assert_close(image_ID, expected_ID, rtol=0, atol=1e-2)
    torch.testing.assert_close(text_TD, expected_TD, rtol=0, atol=1e-2)


def test_what_texts_begin_with_is_computed_once():
    """Two texts that part at their fourth token, and one that stands alone: 5 + 2 + 3 tokens and not 5 + 5 + 3."""
    text_BL = torch.tensor([[7, 1, 2, 3, 9, 0], [7, 1, 2, 4, 9, 0], [8, 0, 9, 0, 0, 0]])
    tree = inference_towers.build_prefix_tree(text_BL)
    assert tree.token_N.tolist() == [7, 1, 2, 3, 9, 4, 9, 8, 0, 9]
    assert tree.position_N.tolist() == [0, 1, 2, 3, 4, 3, 4, 0, 1, 2]
    assert tree.node_BT.tolist()[:2] == [[0, 1, 2, 3, 4], [0, 1, 2, 5, 6]]
    assert tree.node_BT[2, :3].tolist() == [7, 8, 9]


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=8))
def test_every_text_is_found_in_its_beginnings(rows):
    """In any order: following a text's nodes gives its tokens, and equal nodes are equal beginnings."""
    text_BL = torch.tensor([[*row, 9, *[0] * (5 - len(row))] for row in rows])
    tree = inference_towers.build_prefix_tree(text_BL)
    beginning_of_node: dict[int, tuple[int, ...]] = {}
    for row, node_T in zip(rows, tree.node_BT.tolist(), strict=True):
        token_ids = [*row, 9]
        assert tree.token_N[node_T[: len(token_ids)]].tolist() == token_ids
        for place in range(len(token_ids)):
            beginning = tuple(token_ids[: place + 1])
            assert beginning_of_node.setdefault(node_T[place], beginning) == beginning
    assert sorted(beginning_of_node) == list(range(len(tree.token_N)))


def test_an_adapter_is_not_left_out_and_batches_fit_a_core(tmp_path):
    """A model that is scored while it trains has its adapters apart from the weights; no batch is more than asked for."""
    clip = make_model(tmp_path, {}).clip
    assert inference_towers.image_batch_size(clip, 256) == 256 and inference_towers.text_batch_size(clip, 5) == 5
    assert inference_towers.image_batch_size(clip, 10**9) == inference_towers.CACHE_BYTES // (4 * 128 * 5)
    lora.inject(clip, Lora(rank=2, targets=["attention", "mlp"]), ("image", "text"))
    for factor in lora.adapter_parameters(clip).values():
        factor.data.normal_()
    assert not inference_towers.shares_prefixes(clip)
    image_B3HW = torch.randn(2, 3, 32, 32)
    with torch.inference_mode():
        expected_ID, _ = towers.encode_images(clip, image_B3HW)
        assert torch.equal(inference_towers.encode_images(clip, image_B3HW), expected_ID)
