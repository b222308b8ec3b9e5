"""The command `python -m lab`: a thin interface to lab.nodes, lab.depot and lab.gpusim.

Every command imports its modules when it runs, so that --help and errors are fast.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from lab import progress
from lab.depot.cache import DepotError
from lab.nodes.errors import LabError
from lab.parts import PARTS

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="A rehearsal machine park: bare nodes with simulated GPUs, and a depot of packages and images.",
)

Name = Annotated[
    str,
    typer.Option("--name", envvar="GPULAB_LAB", help="Name of the lab; labs with different names run side by side."),
]
Copy = Annotated[str, typer.Argument(help="Name of the saved copy: small letters, digits and '-'.")]
# Options of another program are passed on unchanged.
_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command()
def up(
    name: Name = "lab",
    spec: Annotated[
        Path | None, typer.Option(help="Spec file; default: the lab's own if it exists, else lab/specs/default.yml.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="Inventory to write; default: NAME.ini.")] = None,
    engine: Annotated[str, typer.Option(help="Container engine; only podman.")] = "podman",
    debian_mirror: Annotated[str, typer.Option(help="Debian mirror; default: the one that the host's apt uses.")] = "",
    depot: Annotated[bool, typer.Option(help="Build and serve packages and images; without it nodes only.")] = True,
) -> None:
    """Bring up bare nodes and the depot, and write the inventory; existing nodes are kept."""
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


@app.command()
def save(copy: Copy, name: Name = "lab") -> None:
    """Save a copy of all nodes of a lab, which are shut down for it and started again; `down` removes it."""
    from lab.nodes import saved

    saved.save(name, copy)
    progress.say(f"The lab {name} is saved as {copy}: python -m lab restore {copy} --name {name}")


@app.command()
def restore(copy: Copy, name: Name = "lab") -> None:
    """Make all nodes of a lab what they were when the saved copy was made; everything since then is lost."""
    from lab.nodes import saved

    saved.restore(name, copy)
    progress.say(f"The lab {name} is restored from the saved copy {copy}")


@app.command(name="power-cut")
def power_cut(
    node: str,
    off: Annotated[bool, typer.Option("--off", help="Leave the node off; `up` starts it again.")] = False,
    name: Name = "lab",
) -> None:
    """Cut the power of a node that has `power_cuts: true` in the spec: what was not on its disk yet is lost."""
    from lab.nodes import saved

    saved.power_cut(name, node, off=off)
    progress.say(f"The power of {node} was cut" + (", and it is off" if off else ", and it has booted again"))


@app.command(name="vm")
def virtual_machine(
    name: Name = "lab",
    inventory: Annotated[Path | None, typer.Option(help="Inventory to write; default: NAME-vm.ini.")] = None,
) -> None:
    """Add a worker that is an emulated virtual machine to a lab that is up; `down` removes it with the lab."""
    from lab.nodes import view, vm

    known = view.known(name)
    place = vm.up(known, inventory or Path(known.inventory).with_name(f"{name}-vm.ini"))
    progress.say(f"{vm.NODE} is up: give ansible-playbook -i {place} after the lab's own inventory")


@app.command()
def status(name: Name = "lab") -> None:
    """Show the nodes of a lab, their simulated GPUs and the depot."""
    from lab.nodes import state, view

    lab = view.known(name)
    table = Table("node", "OS", "address", "groups", "GPUs", "state", box=None, pad_edge=False, header_style="bold")
    for row in view.rows(lab):
        table.add_row(row.node, row.os, row.address, row.groups, row.gpus, row.state)
    progress.console.print(table)
    progress.say(f"depot: {view.depot_state(lab)}")
    progress.say(f"inventory: {lab.inventory}")
    if others := [other for other in state.names() if other != name]:
        progress.say(f"other labs: {', '.join(others)}")


@app.command(context_settings=_PASS_ON)
def shell(context: typer.Context, node: str, name: Name = "lab") -> None:
    """Open a shell on a node, or run the given command there."""
    from lab.nodes import view

    argv = view.shell(view.known(name), node, context.args)
    os.execvp(argv[0], argv)


@app.command(context_settings=_PASS_ON, add_help_option=False)
def kubectl(context: typer.Context, name: Name = "lab") -> None:
    """Run kubectl on the cluster of a lab, as its administrator."""
    from lab.nodes import view

    program, kubeconfig = view.kubectl(view.known(name))
    os.execve(program, [str(program), *context.args], {**os.environ, "KUBECONFIG": str(kubeconfig)})


@app.command()
def build(
    kubernetes: Annotated[
        list[str] | None, typer.Option(help="Kubernetes version; may be given several times.")
    ] = None,
    debian_mirror: Annotated[str, typer.Option(help="Debian mirror; default: the one that the host's apt uses.")] = "",
    parts: Annotated[
        list[str] | None,
        typer.Option("--with", help=f"Optional part ({', '.join(PARTS)}); repeatable."),
    ] = None,
    name: Name = "lab",
    spec: Annotated[
        Path | None, typer.Option(help="Spec file of a lab to check first, before anything is built.")
    ] = None,
    inventory: Annotated[Path | None, typer.Option(help="Inventory of that lab; default: NAME.ini.")] = None,
) -> None:
    """Build the depot: packages and images from their sources. Existing builds are reused."""
    from lab import depot
    from lab import parts as optional
    from lab.depot.debian import MIRROR_VARIABLE
    from lab.nodes import park, system

    optional.check(parts or [])
    if spec:
        park.check(name, spec, inventory)
    system.require()
    if debian_mirror:
        os.environ[MIRROR_VARIABLE] = debian_mirror
    depot.build(kubernetes or [depot.DEFAULT_KUBERNETES])
    optional.build(parts or [])


@app.command(name="ee")
def execution_environment() -> None:
    """Print ansible-runner's settings for the execution environment on this machine, as JSON (build --with ee)."""
    from lab import ee

    typer.echo(json.dumps(ee.settings(), indent=2))


@app.command()
def fault(
    node: str,
    kind: Annotated[
        str,
        typer.Argument(help="lost, xid:NUMBER, pending, mismatch, unload, load:VERSION, dkms:VERSION, or clear."),
    ],
    gpu: Annotated[int | None, typer.Option(help="Number of the GPU, for lost, xid and pending.")] = None,
    name: Name = "lab",
) -> None:
    """Switch a fault of a node's simulated GPUs on, or all of them off."""
    from lab.nodes import view

    progress.say(view.fault(view.known(name), node, kind, gpu))


def main() -> None:
    """Run the command; print errors of the lab as a few lines of text, never as a traceback."""
    try:
        app()
    except (LabError, DepotError) as error:
        sys.stdout.flush()
        typer.echo(str(error), err=True)
        raise SystemExit(1) from None
