"""The `backbone` stage: a pretrained model into models/<name>: `python -m compclip.model --backbone scenes`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from compclip.base.errors import entry, unknown
from compclip.config import read
from compclip.model import backbone


def main(argv: list[str]) -> int:
    """The `backbone` stage."""
    parser = argparse.ArgumentParser(prog="python -m compclip.model", description=__doc__.splitlines()[0])
    parser.add_argument("--backbone", required=True, help="a name of the section backbones")
    parser.add_argument("--params", default=read.DEFAULT)
    args = parser.parse_args(argv)
    params = read.load(args.params)
    if args.backbone not in params.backbones:
        raise unknown("backbone", args.backbone, params.backbones, "backbones")
    backbone.fetched(params.backbones[args.backbone], params.scenes.seed).save(Path("models") / args.backbone)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
