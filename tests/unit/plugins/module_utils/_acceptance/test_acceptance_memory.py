# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, cast

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import memory
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.memory import Memory, config_map_name
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.summary import problems, summary
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import (
    Gpu,
    Host,
    Target,
    still_connected,
    still_proven,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.verdict import kept_entry, whole
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError
from apiserver import ApiServer
from damaged import damaged_json
from hypothesis import given
from hypothesis import strategies as some

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
OUTPUT = "Copy input data from the host memory to the CUDA device\nTest PASSED\nDone"
NODE_NAMES = some.from_regex(
    r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,4}", fullmatch=True
)


def entry(gpus: int = 2, **changes: Any) -> dict[str, Any]:
    devices = [
        {"uuid": f"GPU-{n}", "name": "Tesla T4", "state": "proven", "pod": f"gpu-{n}", "check_output": OUTPUT}
        for n in range(gpus)
    ]
    return {
        "fingerprint": "f" * 64,
        "proven_at": "2026-11-21T04:00:00Z",
        "devices": devices,
        "pods": gpus,
        "isolation": {"ok": True, "saw": []},
        "problems": [],
        "known": {device["uuid"]: device["name"] for device in devices},
        "known_count": gpus,
        **changes,
    }


def network(*nodes: str) -> dict[str, Any]:
    dials = [{"from": here, "to": there, "ok": True} for here in nodes for there in nodes if here != there]
    return {"pod_to_pod": dials, "service": True, "dns": True, "problems": [], "nodes": [f"u b-{n}" for n in nodes]}


def former(**hosts: dict[str, Any]) -> dict[str, Any]:
    """Return the report as earlier versions stored it."""
    raw = {
        name: {
            **{key: value for key, value in each.items() if key not in ("pods", "known", "known_count")},
            "gpus": {"proven": 2},
        }
        for name, each in hosts.items()
    }
    return {"generated": "now", "hosts": raw, "network": network(*hosts)}


class Stored:
    """A fake API with ConfigMaps, which can fail on requests that write."""

    def __init__(self, config_maps: dict[str, Any] | None = None, error: ApiError | None = None) -> None:
        self.config_maps, self.error = dict(config_maps or {}), error
        self.asked = 0

    def items(self, path: str, **query: str) -> list[Any]:
        assert path == CONFIG_MAPS and "app.kubernetes.io/part-of=acceptance" in query["labelSelector"]
        return list(self.config_maps.values())

    def apply(self, path: str, body: Any) -> None:
        self.asked += 1
        if self.error:
            raise self.error
        self.config_maps[path.rpartition("/")[2]] = body

    def delete(self, path: str) -> None:
        del self.config_maps[path.rpartition("/")[2]]


def remember(api: Any, uids: dict[str, str]) -> Memory:
    return Memory(cast(Api, api), uids)


def stored(name: str, key: str, content: Any, uid: str = "") -> dict[str, Any]:
    text = content if isinstance(content, str) else json.dumps(content)
    owners = {"ownerReferences": [{"kind": "Node", "uid": uid}]} if uid else {}
    return {name: {"metadata": {"name": name, **owners}, "data": {key: text}}}


@given(NODE_NAMES)
def test_the_config_map_of_a_node_has_a_valid_name(node: str) -> None:
    name = config_map_name(node[:253].rstrip(".-"))
    assert len(name) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", name)


def test_nodes_with_long_names_that_differ_at_the_end_have_separate_config_maps() -> None:
    long = ".".join(["a" * 60] * 4)
    assert config_map_name(f"{long}.b") != config_map_name(f"{long}.c")
    assert config_map_name("gpu1") == "gpulab-acceptance.gpu1"


def test_each_node_owns_a_config_map_that_is_only_written_on_changes() -> None:
    api, uids = Stored(), {"gpu1": "u1", "gpu2": "u2"}
    first = remember(api, uids)
    changes = first.changes({"gpu1": entry(), "gpu2": entry(), "not-joined": entry()}, network("gpu1", "gpu2"))
    assert first.save(changes) and not first.warnings
    assert sorted(api.config_maps) == ["gpulab-acceptance-network", "gpulab-acceptance.gpu1", "gpulab-acceptance.gpu2"]
    [owner] = api.config_maps["gpulab-acceptance.gpu2"]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": "gpu2", "uid": "u2"}
    second = remember(api, uids)
    assert (second.entry("gpu1"), second.network) == (entry(), network("gpu1", "gpu2"))
    assert second.changes({"gpu1": second.entry("gpu1"), "gpu2": second.entry("gpu2")}, second.network) == []
    [changed] = second.changes({"gpu1": entry(pods=1), "gpu2": entry()}, network("gpu1", "gpu2"))
    assert changed["metadata"]["name"] == "gpulab-acceptance.gpu1"
    assert remember(api, {**uids, "gpu1": "another node of this name"}).entry("gpu1") == {}


def test_the_record_of_earlier_versions_is_split_by_node_and_deleted() -> None:
    api = Stored(stored("gpulab-acceptance", "report", former(gpu1=entry(), gpu2=entry(), gone=entry())))
    uids = {"gpu1": "u1", "gpu2": "u2"}
    first = remember(api, uids)
    assert (first.entry("gpu2"), first.network) == (entry(), network("gpu1", "gpu2", "gone"))
    assert first.save(first.changes({"gpu1": first.entry("gpu1")}, first.network))
    assert sorted(api.config_maps) == ["gpulab-acceptance-network", "gpulab-acceptance.gpu1", "gpulab-acceptance.gpu2"]
    assert (remember(api, uids).entry("gpu2"), first.warnings) == (entry(), [])


def test_the_record_of_earlier_versions_stays_until_all_of_it_is_stored() -> None:
    api = Stored(stored("gpulab-acceptance", "report", former(gpu1=entry())), ApiError("refused", 422))
    first = remember(api, {"gpu1": "u1"})
    assert not first.save(first.changes({}, first.network))
    assert list(api.config_maps) == ["gpulab-acceptance"]


@pytest.mark.parametrize(("status", "asked"), [(0, 1), (403, 1), (503, 1), (413, 9), (422, 9)])
def test_write_errors_are_reported_in_one_warning(status: int, asked: int) -> None:
    uids = {f"gpu{n}": f"u{n}" for n in range(8)}
    api = Stored(error=ApiError("Error while asking the API: no", status))
    found = remember(api, uids)
    assert not found.save(found.changes(dict.fromkeys(uids, entry()), network("gpu1")))
    [warning] = found.warnings
    assert "could not be stored in the ConfigMap kube-system/gpulab-acceptance" in warning
    assert "and 8 others" in warning and "The report is complete. Error while asking the API: no" in warning
    # Requests of parallel connections may already be in flight.
    assert api.asked == asked or (asked == 1 and api.asked <= memory._CONNECTIONS)


def test_data_beyond_the_size_limits_is_a_warning_and_long_texts_are_shortened() -> None:
    found = remember(Stored(), {"gpu1": "u1"})
    assert found.changes({"gpu1": entry(gpus=129)}, {}) == []
    assert found.warnings == [
        "The verification is not stored in the ConfigMap kube-system/gpulab-acceptance.gpu1: devices is not a list of "
        "at most 128."
    ]
    long = entry(gpus=128)
    for device in long["devices"]:
        device["check_output"] = device["pod"] = "x" * 10**6
    long["problems"] = [{"cause": "x" * 10**6}] * 10**4
    [body] = found.changes({"gpu1": long}, {})
    assert len(json.dumps(body)) < 1024 * 1024


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "it is not valid JSON"),
        ("[" * 100_000, "it is not valid JSON"),
        ([], "a part is not an object"),
        ({**entry(), "format": 2}, "its format is not 1"),
        ({**entry(), "format": 1, "pods": "2"}, "pods is not a number of at most 100000"),
        ({**entry(), "format": 1, "devices": {}}, "devices is not a list of at most 128"),
        ({**entry(), "format": 1, "devices": [{"state": "fine"}]}, "the state of a device is not known"),
        ({**entry(), "format": 1, "fingerprint": None}, "fingerprint is not a text"),
        ({**entry(), "format": 1, "isolation": {"ok": 1, "saw": []}}, "ok is neither true nor false"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 50 else "",
)
def test_a_record_of_an_unknown_form_is_reported_with_its_name(content: Any, why: str) -> None:
    found = remember(Stored(stored("gpulab-acceptance.gpu1", "verification", content, "u1")), {"gpu1": "u1"})
    assert found.entry("gpu1") == {}
    assert found.warnings == [
        "The ConfigMap kube-system/gpulab-acceptance.gpu1 is not readable as a verification of this version "
        f"({why}), so the GPUs of gpu1 are verified again."
    ]


BAD = [{"uuid": "GPU-1", "name": "T4", "state": "missing", "kind": "pod_failed", "reason": "x"}]
TROUBLED = entry(devices=BAD, problems=[{"host": "gpu1", "gpu": "GPU-1", "cause": "x"}])


@given(
    damaged_json(json.dumps({**entry(), "format": 1})) | damaged_json(json.dumps({**TROUBLED, "format": 1})),
    damaged_json(json.dumps({**network("gpu1", "gpu2"), "format": 1})),
    damaged_json(json.dumps(former(gpu1=entry(), gpu2=TROUBLED))),
    some.sampled_from([None, [], "x", [{}], [{"uid": "u1"}]]),
)
def test_any_stored_data_is_read_or_reported(own: str, pods: str, old: str, owners: Any) -> None:
    config_maps = {
        **stored("gpulab-acceptance.gpu1", "verification", own, "u1"),
        **stored("gpulab-acceptance-network", "verification", pods),
        **stored("gpulab-acceptance", "report", old),
    }
    if owners is not None:
        config_maps["gpulab-acceptance.gpu1"]["metadata"]["ownerReferences"] = owners
    found = remember(Stored(config_maps), {"gpu1": "u1"})
    host = Host("gpu1", (Gpu("GPU-0", "T4"),), 1, physical=(Gpu("GPU-0", "T4"),))
    target = Target(host, {"metadata": {"uid": "u1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    known = found.entry("gpu1")
    still_proven(target, known, "check:1")
    still_connected([target], found.network)
    if known:
        report = whole(
            {"gpu1": kept_entry(target, known)}, {**found.network, "kept": True} if found.network else {}, {}, "now"
        )
        assert summary(report) and isinstance(problems(report), list)
        json.dumps(report).encode()
    found.changes({"gpu1": known}, found.network)
    assert all(warning.startswith("The ConfigMap kube-system/gpulab-acceptance") for warning in found.warnings)


def test_hundreds_of_nodes_are_written_in_parallel_and_read_in_pages(api: ApiServer, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(api.authority.kubeconfig(api.url))
    api.answers[CONFIG_MAPS] = (200, {"items": []})
    uids = {f"gpu{n}": f"u{n}" for n in range(300)}
    first = remember(Api(str(kubeconfig)), uids)
    assert first.save(first.changes(dict.fromkeys(uids, entry(gpus=8)), network(*list(uids)[:30])))
    assert len(api.written) == 301
    selector = (
        "labelSelector=app.kubernetes.io%2Fmanaged-by%3Dgpulab.kubernetes%2Capp.kubernetes.io%2Fpart-of%3Dacceptance"
    )
    for number in range(3):
        token, more = (f"&continue={number}" if number else ""), ({"continue": str(number + 1)} if number < 2 else {})
        page = [body for _method, _path, body in api.written[number * 101 :][:101]]
        api.answers[f"{CONFIG_MAPS}?{selector}&limit=500{token}"] = (200, {"metadata": more, "items": page})
    began = time.monotonic()
    second = remember(Api(str(kubeconfig)), uids)
    assert all(second.entry(node) == entry(gpus=8) for node in uids)
    assert time.monotonic() - began < 2
    assert second.network == network(*list(uids)[:30])
