# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether an archive may be restored on a host. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from .._words import listing
from .manifest import PKI, RECORD, Manifest

# What restore_accept can accept, by the kind of the refusal.
CLUSTER_NAME, KUBERNETES_VERSION, CA, ENDPOINT = "cluster_name", "kubernetes_version", "ca", "endpoint"
_NAMED = f"{RECORD}cluster.json"
# The CA may be external, so that a backup does not need them.
_KEYS = tuple(f"{PKI}{name}.key" for name in ("ca", "front-proxy-ca", "etcd/ca"))
ACCEPTABLE = (CLUSTER_NAME, KUBERNETES_VERSION, CA, ENDPOINT)


@dataclass(frozen=True)
class Refusal:
    """Why an archive is not restored, in one sentence; one that is not ``acceptable`` can't be accepted."""

    kind: str
    why: str
    acceptable: bool = True

    def __str__(self) -> str:
        return f"{self.why}{f' (-e restore_accept={self.kind} accepts this)' if self.acceptable else ''}."


@dataclass(frozen=True)
class Target:
    """Where an archive is to be restored, and what the inventory says of the cluster.

    ``nodes`` are the hashes of the CAs that each other host trusts, empty for a host that is not a node; ``own`` are
    those of this host. ``endpoints`` are the hosts at which the API is reached, according to the archive and the nodes.
    ``addresses`` are those of this host and the names of the API.
    """

    cluster: str
    kubernetes: str
    nodes: Mapping[str, Collection[str]] = field(default_factory=dict)
    own: Collection[str] = ()
    endpoints: Collection[str] = ()
    addresses: Collection[str] = ()
    control_planes: Collection[str] = ()


def refusals(manifest: Manifest, target: Target, accepted: Collection[str] = ()) -> list[Refusal]:
    """Return why an archive is not restored, without what was accepted. Empty if it may be."""
    found = []
    # Clusters of earlier releases have no name of their own.
    if manifest.cluster != target.cluster and _NAMED in manifest.parts:
        found.append(
            Refusal(
                CLUSTER_NAME,
                f"The archive is of the cluster {manifest.cluster}, and this one is {target.cluster}: if only the "
                f"inventory was renamed, set cluster_name to {manifest.cluster}",
            )
        )
    if _minor(manifest.kubernetes) != _minor(target.kubernetes):
        found.append(
            Refusal(
                KUBERNETES_VERSION,
                f"The archive is of Kubernetes {manifest.kubernetes}, and {target.kubernetes} would be installed: set "
                "cluster_kubernetes_version to a version of the same minor",
            )
        )
    strangers = [host for host, hashes in target.nodes.items() if hashes and manifest.ca not in hashes]
    if strangers:
        found.append(
            Refusal(
                CA,
                f"The archive has another CA than {listing(strangers)}, so the kubelets there would not return to the "
                "restored cluster",
            )
        )
    if target.own and manifest.ca not in target.own:
        found.append(Refusal(CA, "The archive has another CA than this host, whose cluster would end"))
    elsewhere = sorted({each for each in target.endpoints if each} - {*target.addresses})
    if elsewhere:
        found.append(
            Refusal(
                ENDPOINT,
                f"The nodes reach the API at {listing(elsewhere)}, which is neither an address of this host nor the "
                "API's name: give the host this address, or set cluster_name or cluster_api_name as they were",
            )
        )
    lacking = [name for name in _KEYS if name not in manifest.parts]
    if lacking:
        found.append(
            Refusal(
                "keys",
                f"The archive lacks {listing(lacking)}, without which kubeadm can't create certificates: restore by "
                "hand, with the CA's key from where it is kept",
                acceptable=False,
            )
        )
    if len(target.control_planes) > 1:
        found.append(
            Refusal(
                "control_planes",
                f"The inventory has several control planes ({listing(target.control_planes)}): leave only the one that "
                "is restored in it, and join the others again afterwards",
                acceptable=False,
            )
        )
    return [each for each in found if not each.acceptable or each.kind not in accepted]


def _minor(version: str) -> tuple[str, ...]:
    return tuple(version.lstrip("v").split(".")[:2])
