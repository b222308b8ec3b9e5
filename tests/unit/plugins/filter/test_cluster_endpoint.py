# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A new cluster gets a name as its endpoint; an existing one keeps the endpoint that it has."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleUndefinedVariable
from ansible_collections.gpulab.kubernetes.plugins.filter.access import (
    cluster_endpoint,
    control_plane_addresses,
    endpoint_is_stale,
    first_control_plane_read,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.endpoint import dns_label
from hypothesis import given
from hypothesis import strategies as st

UNREAD: dict[str, Any] = {}
BARE = {"cluster": {"begun": False, "finished": False, "endpoint": "", "name": "", "api_name": ""}}
LAB = ["/srv/lab.ini"]
OLD = "api.old.internal"
BLOCK = {"names": [OLD]}


def host(endpoint: str = "", *, stored: str = "", finished: bool = True, **more: Any) -> dict[str, Any]:
    """Return what preflight reads of a control plane; ``stored`` is the endpoint that the API returns."""
    told = {"texts": {"ClusterConfiguration": f"controlPlaneEndpoint: {stored}\nkind: x\n"}} if stored else {}
    told |= {"action": more.pop("action")} if "action" in more else {}
    names = {"name": more.pop("name", ""), "api_name": more.pop("api_name", "")}
    cluster = {"begun": more.pop("begun", True), "finished": finished, "endpoint": endpoint, **names}
    cluster["api_server_names"] = more.pop("served", ["10.0.0.11", "cp1"])
    return {"cluster": cluster, "control_plane": told, **more}


@pytest.mark.parametrize(
    ("reading", "settings", "kind", "server"),
    [
        # New clusters.
        (BARE, {}, "name", "api.lab.internal:6443"),
        (BARE, {"name": "west"}, "name", "api.west.internal:6443"),
        (BARE, {"name": "west", "api_name": "k8s.example.org"}, "name", "k8s.example.org:6443"),
        (BARE, {"given": "lb.example.org:443"}, "external", "lb.example.org:443"),
        (BARE, {"given": "10.0.0.11:6443", "api_name": "k8s.example.org"}, "external", "10.0.0.11:6443"),
        # kubeadm init was interrupted before and after it wrote admin.conf.
        (host(finished=False), {}, "name", "api.lab.internal:6443"),
        (host("10.0.0.11:6443", finished=False), {}, "address", ""),
        (host("api.old.internal:6443", finished=False, api_name=OLD), {}, "name", "api.old.internal:6443"),
        (host(finished=False, api_name=OLD), {}, "name", "api.old.internal:6443"),
        # It starts again, whatever it has left, so that a name can be corrected.
        (host(finished=False, api_name=OLD, action="init"), {}, "name", "api.lab.internal:6443"),
        (
            host("api.old.internal:6443", finished=False, api_name=OLD, hosts_file=BLOCK, action="clean"),
            {"api_name": "k8s.example.org"},
            "name",
            "k8s.example.org:6443",
        ),
        (host("10.0.0.11:6443", finished=False, action="clean"), {}, "name", "api.lab.internal:6443"),
        (host("api.old.internal:6443", api_name=OLD, action="resume"), {}, "name", "api.old.internal:6443"),
        (host("api.old.internal:6443", api_name=OLD, action="refuse"), {}, "name", "api.old.internal:6443"),
        # What a removed cluster has left behind.
        (host(finished=False, begun=False, api_name=OLD, hosts_file=BLOCK), {}, "name", "api.lab.internal:6443"),
        # Existing clusters with an address, whatever the settings.
        (host("10.0.0.11:6443"), {}, "address", ""),
        (host("10.0.0.11:6443"), {"api_name": "k8s.example.org"}, "address", ""),
        (host("10.0.0.11:6443", stored="10.0.0.11:6443", name="lab"), {}, "address", ""),
        (host("[2001:db8::1]:6443"), {}, "address", ""),
        # A load balancer that the settings don't name: preflight reports the difference.
        (host("lb.example.org:6443"), {}, "address", ""),
        (host("lb.example.org:6443"), {"given": "lb.example.org:6443"}, "external", "lb.example.org:6443"),
        # A name in somebody else's DNS, which only looks like ours.
        (host("api.lab.internal:6443"), {}, "address", ""),
        (host("k8s.example.org:6443"), {"api_name": "k8s.example.org"}, "address", ""),
        (host("api.old.internal:8443", api_name=OLD), {}, "address", ""),
        (host("cp1:6443", hosts_file={"names": ["cp1", 7]}), {}, "address", ""),
        # Existing clusters with a name, also if their inventory was renamed, or a setting is wrong.
        (host("api.lab.internal:6443", api_name="api.lab.internal"), {}, "name", "api.lab.internal:6443"),
        (host("api.lab.internal", api_name="api.lab.internal"), {}, "name", "api.lab.internal:6443"),
        (host("api.old.internal:6443", api_name=OLD), {}, "name", "api.old.internal:6443"),
        (host("api.old.internal:6443", hosts_file=BLOCK), {}, "name", "api.old.internal:6443"),
        (host("api.old.internal:6443", api_name=OLD), {"api_name": "k8s.example.org"}, "name", "api.old.internal:6443"),
        (host("k8s.example.org:6443", hosts_file={"names": ["k8s.example.org"]}), {}, "name", "k8s.example.org:6443"),
        (
            host("api.old.internal:6443", api_name=OLD),
            {"given": "lb.example.org:443"},
            "external",
            "lb.example.org:443",
        ),
        # The cluster's configuration counts; a migration writes it after the kubeconfigs.
        (host("api.lab.internal:6443", stored="10.0.0.11:6443"), {}, "address", ""),
        (host("10.0.0.11:6443", stored="'api.old.internal:6443'", api_name=OLD), {}, "name", "api.old.internal:6443"),
        # Unknown: the host was not read, or its files can't be used.
        (UNREAD, {}, "address", ""),
        (host(), {}, "address", ""),
        (UNREAD, {"given": "lb.example.org:443"}, "external", "lb.example.org:443"),
    ],
)
def test_endpoint_of_a_cluster(reading: dict[str, Any], settings: dict[str, str], kind: str, server: str) -> None:
    given = {"given": "", "api_name": "", "name": "", **settings}
    found = cluster_endpoint(reading, given["given"], given["api_name"], given["name"], LAB)
    assert (found["kind"], found["server"]) == (kind, server)


@pytest.mark.parametrize(
    ("setting", "recorded", "sources", "awx", "name", "shown"),
    [
        ("", "", LAB, "", "lab", "lab"),
        ("", "", ["/runner/inventory/hosts"], "GPU Lab", "gpu-lab", "GPU Lab"),
        ("", "gpu-lab", ["/runner/inventory/hosts"], "GPU Lab", "gpu-lab", "GPU Lab"),
        ("", "old", LAB, "", "old", "old"),
        ("west", "old", LAB, "", "west", "west"),
        ("", "", ["a,b"], "", "cluster", ""),
    ],
)
def test_name_of_a_cluster_remains_if_its_inventory_is_renamed(
    setting: str, recorded: str, sources: list[str], awx: str, name: str, shown: str
) -> None:
    found = cluster_endpoint(host(name=recorded), "", "", setting, sources, awx)
    assert (found["name"], found["shown_name"], found["recorded_name"]) == (name, shown, recorded)
    assert found["api_name"] == f"api.{name}.internal"


@pytest.mark.parametrize(
    ("reading", "record", "given_endpoint", "is_named", "api_name"),
    [
        # Some nodes use the name already, whatever the cluster's own configuration says, and whatever is set now.
        (host("10.0.0.11:6443", hosts_file=BLOCK, served=["10.0.0.11", OLD]), "", "", True, OLD),
        (host("10.0.0.11:6443", api_name=OLD, served=[OLD]), "", "", True, OLD),
        (host("10.0.0.11:6443", api_name="api.removed.internal", hosts_file=BLOCK, served=[OLD]), "", "", True, OLD),
        # The cluster that had the name was removed.
        (host("10.0.0.11:6443", hosts_file=BLOCK), "", "", False, "api.other.internal"),
        (host("10.0.0.11:6443", api_name=OLD), "", "", False, "api.other.internal"),
        (host("10.0.0.11:6443"), "", "", False, "api.other.internal"),
        (host("10.0.0.11:6443", hosts_file=BLOCK), "", "10.0.0.11:6443", False, OLD),
        # Without preflight.
        (UNREAD, '{"name": "old", "api_name": "api.old.internal"}', "", True, OLD),
        (UNREAD, '{"name": "old", "api_name": ""}', "", False, "api.other.internal"),
        (UNREAD, '{"api_name": "a b"}', "", False, "api.other.internal"),
        (UNREAD, "", "", False, "api.other.internal"),
    ],
)
def test_name_that_a_cluster_has_got_remains(
    reading: dict[str, Any], record: str, given_endpoint: str, is_named: bool, api_name: str
) -> None:
    found = cluster_endpoint(reading, given_endpoint, "api.other.internal", "", LAB, record=record)
    assert (found["is_named"], found["api_name"]) == (is_named, api_name)
    assert found["kind"] == ("external" if given_endpoint else "address")
    assert found["recorded_api_name"] == (OLD if api_name == OLD else "")


@pytest.mark.parametrize(
    ("reading", "given_endpoint", "used", "is_stale"),
    [
        (host("10.0.0.11:6443"), "", "10.0.0.11:6443", True),
        (host("10.0.0.11:6443", api_name=OLD), "", "10.0.0.11:6443", True),
        (host("lb.example.org:6443", hosts_file=BLOCK), "lb.example.org:6443", "lb.example.org:6443", True),
        # A new cluster, to which this host does not belong yet.
        (BARE, "lb.example.org:6443", "", True),
        (BARE, "", "", False),
        (host(f"{OLD}:6443", api_name=OLD, served=[OLD]), "", f"{OLD}:6443", False),
        # A migration was interrupted, and then somebody has set the endpoint.
        (host("10.0.0.11:6443", api_name=OLD, served=[OLD]), "", "10.0.0.11:6443", False),
        (host("10.0.0.11:6443", api_name=OLD, served=[OLD]), "10.0.0.11:6443", "10.0.0.11:6443", False),
        # The control plane has lost the name.
        (host(f"{OLD}:6443", served=[OLD]), "", f"{OLD}:6443", False),
        (UNREAD, "lb.example.org:6443", "", False),
    ],
)
def test_names_of_a_removed_cluster_are_stale(
    reading: dict[str, Any], given_endpoint: str, used: str, is_stale: bool
) -> None:
    choice = cluster_endpoint(reading, given_endpoint, "", "", LAB)
    worker = {"hosts_file": BLOCK, "cluster": {"endpoint": used}}
    assert endpoint_is_stale(worker, choice) == is_stale
    assert not endpoint_is_stale({**worker, "hosts_file": {"names": []}}, choice)
    assert not endpoint_is_stale({}, choice)


def test_name_of_the_cluster_in_a_report_comes_from_the_record() -> None:
    found = cluster_endpoint(UNREAD, "", "", "", LAB, record='{"name": "old"}')
    assert (found["name"], found["shown_name"], found["recorded_name"]) == ("old", "old", "old")


@given(st.text())
def test_every_name_of_an_inventory_becomes_a_dns_label(text: str) -> None:
    label = dns_label(text)
    assert 0 < len(label) <= 63 and not label.startswith("-") and not label.endswith("-")
    assert set(label) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") and dns_label(label) == label


class Unread(dict[str, Any]):
    """Variables of a host, which refer to facts that have not been read yet."""

    def __getitem__(self, name: str) -> Any:
        raise AnsibleUndefinedVariable("object of type 'dict' has no attribute 'default_ipv4'")


def test_addresses_of_control_planes_are_returned_as_far_as_they_are_known() -> None:
    hosts: dict[str, dict[str, Any]] = {
        "cp1": {"cluster_node_address": "10.0.0.11"},
        "cp2": {"ansible_facts": {"default_ipv4": {"address": "10.0.0.12"}}},
        "cp3": Unread(cluster_node_address="x"),
        "cp4": {"ansible_facts": {}},
        # A host reports its own facts.
        "cp6": {"ansible_facts": {"default_ipv4": {"address": "10.0.0.16:1\n  server x"}}},
        "cp7": {"ansible_facts": {"default_ipv4": {"address": "127.0.0.1"}}},
    }
    assert control_plane_addresses(["cp2", "cp1", "cp3", "cp4", "cp5", "cp6", "cp7"], hosts) == {
        "cp2": "10.0.0.12",
        "cp1": "10.0.0.11",
    }


def test_address_of_a_silent_control_plane_is_that_of_its_node() -> None:
    def node(host: str, *addresses: str, control_plane: bool = True) -> dict[str, Any]:
        return {"host": host, "addresses": [*addresses], "control_plane": control_plane}

    nodes = [
        node("cp1", "10.0.0.11"),
        node("cp2", "10.0.0.99"),
        node("cp3", "10.0.0.13\n  server x"),
        node("cp4"),
        # A worker may annotate its own node.
        node("cp5", "10.0.0.15", control_plane=False),
    ]
    hosts: dict[str, dict[str, Any]] = {name: {"preflight_host": {}} for name in ("cp1", "cp3", "cp4", "cp5")}
    hosts["cp2"] = {"cluster_node_address": "10.0.0.12", "preflight_host": {"control_plane": {"nodes": nodes}}}
    assert control_plane_addresses([*hosts], hosts) == {"cp1": "10.0.0.11", "cp2": "10.0.0.12"}


def test_the_kept_kubeconfig_prefers_the_first_control_plane_that_answers() -> None:
    hosts: dict[str, dict[str, Any]] = {"cp1": {"preflight_host": {}}, "cp2": {"preflight_host": {"cluster": {}}}}
    assert first_control_plane_read(["cp1", "cp2", "cp3"], hosts, "cp3") == "cp2"
    assert first_control_plane_read(["cp1", "cp3"], hosts, "cp3") == "cp3"
