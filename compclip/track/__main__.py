"""MLflow as a view over the run directories: `compclip track [--rebuild]`.

One experiment for the grid, one MLflow run for each cell, sweeps as a run with a nested run for each trial. Without an
option, adds what is missing and replaces what changed; --rebuild logs all of the project's runs again; --follow shows
runs while they run, seconds behind. Files are the truth: nothing is read back from MLflow.
"""

from __future__ import annotations

import signal
import sys

from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.urls import mask_url, warn_of_password
from compclip.track import sync
from compclip.track.tracking_store import DEFAULT_URI, VARIABLE, store_uri


def main(argv: list[str]) -> int:
    """The `track` command."""
    parser = CommandParser(prog="compclip track", description=__doc__.splitlines()[0], example="--rebuild")
    parser.add_argument(
        "--rebuild", action="store_true", help="log all runs of the project again, and remove those it has there"
    )
    parser.add_argument(
        "--follow", action="store_true", help="show runs while they run, until nothing runs any more, or Ctrl-C"
    )
    parser.add_argument(
        "--every", type=float, default=sync.EVERY_S, metavar="S", help="with --follow: seconds between two looks"
    )
    parser.add_argument("--beside", type=int, metavar="PID", help="with --follow: do not end before this process")
    parser.add_grid()
    parser.add_argument("--uri", help=f"tracking URI; default: {VARIABLE} or {DEFAULT_URI}")
    args = parser.parse_args(argv)
    uri = store_uri(args.uri)
    warn_of_password(args.uri, "--uri", VARIABLE)
    if not args.every > 0:
        raise UserError(f"--every {args.every:g}: must be above 0; it is seconds between two looks")
    if args.follow:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        follower = sync.StoreFollower(lambda: sync.load_project(args.params, uri), uri)
        return sync.follow(follower, args.every, args.beside)
    counts = sync.update_store(sync.load_project(args.params, uri), uri, args.rebuild)
    sums = f"{counts['added']} added, {counts['replaced']} replaced, {counts['unchanged']} unchanged"
    print(f"{mask_url(uri)}: {sums}")
    return 0


if __name__ == "__main__":
    sys.exit(entry(main))
