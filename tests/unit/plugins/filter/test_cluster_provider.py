# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which cluster of an inventory a playbook works on."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.cluster_provider import cluster_provider


@pytest.mark.parametrize(
    ("setting", "kubeadm", "minikube", "run", "name", "host", "problem"),
    [
        ("auto", ["cp1", "gpu1"], [], ["cp1", "gpu1"], "kubeadm", "", ""),
        ("auto", [], ["box"], ["box", "nfs"], "minikube", "box", ""),
        ("auto", ["box"], ["box"], ["box"], "kubeadm", "", "Set -e cluster_provider=kubeadm or"),
        ("auto", [], [], ["x"], "kubeadm", "", ""),
        ("auto", ["cp1"], ["box"], ["cp1", "box"], "kubeadm", "", "Set -e cluster_provider=kubeadm or"),
        ("kubeadm", ["cp1"], ["box"], ["cp1", "box"], "kubeadm", "", ""),
        ("minikube", ["cp1"], ["box"], ["cp1", "box"], "minikube", "box", ""),
        ("minikube", ["cp1"], [], ["cp1"], "kubeadm", "", "the group minikube has no hosts"),
        ("auto", [], ["a", "b"], ["a", "b"], "kubeadm", "", "Choose one: -l HOST"),
        ("auto", [], ["a", "b"], ["b"], "minikube", "b", ""),
        ("auto", [], ["a"], ["c"], "kubeadm", "", "the machine for minikube (a) is not in this run. Check --limit"),
        ("minikube", ["cp1"], ["box"], ["cp1"], "kubeadm", "", "the machine for minikube (box) is not in this run"),
        ("k3s", ["cp1"], [], ["cp1"], "kubeadm", "", "cluster_provider is 'k3s', which is not valid"),
    ],
)
def test_choice(
    setting: str, kubeadm: list[str], minikube: list[str], run: list[str], name: str, host: str, problem: str
) -> None:
    found = cluster_provider(setting, kubeadm, minikube, run)
    assert (found["name"], found["host"]) == (name, host)
    assert problem in found["problem"] if problem else found["problem"] == ""
