"""A source read as the stage `recaption` reads it."""

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from compclip.base.safe_names import SafeName
from compclip.config.sections import Data
from compclip.data.sample import Sample
from compclip.prepare import shard_stages, shard_writer


def read_source(source: ModuleType, cfg: Data) -> tuple[list[Sample], Counter]:
    """All samples of a data set, with their own captions, and what counts.json says."""
    data_config = replace(cfg, source=source.__name__.rpartition(".")[2], captioner="none")
    with tempfile.TemporaryDirectory() as root:
        counts = Counter(shard_stages.run_stage("recaption", SafeName("x", "data"), data_config, Path(root)))
        return in_folder(Path(root) / "data" / "x"), counts


def in_folder(folder: Path) -> list[Sample]:
    """The samples that `recaption` left in a data set's folder, without what it found out about their bytes."""
    files = sorted((folder / "samples").glob("*.arrow"))
    return [replace(sample, head=0) for path in files for sample in shard_writer.load_samples(path)]
