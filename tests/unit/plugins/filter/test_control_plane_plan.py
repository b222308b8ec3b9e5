# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import host_plan, node_plan, plan_lines, plan_summary
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.membership import membership
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.control_plane import (
    control_plane_plan,
    pending_notice,
    stores_configuration,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.kubelet import kubelet_plan, kubelet_upload

RECORDED = """apiServer:
  certSANs: [k8s.lan]
  extraArgs:
  - {name: event-ttl, value: 1h}
apiVersion: kubeadm.k8s.io/v1beta4
certificateValidityPeriod: 8760h0m0s
controllerManager: {}
etcd: {local: {dataDir: /var/lib/etcd}}
kind: ClusterConfiguration
networking: {podSubnet: 10.244.0.0/16}
scheduler: {}
"""
FOUND = {"texts": {"ClusterConfiguration": RECORDED}, "interrupted": False}


def certificate(name: str, days: int | None, external: bool | None = False) -> dict[str, Any]:
    return {"name": name, "days_left": days, "externally_managed": external, "missing": days is None}


ENDING = {"certificates": [certificate("apiserver", 3)]}
VALID = {"certificates": [certificate("apiserver", 200)], "certificate_authorities": [certificate("ca", 3)]}


@pytest.mark.parametrize(
    "inventory",
    [
        {},
        {"apiServer": {"certSANs": ["k8s.lan"], "extraArgs": [{"name": "event-ttl", "value": "1h"}]}},
        {"certificateValidityPeriod": "8760h"},
        {"scheduler": {"extraArgs": []}},
        # Preflight refuses these.
        {"networking": {"x": "y"}, "featureGates": {"x": True}},
    ],
)
def test_nothing_is_pending_if_the_cluster_has_the_settings(inventory: dict[str, Any]) -> None:
    assert control_plane_plan(FOUND, inventory, VALID, 30) == {}


def test_settings_of_an_etcd_that_the_cluster_does_not_use_are_not_pending() -> None:
    text = RECORDED.replace("{local: {dataDir: /var/lib/etcd}}", "{external: {endpoints: ['https://etcd:2379']}}")
    inventory = {"etcd": {"local": {"imageTag": "3.6.11-0"}}}
    assert control_plane_plan(FOUND, inventory, VALID, 30)["upload"]
    assert control_plane_plan({"texts": {"ClusterConfiguration": text}}, inventory, VALID, 30) == {}


@pytest.mark.parametrize(
    "inventory, part, expected, why",
    [
        (
            {"apiServer": {"extraArgs": [{"name": "event-ttl", "value": "2h"}]}},
            "apiServer",
            {"certSANs": ["k8s.lan"], "extraArgs": [{"name": "event-ttl", "value": "2h"}]},
            "apiServer.extraArgs: event-ttl=1h -> event-ttl=2h",
        ),
        (
            {"apiServer": {"extraArgs": []}},
            "apiServer",
            {"certSANs": ["k8s.lan"], "extraArgs": []},
            "apiServer.extraArgs: event-ttl=1h -> (empty)",
        ),
        (
            {"etcd": {"local": {"imageTag": "3.6.11-0"}}},
            "etcd",
            {"local": {"dataDir": "/var/lib/etcd", "imageTag": "3.6.11-0"}},
            "etcd.local.imageTag: (not set) -> 3.6.11-0",
        ),
    ],
)
def test_settings_of_the_inventory_replace_those_of_the_cluster(
    inventory: dict[str, Any], part: str, expected: dict[str, Any], why: str
) -> None:
    found = control_plane_plan(FOUND, {**inventory, "featureGates": {"x": True}}, VALID, 30)
    assert (found["why"], found["upload"], found["renew"], found["repair"]) == ([why], True, False, False)
    assert found["recorded"] == yaml.safe_load(RECORDED)
    assert found["wanted"] == {**yaml.safe_load(RECORDED), part: expected}


@pytest.mark.parametrize(
    "part, value, shown",
    [
        ("extraEnvs", [{"name": "ANYTHING", "value": "hunter2"}], "ANYTHING=********"),
        ("extraEnvs", [{"name": "A", "valueFrom": {"x": "hunter2"}}], "A=********"),
        ("extraArgs", [{"name": "oidc-client-secret", "value": "hunter2"}], "oidc-client-secret=********"),
        ("extraArgs", [{"name": "webhook", "value": "http://a:hunter2@b"}], "webhook=http://********@b"),
        ("extraVolumes", [{"name": "a", "hostPath": "/a"}], "{'name': 'a', 'hostPath': '/a'}"),
    ],
)
def test_secrets_are_not_shown(part: str, value: Any, shown: str) -> None:
    found = control_plane_plan(FOUND, {"scheduler": {part: value}}, VALID, 30)
    assert found["why"] == [f"scheduler.{part}: (not set) -> {shown}"]


def test_secrets_of_an_older_version_of_the_configuration_are_not_shown() -> None:
    older = {"texts": {"ClusterConfiguration": "scheduler: {extraArgs: {kms-token: hunter2}}"}}
    found = control_plane_plan(older, {"scheduler": {"extraArgs": []}}, VALID, 30)
    assert found["why"] == ["scheduler.extraArgs: kms-token=******** -> (empty)"]


@pytest.mark.parametrize(
    "certificates, days, names",
    [
        ([certificate("apiserver", 29), certificate("etcd-server", 30)], 30, "apiserver"),
        ([certificate("apiserver", -5), certificate("admin.conf", 3)], 30, "apiserver, admin.conf"),
        ([certificate("apiserver", 29)], 0, ""),
        ([certificate("apiserver", 1, external=True), certificate("super-admin.conf", None)], 30, ""),
    ],
)
def test_certificates_are_renewed_in_time(certificates: list[Any], days: int, names: str) -> None:
    found = control_plane_plan(FOUND, {}, {"certificates": certificates}, days)
    assert found.get("renew", False) == bool(names)
    assert found.get("why", []) == ([f"certificates with less than {days} days left: {names}"] if names else [])


@pytest.mark.parametrize(
    "validity, left, renewed",
    [
        ("480h0m0s", 20, False),
        ("480h", 7, False),
        ("480h", 6, True),
        ("8760h0m0s", 29, True),
        ("8760h0m0s", 30, False),
        ("nonsense", 29, True),
    ],
)
def test_certificates_that_are_valid_for_a_short_time_are_not_renewed_by_each_run(
    validity: str, left: int, renewed: bool
) -> None:
    texts = {"ClusterConfiguration": f"kind: ClusterConfiguration\ncertificateValidityPeriod: {validity}\n"}
    found = control_plane_plan({"texts": texts}, {}, {"certificates": [certificate("apiserver", left)]}, 30)
    assert found.get("renew", False) == renewed


ADMIN, OTHER = "/etc/kubernetes/admin.conf", "/etc/kubernetes/scheduler.conf"


@pytest.mark.parametrize(
    "texts, restorable, repair",
    [
        ({"ClusterConfiguration": RECORDED}, [], False),
        ({"ClusterConfiguration": RECORDED}, [OTHER], False),
        # The API was read with super-admin.conf, but the lease needs admin.conf.
        ({"ClusterConfiguration": RECORDED}, [OTHER, ADMIN], True),
        ({"ClusterConfiguration": RECORDED}, ADMIN, False),
        ({}, [], True),
    ],
)
def test_an_interrupted_change_is_pending(texts: dict[str, str], restorable: Any, repair: bool) -> None:
    found = control_plane_plan({"texts": texts, "interrupted": True, "restorable": restorable}, {}, VALID, 30)
    assert (found["why"], found["repair"], found["upload"]) == (["a change that was interrupted"], repair, False)


def test_a_repair_that_is_always_allowed_changes_nothing_else() -> None:
    read = {**FOUND, "interrupted": True, "restorable": [ADMIN]}
    found = control_plane_plan(read, {"scheduler": {"extraArgs": [{"name": "v", "value": "4"}]}}, ENDING, 30)
    assert found["repair"] and found["wanted"] == found["recorded"]
    assert not found["upload"] and not found["renew"]


@pytest.mark.parametrize(
    "recorded",
    [
        "{certSANs: [b, a], extraArgs: [{name: v, value: '4'}, {name: x, value: '1'}]}",
        "{certSANs: [a, b], extraArgs: {x: '1', v: '4'}}",
    ],
)
def test_the_order_of_a_list_does_not_count(recorded: str) -> None:
    found = {"texts": {"ClusterConfiguration": f"apiServer: {recorded}"}}
    flags = [{"name": "x", "value": "1"}, {"name": "v", "value": "4"}]
    assert control_plane_plan(found, {"apiServer": {"certSANs": ["a", "b"], "extraArgs": flags}}, VALID, 30) == {}
    assert control_plane_plan(found, {"apiServer": {"certSANs": ["a"], "extraArgs": flags}}, VALID, 30)["upload"]


@pytest.mark.parametrize("text", [None, "", "- a", "a: [", 5, "a: &a {x: 1}\nb: *a\n"])
def test_a_configuration_that_can_not_be_read_changes_nothing(text: Any) -> None:
    found = {"texts": {"ClusterConfiguration": text}}
    assert control_plane_plan(found, {"scheduler": {"extraArgs": [{"name": "v", "value": "4"}]}}, {}, 30) == {}
    assert control_plane_plan({}, {}, {"certificates": [certificate("apiserver", 1)]}, 30) == {}


def test_what_is_left_pending_is_shown_with_its_command() -> None:
    result = {"changes": ["kube-apiserver: --v 2 -> 4"], "restarted": ["kube-apiserver"], "edits": ["x: --y 1"]}
    assert pending_notice(["a"], result, 1) == [
        "Pending, because it restarts parts of the control plane:",
        "  kube-apiserver: --v 2 -> 4",
        "  kept, since it is so on this control plane alone: x: --y 1",
        "  It restarts kube-apiserver. The API does not answer for about 20 s meanwhile; pods continue to run.",
        "  To apply it, run this again with -e cluster_control_plane_gap=allow",
    ]
    assert "the others answer meanwhile" in pending_notice(["a"], result, 3)[3]
    assert pending_notice(["a"], {}, 1)[1:2] == ["  a"]
    assert pending_notice(["a"], {"msg": "Error"}, 1)[1:3] == ["  a", "  It can't be applied: Error"]


def test_lines_of_a_host_are_limited() -> None:
    lines = ["x" * 900] * 60
    found = pending_notice([], {"changes": lines, "edits": lines}, 1)
    assert len(found) == 104
    assert (found[1], found[51]) == (f"  {'x' * 500}...", "  and 10 more")
    assert max(map(len, found)) < 600


@pytest.mark.parametrize(
    "host, group, others, there, stored",
    [
        ("cp1", ["cp1"], {}, ["cp1", "gpu1"], True),
        ("cp2", ["cp1", "cp2"], {"cp1": {"pending": False}}, ["cp1", "cp2"], True),
        # It is not the last one.
        ("cp1", ["cp1", "cp2"], {"cp2": {"pending": False}}, ["cp1", "cp2"], False),
        # The other one still lacks it, or its change is impossible, or it was not compared.
        ("cp2", ["cp1", "cp2"], {"cp1": {"pending": True}}, ["cp1", "cp2"], False),
        ("cp2", ["cp1", "cp2"], {"cp1": {"msg": "Error"}}, ["cp1", "cp2"], False),
        ("cp2", ["cp1", "cp2"], {}, ["cp1", "cp2"], False),
        ("cp2", ["cp1", "cp2"], {"cp1": {"pending": False}}, ["cp2"], False),
    ],
)
def test_the_configuration_is_stored_when_all_control_planes_have_it(
    host: str, group: list[str], others: dict[str, Any], there: list[str], stored: bool
) -> None:
    hostvars = {name: {"__kubeadm_control_plane": others[name]} if name in others else {} for name in group}
    assert stores_configuration(host, group, hostvars, there) == stored


def test_control_planes_that_join_in_this_run_get_the_stored_configuration() -> None:
    """They join after the others have changed."""
    joining = {"preflight_host": {"cluster": {"finished": False}}}
    hostvars: dict[str, Any] = {"cp1": {}, "cp2": joining, "cp3": joining}
    assert stores_configuration("cp1", list(hostvars), hostvars, list(hostvars))
    hostvars["cp2"] = {"preflight_host": {"cluster": {"finished": True}}}
    assert not stores_configuration("cp1", list(hostvars), hostvars, list(hostvars))


def test_the_plan_shows_the_control_plane() -> None:
    hosts = {"cp1": {"kubeadm": ["packages"]}, "gpu1": {}}
    assert plan_lines(hosts, {}, {"cp1": ["a", "b"]}) == ["cp1:", "  kubeadm: packages", "  control plane: a, b"]
    nothing: dict[str, Any] = {"cluster_is_known": True, "cluster": {}, "hosts": {"cp1": {}}}
    assert plan_summary({**nothing, "control_planes": {}}) == "Nothing is pending."
    assert plan_summary({**nothing, "control_planes": {"cp1": ["a"]}}) != "Nothing is pending."


KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\nsyncFrequency: 0s\n"
NODE = KUBELET + "resolvConf: /run/systemd/resolve/resolv.conf\n"


def node(text: str) -> dict[str, Any]:
    return {"preflight_host": {"cluster": {"finished": True, "kubelet_configuration": text}}}


def test_a_node_gets_the_setting_and_keeps_its_own() -> None:
    found = kubelet_plan(KUBELET, {"maxPods": 50, "resolvConf": "/etc/resolv.conf"}, NODE)
    assert yaml.safe_load(found["node"]) == {**yaml.safe_load(NODE), "maxPods": 50}
    assert found["cluster"] == {**yaml.safe_load(KUBELET), "maxPods": 50}
    assert found["why"] == ["maxPods"]


ZERO = {"shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s"}
OWN = {"shutdownGracePeriod": "2m0s", "shutdownGracePeriodCriticalPods": "20s"}
BY_PRIORITY = {"shutdownGracePeriodByPodPriority": [{"priority": 0, "shutdownGracePeriodSeconds": 9}]}
DISABLED = {"featureGates": {"GracefulNodeShutdown": False}}


@pytest.mark.parametrize(
    "inventory, arguments, periods",
    [
        ({"maxPods": 50}, {}, OWN),
        (BY_PRIORITY, {}, {**ZERO, **BY_PRIORITY}),
        ({"shutdownGracePeriod": "10s"}, {}, {**ZERO, "shutdownGracePeriod": "10s"}),
        (DISABLED, {}, ZERO),
        ({**DISABLED, "maxPods": 50}, {}, ZERO),
        ({"maxPods": 50}, {"feature-gates": "GracefulNodeShutdown=false"}, ZERO),
        ({"featureGates": {"GracefulNodeShutdown": True}}, {}, OWN),
    ],
)
def test_a_node_gets_no_periods_with_which_its_kubelet_does_not_start(
    inventory: dict[str, Any], arguments: dict[str, Any], periods: dict[str, Any]
) -> None:
    recorded, node = (yaml.safe_dump({**yaml.safe_load(text), **own}) for text, own in ((KUBELET, ZERO), (NODE, OWN)))
    found = kubelet_plan(recorded, inventory, node, arguments)
    written = yaml.safe_load(found["node"])
    assert {name: value for name, value in written.items() if name.startswith("shutdown")} == periods
    assert {**written, **inventory} == written and found["cluster"] and found["why"]
    # The next run finds the node as it is.
    assert kubelet_plan(recorded, inventory, found["node"], arguments)["node"] == ""


@pytest.mark.parametrize(
    "recorded, inventory, node, changes_cluster, changes_node",
    [
        (KUBELET, {"maxPods": 110}, NODE, False, False),
        # Somebody has edited the node.
        (KUBELET, {"maxPods": 110}, NODE.replace("110", "200"), False, False),
        # The node has it already, such as after an interruption.
        (KUBELET, {"maxPods": 50}, NODE.replace("110", "50"), True, False),
        # The host is no node yet.
        (KUBELET, {"maxPods": 50}, "", True, False),
        (KUBELET, {"cgroupDriver": "cgroupfs", "clusterDomain": "x"}, NODE, False, False),
        ("", {"maxPods": 50}, NODE, False, False),
        (KUBELET, {"maxPods": 50}, "- a", True, False),
        (KUBELET, {"maxPods": 50}, NODE + "a: &a {x: 1}\nb: *a\n", True, False),
    ],
)
def test_when_kubelets_change(
    recorded: str, inventory: dict[str, Any], node: str, changes_cluster: bool, changes_node: bool
) -> None:
    found = kubelet_plan(recorded, inventory, node)
    assert (bool(found["cluster"]), bool(found["node"])) == (changes_cluster, changes_node)


@pytest.mark.parametrize(
    "content, known",
    [
        (NODE.encode(), True),
        (b"a: \xff\n", False),
        (NODE.encode() + b"# x\n" * 20000, False),
        # A power failure has cut it off. What is left may be a mapping.
        (NODE.encode() + b"#" * (4096 - len(NODE)), False),
    ],
)
def test_only_a_whole_configuration_of_a_node_is_changed(tmp_path: Path, content: bytes, known: bool) -> None:
    path = tmp_path / "var/lib/kubelet/config.yaml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert membership(str(tmp_path))["kubelet_configuration"] == (content.decode() if known else "")


@pytest.mark.parametrize(
    "there, hostvars, expected",
    [
        (["cp1", "gpu1"], {}, True),
        (["cp1"], {}, False),
        (["cp1", "gpu1"], {"gpu1": {"node_change_deferred": True}}, False),
        (["cp1", "gpu1"], {"gpu1": {"node_change_deferred": False}}, True),
        # A host that joins gets it from the cluster. The file of a node may have aliases, or could not be returned.
        (["cp1", "gpu1"], {"gpu1": {"preflight_host": {"cluster": {"finished": False}}}}, True),
        (["cp1", "gpu1"], {"gpu1": {"preflight_host": {"cluster": {"finished": True}}}}, False),
        (["cp1", "gpu1"], {"gpu1": node("a: &a {x: 1}\nb: *a\n")}, False),
        (["cp1", "gpu1"], {"gpu1": node(NODE)}, True),
    ],
)
def test_the_cluster_follows_when_all_nodes_have_it(there: list[str], hostvars: dict[str, Any], expected: bool) -> None:
    plan = {"cluster": {"maxPods": 50}}
    found = kubelet_upload(plan, ["cp1", "gpu1"], {"cp1": {}, "gpu1": {}, **hostvars}, there)
    assert found == (plan["cluster"] if expected else {})


def test_kubelets_change_one_after_the_other() -> None:
    member = {"cluster": {"finished": True}}
    pending = {"kubeadm": ["kubelet configuration (restart)"]}
    hostvars = {name: {"preflight_host": member, "plan_pending": pending} for name in ("cp1", "gpu1")}
    assert node_plan(hostvars, hostvars, ["cp1"])["cluster"]["serial"] == "1"
    for each in hostvars.values():
        each["plan_pending"] = {"kubeadm": ["kubelet (restart)"]}
    assert node_plan(hostvars, hostvars, ["cp1"])["cluster"]["serial"] == "100%"


def test_a_configuration_that_only_the_cluster_lacks_is_pending() -> None:
    assert host_plan({"states": {}}, ["kubeadm"], stores_kubelet=True) == {
        "kubeadm": ["the kubelet's configuration in the cluster"]
    }
