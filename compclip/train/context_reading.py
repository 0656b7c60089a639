"""What the model reads of texts: nothing behind its context, no white space, no capitals."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ContextReader:
    """Tells whether the model reads two texts as one: their tokens are equal as far as its context goes.

    `tokenize` returns ids [B, L]. A token is a byte or more of a text, so texts whose first `room` bytes differ have
    other tokens: only where these are equal both are tokenised. Without `tokenize` texts are compared by themselves.
    """

    tokenize: Callable[[list[str]], Tensor] | None = None
    room: int = 0

    def start(self, text: str) -> bytes:
        """Return the beginning of a text that is equal for all texts that the model reads as this one."""
        if self.tokenize is None:
            return text.casefold().encode("utf-8", "surrogatepass")
        return "".join(text.casefold().split()).encode("utf-8", "surrogatepass")[: self.room]

    def reads_alike(self, text: str, another: str) -> bool:
        """Return whether the model reads both as one text."""
        if text.casefold() == another.casefold():
            return True
        if self.tokenize is None or self.start(text) != self.start(another):
            return False
        first_L, second_L = self.tokenize([text, another])
        return bool((first_L == second_L).all())


PLAIN_READER = ContextReader()  # of no model: texts are compared whole


class TrueTexts:
    """Texts that are true of a picture; `in` says whether the model reads a text as one of them."""

    def __init__(self, texts: Iterable[str | None], reader: ContextReader) -> None:
        self._reader = reader
        self._by_start: dict[bytes, list[str]] = {}
        for text in texts:
            if text is not None:
                self._by_start.setdefault(reader.start(text), []).append(text)

    def __contains__(self, text: str) -> bool:
        alike = self._by_start.get(self._reader.start(text), ())
        return any(self._reader.reads_alike(text, true_text) for true_text in alike)
