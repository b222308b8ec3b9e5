# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is available after a run: where kubeconfig and reports are kept, and the next commands."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...module_utils._training.judge import Wanted
from ...module_utils._words import counted

# Placeholder for the reader's inventory in commands.
_UNKNOWN_INVENTORY = "-i INVENTORY"
# Generic names of files; the directory's name identifies the cluster instead.
_ANY_CLUSTER = ("hosts", "inventory", "inventories", "all")
_ON_CONTROL_PLANE = "sudo kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes"


def cluster_name(given: str, sources: Sequence[str]) -> str:
    """Return the controller's name for the inventory, else the name of the inventory's first file or directory."""
    if given or not sources or "," in sources[0]:
        return given
    path = Path(sources[0])
    named = [part for part in (path.stem, path.parent.name) if part.lower() not in _ANY_CLUSTER]
    return named[0] if named else ""


def inventory_paths(sources: Sequence[str]) -> list[Path]:
    """Return the existing files and directories of the inventory; a list of hosts contains commas."""
    return [Path(source) for source in sources if "," not in source and Path(source).exists()]


def kubeconfig_path(sources: Sequence[str], is_job: bool) -> str:
    """Return the default path of the kubeconfig, empty if it isn't kept.

    It is next to the first inventory, which is a file or a directory. In a directory, Ansible would read it as an
    inventory.

    is_job: the run is an AWX job, whose directory is temporary, or a checkout that several jobs share.
    """
    found = next(iter(inventory_paths(sources)), None)
    if is_job or found is None or not os.access(found.parent, os.W_OK):
        return ""
    return str(found.with_name(f"{found.name if found.is_dir() else found.stem}-admin.conf"))


def report_prefix(sources: Sequence[str], directory: str) -> str:
    """Return the default beginning of report paths: the inventory's directory with ``directory`` and a slash.

    If the inventory is a directory, Ansible would read reports in it as inventories, so they are next to it, and begin
    with its name.
    """
    around = [path for path in inventory_paths(sources) if path.is_dir() and Path(directory).is_relative_to(path)]
    found = min(around, key=lambda path: len(path.parts), default=None)
    return f"{found}-" if found and os.access(found.parent, os.W_OK) else f"{directory}/"


def run_options(inventory: Sequence[str], asks_password: bool, here: Path) -> str:
    """Return the options of this run for the next commands, as typed in ``here``, such as ``-i my.ini -K``."""
    given = [f"-i {shlex.quote(typed(source, here))}" for source in inventory]
    return " ".join([*given, *["-K"] * asks_password])


def run_commands(value: Any, options: str) -> Any:
    """Return a text, or the texts in lists and dictionaries, with ``options`` (see run_options) in their commands.

    Without an inventory in ``options`` they are unchanged, because the reader's inventory is unknown.
    """
    if isinstance(value, str):
        return value.replace(_UNKNOWN_INVENTORY, options) if options.startswith("-i ") else value
    if isinstance(value, Mapping):
        return {key: run_commands(each, options) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [run_commands(each, options) for each in value]
    return value


@dataclass(frozen=True)
class Access:
    """What a finished cluster offers; ``server`` is host:port of the API, ``kubeconfig`` is empty if none is kept.

    ``kubectl``: it is installed on the controller and reaches the API. ``training`` is the largest possible job.
    """

    server: str
    control_plane: str
    kubeconfig: str
    kubectl: bool
    inventory: Sequence[str]
    asks_password: bool
    training: Wanted | None = None

    def next_steps(self, here: Path, terse: bool) -> list[str]:
        """Return the last lines of a successful run; paths are as typed in the directory ``here``."""
        kubeconfig = typed(self.kubeconfig, here)
        named = " ".join(typed(source, here) for source in self.inventory)
        kept = f"the administrator's kubeconfig is {kubeconfig}" if kubeconfig else "no kubeconfig is kept"
        first = f"The cluster {f'of {named} ' * bool(named)}is ready at https://{self.server}; {kept}."
        if terse:
            return [first]
        given = f" {run_options(self.inventory, self.asks_password, here)}".rstrip()
        nodes = (
            f"kubectl --kubeconfig {shlex.quote(kubeconfig)} get nodes"
            if self.kubectl and kubeconfig
            else f"{_ON_CONTROL_PLANE}   # on {self.control_plane}"
        )
        return [
            first,
            "Next:",
            f"  {nodes}",
            *self._train(given),
            f"  ansible-playbook gpulab.kubernetes.verify{given}   # verify every GPU again",
        ]

    def _train(self, given: str) -> list[str]:
        if self.training is None:
            return []
        nodes, gpus = self.training.nodes, self.training.gpus
        sizes = f" -e torch_ddp_nodes={nodes} -e torch_ddp_gpus_per_node={gpus}"
        comment = f"   # train on {counted(nodes * gpus, 'GPU')}, see docs/training.md"
        return [f"  ansible-playbook gpulab.kubernetes.train{given}{sizes}{comment}"]


def typed(path: str, here: Path) -> str:
    """Return a path as typed in the directory ``here``."""
    try:
        return str(Path(path).relative_to(here))
    except ValueError:
        return path
