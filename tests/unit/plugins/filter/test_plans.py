# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import (
    cluster_plan,
    host_plan,
    host_states,
    plan_lines,
    plan_summary,
    select_enabled,
)
from ansible_collections.gpulab.kubernetes.plugins.filter.sharing import device_plugin_rollouts
from support.programs import run_ansible

ALL = ["host", "containerd", "nvidia_driver", "nvidia_container_toolkit"]
UNREAD = {role: ["everything, since the host could not be read"] for role in ALL}


def reading(**changed: bool) -> dict[str, Any]:
    """Return a result of host_state from whether each state changes; ``__`` in a name stands for ``/``."""
    states = {name.replace("__", "/"): {"changed": value} for name, value in changed.items()}
    return {"changed": any(changed.values()), "states": states}


class Lazy(dict[str, Any]):
    """Dict with values that fail when they are read, like Ansible's templates with undefined variables."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        assert value != "fails", f"{key} was read"
        return value


def test_states_are_named_after_their_roles() -> None:
    roles: dict[str, list[dict[str, Any]]] = {
        "kubeadm": [{"name": "kubelet", "module": "managed_service", "args": {"name": "kubelet"}}],
        "host": [{"name": "swap", "module": "swap", "when": True}],
    }
    assert host_states(roles, ["host", "kubeadm"]) == [
        {"name": "host/swap", "module": "swap", "args": {}},
        {"name": "kubeadm/kubelet", "module": "managed_service", "args": {"name": "kubelet"}},
    ]


@pytest.mark.parametrize("when", [False, "False", "false"])
def test_unselected_states_are_not_evaluated(when: bool | str) -> None:
    states = Lazy(host=[Lazy(name="swap", module="swap", when=when, args="fails")], containerd="fails")
    assert host_states(states, ["host"]) == []
    assert select_enabled([states["host"][0], {"name": "b", "when": True}, {"name": "c"}]) == [
        {"name": "b"},
        {"name": "c"},
    ]
    assert select_enabled({"a": states["host"][0], "b": {"when": "true", "c": 1}}) == {"b": {"c": 1}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (reading(host__swap=False, containerd__packages=False), {}),
        (reading(host__swap=True, containerd__packages=False), {"host": ["swap"]}),
        # CDI requires a driver that responds.
        (
            reading(nvidia_container_toolkit__CDI=True),
            {"nvidia_driver": ["an answer"], "nvidia_container_toolkit": ["CDI"]},
        ),
        (
            {"states": {"containerd/service": {"changed": True, "restart": True}}},
            {"containerd": ["service (restart)"]},
        ),
        # The role reports the error.
        ({"failed": False, "msg": "apt"}, UNREAD),
        ({"unreachable": True}, UNREAD),
        # A failed result after failed_when: false.
        ({**reading(host__swap=True), "failed": False, "failed_state": "containerd/service"}, UNREAD),
        ({**reading(host__swap=False), "failed": False, "failed_state": "host/kernel"}, UNREAD),
        # The role acceptance reads the host again and reports the failure.
        ({**reading(host__swap=True), "failed": False, "failed_state": "acceptance/host"}, {"host": ["swap"]}),
        (reading(acceptance__host=False), {}),
    ],
)
def test_role_is_pending_if_one_of_its_states_is(result: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert host_plan(result, ALL) == expected


@pytest.mark.parametrize(
    ("roles", "finished", "source", "loaded", "expected"),
    [
        (["host", "kubeadm"], True, "cuda_repository", False, {}),
        (["host", "kubeadm"], False, "cuda_repository", False, {"kubeadm": ["packages", "membership in the cluster"]}),
        # An unmanaged driver has no states.
        (["kubeadm"], True, "daemonset", False, {}),
        (["kubeadm", "nvidia_driver"], True, "daemonset", False, {"nvidia_driver": ["an answer"]}),
        (["kubeadm", "nvidia_driver"], True, "preinstalled", False, {"nvidia_driver": ["an answer"]}),
        (["kubeadm", "nvidia_driver"], True, "preinstalled", True, {}),
        (["kubeadm", "nvidia_driver"], True, "cuda_repository", False, {}),
        (["kubeadm", "nvidia_driver"], True, "operator", False, {}),
    ],
)
def test_membership_and_driver_can_be_pending_without_states(
    roles: list[str], finished: bool, source: str, loaded: bool, expected: dict[str, list[str]]
) -> None:
    assert host_plan(reading(kubeadm__packages=not finished), roles, finished, source, loaded) == expected


@pytest.mark.parametrize(
    ("hosts", "cluster", "known", "empty"),
    [
        ({"cp1": {}, "gpu1": {}}, {}, True, True),
        ({"cp1": {}, "gpu1": {"host": ["swap"]}}, {}, True, False),
        ({"cp1": {}}, {"flannel": ["DaemonSet f/f"]}, True, False),
        ({"cp1": {}}, {}, False, False),
    ],
)
def test_summary_shows_whether_anything_is_pending_or_unknown(
    hosts: dict[str, Any], cluster: dict[str, Any], known: bool, empty: bool
) -> None:
    summary = plan_summary({"hosts": hosts, "cluster": cluster, "cluster_is_known": known})
    assert summary == ("Nothing is pending." if empty else "site.yml would change what is shown above.")


WELL: dict[str, Any] = {
    "pools": {"changed": False, "changes": {}},
    "network": {"changed": False, "changes": []},
    "network rollout": {"changed": False, "missing": []},
    "plugins": {"policies": [], "installers": [], "plugins": [{"kind": "DaemonSet", "namespace": "ours", "name": "p"}]},
    "sharing": {"nodes": {"gpu1": {"differs": False, "drained": False, "summary": ""}}},
    "plugin": {"changed": False, "changes": []},
    "rollout of exclusive": {"missing": []},
}
SUMMARY = {"differs": True, "drained": False, "summary": "gpu1 2 -> 8"}
DRAINED = {"differs": False, "drained": True, "summary": ""}
PLUGIN = {"kind": "DaemonSet", "namespace": "theirs", "name": "p"}


@pytest.mark.parametrize(
    ("state", "value", "expected"),
    [
        ("", None, {}),
        ("pools", {"changes": {"gpu1": {}}}, {"node_pools": ["node gpu1"]}),
        ("network", {"changes": ["DaemonSet f/f"]}, {"flannel": ["DaemonSet f/f"]}),
        ("network rollout", {"missing": [{"node": "gpu1", "text": "no pod"}]}, {"flannel": ["gpu1: no pod"]}),
        ("plugins", {"policies": ["mine"]}, {"nvidia_device_plugin": ["ClusterPolicy mine"]}),
        ("plugins", {"plugins": [PLUGIN]}, {"nvidia_device_plugin": ["DaemonSet theirs/p"]}),
        ("plugins", {"installers": ["driver-580"]}, {"nvidia_driver_installer": ["driver-580"]}),
        ("plugins", {"problems": [{"what": "offered twice"}]}, {"nvidia_device_plugin": ["offered twice"]}),
        ("sharing", {"nodes": {"gpu1": SUMMARY}}, {"nvidia_device_plugin": ["gpu1 2 -> 8"]}),
        ("sharing", {"nodes": {"gpu1": DRAINED}}, {"nvidia_device_plugin": ["sharing of gpu1"]}),
        ("plugin", {"changes": ["ConfigMap a/b"]}, {"nvidia_device_plugin": ["ConfigMap a/b"]}),
        (
            "rollout of exclusive",
            {"missing": [{"node": "", "text": "0 of 1 pods"}]},
            {"nvidia_device_plugin": ["0 of 1 pods"]},
        ),
    ],
)
def test_cluster_role_is_pending_if_its_objects_differ(state: str, value: Any, expected: dict[str, list[str]]) -> None:
    states = {**WELL, **({state: value} if state else {})}
    assert cluster_plan({"states": states}, "flannel", "ours", False) == expected


def test_driver_installer_is_applied_in_each_run() -> None:
    assert list(cluster_plan({"states": WELL}, "flannel", "ours", True)) == ["nvidia_driver_installer"]


def test_all_cluster_roles_run_if_the_cluster_cannot_be_read() -> None:
    roles = ["node_pools", "external", "nvidia_driver_installer", "nvidia_device_plugin"]
    failure = {"failed": False, "failed_state": "plugins", "states": {"pools": {"changes": {}}}}
    assert list(cluster_plan(failure, "external", "ours", False)) == roles
    assert list(cluster_plan({"failed": False, "msg": "no API"}, "external", "ours", False)) == roles


PLAY = """
- name: Plan
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read what is pending on the host
      gpulab.kubernetes.host_state:
        states:
          - {name: host/swap, module: swap, args: {proc_swaps: "{{ playbook_dir }}/none"}}
          - {name: containerd/swap, module: swap, args: {proc_swaps: "{{ playbook_dir }}/full"}}
          - {name: kubeadm/swap, module: swap, args: {proc_swaps: "{{ playbook_dir }}/none"}}
      check_mode: true
      failed_when: false
      register: found
    - name: Show the plan
      ansible.builtin.debug:
        msg: "{{ found | gpulab.kubernetes.host_plan(['host', 'containerd', 'kubeadm']) }} {{ found.failed }}"
"""


def test_all_roles_run_if_a_state_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "none").touch()
    # The module fails because this swap can't fit into any machine's memory.
    (tmp_path / "full").write_text("Filename Type Size Used Priority\n/swapfile file 9999999999999 9999999999999 -2\n")
    status, output = run_ansible(tmp_path, "-i", "localhost,", "-c", "local", "play.yml")
    assert status == 0, output
    said = " ".join(output.split())
    assert said.count("everything, since the host could not be read") == 3 and "]} False" in said, output


def test_each_sharing_configuration_has_a_rollout() -> None:
    nodes = [
        {"name": "gpu1", "configuration": "exclusive", "amounts": {"nvidia.com/gpu": 2}},
        {"name": "gpu2", "configuration": "mps-4", "amounts": {"nvidia.com/gpu": 8}},
        {"name": "gpu3", "configuration": "exclusive", "amounts": {"nvidia.com/gpu": 1}},
    ]
    whole, shared = [state["args"] for state in device_plugin_rollouts(nodes, "ours")]
    assert whole["nodes"] == ["gpu1", "gpu3"]
    assert whole["daemonsets"] == ["nvidia-device-plugin", "gpu-feature-discovery"]
    assert shared["daemonsets"][-1] == "nvidia-mps-control-daemon-mps-4"
    assert shared["allocatable"] == {"gpu2": {"nvidia.com/gpu": 8}}
    assert device_plugin_rollouts([], "ours") == []


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        ({}, []),
        ({"cp1": {}}, []),
        (
            {"cp1": {"host": ["swap"]}, "gpu1": {"host": ["swap"], "nvidia_driver": ["packages", "pins"]}, "gpu2": {}},
            ["cp1:", "  host: swap", "gpu1:", "  host: swap", "  nvidia_driver: packages, pins"],
        ),
        ({"gpu1": {"host": ["swap"]}, "cp1": {}, "gpu2": {"host": ["swap"]}}, ["gpu1, gpu2:", "  host: swap"]),
    ],
)
def test_hosts_with_equal_plans_share_the_lines(plans: dict[str, Any], expected: list[str]) -> None:
    assert plan_lines(plans) == expected


def test_deferred_changes_are_lines_of_the_plan() -> None:
    assert plan_lines({"gpu1": {}, "gpu2": {}}, {"gpu1": ["A job runs", "Another one"]}) == [
        "gpu1: A job runs",
        "gpu1: Another one",
    ]
