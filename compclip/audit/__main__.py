"""Audit training texts: what rules and released lists show beside captions, and how far they are told apart blindly.

compclip audit DATA                      the texts of all methods of the grid
compclip audit DATA --method NAME        of one method, name or name.variant; several may follow
compclip audit DATA --json               print JSON

Prints coverage, how often captions are told from the texts without the picture (cross-validated by picture), texts
that are still true by rules, and samples of each rule. Needs the annotated data set (`dvc repro annotate@DATA`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry, unknown


def main(argv: Sequence[str], root: Path = Path(".")) -> int:
    """Audit a data set and print what is found."""
    args = _parser().parse_args(argv)
    from compclip.audit import rule_audit
    from compclip.config import read

    params = read.load_params(args.params)
    if args.data not in params.data:
        raise unknown("data", args.data, params.data, "data")
    audit = rule_audit.audit_data(params, args.data, args.method or params.grid.methods, root, args.pictures)
    if not audit.rules:
        raise UserError(f"{args.data}: no method shows a text that a rule makes; name one with --method")
    print(json.dumps(asdict(audit), indent=1) if args.json else rule_audit.format_audit(audit))
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(prog="compclip audit", description=__doc__, example="scenes --method fsc_clip")
    parser.add_argument("data", metavar="DATA", help="a data set of params.yaml")
    parser.add_argument("--method", nargs="+", default=[], help="methods, name or name.variant; default: the grid's")
    parser.add_argument("--pictures", type=_positive, default=5_000, help="how many are looked at, evenly spaced")
    parser.add_grid()
    parser.add_json()
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise UserError(f"--pictures {text}: must be a whole number above 0, as 5000")
    return int(text)


if __name__ == "__main__":
    sys.exit(entry(main))
