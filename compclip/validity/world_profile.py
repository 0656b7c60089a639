"""Compare the scenes' pretrained model with CLIP, column by column: `compclip validity profile [WEIGHTS …]`.

Scores weights on the world's benchmarks of params.yaml and prints them beside what the papers print for CLIP ViT-B/32
(experiments/published). A column is of use for a question about CLIP where both stand at about the same place between
chance and the ceiling; `chance` is what scores without a model give.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError
from compclip.config import read
from compclip.config.cell import PRETRAINED
from compclip.config.sections import Params
from compclip.report import published_models, published_numbers

CLIP, CLIP_MODEL = "ViT-B/32", "ViT-B-32, openai"  # as the papers' tables, and the table of models, name it
SUGARCREPE_KINDS = ("add_obj", "add_att", "replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att")
TRIPLE_KINDS = ("replace_obj", "replace_att", "replace_rel", "swap_obj", "swap_att")
POSITIVE_KINDS = ("replace_relations", "replace_attributes", "swap")
# Columns with chance in percent. Where the published column has another name, it stands in COUNTERPARTS.
CHANCE = {
    **{f"sugarcrepe/{kind}": 50.0 for kind in SUGARCREPE_KINDS},
    **{f"sugarcrepe_pp/{kind}_{task}": 100 / 3 for task in ("itt", "tot") for kind in TRIPLE_KINDS},
    **{f"hard_positives/{kind}_original": 50.0 for kind in POSITIVE_KINDS},
    **{f"hard_positives/{kind}_augmented": 100 / 3 for kind in POSITIVE_KINDS},
    **{f"hard_positives/{kind}_brittleness": 100 / 3 for kind in POSITIVE_KINDS},
    "winoground/text": 25.0,
    "winoground/image": 25.0,
    "winoground/group": 100 / 6,
    "retrieval/i2t_recall_at_1": math.nan,
    "retrieval/i2t_recall_at_5": math.nan,
    "retrieval/t2i_recall_at_1": math.nan,
    "retrieval/t2i_recall_at_5": math.nan,
    "zeroshot_symbols/top_1": math.nan,
    "zeroshot_colours/top_1": math.nan,
}
COUNTERPARTS = {
    "retrieval/i2t_recall_at_1": "retrieval_coco/i2t_recall_at_1",
    "retrieval/i2t_recall_at_5": "retrieval_coco/i2t_recall_at_5",
    "retrieval/t2i_recall_at_1": "retrieval_coco/t2i_recall_at_1",
    "retrieval/t2i_recall_at_5": "retrieval_coco/t2i_recall_at_5",
    "zeroshot_symbols/top_1": "zeroshot_imagenet/top_1",
}


@dataclass(frozen=True)
class ProfileRow:
    """A column: chance, CLIP's published number (NaN where none is printed) and ours, in percent."""

    column: str
    chance: float
    clip: float
    ours: tuple[float, ...]


def main(argv: Sequence[str]) -> int:
    """Score the weights and print the table. Raises UserError for weights or benchmarks that are not there."""
    args = _parser().parse_args(argv)
    refs = [item for item in args.items if "=" not in item]
    params = read.load_params(args.params, [item for item in args.items if "=" in item])
    refs = refs or [params.backbones[params.grid.backbones[0]].weights]
    results = [score_weights(params, ref) for ref in refs]
    print(format_profile(make_profile(results, read_clip_numbers(args.published)), [Path(ref).name for ref in refs]))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(prog="compclip validity profile", description=__doc__.splitlines()[0])
    parser.add_argument("--params", default=read.DEFAULT, help="the file that holds the grid")
    parser.add_argument("--published", type=Path, default=Path("experiments/published"), help="folder of the tables")
    parser.add_argument(
        "items", nargs="*", metavar="WEIGHTS", help="weights of the grid's first backbone, and key=value parameters"
    )
    return parser


def score_weights(params: Params, ref: str) -> dict[str, float]:
    """Score weights of the grid's first backbone on the benchmarks of `CHANCE`; return percent by column."""
    from compclip.evaluate import score

    spec = params.backbones[params.grid.backbones[0]]
    names = list(dict.fromkeys(column.partition("/")[0] for column in CHANCE))
    loaded = score.load_benchmarks(params.benchmarks, names, params.evaluate.scoring)
    checkpoint = score.checkpoint_at(ref, spec.model, score.device(), spec.tokenizer, spec.activation)
    documents = score.score_checkpoint(checkpoint, loaded)
    return {
        f"{name}/{metric}": 100 * value
        for name, document in documents.items()
        for metric, value in document["metrics"].items()
    }


def read_clip_numbers(folder: Path) -> dict[str, float]:
    """Read the published numbers of the pretrained CLIP ViT-B/32 in percent by column, the papers' before vl_compo's.

    Raises UserError where the folder has none.
    """
    models = [m for m in published_models.read_models(folder / published_models.FOLDER) if m.name == CLIP_MODEL]
    numbers = {column: value for model in models for column, value in model.values.items()}
    printed = published_numbers.drop_wrong_activations(published_numbers.read_numbers(folder))
    clip = [n for n in printed if n.method == PRETRAINED and n.backbone == CLIP and n.unit == "percent"]
    numbers |= {n.column: float(n.value) for n in reversed(clip)}
    if not numbers:
        raise UserError(f"{folder}: has no number of the pretrained CLIP {CLIP}; give the folder of the papers' tables")
    return numbers


def make_profile(results: Sequence[Mapping[str, float]], clip: Mapping[str, float]) -> list[ProfileRow]:
    """Set results, percent by column, beside CLIP's."""
    return [
        ProfileRow(
            column,
            chance,
            clip.get(COUNTERPARTS.get(column, column), math.nan),
            tuple(result[column] for result in results),
        )
        for column, chance in CHANCE.items()
    ]


def format_profile(rows: Sequence[ProfileRow], names: Sequence[str]) -> str:
    """Format the rows as a Markdown table, in percent."""
    lines = [f"| column | chance | CLIP {CLIP} | {' | '.join(names)} |", "|---" * (3 + len(names)) + "|"]
    for row in rows:
        numbers = ("" if math.isnan(value) else f"{value:.1f}" for value in (row.chance, row.clip, *row.ours))
        lines.append(f"| {row.column} | {' | '.join(numbers)} |")
    return "\n".join(lines)
