# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A namespace is used by one run at a time, and leftovers of a dead run are removed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import own_namespace
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.own_namespace import OwnNamespace
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.pods import pod_on
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from fake_cluster import FakeCluster, FakeNode

LABELS = {"app.kubernetes.io/managed-by": "gpulab.kubernetes", "app.kubernetes.io/part-of": "acceptance"}


class Runs:
    """A cluster, and runs that use the same namespace."""

    def __init__(self, cluster: FakeCluster, kubeconfig: Path) -> None:
        self.cluster, self._kubeconfig = cluster, kubeconfig

    def run(self, holder: str) -> OwnNamespace:
        return OwnNamespace(Api(str(self._kubeconfig)), "proof", "acceptance", "acceptance_namespace", holder)

    @property
    def metadata(self) -> Any:
        return self.cluster.namespaces["proof"]["metadata"]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    monkeypatch.setattr(own_namespace, "_RENEWAL", 0.05)
    monkeypatch.setattr(own_namespace, "_SILENCE", 1.0)
    cluster = FakeCluster(FakeNode("gpu1", ["GPU-0"]))
    with cluster.serve(tmp_path) as kubeconfig:
        yield Runs(cluster, kubeconfig)


def test_a_run_in_progress_is_not_disturbed_and_the_second_run_names_its_holder(runs: Runs) -> None:
    with runs.run("bob@ci\x1b[2J").created():
        runs.metadata["creationTimestamp"] = "2026-11-21T04:00:00Z"
        uid = runs.metadata["uid"]
        with pytest.raises(DomainError) as error, runs.run("alice@laptop").created():
            pass
        assert str(error.value) == (
            "Error while preparing namespace proof: bob@ci?[2J has been using it since 2026-11-21T04:00:00Z. Only one "
            "run can use it at a time. Nothing was changed. Wait until that run has ended, and run this again."
        )
        assert runs.metadata["uid"] == uid
    assert "proof" not in runs.cluster.namespaces


def test_a_run_knows_its_own_changes_before_its_watch_reports_them(runs: Runs) -> None:
    runs.cluster.lag = 5
    spec = {"containers": [{"name": "c", "image": "i"}]}
    own = runs.run("first")
    with own.created(), own.watched() as watch:
        assert own.pods() == {}
        watch.wait(0.05)
        own.create(pod_on("gpu1", "one", own.name, {}, 60, spec))
        assert list(own.pods()) == ["one"]
        watch.wait(0.05)
        own.delete_pod("one")
        assert own.pods() == {}


def test_a_run_recognizes_what_its_own_failed_request_has_created(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.cluster.lag = 5
    create = Api.create

    def repeated(api: Api, path: str, body: dict[str, Any], dry: bool = False) -> dict[str, Any]:
        create(api, path, body, dry)
        raise ApiError("Error while asking the API: it exists", 409)

    own = runs.run("first")
    with own.created(), own.watched() as watch:
        assert own.pods() == {}
        watch.wait(0.05)
        monkeypatch.setattr(Api, "create", repeated)
        with pytest.raises(ApiError):
            own.create(pod_on("gpu1", "one", own.name, {}, 60, {"containers": [{"name": "c", "image": "i"}]}))
        assert list(own.pods()) == ["one"]


def test_a_run_waits_for_another_run_for_a_while(runs: Runs) -> None:
    first = runs.run("bob@ci").created()
    first.__enter__()
    threading.Timer(0.5, first.__exit__, (None, None, None)).start()
    with runs.run("alice@laptop").created():
        assert runs.metadata["annotations"]["gpulab.io/holder"] == "alice@laptop"


@pytest.mark.parametrize("annotations", [{}, {"gpulab.io/holder": "bob@ci", "gpulab.io/renewed": "9999-01-01"}])
def test_leftovers_of_a_dead_run_are_removed_regardless_of_its_clock(
    runs: Runs, annotations: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_namespace, "_SILENCE", 0.3)
    runs.cluster.namespaces["proof"] = {
        "metadata": {"name": "proof", "uid": "old", "labels": LABELS, "annotations": annotations}
    }
    left = runs.cluster.user_pod("gpu-0-gpu1", "gpu1")
    left["metadata"]["namespace"] = "proof"
    runs.cluster.pods = {"proof/gpu-0-gpu1": left}
    with runs.run("alice@laptop").created():
        assert runs.metadata["uid"] != "old"
        assert runs.cluster.pods == {}


def test_a_run_that_could_not_renew_during_an_outage_counts_as_alive(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_namespace, "_SILENCE", 0.5)
    find = OwnNamespace._find
    looks: list[float] = []

    def late(self: OwnNamespace) -> Any:
        found = find(self)
        looks.append(time.monotonic())
        if len(looks) == 2:
            # The API was down during the whole first period. Then the other run renews again.
            time.sleep(0.6)
            threading.Timer(0.1, runs.metadata["annotations"].update, [{"gpulab.io/renewed": "later"}]).start()
        return found

    monkeypatch.setattr(OwnNamespace, "_find", late)
    annotations = {"gpulab.io/holder": "bob@ci", "gpulab.io/renewed": "earlier"}
    runs.cluster.namespaces["proof"] = {
        "metadata": {"name": "proof", "uid": "theirs", "labels": LABELS, "annotations": annotations}
    }
    with pytest.raises(DomainError, match="bob@ci has been using it"), runs.run("alice@laptop").created():
        pass
    assert runs.metadata["uid"] == "theirs"


def test_only_one_of_two_runs_removes_the_namespace_of_a_killed_run(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_namespace, "_SILENCE", 0.3)
    runs.cluster.namespaces["proof"] = {
        "metadata": {"name": "proof", "uid": "old", "labels": LABELS, "resourceVersion": "1"}
    }
    # The other run claims it between this run's last check and its claim.
    claim = OwnNamespace._claim

    def slow(self: OwnNamespace, there: Any) -> None:
        runs.metadata.update(resourceVersion="2", annotations={"gpulab.io/holder": "bob@ci"})
        claim(self, there)

    monkeypatch.setattr(OwnNamespace, "_claim", slow)
    with pytest.raises(DomainError, match="bob@ci has been using it"), runs.run("alice@laptop").created():
        pass
    assert runs.metadata["uid"] == "old"


def test_a_namespace_that_another_run_creates_first_is_in_use(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    def quick(self: OwnNamespace) -> None:
        metadata = {"name": "proof", "uid": "theirs", "labels": LABELS, "annotations": {"gpulab.io/holder": "bob@ci"}}
        runs.cluster.namespaces["proof"] = {"metadata": metadata}

    monkeypatch.setattr(OwnNamespace, "_remove_left_over", quick)
    with pytest.raises(DomainError, match="bob@ci has been using it"), runs.run("alice@laptop").created():
        pass
    assert runs.metadata["uid"] == "theirs"


def test_a_run_whose_namespace_was_replaced_renews_and_removes_nothing(runs: Runs) -> None:
    own = runs.run("alice@laptop")
    with own.created():
        runs.cluster.namespaces["proof"] = {"metadata": {"name": "proof", "uid": "theirs", "labels": LABELS}}
        time.sleep(0.2)
        assert own.taken_over
    assert "annotations" not in runs.metadata


def test_events_are_read_once_per_check(runs: Runs) -> None:
    own = runs.run("one")
    with own.created():
        for _look in range(2):
            runs.cluster.listed.clear()
            own.pods()
            for name in ("a", "b", "c"):
                own.trouble({"metadata": {"name": name, "uid": name}, "status": {"phase": "Pending"}})
            assert runs.cluster.listed.count(f"{own.path}/events") == 1
