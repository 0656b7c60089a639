"""Largest difference of embeddings between open_clip's model and what transformers loads of its publication, on a CPU.

    python -m perf.truth.published_formats [--checkpoints ViT-B-32::random ViT-B-32-quickgelu::random]

Unit vectors in float32 of four pictures of noise at the model's size, and of four texts. A checkpoint is what
`compclip evaluate --checkpoint` takes. 1 where a difference is above 1e-6.

Takes a minute; needs transformers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from compclip.base.errors import UserError, entry

CHECKPOINTS = ("ViT-B-32::random", "ViT-B-32-quickgelu::random")
TEXTS = ["a red umbrella", "a blue anchor to the left of a small green star", "word " * 100, ""]
WITHIN = 1e-6


def main(argv: list[str]) -> int:
    """Print both differences of each checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoints", nargs="+", default=CHECKPOINTS)
    args = parser.parse_args(argv)
    worst = 0.0
    for checkpoint in args.checkpoints:
        pictures, texts = compare_embeddings(checkpoint)
        worst = max(worst, pictures, texts)
        print(f"{checkpoint}: pictures {pictures:.1e}, texts {texts:.1e}", flush=True)
    return 1 if worst > WITHIN else 0


def compare_embeddings(checkpoint: str) -> tuple[float, float]:
    """Return the largest differences of pictures' and of texts' embeddings."""
    import numpy as np
    import torch
    from PIL import Image
    from transformers import CLIPModel, CLIPProcessor

    from compclip.model import backbone
    from compclip.publish import transformers_export

    model = backbone.load(checkpoint)
    if obstacle := transformers_export.find_obstacle(model):
        raise UserError(f"{checkpoint}: CLIPModel cannot express {obstacle}; give another checkpoint")
    side, rng = model.image_size, np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)) for _ in TEXTS]
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        transformers_export.write_clip_model(model, Path(folder))
        theirs, processor = CLIPModel.from_pretrained(folder).eval(), CLIPProcessor.from_pretrained(folder)
        inputs = processor(text=TEXTS, images=pictures, return_tensors="pt", padding=True, truncation=True)
        output, clip = theirs(**inputs), model.clip.eval()
        image_BD = clip.encode_image(model.pixels(pictures), normalize=True)
        text_BD = clip.encode_text(model.tokenize(TEXTS), normalize=True)
    return (output.image_embeds - image_BD).abs().max().item(), (output.text_embeds - text_BD).abs().max().item()


if __name__ == "__main__":
    sys.exit(entry(main))
