"""Begin a project, with one's own data in it, or bring one up to date: `compclip init`.

compclip init [FOLDER] [--grid NAME]   a new project with git and DVC; NAME is a file of experiments/grids
compclip init --data FILE_OR_FOLDER    the same with your pictures and captions; in a project they are added to it
compclip init                          in a project: what differs from the package's files
compclip init --diff | --update        show the differences | take over what nobody edited

--data takes a table (CSV, TSV, JSON lines, Parquet, Arrow), a Hugging Face folder, tars, pictures with texts beside
them, COCO's or Karpathy's JSON, or Flickr8k's captions.txt. It prints what it found, and writes it into params.yaml.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Any

from compclip.base import messages, yaml_text
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_text, write_atomic
from compclip.base.messages import format_count
from compclip.base.safe_names import SafeName
from compclip.begin.data_section import PICTURES, describe, find_section, make_name
from compclip.config import project_files, read
from compclip.config.sections import Params, Train

GRID_DATA = re.compile(r"^((?:  |grid: \{.*\b)data: )\[([^\]]*)\]", re.M)


def add_section(text: str, name: str, section: dict[str, Any], alone: bool) -> str:
    """Return a grid with a further data set in `data` and in grid.data; `alone`: in place of all others there.

    Raises UserError where `data` is written in one line.
    """
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if re.fullmatch(r"data:\s*(#.*)?", line)), -1)
    if start < 0:
        raise UserError("params.yaml: has no line `data:` with data sets below it; write it so, and try again")
    end = next((i for i in range(start + 1, len(lines)) if lines[i][:1].strip()), len(lines))
    while not lines[end - 1].strip():
        end -= 1
    block = [f"  {line}" for line in yaml_text.dump_yaml({str(name): section}).splitlines()]
    lines[start + 1 : end] = block if alone else lines[start + 1 : end] + block
    names = r"\1[" + name + "]" if alone else r"\1[\2, " + name + "]"
    return GRID_DATA.sub(names, "\n".join(lines) + "\n", count=1)


def write_section(folder: Path, name: SafeName, section: dict[str, Any], alone: bool) -> Params:
    """Write a data set into params.yaml, and return what that says then.

    Raises UserError, and changes nothing, where no grid comes of it.
    """
    path = folder / read.DEFAULT
    if not alone and name in read.load_params(path).data:
        raise UserError(f"data.{name}: is in {path} already; edit it there, or rename the file")
    for key in ("path", "images"):
        if Path(section[key]).is_relative_to(folder.absolute()):
            section = section | {key: os.path.relpath(section[key], folder)}
    former = read_text(path)
    with contextlib.ExitStack() as undo:
        undo.callback(write_atomic, path, former)
        write_atomic(path, add_section(former, name, section, alone))
        params = read.load_params(path)
        undo.pop_all()
    if name not in params.grid.data:
        messages.note(f"{path}: add {name} to grid.data")
    return params


def check_schedule(train: Train, pictures: int) -> None:
    """Print a note where a data set is so small that training ends in its warm-up, or soon behind it."""
    steps = train.max_steps or int(train.epochs * pictures / train.batch_size)
    if pictures < PICTURES and steps < 2 * train.warmup_steps:
        messages.note(
            f"train: {format_count(steps, 'step')} of {train.batch_size} pictures, the first {train.warmup_steps} to "
            f"warm up; raise train.epochs={train.epochs:g}, or lower train.warmup_steps"
        )


def main(argv: list[str]) -> int:
    """Begin a project, add data to one, or say what the package would change in one."""
    parser = CommandParser(prog="compclip init", description=__doc__, example="my_project --data captions.csv")
    project_files.add_options(parser)
    parser.add_argument("--data", type=Path, help="a file or a folder of pictures and captions, for params.yaml")
    parser.add_argument("--images", default="", help="the folder of its pictures, where they are not found")
    args = parser.parse_args(argv)
    if not args.data:
        return project_files.run(args)
    name = make_name(args.data, "data")
    section = find_section(args.data, args.images)
    pictures, lines = describe(section)
    is_new = not (args.folder / read.DEFAULT).exists()
    if is_new:
        project_files.run(args)
    params = write_section(args.folder, name, section, alone=is_new)
    print(f"data.{name} in {args.folder / read.DEFAULT}:", *lines, sep="\n")
    if is_new and not args.grid:
        messages.note("the default grid's backbone knows drawings alone; for photographs begin with --grid first_hour")
    check_schedule(params.train, pictures)
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
