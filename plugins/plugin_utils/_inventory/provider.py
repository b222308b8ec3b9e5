# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the cluster of a run: kubeadm's, or the machine that runs minikube. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ...module_utils._words import listing

_KUBEADM, _MINIKUBE = "kubeadm", "minikube"
_BOTH = "Set -e cluster_provider=kubeadm or -e cluster_provider=minikube"


@dataclass(frozen=True)
class Choice:
    """The chosen cluster; ``host`` is minikube's, empty for kubeadm. ``problem`` says what to do, or is empty."""

    host: str = ""
    problem: str = ""


def choose_cluster(setting: str, kubeadm: Sequence[str], minikube: Sequence[str], run: Collection[str]) -> Choice:
    """Choose a cluster. ``kubeadm`` and ``minikube`` are the hosts of the groups, ``run`` those of this run.

    ``setting`` has several values with commas if hosts differ.
    """
    if "," in setting:
        return Choice(problem=f"cluster_provider differs between hosts ({setting:.60}). {_BOTH}.")
    if setting not in ("auto", _KUBEADM, _MINIKUBE):
        return Choice(problem=f"cluster_provider is {setting!r:.60}, which is not valid. {_BOTH}, or leave it out.")
    if setting == "auto" and kubeadm and minikube:
        return Choice(
            problem=f"the inventory has a cluster of kubeadm ({listing(kubeadm)}) and a machine for minikube "
            f"({listing(minikube)}). {_BOTH}."
        )
    if setting == _KUBEADM or (setting == "auto" and not minikube):
        return Choice()
    if not minikube:
        return Choice(
            problem="the group minikube has no hosts. Put the machine into it, or leave cluster_provider out."
        )
    hosts = [host for host in minikube if host in run]
    if not hosts:
        return Choice(problem=f"the machine for minikube ({listing(minikube)}) is not in this run. Check --limit.")
    if len(hosts) > 1:
        return Choice(problem=f"each of {listing(hosts)} is a cluster of its own. Choose one: -l HOST.")
    return Choice(hosts[0])
