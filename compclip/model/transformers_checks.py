"""Parts that a config names and transformers brings, looked at before it opens them: none with code of its own.

transformers runs a repository's code where it is told to, and asks a person at a terminal where it is not.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from compclip.base.errors import UserError
from compclip.base.files import read_json
from compclip.model import model_config

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
    tokenizer_config, model_settings = _read_mapping(source, TOKENIZER), _read_mapping(source, CONFIG)
    classes = [
        config["tokenizer_class"] for config in (tokenizer_config, model_settings) if config.get("tokenizer_class")
    ]
    for kind in classes or filter(None, [model_settings.get("model_type")]):
        if not isinstance(kind, str) or _normalise_name(kind) not in TOKENIZERS:
            raise UserError(
                f"tokenizer {source}: is a {str(kind)[:80]}, a class of its own or one that may open other files; "
                "save it again as a PreTrainedTokenizerFast"
            )


def check_text_tower(repository: str, where: str) -> None:
    """Raise UserError where the text tower that a config names is none of open_clip's kinds, or has code of its own."""
    import open_clip

    config = _read_mapping(repository, CONFIG)
    kinds = open_clip.hf_configs.arch_dict
    if config and config.get("model_type") not in kinds:
        raise UserError(f"{where}: text_cfg.hf_model_name={repository}: must be one of {', '.join(sorted(kinds))}")
    for key, value in config.items():
        if type(value) is int and value > (model_config.LIMITS["layers"] if "layers" in key else model_config.LARGEST):
            raise UserError(f"{where}: text_cfg.hf_model_name={repository}: {key[:80]} is too large to be built")


def _normalise_name(kind: str) -> str:
    """Return a class's or a model's name as one lower-case word."""
    bare = kind.removesuffix("Fast").removesuffix("Tokenizer")
    return bare.lower().replace("-", "").replace("_", "")


def _read_mapping(source: str, file: str) -> dict:
    """Return a JSON file of a folder, or of a hub's repository; empty where there is none.

    Raises UserError for one that is no mapping, or says that code is to be run.
    """
    path = Path(source) / file if Path(source).is_dir() else _fetch_file(source, file)
    content: Any = read_json(path) if path and path.is_file() else {}
    if not isinstance(content, dict):
        raise UserError(f"{path}: no mapping; fetch the file again")
    if content.get("auto_map"):
        raise UserError(
            f"{path}: auto_map asks to run the code that lies beside it; nobody's code is run: give a model and a "
            "tokenizer of transformers' own kinds"
        )
    return content


def _fetch_file(repository: str, file: str) -> Path | None:
    """Return where the hub's cache has a file, fetched if it can be; None without."""
    import open_clip

    with contextlib.suppress(OSError, ValueError, RuntimeError):
        return Path(open_clip.pretrained.download_pretrained_from_hf(repository, filename=file))
    return None
