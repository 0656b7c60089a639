"""Take runs of older code over without a trial, where the release itself found that code equal: equal_code.json.

That file has, for each method, classes of hashes of its training code (`config.training_code`): each was compared with
another one of its class by training a tiny project, all steps and the finished weights, bit by bit. The program
`perf/release_proof.py` writes it. Code that is in no class, such as an edited checkout's, is covered by nothing.

A comparison at default options says nothing of the others, so that only runs like the tiny project's are taken over
(`is_covered`); the rest is what `compclip carry` tries.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from compclip.base import messages
from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.config import training_code
from compclip.config.sections import Train
from compclip.interface.method import load_method
from compclip.runs import carried_runs, key_parts, run_store
from compclip.runs.key_parts import KeyParts, RecordedRun
from compclip.runs.run_folder import WEIGHTS, Inputs
from compclip.runs.run_store import StoredRun

PROOF = Path(__file__).with_name("equal_code.json")
MODEL_CONFIG = "open_clip_config.json"
# Options of `train` whose value no code asks for before it computes with it.
AMOUNTS = (
    *("epochs", "max_steps", "batch_size", "lr", "lr_start", "lr_end", "warmup_steps", "beta1", "beta2", "eps"),
    *("weight_decay", "threads", "log_every_steps", *run_store.RESOURCES),
)
# What the model of the tiny project says of itself; quick_gelu is open_clip's affair.
MODEL_OPTIONS = (
    *("model_cfg.embed_dim", "model_cfg.quick_gelu", "preprocess_cfg.size", "preprocess_cfg.mean"),
    *(f"model_cfg.vision_cfg.{name}" for name in ("image_size", "patch_size", "width", "layers", "head_width")),
    *(f"model_cfg.text_cfg.{name}" for name in ("context_length", "vocab_size", "width", "heads", "layers")),
    *(f"preprocess_cfg.{name}" for name in ("mode", "std", "interpolation", "resize_mode", "fill_color")),
)
MODEL_VALUES = {"preprocess_cfg.interpolation": "bicubic", "preprocess_cfg.resize_mode": "shortest"}


def read_equal_code(method: str) -> frozenset[str]:
    """Return the other hashes of a method's training code that are equal to that of now; none where it has no class."""
    code = training_code.hash_training_code(method)
    classes = read_mapping(PROOF)["methods"].get(method, ())
    return next((frozenset(hashes) - {code} for hashes in classes if code in hashes), frozenset())


def list_equal_codes(cell_run: StoredRun) -> frozenset[str]:
    """Return the hashes of other code that is proven to give a cell's numbers; none where it is not covered."""
    codes = read_equal_code(cell_run.run.method_name)
    return codes if codes and is_covered(cell_run) else frozenset()


def take_over(cell_runs: Iterable[StoredRun], root: Path) -> None:
    """Enter what is proven equal under the keys of unfinished runs, and note it line by line.

    What cannot be entered is noted too: it is trained, or somebody trains it already.
    """
    load = functools.cache(lambda method: list(key_parts.list_recorded(root, method)))
    for cell_run in cell_runs:
        if codes := list_equal_codes(cell_run):
            try:
                line = take_over_cell(cell_run, load(cell_run.run.method_name), codes)
            except UserError as error:
                messages.note(str(error))
            else:
                if line:
                    messages.note(f"taken over: {line}")


def take_over_cell(cell_run: StoredRun, runs: Iterable[RecordedRun], codes: Collection[str]) -> str:
    """Enter the newest of `runs` with equal parameters and inputs and one of `codes`; return a line, else "".

    Raises UserError as `carried_runs.enter_run`.
    """
    current = key_parts.describe_key(cell_run.run, cell_run.root)
    for run in sorted(runs, key=lambda run: -run.finished_at):
        code = find_code(run, current, codes)
        if code and key_parts.differs_in_code_alone(run, cell_run, current) and _is_of_one_cpu(run):
            certificate = _certify(run, cell_run, code)
            carried_runs.enter_run(run, cell_run, current, certificate)
            return f"{cell_run.name} from {run.folder.key} to {cell_run.key}: {certificate['compared']}"
    return ""


def find_code(run: RecordedRun, current: KeyParts, codes: Iterable[str]) -> str:
    """Return by which of `codes` a run was trained on the inputs of now, as its key says; empty for none of them."""
    method = str(run.config["cell"]["method"]).partition(".")[0]
    trains = load_method(method).TRAINS
    keys = ((run_store.compute_key(run.config, trains, current.inputs, code), code) for code in codes)
    return next((code for key, code in keys if key == run.folder.key), "")


def is_covered(cell_run: StoredRun) -> bool:
    """Return whether a run takes the ways through the code that the tiny project takes, as far as options tell."""
    run, backbone = cell_run.run, Inputs(cell_run.root, cell_run.cell).backbone
    changed = {name for name, value in asdict(run.train).items() if value != asdict(Train())[name]}
    if changed - set(AMOUNTS) or run.method != load_method(run.method_name).Config():
        return False
    if {path.name for path in backbone.iterdir()} != {MODEL_CONFIG, WEIGHTS}:  # or a tokenizer of its own
        return False
    return _is_plain_model(key_parts.flatten(read_mapping(backbone / MODEL_CONFIG)))


def _is_plain_model(options: Mapping[str, Any]) -> bool:
    is_usual = all(options.get(name) == value for name, value in MODEL_VALUES.items())
    is_transformer = isinstance(options.get("model_cfg.vision_cfg.layers"), int)  # a ResNet has a list
    return is_usual and is_transformer and set(options) <= set(MODEL_OPTIONS)


def _is_of_one_cpu(run: RecordedRun) -> bool:
    return run.facts.get("processes", 1) == 1 and "peak_device_memory_mib" not in run.facts


def _certify(run: RecordedRun, cell_run: StoredRun, code: str) -> dict[str, Any]:
    """Return the certificate: keys, hashes of the code, which release says that they are equal, and by what."""
    release = f"compclip {metadata.version('compclip')}"
    return {
        "from": run.folder.key,
        "to": cell_run.key,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "compared": f"nothing here; {release} found the code equal on {read_mapping(PROOF)['compared']}",
        "release": release,
        "code": {"from": code, "to": training_code.hash_training_code(cell_run.run.method_name)},
        "recorded": {name: run.facts.get(name) for name in ("packages", "device", "git_commit")},
        "carried_before": run.facts.get("carried"),
    }
