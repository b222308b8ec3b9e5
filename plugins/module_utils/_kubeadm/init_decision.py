# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides from evidence what C(kubeadm init) may do on a host. Pure: evidence in, verdict out.

The line that is never crossed: once a cluster let others join (its cluster-info was published) or held
workloads, it is never initialized again and never reset, however unhealthy it is.
"""

from __future__ import annotations

from dataclasses import dataclass

# Answers of the API to the question whether this cluster ever came alive.
UNASKED, SILENT, REFUSED, BARREN, ALIVE = "unasked", "silent", "refused", "barren", "alive"
# What the files of etcd hold: nothing, writes of an API server but none of a finished init, those of one.
ABSENT, UNREADABLE = "absent", "unreadable"

INIT, FINISHED, RESUME, CLEAN, REFUSE = "init", "finished", "resume", "clean", "refuse"

_ILL = (
    "This control plane was initialized once but does not answer now; it is not changed, and is never initialized "
    "again or reset. Check: systemctl status kubelet containerd; journalctl -u kubelet; crictl ps -a; kubeadm certs "
    "check-expiration; df -h /var/lib/etcd. Only if you want to lose this cluster: kubeadm reset."
)


@dataclass(frozen=True)
class Evidence:
    """What was found on a host.

    ``manifests`` names the static pods of kubeadm. ``kubelet_final``: kubelet.conf points to the kubelet's own
    certificate, which kubeadm arranges near the end of init. ``kubelet_certificate``: the kubelet has one.
    ``began``: this module began an init here that it has not seen the end of.
    ``etcd``: C(absent), C(barren), C(alive), C(unreadable), or C(unasked) (there are data, and the API told enough).
    ``complete``: the API holds workloads, so the addons were installed.
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

    @property
    def control_plane(self) -> bool:
        """Whether there is anything of a control plane, other than a CA that was put here beforehand."""
        return bool(self.manifests or self.etcd != ABSENT or self.began or (self.ca_key and self.admin_conf))


@dataclass(frozen=True)
class Verdict:
    """``action``: C(init), C(finished), C(resume), C(clean) (then init), C(refuse). ``reason`` says why, in words."""

    action: str
    reason: str
    advice: str = ""


def decide(found: Evidence) -> Verdict:
    """The decision table; kubeadm_init documents it."""
    if not found.control_plane:
        return _without_control_plane(found)
    if found.api == ALIVE:
        if found.began and not found.complete:
            return Verdict(RESUME, "an init that began here published the cluster, but never installed its addons")
        return Verdict(FINISHED, "the API answers and the cluster was published")
    if found.api == BARREN and found.etcd not in (ALIVE, UNREADABLE):
        return Verdict(CLEAN, "the API answers, but the cluster was never published and has no workloads")
    if found.api == BARREN:
        return Verdict(REFUSE, "the API shows an empty cluster, but etcd's data contains a published cluster", _ILL)
    if found.api == REFUSED:
        return Verdict(REFUSE, found.api_message, _ILL)
    return _without_api(found)


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
    return Verdict(INIT, "there is no part of a control plane on this host")


def _without_api(found: Evidence) -> Verdict:
    silent = found.api_message or "the API server can't be queried"
    if found.etcd == ALIVE:
        return Verdict(REFUSE, f"{silent}, and etcd's data contains a published cluster", _ILL)
    if found.etcd in (UNREADABLE, UNASKED):
        return Verdict(REFUSE, f"{silent}, and etcd's data can't be read", _ILL)
    if found.etcd == BARREN:
        return Verdict(CLEAN, f"{silent}, and etcd's data contains no published cluster")
    if found.kubelet_final:
        return Verdict(REFUSE, f"{silent}, but the kubelet was set up completely; etcd's data is missing", _ILL)
    if not found.etcd_local:
        return Verdict(REFUSE, f"{silent}, and its etcd is on other hosts, which this module does not check", _ILL)
    if found.began:
        return Verdict(CLEAN, f"{silent}, there is no etcd data, and an init that began here was never finished")
    if not found.kubelet_certificate:
        return Verdict(CLEAN, f"{silent}, there is no etcd data, and the kubelet never got a certificate")
    return Verdict(
        REFUSE,
        f"{silent}, and there is no etcd data, although the kubelet was running",
        _ILL + " If its init was interrupted and never finished, run kubeadm reset.",
    )
