"""A tiny causal language model with random weights, saved as a hub's folder is laid out, and a slow score by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = ("<s>", "</s>", "<unk>", "a", "the", "dog", "cat", "runs", "sleeps", "on", "grass", "it", "mat")


def save_model(folder: Path, transformers: Any) -> None:
    """Save model and tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    sizes = {"vocab_size": len(WORDS), "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 32}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=1))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(10)  # far from evenly likely
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(folder)


def score_slowly(folder: Path, text: str, transformers: Any) -> float:
    """Add up the log probability of each word by itself."""
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    ids = [0, *(WORDS.index(word) for word in text.split()), 1]
    with torch.inference_mode():
        steps = (model(torch.tensor([ids[:i]])).logits[0, -1].log_softmax(-1)[ids[i]] for i in range(1, len(ids)))
        return float(sum(steps))
