# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health according to nvidia-smi and the kernel log combined, and the source of the kernel log."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import CommandNotFoundError, Result
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.health import complete
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.kernel_log import kernel_records
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.xid import (
    Finding,
    findings,
    read_dmesg,
    read_records,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi import states as state
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.faults import (
    faults,
    fields,
    health,
    problem_from_message,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.values import empty_gpu
from ansible_collections.gpulab.kubernetes.plugins.module_utils._problem import Problem

FIRST, SECOND = "00000000:3B:00.0", "00000000:5E:00.0"
LOST = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
MINOR = "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=a, MMU Fault"
STRAY = "NVRM: Xid (PCI:0000:af:00): 79, GPU has fallen off the bus."


def facts(found: str = "ok", *faults: Problem) -> dict[str, Any]:
    known = {"problems": [each.what for each in faults], "faults": [fields(each) for each in faults]}
    gpus = [
        {**empty_gpu(index=0, pci_bus_id=FIRST, **known), "healthy": not faults},
        {**empty_gpu(index=1, pci_bus_id=SECOND), "faults": [], "healthy": True},
    ]
    return {"state": found, "message": None if found == "ok" else "said", "advice": None, "gpus": gpus}


def found(*lines: str) -> list[Finding]:
    return findings(read_dmesg("\n".join(lines)))


def test_minor_xids_do_not_change_the_facts() -> None:
    known = complete(facts(), found(MINOR))
    assert (known["state"], known["message"], known["problems"]) == ("ok", None, [])
    assert [(gpu["healthy"], gpu["advice"]) for gpu in known["gpus"]] == [(True, []), (True, [])]


def test_a_critical_xid_makes_its_gpu_unhealthy() -> None:
    known = complete(facts(), found(LOST, MINOR))
    assert known["state"] == "degraded"
    assert known["message"] == f"GPU 0, {FIRST}: Xid 79: the GPU has fallen off the bus"
    assert known["advice"] == known["gpus"][0]["advice"][0]
    first, second = known["gpus"]
    assert (first["healthy"], first["problems"]) == (False, ["Xid 79: the GPU has fallen off the bus"])
    assert len(first["advice"]) == 1 and first["advice"][0].startswith("Reboot the host")
    assert second["healthy"]


def test_an_xid_of_a_gpu_that_nvidia_smi_does_not_list_is_reported_too() -> None:
    known = complete(facts(), found(STRAY))
    assert (known["state"], known["message"]) == (
        "degraded",
        "GPU 00000000:AF:00.0: Xid 79: the GPU has fallen off the bus",
    )


def test_a_worse_state_is_kept() -> None:
    known = complete(facts("gpu_lost", problem_from_message("GPU is lost")), found(LOST))
    assert known["state"] == "gpu_lost"
    assert known["message"].startswith("said\nGPU 0")
    assert known["gpus"][0]["problems"] == ["GPU is lost", "Xid 79: the GPU has fallen off the bus"]
    assert known["problems"] == ["GPU 0: GPU is lost, Xid 79: the GPU has fallen off the bus"]
    assert len(known["gpus"][0]["advice"]) == 1


SOUND: dict[str, Any] = {"recovery": None, "reset": None, "fabric": {}, "memory": {"pending": None, "failure": None}}


def account(**more: Any) -> Problem:
    """Return the only problem of a GPU with these values."""
    [found] = health(**{**SOUND, **more})
    return found


@pytest.mark.parametrize(
    ("problem", "said", "words"),
    [
        (problem_from_message("GPU is lost"), "GPU is lost", "Reboot the host"),
        (problem_from_message("GPU requires reset"), "GPU requires reset", "--gpu-reset"),
        (account(reset=True), "a reset is required", "--gpu-reset"),
        (account(recovery="Reset"), "recovery action: Reset", "--gpu-reset"),
        (account(recovery="Drain and Reset"), "recovery action: Drain and Reset", "--gpu-reset"),
        (account(recovery="Reboot"), "recovery action: Reboot", "Reboot the host"),
        (account(memory={"pending": None, "failure": True}), "row remapping failed", "vendor"),
        (account(memory={"pending": True, "failure": None}), "defective memory will be disabled", "next reset"),
        (account(fabric={"state": "In Progress"}), "fabric state: In Progress", "nvidia-fabricmanager"),
        (faults([("temperature", "Unknown Error")])[0], "temperature: Unknown Error", "Check nvidia-smi -q"),
    ],
)
def test_every_problem_has_a_remedy(problem: Problem, said: str, words: str) -> None:
    known = complete(facts("degraded", problem), [])
    (advice,) = known["gpus"][0]["advice"]
    assert words in advice and known["gpus"][0]["problems"][0].startswith(said)
    assert known["gpus"][0]["faults"] == [{"kind": problem.kind, "what": problem.what, "do": advice}]
    assert known["advice"] == (advice if not said.startswith("temp") else state.ADVICE[state.DEGRADED])
    assert known["message"] == "said"


def test_general_advice_is_only_given_without_a_specific_one() -> None:
    known = complete(facts("degraded", *faults([("power", "ERR!"), ("name", "GPU is lost")])), [])
    assert known["gpus"][0]["problems"] == ["power: ERR!", "GPU is lost"]
    assert len(known["gpus"][0]["advice"]) == 1


def runner(**answers: Result | None) -> Callable[[Sequence[str]], Result]:
    def run(argv: Sequence[str]) -> Result:
        answer = answers.get(argv[0])
        if answer is None:
            raise CommandNotFoundError(f"Error while running {argv[0]}: there is no such program on this host")
        return answer

    return run


JOURNAL = json.dumps({"MESSAGE": LOST, "_TRANSPORT": "kernel"})


@pytest.mark.parametrize(
    ("answers", "numbers", "failure"),
    [
        ({"journalctl": Result((), 0, JOURNAL, "")}, [79], None),
        ({"journalctl": Result((), 0, "{}\n", ""), "dmesg": Result((), 0, LOST, "")}, [], None),
        # This journal does not record the kernel's messages.
        ({"journalctl": Result((), 0, "", ""), "dmesg": Result((), 0, LOST, "")}, [79], None),
        ({"journalctl": Result((), 0, "", "")}, None, "journalctl: it has no messages of the kernel"),
        ({"journalctl": Result((), 1, "", "No journal"), "dmesg": Result((), 0, LOST, "")}, [79], None),
        ({"dmesg": Result((), 0, LOST, "")}, [79], None),
        ({"dmesg": Result((), 1, "", "Operation not permitted")}, None, "dmesg: Operation not permitted"),
        ({}, None, "there is no such program"),
    ],
)
def test_the_journal_is_read_before_dmesg(
    answers: dict[str, Result], numbers: list[int] | None, failure: str | None
) -> None:
    records, said = kernel_records(runner(**answers))
    assert (None if records is None else [event.xid for event in read_records(records)]) == numbers
    assert (failure is None) == (said is None) and (failure or "") in (said or "")
