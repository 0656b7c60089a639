"""Hard positives written by a language model (Hard Positives, supplementary D): the rewriting half of the data.

Writes data/<name>/rewrites.parquet (a row for each different caption; "" where there is no rewrite) and
rewrite_counts.json; the annotate stage puts both texts beside the caption. A data set without `rewriter` has no rows.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import UserError, one_line
from compclip.base.files import atomic, regular, write_json
from compclip.config.servers import KINDS, Rewriter
from compclip.data import chat, store
from compclip.text import edits

FILE, COUNTS = "rewrites.parquet", "rewrite_counts.json"
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


def rewrite(cfg: Rewriter | None, folder: Path) -> dict:
    """Have every caption of the data rewritten (none without `cfg`), write both files; gives the counts by kind."""
    captions, counts = [], {}
    written: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    if cfg is not None:
        captions = list(dict.fromkeys(c for sample in store.load(folder / "samples.parquet") for c in sample.captions))
        for kind in KINDS if cfg.kinds == "both" else (cfg.kinds,):
            written[kind], kind_counts = _written(kind, captions, cfg)
            counts[kind] = dict(sorted(kind_counts.items()))
    columns = [captions, *([written[kind].get(c, "") for c in captions] for kind in KINDS)]
    table = pa.Table.from_arrays([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)
    with atomic(folder / FILE) as tmp:
        pq.write_table(table, tmp)
    write_json(folder / COUNTS, {"captions": len(captions)} | counts)
    return counts


def load(folder: Path) -> dict[str, Rewrites]:
    """The rewrites of a data set by caption. Raises UserError where the file is missing or another one."""
    path = folder / FILE
    try:
        rows = pq.read_table(regular(path), schema=SCHEMA).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: no readable rewrites; run `dvc repro rewrite` again") from error
    return {row["caption"]: Rewrites(row["swap"], row["replace"]) for row in rows}


def _written(kind: str, captions: list[str], cfg: Rewriter) -> tuple[dict[str, str], Counter]:
    """Usable rewrites by caption; what was not asked or not usable is counted."""
    asked = [c for c in captions if kind == "replace" or swappable(c, cfg.swap_words_below)]
    limit = {"swap": cfg.swap_max_tokens, "replace": cfg.replace_max_tokens}[kind]
    replies = chat.ask([chat.Question(prompt(kind, c), max_tokens=limit) for c in asked], cfg)
    counts = replies.counts + Counter(not_asked=len(captions) - len(asked))
    made = {}
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
