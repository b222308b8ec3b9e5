# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a new cluster: inventory, the most often changed settings, and ansible.cfg. Pure."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from .._inventory.variables import first_line
from .machines import Machine

GUIDES = "https://github.com/gpulab/kubernetes/blob/main/"
# Title -> a guide, and the settings in their order. Descriptions and defaults are those of the roles.
SETTINGS: Mapping[str, tuple[str, Sequence[str]]] = {
    "Versions": (
        "README.md#supported-versions",
        ("cluster_kubernetes_version", "containerd_version", "nvidia_container_toolkit_version"),
    ),
    "Driver": (
        "docs/drivers.md",
        ("nvidia_driver_version", "nvidia_driver_source", "nvidia_driver_replace_foreign", "nvidia_driver_reboot"),
    ),
    "Networks of the cluster, which can't be changed later": (
        "docs/machines-in-use.md#running-clusters",
        ("cluster_pod_network", "cluster_service_network", "cluster_network_plugin"),
    ),
    "How your own computer reaches the API": (
        "docs/own-machines.md#api-reachable-only-through-ssh",
        ("cluster_api_endpoint", "cluster_api_tunnel"),
    ),
    "Proxy": ("inventories/behind-a-proxy/group_vars/all.yml", ("cluster_http_proxy", "cluster_no_proxy")),
    "Mirrors": (
        "inventories/own-mirror/group_vars/all.yml",
        (
            "kubeadm_repository_url",
            "containerd_repository_url",
            "nvidia_container_toolkit_repository_url",
            "nvidia_driver_repository_url",
            "containerd_registry_mirrors",
        ),
    ),
    "How pods share GPUs": ("docs/sharing-gpus.md", ("cluster_gpu_sharing",)),
    "Machines in use": (
        "docs/machines-in-use.md",
        ("cluster_disruption_policy", "cluster_existing_packages", "cluster_existing_sources"),
    ),
}
# Example values where the default doesn't show the form.
EXAMPLES: Mapping[str, Any] = {
    "cluster_api_endpoint": "api.example.org:6443",
    "cluster_http_proxy": "http://proxy.example.org:3128",
    "cluster_no_proxy": [".example.org"],
    "containerd_registry_mirrors": [{"registry": "docker.io", "endpoint": "https://mirror.example.org"}],
    "cluster_gpu_sharing": {"mode": "time_slicing", "replicas": 4},
}
# Ansible's default paths of collections.
COLLECTIONS = ("~/.ansible/collections", "/usr/share/ansible/collections")
_MOST_FORKS = 50

_INVENTORY = """\
# Add a machine by a line below [workers], and run gpulab.kubernetes.site again. Settings for all machines are in
# group_vars/all.yml, those of one machine belong in host_vars/NAME.yml, in this directory:
# {guides}docs/own-machines.md#where-settings-go
[control_plane]
{control_plane}

[workers]
{workers}

[all:vars]
# A user with sudo rights. If sudo asks for a password, run ansible-playbook with -K. With a password on Ubuntu 26.04:
# {guides}docs/own-machines.md#ubuntu-2604-and-sudo-rs
ansible_user={user}
"""
_UNCOUNTED = """\
# Add cluster_expected_gpus=NUMBER to the line of each machine with GPUs: preflight then notices if one is missing.
"""
_ANSIBLE = """\
# Ansible reads this file if you run it in this directory.
[defaults]
inventory = my.ini
{collections}forks = {forks}
interpreter_python = auto_silent
# No fact of a host replaces a variable of the inventory that has the same name.
inject_facts_as_vars = False
callback_result_format = yaml
# Shows what each host is doing, and the causes of a failure at the end.
stdout_callback = gpulab.kubernetes.progress

[inventory]
any_unparsed_is_failed = True

[connection]
pipelining = True
"""
_SETTINGS = """\
---
# The settings that people change first, with their defaults. Remove the number sign before a name to set it. All
# settings, and all possible values: {guides}docs/variables.md
# Never write a password into this file; use Ansible Vault.
"""


def new_files(
    machines: Sequence[Machine], user: str, specification: Mapping[str, Mapping[str, Any]], collections: str = ""
) -> dict[str, str]:
    """Return the file texts by name; the first machine is the control plane.

    ``collections`` is where this collection is installed if Ansible does not look there by default.
    """
    path = f"collections_path = {':'.join((collections, *COLLECTIONS))}\n"
    forks = min(max(20, len(machines)), _MOST_FORKS)
    return {
        "my.ini": _inventory(machines, user),
        "group_vars/all.yml": _SETTINGS.format(guides=GUIDES) + "".join(_settings(specification)),
        "ansible.cfg": _ANSIBLE.format(forks=forks, collections=path if collections else ""),
    }


def _inventory(machines: Sequence[Machine], user: str) -> str:
    first, *rest = machines
    # A control plane with a GPU count offers its GPUs to pods, and a single machine has to run all pods.
    also_worker = bool(first.gpus) or not rest
    workers = [*([first.name] if also_worker else []), *map(_line, rest)]
    uncounted = any(not machine.gpus for machine in (rest or machines))
    return _INVENTORY.format(
        guides=GUIDES,
        control_plane=_line(first),
        workers=(_UNCOUNTED if uncounted else "") + "\n".join(workers),
        user=user,
    )


def _line(machine: Machine) -> str:
    address = f" ansible_host={machine.address}" if machine.address != machine.name else ""
    return f"{machine.name}{address}{f' cluster_expected_gpus={machine.gpus}' if machine.gpus else ''}"


def _settings(specification: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for title, (guide, names) in SETTINGS.items():
        yield f"\n# --- {title}: {GUIDES}{guide}\n"
        for name in names:
            option = specification[name]
            text = first_line(option["description"])
            text += f" One of {', '.join(option['choices'])}." if "choices" in option else ""
            text += f" For example: {_yaml(EXAMPLES[name])}" if name in EXAMPLES else ""
            lines = textwrap.wrap(text, 116, break_long_words=False, break_on_hyphens=False)
            yield "\n" + "".join(f"# {line}\n" for line in lines) + f"#{name}: {_yaml(option['default'])}\n"


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def closing(directory: Path, here: Path, names: Sequence[str], *, check: bool) -> list[str]:
    """Return the final lines of the run."""
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    if check:
        return [f"Would write {listed} in {directory}. Nothing was written (--check)."]
    move = [] if directory == here else [f"  cd {shlex.quote(str(directory))}"]
    return [
        f"Wrote {listed} in {directory}.",
        "Next (-K prompts for the password of sudo; leave it out if sudo needs none):",
        *move,
        "  ansible-playbook gpulab.kubernetes.preflight -i my.ini -K   # changes nothing, lists every problem",
        "  ansible-playbook gpulab.kubernetes.site -i my.ini -K        # builds and verifies the cluster",
    ]
