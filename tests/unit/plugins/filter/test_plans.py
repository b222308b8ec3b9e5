# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import (
    applicable,
    cluster_plan,
    host_plan,
    host_states,
    plan_lines,
    plan_summary,
)
from ansible_collections.gpulab.kubernetes.plugins.filter.sharing import device_plugin_rollouts
from support.programs import run_ansible

ALL = ["host", "containerd", "nvidia_driver", "nvidia_container_toolkit"]
UNREAD = {role: ["everything, since the host could not be read"] for role in ALL}


def reading(**changed: bool) -> dict[str, Any]:
    """Return the result of host_state: by the name of a state, with ``__`` for ``/``, whether it changes."""
    states = {name.replace("__", "/"): {"changed": value} for name, value in changed.items()}
    return {"changed": any(changed.values()), "states": states}


class Lazy(dict[str, Any]):
    """A dict with values that fail when they are read, as Ansible's do whose templates need what is not there."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        assert value != "fails", f"{key} was read"
        return value


def test_states_carry_the_names_of_their_roles() -> None:
    roles: dict[str, list[dict[str, Any]]] = {
        "kubeadm": [{"name": "kubelet", "module": "managed_service", "args": {"name": "kubelet"}}],
        "host": [{"name": "swap", "module": "swap", "when": True}],
    }
    assert host_states(roles, ["host", "kubeadm"]) == [
        {"name": "host/swap", "module": "swap", "args": {}},
        {"name": "kubeadm/kubelet", "module": "managed_service", "args": {"name": "kubelet"}},
    ]


@pytest.mark.parametrize("when", [False, "False", "false"])
def test_what_does_not_count_is_not_read(when: bool | str) -> None:
    states = Lazy(host=[Lazy(name="swap", module="swap", when=when, args="fails")], containerd="fails")
    assert host_states(states, ["host"]) == []
    assert applicable([states["host"][0], {"name": "b", "when": True}, {"name": "c"}]) == [{"name": "b"}, {"name": "c"}]
    assert applicable({"a": states["host"][0], "b": {"when": "true", "c": 1}}) == {"b": {"c": 1}}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (reading(host__swap=False, containerd__packages=False), {}),
        (reading(host__swap=True, containerd__packages=False), {"host": ["swap"]}),
        # CDI needs a driver that answers.
        (
            reading(nvidia_container_toolkit__CDI=True),
            {"nvidia_driver": ["an answer"], "nvidia_container_toolkit": ["CDI"]},
        ),
        (
            {"states": {"containerd/service": {"changed": True, "restart": True}}},
            {"containerd": ["service (restart)"]},
        ),
        # What is wrong is the role's to tell.
        ({"failed": False, "msg": "apt"}, UNREAD),
        ({"unreachable": True}, UNREAD),
        # As failed_when leaves the result of a failure.
        ({**reading(host__swap=True), "failed": False, "failed_state": "containerd/service"}, UNREAD),
        ({**reading(host__swap=False), "failed": False, "failed_state": "host/kernel"}, UNREAD),
        # What the verification reads is read again by the role acceptance, which reports the failure.
        ({**reading(host__swap=True), "failed": False, "failed_state": "acceptance/host"}, {"host": ["swap"]}),
        (reading(acceptance__host=False), {}),
    ],
)
def test_a_role_is_pending_where_one_of_its_states_is(result: dict[str, Any], expected: dict[str, list[str]]) -> None:
    assert host_plan(result, ALL) == expected


@pytest.mark.parametrize(
    ("roles", "finished", "source", "loaded", "expected"),
    [
        (["host", "kubeadm"], True, "cuda_repository", False, {}),
        (["host", "kubeadm"], False, "cuda_repository", False, {"kubeadm": ["packages", "membership in the cluster"]}),
        # A driver that others install has no state.
        (["kubeadm"], True, "daemonset", False, {}),
        (["kubeadm", "nvidia_driver"], True, "daemonset", False, {"nvidia_driver": ["an answer"]}),
        (["kubeadm", "nvidia_driver"], True, "preinstalled", False, {"nvidia_driver": ["an answer"]}),
        (["kubeadm", "nvidia_driver"], True, "preinstalled", True, {}),
        (["kubeadm", "nvidia_driver"], True, "cuda_repository", False, {}),
        (["kubeadm", "nvidia_driver"], True, "operator", False, {}),
    ],
)
def test_more_than_states_is_pending(
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
def test_nothing_is_pending_where_all_is_known(
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
def test_a_role_of_the_cluster_is_pending_where_something_differs(
    state: str, value: Any, expected: dict[str, list[str]]
) -> None:
    states = {**WELL, **({state: value} if state else {})}
    assert cluster_plan({"states": states}, "flannel", "ours", False) == expected


def test_drivers_of_pods_are_looked_after_in_each_run() -> None:
    assert list(cluster_plan({"states": WELL}, "flannel", "ours", True)) == ["nvidia_driver_installer"]


def test_a_cluster_that_could_not_be_read_is_entered() -> None:
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


def test_a_state_that_can_not_be_read_leaves_no_role_out(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "none").touch()
    # More than fits into the memory of any machine, so that the module fails.
    (tmp_path / "full").write_text("Filename Type Size Used Priority\n/swapfile file 9999999999999 9999999999999 -2\n")
    status, output = run_ansible(tmp_path, "-i", "localhost,", "-c", "local", "play.yml")
    assert status == 0, output
    said = " ".join(output.split())
    assert said.count("everything, since the host could not be read") == 3 and "]} False" in said, output


def test_each_way_of_sharing_has_a_rollout() -> None:
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
def test_hosts_with_the_same_plan_share_its_lines(plans: dict[str, Any], expected: list[str]) -> None:
    assert plan_lines(plans) == expected
