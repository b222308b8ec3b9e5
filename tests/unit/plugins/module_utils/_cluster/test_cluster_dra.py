# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import dra, objects
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import ApiError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._training import judge
from dra_objects import by_name, by_template, claim, device, device_class, extended, made, pod, resource_slice, result
from hypothesis import given
from hypothesis import strategies as st

GPU0, GPU1 = result("gpu-0"), result("gpu-1", "other")
CHANNEL = result("channel-0", driver="compute-domain.nvidia.com")
FROM_NAME = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
REQUEST = {"request": "container-0-request-0"}


@pytest.mark.parametrize(
    ("pods", "claims", "want"),
    [
        ([pod("a", by_name("c"))], [claim("c", GPU0, pods=("a",))], {"team/a": 1}),
        ([pod("a", by_template(), **made("a-gpu-x"))], [claim("a-gpu-x", GPU0, pods=("a",))], {"team/a": 1}),
        ([pod("a", by_name("c"))], [claim("c", GPU0, GPU1, pods=("a",))], {"team/a": 2}),
        ([pod("a", by_name("c"))], [claim("c", result("gpu-0-mig-1g5gb-19-0"), pods=("a",))], {"team/a": 1}),
        ([pod("a", by_name("c"))], [claim("c", result("gpu-0", "gpu/first"), pods=("a",))], {"team/a": 1}),
        (
            [pod("a", by_name("c")), pod("b", by_name("c"))],
            [claim("c", GPU0, pods=("a", "b"))],
            {"team/a": 1, "team/b": 0},
        ),
        ([pod("a", by_name("c")), pod("b", by_name("c"))], [claim("c", GPU0, pods=("a",))], {"team/a": 1}),
        (
            [pod("a", by_name("c"), limits={objects.GPU: "1"})],
            [claim("c", GPU0, pods=("a",))],
            {"team/a": 2},
        ),
        (
            [pod("a", limits={objects.GPU: "1"}, **extended("a-extended", objects.GPU))],
            [claim("a-extended", result("gpu-0", REQUEST["request"]), pods=("a",))],
            {"team/a": 1},
        ),
        (
            [pod("a", limits={FROM_NAME: "1"}, **extended("a-extended", FROM_NAME))],
            [claim("a-extended", result("gpu-0", REQUEST["request"]), pods=("a",))],
            {"team/a": 1},
        ),
        (
            [pod("a", by_name("c"))],
            [
                {
                    **claim("c", GPU0),
                    "status": {
                        **claim("c", GPU0)["status"],
                        "reservedFor": [
                            {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "u"}
                        ],
                    },
                }
            ],
            {"team/a": 1},
        ),
        ([pod("a", by_name("c"))], [claim("c", pods=("a",))], {}),
        ([pod("a", by_name("c"))], [claim("c", GPU0, pods=("a",), namespace="other")], {}),
        ([pod("a", by_name("c"))], [claim("c", CHANNEL, pods=("a",))], {}),
        ([pod("a", by_name("c"))], [claim("c", result("cpu-0", driver="dra.cpu"), pods=("a",))], {}),
        ([pod("a", by_name("c"))], [claim("c", result("gpu-0", adminAccess=True), pods=("a",))], {}),
        ([pod("a", by_template(), **made(None))], [claim("c", GPU0)], {}),
        ([pod("a", by_name("c"), phase="Succeeded")], [claim("c", GPU0, pods=("a",))], {}),
        ([pod("a", by_name("c"), node="")], [claim("c", GPU0, pods=("a",))], {}),
    ],
    ids=[
        "claim",
        "template",
        "two devices",
        "MIG device",
        "subrequest",
        "shared claim",
        "not reserved for it",
        "resource and claim",
        "extended resource",
        "class as resource",
        "group of pods",
        "not allocated",
        "other namespace",
        "compute domain",
        "other driver",
        "admin access",
        "template without claim",
        "ended",
        "not scheduled",
    ],
)
def test_a_pod_holds_the_gpus_of_its_claims(pods: Any, claims: Any, want: dict[str, int]) -> None:
    found = objects.holders(pods, dra.parse_claims(claims))
    assert found.get("gpu1", {}) == want
    assert objects.holders(pods, dra.parse_claims(claims), "nvidia.com/gpu.shared") == {}


class Lists:
    """An API that responds with ``status``."""

    def __init__(self, items: list[Any], status: int = 200) -> None:
        self._items, self._status = items, status
        self.asked: list[str] = []

    def items(self, path: str, **_query: str) -> list[Any]:
        self.asked.append(path)
        if self._status != 200:
            raise ApiError("no", self._status)
        return self._items


def test_claims_are_only_read_if_a_pod_refers_to_one() -> None:
    lists = Lists([claim("c", GPU0, pods=("a",))])
    assert dra.read_claims(lists, [pod("b", limits={objects.GPU: "1"})]) == dra.NO_CLAIMS and not lists.asked
    assert dra.read_claims(lists, [pod("a", by_name("c"))]).found and lists.asked == [
        "/apis/resource.k8s.io/v1/resourceclaims"
    ]


def test_a_missing_claims_api_means_no_claims_and_a_refusal_is_an_error() -> None:
    assert dra.read_claims(Lists([], 404), [pod("a", by_name("c"))]) == dra.NO_CLAIMS
    with pytest.raises(ApiError):
        dra.read_claims(Lists([], 403), [pod("a", by_name("c"))])


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        (
            [resource_slice("gpu1", device("gpu-0"), device("gpu-1")), resource_slice("gpu2", device("gpu-0"))],
            {"gpu1": 2, "gpu2": 1},
        ),
        ([resource_slice("gpu1", device("gpu-0"), generation=1), resource_slice("gpu1", generation=2)], {}),
        ([resource_slice("gpu1", device("gpu-0"), driver="compute-domain.nvidia.com")], {}),
        ([resource_slice("gpu1", device("gpu-0"), driver="gpu.example.com")], {}),
        ([resource_slice("gpu1", sharedCounters=[{"name": "gpu-0"}])], {}),
        ([resource_slice("", device("gpu-0", nodeName="gpu3"), perDeviceNodeSelection=True)], {"gpu3": 1}),
        ([], {}),
    ],
    ids=["nodes", "outdated", "compute domain", "other vendor", "counters", "node of the device", "none"],
)
def test_nodes_that_offer_gpus_by_dra_are_found(slices: Any, want: dict[str, int]) -> None:
    assert dra.gpus_by_node(slices) == want


def test_device_classes_of_nvidia_are_recognized() -> None:
    classes = [
        device_class("gpu.nvidia.com", objects.GPU),
        device_class("mig.nvidia.com"),
        device_class("cpu", driver="dra.cpu"),
        device_class("team-gpu", "example.com/gpu"),
    ]
    wanted = {"gpu.nvidia.com": objects.GPU, "mig.nvidia.com": "", "team-gpu": "example.com/gpu"}
    assert dra.device_classes(classes) == wanted


@pytest.mark.parametrize(
    ("labels", "with_plugin", "want"),
    [
        ({}, [], []),
        ({}, ["gpu1"], ["gpu1"]),
        ({"gpulab.io/gpu": "true"}, [], ["gpu1"]),
        ({"gpulab.io/gpu": "false"}, [], []),
        ({"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.device-plugin": "false"}, [], []),
        ({"feature.node.kubernetes.io/pci-10de.present": "true"}, [], ["gpu1"]),
        ({"nvidia.com/gpu.deploy.device-plugin": "true"}, [], ["gpu1"]),
        ({"nvidia.com/gpu.deploy.device-plugin": "false"}, [], []),
        ({"nvidia.com/gpu.deploy.device-plugin": "false"}, ["gpu1"], ["gpu1"]),
        ({"nvidia.com/gpu.deploy.device-plugin": "paused-for-driver-upgrade"}, ["gpu2"], ["gpu1"]),
    ],
)
def test_a_device_plugin_would_run_on_each_node_that_matches_its_affinity(
    labels: dict[str, str], with_plugin: list[str], want: list[str]
) -> None:
    nodes = [{"metadata": {"name": "gpu1", "labels": labels}}, {"metadata": {"name": "gpu2"}}]
    assert dra.nodes_offered_twice({"gpu1": 2}, nodes, with_plugin) == want


def test_the_checked_labels_are_those_of_the_plugins_affinity() -> None:
    text = (Path(__file__).parents[5] / "roles/nvidia_device_plugin/templates/affinity.yml.j2").read_text()
    asked = re.search(r"for gpu in (\[.*?\])", text)
    assert asked
    for label in json.loads(asked[1].replace("'", '"')):
        assert dra.nodes_offered_twice({"gpu1": 1}, [{"metadata": {"name": "gpu1", "labels": {label: "true"}}}]) == [
            "gpu1"
        ]


@pytest.mark.parametrize("name", [["gpu"], {"a": 1}, None, 7])
def test_a_claim_without_a_name_is_accepted(name: Any) -> None:
    status = {"resourceClaimStatuses": [{"name": name, "resourceClaimName": "c"}]}
    odd = {**pod("a", {"name": name, "resourceClaimTemplateName": "t"}), "status": status}
    assert not dra.NO_CLAIMS.devices_of(odd)


def test_the_problem_names_nodes_class_and_two_remedies() -> None:
    problem = dra.twice_problem(["gpu2", "gpu1"], {"gpu.nvidia.com": objects.GPU, "mig.nvidia.com": ""})
    assert "gpu1, gpu2" in problem.what and "DeviceClass gpu.nvidia.com takes the name nvidia.com/gpu" in problem.what
    assert "resources.gpus.enabled=false" in problem.do
    assert "kubectl label node NODE nvidia.com/gpu.deploy.device-plugin=false" in problem.do
    assert "DeviceClass" not in dra.twice_problem(["gpu1"], {"mig.nvidia.com": ""}).what


def test_a_training_counts_gpus_of_claims_as_in_use() -> None:
    nodes = [
        {
            "metadata": {"name": "gpu1"},
            "spec": {},
            "status": {"allocatable": {objects.GPU: "2"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
    ]
    found = dra.parse_claims([claim("c", GPU0, pods=("a",))])
    enough, text = judge.room(judge.Wanted(1, 2), nodes, [pod("a", by_name("c"))], found)
    assert enough == 0 and "gpu1 1 of 2, held by team/a" in text


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["spec", "status", "metadata", "driver", "devices", "pool", "name", "allocation", "results", "labels"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(_ANYTHING, max_size=3))
def test_objects_of_any_form_are_accepted(items: list[Any]) -> None:
    dra.parse_claims(items)
    dra.device_classes(items)
    dra.nodes_offered_twice(dra.gpus_by_node(items), items)
