"""Where a text looks in a picture, before and after fine-tuning, and what changed: C2LIP's Figure 2.

compclip evaluate attention --image F --text "a red star" --checkpoint A [--against B] --out F.png

A and B are cells of the grid or checkpoints; without B it is the backbone of cell A. Each text is a row: the picture as
the model gets it, the attention of B and of A, and their difference, green where A attends more and violet where less.
With --caption a text is a part of that caption, and its tokens there are pooled, as in training; without, it is encoded
by itself.

N patches, P x P = N, T text positions, D joint dim.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import atomic
from compclip.config import grid, read
from compclip.config.cell import Cell
from compclip.data import images
from compclip.evaluate import pair_scorers, result_store
from compclip.model import backbone, towers
from compclip.model.clip_model import ClipModel
from compclip.model.model_config import SCHEMES
from compclip.train import encode

KINDS = ("attention", "similarity")


@dataclass(frozen=True)
class AttentionRow:
    """One text's maps [P, P] by both models."""

    text: str
    before_PP: np.ndarray
    after_PP: np.ndarray

    @property
    def difference_PP(self) -> np.ndarray:
        """What the text gained, patch by patch."""
        return self.after_PP - self.before_PP


def embed_concept(model: ClipModel, text: str, caption: str = "") -> Tensor:
    """Return the unit vector [D] of a text, or of the part of a caption that it is.

    Raises UserError where the caption does not hold the text.
    """
    if not caption:
        return towers.encode_texts(model.clip, model.tokenize([text]))[0][0]
    start = caption.find(text)
    if start < 0:
        raise UserError(f"--text {text!r}: not in --caption {caption!r}; give a part of it, in its spelling")
    span = [model.starts + model.count_tokens(caption[:position]) for position in (start, start + len(text))]
    _, token_BTD = towers.encode_texts(model.clip, model.tokenize([caption]), tokens=True)
    return encode.pool_concepts(token_BTD, torch.tensor([span]), torch.tensor([0]))[0]


def patch_map(model: ClipModel, pixels_3HW: Tensor, concept_D: Tensor, kind: str = "attention") -> np.ndarray:
    """Return how much a concept attends to each patch (Eq. 6), 1 being an even share; or their cosine. Shape [P, P]."""
    _, patch_BND = towers.encode_images(model.clip, pixels_3HW[None], tokens=True)
    cosine_N = F.normalize(patch_BND[0], dim=-1) @ concept_D
    value_N = cosine_N if kind == "similarity" else cosine_N.softmax(0) * len(cosine_N)
    side = isqrt(len(value_N))
    if side * side != len(value_N):
        raise UserError(f"{model.source}: {len(value_N)} patches are no square; give a model with a square input")
    return value_N.reshape(side, side).double().numpy()


def compute_maps(
    pretrained: ClipModel, tuned: ClipModel, image: str | Path, texts: list[str], caption: str, kind: str
) -> list[AttentionRow]:
    """Return the maps of each text by both models. Raises UserError for models with different patches or input."""
    picture = images.load_image(image)
    attention_rows = []
    pixels = [model.transform(picture) for model in (pretrained, tuned)]
    with torch.inference_mode():
        for text in texts:
            maps = [
                patch_map(model, pixels_3HW, embed_concept(model, text, caption), kind)
                for model, pixels_3HW in zip((pretrained, tuned), pixels, strict=True)
            ]
            if maps[0].shape != maps[1].shape or pretrained.preprocess_cfg != tuned.preprocess_cfg:
                raise UserError(
                    f"{tuned.source} and {pretrained.source} differ in how they see pictures "
                    f"({len(maps[1])}² and {len(maps[0])}² patches); compare models of one architecture"
                )
            attention_rows.append(AttentionRow(text, *maps))
    return attention_rows


def model_input(model: ClipModel, image: str | Path) -> np.ndarray:
    """Return the picture as the model gets it, colours undone: [H, W, 3] in 0 to 1."""
    mean, std = (torch.tensor(model.preprocess_cfg[k])[:, None, None] for k in ("mean", "std"))
    return (model.transform(images.load_image(image)) * std + mean).clamp(0, 1).permute(1, 2, 0).numpy()


def draw_figure(
    attention_rows: list[AttentionRow], picture_HW3: np.ndarray, names: tuple[str, str], kind: str, out: Path
) -> None:
    """Write the figure: one row a text. Both maps of a row share a scale, the difference has its own, with 0 white."""
    figure = Figure(figsize=(11.2, 2.9 * len(attention_rows)), layout="constrained")
    axes = figure.subplots(len(attention_rows), 4, squeeze=False)
    for row, line in zip(attention_rows, axes, strict=True):
        both_2PP = np.stack((row.before_PP, row.after_PP))
        largest = max(np.abs(row.difference_PP).max(), 1e-12)
        line[0].imshow(picture_HW3)
        for axis, values_PP in zip(line[1:3], both_2PP, strict=True):
            _overlay(figure, axis, picture_HW3, values_PP, "viridis", (both_2PP.min(), both_2PP.max()))
        _overlay(figure, line[3], picture_HW3, row.difference_PP, "PRGn", (-largest, largest))
        for axis, title in zip(line, (f"“{row.text}”", names[0], names[1], "change"), strict=True):
            axis.set_title(title, fontsize=9, wrap=True)
            axis.set_axis_off()
    figure.suptitle(
        f"{kind} of the text to each patch" + (" (1: an even share)" if kind == "attention" else ""), fontsize=10
    )
    with atomic(out) as path:
        figure.savefig(path, format="png", dpi=110)


def _overlay(
    figure: Figure,
    axis: Axes,
    picture_HW3: np.ndarray,
    values_PP: np.ndarray,
    colours: str,
    limits: tuple[float, float],
) -> None:
    """Draw patches in colour over the picture in grey."""
    height, width, _ = picture_HW3.shape
    axis.imshow(picture_HW3.mean(2), cmap="gray", vmin=0, vmax=1)
    where = (-0.5, width - 0.5, height - 0.5, -0.5)
    patches = axis.imshow(
        values_PP, cmap=colours, vmin=limits[0], vmax=limits[1], alpha=0.7, interpolation="nearest", extent=where
    )
    figure.colorbar(patches, ax=axis, shrink=0.8).ax.tick_params(labelsize=7)


def _is_checkpoint(name: str) -> bool:
    """Return whether a name is a checkpoint's reference, and not that of a cell of the grid."""
    return "::" in name or name.startswith(SCHEMES) or Path(name).exists()


def resolve_checkpoint(name: str, params: str, root: Path = Path(".")) -> str:
    """Return the reference of a checkpoint, or that of a cell of the grid by its name."""
    if _is_checkpoint(name):
        return name
    return str(result_store.find_checkpoint(_find_cell(name, params), root))


def _find_cell(name: str, params: str) -> Cell:
    """Return a cell of the grid. Raises UserError for a name that is none, which is no file either."""
    try:
        return grid.resolve(read.load_params(params), name).cell
    except UserError as error:
        raise UserError(f"checkpoint {name!r}: no such file or folder, and no MODEL::TAG; {error}") from error


def main(argv: list[str]) -> int:
    """Write the figure, and print for each text what changed most."""
    parser = CommandParser(
        prog="compclip evaluate attention",
        description=__doc__,
        example="--image cat.jpg --text 'a red star' --checkpoint ViT-B-32::openai --out attention.png",
    )
    parser.add_argument("--image", required=True, help="the picture to look at")
    parser.add_argument("--text", required=True, nargs="+", help="the texts, a row of the drawing each")
    parser.add_argument("--checkpoint", required=True, help="cell, folder, weights file or MODEL::TAG")
    parser.add_argument("--against", default="", help="likewise; default: the cell's backbone")
    parser.add_argument("--out", required=True, type=Path, help="the picture to write")
    parser.add_argument("--caption", default="", help="the texts are parts of it")
    parser.add_argument("--map", default=KINDS[0], choices=KINDS, help=f"what is drawn; default: {KINDS[0]}")
    parser.add_argument("--model", default="", help="open_clip architecture of weights files")
    parser.add_grid()
    args = parser.parse_args(argv)
    against = args.against
    if not against:
        if _is_checkpoint(args.checkpoint):
            raise UserError(
                f"--checkpoint {args.checkpoint}: no cell of the grid, so its backbone is not known; give --against"
            )
        against = str(Path("models") / _find_cell(args.checkpoint, args.params).backbone)
    pretrained, tuned = (
        backbone.load(resolve_checkpoint(name, args.params), args.model) for name in (against, args.checkpoint)
    )
    for model in (pretrained, tuned):
        pair_scorers.check_common_space(model, "give a checkpoint whose patches a text can be compared with")
        model.clip.eval()
    attention_rows = compute_maps(pretrained, tuned, args.image, args.text, args.caption, args.map)
    names = Path(against).name, Path(args.checkpoint).name
    draw_figure(attention_rows, model_input(tuned, args.image), names, args.map, args.out)
    for row in attention_rows:
        gain = row.difference_PP.max()
        loss = row.difference_PP.min()
        print(f"{row.text}: {args.map} changes by {loss:+.4f} to {gain:+.4f}")
    print(args.out)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
