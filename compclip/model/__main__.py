"""The `backbone` stage: a pretrained model into models/<name>: `compclip stage backbone --backbone scenes`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from compclip.base import safe_names
from compclip.base.command_line import CommandParser
from compclip.base.errors import entry, unknown
from compclip.config import read
from compclip.model import backbone, run_weights
from compclip.model.model_config import PRETRAIN, SHIPPED


def main(argv: list[str]) -> int:
    """Write the weights of one backbone: the `backbone` stage."""
    parser = CommandParser(
        prog="compclip stage backbone", description=__doc__.splitlines()[0], example="--backbone scenes"
    )
    parser.add_argument("--backbone", required=True, help="a name of the section backbones")
    parser.add_grid()
    args = parser.parse_args(argv)
    name = safe_names.parse_name(args.backbone, "--backbone")
    params = read.load_params(args.params)
    if name not in params.backbones:
        raise unknown("backbone", name, params.backbones, "backbones")
    spec = params.backbones[name]
    if spec.weights.endswith(SHIPPED) and not Path(spec.weights).is_file() and PRETRAIN.is_file():
        # a process of its own, as it needs torch anew; what it cannot make is missing below
        subprocess.run([sys.executable, PRETRAIN, "--missing", name], check=False)
    folder = Path("models") / name
    backbone.load_backbone(spec, params.scenes.seed).save(folder)
    run_weights.write_checksums(folder)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
