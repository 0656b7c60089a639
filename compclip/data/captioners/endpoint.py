"""One long caption a picture from any OpenAI-compatible vision endpoint, asked with CLIC's query.

captioner: endpoint
options: {url: http://localhost:8000/v1, model: NAME, api_key_env: VARIABLE}

In place of `url`, `server: vllm serve NAME --host 127.0.0.1 --port {port}` starts one for the length of the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compclip.base.errors import UserError
from compclip.config.servers import Server
from compclip.data import answers, chat, serving
from compclip.data.captioners import Caption
from compclip.data.captioners._query import QUERY, QUERY_TOKENS
from compclip.data.sample import Sample

if TYPE_CHECKING:
    from compclip.config.sections import Data


@dataclass(frozen=True)
class Config(Server):
    """The endpoint, the query, and how large a picture is sent."""

    prompt: str = QUERY
    image_side: int = 1024
    max_tokens: int = QUERY_TOKENS

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("image_side", "max_tokens"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}: must be >= 1")


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """A captioner that asks the endpoint, and keeps the answers of each shard in a file of its own."""
    place = answers.of_data(cfg.cache, data)
    with serving.running(cfg, place / serving.log_name()) as (ready, watch):
        yield lambda samples, shard: asked(samples, ready, answers.of_shard(place, shard), watch)


def asked(
    samples: list[Sample], cfg: Config, cache: str, watch: Callable[[], None] = chat.nothing
) -> tuple[list[Sample], Counter]:
    """The samples with the endpoint's caption instead of theirs; those without an answer are dropped and counted."""
    questions = [chat.Question(cfg.prompt, s.picture, cfg.image_side, cfg.max_tokens) for s in samples]
    replies = chat.ask(questions, cfg, cache, watch)
    made = [replace(s, captions=(one_paragraph(a.text),)) for s, a in zip(samples, replies.answers, strict=True) if a]
    return made, replies.counts


def one_paragraph(text: str) -> str:
    """The answer without line breaks: models like to write several paragraphs."""
    return " ".join(text.split())
