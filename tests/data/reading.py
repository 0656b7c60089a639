"""Data sets as the stages make them: their files, a source as `recaption` reads it, and the finished set."""

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.data.prepared_dataset import PreparedDataset
from compclip.data.sample import Sample
from compclip.prepare import caption_join, shard_stages, shard_writer

NAME = SafeName("x", "data")


def put(path: Path, content: str | bytes) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def put_lines(path: Path, rows: Sequence[object]) -> Path:
    """Write a line of JSON a row."""
    return put(path, "".join(json.dumps(row) + "\n" for row in rows))


def put_karpathy(path: Path, captions: Mapping[str, Sequence[str]], split: str = "train") -> Path:
    """Write Karpathy's JSON of pictures by name."""
    images = [
        {"filename": name, "split": split, "sentences": [{"raw": text} for text in texts]}
        for name, texts in captions.items()
    ]
    return put(path, json.dumps({"images": images}))


def put_coco(path: Path, captions: Mapping[str, Sequence[str]]) -> Path:
    """Write COCO's JSON of pictures by name."""
    images = [{"id": n, "file_name": name} for n, name in enumerate(captions)]
    pairs = [{"image_id": n, "caption": text} for n, texts in enumerate(captions.values()) for text in texts]
    return put(path, json.dumps({"images": images, "annotations": pairs}))


def read_list(cfg) -> tuple[dict, dict]:
    """A released list's texts by key, and its counts that are not 0."""
    counts = Counter[str]()
    return dict(caption_join.read_rows(cfg, counts)), dict(+counts)


def read_source(source: ModuleType, cfg: Data) -> tuple[list[Sample], Counter]:
    """All samples of a data set, with their own captions, and what counts.json says."""
    data_config = replace(cfg, source=source.__name__.rpartition(".")[2], captioner="none")
    with tempfile.TemporaryDirectory() as root:
        samples, counts = recaption(data_config, Path(root))
        return samples, Counter(counts)


def recaption(cfg: Data, root: Path = Path()) -> tuple[list[Sample], dict]:
    """The samples that the stage leaves below a root, and its counts."""
    counts = shard_stages.run_stage("recaption", NAME, cfg, root)
    return in_folder(root / "data" / "x"), counts


def in_folder(folder: Path) -> list[Sample]:
    """The samples that `recaption` left in a data set's folder, without what it found out about their bytes."""
    files = sorted((folder / "samples").glob("*.arrow"))
    return [replace(sample, head=0) for path in files for sample in shard_writer.load_samples(path)]


def prepare(cfg: Data, root: Path = Path()) -> tuple[PreparedDataset, dict]:
    """The data set after all stages, and the counts of the last one."""
    counts = [shard_stages.run_stage(stage, NAME, cfg, root) for stage in ("recaption", "rewrite", "annotate")][-1]
    return PreparedDataset(root / "data" / "x"), counts


def first_key(cfg: Data, stage: str = "annotate") -> str:
    """The key of the stage's first shard."""
    return shard_stages.plan_work(stage, NAME, cfg).items[0].key
