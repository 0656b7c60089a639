"""Tokenizers: CLIP's own, one that comes from a hub, and a stand-in where that is not at hand.

B texts, L positions.
"""

from __future__ import annotations

import functools
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compclip.base.errors import UserError, one_line
from compclip.base.lazy import open_clip
from compclip.model import borrowed, hub

STAND_IN = "clip"
FILES = ("tokenizer.json", "spiece.model", "vocab.txt", "vocab.json")
WORDS = 1 << 16  # whose tokens are remembered
VOCABULARY = 49408  # of CLIP's code
WHOLE = 1 << 62  # of a tower that brings its own
BYTES = 512  # CLIP's code has every byte twice, inside and at the end of a word, before its merges


@dataclass(frozen=True)
class Layout:
    """Where a text stands among the positions: behind `starts` tokens, up to the first `end` (None: largest id)."""

    starts: int = 1
    end: int | None = None


class Clip:
    """CLIP's byte-pair code, which open_clip carries: start token, text, end token, zeros."""

    layout, record = Layout(), ""

    def __init__(self, context_length: int) -> None:
        self._length = context_length
        self._code = open_clip.SimpleTokenizer(context_length=context_length)
        self._of_word = functools.lru_cache(WORDS)(self._code.encode)

    def __call__(self, texts: list[str]) -> Tensor:
        """Ids [B, L]: those of open_clip."""
        ids_BL = np.zeros((len(texts), self._length), np.int64)
        for row_L, text in zip(ids_BL, texts, strict=True):
            ids = self._ids(text)[: self._length - 2]
            row_L[: len(ids) + 2] = (self._code.sot_token_id, *ids, self._code.eot_token_id)
        return torch.from_numpy(ids_BL)

    def count(self, text: str) -> int:
        """How many tokens a text has without start and end."""
        return len(self._ids(text))

    def _ids(self, text: str) -> list[int]:
        """A text's ids, word by word: in plain ASCII nothing is to be mended, and no token spans white space."""
        if text.isascii() and text.isprintable() and "&" not in text:  # & may begin an HTML entity
            return [i for word in text.split() for i in self._of_word(word)]
        return self._code.encode(text)

    def save(self, folder: Path) -> None:
        """Nothing: open_clip has it."""


class StandIn:
    """CLIP's code with the merges that the vocabulary has room for, laid out as SigLIP's: text, end token as padding.

    It stands for a tokenizer that is not at hand, so that a model with random weights can be run; to trained weights
    its ids mean nothing.
    """

    record = STAND_IN

    def __init__(self, vocab_size: int, context_length: int, end: int = 1) -> None:
        self.layout, self._first = Layout(starts=0, end=end), end + 1  # SigLIP's: padding 0, end 1
        room = vocab_size - BYTES - self._first
        if room < 0:
            raise UserError(f"tokenizer {STAND_IN!r}: needs a vocabulary of {BYTES + self._first}, not {vocab_size}")
        self._length = context_length
        self._code = open_clip.SimpleTokenizer(context_length=context_length)
        self._code.bpe_ranks = {pair: rank for pair, rank in self._code.bpe_ranks.items() if rank < room}
        self._code.cache = {}  # it knows start and end tokens, whose ids are too large

    def __call__(self, texts: list[str]) -> Tensor:
        """Ids [B, L]."""
        ids_BL = torch.full((len(texts), self._length), self.layout.end)
        for row, text in enumerate(texts):
            ids = [self._first + i for i in self._code.encode(text)][: self._length - 1]
            ids_BL[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        return ids_BL

    def count(self, text: str) -> int:
        """How many tokens a text has without its end."""
        return len(self._code.encode(text))

    def save(self, folder: Path) -> None:
        """Nothing: the checkpoint's config records that it was used."""


class Hub:
    """A transformers tokenizer, from a folder or from the hub's cache."""

    record = ""

    def __init__(self, source: str, text_cfg: dict) -> None:
        borrowed.check_tokenizer(source)
        options = text_cfg.get("tokenizer_kwargs") or {}  # those that architecture.TOKENIZER lets pass
        self._hf = open_clip.tokenizer.HFTokenizer(
            source, text_cfg.get("context_length", 77), **options, tokenizer_mode=text_cfg.get("tokenizer_mode"),
            trust_remote_code=False)  # fmt: skip
        self._size = WHOLE if text_cfg.get("hf_model_name") else text_cfg.get("vocab_size", VOCABULARY)
        self.layout = self._probed()
        self(["a"])  # one that cannot pad says so here

    def _probed(self) -> Layout:
        """What the tokenizer puts around a text, as one word shows it: CLIPS has other marks than its tokenizer."""
        whole, word = self._hf(["a"])[0].tolist(), self._plain("a")
        starts = next((i for i in range(len(whole)) if whole[i : i + len(word)] == word), 0)
        behind = whole[starts + len(word) :]
        return Layout(starts, behind[0] if behind else whole[-1])

    def _plain(self, text: str) -> list[int]:
        return self._hf.tokenizer(self._hf.clean_fn(text), add_special_tokens=False).input_ids

    def __call__(self, texts: list[str]) -> Tensor:
        """Ids [B, L]. Raises UserError for one that the model has no embedding of."""
        ids_BL = self._hf(texts)
        if ids_BL.numel() and int(ids_BL.max()) >= self._size:
            raise UserError(
                f"tokenizer: gives the id {int(ids_BL.max())}, and text_cfg.vocab_size={self._size}; give the "
                "tokenizer that the model was trained with"
            )
        return ids_BL

    def count(self, text: str) -> int:
        """How many tokens a text has without what stands around it."""
        return len(self._plain(text))

    def save(self, folder: Path) -> None:
        """Write the tokenizer's files, so that a checkpoint's folder is complete also for plain open_clip."""
        self._hf.save_pretrained(str(folder))


def of(name: str, model_cfg: dict, choice: str = "", folder: Path | None = None) -> Any:
    """The tokenizer of a model: `choice` (`clip` the stand-in, or a folder), else `folder`'s, else the model's own.

    Raises UserError naming the files to download, and where to put them, for one that cannot be had.
    """
    text_cfg = model_cfg.get("text_cfg", {})
    own = text_cfg.get("hf_tokenizer_name")
    if not own:
        if choice not in ("", STAND_IN):
            raise UserError(f"model {name}: has CLIP's own tokenizer; remove tokenizer={choice}")
        return _clip(name, text_cfg)
    if choice == STAND_IN:
        end = text_cfg.get("eos_id", 2) if text_cfg.get("pool_type") == "eos" else 1
        return StandIn(text_cfg.get("vocab_size", VOCABULARY), text_cfg.get("context_length", 77), end)
    if choice and not is_folder(Path(choice)):
        raise UserError(f"tokenizer {choice!r}: no folder with {' or '.join(FILES)}; {_download(own)}")
    return _hub(name, own, choice or (str(folder) if folder and is_folder(folder) else own), text_cfg)


def _clip(name: str, text_cfg: dict) -> Clip:
    if text_cfg.get("tokenizer_kwargs") or text_cfg.get("tokenizer_mode"):
        raise UserError(f"model {name}: CLIP's own tokenizer takes no options; remove those of text_cfg")
    if text_cfg.get("vocab_size", VOCABULARY) < VOCABULARY and not text_cfg.get("hf_model_name"):
        raise UserError(
            f"model {name}: text_cfg.vocab_size={text_cfg['vocab_size']}: CLIP's own tokenizer has {VOCABULARY}; "
            "name the model's own as hf_tokenizer_name"
        )
    return Clip(text_cfg.get("context_length", 77))


def is_folder(folder: Path) -> bool:
    """Whether a tokenizer's files lie there."""
    return any((folder / file).is_file() for file in FILES)


def _hub(name: str, own: str, source: str, text_cfg: dict) -> Hub:
    try:
        with hub.asked() if source == own else nullcontext():
            return Hub(source, text_cfg)
    except ImportError as error:
        raise UserError(f"model {name}: its tokenizer needs a package: {one_line(str(error))[:160]}") from error
    except UserError:
        raise
    except Exception as error:  # a damaged file is met by whichever line of transformers reads it
        fault = f"{source} cannot be read" if source != own else f"is not in {hub.cached(own)} and cannot be fetched"
        raise UserError(f"model {name}: its tokenizer {fault} ({type(error).__name__}); {_download(own)}") from error


def _download(own: str) -> str:
    return (
        f"download tokenizer.json and tokenizer_config.json of {hub.address(own)} into a folder and give it "
        f"as backbones.<name>.tokenizer; `tokenizer: {STAND_IN}` is a stand-in for random weights"
    )
