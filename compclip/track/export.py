"""Write the grid's runs and its studies' trials for another tracker: `compclip export tensorboard [--to FOLDER]`.

Curves of metrics.jsonl and results, under the names that MLflow has; of a run under way the curve so far. A run that is
there already is left alone, one whose files changed since is written anew: the same call twice adds nothing. Exporters
are plug-ins of compclip/track/exporters, or of packages of yours.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from compclip.base import plugins
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.config import read
from compclip.track.exported_runs import ExportedRun, list_exported_runs


def export_runs(exporter: ModuleType, runs: Iterable[ExportedRun], to: str) -> Counter[str]:
    """Write runs that are not there with the same content; count those added, replaced and unchanged."""
    counts: Counter[str] = Counter()
    for run in runs:
        content = exporter.find_content(run.name, to)
        if content == run.content:
            counts["unchanged"] += 1
            continue
        exporter.write_run(run, to)
        counts["replaced" if content else "added"] += 1
    return counts


def main(argv: list[str]) -> int:
    """Run the command `export`."""
    parser = CommandParser(
        prog="compclip export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("exporter", help=f"one of {', '.join(plugins.list_plugins(plugins.EXPORTERS))}")
    parser.add_argument(
        "--to", default="", metavar="FOLDER", help="where to write; default: what the exporter says, as tensorboard/"
    )
    parser.add_argument("--params", default=read.DEFAULT, help="the file that holds the grid")
    parser.add_argument("--root", type=Path, default=Path(), help="folder that holds runs/, results/ and studies/")
    args = parser.parse_args(argv)
    exporter = plugins.load_plugin(plugins.EXPORTERS, args.exporter)
    to = args.to or exporter.TARGET
    runs = list(list_exported_runs(args.params, args.root))
    if not runs:
        raise UserError(f"{args.root}: holds no run of the grid; train one with `dvc repro` or give --root")
    counts = export_runs(exporter, runs, to)
    print(f"{to}: " + ", ".join(f"{counts[state]} {state}" for state in ("added", "replaced", "unchanged")))
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
