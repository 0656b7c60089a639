"""The `scenes` stage: `compclip stage scenes --out data/scenes_world`."""

from __future__ import annotations

import sys
from pathlib import Path

from compclip.base import messages
from compclip.base.command_line import CommandParser
from compclip.base.errors import entry
from compclip.base.files import check_output_folder
from compclip.config import read
from compclip.scenes import generate


def main(argv: list[str]) -> int:
    """Make the world of params.yaml's section `scenes`."""
    about = generate.__doc__.splitlines()[0]
    parser = CommandParser(prog="compclip stage scenes", description=about, example="--out data/scenes_world")
    parser.add_argument("--out", type=check_output_folder, default=Path("data/scenes_world"), help="folder to write")
    parser.add_grid("parameters to override")
    args = parser.parse_args(argv)
    world = read.load_params(args.params, args.overrides).scenes
    messages.print_counts(generate.generate(world, args.out))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
