"""The words that a masked language model of transformers puts in the place of each word of a caption (SVLC's L).

    masked: {model: models/distilroberta-base, top: 5, pos: [NOUN, ADP, ADJ, VERB]}

Departures from SVLC's program: the caption keeps its punctuation, and a place is a token of it, so that the word is
exchanged by offset; predictions that are no word are left out, as those are that equal the word; a model sees the
caption up to `CONTEXT` characters, and of a longer one the word's sentence, where theirs sees 100 characters.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import files
from compclip.base.errors import UserError, one_line
from compclip.base.lazy import torch
from compclip.text import edits

if TYPE_CHECKING:
    from compclip.config.texts import Masked
    from compclip.text.annotation import Annotation

Words = tuple[tuple[int, tuple[str, ...]], ...]  # of a caption: a token's first character, and the words for its place
Fill = Callable[[Sequence[str]], tuple[list[Words], Counter]]
EXAMPLE = "distilbert/distilroberta-base"
CONTEXT = 512  # characters
AT_ONCE = 8192  # characters of a batch: a vocabulary's logits at every token are what takes memory
CAPTIONS = 1000  # that are analysed at a time
CONTINUED = "##"  # what a word's further pieces begin with in BERT's vocabularies
SPACES = ("\u0120", "\u2581")  # what a word begins with in vocabularies of BPE and of SentencePiece


def fingerprint(cfg: Masked) -> str:
    """Equal for equal files of the model. Raises UserError where there is none."""
    if not (Path(cfg.model) / "config.json").is_file():
        raise UserError(
            f"masked.model={cfg.model}: no config.json there; download a model where there is a hub, as "
            f"`hf download {EXAMPLE} --local-dir {cfg.model}`, and copy the folder to this place"
        )
    return files.fingerprint(*sorted(path for path in Path(cfg.model).iterdir() if path.is_file()))


def opened(cfg: Masked) -> Fill:
    """What finds the words for captions, its model loaded; counts words that were asked for, and what became of them.

    Counted: `words`, `usable` ones, and those `cut_off`, which the model did not see; `unchanged` and `no_word`
    predictions. Raises UserError for what is no masked language model of transformers.
    """
    model = Model.load(cfg)

    def fill(captions: Sequence[str]) -> tuple[list[Words], Counter]:
        from compclip.text.annotate import annotate

        counts, found = Counter[str](), list[Words]()
        for first in range(0, len(captions), CAPTIONS):
            some = annotate(captions[first : first + CAPTIONS], replacements=False)
            found += _filled(model, some, cfg, counts)
        return found, counts

    return fill


# B texts, L tokens, V words


@dataclass(frozen=True)
class Blank:
    """A word of a caption that the model does not see: its caption, its place, and what stands around it."""

    caption: int
    start: int
    word: str
    before: str
    after: str

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


def _filled(model: Model, captions: Sequence[Annotation], cfg: Masked, counts: Counter) -> list[Words]:
    blanks = [b for n, a in enumerate(captions) for b in _blanks(n, a, cfg.pos) if model.mask not in a.text]
    found: list[list[tuple[int, tuple[str, ...]]]] = [[] for _ in captions]
    for some in _batches(sorted(blanks, key=len)):
        for blank, predicted in zip(some, model.likeliest(some, cfg.top), strict=True):
            words = _usable(blank, predicted, counts)
            counts.update(words=1, usable=bool(words), cut_off=not predicted)
            if words:
                found[blank.caption].append((blank.start, words))
    return [tuple(sorted(own)) for own in found]


def _blanks(number: int, a: Annotation, parts: Sequence[str]) -> Iterator[Blank]:
    for token, pos in enumerate(a.pos):
        if pos in parts and edits.is_word(a, token):
            start, end = a.chars((token, token + 1))
            low, high = _context(a, start)
            yield Blank(number, start, a.word(token), a.text[low:start], a.text[end:high])


def _context(a: Annotation, place: int) -> tuple[int, int]:
    if len(a.text) <= CONTEXT:
        return 0, len(a.text)
    return next(((low, high) for low, high in a.sentences if low <= place < high), (0, len(a.text)))


def _batches(blanks: Sequence[Blank]) -> Iterator[list[Blank]]:
    """Batches of about as many characters, of blanks in the order of their length."""
    batch: list[Blank] = []
    for blank in blanks:
        if batch and (len(batch) + 1) * len(blank) > AT_ONCE:
            yield batch
            batch = []
        batch.append(blank)
    if batch:
        yield batch


def _usable(blank: Blank, predicted: Sequence[str], counts: Counter) -> tuple[str, ...]:
    """The predictions that are other words, each once; capitals make no difference."""
    found: dict[str, str] = {}
    for word in predicted:
        if not word.isalpha():
            counts["no_word"] += 1
        elif edits.same(word, blank.word):
            counts["unchanged"] += 1
        else:
            found.setdefault(word.casefold(), word)
    return tuple(found.values())


class Model:
    """A masked language model with its tokenizer; `mask` is what it calls a word that it does not see."""

    def __init__(self, model: Any, tokenizer: Any, where: str) -> None:
        self.model, self.tokenizer, self.where, self.mask = model, tokenizer, where, tokenizer.mask_token
        places = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
        self.longest = min(tokenizer.model_max_length, places) - 2  # RoBERTa's positions begin behind its padding's
        self.spaced = any(token.startswith(SPACES) for token in tokenizer.get_vocab())

    @classmethod
    def load(cls, cfg: Masked) -> Model:
        """The model of a folder, on a GPU where there is one. Raises UserError saying what to install or to fetch."""
        if importlib.util.find_spec("transformers") is None:
            raise UserError("masked.model needs the package transformers; run `pip install compclip[captioners]`")
        fingerprint(cfg)
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}  # no hub, no code of the folder's
        try:
            tokenizer = AutoTokenizer.from_pretrained(cfg.model, **own)
            own |= {"weights_only": True, "output_loading_info": True}
            model, told = AutoModelForMaskedLM.from_pretrained(cfg.model, **own)
            if tokenizer.mask_token is None:
                raise ValueError("its tokenizer has no mask")
            if lacking := sorted(told["missing_keys"]):  # which transformers draws at random, and says so
                raise ValueError(f"its weights lack {lacking[0]}")
            device = "cuda" if torch.cuda.is_available() else "cpu"
            return cls(model.eval().to(device), tokenizer, cfg.model)
        except Exception as error:  # a damaged file is met by whichever line of transformers reads it
            raise UserError(
                f"masked.model={cfg.model}: transformers cannot open it: {one_line(str(error))[:300]}; it must be a "
                "whole masked language model"
            ) from error

    def likeliest(self, blanks: Sequence[Blank], top: int) -> list[list[str]]:
        """The likeliest words for some places, likeliest first; none where the model did not see the place."""
        try:
            found = self._likeliest([self._hidden(blank) for blank in blanks], top)
        except Exception as error:  # a tokenizer of another model, too little memory
            raise UserError(
                f"masked.model={self.where}: cannot fill a place: {type(error).__name__}: "
                f"{one_line(str(error))[:300]}; take a whole model's folder"
            ) from error
        return [[self._word(code, not b.before) for code in codes] for b, codes in zip(blanks, found, strict=True)]

    def _hidden(self, blank: Blank) -> str:
        """The caption with the model's mask; where words bring their space with them, there is none before it."""
        return (blank.before.rstrip() if self.spaced else blank.before) + self.mask + blank.after

    def _likeliest(self, texts: list[str], top: int) -> list[list[int]]:
        given = self.tokenizer(texts, padding=True, truncation=True, max_length=self.longest, return_tensors="pt")
        given = given.to(self.model.device)
        hidden_BL = given["input_ids"] == self.tokenizer.mask_token_id
        with torch.inference_mode():
            logits_BLV = self.model(**given).logits
        rows = torch.arange(len(texts), device=logits_BLV.device)
        logits_BV = logits_BLV[rows, hidden_BL.int().argmax(1)]
        codes_BT = logits_BV.topk(min(top, logits_BV.shape[1])).indices.tolist()
        return [codes if seen else [] for codes, seen in zip(codes_BT, hidden_BL.any(1).tolist(), strict=True)]

    def _word(self, code: int, first: bool) -> str:
        """What a token is as a word; "" for what goes on with the word before it, and for the model's own signs."""
        token = self.tokenizer.convert_ids_to_tokens(code) or ""
        goes_on = self.spaced and not first and not token.startswith(SPACES)
        if goes_on or token.startswith(CONTINUED) or code in self.tokenizer.all_special_ids:
            return ""
        return self.tokenizer.decode([code]).strip()
