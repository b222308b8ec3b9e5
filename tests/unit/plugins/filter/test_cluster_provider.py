# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choice of the cluster on which a playbook works."""

from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.inventory import cluster_provider


@pytest.mark.parametrize(
    ("setting", "kubeadm", "minikube", "run", "host", "problem"),
    [
        ("auto", ["cp1", "gpu1"], [], ["cp1", "gpu1"], "", ""),
        ("auto", [], ["box"], ["box", "nfs"], "box", ""),
        ("auto", ["box"], ["box"], ["box"], "", "Set -e cluster_provider=kubeadm or"),
        ("auto", [], [], ["x"], "", ""),
        ("auto", ["cp1"], ["box"], ["cp1", "box"], "", "Set -e cluster_provider=kubeadm or"),
        ("kubeadm", ["cp1"], ["box"], ["cp1", "box"], "", ""),
        ("minikube", ["cp1"], ["box"], ["cp1", "box"], "box", ""),
        ("minikube", ["cp1"], [], ["cp1"], "", "the group minikube has no hosts"),
        ("auto", [], ["a", "b"], ["a", "b"], "", "Choose one: -l HOST"),
        ("auto", [], ["a", "b"], ["b"], "b", ""),
        ("auto", [], ["a"], ["c"], "", "the machine for minikube (a) is not in this run. Check --limit"),
        ("minikube", ["cp1"], ["box"], ["cp1"], "", "the machine for minikube (box) is not in this run"),
        ("auto, minikube", ["cp1"], ["box"], ["cp1"], "", "differs between hosts (auto, minikube). Set -e"),
        ("k3s", ["cp1"], [], ["cp1"], "", "cluster_provider is 'k3s', which is not valid"),
    ],
)
def test_provider_follows_from_setting_groups_and_limit(
    setting: str, kubeadm: list[str], minikube: list[str], run: list[str], host: str, problem: str
) -> None:
    found = cluster_provider(setting, kubeadm, minikube, run)
    assert found["host"] == host
    assert problem in found["problem"] if problem else found["problem"] == ""
