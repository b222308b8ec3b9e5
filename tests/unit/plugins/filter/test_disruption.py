# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import deferral_file, disruption
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.deferral import deferrals, described
from damaged import JSON
from hypothesis import given
from hypothesis import strategies as st

TRAIN = {"uid": "0f1f", "namespace": "team", "name": "train", "empty_dirs": ["cache", "scratch"]}
PLAIN = {"uid": "1a2b", "namespace": "team", "name": "eval", "empty_dirs": []}
NAMELESS = {"uid": "2c3d", "namespace": "", "name": "", "empty_dirs": []}
SHELL = {"pid": 811, "name": "python3", "unit": ""}
DAEMON = {"pid": 812, "name": "dcgm", "unit": "dcgm.service"}
LOST = "Draining gpu1 deletes what pods have in emptyDir volumes: team/train: cache, scratch"
NOW, LATER = "2026-11-27T10:00:00Z", "2026-11-28T10:00:00Z"
ENTRY = {"since": NOW, "change": "a restart", "users": ["team/train (Job train)"], "pending": "containerd: service"}


@pytest.mark.parametrize(
    ("policy", "pods", "processes", "refused", "action", "warning"),
    [
        ("refuse", [], [], False, "", ""),
        ("refuse", [PLAIN], [], True, "", ""),
        ("refuse", [TRAIN], [], True, "", ""),
        ("refuse", [], [SHELL], True, "", ""),
        ("drain", [], [], False, "", ""),
        ("drain", [PLAIN], [], False, "drain", ""),
        ("drain", [PLAIN, TRAIN], [SHELL], False, "drain", LOST),
        ("drain", [], [SHELL], False, "", ""),
        ("signal", [], [], False, "", ""),
        ("signal", [PLAIN, TRAIN], [SHELL], False, "signal", LOST),
        ("signal", [], [SHELL], False, "", ""),
        ("wait", [], [], False, "", ""),
        ("wait", [TRAIN], [], False, "wait", ""),
        ("wait", [], [SHELL], False, "wait", ""),
        ("defer", [], [], False, "", ""),
        ("defer", [TRAIN], [], False, "defer", ""),
        ("defer", [], [SHELL], False, "defer", ""),
        ("ignore", [TRAIN], [SHELL], False, "", ""),
        # An unknown policy is treated as refuse.
        ("Drain", [PLAIN], [], True, "", ""),
    ],
)
def test_policy_decides_what_happens_to_users_of_gpus(
    policy: str, pods: list[Any], processes: list[Any], refused: bool, action: str, warning: str
) -> None:
    found = disruption(pods, policy, "gpu1", "a restart", processes, wait=60)
    assert (bool(found["refusal"]), found["action"], found["warning"]) == (refused, action, warning)
    assert found["jobs"] == [pod["uid"] for pod in pods] and len(found["users"]) == len(pods) + len(processes)
    assert found["evict"] == (policy in ("drain", "signal")) and found["grace"] == 60 * (policy in ("wait", "signal"))


@pytest.mark.parametrize(
    ("policy", "refused", "action"),
    [
        ("refuse", True, ""),
        ("drain", True, ""),
        ("signal", True, ""),
        ("wait", False, "defer"),
        ("defer", False, "defer"),
        ("ignore", False, ""),
    ],
)
def test_pod_that_started_after_the_cordon_is_not_interrupted(policy: str, refused: bool, action: str) -> None:
    found = disruption([TRAIN], policy, "gpu1", "a restart", [SHELL], held=True)
    assert (bool(found["refusal"]), found["action"], found["warning"]) == (refused, action, "")
    assert not refused or "pods that have been started meanwhile use the GPUs of gpu1: team/train" in found["refusal"]
    assert not disruption([], policy, "gpu1", "a restart", [SHELL], held=True)["refusal"]


@pytest.mark.parametrize(
    ("policy", "deadline", "grace", "until"),
    [
        ("wait", 0, 60, 1060),
        ("wait", 1020, 20, 1020),
        # The node is only cordoned, and deferred if its GPUs are in use then.
        ("wait", 990, 0, 990),
        ("signal", 0, 60, 0),
        ("signal", 1020, 60, 1020),
        ("drain", 0, 0, 0),
    ],
)
def test_a_node_waits_once_in_a_run(policy: str, deadline: float, grace: float, until: float) -> None:
    found = disruption([TRAIN], policy, "gpu1", "a restart", wait=60, deadline=deadline, now=1000)
    assert (found["grace"], found["deadline"]) == (grace, until)


def test_a_wait_has_begun_only_with_users() -> None:
    assert disruption([], "wait", "gpu1", "a restart", wait=60, now=1000)["deadline"] == 0


def test_process_that_outlasts_the_wait_defers_the_change() -> None:
    actions = {
        policy: disruption([], policy, "gpu1", "a restart", [SHELL], held=True)["action"]
        for policy in ("refuse", "drain", "signal", "wait", "defer", "ignore")
    }
    assert {policy for policy, action in actions.items() if action} == {"wait"}


@pytest.mark.parametrize(("policy", "held"), [("defer", False), ("defer", True), ("wait", True)])
def test_change_that_cannot_be_deferred_is_refused(policy: str, held: bool) -> None:
    found = disruption([TRAIN], policy, "gpu1", "a restart", held=held, may_defer=False)
    assert found["action"] == "" and "team/train" in found["refusal"] and "=defer" not in found["refusal"]
    assert disruption([TRAIN], "wait", "gpu1", "a restart", may_defer=False)["action"] == "wait"


def test_refusal_names_all_users_and_policies() -> None:
    refusal = disruption([TRAIN, NAMELESS], "refuse", "gpu1", "a restart of containerd", [SHELL, DAEMON])["refusal"]
    assert refusal.startswith(
        "Error while preparing a restart of containerd: it would interrupt what uses the GPUs of gpu1: team/train, "
        "pod 2c3d, python3 811, dcgm 812 dcgm.service. "
    )
    assert "cluster_disruption_policy=drain" in refusal
    assert all(f"={policy} (" in refusal for policy in ("drain", "signal", "wait", "defer", "ignore"))
    assert refusal.endswith(f" {LOST}.")


def test_users_are_named_with_their_controllers_if_known() -> None:
    owners = {"0f1f": "team/train (Job train)"}
    found = disruption([TRAIN, PLAIN], "defer", "gpu1", "a restart", [SHELL], owners=owners)
    assert found["users"] == ["team/train (Job train)", "team/eval", "python3 811"]


def record(text: str = "", purpose: str = "disruption", now: str = NOW, **more: Any) -> dict[str, Any]:
    given = {"change": "a restart", "pending": {"containerd": ["service"]}, "users": ENTRY["users"], **more}
    return deferral_file(text, purpose, now=now, **given)


def test_deferral_is_recorded_until_the_change_is_made() -> None:
    first = record()
    assert first["path"] == "/var/lib/gpulab/deferred.json" and json.loads(first["content"]) == {"disruption": ENTRY}
    both = record(first["content"], "driver-upgrade", LATER, pending="the NVIDIA driver to 595")
    assert described(both["content"]) == [
        f"a restart has been deferred since {NOW} (pending: containerd: service), blocked by team/train (Job train)",
        f"a restart has been deferred since {LATER} (pending: the NVIDIA driver to 595), "
        "blocked by team/train (Job train)",
    ]
    made = record(both["content"], users=[])
    assert list(json.loads(made["content"])) == ["driver-upgrade"]
    assert record(made["content"], "driver-upgrade", users=[]) == {"path": first["path"], "state": "absent"}


ALL = {
    "host": ["swap"],
    "containerd": ["configuration", "packages"],
    "kubeadm": ["packages"],
    "nvidia_driver": ["packages"],
}


@pytest.mark.parametrize(
    ("role", "applied", "pending"),
    [
        ("", False, "host: swap; nvidia_driver: packages; containerd: configuration, packages; kubeadm: packages"),
        ("nvidia_driver", False, "nvidia_driver: packages; containerd: configuration, packages; kubeadm: packages"),
        ("containerd", False, "containerd: configuration, packages; kubeadm: packages"),
        ("containerd", True, "kubeadm: packages"),
        ("kubeadm", True, "a restart"),
    ],
)
def test_what_was_changed_before_the_deferral_is_not_pending(role: str, applied: bool, pending: str) -> None:
    written = json.loads(record(pending=ALL, role=role, applied=applied)["content"])["disruption"]
    assert written["pending"] == pending


def test_change_that_is_deferred_again_keeps_its_start_time() -> None:
    again = json.loads(record(record()["content"], now=LATER, users=["team/eval"])["content"])["disruption"]
    assert (again["since"], again["users"]) == (NOW, ["team/eval"])


DAMAGED = [
    "{",
    "[]",
    "\ud800",
    "[" * 100000,
    "x" * 70000,
    json.dumps({"disruption": ENTRY}) + " " * 70000,
    json.dumps({"gpu-isolation": ENTRY}),
    json.dumps({"disruption": []}),
    json.dumps({"disruption": {**ENTRY, "more": 1}}),
    json.dumps({"disruption": {**ENTRY, "since": "yesterday"}}),
    json.dumps({"disruption": {**ENTRY, "since": 7}}),
    json.dumps({"disruption": {**ENTRY, "users": "team/train"}}),
    json.dumps({"disruption": {**ENTRY, "users": [{}]}}),
    json.dumps({"disruption": {**ENTRY, "users": ["x"] * 33}}),
    json.dumps({"disruption": {**ENTRY, "change": "\x1b[2J"}}),
    json.dumps({"disruption": {**ENTRY, "change": "a\nb"}}),
    json.dumps({"disruption": {**ENTRY, "pending": "x" * 301}}),
]


@pytest.mark.parametrize("text", [*DAMAGED, None, 7, {"disruption": ENTRY}])
def test_invalid_record_of_deferrals_is_rejected_and_replaced(text: Any) -> None:
    assert deferrals(text) is None
    assert described(text) == ["the record of its deferred changes can't be read (/var/lib/gpulab/deferred.json)"]
    assert json.loads(record(text)["content"]) == {"disruption": ENTRY}
    assert record(text, users=[])["state"] == "absent"


@given(st.one_of(JSON.map(json.dumps), st.text(), st.binary().map(lambda data: data.decode("utf-8", "replace"))))
def test_descriptions_of_any_record_are_printable(text: str) -> None:
    for line in described(text):
        assert line.isprintable() and line.isascii()


@given(st.text(), st.lists(st.text(), min_size=1), st.text())
def test_written_record_can_be_read(change: str, users: list[str], pending: str) -> None:
    written = record(change=change, users=users, pending=pending)["content"]
    assert list(deferrals(written) or {}) == ["disruption"]
