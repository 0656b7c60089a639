"""A T5 of transformers that reads texts out of embeddings (READ-CLIP): its weights, and its tokens.

B texts, L positions.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from torch import Tensor

from compclip.base.errors import report_failure
from compclip.model import tokenizers, transformers_files

if TYPE_CHECKING:
    from transformers import T5ForConditionalGeneration


def load_decoder(source: str) -> T5ForConditionalGeneration:
    """Load the model in a folder or in the hub's cache. Raises UserError where none can be read."""
    from transformers import T5ForConditionalGeneration

    kinds = (OSError, ValueError, RuntimeError)
    with report_failure(f"decoder={source}: no T5 of transformers", "give a folder with its files", *kinds):
        return T5ForConditionalGeneration.from_pretrained(source, use_safetensors=True)


def tokenize_targets(source: str, texts: list[str], longest: int) -> Tensor:
    """Return ids [B, L = longest] of texts, padded with -1; each text ends with the tokenizer's end token.

    Raises UserError for a folder without one.
    """
    tokenizer = _load_tokenizer(source)
    encoded = tokenizer(texts, truncation=True, max_length=longest, padding="max_length", return_tensors="pt")
    return encoded.input_ids.masked_fill(encoded.attention_mask == 0, -1)


@functools.cache
def _load_tokenizer(source: str) -> Any:
    from transformers import AutoTokenizer

    transformers_files.check_tokenizer(source)
    advice = f"give a folder with {' or '.join(tokenizers.FILES)}"
    # a damaged file is met by whichever line of transformers reads it
    with report_failure(f"decoder={source}: its tokenizer cannot be read", advice):
        return AutoTokenizer.from_pretrained(source, trust_remote_code=False)
