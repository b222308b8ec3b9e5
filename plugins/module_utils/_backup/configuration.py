# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read kubeadm's ClusterConfiguration of a backup. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from .._errors import DomainError
from .._json import as_mapping, as_mappings, as_text, as_texts
from .._kubeadm.init_evidence import ETCD_DATA
from .._kubeadm.leaves import normal
from .._kubeadm.yaml_block import read_yaml
from .manifest import CONFIGURATION


def configuration(text: str, version: str) -> str:
    """Return a ClusterConfiguration for another patch version. Raise DomainError for another text."""
    changed, count = re.subn(r"(?m)^kubernetesVersion:.*$", f"kubernetesVersion: v{version.lstrip('v')}", text)
    if count != 1 or not isinstance(_parsed(text), Mapping) or re.search(r"(?m)^---", text.lstrip()[3:]):
        raise DomainError(
            f"Error while reading {CONFIGURATION} in the backup: it is not one ClusterConfiguration with a version"
        )
    return re.sub(r"\A\s*---\n", "", changed)


def with_names(text: str, names: Collection[str]) -> str:
    """Return a ClusterConfiguration that adds names to the API server's certificate (certSANs).

    It stays as it is if it does not have the form in which kubeadm stores it.
    """
    added = "".join(f"  - {name}\n" for name in names)
    if not added:
        return text
    changed, count = re.subn(r"(?m)^  certSANs:[ ]*\n", lambda found: f"{found[0]}{added}", text)
    if not count:
        changed, count = re.subn(r"(?m)^apiServer:[ ]*(?:\{\})?[ ]*\n", f"apiServer:\n  certSANs:\n{added}", text)
    if not count:
        changed = f"{text.rstrip()}\napiServer:\n  certSANs:\n{added}"
    listed = as_mapping(as_mapping(_parsed(changed)).get("apiServer")).get("certSANs")
    return changed if set(names) <= {*as_texts(listed)} else text


def data_directory(config: str) -> str:
    """Return the directory of etcd's data in a ClusterConfiguration."""
    local = as_mapping(as_mapping(as_mapping(_parsed(config)).get("etcd")).get("local"))
    return as_text(local.get("dataDir")) or ETCD_DATA


def endpoint(config: str) -> str:
    """Return controlPlaneEndpoint, empty if there is none."""
    return as_text(as_mapping(_parsed(config)).get("controlPlaneEndpoint"))


def endpoint_host(text: str) -> str:
    """Return the host in an endpoint, which is a host or an address, with or without a port; empty if there is none."""
    found = re.fullmatch(r"\[(.+)\](?::[0-9]+)?|([^:]*):[0-9]+", text)
    return normal(found.group(1) or found.group(2) if found else text)


def encryption_file(config: str) -> str:
    """Return the path of the API server's configuration of encryption, empty if there is none."""
    arguments = as_mapping(as_mapping(_parsed(config)).get("apiServer")).get("extraArgs")
    named: dict[str, Any] = {as_text(each.get("name")): each.get("value") for each in as_mappings(arguments)}
    # v1beta3 has a map.
    path = as_text((named or as_mapping(arguments)).get("encryption-provider-config"))
    return path if path.startswith("/") and ".." not in path.split("/") else ""


def _parsed(text: str) -> Any:
    try:
        return read_yaml(text)
    except (ValueError, RecursionError):
        return None
