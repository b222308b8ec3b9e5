# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide from evidence whether a host joins a cluster. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .damage import KUBELET_CONF, PKI

# What the API returned about this host's node.
UNASKED, KNOWN, DELETED, REFUSED, SILENT = "unasked", "known", "deleted", "refused", "silent"

JOIN, JOINED, CLEAN, REFUSE = "join", "joined", "clean", "refuse"

_RESET = (
    "To remove this host from it manually: kubectl drain and kubectl delete node in that cluster, then kubeadm reset "
    "on this host."
)
RESTORE_CA = (
    f"Restore {PKI}/ca.crt from another node of its cluster. If the host should join again instead, run kubectl delete "
    "node in its cluster and kubeadm reset on the host."
)


@dataclass(frozen=True)
class Evidence:
    """Evidence. ``leftovers`` are files of an interrupted join that make kubeadm fail, ``node`` the registered name.

    ``damaged`` are files of a worker that are empty, cut off or missing; ``kubelet_conf`` is false if it is one of
    them. ``ca_cert_hashes`` are those of an interrupted join if no file shows the cluster. ``admin_conf`` may be a
    copy on a worker; ``control_plane``: there is another part of a control plane. ``recorded``: this module began a
    join that it has not seen finish, ``joining``: one that makes the host a control plane of its cluster;
    ``marked``: its node is marked as a control plane, which is kubeadm's last step. ``restoring``: a restore of a
    backup was interrupted.
    """

    kubelet_conf: bool = False
    bootstrap_conf: bool = False
    admin_conf: bool = False
    control_plane: bool = False
    leftovers: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    kubelet_runs: bool = False
    server: str = ""
    ca_cert_hashes: tuple[str, ...] = ()
    node: str | None = None
    recorded: bool = False
    joining: bool = False
    restoring: bool = False
    marked: bool = False
    api: str = UNASKED
    api_message: str = ""


@dataclass(frozen=True)
class Verdict:
    """``action`` is ``join``, ``joined``, ``clean`` (remove leftovers, then join) or ``refuse``."""

    action: str
    reason: str
    advice: str = ""
    warnings: list[str] = field(default_factory=list)


def belongs_elsewhere(found: Evidence, ca_cert_hashes: Sequence[str]) -> bool:
    """Return whether this host is in a cluster with another CA than the wanted one."""
    wanted = {value.lower() for value in ca_cert_hashes}
    return bool(wanted and found.ca_cert_hashes and not wanted & set(found.ca_cert_hashes))


def decide(found: Evidence, ca_cert_hashes: Sequence[str]) -> Verdict:
    """Apply the decision table that kubeadm_join documents."""
    if found.damaged and not found.control_plane:
        return _damaged(found, ca_cert_hashes)
    if found.kubelet_conf:
        return _member(found, ca_cert_hashes)
    if found.control_plane or found.admin_conf:
        return Verdict(
            REFUSE,
            "there are parts of a control plane on this host, but it does not belong to a cluster",
            "Finish it with kubeadm_init, or remove it with kubeadm reset if this host should be a worker.",
        )
    if found.leftovers:
        return Verdict(CLEAN, f"an earlier join was interrupted and left {', '.join(found.leftovers)}")
    return Verdict(JOIN, "this host does not belong to a cluster")


def decide_control_plane(found: Evidence, ca_cert_hashes: Sequence[str]) -> Verdict:
    """Apply the decision table for a host that becomes a control plane next to others."""
    if found.restoring:
        again = "Run the playbook gpulab.kubernetes.restore again with the same archive (docs/restore.md)."
        return Verdict(REFUSE, "a restore of a backup was interrupted on this host", again)
    if belongs_elsewhere(found, ca_cert_hashes):
        whose = f"whose CA is {' or '.join(found.ca_cert_hashes)}"
        return Verdict(REFUSE, f"this host belongs to another cluster than the wanted one, {whose}", _RESET)
    present = found.control_plane or found.admin_conf
    complete = found.kubelet_conf and found.control_plane and found.admin_conf and not found.damaged
    if complete and found.marked:
        return Verdict(JOINED, f"this host is the control plane {found.node} of the cluster")
    if found.joining and complete and found.api == SILENT:
        return Verdict(
            REFUSE,
            f"whether an earlier join of this control plane has finished could not be determined: {found.api_message}",
            "Nothing was changed. When the API server answers, run again.",
        )
    if found.joining:
        return Verdict(CLEAN, "an earlier join of this control plane was interrupted")
    if present:
        return Verdict(
            REFUSE,
            "there are parts of a control plane on this host, which is not a working control plane of the cluster"
            + (f" ({', '.join(found.damaged)} empty, cut off or missing)" if found.damaged else ""),
            "Repair it (docs/troubleshooting.md), or reset it with the playbook gpulab.kubernetes.remove_node, and run "
            "again.",
        )
    if found.kubelet_conf:
        return Verdict(
            REFUSE,
            "this host is a worker of the cluster",
            "Remove it from the cluster with the playbook gpulab.kubernetes.remove_node, and run again.",
        )
    if found.leftovers or found.damaged:
        left = ", ".join((*found.leftovers, *found.damaged))
        return Verdict(CLEAN, f"an earlier join was interrupted and left {left}")
    return Verdict(JOIN, "this host does not belong to a cluster")


def _damaged(found: Evidence, ca_cert_hashes: Sequence[str]) -> Verdict:
    damage = f"files are empty, cut off or missing, as after a power failure ({', '.join(found.damaged)})"
    if belongs_elsewhere(found, ca_cert_hashes):
        return Verdict(REFUSE, f"this host belongs to another cluster than the wanted one, and {damage}", _RESET)
    if KUBELET_CONF in found.damaged and not found.ca_cert_hashes:
        return Verdict(
            REFUSE,
            f"nothing shows which cluster this host belongs to: {damage}",
            RESTORE_CA,
        )
    if found.api == DELETED:
        return Verdict(
            REFUSE,
            f"the cluster at {found.server} has no node {found.node}, and the kubelet of this host can't start with "
            f"its files: {damage}",
            "If this host should join again, run kubeadm reset on it first.",
        )
    member = _member(found, ca_cert_hashes) if found.kubelet_conf else Verdict(JOINED, "the kubelet of this host runs")
    if member.action == REFUSE:
        return member
    # A kubelet without kubelet.conf has never joined.
    if found.kubelet_runs and (found.kubelet_conf or KUBELET_CONF in found.damaged):
        restart = f"The kubelet is running, but it can't start again: {damage}"
        return replace(member, warnings=[*member.warnings, restart])
    if found.api == SILENT:
        return Verdict(
            REFUSE,
            f"the kubelet of this host can't start: {damage}. Whether node {found.node} still exists in the cluster at "
            f"{found.server} could not be determined: {found.api_message}",
            "Nothing was changed. When the API server answers, run again: the host then joins again.",
        )
    return Verdict(CLEAN, f"the kubelet of this host can't start: {damage}")


def _member(found: Evidence, ca_cert_hashes: Sequence[str]) -> Verdict:
    cluster = f"the cluster at {found.server}"
    if belongs_elsewhere(found, ca_cert_hashes):
        return Verdict(
            REFUSE,
            f"this host belongs to another cluster, {cluster}, whose CA is {' or '.join(found.ca_cert_hashes)}; the "
            f"CA of the wanted cluster is {' or '.join(ca_cert_hashes)}",
            _RESET,
        )
    name = found.node or "unknown"
    if found.api == DELETED:
        return Verdict(
            REFUSE,
            f"this host once joined {cluster} as node {name}, and the node was deleted there",
            "If that was a mistake, systemctl restart kubelet brings the node back. If this host should join again, "
            "run kubeadm reset on it first.",
        )
    if found.api == REFUSED:
        return Verdict(
            REFUSE,
            f"this host once joined {cluster} as node {name}, but the cluster now refuses it: {found.api_message}",
            "Its certificate may have expired or been revoked (journalctl -u kubelet; openssl x509 -noout -dates -in "
            "/var/lib/kubelet/pki/kubelet-client-current.pem). If it has expired, run the playbook "
            "gpulab.kubernetes.renew_certificates, which replaces it. Otherwise, run kubeadm reset on this host, which "
            "can then join again.",
        )
    if found.api == KNOWN:
        return Verdict(JOINED, f"this host is node {name} of {cluster}")
    doubt = found.api_message or "the certificate of the kubelet could not be read"
    return Verdict(
        JOINED,
        f"this host is a node of {cluster}",
        warnings=[f"Whether node {name} still exists in {cluster} could not be determined: {doubt}"],
    )
