"""The command `python -m lab`: a thin layer of words over lab.nodes, lab.depot and lab.gpusim."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from lab import progress
from lab.depot.cache import DepotError
from lab.nodes.errors import LabError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="A rehearsal machine park: bare nodes with simulated GPUs, and a depot of packages and images.",
)

Name = Annotated[str, typer.Option("--name", help="Name of the lab; labs with different names run side by side.")]


@app.command()
def up(
    name: Name = "lab",
    spec: Annotated[
        Path | None, typer.Option(help="Spec file; default: the running lab's own, else lab/specs/default.yml.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="Inventory to write; default: NAME.ini.")] = None,
    engine: Annotated[str, typer.Option(help="Container engine; only podman.")] = "podman",
    debian_mirror: Annotated[str, typer.Option(help="Debian mirror; default: the one that the host's apt uses.")] = "",
    depot: Annotated[bool, typer.Option(help="Build and serve packages and images; without it nodes only.")] = True,
) -> None:
    """Bring up bare nodes and the depot, and write the inventory; what is there already stays as it is."""
    from lab.depot.debian import MIRROR_VARIABLE
    from lab.nodes import park

    if engine != "podman":
        raise LabError(f"Error while reading --engine {engine}: only podman can run the lab so far.")
    if debian_mirror:
        os.environ[MIRROR_VARIABLE] = debian_mirror
    known = park.up(name, spec, inventory, debian_mirror, with_depot=depot)
    progress.say(f"The lab {name} is up: {len(known.nodes)} nodes, inventory {known.inventory}")


@app.command()
def down(name: Name = "lab") -> None:
    """Remove a lab: its containers, volumes, networks, inventory and state, and nothing else."""
    from lab.nodes import park

    there = park.down(name)
    progress.say(f"The lab {name} is removed." if there else f"There is no lab {name}.")


def main() -> None:
    """Run the command; an error of the lab is a few lines of text, never a traceback."""
    try:
        app()
    except (LabError, DepotError) as error:
        sys.stdout.flush()
        progress.console.print(f"[red]{escape(str(error))}[/red]")
        raise SystemExit(1) from None
