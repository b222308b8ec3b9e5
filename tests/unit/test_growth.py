# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work grows at most in proportion to the cluster: for twice the nodes, at most 2.5 times the work.

Work is counted in bytecodes, so that the result does not depend on the machine's load.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import report_samples
from ansible_collections.gpulab.kubernetes.plugins.filter import plan as nodes
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import session as verification
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.memory import Memory
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.pods import Settings
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.run import PodProof
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import Gpu, Host
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import rollout
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.page import render
from fake_cluster import GPU, FakeNode

ROLES = Path(__file__).parents[2] / "roles"
FEW, MOST = 200, 2.5


class Name(str):
    """Compared in bytecode, so that searching a list is counted instead of running in C."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True


def names(count: int) -> list[Name]:
    # Each call creates new objects, because Python does not compare an object with itself.
    return [Name(f"gpu{place}") for place in range(count)]


def bytecodes(work: Callable[[], Any]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def report_page(count: int, problems: bool) -> Callable[[], Any]:
    report = report_samples.well()
    hosts = {name: report_samples.host(*map(report_samples.device, range(2))) for name in names(count)}
    ring = [*zip(hosts, [*list(hosts)[1:], "gpu0"])]
    dials = [{"from": a, "to": b, "ok": not problems} for ends in ring for a, b in (ends, ends[::-1])]
    report |= {"hosts": hosts, "network": {**report["network"], "pod_to_pod": dials}}
    if problems:
        keys = ("severity", "host", "gpu", "what", "do")
        for name in hosts:
            hosts[name]["devices"][0] |= {"healthy": False, "health": [f"{name} is lost"]}
            hosts[name]["versions"][0] |= {"drift": True, "found": f"1.{name}"}
        report["actions"] = [dict(zip(keys, ("error", name, "", f"{name} is lost", "Reboot it."))) for name in hosts]
    return lambda: render(report, ROLES / "report" / "templates")


def look_at_rollout(count: int, problems: bool) -> Callable[[], Any]:
    sets = ("plugin", "discovery", "exporter")
    condition = {"type": "Ready", "status": str(not problems)}
    daemonsets = [
        {
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"spec": {}}},
        }
        for name in sets
    ]
    pods: list[dict[str, Any]] = [
        {
            "metadata": {"name": f"{name}-{where}", "uid": Name(f"{name}-{where}"), "labels": {"app": name}},
            "spec": {"nodeName": where},
            "status": {"phase": "Pending", "conditions": [condition]},
        }
        for name in sets
        for where in names(count)
    ]
    events = [{"involvedObject": {"uid": Name(pod["metadata"]["uid"])}, "type": "Warning"} for pod in pods]
    seen = rollout.Seen(
        nodes=[FakeNode(name, ["GPU-1"]).body() for name in names(count)],
        daemonsets=daemonsets,
        pods=pods,
        events=events,
    )
    amounts: dict[str, dict[str, int]] = {name: {GPU: 1 + problems} for name in names(count)}
    wanted = rollout.Wanted(daemonsets=sets, nodes=tuple(names(count)), nodes_ready=True, allocatable=amounts)

    def look() -> None:
        assert len(rollout.missing(wanted, seen)) == problems * count * (len(sets) + 1)

    return look


def node_plan(count: int, finished: bool) -> Callable[[], Any]:
    every = [Name("cp1"), *names(count)]
    variables = {"preflight_host": {"cluster": {"finished": finished}}, "plan_pending": {"containerd": ["packages"]}}
    hostvars: dict[str, Any] = dict.fromkeys(every, variables)
    return lambda: nodes.node_plan(every, hostvars, ["cp1"])


class FakeApi:
    endpoint = ""

    def __init__(self, nodes: list[FakeNode]) -> None:
        self._lists = {"/api/v1/nodes": [node.body() for node in nodes]}

    def items(self, path: str, **_query: str) -> list[dict[str, Any]]:
        return self._lists.get(path, [])

    def get(self, _path: str) -> dict[str, Any]:
        return {"gitVersion": "v1.36.4"}


def entries_of_hosts(count: int, problems: bool, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A verification whose pods have all reported or failed."""

    class Run:
        def __init__(self, *_arguments: object) -> None:
            gpus = [] if problems else [Gpu("GPU-1", "Tesla T4")]
            self.proofs = [
                PodProof(f"{kind}-{name}", name, kind, True, "it failed" * problems, gpus)
                for kind in ("gpu", "isolation", "network")
                for name in names(count)
            ]

        def namespace(self) -> contextlib.AbstractContextManager[None]:
            return contextlib.nullcontext()

        def verify(self, *_targets: object) -> dict[str, Any]:
            return {"problems": []}

        def proofs_of_kind(self, kind: str) -> list[PodProof]:
            return [proof for proof in self.proofs if proof.kind == kind]

        def until(self, *_arguments: object) -> bool:
            return True

    monkeypatch.setattr(verification, "Run", Run)
    monkeypatch.setattr(verification, "Network", Run)
    monkeypatch.setattr(Memory, "save", lambda *_bodies: True)
    gpus = (Gpu("GPU-1", "Tesla T4"),)
    hosts = [Host(name, gpus, 1, driver="580.1", known=1, physical=gpus) for name in names(count)]
    api: Any = FakeApi([FakeNode(name, ["GPU-1"]) for name in names(count)])
    session = verification.Session(api, Settings("proof", "check:1", "agnhost:1", 20), hosts)

    def accept() -> None:
        _changed, report = session.accept(force=True, dry=False)
        assert report["totals"] == {"gpus": count, "proven": count * (not problems), "in_use": 0}

    return accept


WORK: dict[str, Callable[..., Callable[[], Any]]] = {
    "report page": report_page,
    "look at a rollout": look_at_rollout,
    "node plan": node_plan,
}


@pytest.mark.parametrize("problems", [False, True])
@pytest.mark.parametrize("what", WORK)
def test_twice_the_nodes_need_about_twice_the_work(what: str, problems: bool) -> None:
    assert_linear(lambda count: WORK[what](count, problems))


@pytest.mark.parametrize("problems", [False, True])
def test_twice_the_nodes_need_about_twice_the_work_for_a_report(
    problems: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_linear(lambda count: entries_of_hosts(count, problems, monkeypatch))


def assert_linear(prepare: Callable[[int], Callable[[], Any]]) -> None:
    # Work that is done only once, such as loading a template, does not count.
    prepare(3)()
    once, twice = (bytecodes(prepare(count)) for count in (FEW, 2 * FEW))
    assert once > 10 * FEW
    assert twice <= MOST * once, f"{once} bytecodes for {FEW} nodes, {twice} for {2 * FEW}"


def test_a_search_per_node_is_detected() -> None:
    def search(count: int) -> Callable[[], Any]:
        everywhere = names(count)
        return lambda: [name in everywhere for name in names(count)]

    with pytest.raises(AssertionError, match="bytecodes for 200 nodes"):
        assert_linear(search)
