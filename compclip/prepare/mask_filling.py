"""Find words that a masked language model of transformers puts in place of each word of a caption (SVLC's L).

    masked: {model: models/distilroberta-base, top: 5, pos: [NOUN, ADP, ADJ, VERB]}

Departures from SVLC's program: the caption keeps its punctuation, and a word is exchanged by its token's offset.
Predictions that are no word, or equal the word, are left out. With `rank: 4` the fourth alone is taken, as CE-CLIP's
program does; there is none where the fourth is left out. A model sees captions of up to `CONTEXT` characters, and
of a longer one the word's sentence; theirs sees 100 characters.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compclip.base import files
from compclip.base.errors import UserError, one_line
from compclip.runs import gpus
from compclip.text import word_edits

if TYPE_CHECKING:
    from compclip.config.released_lists import MaskedSection
    from compclip.text.annotation import Annotation

MaskedWords = tuple[tuple[int, tuple[str, ...]], ...]  # of a caption: a token's first character, and its words
FillWords = Callable[[Sequence[str]], tuple[list[MaskedWords], Counter]]
EXAMPLE = "distilbert/distilroberta-base"
CONTEXT = 512  # characters
BARE = -1  # in place of a first character: the words for a mask alone
AT_ONCE = 8192  # characters of a batch: a vocabulary's logits at every token are what takes memory
CAPTIONS = 1000  # that are analysed at a time
CONTINUED = "##"  # what a word's further pieces begin with in BERT's vocabularies
SPACES = ("\u0120", "\u2581")  # what a word begins with in vocabularies of BPE and of SentencePiece


def fingerprint(cfg: MaskedSection) -> str:
    """Return a hash of the model's files. Raises UserError where there is none."""
    check_folder("masked.model", cfg.model, EXAMPLE)
    return files.fingerprint(*sorted(filter(Path.is_file, Path(cfg.model).iterdir())))


def check_folder(option: str, folder: str, example: str) -> None:
    """Raise UserError, naming the option, for a folder without a model of transformers."""
    if not (Path(folder) / "config.json").is_file():
        raise UserError(
            f"{option}={folder}: no config.json there; download a model where there is a hub, as "
            f"`hf download {example} --local-dir {folder}`, and copy the folder to this place"
        )


@contextmanager
def loading(option: str, folder: str, example: str) -> Iterator[dict[str, Any]]:
    """Give the options by which transformers loads a folder: no hub, and no code of the folder's.

    Raises UserError, naming the option, where transformers or the folder is absent, and for what it cannot load.
    """
    if importlib.util.find_spec("transformers") is None:
        raise UserError(f"{option} needs the package transformers; run `pip install compclip[captioners]`")
    check_folder(option, folder, example)
    try:
        yield {"local_files_only": True, "trust_remote_code": False}
    except Exception as error:  # a damaged file is met by whichever line of transformers reads it
        reason = one_line(str(error))[:300]
        raise UserError(f"{option}={folder}: transformers cannot open it: {reason}; give a whole model") from error


def open_model(cfg: MaskedSection) -> FillWords:
    """Load the model and return the function that finds words for captions, with counts.

    Counted: `words` asked for, `usable` ones, and those `cut_off`, which the model did not see; predictions that are
    `unchanged` or `no_word`. Raises UserError for what is no masked language model of transformers.
    """
    model = MaskedModel.load(cfg)

    def fill(captions: Sequence[str]) -> tuple[list[MaskedWords], Counter]:
        from compclip.text.spacy_parser import annotate

        counts = Counter[str]()
        words = list[MaskedWords]()
        for first in range(0, len(captions), CAPTIONS):
            some = annotate(captions[first : first + CAPTIONS], replacements=False)
            words += _fill_captions(model, some, cfg, counts)
        return words, counts

    return fill


# B texts, L tokens, V words


@dataclass(frozen=True)
class MaskedPosition:
    """A word of a caption that the model does not see: caption, first character, and the text around it."""

    caption: int
    start: int
    word: str
    before: str
    after: str

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


def _fill_captions(
    model: MaskedModel, captions: Sequence[Annotation], cfg: MaskedSection, counts: Counter
) -> list[MaskedWords]:
    blanks: list[MaskedPosition] = []
    for number, caption in enumerate(captions):
        if model.mask not in caption.text:
            blanks += _masked_positions(number, caption, cfg.pos)
    bare = _bare_words(model, cfg)
    words_of_caption = [[*bare] for _ in captions]
    for some in _batches(sorted(blanks, key=len)):
        for blank, predicted in zip(some, model.likeliest(some, cfg.top), strict=True):
            words = _usable_words(blank, _ranked(predicted, cfg), counts)
            counts.update(words=1, usable=bool(words), cut_off=not predicted)
            if words:
                words_of_caption[blank.caption].append((blank.start, words))
    return [tuple(sorted(words_of_one)) for words_of_one in words_of_caption]


def _bare_words(model: MaskedModel, cfg: MaskedSection) -> list[tuple[int, tuple[str, ...]]]:
    """Return what the model says of a mask alone, be it no word."""
    if not cfg.bare:
        return []
    (predicted,) = model.likeliest([MaskedPosition(0, 0, "", "", "")], cfg.top)
    words = tuple(filter(None, _ranked(predicted, cfg)))
    return [(BARE, words)] if words else []


def _ranked(predicted: Sequence[str], cfg: MaskedSection) -> Sequence[str]:
    """Return all predictions, or the one of the rank that the section asks for."""
    return predicted[cfg.rank - 1 : cfg.rank] if cfg.rank else predicted


def _masked_positions(number: int, a: Annotation, parts_of_speech: Sequence[str]) -> Iterator[MaskedPosition]:
    whole = (0, len(a.text))
    for token, pos in enumerate(a.pos):
        if pos in parts_of_speech and word_edits.is_word(a, token):
            start, end = a.chars((token, token + 1))
            sentences = a.sentences if len(a.text) > CONTEXT else ()
            low, high = next(((low, high) for low, high in sentences if low <= start < high), whole)
            yield MaskedPosition(number, start, a.word(token), a.text[low:start], a.text[end:high])


def _batches(blanks: Sequence[MaskedPosition]) -> Iterator[list[MaskedPosition]]:
    """Give batches of about `AT_ONCE` characters, of positions in the order of their length."""
    batch: list[MaskedPosition] = []
    for blank in blanks:
        if batch and (len(batch) + 1) * len(blank) > AT_ONCE:
            yield batch
            batch = []
        batch.append(blank)
    if batch:
        yield batch


def _usable_words(blank: MaskedPosition, predicted: Sequence[str], counts: Counter) -> tuple[str, ...]:
    """Return the predictions that are other words, each once; capitals make no difference."""
    usable: dict[str, str] = {}
    for word in predicted:
        if not word.isalpha():
            counts["no_word"] += 1
        elif word_edits.equal_ignoring_case(word, blank.word):
            counts["unchanged"] += 1
        else:
            usable.setdefault(word.casefold(), word)
    return tuple(usable.values())


class MaskedModel:
    """A masked language model with its tokenizer; `mask` is its token for a hidden word."""

    def __init__(self, model: Any, tokenizer: Any, where: str) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.where = where
        self.mask = tokenizer.mask_token
        places = getattr(model.config, "max_position_embeddings", None) or tokenizer.model_max_length
        self.longest = min(tokenizer.model_max_length, places) - 2  # RoBERTa's positions begin behind its padding's
        self.spaced = any(token.startswith(SPACES) for token in tokenizer.get_vocab())

    @classmethod
    def load(cls, cfg: MaskedSection) -> MaskedModel:
        """Load the model of a folder, on a GPU where there is one. Raises UserError as `loading`."""
        device = gpus.choose_device()
        with loading("masked.model", cfg.model, EXAMPLE) as options:
            from transformers import AutoModelForMaskedLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(cfg.model, **options)
            options |= {"weights_only": True, "output_loading_info": True}
            model, loaded = AutoModelForMaskedLM.from_pretrained(cfg.model, **options)
            missing_weights = sorted(loaded["missing_keys"])  # which transformers draws at random
            if tokenizer.mask_token is None or missing_weights:
                raise ValueError(f"no masked language model: mask {tokenizer.mask_token}, absent {missing_weights[:1]}")
            return cls(model.eval().to(device), tokenizer, cfg.model)

    def likeliest(self, blanks: Sequence[MaskedPosition], top: int) -> list[list[str]]:
        """Return the likeliest words for positions, likeliest first; none where the model did not see one."""
        try:
            codes_of_blank = self._likeliest([self.hide_word(blank) for blank in blanks], top)
        except Exception as error:  # a tokenizer of another model, too little memory
            raise UserError(
                f"masked.model={self.where}: cannot fill a place: {type(error).__name__}: "
                f"{one_line(str(error))[:300]}; take a whole model's folder"
            ) from error
        words = []
        for blank, codes in zip(blanks, codes_of_blank, strict=True):
            words.append([self._word(code, not blank.before) for code in codes])
        return words

    def hide_word(self, blank: MaskedPosition) -> str:
        """Return the caption with the model's mask, without a space before it where tokens begin with theirs."""
        return (blank.before.rstrip() if self.spaced else blank.before) + self.mask + blank.after

    def _likeliest(self, texts: list[str], top: int) -> list[list[int]]:
        import torch

        inputs = self.tokenizer(texts, padding=True, truncation=True, max_length=self.longest, return_tensors="pt")
        inputs = inputs.to(self.model.device)
        hidden_BL = inputs["input_ids"] == self.tokenizer.mask_token_id
        with torch.inference_mode():
            logits_BLV = self.model(**inputs).logits
        rows = torch.arange(len(texts), device=logits_BLV.device)
        logits_BV = logits_BLV[rows, hidden_BL.int().argmax(1)]
        codes_BT = logits_BV.topk(min(top, logits_BV.shape[1])).indices.tolist()
        visible_B = hidden_BL.any(1).tolist()
        return [codes if visible else [] for codes, visible in zip(codes_BT, visible_B, strict=True)]

    def _word(self, code: int, first: bool) -> str:
        """Return a token as a word; "" for a word's continuation and for the model's special tokens."""
        token = self.tokenizer.convert_ids_to_tokens(code) or ""
        goes_on = self.spaced and not first and not token.startswith(SPACES)
        if goes_on or token.startswith(CONTINUED) or code in self.tokenizer.all_special_ids:
            return ""
        return self.tokenizer.decode([code]).strip()
