# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import FilterModule

decide = FilterModule().filters()["replacement_plan"]


def node(name: str, ready: str = "Unknown", record: str | None = None) -> dict[str, Any]:
    annotations = {} if record is None else {"gpulab.io/inventory-host": record}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def member(name: str, health: str = "unhealthy") -> dict[str, Any]:
    return {"id": f"id-{name}", "name": name, "health": health}


OTHERS = [node("cp2", "True", "cp2"), node("gpu1", "True")]
MEMBERS = [member("cp2", "healthy"), member("cp3", "healthy")]


@pytest.mark.parametrize(
    ("nodes", "members", "begun", "names", "ids", "words"),
    [
        ([node("cp1")], [member("cp1")], False, ["cp1"], ["id-cp1"], ""),
        ([node("cp1", record="cp1")], [member("cp1")], False, ["cp1"], ["id-cp1"], ""),
        # The former machine had another name, and the record shows whose node it is.
        ([node("old", record="cp1")], [member("old")], False, ["old"], ["id-old"], ""),
        ([node("cp1", record="other")], [], False, [], [], ""),
        # A worker, and a run that was interrupted.
        ([node("cp1")], [], False, ["cp1"], [], ""),
        ([], [], False, [], [], ""),
        ([], [member("cp1")], False, [], ["id-cp1"], ""),
        # It still runs.
        ([node("cp1", "True")], [], False, ["cp1"], [], "cp1 is healthy. Switch it off"),
        ([node("cp1")], [member("cp1", "healthy")], False, ["cp1"], ["id-cp1"], "cp1 is healthy. Switch it off"),
        # The inventory still has the former machine.
        ([node("cp1")], [member("cp1")], True, ["cp1"], ["id-cp1"], "Put the address of the new machine"),
    ],
)
def test_only_what_is_left_of_a_machine_that_is_off_goes(
    nodes: list[Any], members: list[Any], begun: bool, names: list[str], ids: list[str], words: str
) -> None:
    found = decide("cp1", {"node_name": "cp1", "cluster": {"begun": begun}}, nodes + OTHERS, members + MEMBERS)
    assert (found["nodes"], found["members"]) == (names, ids)
    assert words in found["problem"] and bool(found["problem"]) == bool(words)


def test_answers_in_other_forms_are_ignored() -> None:
    found = decide("cp1", {"node_name": "cp1"}, [None, {"metadata": 1}, {"metadata": {"annotations": []}}], ["x"])
    assert found == {"nodes": [], "members": [], "problem": ""}
