# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice on the page: commands are separated from the text, and equal problems of several hosts are merged."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.problems import REMEDIES
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.faults import REMEDIES as FAULTS
from ansible_collections.gpulab.kubernetes.plugins.module_utils._problem import split_commands
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.actions import actions
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.certificates import renewal
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.todo import remedy, todo
from hypothesis import given
from hypothesis import strategies as st

VERIFY = "ansible-playbook gpulab.kubernetes.verify -i INVENTORY"


@pytest.mark.parametrize(
    ("do", "expected"),
    [
        ("Reboot the host.", ["Reboot the host."]),
        (f"Fix it. Then verify it: `{VERIFY}`.", ["Fix it. Then verify it:", f"$ {VERIFY}"]),
        (
            renewal(["etcd-server", "scheduler.conf"]),
            ["Renew them:", "$ ansible-playbook gpulab.kubernetes.renew_certificates -i INVENTORY"],
        ),
        (
            "On the host: `systemctl status kubelet containerd`, `journalctl -u kubelet -n 50`. Then run it.",
            ["On the host:", "$ systemctl status kubelet containerd", "$ journalctl -u kubelet -n 50", "Then run it."],
        ),
        (
            "Look at its pods (`kubectl --namespace kube-system get pods`). Wait.",
            ["Look at its pods (`kubectl --namespace kube-system get pods`). Wait."],
        ),
        # Dots and commas that belong to a command.
        (
            "Delete it: `kubectl delete pod a.b -o custom-columns=A:.a,B:.b`.",
            ["Delete it:", "$ kubectl delete pod a.b -o custom-columns=A:.a,B:.b"],
        ),
        ("Set it: `a --b (c), d`, or `e: f`.", ["Set it:", "$ a --b (c), d", "Or `e: f`."]),
        ("Look at kubectl and nvidia-smi first, then reboot.", ["Look at kubectl and nvidia-smi first, then reboot."]),
        ("", []),
    ],
)
def test_commands_are_separated_from_text(do: str, expected: list[str]) -> None:
    forms = {"text": "{}", "code": "`{}`", "command": "$ {}"}
    shown = [
        "".join(forms[piece.kind].format(piece.text) for piece in pieces).strip()
        for pieces in remedy(*split_commands(do))
    ]
    assert shown == expected


@given(st.text(st.sampled_from("ab: .,;()k`")) | st.sampled_from([*REMEDIES.values(), *FAULTS.values()]))
def test_all_words_of_advice_are_kept(do: str) -> None:
    letters = "".join(piece.text for pieces in remedy(*split_commands(do)) for piece in pieces)
    assert [c for c in letters.lower() if c.isalnum()] == [c for c in do.lower() if c.isalnum()]


@pytest.mark.parametrize("commands", [["a -b", "a -b"], ["a", "a -b"], ["a -b"], []])
def test_advice_about_versions_and_its_commands_are_not_changed(commands: list[str]) -> None:
    row = {"component": "x", "wanted": "1", "found": "2", "drift": True, "advice": "Run: a -b. Or: a -b."}
    report = {"problems": [], "hosts": {"gpu1": {"versions": [{**row, "commands": commands}]}}}
    (found,) = actions(report, 30)
    assert (found.problem.do, list(found.problem.commands)) == (row["advice"], commands)


def action(host: str, **more: Any) -> dict[str, Any]:
    return {
        "severity": "warning",
        "problem": "p",
        "host": host,
        "gpu": "",
        "what": "kubelet differs",
        "do": "Fix.",
        **more,
    }


def test_equal_problems_of_several_hosts_are_merged_at_the_first() -> None:
    first, second = todo([action("gpu1"), action("gpu9", what="other"), action("gpu2"), action("")])
    assert (first.where, first.names, second.where) == ("gpu1, gpu2", "", "gpu9")
    (many,) = todo([action(f"gpu{place}") for place in range(5)])
    assert (many.where, many.names) == ("5 hosts", "gpu0, gpu1, gpu2, gpu3, gpu4")


def test_problems_with_different_remedies_are_not_merged() -> None:
    assert len(todo([action("gpu1", do="--limit gpu1"), action("gpu2", do="--limit gpu2")])) == 2
