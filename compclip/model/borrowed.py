"""Parts that a config names and transformers brings, looked at before it opens them: none with code of its own.

transformers runs a repository's code where it is told to, and asks a person at a terminal where it is not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compclip.base import lean
from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.base.lazy import open_clip
from compclip.model import architecture

TOWERS = (("vision_cfg", "timm_model_name", "timm"), ("text_cfg", "hf_model_name", "transformers"))
CONFIG, TOKENIZER = "config.json", "tokenizer_config.json"
# Whose tokenizers may be asked for, as transformers names classes (XLMRobertaTokenizerFast) and models (xlm-roberta).
# Some others of its classes open what lies in folders below by themselves.
TOKENIZERS = (
    "albert", "bart", "bert", "camembert", "clip", "deberta", "debertav2", "distilbert", "electra", "gemma", "gpt2",
    "llama", "m2m100", "mbart", "mpnet", "mt5", "nllb", "pretrained", "qwen2", "roberta", "siglip", "siglip2", "t5",
    "tokenizersbackend", "xlmroberta", "xlnet",
)  # fmt: skip


def check_tokenizer(source: str) -> None:
    """Raise UserError where a tokenizer, in a folder or of a hub, has code or a class of its own."""
    own, model = _content(source, TOKENIZER), _content(source, CONFIG)
    classes = [found["tokenizer_class"] for found in (own, model) if found.get("tokenizer_class")]
    for kind in classes or filter(None, [model.get("model_type")]):
        if not isinstance(kind, str) or _plain(kind) not in TOKENIZERS:
            raise UserError(
                f"tokenizer {source}: is a {str(kind)[:80]}, a class of its own or one that may open other files; "
                "save it again as a PreTrainedTokenizerFast"
            )


def load_packages(model_cfg: Mapping[str, Any]) -> None:
    """Import timm or transformers where a config has a tower of theirs; open_clip comes without."""
    for tower, key, package in TOWERS:
        if (model_cfg.get(tower) or {}).get(key):
            lean.complete(package)


def check_text_tower(repository: str, where: str) -> None:
    """Raise UserError where the text tower that a config names is none of open_clip's kinds, or has code of its own."""
    found = _content(repository, CONFIG)
    kinds = open_clip.hf_configs.arch_dict
    if found and found.get("model_type") not in kinds:
        raise UserError(f"{where}: text_cfg.hf_model_name={repository}: must be one of {', '.join(sorted(kinds))}")
    for key, value in found.items():
        if type(value) is int and value > (architecture.LAYERS if "layers" in key else architecture.WORDS):
            raise UserError(f"{where}: text_cfg.hf_model_name={repository}: {key[:80]} is too large to be built")


def _plain(kind: str) -> str:
    """One word of a class's or a model's name."""
    bare = kind.removesuffix("Fast").removesuffix("Tokenizer")
    return bare.lower().replace("-", "").replace("_", "")


def _content(source: str, file: str) -> dict:
    """A JSON file of a folder, or of a hub's repository; empty where there is none.

    Raises UserError for one that is no mapping, or says that code is to be run.
    """
    path = Path(source) / file if Path(source).is_dir() else _fetched(source, file)
    found: Any = read_json(path) if path and path.is_file() else {}
    if not isinstance(found, dict):
        raise UserError(f"{path}: no mapping; fetch the file again")
    if found.get("auto_map"):
        raise UserError(
            f"{path}: auto_map asks to run the code that lies beside it; nobody's code is run: give a model and a "
            "tokenizer of transformers' own kinds"
        )
    return found


def _fetched(repository: str, file: str) -> Path | None:
    """Where the hub's cache has a file, fetched if it can be."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return Path(open_clip.pretrained.download_pretrained_from_hf(repository, filename=file))
    return None
