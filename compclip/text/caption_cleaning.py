"""Clean captions once, where they enter, so that rules and tokenizers read one text.

Tokenizers of CLIP repair mojibake and HTML entities by themselves (`ftfy`, `html.unescape`); rules and spaCy would see
the text as it was written. A caption that spells a tokenizer's own marks, as `<end_of_text>`, would end there.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections import Counter

import ftfy

from compclip.base.files import replace_lone

LONGEST = 1 << 14  # characters, some 2,700 words: time and memory of rules grow faster than a text's length
LONGEST_WORD = 1000  # characters without a space: spaCy's time grows with their square
ROUNDS = 4  # of repairs that uncover others, as `&amp;quot;` does
JOINERS = "\u200c\u200d"  # invisible, but parts of scripts and emoji
# The marks of CLIP's, T5's, Gemma's and BERT's tokenizers.
_MARK = re.compile(
    r"<\|?(/?(?:start_of_text|end_of_text|startoftext|endoftext|s|pad|unk|bos|eos|cls|sep|mask))\|?>"
    r"|\[(CLS|SEP|PAD|MASK|UNK)\]",
    re.IGNORECASE,
)


def clean_caption(text: str, counts: Counter | None = None) -> str:
    """Return a caption on one line as a tokenizer of CLIP reads it, without characters that nobody sees.

    Counted in `counts`: `cut_captions`, of more than `LONGEST` characters or `LONGEST_WORD` in a word,
    `cleaned_captions`, that were written
    otherwise, and `special_tokens`, that spelt a mark of a tokenizer, whose words stay.
    """
    words = text[:LONGEST].split()
    has_long = max(map(len, words), default=0) > LONGEST_WORD
    line = " ".join([word[:LONGEST_WORD] for word in words] if has_long else words)
    repaired = line if _is_plain(line) else _repair(line)
    harmless = " ".join(_MARK.sub(_spell_mark, repaired).split())
    if counts is not None:
        counts["cut_captions"] += has_long or len(text) > LONGEST
        counts["cleaned_captions"] += repaired != line
        counts["special_tokens"] += harmless != repaired
    return harmless


def has_special_token(text: str) -> bool:
    """Return whether a text spells a mark of a tokenizer: some models read nothing behind it."""
    return bool(_MARK.search(text)) or ("&" in text and bool(_MARK.search(html.unescape(html.unescape(text)))))


def _is_plain(line: str) -> bool:
    """Return whether no repair can change a line, as of most captions."""
    return line.isascii() and line.isprintable() and "&" not in line


def _repair(line: str) -> str:
    for _ in range(ROUNDS):
        before = line
        line = html.unescape(html.unescape(ftfy.fix_text(replace_lone(line))))
        line = " ".join("".join(c for c in line if not _is_invisible(c)).split())
        if line == before:
            break
    return line


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) == "Cf" and character not in JOINERS


def _spell_mark(match: re.Match) -> str:
    """Return the words of a mark, without what makes it one."""
    return f" {(match[1] or match[2]).strip('/').replace('_', ' ')} "
