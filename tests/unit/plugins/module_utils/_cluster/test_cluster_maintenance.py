# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import json
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.drain import (
    DEADLINE,
    DrainError,
    drain,
    grace_period,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.maintenance import (
    Maintenance,
    Plan,
    work_on,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.records import (
    CORDON,
    DISRUPTION,
    DRIVER_UPGRADE,
    ISOLATION,
    LABEL,
    PURPOSES,
    SHARING,
    TAINT,
    read,
    record_of,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from damaged import JSON
from fake_cluster import FakeCluster, FakeNode, wrong_uid
from hypothesis import given
from hypothesis import strategies as st

KEY = "gpulab.io/driver-upgrade"
LEAVE = Plan(labels={KEY: "running"}, pause=["nvidia.com/gpu.deploy."], leaving=["plugins/device-plugin"], timeout=0.3)


def pod(name: str, owner: str = "ReplicaSet", **meta: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "name": "device-plugin", "controller": True}] if owner else []
    namespace = "plugins" if owner == "DaemonSet" else "team"
    known = {"namespace": namespace, "ownerReferences": owners, "labels": {"app": "device-plugin"}}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", **known, **meta},
        "spec": {"nodeName": "gpu1"},
        "status": {"phase": "Running"},
    }


BUDGET = ApiError("Error while asking the API: Cannot evict pod.", 429, ["DisruptionBudget"])


def check_precondition(pods: list[dict[str, Any]], name: str, uid: str, status: int) -> dict[str, Any]:
    """Return the pod with this name. Raise the API server's error if it is gone, or has another UID."""
    found = next((each for each in pods if each["metadata"]["name"] == name), None)
    if found is None:
        raise ApiError(f'Error while asking the API: pods "{name}" not found', 404)
    if found["metadata"]["uid"] != uid:
        raise ApiError(f"Error while asking the API: {wrong_uid(name, uid, found['metadata']['uid'])}", status)
    return found


def replace_pods(pods: list[dict[str, Any]], recreated: list[dict[str, Any]]) -> None:
    names = {each["metadata"]["name"] for each in recreated}
    pods[:] = [each for each in pods if each["metadata"]["name"] not in names] + recreated
    recreated.clear()


class FakeApi:
    """A node with its pods. The pod of a DaemonSet leaves if the node's label says so, and returns afterwards."""

    def __init__(self, *pods: dict[str, Any], cordoned: bool = False) -> None:
        labels = {"nvidia.com/gpu.deploy.dcgm-exporter": "true", "kubernetes.io/os": "linux"}
        spec = {"unschedulable": True} if cordoned else {}
        metadata = {"name": "gpu1", "labels": labels, "annotations": {}, "resourceVersion": "7"}
        self.node: dict[str, Any] = {"metadata": metadata, "spec": spec}
        self.pods = [*pods, pod("plugin-x", "DaemonSet")]
        self.protected: set[str] = set()
        self.refusal = BUDGET
        self.stubborn = False
        self.merges = 0
        self.evictions: list[dict[str, Any]] = []
        # Pods that take the place of those with their names, before the first of these is evicted.
        self.recreated: list[dict[str, Any]] = []

    def find(self, path: str) -> dict[str, Any]:
        return copy.deepcopy(self.node)

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        assert query == {"fieldSelector": "spec.nodeName=gpu1"}
        away = KEY in self.node["metadata"]["labels"] and not self.stubborn
        here = [each for each in self.pods if each["spec"]["nodeName"] == "gpu1"]
        return [each for each in here if not (away and each["metadata"]["namespace"] == "plugins")]

    def listed(self, path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        return self.items(path, **query), ""

    def create(self, path: str, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        tried = body["deleteOptions"].get("dryRun") == ["All"]
        if not tried:
            self.evictions.append(body)
        if name in self.protected:
            raise self.refusal
        if tried:
            return
        replace_pods(self.pods, self.recreated)
        check_precondition(self.pods, name, body["deleteOptions"]["preconditions"]["uid"], 409)
        self.pods = [each for each in self.pods if each["metadata"]["name"] != name]

    def merge(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if "/pods/" in path:
            found = check_precondition(self.pods, path.rpartition("/")[2], body["metadata"]["uid"], 422)
            known = found["metadata"].get("annotations", {})
            found["metadata"]["annotations"] = {**known, **body["metadata"]["annotations"]}
            return found
        self.merges += 1
        version = self.node["metadata"]["resourceVersion"]
        assert body["metadata"].get("resourceVersion") == version, "a change by others in between would be lost"
        for part in ("labels", "annotations"):
            for key, value in body["metadata"].get(part, {}).items():
                self.node["metadata"][part][key] = value
                if value is None:
                    del self.node["metadata"][part][key]
        spec = {**self.node["spec"], **body.get("spec", {})}
        self.node["spec"] = {key: value for key, value in spec.items() if value is not None}
        return copy.deepcopy(self.node)

    @property
    def record(self) -> Any:
        return json.loads(self.node["metadata"]["annotations"].get(KEY, "null"))


def work(api: FakeApi, check: bool = False, purpose: str = DRIVER_UPGRADE) -> Maintenance:
    return Maintenance(api, "gpu1", purpose, check)  # type: ignore[arg-type]


@given(st.none() | st.integers(0, 10**6), st.floats(-(10**6), 10**6))
def test_grace_period_of_a_pod_is_never_shortened(own: int | None, left: float) -> None:
    spec = {} if own is None else {"terminationGracePeriodSeconds": own}
    given_time = grace_period({"metadata": {}, "spec": spec}, left)
    assert given_time >= (30 if own is None else own) and given_time >= int(left)


def test_jobs_learn_their_deadline_and_get_what_is_left_of_the_wait() -> None:
    api = FakeApi(pod("train-0", uid="u1"), pod("web-0", uid="u2"), pod("long-0", uid="u3"))
    api.pods[2]["spec"]["terminationGracePeriodSeconds"] = 7200
    trained = api.pods[0]
    before = time.time()
    work(api).begin({}, Plan(drain=True, jobs=["u1", "u3"], grace=600, timeout=1))
    graces = {each["metadata"]["name"]: each.get("deleteOptions", {}) for each in api.evictions}
    assert 590 <= graces["train-0"]["gracePeriodSeconds"] <= 600
    # Other pods end as in any drain, and a longer grace period of a pod is respected.
    assert graces["web-0"] == {"preconditions": {"uid": "u2"}}
    assert graces["long-0"] == {"preconditions": {"uid": "u3"}, "gracePeriodSeconds": 7200}
    deadline = datetime.fromisoformat(trained["metadata"]["annotations"][DEADLINE].replace("Z", "+00:00"))
    assert -1 <= deadline.timestamp() - (before + 600) <= 5


def test_a_job_that_stays_keeps_no_deadline() -> None:
    api = FakeApi(pod("train-0", uid="u1"))
    api.protected = {"train-0"}
    with pytest.raises(DrainError, match="team/train-0: a disruption budget protects it"):
        work(api).begin({}, Plan(drain=True, jobs=["u1"], grace=0.2, timeout=0.2))
    assert len(api.evictions) > 0 and api.pods[0]["metadata"]["annotations"] == {DEADLINE: None}
    assert "unschedulable" not in api.node["spec"]


@pytest.mark.parametrize(("phase", "left"), [("Running", {"u1": "team/train-0 (ReplicaSet rs)"}), ("Succeeded", {})])
def test_a_wait_ends_with_the_jobs_or_the_time_and_evicts_nothing(phase: str, left: dict[str, str]) -> None:
    api = FakeApi(pod("train-0", uid="u1"), pod("web-0", uid="u2"))
    api.pods[0]["metadata"]["ownerReferences"][0]["name"] = "rs"
    api.pods[0]["status"]["phase"] = phase
    waiting = work(api)
    waiting.begin({}, Plan(jobs=["u1"], grace=0.3))
    assert api.evictions == [] and api.node["spec"] == {"unschedulable": True}
    assert waiting.jobs(["u1"]) == left


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_other_pods_only_leave_after_all_jobs_have_ended(phase: str) -> None:
    api = FakeApi(pod("train-0", uid="u1"))
    api.pods[0]["status"]["phase"] = phase
    before = dict(api.node["metadata"]["labels"])
    work(api).begin({}, Plan(jobs=["u1"], grace=0.3, labels=LEAVE.labels, pause=LEAVE.pause))
    assert (api.node["metadata"]["labels"] == before) == (phase == "Running")


@pytest.mark.parametrize("cordoned", [False, True])
def test_a_released_node_is_as_before(cordoned: bool) -> None:
    api = FakeApi(pod("train-0"), cordoned=cordoned)
    before = copy.deepcopy(api.node)
    first = work(api)
    first.begin({"from": "580"}, Plan(**{**LEAVE.__dict__, "drain": True}))
    assert first.changed and first.evicted == ["team/train-0"]
    assert api.node["spec"] == {"unschedulable": True} and api.items("", fieldSelector="spec.nodeName=gpu1") == []
    assert api.record["cordoned"] is cordoned and api.record["data"] == {"from": "580"}
    assert api.node["metadata"]["labels"]["nvidia.com/gpu.deploy.dcgm-exporter"] == "paused-for-driver-upgrade"
    verifying = work(api)
    verifying.let_return()
    assert api.node["metadata"]["labels"] == before["metadata"]["labels"] and api.node["spec"] == {
        "unschedulable": True
    }
    work(api).end()
    assert api.node == before
    again = work(api)
    again.end()
    assert not again.changed


def test_a_second_run_resumes_with_the_record_of_the_first() -> None:
    api = FakeApi()
    work(api).begin({"from": "580", "services": ["nvidia-persistenced"]}, LEAVE)
    again = work(api)
    again.begin({"from": "595", "services": []}, LEAVE)
    assert not again.changed
    assert api.record["data"] == {"from": "580", "services": ["nvidia-persistenced"]} and not api.record["cordoned"]
    work(api).let_return()
    work(api).begin({"from": "595"}, LEAVE)
    assert api.record["labels"] == {KEY: None, "nvidia.com/gpu.deploy.dcgm-exporter": "true"}


def test_a_pod_without_a_controller_that_is_being_deleted_is_waited_for() -> None:
    api = FakeApi(pod("alone", "", deletionTimestamp="2026-11-22T05:00:00Z"), pod("train-0"))
    with pytest.raises(DrainError, match="team/alone: it was told to end, but is still running"):
        drain(api, "gpu1", 0.2)  # type: ignore[arg-type]
    assert [each["metadata"]["name"] for each in api.evictions] == ["train-0"]


@pytest.mark.parametrize("cordoned", [False, True])
@pytest.mark.parametrize(
    ("pods", "protected", "words"),
    [
        ([pod("train-0"), pod("web-0")], {"train-0"}, "team/train-0: a disruption budget protects it (Cannot evict"),
        ([pod("train-0", deletionTimestamp="2026-11-22T05:00:00Z")], set(), "team/train-0: it was told to end"),
        ([pod("web-0"), pod("alone", "")], set(), "nothing would create these pods again on another node: team/alone"),
    ],
)
def test_a_drain_that_cannot_complete_is_undone(
    pods: list[dict[str, Any]], protected: set[str], words: str, cordoned: bool
) -> None:
    api = FakeApi(*pods, cordoned=cordoned)
    api.protected = protected
    before = copy.deepcopy(api.node)
    with pytest.raises(DrainError, match="draining node gpu1") as error:
        work(api).begin({}, Plan(drain=True, timeout=0.3))
    assert words in str(error.value)
    assert api.node == before
    assert ("web-0" in str(api.pods)) == ("alone" in words)


@pytest.mark.parametrize(
    ("refusal", "words"),
    [
        (BUDGET, "a disruption budget protects it (Cannot evict pod.)"),
        (ApiError("Error while asking the API: too many requests", 429), "(too many requests)"),
        (ApiError("Error while asking the API: etcdserver: leader changed", 503), "(etcdserver: leader changed)"),
        (ApiError("Error while asking the API: reset", passing=True), "(reset)"),
    ],
)
def test_only_a_disruption_budget_is_reported_as_one(refusal: ApiError, words: str) -> None:
    api = FakeApi(pod("train-0"))
    api.protected, api.refusal = {"train-0"}, refusal
    with pytest.raises(DrainError) as error:
        work(api).begin({}, Plan(drain=True, timeout=0))
    assert words in str(error.value)
    assert ("disruption budget" in str(error.value)) is (refusal is BUDGET)


@pytest.mark.parametrize("jobs", [[], ["uid-train-0"]])
def test_a_cautious_drain_evicts_no_pod_if_one_has_to_stay(jobs: list[str]) -> None:
    api = FakeApi(pod("train-0"), pod("web-0"))
    api.protected = {"web-0"}
    with pytest.raises(DrainError, match="No pod was evicted") as error:
        work(api).begin({}, Plan(drain=True, jobs=jobs, cautious=True, timeout=0.2))
    assert error.value.fields["blocking"] == ["team/web-0: a disruption budget protects it (Cannot evict pod.)"]
    assert (api.evictions, "unschedulable" in api.node["spec"], len(api.pods)) == ([], False, 3)
    api.protected = set()
    work(api).begin({}, Plan(drain=True, jobs=jobs, cautious=True, timeout=2))
    assert [each["metadata"]["name"] for each in api.evictions] == ["train-0", "web-0"]


def test_jobs_are_not_waited_for_if_another_pod_has_to_stay() -> None:
    api = FakeApi(pod("train-0", ""), pod("alone", ""))
    with pytest.raises(DrainError, match="nothing would create these pods again on another node: team/alone"):
        work(api).begin({}, Plan(jobs=["uid-train-0"], grace=60, cautious=True))
    assert "unschedulable" not in api.node["spec"]


def test_an_eviction_that_the_api_forbids_ends_the_drain() -> None:
    api = FakeApi(pod("train-0"))
    api.protected, api.refusal = {"train-0"}, ApiError("Error while asking the API: forbidden", 403)
    with pytest.raises(ApiError, match="forbidden"):
        work(api).begin({}, Plan(drain=True, timeout=60))


@pytest.mark.parametrize("node", ["gpu1", "gpu2"])
@pytest.mark.parametrize("grace", [0.0, 0.3])
def test_a_pod_that_was_created_again_under_its_name_is_not_taken_for_the_one_that_was_listed(
    node: str, grace: float
) -> None:
    """A pod of a StatefulSet ends and is created again, here or on another node, before its eviction is requested."""
    api = FakeApi(pod("db-0", "StatefulSet", uid="u1"))
    api.recreated = [{**pod("db-0", "StatefulSet", uid="u2"), "spec": {"nodeName": node}}]
    again = api.recreated[0]
    evicted = drain(api, "gpu1", 1, ["u1"], grace)  # type: ignore[arg-type]
    uids = [each["deleteOptions"]["preconditions"]["uid"] for each in api.evictions]
    assert (uids, evicted) == ((["u1", "u2"], ["team/db-0"]) if node == "gpu1" else (["u1"], []))
    assert (again in api.pods) == (node == "gpu2") and "annotations" not in again["metadata"]


def test_a_deadline_is_not_written_to_a_pod_that_was_created_again() -> None:
    api = FakeApi(pod("db-0", "StatefulSet", uid="u1"))
    listed = api.listed

    def list_then_replace(path: str, **query: str) -> tuple[list[dict[str, Any]], str]:
        found = listed(path, **query)
        replace_pods(api.pods, api.recreated)
        return found

    api.listed = list_then_replace  # type: ignore[method-assign]
    api.recreated = [{**pod("db-0", "StatefulSet", uid="u2"), "spec": {"nodeName": "gpu2"}}]
    (again,) = api.recreated
    assert drain(api, "gpu1", 1, ["u1"], 0.3) == []  # type: ignore[arg-type]
    assert again in api.pods and "annotations" not in again["metadata"]


def test_a_pod_is_evicted_once_and_then_watched(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeNode("gpu1", ["GPU-0"]))
    cluster.lag = 0.5
    cluster.user_pod("train", "gpu1")["metadata"]["ownerReferences"] = [{"kind": "Job", "controller": True}]
    with cluster.serve(tmp_path) as kubeconfig:
        threading.Timer(2, cluster.pods.clear).start()
        assert drain(Api(str(kubeconfig)), "gpu1", 60) == ["team/train"]
    assert cluster.created == ["Eviction/train"]
    # At first, at the start of the wait, and after the eviction.
    assert cluster.listed == ["/api/v1/pods"] * 3


def test_a_failed_drain_does_not_undo_an_interrupted_run() -> None:
    api = FakeApi(pod("train-0"))
    work(api).begin({}, Plan())
    api.protected = {"train-0"}
    with pytest.raises(DrainError):
        work(api).begin({}, Plan(drain=True, timeout=0.1))
    assert api.node["spec"] == {"unschedulable": True} and api.record is not None


@pytest.mark.parametrize(
    ("ready", "leaves", "waits"),
    [("Unknown", True, False), ("Unknown", False, True), ("False", True, True), ("True", True, True)],
)
def test_pods_of_a_lost_node_that_leaves_are_not_waited_for(ready: str, leaves: bool, waits: bool) -> None:
    api = FakeApi(pod("train-0", deletionTimestamp="2026-11-22T05:00:00Z"), pod("web-0"))
    api.node["status"] = {"conditions": [{"type": "Ready", "status": ready}]}
    plan = Plan(drain=True, timeout=0.2, leaves=leaves)
    if waits:
        with pytest.raises(DrainError, match="team/train-0: it was told to end"):
            work(api).begin({}, plan)
        return
    maintenance = work(api)
    maintenance.begin({}, plan)
    assert maintenance.evicted == ["team/web-0"] and api.node["spec"] == {"unschedulable": True}


def test_remaining_pods_are_named() -> None:
    api = FakeApi()
    api.stubborn = True
    with pytest.raises(DrainError, match="plugins/plugin-x"):
        work(api).begin({}, LEAVE)


def test_a_failed_node_stays_cordoned_with_the_reason_until_a_run_succeeds() -> None:
    api = FakeApi()
    work(api).begin({"from": "580"}, LEAVE)
    work(api).fail("nvidia-smi does not answer")
    assert api.record["failure"] == "nvidia-smi does not answer" and api.node["spec"] == {"unschedulable": True}
    assert KEY not in api.node["metadata"]["labels"]
    work(api).begin({}, LEAVE)
    assert api.record["failure"] == "" and api.record["data"] == {"from": "580"}
    work(api).end()
    assert api.record is None and api.node["spec"] == {}


def test_check_mode_predicts_and_changes_nothing() -> None:
    api = FakeApi(pod("train-0"))
    before = copy.deepcopy(api.node)
    first = work(api, check=True)
    first.begin({}, Plan(**{**LEAVE.__dict__, "drain": True}))
    assert first.changed and first.evicted == ["team/train-0"] and api.node == before and api.merges == 0
    assert len(api.pods) == 2


@pytest.mark.parametrize("text", [None, "", "nonsense", "[]", "5", '{"labels": null}', '{"cordoned": true, "more": 1}'])
def test_any_annotation_can_be_read(text: str | None) -> None:
    record = record_of({"metadata": {"annotations": {KEY: text}}}, DRIVER_UPGRADE)
    assert (record is None) == (not text)
    assert record is None or record.cordoned == ("true" in (text or ""))


WHOLE = {"cordoned": False, "labels": {}, "data": {}, "failure": "", "policy": "cordon"}


@pytest.mark.parametrize(
    ("purpose", "record", "damage"),
    [
        (DRIVER_UPGRADE, WHOLE, ""),
        (DRIVER_UPGRADE, {"cordoned": True}, ""),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"from": "", "package": {}, "services": [], "offered": {}}}, ""),
        (
            DRIVER_UPGRADE,
            {
                **WHOLE,
                "data": {
                    "from": "580.178.04",
                    "package": {"name": "nvidia-open-580", "version": "1:580.178.04-1ubuntu1"},
                    "services": ["nvidia-persistenced.service", "a\\x2db@1.path"],
                    "offered": {"nvidia.com/mig-1g.5gb": "2", "nvidia.com/gpu": 4},
                },
            },
            "",
        ),
        (ISOLATION, {**WHOLE, "data": {"since": "2026-11-22T05:06:25Z"}, "policy": "taint"}, ""),
        (DRIVER_UPGRADE, "{", "it is not JSON"),
        (DRIVER_UPGRADE, "[" * 50_000, "it is not JSON"),
        (DRIVER_UPGRADE, [], "it is not a mapping"),
        (DRIVER_UPGRADE, " " * 70_000, "it is longer than"),
        (DRIVER_UPGRADE, {**WHOLE, "serial": 2}, "it has the field 'serial', which this version"),
        (DRIVER_UPGRADE, {"data": {}}, "it does not say whether the node was cordoned before"),
        (DRIVER_UPGRADE, {**WHOLE, "cordoned": "no"}, "its field cordoned is not valid: 'no'"),
        (DRIVER_UPGRADE, {**WHOLE, "policy": "poweroff"}, "its field policy is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "policy": []}, "its field policy is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "labels": []}, "its field labels is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"from": "580; reboot"}}, "the field from of its data is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"package": {"name": "a"}}}, "the field package of its data is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"services": "poweroff"}}, "the field services of its data is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"services": ["a b"]}}, "the field services of its data is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"offered": {"cpu": "1"}}}, "the field offered of its data is not valid"),
        (DRIVER_UPGRADE, {**WHOLE, "data": {"then": "x" * 999}}, "its data have the unknown field 'then'"),
        (SHARING, {**WHOLE, "data": {"from": "580"}}, "its data have the unknown field 'from'"),
        (ISOLATION, {**WHOLE, "data": {"since": "yesterday"}}, "the field since of its data is not valid"),
    ],
)
def test_a_damaged_record_is_an_error(purpose: str, record: Any, damage: str) -> None:
    api = FakeApi(cordoned=True)
    text = record if isinstance(record, str) else json.dumps(record)
    api.node["metadata"]["annotations"][f"gpulab.io/{purpose}"] = text
    if not damage:
        assert read(api.node, purpose).damage == ""
        work(api, purpose=purpose).end()
        return
    before = copy.deepcopy(api.node)
    with pytest.raises(DomainError) as error:
        work(api, purpose=purpose)
    message = str(error.value)
    assert message.startswith(f"Error while preparing node gpu1 for {purpose}: its annotation gpulab.io/{purpose} ")
    assert damage in message and message.endswith(f"kubectl annotate node gpu1 gpulab.io/{purpose}-")
    assert len(message) < 600 and api.node == before


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("node-role.kubernetes.io/control-plane", ""),
        ("node-restriction.kubernetes.io/tenant", "b"),
        ("kubernetes.io/hostname", "victim"),
        ("team", None),
        ("nvidia.com/gpu.deploy.driver", "a b"),
        ("nvidia.com/../x", "true"),
    ],
)
def test_labels_that_the_collection_never_sets_are_not_restored(purpose: str, name: str, value: Any) -> None:
    api = FakeApi()
    api.node["metadata"]["labels"] |= {"team": "a", KEY: "running"}
    before = dict(api.node["metadata"]["labels"])
    api.node["metadata"]["annotations"][f"gpulab.io/{purpose}"] = json.dumps(
        {**WHOLE, "labels": {name: value, KEY: None}}
    )
    first = work(api, purpose=purpose)
    first.let_return()
    first.end()
    del before[KEY]
    assert api.node["metadata"]["labels"] == before and api.node["metadata"]["annotations"] == {}
    [warning] = first.warnings
    assert repr(name) in warning and f"annotation gpulab.io/{purpose} of node gpu1" in warning


@pytest.mark.parametrize(
    ("data", "plan", "words"),
    [
        ({"from": "latest"}, Plan(), "the field from of its data is not valid: 'latest'"),
        ({"more": "1"}, Plan(), "unknown field 'more'"),
        ({}, Plan(labels={"team": "a"}), "must begin with nvidia.com/ or gpulab.io/, unlike team"),
        ({}, Plan(pause=["team"]), "must begin with nvidia.com/ or gpulab.io/, unlike team"),
    ],
)
def test_changes_that_a_later_run_could_not_undo_are_refused(data: Any, plan: Plan, words: str) -> None:
    api = FakeApi()
    with pytest.raises(DomainError, match=r"Error while preparing node gpu1 .*Nothing was changed") as error:
        work(api).begin(data, plan)
    assert words in str(error.value) and api.merges == 0


FIELDS = st.sampled_from([*WHOLE, "from", "services", "more"])


@given(st.sampled_from(PURPOSES), st.text() | st.dictionaries(FIELDS, JSON, max_size=5).map(json.dumps))
def test_only_own_labels_and_known_fields_of_an_annotation_are_read(purpose: str, text: str) -> None:
    reading = read({"metadata": {"annotations": {f"gpulab.io/{purpose}": text}}}, purpose)
    assert (reading.record is None) == (not text)
    if reading.record:
        assert all(name.startswith(("nvidia.com/", "gpulab.io/")) for name in reading.record.labels)
        assert reading.record.policy in (CORDON, TAINT, LABEL) and isinstance(reading.record.cordoned, bool)
        assert not (reading.damage and reading.record.data)


STEPS = st.lists(st.tuples(st.sampled_from(PURPOSES), st.sampled_from([CORDON, TAINT, LABEL, ""])), max_size=8)


@given(st.booleans(), STEPS)
def test_maintenance_for_several_purposes_leaves_the_node_as_before(
    cordoned: bool, steps: list[tuple[str, str]]
) -> None:
    api = FakeApi(cordoned=cordoned)
    before = copy.deepcopy(api.node)
    policies: dict[str, str] = {}
    # Only one purpose can set the taint.
    steps = [(purpose, CORDON if policy == TAINT and purpose != ISOLATION else policy) for purpose, policy in steps]
    for purpose, policy in [*steps, *((purpose, "") for purpose in PURPOSES)]:
        if policy:
            work(api, purpose=purpose).begin({}, Plan(policy, labels={f"gpulab.io/{purpose}": "running"}))
        else:
            work(api, purpose=purpose).end()
        policies[purpose] = policy
        assert bool(api.node["spec"].get("unschedulable")) is (cordoned or CORDON in policies.values())
        assert bool(api.node["spec"].get("taints")) is (TAINT in policies.values())
        open_ones = {f"gpulab.io/{each}" for each in policies if policies[each]}
        assert api.node["metadata"]["annotations"].keys() == open_ones
    assert api.node == before


@pytest.mark.parametrize(
    ("purpose", "policy", "uncordoned", "found"),
    [
        (DRIVER_UPGRADE, CORDON, False, KEY),
        (DRIVER_UPGRADE, CORDON, True, ""),
        (DISRUPTION, CORDON, False, "gpulab.io/disruption"),
        (SHARING, LABEL, False, "gpulab.io/gpu-sharing"),
        (ISOLATION, CORDON, False, ""),
        (ISOLATION, TAINT, False, ""),
    ],
)
def test_maintenance_in_progress_is_found(purpose: str, policy: str, uncordoned: bool, found: str) -> None:
    api = FakeApi()
    work(api, purpose=purpose).begin({}, Plan(policy))
    if uncordoned:
        del api.node["spec"]["unschedulable"]
    assert work_on(api.node) == found
