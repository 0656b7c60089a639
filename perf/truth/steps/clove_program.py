"""The released program of clove, a step of it: see `perf/truth/steps/__init__.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from step_programs import Step, build_tokenizer, load, open_package, take_step, use_float64


def run(folder: Path, shared_inputs: Step) -> Step:
    """Netflix/clove on one process: negatives of all captions but the last; OpenAI's tokenizer is built of its words.

    It pads by "!", and so reads each "!" of a text as padding: texts are without, as in ours.
    """
    open_package("open_clip", folder / "src/open_clip")
    transformers.AutoTokenizer.from_pretrained = lambda name, **options: build_tokenizer(**options)  # type: ignore[method-assign]
    clip_words: Any = transformers.models.clip.tokenization_clip
    clip_words.whitespace_clean = lambda text: " ".join(text.split())
    import open_clip.utils

    open_clip.utils.maybe_nltk_download = lambda *names: None
    from open_clip.clip_model import CLIP
    from open_clip.loss import ClipLoss
    from open_clip.tokenizer import CLIP_TOKENIZER_TO_WRAP, DEFAULT_CONTEXT_LENGTH, HFTokenizer
    from open_clip.transform import image_transform
    from PIL import Image

    transform = image_transform(shared_inputs["model"]["vision_cfg"]["image_size"], is_train=True)
    pictures = torch.stack([transform(Image.open(path)) for path in shared_inputs["paths"]])
    texts = [*shared_inputs["captions"], *(negatives[0] for negatives in shared_inputs["negatives"][:-1])]
    texts = [text.replace("!", "") for text in texts]
    tokenizer = HFTokenizer(CLIP_TOKENIZER_TO_WRAP)  # training/data.py:395-409
    vars(tokenizer).update(vars(CLIP_TOKENIZER_TO_WRAP))  # special tokens, which lie elsewhere in transformers 5
    tokens = partial(tokenizer, max_length=min(DEFAULT_CONTEXT_LENGTH, tokenizer.model_max_length))(texts)
    model = use_float64(load(CLIP(**shared_inputs["model"]), shared_inputs["state"]))
    loss = ClipLoss(model)
    return take_step(model, lambda: dict(loss(**model(pictures.double(), tokens))), pictures, tokens)
