# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide from evidence what ``kubeadm init`` may do on a host. Pure functions.

A cluster that others could join (its cluster-info was published) or that held workloads is never initialized again and
never reset, however unhealthy it is.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from .damage import FILES, KUBELET_CERTIFICATE, KUBELET_CONF, PKI, SIGNERS, with_companions

# What the API showed about this cluster.
UNASKED, SILENT, REFUSED, BARREN, ALIVE = "unasked", "silent", "refused", "barren", "alive"
# What the etcd data contain. Also BARREN (an API server's writes, no published cluster) and ALIVE (a cluster in use).
# UNUSED is a published cluster with one node and nothing that kubeadm did not make.
ABSENT, UNUSED, UNREADABLE = "absent", "unused", "unreadable"

INIT, FINISHED, RESUME, CLEAN, REFUSE = "init", "finished", "resume", "clean", "refuse"

_ILL = (
    "This control plane was initialized once but does not answer now; it is not changed, and is never initialized "
    "again or reset. Check: systemctl status kubelet containerd; journalctl -u kubelet; crictl ps -a; kubeadm certs "
    "check-expiration (if certificates have expired, run the playbook gpulab.kubernetes.renew_certificates); df -h "
    "/var/lib/etcd. If the data of etcd are lost or damaged, restore a backup (docs/restore.md). Only if you want to "
    "lose this cluster: kubeadm reset."
)

_ASIDE = "/root/damaged"
# The phases of kubeadm init that make files again, in their order.
_PHASES = {
    "certs all": f"{PKI}/*",
    "kubeconfig all": "/etc/kubernetes/*.conf",
    "etcd local": "/etc/kubernetes/manifests/etcd.yaml",
    "control-plane all": "/etc/kubernetes/manifests/kube-*.yaml",
    "kubelet-start": "/var/lib/kubelet/config.yaml",
}


@dataclass(frozen=True)
class Evidence:
    """Evidence found on a host.

    ``manifests`` names kubeadm's static pods. ``kubelet_final``: kubelet.conf refers to the kubelet's own certificate,
    which kubeadm sets near the end of init, after it has published the cluster. ``kubelet_certificate``: the kubelet
    has a certificate, or a link to one. ``began``: this module began an init that it has not seen finish. ``etcd``:
    ``absent``, ``barren``, ``unused``, ``alive``, ``unreadable``, or ``unasked`` (there are data, but the API's answer
    was sufficient). ``complete``: the API lists workloads, so the addons were installed. ``used``: the API may have
    objects that kubeadm did not make. ``damaged``: files that are empty or cut off. ``missing``: files that kubeadm
    makes, without the keys of CAs. ``restoring``: a restore of a backup was interrupted.
    """

    admin_conf: bool = False
    kubelet_conf: bool = False
    bootstrap_conf: bool = False
    kubelet_final: bool = False
    kubelet_certificate: bool = False
    manifests: tuple[str, ...] = ()
    ca_key: bool = False
    began: bool = False
    etcd: str = ABSENT
    etcd_local: bool = True
    api: str = UNASKED
    api_message: str = ""
    complete: bool = True
    used: bool = True
    damaged: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    restoring: bool = False

    @property
    def control_plane(self) -> bool:
        """Return whether any part of a control plane exists, other than a CA that was provided beforehand."""
        return bool(self.manifests or self.etcd != ABSENT or self.began or (self.ca_key and self.admin_conf))

    @property
    def incomplete(self) -> tuple[str, ...]:
        """Return the files that are damaged or missing."""
        return tuple(sorted({*self.damaged, *self.missing}))

    @property
    def remade(self) -> tuple[str, ...]:
        """Return the incomplete files that kubeadm can make again while the cluster runs that nothing has used."""
        return () if self.used or set(self.incomplete) & set(SIGNERS) else self.incomplete


@dataclass(frozen=True)
class Verdict:
    """``action`` is ``init``, ``finished``, ``resume``, ``clean`` (then init) or ``refuse``; ``reason`` explains it."""

    action: str
    reason: str
    advice: str = ""


def decide(found: Evidence) -> Verdict:
    """Apply the decision table that kubeadm_init documents."""
    if found.restoring:
        return Verdict(
            REFUSE,
            "a restore of a backup was interrupted on this host",
            "Run the playbook gpulab.kubernetes.restore again with the same archive (docs/restore.md).",
        )
    if not found.control_plane:
        return _without_control_plane(found)
    if found.api == ALIVE:
        return _with_api(found)
    if found.api == BARREN and found.etcd not in (UNUSED, ALIVE, UNREADABLE) and not found.kubelet_final:
        return Verdict(CLEAN, "the API answers, but the cluster was never published and has no workloads")
    if found.api == BARREN:
        return Verdict(REFUSE, "the API shows an empty cluster, but this host shows that it was published", _ILL)
    if found.api == REFUSED:
        return Verdict(REFUSE, found.api_message, _ILL)
    return _without_api(found)


def _with_api(found: Evidence) -> Verdict:
    if found.began and not found.complete:
        unfinished = "an init that began here published the cluster, but never installed its addons"
        if set(found.damaged) - set(found.remade):
            advice = f"Nothing was changed. {repair(found.damaged, found.missing)}"
            return Verdict(REFUSE, f"{unfinished}, and {_damage(found)}", advice)
        return Verdict(RESUME, unfinished)
    if found.began and found.remade:
        return Verdict(RESUME, f"an init that began here published the cluster, but {_damage(found)}")
    return Verdict(FINISHED, "the API answers and the cluster was published")


def _without_control_plane(found: Evidence) -> Verdict:
    if found.kubelet_conf or found.bootstrap_conf:
        return Verdict(
            REFUSE,
            "this host is a worker of a cluster (there is a kubelet configuration, but no part of a control plane)",
            "Choose another host for the control plane, or remove this host from its cluster (kubectl drain, kubectl "
            "delete node) and run kubeadm reset on it.",
        )
    if found.admin_conf:
        return Verdict(
            REFUSE,
            "there is an admin.conf, but no part of a control plane: it seems to belong to another cluster",
            "If this host should become a control plane, move /etc/kubernetes/admin.conf to another directory.",
        )
    if any(path.startswith(f"{PKI}/") for path in found.damaged):
        return Verdict(
            REFUSE,
            f"{_damage(found)}, and no init began here",
            f"If {PKI} has a CA that you brought, restore it. Otherwise run: mv {PKI} /root/",
        )
    return Verdict(INIT, "there is no part of a control plane on this host")


def _without_api(found: Evidence) -> Verdict:
    silent = found.api_message or "the API server can't be queried"
    if found.damaged:
        silent += f", {_damage(found)}"
    ill = f"{_ILL} {repair(found.damaged, found.missing)}".rstrip()
    # The last step of an init makes the kubelet use its certificate. If it is damaged, the init was interrupted.
    finished = found.kubelet_final and KUBELET_CERTIFICATE not in found.incomplete
    if found.etcd == UNUSED and found.began and found.incomplete and not finished:
        return Verdict(CLEAN, f"{silent}, and nothing but kubeadm has used the cluster of an init that began here")
    if found.etcd in (UNUSED, ALIVE):
        return Verdict(REFUSE, f"{silent}, and etcd's data contains a published cluster", ill)
    if found.etcd in (UNREADABLE, UNASKED):
        why = (
            "its database is missing or empty, its keys are not in /registry, or etcd.yaml, which names it, is damaged"
        )
        return Verdict(REFUSE, f"{silent}, and etcd's data can't be read ({why})", ill)
    if found.etcd == BARREN and found.kubelet_final:
        return Verdict(REFUSE, f"{silent}, but the kubelet was set up completely; etcd's data is not", ill)
    if found.etcd == BARREN:
        return Verdict(CLEAN, f"{silent}, and etcd's data contains no published cluster")
    if found.kubelet_final or (KUBELET_CONF in found.damaged and _kubelet_ran(found)):
        return Verdict(REFUSE, f"{silent}, but the kubelet was set up completely; etcd's data is missing", ill)
    if not found.etcd_local:
        return Verdict(REFUSE, f"{silent}, and its etcd is on other hosts, which this module does not check", ill)
    if found.began:
        return Verdict(CLEAN, f"{silent}, there is no etcd data, and an init that began here was never finished")
    if not found.kubelet_certificate:
        return Verdict(CLEAN, f"{silent}, there is no etcd data, and the kubelet never got a certificate")
    return Verdict(
        REFUSE,
        f"{silent}, and there is no etcd data, although the kubelet was running",
        ill + " If its init was interrupted and never finished, run kubeadm reset.",
    )


def _kubelet_ran(found: Evidence) -> bool:
    """Return whether the kubelet's certificate is whole."""
    return found.kubelet_certificate and KUBELET_CERTIFICATE not in found.damaged


def _damage(found: Evidence) -> str:
    if not found.damaged:
        return f"files are missing ({', '.join(found.missing)})"
    return f"files are empty or cut off, as after a power failure ({', '.join(found.damaged)})"


def repair(damaged: Sequence[str], missing: Sequence[str] = ()) -> str:
    """Return what a person does about damaged and missing files of a control plane, with commands; empty if none."""
    # The host may have reported anything.
    known = [path for path in FILES if path in {*damaged, *missing}]
    signers = [path for path in known if path in SIGNERS]
    others = with_companions(path for path in known if path not in SIGNERS)
    moved = " ".join(path for path in others if path not in missing)
    move = f"mkdir -p {_ASIDE}; mv --backup=numbered --target-directory={_ASIDE} {moved}; " if moved else ""
    steps = []
    if signers:
        steps.append(
            f"Restore {', '.join(signers)} from a backup or another control plane of the cluster, never let kubeadm "
            "make new ones: all nodes and tokens would become invalid."
        )
    if others:
        phases = [phase for phase, pattern in _PHASES.items() if fnmatch.filter(others, pattern)]
        steps.append(
            f"Restore {', '.join(others)} from a backup, or let kubeadm make them again, with FILE as the "
            "InitConfiguration and ClusterConfiguration of this cluster (while the API answers: kubectl -n kube-system "
            "get configmap kubeadm-config -o jsonpath='{.data.ClusterConfiguration}'): "
            + move
            + "".join(f"kubeadm init phase {phase} --config FILE; " for phase in phases)
            + "systemctl restart kubelet"
        )
    return " ".join(steps)
