# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prevents the name of the API from leading to an API server on each node, found before anything changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_preflight_in_use import in_use
from test_preflight_problems import check

NAME = "api.lab.internal"
HOSTS: dict[str, Any] = {"name": NAME, "names": [], "elsewhere": [], "is_mount": False, "rewritten": False}
HOSTS |= {"has_template": True, "has_proxy": False}
API = {"port": 6443, "protocol": "tcp", "address": "127.0.0.1", "process": "haproxy", "pid": 77}


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({}, []),
        (
            {"elsewhere": ["192.0.2.7"]},
            [f"The name {NAME} resolves to 192.0.2.7", f"cluster_api_endpoint to {NAME}:6443"],
        ),
        ({"names": [NAME], "elsewhere": ["192.0.2.7"]}, ["resolves to 192.0.2.7"]),
        ({"name": "api.renamed.internal", "elsewhere": ["192.0.2.7"]}, []),
        ({"is_mount": True}, ["/etc/hosts is a mount of its own", "podman run --no-hosts"]),
        ({"is_mount": True, "names": [NAME]}, []),
        ({"rewritten": True}, []),
        ({"rewritten": True, "has_template": False}, ["cloud-init writes /etc/hosts at each boot", "99-hosts.cfg"]),
        ({"rewritten": True, "has_template": False, "names": [NAME]}, []),
    ],
)
def test_hosts_file_must_lead_the_name_to_the_host_itself(hosts: dict[str, Any], words: list[str]) -> None:
    changes = {"gpu1.facts.hosts_file": {**HOSTS, **hosts}}
    found = check(changes, api_name=NAME)
    assert [problem["host"] for problem in found] == ["gpu1"] * bool(words)
    for word in words:
        assert word in str(found[0])
    # A cluster with another endpoint needs nothing of it.
    assert check(changes) == []


@pytest.mark.parametrize(
    ("host", "program", "names", "has_proxy", "api_name", "in_the_way"),
    [
        ("gpu1", "nginx", [], False, NAME, True),
        ("gpu1", "nginx", [NAME], True, NAME, True),
        # A user's HAProxy, and the one that this collection has started before the worker joined.
        ("gpu1", "haproxy", [], False, NAME, True),
        ("gpu1", "haproxy", [NAME], False, NAME, True),
        ("gpu1", "haproxy", [NAME], True, NAME, False),
        ("gpu1", "haproxy", ["api.removed.internal"], True, NAME, False),
        # The worker has lost its block in /etc/hosts.
        ("gpu1", "haproxy", [], True, NAME, False),
        # A worker of a cluster with an address does not need the port, a control plane always does.
        ("gpu1", "nginx", [], False, "", False),
        ("cp1", "nginx", [], False, "", True),
        ("cp1", "haproxy", [NAME], True, NAME, True),
    ],
)
def test_port_of_the_api_must_be_free_on_workers_too(
    host: str, program: str, names: list[str], has_proxy: bool, api_name: str, in_the_way: bool
) -> None:
    changes = {
        f"{host}.facts.listeners": [{**API, "process": program}],
        f"{host}.facts.hosts_file": {**HOSTS, "names": names, "has_proxy": has_proxy},
    }
    found = check(changes, api_name=api_name)
    assert [problem["host"] for problem in found] == [host] * in_the_way
    assert not in_the_way or f"Port 6443/tcp is in use by {program}" in found[0]["what"]


def test_cluster_with_a_name_refuses_another_endpoint_and_has_nothing_to_copy() -> None:
    texts = {"ClusterConfiguration": f"controlPlaneEndpoint: {NAME}:6443\nimageRepository: registry.k8s.io\n"}
    assert check(in_use(texts=texts), cluster_api_endpoint=f"{NAME}:6443", api_name=NAME) == []
    (problem,) = check(in_use(texts=texts), cluster_api_endpoint="lb.example.org:6443", recorded_api_name=NAME)
    assert problem["kind"] == "cluster_setting_settled" and "answers" not in problem
    assert problem["do"] == "Remove cluster_api_endpoint: the endpoint of this cluster is cluster_api_name"


@pytest.mark.parametrize(
    ("endpoint", "api_name", "refused"),
    [
        (NAME, "", True),
        (f"{NAME}:6443", "", True),
        (f"API{NAME[3:]}:6443", "", True),
        # The endpoint that was chosen because it is the cluster's.
        (f"{NAME}:6443", NAME, False),
        ("192.168.7.11:6443", "", False),
    ],
)
def test_name_of_this_collection_is_no_endpoint_of_the_user(endpoint: str, api_name: str, refused: bool) -> None:
    found = check({}, cluster_api_endpoint=endpoint, api_name=api_name, recorded_api_name=NAME)
    assert [(problem["kind"], problem["do"]) for problem in found] == [
        ("api_endpoint_is_name", "Remove cluster_api_endpoint")
    ] * refused
    assert check({}, cluster_api_endpoint=endpoint, api_name=api_name) == []


@pytest.mark.parametrize(("wanted", "refused"), [("", False), ("lab", False), ("west", True)])
def test_cluster_keeps_the_name_that_it_was_created_with(wanted: str, refused: bool) -> None:
    found = check({}, cluster_name=wanted, recorded_name="lab")
    assert [problem["answers"] for problem in found] == [{"cluster_name": "lab"}] * refused
    assert check({}, cluster_name=wanted) == []


@pytest.mark.parametrize(("wanted", "refused"), [("", False), (NAME, False), ("k8s.example.org", True)])
def test_api_keeps_the_name_that_it_got_first(wanted: str, refused: bool) -> None:
    found = check({}, cluster_api_name=wanted, recorded_api_name=NAME)
    assert [problem["answers"] for problem in found] == [{"cluster_api_name": NAME}] * refused


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        ([{"name": "bind-address", "value": "10.0.0.11"}], True),
        ([{"name": "profiling", "value": "false"}, {"name": "bind-address", "value": "10.0.0.11"}], True),
        ({"bind-address": "10.0.0.11"}, True),
        ([{"name": "bind-address", "value": "0.0.0.0"}], False),
        ([{"name": "bind-address", "value": "::"}], False),
        ([{"name": "profiling", "value": "false"}, "x"], False),
        ([], False),
    ],
)
def test_api_server_must_listen_where_the_name_leads(arguments: Any, refused: bool) -> None:
    own = {"apiServer": {"extraArgs": arguments}}
    words = ["The API server listens only at 10.0.0.11"] * refused
    assert [problem["what"] for problem in check({}, cluster_configuration=own, api_name=NAME)] == words
    assert check({}, cluster_configuration=own) == []
    # That of an existing cluster, which a migration asks for.
    texts = {"ClusterConfiguration": json.dumps(own)}
    found = check(in_use(texts=texts), api_name=NAME)
    assert [problem["what"] for problem in found if problem["kind"] == "api_server_address"] == words


def test_name_that_only_looks_like_ours_can_be_kept_as_the_endpoint() -> None:
    texts = {"ClusterConfiguration": "controlPlaneEndpoint: api.prod.internal:6443\n"}
    (problem,) = check(in_use(texts=texts))
    assert problem["answers"] == {"cluster_api_endpoint": "api.prod.internal:6443"}
