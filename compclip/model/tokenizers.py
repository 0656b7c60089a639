"""Tokenizers: CLIP's own, one of transformers, and a stand-in for one that is not installed.

All return ids [B, L] of B texts at L positions, count the tokens of a text without what stands around it, and write
their files into a checkpoint's folder. `room` is how many tokens of a text they keep; the others are cut off.
"""

from __future__ import annotations

import functools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compclip.base.errors import UserError
from compclip.model import hub_cache

STAND_IN = "clip"
FILES = hub_cache.TOKENIZER_FILES
VOCABULARY = 49408  # of CLIP's byte-pair code
BYTES = 512  # CLIP's code lists every byte twice, inside and at the end of a word, before its merges


@dataclass(frozen=True)
class TokenLayout:
    """Positions of a text's tokens: after `starts` tokens, up to the first token `end` (None: the largest id)."""

    starts: int = 1
    end: int | None = None


class ClipTokenizer:
    """CLIP's byte-pair code as open_clip has it: start token, text, end token, zeros."""

    layout = TokenLayout()
    record = ""

    def __init__(self, context_length: int) -> None:
        import open_clip

        self._length = context_length
        self.room = context_length - 2
        self._code = open_clip.SimpleTokenizer(context_length=context_length)
        self._encode_word = functools.lru_cache(1 << 16)(self._code.encode)

    def __call__(self, texts: list[str]) -> Tensor:
        """Return ids [B, L], equal to open_clip's."""
        ids_BL = np.zeros((len(texts), self._length), np.int64)
        for row_L, text in zip(ids_BL, texts, strict=True):
            ids = self._encode(text)[: self.room]
            row_L[: len(ids) + 2] = (self._code.sot_token_id, *ids, self._code.eot_token_id)
        return torch.from_numpy(ids_BL)

    def count(self, text: str) -> int:
        """Return the number of tokens of a text without start and end."""
        return len(self._encode(text))

    def _encode(self, text: str) -> list[int]:
        """Return a text's ids; plain ASCII is encoded word by word: no token spans a space."""
        if text.isascii() and text.isprintable() and "&" not in text:  # & may begin an HTML entity
            return [i for word in text.split() for i in self._encode_word(word)]
        return self._code.encode(text)

    def save(self, folder: Path) -> None:
        """Write nothing: open_clip has it."""


class StandInTokenizer:
    """CLIP's code with as many merges as the vocabulary holds, laid out as SigLIP's: text, then end tokens.

    It replaces a tokenizer that is not installed, to run a model with random weights. Trained weights need their own
    tokenizer.
    """

    record = STAND_IN

    def __init__(self, vocab_size: int, context_length: int, end: int = 1) -> None:
        import open_clip

        # SigLIP's: padding 0, end 1
        self.layout = TokenLayout(starts=0, end=end)
        self._end = end
        self._first = end + 1
        room = vocab_size - BYTES - self._first
        if room < 0:
            raise UserError(f"tokenizer {STAND_IN!r}: needs a vocabulary of {BYTES + self._first}, not {vocab_size}")
        self._length = context_length
        self.room = context_length - 1
        self._code = open_clip.SimpleTokenizer(context_length=context_length)
        self._code.bpe_ranks = {pair: rank for pair, rank in self._code.bpe_ranks.items() if rank < room}
        self._code.cache = {}  # it knows start and end tokens, whose ids are too large

    def __call__(self, texts: list[str]) -> Tensor:
        """Return ids [B, L]."""
        ids_BL = torch.full((len(texts), self._length), self._end)
        for row, text in enumerate(texts):
            ids = [self._first + i for i in self._code.encode(text)][: self.room]
            ids_BL[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        return ids_BL

    def count(self, text: str) -> int:
        """Return the number of tokens of a text without its end."""
        return len(self._code.encode(text))

    def save(self, folder: Path) -> None:
        """Write nothing: the checkpoint's config records the stand-in."""


class TransformersTokenizer:
    """A tokenizer of transformers, from a folder or from the hub's cache."""

    record = ""

    def __init__(self, source: str, text_cfg: dict) -> None:
        import open_clip

        options = text_cfg.get("tokenizer_kwargs") or {}
        self._tokenizer = open_clip.tokenizer.HFTokenizer(
            source, text_cfg.get("context_length", 77), **options, tokenizer_mode=text_cfg.get("tokenizer_mode"),
            trust_remote_code=False)  # fmt: skip
        brings_tower = text_cfg.get("hf_model_name")  # and with it a vocabulary
        self._size = sys.maxsize if brings_tower else text_cfg.get("vocab_size", VOCABULARY)
        # CLIPS has other marks than its tokenizer
        ids = self._tokenizer(["a"])[0].tolist()
        word = self._encode("a")
        starts = next((i for i in range(len(ids)) if ids[i : i + len(word)] == word), 0)
        after = ids[starts + len(word) :]
        self.layout = TokenLayout(starts, after[0] if after else ids[-1])
        filled = self._tokenizer(["a " * 2 * len(ids)])[0].tolist()  # as many tokens as the positions hold
        self.room = filled.count(word[-1])
        self(["a"])  # checks the ids' size

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.tokenizer(self._tokenizer.clean_fn(text), add_special_tokens=False).input_ids

    def __call__(self, texts: list[str]) -> Tensor:
        """Return ids [B, L]. Raises UserError for an id that the model has no embedding of."""
        ids_BL = self._tokenizer(texts)
        if ids_BL.numel() and int(ids_BL.max()) >= self._size:
            raise UserError(
                f"tokenizer: gives the id {int(ids_BL.max())}, and text_cfg.vocab_size={self._size}; give the "
                "tokenizer that the model was trained with"
            )
        return ids_BL

    def count(self, text: str) -> int:
        """Return the number of tokens of a text without what stands around it."""
        return len(self._encode(text))

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files, so that plain open_clip loads the folder too."""
        self._tokenizer.save_pretrained(str(folder))


def load_tokenizer(text_cfg: dict, source: str | Path, record: str = "") -> Any:
    """Return the tokenizer of a config, read from `source` where it is one of transformers.

    `record`: what the checkpoint's config says of it, STAND_IN or nothing.
    """
    if not text_cfg.get("hf_tokenizer_name"):
        return ClipTokenizer(text_cfg.get("context_length", 77))
    if record == STAND_IN:
        end = text_cfg.get("eos_id", 2) if text_cfg.get("pool_type") == "eos" else 1
        return StandInTokenizer(text_cfg.get("vocab_size", VOCABULARY), text_cfg.get("context_length", 77), end)
    return TransformersTokenizer(str(source), text_cfg)
