"""Score a generative model by VQAScore: how sure it is that a picture shows a text.

MODEL is a folder in transformers' format. Outside of a project, name benchmarks: they lie where `compclip fetch` puts
them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from compclip.base.command_line import CommandParser
from compclip.base.errors import entry
from compclip.evaluate import scoring_options


def main(argv: Sequence[str]) -> int:
    """Score a model, print its numbers and write its results."""
    args, overrides = scoring_options.parse(_parser(), argv)
    params = scoring_options.load_params(args, overrides)
    from compclip.evaluate import foreign_models, result_store, score
    from compclip.model import backbone

    out = scoring_options.check_output(args)
    device = args.device or score.device()
    backbone.check_device(device)
    loaded = scoring_options.load_benchmarks(params, args)
    words = {"question": args.question, "answer": args.answer, "score": args.score}
    documents = foreign_models.vqascore_documents(args.model, loaded, device, words)
    scoring_options.print_documents(documents, args.json)
    if out:
        result_store.write_documents(documents, out)
    return 0


def _parser() -> CommandParser:
    parser = CommandParser(
        prog="compclip evaluate vqascore", description=__doc__, example="models/blip --benchmarks sugarcrepe"
    )
    parser.add_argument("model", metavar="MODEL", help="folder of an image-to-text model")
    parser.add_argument("--question", default="", help="{} stands for the text; default: the authors'")
    parser.add_argument("--answer", default="", help="whose likelihood is the score; default: Yes")
    parser.add_argument("--score", default="", help="answer_likelihood or first_token; default: the authors'")
    scoring_options.add_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(entry(main))
