# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.files import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._resolver import usable

choose = FilterModule().filters()["kubelet_settings"]
RESOLVED, USUAL = "/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"
PERIODS = {"shutdownGracePeriod": "120s", "shutdownGracePeriodCriticalPods": "20s"}


@pytest.mark.parametrize(
    ("active", "kubelet", "finished", "wanted", "shared", "path"),
    [
        (True, None, False, "", None, RESOLVED),
        (False, None, False, "", None, USUAL),
        # The host's setting overrides the shared setting, which overrides the detected file.
        (True, None, False, "/etc/kubernetes/resolv.conf", None, "/etc/kubernetes/resolv.conf"),
        (True, None, False, "", USUAL, USUAL),
        (True, None, False, "/a", "/b", "/a"),
        (True, None, False, "", "", ""),
        # A running kubelet keeps its file, even if the host's resolver has changed.
        (True, USUAL, True, "", None, USUAL),
        (False, RESOLVED, True, "/a", "/b", RESOLVED),
        (True, None, True, "", None, RESOLVED),
        # After an interrupted join, the kubelet's configuration is written again.
        (False, RESOLVED, False, "", None, USUAL),
    ],
)
def test_resolv_conf_follows_from_settings_and_resolver(
    active: bool, kubelet: str | None, finished: bool, wanted: str, shared: str | None, path: str
) -> None:
    host = {
        "resolver": {"systemd_resolved": active, "kubelet": kubelet},
        "cluster": {"finished": finished},
        "gpus": [],
    }
    fields = {} if shared is None else {"resolvConf": shared}
    assert choose(host, wanted, 120, 20, fields) == {"resolvConf": path}


@pytest.mark.parametrize(
    ("gpus", "seconds", "shared", "periods"),
    [
        (1, (120, 20), {}, PERIODS),
        (1, (120, 0), {"maxPods": 50}, {"shutdownGracePeriod": "120s", "shutdownGracePeriodCriticalPods": "0s"}),
        (0, (120, 20), {}, {}),
        (1, (0, 20), {}, {}),
        # The kubelet does not start with both forms, and a field that a user has set for all nodes counts.
        (1, (120, 20), {"shutdownGracePeriodByPodPriority": [{"priority": 0}]}, {}),
        (1, (120, 20), {"shutdownGracePeriod": "5m"}, {}),
        # It does not start with periods without the feature either.
        (1, (120, 20), {"featureGates": {"GracefulNodeShutdown": False}}, {}),
        (1, (120, 20), {"featureGates": {"AllBeta": False}}, {}),
        (1, (120, 20), {"featureGates": {"AllBeta": False, "GracefulNodeShutdown": True}}, PERIODS),
        (1, (120, 20), {"featureGates": None}, PERIODS),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_shutdown_periods_are_set_on_hosts_with_gpus(
    gpus: int, seconds: tuple[int, int], shared: dict[str, Any], periods: dict[str, str], finished: bool
) -> None:
    """A host keeps them once it has joined, so that a second run changes nothing."""
    resolver = {"systemd_resolved": False, "kubelet": None}
    host = {"resolver": resolver, "cluster": {"finished": finished}, "gpus": [{"address": "1"}] * gpus}
    found = choose(host, "", *seconds, shared)
    assert found.pop("resolvConf") and found == periods


@pytest.mark.parametrize(
    ("present", "periods"),
    [
        ({}, PERIODS),
        # As kubeadm writes what the role has set.
        ({"shutdownGracePeriod": "2m0s", "shutdownGracePeriodCriticalPods": "20s"}, PERIODS),
        ({"shutdownGracePeriod": "30m", "shutdownGracePeriodCriticalPods": "20s"}, {}),
        ({"shutdownGracePeriod": "2m0s"}, {}),
        ({"shutdownGracePeriod": "1.5h", "shutdownGracePeriodCriticalPods": "20s"}, {}),
        ({"shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 9}]}, {}),
        # As kubeadm writes a kubelet without periods.
        ({"shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s"}, PERIODS),
    ],
)
def test_periods_that_were_changed_on_a_node_remain(present: dict[str, Any], periods: dict[str, str]) -> None:
    resolver = {"systemd_resolved": False, "kubelet": None}
    # A host may have written anything.
    configuration: dict[Any, Any] = {"kind": "KubeletConfiguration", 1: "x", **present}
    cluster = {"finished": True, "kubelet_configuration": yaml.safe_dump(configuration)}
    host = {"resolver": resolver, "cluster": cluster, "gpus": [{"address": "1"}]}
    found = choose(host, "", 120, 20)
    assert found.pop("resolvConf") and found == periods
    # A host that joins has no periods yet, whatever an interrupted join has left.
    cluster["finished"] = False
    assert set(choose(host, "", 120, 20)) > set(PERIODS)


@pytest.mark.parametrize(("gates", "periods"), [("X=true,GracefulNodeShutdown=false", {}), ("X=false", PERIODS)])
def test_gates_on_the_command_line_of_the_kubelet_count(gates: str, periods: dict[str, str]) -> None:
    resolver = {"systemd_resolved": False, "kubelet": None}
    host = {"resolver": resolver, "cluster": {"finished": False}, "gpus": [{"address": "1"}]}
    found = choose(host, "", 120, 20, {"featureGates": {"GracefulNodeShutdown": True}}, {"feature-gates": gates})
    assert found.pop("resolvConf") and found == periods


def test_unread_host_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"choosing a host's settings of the kubelet"):
        choose({})


def test_loopback_addresses_are_not_usable_in_pods() -> None:
    assert usable(["127.0.0.53", "::1", "127.0.1.1", "nonsense"]) == []
    assert usable(["127.0.0.53", "10.0.0.2", "fe80::1%eth0"]) == ["10.0.0.2", "fe80::1%eth0"]
