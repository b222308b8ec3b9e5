# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.wandb import wandb_agent_kubeconfig, wandb_agent_plan

SOCKET = "/run/agent-images.sock"
DOCKER = {"type": "docker"}
HOST = {"name": "gpubox", "addresses": ["192.0.2.10", "10.244.0.1"], "version": "29.8.2", "plugins": ["buildx"]}
AGENT: dict[str, Any] = {
    "resource": "kubernetes",
    "name": "launch-agent",
    "place": "host",
    "host": "gpubox",
    "chart": "",
    "config": {"builder": DOCKER},
    "image": "docker.io/wandb/launch-agent:0.31.0",
    "user": "wandb-launch-agent-cluster",
    "directory": "/etc/wandb-launch-agent-cluster",
    "socket": SOCKET,
    "entity": "my-team",
    "max_jobs": -1,
    "env": {},
    "base_url": "https://api.wandb.ai",
    "ca_bundle": "",
    "http_proxy": "",
    "https_proxy": "",
}


def plan(agent: Any, nodes: Any, host: Any = None, **found: Any) -> dict[str, Any]:
    read = {"image_state": "unknown", "accounts": [], "slices": [], "nodes": nodes, **found}
    read["host"] = HOST if host is None else host
    return wandb_agent_plan({**AGENT, **agent}, [], read)


def node(address: str = "192.0.2.10", runtime: str = "containerd", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "minikube", "labels": labels},
        "status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": "minikube"}],
            "nodeInfo": {"containerRuntimeVersion": f"{runtime}://1.0"},
        },
    }


IN_DOCKER = {"minikube.k8s.io/name": "minikube"}


@pytest.mark.parametrize(
    ("nodes", "builder", "load"),
    [
        # Clusters of kubeadm, or of minikube with the driver none.
        ([node()], DOCKER, SOCKET),
        ([node()], {}, SOCKET),
        ([node(runtime="docker")], DOCKER, ""),
        # Clusters of minikube with the driver docker.
        ([node("192.168.49.2", "docker", **IN_DOCKER)], DOCKER, "docker exec --interactive minikube docker load"),
        (
            [node("192.168.49.2", **IN_DOCKER)],
            DOCKER,
            "docker exec --interactive minikube ctr --namespace k8s.io images import -",
        ),
        ([node(), node("192.0.2.11")], {"type": "noop"}, ""),
        ([node(), node("192.0.2.11")], {**DOCKER, "destination": "registry.example.org/jobs"}, ""),
    ],
)
def test_images_are_loaded_into_the_cluster(nodes: list[Any], builder: dict[str, str], load: str) -> None:
    found = plan({"config": {"builder": builder}}, nodes)
    assert (found["problems"], found["environment"].get("LAUNCH_AGENT_LOAD_IMAGES", "")) == ([], load)
    assert found["socket_state"] == ("present" if load == SOCKET else "absent")


@pytest.mark.parametrize(
    ("agent", "host", "nodes", "words"),
    [
        ({}, {}, [node()], "gpubox could not be read, or is not a host of this play"),
        ({}, {**HOST, "version": "", "plugins": []}, [node()], "Docker does not respond on gpubox: run gpulab"),
        ({}, {**HOST, "plugins": ["compose"]}, [node()], "Docker on gpubox has no buildx, which builds the images"),
        ({"user": "u" * 33}, HOST, [node()], "has more than 32 characters: shorten wandb_launch_name"),
        ({"chart": "/charts/launch-agent"}, HOST, [node()], "remove wandb_launch_chart_path"),
        ({}, HOST, [node(), node()], "would reach only one of 2 nodes: set wandb_launch_agent_config="),
        ({}, HOST, [node("192.0.2.11")], "the only node, minikube, is not gpubox"),
        ({}, HOST, [node(runtime="cri-o")], "can't be loaded into the container runtime of minikube (cri-o)"),
        ({}, HOST, [node("192.168.49.2", "cri-o", **IN_DOCKER)], "container runtime of minikube (cri-o)"),
        (
            {"config": {"builder": {**DOCKER, "destination": "localhost:5000/jobs"}}},
            HOST,
            [node()],
            "wandb can't push to localhost:5000/jobs: it takes no registry with a port",
        ),
    ],
)
def test_problems_of_the_host_are_reported(agent: Any, host: Any, nodes: Any, words: str) -> None:
    (problem,) = plan(agent, nodes, host)["problems"]
    assert words in problem


@pytest.mark.parametrize(
    ("place", "state", "names", "words"),
    [
        ("cluster", "found", [], ""),
        ("cluster", "unknown", [], ""),
        (
            "cluster",
            "missing",
            [],
            "wandb_launch_image to a tag that exists; or build the image from roles/wandb_launch/",
        ),
        ("cluster", "missing", ["a", AGENT["image"]], ""),
        ("host", "missing", [], ""),
    ],
)
def test_missing_image_is_reported_with_three_options(place: str, state: str, names: list[str], words: str) -> None:
    there = node()
    there["status"]["images"] = [{"names": names}, {}]
    said = plan({"place": place}, [there], image_state=state)["problems"]
    assert len(said) == bool(words)
    assert words in "".join(said) and (not words or "wandb_launch_agent_place=host" in said[0])


def test_image_on_a_node_is_found_by_its_tag() -> None:
    there = node()
    there["status"]["images"] = [{"names": [AGENT["image"]]}]
    pinned = f"{AGENT['image']}@sha256:{'0' * 64}"
    assert plan({"place": "cluster", "image": pinned}, [there], image_state="missing")["problems"] == []


def account(place: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {"gpulab.kubernetes/agent-place": place} if place else None}}


@pytest.mark.parametrize(
    ("place", "now", "words"),
    [
        ("cluster", None, ""),
        ("cluster", "cluster", ""),
        ("cluster", "gpubox", "-e wandb_launch_agent_place=host -e wandb_launch_agent_host=gpubox"),
        ("host", "gpubox", ""),
        ("host", None, "already runs in the cluster: remove it there first, with -e wandb_launch_state=absent"),
        ("host", "other", "already runs on other: remove it there first"),
    ],
)
def test_agent_in_another_place_must_be_removed_first(place: str, now: str | None, words: str) -> None:
    said = plan({"place": place}, [node()], accounts=[account(now)])["problems"]
    assert len(said) == bool(words)
    assert words in "".join(said)


SLICE = {"ports": [{"name": "https", "port": 6443}], "endpoints": [{"addresses": ["192.0.2.10"]}]}


def test_kubeconfig_has_a_token_and_no_client_certificate() -> None:
    token = base64.b64encode(b"secret").decode()
    text = wandb_agent_kubeconfig([{"data": {"token": token, "ca.crt": "Y2E="}}], [{"endpoints": None}, SLICE], "jobs")
    found = yaml.safe_load(text)
    (cluster,), (user,), (context,) = found["clusters"], found["users"], found["contexts"]
    assert cluster["cluster"] == {"server": "https://192.0.2.10:6443", "certificate-authority-data": "Y2E="}
    assert user["user"] == {"token": "secret"}
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"], "namespace": "jobs"}
    assert found["current-context"] == context["name"]


@pytest.mark.parametrize(
    ("secret", "slices"),
    [([], [SLICE]), ([{"data": {"ca.crt": "Y2E="}}], [SLICE]), ([{"data": {"token": "YQ==", "ca.crt": "Y2E="}}], [])],
)
def test_kubeconfig_requires_token_and_address(secret: Any, slices: Any) -> None:
    assert wandb_agent_kubeconfig(secret, slices, "default") == ""


def test_ipv6_address_is_in_brackets() -> None:
    slices = [{**SLICE, "endpoints": [{"addresses": ["fd00::1"]}]}]
    text = wandb_agent_kubeconfig([{"data": {"token": "YQ==", "ca.crt": "Y2E="}}], slices, "default")
    assert "https://[fd00::1]:6443" in text
