"""The run key: equal keys give equal bits, so that nothing is trained twice and nothing stale is served."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path

from omegaconf import OmegaConf

from compclip.base.files import fingerprint
from compclip.config.sections import Run

# What may differ between two runs that give the same bits.
RESOURCES = ("workers", "checkpoint_every_steps")
# The code that a trained checkpoint depends on, besides its method's own file.
TRAIN_CODE = (
    "accumulate.py",
    "backbone.py",
    "batch.py",
    "checkpoint.py",
    "collate.py",
    "composite.py",
    "distributed.py",
    "encode.py",
    "features.py",
    "hub.py",
    "images.py",
    "loader.py",
    "lora.py",
    "losses.py",
    "optimiser.py",
    "tokenizers.py",
    "towers.py",
    "train.py",
    "views.py",
    "weights.py",
    "data/sample.py",
    "data/store.py",
    "methods/_check.py",
    "text/annotation.py",
    "text/concepts.py",
    "text/edits.py",
    "text/positives.py",
    "text/replace.py",
    "text/sentences.py",
    "text/shuffle.py",
    "text/swap.py",
    "text/words.py",
)


def of(run: Run, inputs: str) -> str:
    """16 hex digits over the resolved run without resources, the fingerprint of its inputs, and the code it depends on.

    The names of backbone and data are no part of it: `inputs` stands for their contents.
    """
    train = {k: v for k, v in asdict(run.train).items() if k not in RESOURCES}
    identity = {"method": run.method_name, "config": asdict(run.method), "train": train, "seed": run.cell.seed}
    package = Path(__file__).parent
    code = [package / name for name in (*TRAIN_CODE, f"methods/{run.method_name}.py") if (package / name).exists()]
    text = OmegaConf.to_yaml(OmegaConf.create(identity), sort_keys=True) + inputs + fingerprint(*code)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
