# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.wandb import wandb_launch_problems, wandb_queues

ONE_TO_FOUR = {"type": "integer", "default": 1, "minimum": 1, "maximum": 4}


def node(name: str, gpus: int = 0, cpu: str = "8", memory: str = "32Gi", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": more.get("labels")},
        "spec": {"taints": more.get("taints")},
        "status": {
            "capacity": {"nvidia.com/gpu": str(gpus), **more.get("has", {})},
            "allocatable": {"cpu": cpu, "memory": memory},
        },
    }


TAINT = {"key": "pool", "value": "a", "effect": "NoSchedule"}
CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
SOFT = {"key": "soft", "effect": "PreferNoSchedule"}
MIG = "nvidia.com/mig-3g.20gb"
NODES = [
    node("a", 4, labels={"pool": "a"}),
    node("b", 8, "15900m", "66060288Ki", labels={}, taints=[CORDON, SOFT], has={MIG: "2", "down.example.com/nic": "0"}),
    {"metadata": {"name": "c"}, "status": {}},
    node("d", 16, "64", "1Ti", labels={"pool": "d"}, taints=[TAINT]),
]
NAMESPACES = [{"metadata": {"name": "default"}}]
CLAIMS = [{"metadata": {"name": "cache", "namespace": "default"}}]


def found(*settings: dict[str, Any], absent: Any = (), cluster: bool = True, docker: Any = None) -> list[str]:
    queues = wandb_queues(settings, "default", [])
    read: Any = (NODES, NAMESPACES, CLAIMS) if cluster else (None, (), ())
    return wandb_launch_problems(*(queues, list(absent), "wandb", *read, docker))


def requests(gpus: Any, **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"nvidia.com/gpu": gpus}}, **more}


def pods(**spec: Any) -> dict[str, Any]:
    return {"spec": {"template": {"spec": spec}}}


def huge_pages(requested: str, limit: str) -> dict[str, Any]:
    return {"resources": {"requests": {"hugepages-2Mi": requested}, "limits": {"hugepages-2Mi": limit}}}


def limits(amounts: dict[Any, Any]) -> dict[str, Any]:
    return {"resources": {"limits": amounts}}


SIDECAR = requests(1, restartPolicy="Always")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({}, ""),
        ({"variables": {"gpus": ONE_TO_FOUR}, "volumes": {"/cache": "cache"}}, ""),
        ({"name": "n" * 65}, "1 to 64 characters"),
        ({"resource_args": {"spec": {"template": {"spec": {"hostNetwork": True}}}}}, "refuses spec.template.spec.host"),
        ({"type": "local-container", "resource_args": {"privileged": True}}, "the launch agent refuses privileged"),
        ({"variables": {"size": ONE_TO_FOUR}}, "nothing uses the variable size: remove it, or put {{size}} into"),
        ({"resource_args": {"metadata": {"labels": {"a": "{{ b }}"}}}}, "{{b}} is not one of its variables"),
        ({"variables": {"gpus": {"default": 1}}}, "the variable gpus needs a type: integer, number, string"),
        ({"variables": {"gpus": {"type": "integer", "default": "1"}}}, "default of the variable gpus must be of its"),
        ({"variables": {"gpus": {"type": "integer", "maximum": True}}}, "maximum of the variable gpus must be of its"),
        ({"variables": {"gpus": {**ONE_TO_FOUR, "minimum": 5}}}, "greater than its maximum"),
        ({"variables": {"gpus": {**ONE_TO_FOUR, "default": 5}}}, "is not between its minimum and maximum"),
        ({"variables": {"memory": {"type": "string", "default": "1Gi"}}}, ""),
        ({"namespace": "team"}, "there is no namespace team: create it"),
        ({"namespace": "wandb"}, ""),
        ({"volumes": {"/cache": "other"}}, "-e nfs_cache_namespace=default -e nfs_cache_claim=other"),
        ({"namespace": "wandb", "volumes": {"/cache": "cache"}}, "the namespace wandb has no claim cache"),
        ({"gpus": 9}, "may request 9 GPUs, but no node on which they may run has more than 8"),
        ({"gpus": 8}, ""),
        ({"gpus": 8, "node_selector": {"pool": "a"}}, "no node on which they may run has more than 4"),
        ({"variables": {"gpus": {**ONE_TO_FOUR, "maximum": 16}}}, "may request 16 GPUs"),
        ({"variables": {"gpus": {"type": "integer", "default": 1}}}, "the variable gpus has no maximum"),
        ({"variables": {"gpus": {"type": "integer", "enum": [1, 2, 4]}}}, ""),
        ({"variables": {"gpus": {"type": "integer", "enum": [1, 2, 16]}}}, "may request 16 GPUs"),
        ({"variables": {"gpus": {"type": "integer", "enum": [1, 2, 4], "default": 3}}}, "3, is not one of its enum"),
        ({"variables": {"gpus": {**ONE_TO_FOUR, "enum": [1, 8]}}}, "enum of the variable gpus has 8, which is not"),
        ({"variables": {"gpus": {"type": "integer", "enum": ["1"]}}}, "enum of the variable gpus must have values"),
        ({"variables": {"gpus": {"type": "integer", "enum": []}}}, "must be a list of values"),
        ({"cpu": "15900m", "memory": "63Gi"}, ""),
        ({"cpu": "64"}, "may request 64 CPUs, but no node on which they may run has more than 15.9: lower cpu"),
        ({"memory": "900Gi"}, "may request 900Gi of memory, but no node on which they may run has more than 63Gi"),
        ({"variables": {"memory": {"type": "string", "enum": ["1Gi", "99Gi"]}}}, "may request 99Gi of memory"),
        ({"variables": {"cpu": {"type": "number", "maximum": 99.5}}}, "may request 99.5 CPUs"),
        (
            {
                "variables": {"size": {"type": "integer", "maximum": 99}},
                "resource_args": {
                    "spec": {
                        "template": {"spec": {"containers": [{"resources": {"limits": {"memory": "{{size}}Gi"}}}]}}
                    }
                },
            },
            "may request 99Gi of memory",
        ),
        ({"resource_args": pods(containers=[requests(4), requests(4)])}, ""),
        ({"resource_args": pods(containers=[requests(5), requests(4)])}, "its jobs may request 9 GPUs"),
        ({"resource_args": pods(containers=[requests(8)], initContainers=[requests(8), requests(8)])}, ""),
        (
            {"resource_args": pods(containers=[requests(1)], initContainers=[requests(9)])},
            "its jobs may request 9 GPUs",
        ),
        # A sidecar runs next to the main containers and to the init containers after it.
        ({"resource_args": pods(containers=[requests(8)], initContainers=[SIDECAR])}, "its jobs may request 9 GPUs"),
        (
            {"resource_args": pods(containers=[requests(1)], initContainers=[SIDECAR, requests(8)])},
            "its jobs may request 9 GPUs",
        ),
        ({"resource_args": pods(containers=[requests(1)], initContainers=[requests(8), SIDECAR])}, ""),
        ({"resource_args": pods(containers=[{}], resources={"requests": {"memory": "900Gi"}})}, "may request 900Gi of"),
        (
            {"resource_args": pods(containers=[{"resources": {"requests": {"nvidia.com/gpu": 8}}}])},
            "spec.template.spec.containers[0] requests 8 nvidia.com/gpu without the same limit, which the API refuses",
        ),
        (
            {
                "resource_args": pods(
                    containers=[{"resources": {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}}]
                )
            },
            "requests 1 nvidia.com/gpu without the same limit",
        ),
        (
            {
                "resource_args": pods(
                    containers=[{"resources": {"requests": {"nvidia.com/gpu": 2}, "limits": {"nvidia.com/gpu": "2"}}}]
                )
            },
            "",
        ),
        ({"resource_args": pods(containers=[huge_pages("1Gi", "1024Mi")])}, ""),
        (
            {"resource_args": pods(containers=[huge_pages("1Gi", "1000Mi")])},
            "requests 1Gi hugepages-2Mi without the same limit",
        ),
        (
            {
                "variables": {"gpus": ONE_TO_FOUR},
                "resource_args": pods(containers=[huge_pages("{{gpus}}Gi", "{{gpus}}Gi")]),
            },
            "",
        ),
        ({"resource_args": pods(containers=[limits({MIG: 2})])}, ""),
        ({"resource_args": pods(containers=[limits({MIG: 3})])}, f"may request 3 {MIG}, but no node on which they may"),
        # A node without the label has this resource.
        (
            {"node_selector": {"pool": "a"}, "resource_args": pods(containers=[limits({MIG: 1})])},
            f"may request 1 {MIG}, but no node on which they may run has more than 0",
        ),
        # No node has the resource: DRA may offer it, or its plugin isn't installed yet.
        ({"resource_args": pods(containers=[limits({"nvidia.com/mig-1g.5gb": 1})])}, ""),
        ({"resource_args": pods(containers=[limits({"example.com/nic": 4})])}, ""),
        ({"resource_args": pods(containers=[limits({"down.example.com/nic": 4})])}, ""),
        ({"resource_args": pods(containers=[limits({1: 4, None: 1, "cpu": "64"})])}, "may request 64 CPUs"),
        (
            {"resource_args": pods(containers=[{"resources": {"requests": {7: 1}, "limits": {7: 1}}}])},
            "",
        ),
        (
            {
                "variables": {"count": {"type": "integer", "default": 1}},
                "resource_args": pods(containers=[{}], initContainers=[requests("{{count}}")]),
            },
            "the variable count has no maximum",
        ),
        ({"gpus": 4, "cpu": "10", "node_selector": {"pool": "a"}}, "may request 10 CPUs"),
        ({"node_selector": {"pool": "no"}}, "no node has the labels of node_selector"),
        ({"node_selector": {"pool": "d"}}, "do not tolerate pool=a:NoSchedule, which every node"),
        ({"gpus": 16, "tolerations": [{"key": "pool", "operator": "Exists"}]}, ""),
        ({"gpus": 16, "tolerations": [{"operator": "Exists"}]}, ""),
        ({"gpus": 16, "tolerations": [{"key": "pool", "value": "a", "effect": "NoSchedule"}]}, ""),
        ({"gpus": 16, "tolerations": [{"key": "pool", "value": "b"}]}, "may request 16 GPUs"),
        ({"gpus": 16, "tolerations": [{"key": "pool", "value": "a", "effect": "NoExecute"}]}, "may request 16 GPUs"),
    ],
)
def test_problems_of_a_queue_are_reported(setting: dict[str, Any], words: str) -> None:
    said = found({"name": "q", **setting})
    assert len(said) == bool(words)
    assert words in "".join(said)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"gpus": 2, "memory": "8Gi", "shared_memory": "1Gi", "env": {"A": "1"}}, ""),
        ({"gpus": 3}, "its jobs may request 3 GPUs, but this host has 2"),
        ({"variables": {"gpus": ONE_TO_FOUR}}, "its jobs may request 4 GPUs, but this host has 2"),
        ({"resource_args": {"gpus": "all"}}, ""),
        ({"resource_args": {"volume": "/:/host"}}, "the launch agent refuses volume: only command, cpu"),
        ({"volumes": {"/cache": "cache"}}, "volumes has an effect only on a cluster: remove it"),
        ({"node_selector": {"a": "b"}}, "node_selector has an effect only on a cluster"),
        ({"type": "kubernetes", "gpus": 8, "volumes": {"/cache": "no"}}, ""),
    ],
)
def test_jobs_that_a_docker_host_cannot_run_are_reported(setting: dict[str, Any], words: str) -> None:
    said = found({"name": "q", "type": "local-container", **setting}, cluster=False, docker={"version": "1", "gpus": 2})
    assert len(said) == bool(words)
    assert words in "".join(said)


def test_all_requested_resources_must_fit_one_node() -> None:
    cluster = [node("gpus", 4, "4"), node("cpus", 0, "32")]
    queues = wandb_queues([{"name": "q", "gpus": 2, "cpu": "16"}], "default", [])
    (said,) = wandb_launch_problems(queues, [], "wandb", cluster, NAMESPACES, [], None)
    assert "its jobs may request 2 GPUs, 16 CPUs, but no node on which they may run has all of that" in said


def test_missing_docker_is_reported_with_its_playbook() -> None:
    (said,) = found(cluster=False, docker={"version": "", "gpus": 2})
    assert "run gpulab.kubernetes.docker first" in said


def test_only_the_queue_is_checked_without_a_cluster() -> None:
    assert found({"name": "q", "gpus": 99, "volumes": {"/a": "b"}, "namespace": "c"}, cluster=False) == []


def test_all_problems_and_duplicate_names_are_reported_together() -> None:
    said = found({"name": "a", "gpus": 9, "namespace": "c"}, {"name": "b"}, {"name": "b"}, absent=["a"])
    assert len(said) == 4
    assert "the queue a is named 2 times" in said[0]


# Position of the pod in resources other than Jobs.
OTHERS: dict[str, Any] = {
    "Pod": lambda pod: {"kind": "Pod", "spec": pod},
    "CronJob": lambda pod: {"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}},
    "PyTorchJob": lambda pod: {
        "kind": "PyTorchJob",
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": pod}}}},
    },
    "Volcano": lambda pod: {"kind": "Job", "spec": {"tasks": [{"replicas": 2, "template": {"spec": pod}}]}},
    "RayCluster": lambda pod: {"kind": "RayCluster", "spec": {"headGroupSpec": {"template": {"spec": pod}}}},
}


def launched(arguments: dict[str, Any]) -> list[str]:
    """Return the problems of a queue with only these resource arguments."""
    (queue,) = wandb_queues([{"name": "q"}], "default", [])
    queue = {**queue, "resource_args": {"metadata": {"namespace": "default"}, **arguments}}
    return wandb_launch_problems([queue], [], "wandb", NODES, NAMESPACES, CLAIMS, None)


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize(
    ("pod", "words"),
    [
        ({"containers": [requests(4), requests(4)]}, ""),
        ({"containers": [requests(4), requests(5)]}, "its jobs may request 9 GPUs"),
        ({"containers": [requests(8)], "nodeSelector": {"pool": "a"}}, "has more than 4"),
        ({"containers": [{"resources": {"requests": {"nvidia.com/gpu": 1}}}]}, "without the same limit"),
        ({"containers": [{}], "volumes": [{"persistentVolumeClaim": {"claimName": "no"}}]}, "has no claim no"),
    ],
)
def test_pods_are_found_in_every_kind_of_resource(kind: str, pod: dict[str, Any], words: str) -> None:
    said = launched(OTHERS[kind](pod))
    assert len(said) == bool(words)
    assert words in "".join(said)


def test_problems_name_the_template_of_the_pod() -> None:
    roles = {"Master": requests(9), "Worker": requests(1)}
    specs = {name: {"template": {"spec": {"containers": [each]}}} for name, each in roles.items()}
    (said,) = launched({"spec": {"pytorchReplicaSpecs": specs}})
    assert "its pods of spec.pytorchReplicaSpecs.Master.template.spec may request 9 GPUs" in said
