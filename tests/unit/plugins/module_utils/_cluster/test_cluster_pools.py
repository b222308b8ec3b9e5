# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.pools import (
    ANNOTATION,
    Wanted,
    contested,
    homeless,
    ignored,
    malformed,
    plan,
    problems,
    wanted,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from hypothesis import given
from hypothesis import strategies as some

Json = dict[str, Any]
GPU = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OTHER = {"key": "team", "value": "x", "effect": "NoExecute"}
CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}


def node(labels: Json | None = None, taints: list[Json] | None = None, own: Json | None = None) -> Json:
    annotations = {ANNOTATION: json.dumps(own)} if own else {}
    metadata = {"name": "gpu1", "labels": labels or {}, "annotations": annotations, "resourceVersion": "7"}
    return {"metadata": metadata, "spec": {"taints": taints or []}}


def patched(node: Json, patch: Json) -> Json:
    """Return the node after a merge patch, like the API."""
    metadata = {**node["metadata"]}
    for kind in ("labels", "annotations"):
        changed = {**metadata[kind], **patch.get("metadata", {}).get(kind, {})}
        metadata[kind] = {key: value for key, value in changed.items() if value is not None}
    return {"metadata": metadata, "spec": {"taints": (patch.get("spec") or node["spec"])["taints"]}}


def state(node: Json) -> tuple[Json, list[Json]]:
    return node["metadata"]["labels"], node["spec"]["taints"]


OURS = {"labels": {"gpulab.io/pool": "a"}, "taints": [GPU]}
POOL = {"gpulab.io/pool": "a"}


@pytest.mark.parametrize(
    ("before", "labels", "taints", "after"),
    [
        (node(), {}, [], ({}, [])),
        (node(), POOL, [GPU], (POOL, [GPU])),
        (node({"x": "1"}, [OTHER]), POOL, [GPU], ({"x": "1", **POOL}, [OTHER, GPU])),
        # Labels of a former declaration are removed, unmanaged ones are kept.
        (node({"x": "1", **POOL}, [OTHER, GPU], OURS), {}, [], ({"x": "1"}, [OTHER])),
        (node(POOL, [GPU], OURS), {"gpulab.io/pool": "b"}, [GPU], ({"gpulab.io/pool": "b"}, [GPU])),
        (node(POOL, [GPU], OURS), POOL, [{**GPU, "value": "b"}], (POOL, [{**GPU, "value": "b"}])),
        # Removed labels are restored. Changed ones are restored too, or count as unmanaged once no longer declared.
        (node({}, [], OURS), POOL, [GPU], (POOL, [GPU])),
        (node({"gpulab.io/pool": "theirs"}, [{**GPU, "value": "theirs"}], OURS), {}, [],
         ({"gpulab.io/pool": "theirs"}, [{**GPU, "value": "theirs"}])),
    ],
)  # fmt: skip
def test_a_node_gets_what_is_declared_and_a_second_run_changes_nothing(
    before: Json, labels: Json, taints: list[Json], after: Any
) -> None:
    want = wanted(labels, taints)
    found = patched(before, plan(before, want).patch)
    assert state(found) == after
    assert plan(found, want).patch == {}
    assert state(patched(found, plan(found, Wanted()).patch)) == state(patched(before, plan(before, Wanted()).patch))


def test_existing_labels_stay_when_they_are_no_longer_declared() -> None:
    before = node(POOL, [GPU])
    want = wanted(POOL, [GPU])
    assert plan(before, want).patch == {}
    assert plan(before, Wanted()).patch == {}


def test_a_patch_of_taints_does_not_undo_a_simultaneous_change() -> None:
    assert plan(node(), wanted({}, [GPU])).patch["metadata"]["resourceVersion"] == "7"


def test_an_unreadable_record_claims_nothing() -> None:
    for record in ("{", "[]", '{"taints": [1]}', '{"labels": 1}'):
        broken = node(POOL, [GPU])
        broken["metadata"]["annotations"] = {ANNOTATION: record}
        assert state(patched(broken, plan(broken, Wanted()).patch)) == (POOL, [GPU])


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("node-restriction.kubernetes.io/tenant", "b"),
        ("node-role.kubernetes.io/control-plane", ""),
        ("kubernetes.io/hostname", "gpu1"),
        ("topology.k8s.io/zone", "a"),
        ("nvidia.com/gpu.count", "8"),
    ],
)
def test_a_record_cannot_remove_labels_that_pools_never_set(label: str, value: str) -> None:
    before = node({label: value, **POOL}, [], {"labels": {label: value, **POOL}, "taints": []})
    assert state(patched(before, plan(before, Wanted()).patch)) == ({label: value}, [])
    assert ignored(before) == [f"claims the label '{label}', which pools can't set"]


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "compromised", "value": "true", "effect": "NoExecute"},
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ],
)
def test_a_record_cannot_remove_taints_that_pools_never_set(taint: Json) -> None:
    before = node({}, [taint, GPU], {"labels": {}, "taints": [taint, GPU]})
    assert state(patched(before, plan(before, Wanted()).patch)) == ({}, [taint])
    assert ignored(before) == [f"claims the taint '{taint['key']}:{taint['effect']}', which pools can't set"]


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("{", "is damaged"),
        ("[" * 50_000, "is damaged"),
        ('{"labels": null}', "is damaged"),
        ('{"labels": {"gpulab.io/pool": "a"}, "annotations": {}}', "has fields that this version"),
    ],
)
def test_a_damaged_or_newer_record_of_a_pool_is_reported(record: str, words: str) -> None:
    broken = node(POOL)
    broken["metadata"]["annotations"] = {ANNOTATION: record}
    assert [words in each for each in ignored(broken)] == [True]
    assert state(patched(broken, plan(broken, Wanted()).patch)) == (POOL, [])


@pytest.mark.parametrize(
    ("labels", "taints", "words"),
    [
        ({"node-role.kubernetes.io/control-plane": ""}, [], "feature discovery itself"),
        ({"a b": "1"}, [], "has a key that Kubernetes does not accept"),
        ({"a": "b c"}, [], "has a value that Kubernetes does not accept: 'b c'"),
        ({"a": "x" * 64}, [], "has a value"),
        ({"nvidia.com/gpu.product": "T4"}, [], "feature discovery itself"),
        ({"feature.node.kubernetes.io/pci": "1"}, [], "feature discovery itself"),
        ({"kubernetes.io/os": "linux"}, [], "feature discovery itself"),
        ({}, [{"key": "a", "effect": "NoExecute"}], "ends running pods; choose NoSchedule or Prefer"),
        ({}, [{"key": "node.kubernetes.io/not-ready"}], "Kubernetes itself"),
        ({}, [{"key": "a b"}], "not valid in Kubernetes"),
        ({"node-role.kubernetes.io/gpu": "", "example.org/a": "b.c", "x": "1"}, [GPU, {"key": "a"}], ""),
    ],
)
def test_reserved_labels_and_taints_are_refused(labels: Json, taints: list[Json], words: str) -> None:
    found = list(malformed(wanted(labels, taints)))
    assert [words in each for each in found] == ([True] if words else [])


@pytest.mark.parametrize(
    ("labels", "taints", "words"),
    [
        ({"a": True}, [], "the value of the label a is not a string: True"),
        ({"a": None}, [], "the value of the label a is not a string: None"),
        ({}, [{"key": "a", "value": 1}], "the value of the taint a is not a string: 1"),
        ({}, [GPU, {"key": "nvidia.com/gpu"}], "the taint nvidia.com/gpu:NoSchedule occurs twice"),
    ],
)
def test_values_that_are_not_text_and_duplicates_are_refused(labels: Json, taints: list[Json], words: str) -> None:
    assert [words in each for each in problems(labels, taints)] == [True]
    with pytest.raises(DomainError, match=re.escape(words)):
        wanted(labels, taints)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (node({"gpulab.io/pool": "b"}), ["label gpulab.io/pool=b, which is not managed by this collection"]),
        (
            node({}, [{**GPU, "value": "no"}]),
            ["taint nvidia.com/gpu=no:NoSchedule, which is not managed by this collection"],
        ),
        (node({"gpulab.io/pool": "b"}, [], {"labels": {"gpulab.io/pool": "b"}, "taints": []}), []),
        (node(POOL, [GPU]), []),
        (node({}, [{**GPU, "effect": "PreferNoSchedule", "value": "no"}]), []),
    ],
)
def test_unmanaged_labels_and_taints_are_named(before: Json, words: list[str]) -> None:
    found = list(contested(before, wanted(POOL, [GPU])))
    assert len(found) == len(words)
    assert all(word in each for word, each in zip(words, found, strict=True))


def named(name: str, *taints: Json, own: Json | None = None) -> Json:
    found = node({}, list(taints), own)
    found["metadata"]["name"] = name
    return found


TAINTED = wanted({}, [GPU])


@pytest.mark.parametrize(
    ("nodes", "wishes", "expected"),
    [
        ([named("a")], {"a": TAINTED}, True),
        ([named("a"), named("b", CONTROL_PLANE)], {"a": TAINTED}, False),
        ([named("a"), named("b")], {"a": TAINTED, "b": TAINTED}, True),
        ([named("a"), named("b")], {"a": TAINTED}, False),
        ([named("a"), named("b", OTHER)], {"a": TAINTED}, True),
        ([named("a"), named("b", GPU, own=OURS)], {"a": TAINTED, "b": Wanted()}, False),
        ([named("a")], {"a": wanted({}, [{**GPU, "effect": "PreferNoSchedule"}])}, False),
        # Unmanaged taints are not considered.
        ([named("a", OTHER)], {"a": Wanted()}, False),
    ],
)
def test_taints_on_all_nodes_leave_no_place_for_the_clusters_own_pods(
    nodes: list[Json], wishes: dict[str, Wanted], expected: bool
) -> None:
    assert homeless(nodes, wishes) is expected


KEYS = some.sampled_from(["gpulab.io/pool", "a", "b"])
LABELS = some.dictionaries(KEYS, some.sampled_from(["1", "2"]))
TAINTS = some.lists(
    some.fixed_dictionaries({"key": KEYS, "value": some.sampled_from(["", "1"]), "effect": some.just("NoSchedule")}),
    unique_by=lambda taint: taint["key"],
)


@given(LABELS, TAINTS, LABELS, TAINTS)
def test_any_sequence_of_declarations_keeps_unmanaged_labels_and_taints(
    theirs: Json, their_taints: list[Json], labels: Json, taints: list[Json]
) -> None:
    before = node(theirs, their_taints)
    want = wanted(labels, taints)
    with_ours = patched(before, plan(before, want).patch)
    assert theirs.items() <= with_ours["metadata"]["labels"].items()
    assert state(patched(with_ours, plan(with_ours, Wanted()).patch)) == state(before)
