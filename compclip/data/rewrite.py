"""What language models write for captions: the rewriting half of the data.

Hard positives (Hard Positives, supplementary D), and the words that a masked model puts in the places of a caption's. A
shard of data/<name>/rewrites/ has a row for each different caption of its samples ("" where there is no rewrite); the
annotate stage puts all that beside the caption. A data set without `rewriter`, `rewrites` and `masked` has no shards.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from compclip.base.errors import UserError, one_line
from compclip.config.captions import Released
from compclip.config.sections import Data
from compclip.config.servers import KINDS, Rewriter
from compclip.config.texts import Masked
from compclip.data import answers, chat, fill_mask, look, released, serving, shards
from compclip.data.item import Item, Made, Make
from compclip.data.shards import Manifest
from compclip.text import edits
from compclip.text.annotation import SEPARATOR

FOLDER = "rewrites"  # of a data set
SCHEMA = pa.schema([("caption", pa.string()), *((kind, pa.string()) for kind in KINDS)])
MASKED = "masked"  # a further column, where a masked model was asked: places, and words joined
WORDS = pa.field(MASKED, pa.list_(pa.struct([("start", pa.int32()), ("words", pa.string())])))

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
    """What was made of a caption; "" where that is nothing of use. `masked`: a token's first character, its words."""

    swap: str = ""
    replace: str = ""
    masked: fill_mask.Words = ()


def items(
    folder: Path, found: Manifest, cfg: Rewriter | Released | None, code: str, masked: Masked | None = None
) -> list[Item]:
    """A shard for each of the samples in data/<name>/; none without `cfg` and `masked`."""
    place = folder / shards.SAMPLES
    asked = {"code": code, "rewriter": cfg.deciding if isinstance(cfg, Rewriter) else cfg and asdict(cfg)}
    if isinstance(cfg, Released):
        asked["reads"] = [file for name in released.files(cfg) for file in look.files(name)]
    if masked:
        asked[MASKED] = [vars(masked), fill_mask.fingerprint(masked)]
    return [
        Item.of(shard.name, {"samples": str(place / f"{shard.name}.arrow")}, asked | {"samples": shard.sha256})
        for shard in (found.shards if cfg or masked else ())
    ]


@contextlib.contextmanager
def opened(cfg: Rewriter | Released | None, data: Data, masked: Masked | None = None) -> Iterator[Make]:
    """What has every caption of a shard rewritten, or finds what was released of it; counts by kind.

    A model's answers are kept in a file of the shard's own. `masked` is a model that is asked for words besides.
    """
    with _writer(cfg, data) as (kinds, write):
        yield _maker(kinds, write, fill_mask.opened(masked) if masked else None)


@contextlib.contextmanager
def _writer(cfg: Rewriter | Released | None, data: Data) -> Iterator[tuple[tuple[str, ...], Write]]:
    """The kinds of hard positives that are written, and what writes them."""
    if cfg is None:
        yield (), lambda kind, captions, shard: ({}, Counter())
        return
    if isinstance(cfg, Released):
        kinds = tuple(kind for kind in KINDS if getattr(cfg, kind))
        with released.opened(cfg) as given:
            yield kinds, lambda kind, captions, shard: _released(kind, captions, given)
        return
    place, asked = answers.of_data(cfg.cache, data), cfg
    with serving.running(cfg, place / serving.log_name()) as (ready, watch):

        def write(kind: str, captions: list[str], shard: str) -> tuple[dict[str, str], Counter]:
            texts, limit = _asked(kind, captions, asked)
            questions = [chat.Question(prompt(kind, text), max_tokens=limit) for text in texts]
            replies = chat.ask(questions, ready, answers.of_shard(place, shard), watch)
            return _written(kind, texts, replies, len(captions) - len(texts))

        yield KINDS if cfg.kinds == "both" else (cfg.kinds,), write


Write = Callable[[str, list[str], str], tuple[dict[str, str], Counter]]  # a kind, captions and their shard


def _maker(kinds: Iterable[str], write: Write, fill: fill_mask.Fill | None) -> Make:
    def make(item: Item, path: Path) -> Made:
        samples = shards.load(Path(item.given["samples"]))
        captions = list(dict.fromkeys(c for sample in samples for c in sample.captions))
        written: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
        counts: Counter = Counter()
        for kind in kinds:
            written[kind], kind_counts = write(kind, captions, item.name)
            counts.update({f"{kind}/{name}": n for name, n in kind_counts.items()})
        columns = [captions, *([written[kind].get(c, "") for c in captions] for kind in KINDS)]
        batch = pa.RecordBatch.from_arrays([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)
        if fill:
            words, filled = fill(captions)
            batch = batch.append_column(WORDS, _packed(words))
            counts.update({f"{MASKED}/{name}": n for name, n in filled.items()})
        shards.write_batch(path, batch, compressed=True)
        return Made(len(samples), len(captions), dict(counts))

    return make


def _packed(words: Iterable[fill_mask.Words]) -> pa.Array:
    rows = [[{"start": start, "words": SEPARATOR.join(found)} for start, found in own] for own in words]
    return pa.array(rows, WORDS.type)


def _released(kind: str, captions: list[str], given: released.Given) -> tuple[dict[str, str], Counter]:
    """Usable rewrites by caption, of those that were released; the same is asked of them as of a model's answer."""
    counts: Counter = Counter()
    made = {}
    for caption, found in zip(captions, given(captions), strict=True):
        text, fault = usable(kind, caption, chat.Answer(found[kind])) if kind in found else ("", "not_released")
        counts[fault or "usable"] += 1
        if not fault:
            made[caption] = text
    return made, counts


def told(captions: int, counts: Mapping[str, float]) -> dict:
    """The counts as rewrite_counts.json has them: by kind."""
    kinds: dict[str, dict[str, float]] = {}
    for name, number in sorted(counts.items()):
        kind, _, what = name.partition("/")
        kinds.setdefault(kind, {})[what] = number
    return {"captions": captions} | {kind: kinds[kind] for kind in (*KINDS, MASKED) if kind in kinds}


def load(path: Path) -> dict[str, Rewrites]:
    """The rewrites of a shard by caption. Raises UserError where the file is missing or another one."""
    batch = shards.read_batch(path, "rewrite")
    try:
        batch.validate(full=True)
        schema = SCHEMA.append(WORDS) if MASKED in batch.schema.names else SCHEMA
        rows = batch.select(schema.names).cast(schema).to_pylist()
        return {row["caption"]: Rewrites(row["swap"], row["replace"], _words(row.get(MASKED))) for row in rows}
    except (pa.ArrowException, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: no readable rewrites; run `dvc repro rewrite` again") from error


def _words(kept: list[dict] | None) -> fill_mask.Words:
    return tuple((one["start"], tuple(filter(None, one["words"].split(SEPARATOR)))) for one in kept or ())


def _asked(kind: str, captions: list[str], cfg: Rewriter) -> tuple[list[str], int]:
    """The captions that are asked for, and how many tokens an answer may have."""
    if kind == "replace":
        return captions, cfg.replace_max_tokens
    return [c for c in captions if swappable(c, cfg.swap_words_below)], cfg.swap_max_tokens


def _written(kind: str, asked: list[str], replies: chat.Replies, not_asked: int) -> tuple[dict[str, str], Counter]:
    """Usable rewrites by caption; what was not asked or not usable is counted."""
    made, counts = {}, replies.counts + Counter(not_asked=not_asked)
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
