"""Hard positives written by a language model (Hard Positives, supplementary D): the rewriting half of the data.

A shard of data/<name>/rewrites/ has a row for each different caption of its samples ("" where there is no rewrite); the
annotate stage puts both texts beside the caption. A data set without `rewriter` has no shards.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from compclip.base.errors import UserError, one_line
from compclip.config.sections import Data
from compclip.config.servers import KINDS, Rewriter
from compclip.data import answers, chat, serving, shards
from compclip.data.item import Item, Made, Make
from compclip.data.shards import Manifest
from compclip.text import edits

FOLDER = "rewrites"  # of a data set
SCHEMA = pa.schema([("caption", pa.string()), *((kind, pa.string()) for kind in KINDS)])

# Supplementary D.1, as printed
PROMPTS = {
    "replace": "Replace one word in this sentence with a synonym, without changing the meaning of the sentence. Only "
    "output the changed sentence. {example}",
    "swap": 'Swap the words around the word "and" in a sentence without changing the meaning. Only respond with the '
    "changed sentence. "
    "Input: three giraffes and two antelope Output: two antelopes and three giraffes "
    "Input: a blue and white stained glass clock shows the time "
    "Output: a white and blue stained glass clock shows the time "
    "Input: a mixture of rice and broccoli are put together "
    "Output: a mixture of broccoli and rice are put together "
    "Input: a bathroom with a sink, toilet and shower Output: a bathroom with a sink, shower and toilet "
    "Input: there is a man wearing glasses and holding a wine bottle "
    "Output: there is a man holding a wine bottle and wearing glasses "
    "Input: {example} Output:",
}
_AND = re.compile(r"\band\b", re.IGNORECASE)


@dataclass(frozen=True)
class Rewrites:
    """What the model made of a caption; "" where it made nothing of use."""

    swap: str = ""
    replace: str = ""


def items(folder: Path, found: Manifest, cfg: Rewriter | None, code: str) -> list[Item]:
    """A shard for each of the samples in data/<name>/; none without `cfg`."""
    asked, place = {"code": code, "rewriter": asdict(cfg)} if cfg else {}, folder / shards.SAMPLES
    return [
        Item.of(shard.name, {"samples": str(place / f"{shard.name}.arrow")}, asked | {"samples": shard.sha256})
        for shard in (found.shards if cfg else ())
    ]


@contextlib.contextmanager
def opened(cfg: Rewriter, data: Data) -> Iterator[Make]:
    """What has every caption of a shard rewritten, its answers kept in a file of the shard's own; counts by kind."""
    place = answers.beside(cfg.cache, data.source, data.path, data.images)
    with serving.running(cfg, place / serving.log_name()) as (ready, watch):

        def make(item: Item, path: Path) -> Made:
            captions = _captions(Path(item.given["samples"]))
            written: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
            counts: Counter = Counter()
            for kind in KINDS if cfg.kinds == "both" else (cfg.kinds,):
                asked, limit = _asked(kind, captions, cfg)
                questions = [chat.Question(prompt(kind, c), max_tokens=limit) for c in asked]
                replies = chat.ask(questions, ready, answers.of_shard(place, item.name), watch)
                written[kind], kind_counts = _usable(kind, asked, replies)
                kind_counts["not_asked"] = len(captions) - len(asked)
                counts.update({f"{kind}/{name}": n for name, n in kind_counts.items()})
            _save(path, captions, written)
            return Made(len(captions), len(captions), dict(counts))

        yield make


def _captions(samples: Path) -> list[str]:
    """The different captions of a shard."""
    return list(dict.fromkeys(c for sample in shards.load(samples) for c in sample.captions))


def _save(path: Path, captions: list[str], written: Mapping[str, Mapping[str, str]]) -> None:
    columns = [captions, *([written[kind].get(c, "") for c in captions] for kind in KINDS)]
    batch = pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)
    shards.write_batch(path, batch, compressed=True)


def told(captions: int, counts: Mapping[str, float]) -> dict:
    """The counts as rewrite_counts.json has them: by kind."""
    kinds: dict[str, dict[str, float]] = {}
    for name, number in sorted(counts.items()):
        kind, _, what = name.partition("/")
        kinds.setdefault(kind, {})[what] = number
    return {"captions": captions} | {kind: kinds[kind] for kind in KINDS if kind in kinds}


def load(path: Path) -> dict[str, Rewrites]:
    """The rewrites of a shard by caption. Raises UserError where the file is missing or another one."""
    batch = shards.read_batch(path, "rewrite")
    try:
        batch.validate(full=True)
        rows = batch.select(SCHEMA.names).cast(SCHEMA).to_pylist()
        return {row["caption"]: Rewrites(row["swap"], row["replace"]) for row in rows}
    except (pa.ArrowException, KeyError) as error:
        raise UserError(f"{path}: no readable rewrites; run `dvc repro rewrite` again") from error


def _asked(kind: str, captions: list[str], cfg: Rewriter) -> tuple[list[str], int]:
    """The captions that are asked for, and how many tokens an answer may have."""
    if kind == "replace":
        return captions, cfg.replace_max_tokens
    return [c for c in captions if swappable(c, cfg.swap_words_below)], cfg.swap_max_tokens


def _usable(kind: str, asked: list[str], replies: chat.Replies) -> tuple[dict[str, str], Counter]:
    """Usable rewrites by caption; what was not usable is counted."""
    made, counts = {}, replies.counts
    for caption, answer in zip(asked, replies.answers, strict=True):
        if answer is None:
            continue
        text, fault = usable(kind, caption, answer)
        counts[fault or "usable"] += 1
        if not fault:
            made[caption] = text
    return made, counts


def prompt(kind: str, caption: str) -> str:
    """The prompt of D.1 with this caption as its example."""
    return PROMPTS[kind].replace("{example}", one_line(caption))


def swappable(caption: str, words_below: int) -> bool:
    """Whether D.2 asks for a SWAP: it has the word "and" and fewer than 15 words."""
    return bool(_AND.search(caption)) and len(caption.split()) < words_below


def usable(kind: str, caption: str, answer: chat.Answer) -> tuple[str, str]:
    """The rewrite and "", or the reason not to use it: "unfinished", "chatter" (more than a sentence), "unchanged"."""
    text = re.sub(r"^output:\s*", "", answer.text.strip(), flags=re.IGNORECASE)
    if len(text) > 1 and text[0] == text[-1] == '"' and not caption.startswith('"'):
        text = text[1:-1].strip()
    if answer.cut_short:
        return text, "unfinished"
    long = len(text.split()) > 2 * len(caption.split()) + 2
    if not text or "\n" in text or long or (kind == "swap" and not _AND.search(text)):
        return text, "chatter"
    return text, "unchanged" if edits.same(text.rstrip("."), caption.rstrip(".")) else ""
