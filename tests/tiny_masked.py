"""Tiny masked language models with random weights, saved as a hub's folder is laid out."""

from pathlib import Path
from typing import Any

import torch

SIGNS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = (
    "a", "dog", "cat", "red", "big", "runs", "sleeps", "on", "under", "the", "grass", "##s", "##ing", ".", ",", "7",
)  # fmt: skip


def bert(folder: Path, transformers: Any) -> None:
    """A model whose vocabulary marks the pieces that go on with a word."""
    torch.manual_seed(0)
    vocabulary = (*SIGNS, *WORDS)
    model = transformers.BertForMaskedLM(transformers.BertConfig(**_sizes(len(vocabulary)), pad_token_id=0))
    _loud(model)
    model.save_pretrained(folder)
    transformers.BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)}).save_pretrained(folder)


def roberta(folder: Path, transformers: Any) -> None:
    """A model whose vocabulary marks the pieces that begin a word, of letters and some pairs of them."""
    torch.manual_seed(0)
    letters = [*"abcdefghijklmnopqrstuvwxyzADT.,", "\u0120"]
    merges = [("\u0120", letter) for letter in "abdt"]
    vocabulary = ("<s>", "<pad>", "</s>", "<unk>", "<mask>", *letters, *("".join(pair) for pair in merges))
    sizes = _sizes(len(vocabulary)) | {"max_position_embeddings": 66}
    model = transformers.RobertaForMaskedLM(
        transformers.RobertaConfig(**sizes, bos_token_id=0, pad_token_id=1, eos_token_id=2)
    )
    _loud(model)
    model.save_pretrained(folder)
    token_ids = {token: i for i, token in enumerate(vocabulary)}
    transformers.RobertaTokenizer(vocab=token_ids, merges=merges).save_pretrained(folder)


def _sizes(words: int) -> dict[str, int]:
    return {
        "vocab_size": words, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 64,
    }  # fmt: skip


def _loud(model: Any) -> None:
    """Weights far from zero, so that places differ in what is likely there."""
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight)
