# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from acceptance_lab import T4
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import run as verification
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.network import Network
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.pods import Settings, time_limit
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import Gpu, Host, targets
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.dra import NO_CLAIMS
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.words import link_states
from fake_cluster import FakeCluster, FakeNode

FIRST, SECOND = "isolation-gpu1", "isolation-gpu1-again"
SILENT = f"pod {SECOND} has not reported (Succeeded)"


@pytest.mark.parametrize(
    ("silent", "last", "trouble"),
    [(set(), FIRST, ""), ({FIRST}, SECOND, ""), ({FIRST, SECOND}, SECOND, SILENT)],
)
def test_a_pod_whose_log_was_lost_is_created_again(
    silent: set[str], last: str, trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "_LOG_GRACE", 0)
    cluster = FakeCluster(FakeNode("gpu1", T4))
    cluster.no_logs = silent
    with cluster.serve(tmp_path) as kubeconfig:
        api = Api(str(kubeconfig))
        run = verification.Run(api, Settings("proof", "check:1", "agnhost:1", 20))
        host = Host("gpu1", tuple(Gpu(uuid, "Tesla T4") for uuid in T4), len(T4))
        with run.namespace():
            run.verify(targets([host], api.items("/api/v1/nodes"), [], NO_CLAIMS, "proof"), [])
    [proof] = run.proofs_of_kind("isolation")
    assert (proof.name, proof.trouble) == (last, trouble)
    assert all(proof.done for proof in run.proofs)


BY_PODS = "300 s and 1 s for each 4 of {} GPU pods; or set acceptance_timeout"


@pytest.mark.parametrize(
    ("timeout", "gpu_pods", "limit", "words"),
    [
        (0, 0, 300, BY_PODS.format(0)),
        (0, 24, 306, BY_PODS.format(24)),
        (0, 1600, 700, BY_PODS.format(1600)),
        # A user's setting takes precedence.
        (60, 1600, 60, "acceptance_timeout"),
    ],
)
def test_the_time_limit_grows_with_the_number_of_pods(timeout: int, gpu_pods: int, limit: int, words: str) -> None:
    assert time_limit(timeout, gpu_pods) == (limit, words)


def test_a_pod_that_does_not_report_in_time_is_reported_with_the_limit(tmp_path: Path) -> None:
    cluster = FakeCluster(FakeNode("gpu1", T4))
    cluster.no_logs = {"gpu-1-gpu1"}
    with cluster.serve(tmp_path) as kubeconfig:
        api = Api(str(kubeconfig))
        run = verification.Run(api, Settings("proof", "check:1", "agnhost:1", 1))
        host = Host("gpu1", tuple(Gpu(uuid, "Tesla T4") for uuid in T4), len(T4))
        with run.namespace():
            run.verify(targets([host], api.items("/api/v1/nodes"), [], NO_CLAIMS, "proof"), [])
    assert [proof.trouble for proof in run.proofs_of_kind("gpu")] == [
        "",
        "pod gpu-1-gpu1 has not reported (Running) after 1 s (acceptance_timeout)",
        "",
    ]


def test_sixteen_requests_run_in_parallel_and_none_is_sent_after_an_error() -> None:
    together = threading.Barrier(16)
    assert verification.in_parallel(lambda thing: (together.wait(60), thing)[1], range(16)) == list(range(16))
    asked: list[int] = []

    def fail(thing: int) -> None:
        asked.append(thing)
        raise ValueError

    with pytest.raises(ValueError):
        verification.in_parallel(fail, range(10_000))
    assert len(asked) < 10_000


class SilentNodes:
    """200 nodes, 10 of which do not respond. The clock runs while a connection is retried; 16 run in parallel."""

    def __init__(self) -> None:
        self.dead = {f"n{place}" for place in range(5, 200, 20)}
        self.now, self._lock = 0.0, threading.Lock()

    def clock(self) -> float:
        return self.now

    def get(self, _path: str) -> dict[str, Any]:
        return {"spec": {"clusterIP": "10.96.0.99"}}

    def text(self, path: str, host: str, **_query: str) -> str:
        here = path.split("/pods/")[1].partition(":")[0]
        return json.dumps({"errors": ["timeout"]} if self.dead & {here, host} else {"responses": [host]})

    def proofs_of_kind(self, kind: str) -> list[verification.PodProof]:
        return [verification.PodProof(f"n{place}", f"n{place}", kind, address=f"n{place}") for place in range(200)]

    def until(self, once: Any, limit: float) -> None:
        if not once():
            with self._lock:
                self.now += limit / 16


def test_unresponsive_nodes_only_delay_themselves() -> None:
    fake: Any = SilentNodes()
    found = Network(fake, fake, "proof").verify()
    states = link_states(found)
    assert {name for name, state in states.items() if state == "broken"} == fake.dead and len(states) == 200
    for kind in ("service_not_reached", "dns_not_reached"):
        assert {each["host"] for each in found["problems"] if each["kind"] == kind} == fake.dead
    assert fake.now < 120
