"""The stages `recaption`, `rewrite`, `annotate`: `python -m compclip.data.prepare --data NAME [--rewrite|--annotate]`.

Write data/<name>/: samples.parquet, counts.json; rewrites.parquet, rewrite_counts.json; annotations.parquet and
annotation_counts.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from compclip.base import names
from compclip.base.errors import entry, unknown
from compclip.config import grid, read

if TYPE_CHECKING:
    from compclip.config.sections import Data


def main(argv: list[str]) -> int:
    """Prepare one data set of params.yaml."""
    parser = argparse.ArgumentParser(prog="python -m compclip.data.prepare", description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    stage = parser.add_mutually_exclusive_group()
    stage.add_argument("--rewrite", action="store_true")
    stage.add_argument("--annotate", action="store_true")
    parser.add_argument("--params", default="params.yaml")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    args = parser.parse_args(argv)
    name = names.given(args.data, "--data")
    params = read.load(args.params, args.overrides)
    if name not in params.data:
        raise unknown("data", name, params.data)
    print(json.dumps(_stage(args, params.data[name], Path("data") / name)))
    return 0


def _stage(args: argparse.Namespace, cfg: Data, folder: Path) -> dict:
    if args.rewrite:
        from compclip.data import rewrite

        return rewrite.rewrite(grid.rewriter_config(cfg), folder)
    if args.annotate:
        from compclip.data import annotate, rewrite

        return annotate.annotate(folder, rewrite.load(folder) if cfg.rewriter else None)
    from compclip.data import recaption

    return recaption.recaption(cfg, grid.captioner_config(cfg), folder)


if __name__ == "__main__":
    sys.exit(entry(main))
