"""Caption pictures at length with any OpenAI-compatible vision endpoint, asked with CLIC's query.

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

from compclip.config.servers import Server
from compclip.data.sample import Sample
from compclip.llm import answer_cache, chat_client, local_server
from compclip.llm.chat_client import Question
from compclip.prepare.captioners import QUERY, QUERY_TOKENS, Caption

if TYPE_CHECKING:
    from compclip.config.sections import Data


IMAGE_SIDE = 1024  # pixels of a sent picture's longer side


@dataclass(frozen=True)
class Config(Server):
    """The endpoint and the query."""

    prompt: str = QUERY


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """Give a captioner that asks the endpoint and caches the answers of each shard in one file."""
    folder = answer_cache.cache_folder(cfg.cache, data)
    with local_server.run_server(cfg, folder / local_server.log_name()) as (server, watch):
        yield lambda samples, shard: caption_samples(samples, server, answer_cache.shard_cache(folder, shard), watch)


def caption_samples(
    samples: list[Sample], cfg: Config, cache: str, watch: Callable[[], None] | None = None
) -> tuple[list[Sample], Counter]:
    """Return samples with the endpoint's captions; those without an answer are dropped and counted."""
    questions = [Question(cfg.prompt, s.picture, IMAGE_SIDE, QUERY_TOKENS) for s in samples]
    replies = chat_client.ask_questions(questions, cfg, cache, watch)
    captioned = [
        replace(s, captions=(join_paragraphs(a.text),)) for s, a in zip(samples, replies.answers, strict=True) if a
    ]
    return captioned, replies.counts


def join_paragraphs(text: str) -> str:
    """Return the answer without line breaks: models like to write several paragraphs."""
    return " ".join(text.split())
