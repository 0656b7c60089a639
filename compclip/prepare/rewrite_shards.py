"""Have language models rewrite captions: the stage `rewrite`.

They write hard positives (Hard Positives, supplementary D), or wrote those that were released, and a masked model
replaces words. A shard of data/<name>/rewrites/ has a row for each different caption of its samples, "" where there is
no rewrite; `annotate` adds these to the caption. With `masked.dense` the texts of `texts.dense` have rows as well. A
data set without `rewriter`, `rewrites` and `masked` has no such shards.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from compclip.base import files
from compclip.base.errors import UserError
from compclip.base.files import check_regular, read_field, read_json
from compclip.base.path_lists import iterate_files
from compclip.config.released_lists import (
    DENSE,
    MaskedSection,
    ReleasedRewrites,
    masked_config,
    rewrites_config,
    texts_config,
)
from compclip.config.sections import Data
from compclip.config.servers import KINDS, rewriter_config
from compclip.data import tables
from compclip.data.sample import list_captions
from compclip.data.shard_files import SAMPLES, Manifest, read_batch
from compclip.llm import answer_cache, chat_client, local_server
from compclip.llm.answer_cache import Answer
from compclip.llm.chat_client import Question
from compclip.prepare import caption_join, mask_filling, shard_writer, stored_lists
from compclip.prepare.shard_writer import ShardResult, ShardTask, WriteShard
from compclip.text import word_edits
from compclip.text.annotation import SEPARATOR
from compclip.text.caption_cleaning import clean_caption

FOLDER = "rewrites"  # of a data set
SCHEMA = pa.schema([("caption", pa.string()), *((kind, pa.string()) for kind in KINDS)])
MASKED = "masked"  # a column where a masked model was asked: positions, and joined words
WORDS = pa.field(MASKED, pa.list_(pa.struct([("start", pa.int32()), ("words", pa.string())])))

# Supplementary D.1, as printed; the last two are D.3's for relations, of its program (generate_hard_positives.py)
PROMPTS = {
    "any": "Replace one word in this sentence with a synonym, without changing the meaning of the sentence. Only "
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
    "verbs": "Replace one verb in this sentence with a synonym, without changing the meaning of the sentence. Only "
    "output the changed sentence.\nInput: A person wearing a shirt and smiling.\n"
    "Output: A person clothed in a shirt and smiling.\n\nInput: {example}\nOutput:",
    "prepositions": "Replace a spatial preposition in this sentence with a synonym, without changing the meaning of "
    "the sentence. Only output the changed sentence.\nInput: A city filled with tall buildings under a cloudy sky.\n"
    "Output: A city filled with tall buildings beneath a cloudy sky.\n\nInput: {example}\nOutput:",
}
MAX_TOKENS = {"swap": 20, "replace": 30}  # of an answer (Hard Positives, D.2)
SWAP_WORDS_BELOW = 15  # SWAP is asked for captions with fewer words (D.2)
_AND = re.compile(r"\band\b", re.IGNORECASE)
PLACEHOLDER = "None"  # of the released files, for a caption that was not rewritten
# of a kind, captions and their shard: the answers by caption, and counts
AnswerKind = Callable[[str, list[str], str], tuple[dict[str, Answer], Counter]]
FindRewrites = Callable[[Sequence[str]], list[dict[str, str]]]  # captions -> for each its rewrites, by kind


@dataclass(frozen=True)
class Rewrites:
    """The rewrites of a caption, "" where none is usable. `masked`: a token's first character, and its words."""

    swap: str = ""
    replace: str = ""
    masked: mask_filling.MaskedWords = ()


def rewrite_tasks(folder: Path, samples: Manifest, cfg: Data, code: str) -> list[ShardTask]:
    """Return one task for each shard of samples in data/<name>/; none where nothing writes and no model is masked."""
    rewriter = rewriter_config(cfg)
    released = rewrites_config(cfg)
    masked = masked_config(cfg)
    decided_by: dict = {"code": code, "rewriter": rewriter.deciding if rewriter else released and asdict(released)}
    if released:
        decided_by["reads"] = list(itertools.chain.from_iterable(map(iterate_files, _released_files(released))))
    if masked:
        decided_by[MASKED] = [vars(masked), mask_filling.fingerprint(masked)]
        decided_by[DENSE] = stored_lists.describe_lists(_dense_lists(masked, cfg))
    tasks = []
    for shard in samples.shards if rewriter or released or masked else ():
        inputs = {"samples": str(folder / SAMPLES / f"{shard.name}.arrow")}
        tasks.append(ShardTask.create(shard.name, inputs, decided_by | {"samples": shard.sha256}))
    return tasks


@contextlib.contextmanager
def open_rewriter(cfg: Data) -> Iterator[WriteShard]:
    """Give the function that rewrites every caption of a shard, or finds its released rewrites; counts by kind.

    A model's answers are cached in one file per shard. A masked model is asked for words as well.
    """
    masked = masked_config(cfg)
    with _open_source(cfg) as (kinds, answer_kind):
        fill = mask_filling.open_model(masked) if masked else None
        dense = stored_lists.open_lists(_dense_lists(masked, cfg)) if masked else {}

        def write(task: ShardTask, path: Path) -> ShardResult:
            samples = shard_writer.load_samples(Path(task.inputs["samples"]))
            captions = list(dict.fromkeys(list_captions(samples)))
            rewrites: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
            counts = Counter[str]()
            for kind in kinds:
                answers, kind_counts = answer_kind(kind, captions, task.name)
                for caption, answer in answers.items():
                    text, fault = check_rewrite(kind, caption, answer)
                    kind_counts[fault or "usable"] += 1
                    if not fault:
                        rewrites[kind][caption] = clean_caption(text)
                for name, number in kind_counts.items():
                    counts[f"{kind}/{name}"] += number
            texts_by_kind, _ = stored_lists.find_texts(dense, samples)
            texts = list(dict.fromkeys(itertools.chain(captions, *texts_by_kind.get(DENSE, ()))))
            columns = {"caption": texts}
            for kind in KINDS:
                columns[kind] = [rewrites[kind].get(text, "") for text in texts]
            batch = pa.RecordBatch.from_pydict(columns, SCHEMA)
            if fill:
                words, fill_counts = fill(texts)
                rows = []
                for words_of_text in words:
                    rows.append([(start, SEPARATOR.join(likeliest)) for start, likeliest in words_of_text])
                batch = batch.append_column(WORDS, pa.array(rows, WORDS.type))
                for name, number in fill_counts.items():
                    counts[f"{MASKED}/{name}"] += number
            shard_writer.write_batch(path, batch, compressed=True)
            return ShardResult(len(samples), len(captions), dict(counts))

        yield write


def _dense_lists(masked: MaskedSection, cfg: Data) -> stored_lists.TextSections:
    """Return the list whose texts the masked model fills as well, if any."""
    return {DENSE: texts_config(cfg)[DENSE]} if masked.dense else {}


@contextlib.contextmanager
def _open_source(cfg: Data) -> Iterator[tuple[tuple[str, ...], AnswerKind]]:
    """Give the kinds of hard positives that are written, and the function that gives the answers of one kind."""
    released = rewrites_config(cfg)
    rewriter = rewriter_config(cfg)
    if released:
        find = open_released(released)

        def find_answers(kind: str, captions: list[str], shard: str) -> tuple[dict[str, Answer], Counter]:
            pairs = zip(captions, find(captions), strict=True)
            answers = {caption: Answer(texts[kind]) for caption, texts in pairs if kind in texts}
            return answers, +Counter(not_released=len(captions) - len(answers))  # no entry for none

        yield tuple(kind for kind in KINDS if getattr(released, kind)), find_answers
        return
    if rewriter is None:
        yield (), lambda kind, captions, shard: ({}, Counter())
        return
    folder = answer_cache.cache_folder(rewriter.cache, cfg)
    with local_server.run_server(rewriter, folder / local_server.log_name()) as (server, watch):

        def ask_model(kind: str, captions: list[str], shard: str) -> tuple[dict[str, Answer], Counter]:
            is_swap = kind == "swap"
            texts = list(filter(can_swap, captions)) if is_swap else captions
            prompt = kind if is_swap else rewriter.replace_words
            questions = [Question(build_prompt(prompt, text), max_tokens=MAX_TOKENS[kind]) for text in texts]
            replies = chat_client.ask_questions(questions, server, answer_cache.shard_cache(folder, shard), watch)
            pairs = zip(texts, replies.answers, strict=True)
            answers = {text: answer for text, answer in pairs if answer is not None}
            return answers, replies.counts + Counter(not_asked=len(captions) - len(texts))

        yield KINDS if rewriter.kinds == "both" else (rewriter.kinds,), ask_model


def summarize_counts(captions: int, counts: Mapping[str, float]) -> dict:
    """Return the counts by kind, as rewrite_counts.json has them."""
    kinds: dict[str, dict[str, float]] = {}
    for name, number in sorted(counts.items()):
        kind, _, outcome = name.partition("/")
        kinds.setdefault(kind, {})[outcome] = number
    return {"captions": captions} | {kind: kinds[kind] for kind in (*KINDS, MASKED) if kind in kinds}


def load_rewrites(path: Path) -> dict[str, Rewrites]:
    """Return the rewrites of a shard by caption. Raises UserError for a missing or damaged file."""
    rewrites = {}
    for row in read_batch(path, "rewrite").to_pylist():
        masked = []
        for masked_word in row.get(MASKED) or ():
            masked.append((masked_word["start"], tuple(filter(None, masked_word["words"].split(SEPARATOR)))))
        rewrites[row["caption"]] = Rewrites(row["swap"], row["replace"], tuple(masked))
    return rewrites


def build_prompt(name: str, caption: str) -> str:
    """Return a prompt with this caption as its example."""
    return PROMPTS[name].replace("{example}", " ".join(caption.split()))


def can_swap(caption: str) -> bool:
    """Return whether D.2 asks for a SWAP: the caption has the word "and" and is short."""
    return bool(_AND.search(caption)) and len(caption.split()) < SWAP_WORDS_BELOW


def check_rewrite(kind: str, caption: str, answer: Answer) -> tuple[str, str]:
    """Return the rewrite and "", or the reason not to use it.

    Reasons: "unfinished", "chatter" (more than a sentence), "unchanged".
    """
    text = re.sub(r"^output:\s*", "", answer.text.strip(), flags=re.IGNORECASE)
    if len(text) > 1 and text[0] == text[-1] == '"' and not caption.startswith('"'):
        text = text[1:-1].strip()
    if answer.cut_short:
        return text, "unfinished"
    long = len(text.split()) > 2 * len(caption.split()) + 2
    if not text or "\n" in text or long or (kind == "swap" and not _AND.search(text)):
        return text, "chatter"
    return text, "unchanged" if word_edits.equal_ignoring_case(text.rstrip("."), caption.rstrip(".")) else ""


# --- hard positives that were released: swap_hp.jsonl and replace_hp.jsonl, a line for each annotation of COCO's --


def open_released(cfg: ReleasedRewrites, folder: Path = caption_join.FOLDER) -> FindRewrites:
    """Return the function that finds the rewrites of captions, by kind; of a repeated caption the first ones.

    Raises UserError for a missing file, and for one that has not a line for each caption.
    """
    index_path = caption_join.index_folder(_released_files(cfg), asdict(cfg), folder)
    index = caption_join.open_index(index_path, lambda counts: _read_rows(cfg, counts))

    def find(captions: Sequence[str]) -> list[dict[str, str]]:
        rewrites = []
        for texts in index.find(captions):
            kinds: dict[str, str] = {}
            for text in texts:
                kind, _, rewrite = text.partition(":")
                kinds.setdefault(kind, rewrite)  # the first of a kind stays
            rewrites.append(kinds)
        return rewrites

    return find


def _released_files(cfg: ReleasedRewrites) -> list[str]:
    return [cfg.captions, *filter(None, (cfg.swap, cfg.replace))]


def _read_rows(cfg: ReleasedRewrites, counts: Counter) -> Iterator[tuple[str, list[str]]]:
    captions = []
    for index, row in enumerate(read_field(cfg.captions, "(whole file)", read_json(cfg.captions), "annotations", list)):
        captions.append(clean_caption(read_field(cfg.captions, f"of annotation {index}", row, "caption")))
    files = {kind: getattr(cfg, kind) for kind in KINDS if getattr(cfg, kind)}
    lines = [_read_lines(file, counts) for file in files.values()]
    for number, (caption, *texts) in enumerate(itertools.zip_longest(captions, *lines)):
        if caption is None or None in texts:
            raise UserError(
                f"{', '.join(files.values())}: not a line for each of {len(captions)} annotations of {cfg.captions}; "
                f"they part at {number + 1}: use the captions that they were written for"
            )
        yield caption, [f"{kind}:{text}" for kind, text in zip(files, texts, strict=True) if text]


def _read_lines(file: str, counts: Counter) -> Iterator[str]:
    """Give the text of each line; "" for the placeholder and, counted, for a line that holds no text."""
    try:
        with open(check_regular(file), encoding="utf-8", errors="replace") as lines:
            for line in tables.iterate_lines(lines):
                try:
                    value = None if line.strip() == PLACEHOLDER else files.parse_json(line, file)
                except UserError:
                    value = 0
                text = clean_caption(value) if isinstance(value, str) else PLACEHOLDER
                counts["damaged"] += not isinstance(value, (str, type(None)))
                yield "" if text == PLACEHOLDER else text
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}; give the path of an existing file") from error
