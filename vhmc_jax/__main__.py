"""``python -m vhmc_jax watch PATH``: how far a run with a store is."""

import argparse
import sys
from typing import Any

from vhmc_jax.store.watch import progress_line, watch


def main(arguments: list[str] | None = None) -> int:
    """Show how far a run is, until it is complete.

    Parameters
    ----------
    arguments
        Those of the command line.

    Returns
    -------
    The exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m vhmc_jax", description=__doc__)
    commands: Any = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("watch", help="show how far a run with a store is")
    command.add_argument("path", help="the folder that was given as store")
    command.add_argument("--once", action="store_true", help="show it once, and end")
    command.add_argument("--seconds", type=float, default=2.0, help="time between two looks")
    options = parser.parse_args(arguments)
    try:
        if options.once:
            print(progress_line(options.path))
        else:
            watch(options.path, options.seconds)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
