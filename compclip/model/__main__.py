"""The `backbone` stage: a pretrained model into models/<name>: `python -m compclip.model --backbone scenes`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compclip.base.errors import entry, unknown
from compclip.config import read
from compclip.config.sections import Params
from compclip.model import backbone
from compclip.model.backbone import Model


def fetched(params: Params, name: str) -> Model:
    """A backbone of params.yaml with its weights. Raises UserError for an unknown one and for absent weights."""
    if name not in params.backbones:
        raise unknown("backbone", name, params.backbones, "backbones")
    spec = params.backbones[name]
    shipped = spec.weights.endswith(backbone.SHIPPED)
    made = backbone.create(
        spec.model,
        "" if shipped else spec.weights,
        params.scenes.seed,
        tokenizer=spec.tokenizer,
        activation=spec.activation,
    )
    if shipped:
        backbone.unpack(made, Path(spec.weights))
    return made


def main(argv: list[str]) -> int:
    """The `backbone` stage."""
    parser = argparse.ArgumentParser(prog="python -m compclip.model", description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", required=True, help="a name of the section backbones")
    parser.add_argument("--params", default=read.DEFAULT)
    args = parser.parse_args(argv)
    fetched(read.load(args.params), args.backbone).save(Path("models") / args.backbone)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
