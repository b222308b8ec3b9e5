"""`python -m lab.depot`: build the depot's content, or list it."""

from __future__ import annotations

import argparse
import sys

from lab import depot, progress


def main() -> int:
    """Build or list; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lab.depot", description="Build what the depot of the labs serves.")
    parser.add_argument("--list", action="store_true", help="list packages, images and whether they are built")
    parser.add_argument(
        "--kubernetes",
        action="append",
        metavar="VERSION",
        help=f"Kubernetes version to build (default {depot.DEFAULT_KUBERNETES}); may be given more than once",
    )
    arguments = parser.parse_args()
    wanted = arguments.kubernetes or [depot.DEFAULT_KUBERNETES]
    try:
        if arguments.list:
            for line in depot.listing(wanted):
                progress.say(line)
        else:
            with progress.step("Depot"):
                depot.build(wanted)
    except depot.DepotError as error:
        progress.warn(str(error))
        return 1
    except KeyboardInterrupt:
        progress.warn("Interrupted. What is built already stays; run the same command again to go on.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
