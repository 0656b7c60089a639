"""Make the scenes world's pretrained models: `compclip pretrain`.

compclip pretrain                          make the model of the backbone `scenes` again, and replace its weights
compclip pretrain --backbone scenes_b      the same of another backbone
compclip pretrain --versions               make all of `scenes.versions` whose weights are not there, one after another

A backbone's numbers are those of `scenes.pretrain`, with what `scenes.versions` says of it. A training that was stopped
goes on from its last save. The stage `backbone` makes a version's weights where they are not there.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from compclip.base import messages, safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown
from compclip.base.files import read_json, write_json
from compclip.config import read, world_versions
from compclip.config.sections import Params, Pretrain

SAMPLES_PER_SECOND = 450  # of one core, a model of the shipped width
NUMBERS = ".numbers.json"  # beside a version's weights: what they were made of


def make_model(params: Params, name: str) -> None:
    """Pretrain a backbone of the world from random weights and write its weights and log.

    Raises UserError for a backbone whose weights are not the world's.
    """
    from compclip.model import backbone
    from compclip.train import pretrain

    spec, weights = params.backbones[name], Path(params.backbones[name].weights)
    if not spec.weights.endswith(backbone.SHIPPED):
        raise UserError(
            f"backbones.{name}.weights={spec.weights!r}: are somebody's; name a file that ends with "
            f"{backbone.SHIPPED} to write"
        )
    cfg, seed = world_versions.resolve_pretraining(params.scenes, name)
    messages.note(f"{name}: pretraining {weights}: {describe_cost(cfg)}")
    weights.parent.mkdir(parents=True, exist_ok=True)
    model = backbone.create(spec.model, "", seed, tokenizer=spec.tokenizer, activation=spec.activation)
    pretrain.train(model, cfg, seed, weights)
    pretrain.write_half_weights(model, weights)
    if name in params.scenes.versions:
        write_json(_numbers_file(weights), _describe_numbers(params, name))
    pretrain.state_path(weights).unlink(missing_ok=True)
    print(f"{weights}: written; `dvc repro backbone` takes them over")


def describe_cost(cfg: Pretrain) -> str:
    """Describe how long a pretraining takes."""
    steps = cfg.steps + cfg.unbound_steps
    minutes = max(1, round(steps * cfg.batch_size / SAMPLES_PER_SECOND / 60))
    return f"{steps:,} steps of {cfg.batch_size} pictures, about {minutes} CPU minutes"


def make_missing(params: Params, name: str) -> None:
    """Pretrain a version of the world's model whose weights are not there; do nothing for any other backbone.

    Raises UserError where the weights were made of other numbers than today's.
    """
    if name not in params.scenes.versions:
        return
    weights = Path(params.backbones[name].weights)
    if not weights.is_file():
        make_model(params, name)
        return
    file = _numbers_file(weights)
    if file.is_file() and read_json(file) != json.loads(json.dumps(_describe_numbers(params, name))):
        raise UserError(f"{weights}: was pretrained with other numbers than scenes.versions.{name} has; remove it")


def _numbers_file(weights: Path) -> Path:
    return weights.with_suffix(NUMBERS)


def _describe_numbers(params: Params, name: str) -> dict[str, object]:
    """Return what a version's weights are made of; threads and saves decide no number."""
    cfg, seed = world_versions.resolve_pretraining(params.scenes, name)
    numbers = {key: value for key, value in asdict(cfg).items() if key not in ("threads", "save_every_steps")}
    return {"pretrain": numbers, "seed": seed, "architecture": read_json(Path(params.backbones[name].model))}


def main(argv: list[str]) -> int:
    """Make the models that are asked for."""
    parser = CommandParser(
        prog="compclip pretrain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backbone", default="scenes", help="a name of the section backbones; default: scenes")
    parser.add_argument("--versions", action="store_true", help="all of scenes.versions whose weights are missing")
    parser.add_argument("--missing", metavar="NAME", help="a version, if its weights are missing: the stage `backbone`")
    parser.add_argument("--params", default=read.DEFAULT, help="the file that holds the grid")
    args = parser.parse_args(argv)
    params = read.load_params(args.params)
    if args.missing:
        make_missing(params, safe_names.parse_name(args.missing, "--missing"))
        return 0
    if args.versions:
        return _make_versions(params, args.params)
    if args.backbone not in params.backbones:
        raise unknown("backbone", args.backbone, params.backbones, "backbones")
    make_model(params, args.backbone)
    return 0


def _make_versions(params: Params, file: str) -> int:
    if not params.scenes.versions:
        raise UserError(f"{file}: scenes.versions: declares none; see docs/versions.md")
    for name in params.scenes.versions:
        make_missing(params, name)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
