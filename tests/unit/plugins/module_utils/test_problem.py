# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems keep their remedies from detection to the report, however they are worded."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import report_samples
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import preflight_report
from ansible_collections.gpulab.kubernetes.plugins.filter.report import report_state
from ansible_collections.gpulab.kubernetes.plugins.filter.variables import variable_problems
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance import summary
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.network import Network
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.problems import REMEDIES
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.run import PodProof, Run
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.target import Gpu, Host, PluginLog, Target
from ansible_collections.gpulab.kubernetes.plugins.module_utils._acceptance.verdict import host_entry, whole
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.health import complete
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia.xid import findings, read_dmesg
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi import faults
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.merge import merge
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.values import Reading, empty_gpu
from ansible_collections.gpulab.kubernetes.plugins.module_utils._problem import Problem, together
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.view import page

PLUGINS = Path(__file__).resolve().parents[4] / "plugins"
GPUS = (Gpu("GPU-0", "Tesla T4"), Gpu("GPU-1", "Tesla T4"))
SETTINGS = {"observed": "2026-11-22T02:00:00Z", "now": 1.0, "certificate_days": 30, "api_failure": "refused"}
KIND = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
# Functions that create problems: the positions of kind and remedy; None if the remedy follows from the kind.
MAKERS: dict[str, tuple[int, int | None]] = {
    "Problem": (0, 4),
    ".problem": (0, 4),
    "_unique": (0, 4),
    "_action": (2, 5),
    "make_problem": (0, 4),
    "problem": (0, None),
    "fault": (0, None),
}


def shuffle(text: str) -> str:
    """Return another wording, the same for the same text; texts that were reworded already stay."""
    return text if text[:1] in ("", "~") else f"~{text[::-1]}"


def reword(patch: pytest.MonkeyPatch) -> None:
    """Change the wording of cause and details of all new problems."""
    made = Problem.__init__

    def init(self: Problem, *args: Any, **named: Any) -> None:
        fields = {**dict(zip(("kind", "what", "where", "why", "do", "host", "gpu"), args)), **named}
        made(self, **{**fields, "what": shuffle(fields["what"]), "why": shuffle(fields["why"])})

    patch.setattr(Problem, "__init__", init)


def node(name: str, ready: bool = True, allocatable: int = 2) -> dict[str, Any]:
    resources = {"nvidia.com/gpu": str(allocatable)}
    conditions = [{"type": "Ready", "status": str(ready), "message": "kubelet stopped posting"}]
    return {
        "metadata": {"name": name, "uid": name},
        "status": {"allocatable": resources, "capacity": resources, "conditions": conditions, "nodeInfo": {}},
    }


def proof(name: str, *uuids: str, kind: str = "gpu", **more: Any) -> PodProof:
    return PodProof(name, "n", kind, done=True, gpus=[Gpu(uuid, "Tesla T4") for uuid in uuids], **more)


def hosts() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield hosts with every problem that acceptance can find on a single host."""
    physical = GPUS
    conflict = {"level": "problem", "text": "not for mine", "files": ["/etc/containerd/a.toml"]}
    known = {f"GPU-{number}": "Tesla T4" for number in (0, 1, 8, 9)}
    earlier = {"devices": [{"uuid": "GPU-9", "name": "Tesla T4"}], "known": known, "known_count": 4}
    absent = Host("absent")
    yield "absent", host_entry(Target(absent, None), [], "i")
    silent = Host("silent", state="silent", complaint="it did not answer")
    yield "silent", host_entry(Target(silent, node("silent", ready=False)), [], "i", earlier=earlier)
    driver = Host("driver", GPUS, 2, state="degraded", complaint="said", advice="Reseat it.", physical=physical)
    yield "driver", host_entry(Target(driver, node("driver")), [], "i")
    few = Host("few", GPUS, 3, expected=4, physical=physical, containerd={"conflicts": [conflict]})
    log = PluginLog("device marked unhealthy", "Delete the plugin's pod.")
    yield "few", host_entry(Target(few, node("few", allocatable=1)), [], "i", log, earlier)
    cut = Host("cut", GPUS, 2, physical=physical, sharing={"complaint": "cut otherwise"})
    proofs = [proof("a", "GPU-0"), proof("b", "GPU-0"), proof("c", "GPU-7"), proof("d"), proof("e", trouble="failed")]
    proofs += [proof("f", "GPU-1", resource="other"), proof("g", kind="isolation", leaked=["/dev/nvidia0"])]
    yield "cut", host_entry(Target(cut, node("cut")), proofs, "i")
    pull = Host("pull", GPUS, 2, physical=physical)
    yield "pull", host_entry(Target(pull, node("pull")), [proof("p", trouble="ErrImagePull: not found")], "i")
    idle = Host("idle", GPUS, 2, physical=physical)
    yield "idle", host_entry(Target(idle, node("idle")), [proof("h", kind="isolation", trouble="failed")], "i")


class Deaf:
    """Fake API and run, in whose pod network no pod is reachable."""

    def proofs_of_kind(self, kind: str) -> list[PodProof]:
        return [PodProof(name, name, kind, trouble=said) for name, said in (("a", ""), ("b", ""), ("c", "failed"))]

    def clock(self) -> float:
        return 0

    def until(self, good: Callable[[], bool], limit: float) -> bool:
        return good()

    def get(self, path: str) -> dict[str, Any]:
        return {"spec": {"clusterIP": "192.0.2.1"}}

    def text(self, path: str, **query: str) -> str:
        return '{"errors": ["i/o timeout"]}'


def gpus() -> dict[str, Any]:
    """Return the result of nvidia_smi_info for GPUs with every readable fault and an Xid."""
    off = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."
    known = {"pending": True, "failure": True}
    found = [
        faults.health(recovery, True, {"state": "In Progress"}, known) for recovery in ("Reboot", "Reset", "Other")
    ]
    found += [faults.whole_gpu_problems(["GPU is lost", "GPU requires reset"]), faults.faults([("power", "ERR!")])]
    found.append(faults.license_problems("VGPU", "Unlicensed (Restricted)"))
    listed = merge([Reading("list", attached=7, gpus=[empty_gpu(index=index, problems=[]) for index in range(6)])])
    found.append(listed[6]["problems"])
    gpus = [
        {**empty_gpu(index=index, uuid=f"GPU-{index}", pci_bus_id=f"00000000:3{'ABCDEF0'[index]}:00.0")}
        | {"problems": [each.what for each in own], "faults": [faults.fields(each) for each in own]}
        for index, own in enumerate(found)
    ]
    return complete({"state": "degraded", "message": "said", "gpus": gpus}, findings(read_dmesg(off)))


def remedies() -> dict[str, list[Any]]:
    """Return every remedy with its subject, by the place where a person or a program finds it."""
    network = Network(cast(Api, Deaf()), cast(Run, Deaf()), "n").verify()
    # Stored in and read from the ConfigMap.
    report = json.loads(json.dumps(whole(dict(hosts()), network, {}, "now")))
    found = [*report["problems"], *report["warnings"]]
    smi = gpus()
    state = report_state(
        report, {"gpu1": {"reading": {"nvidia_smi": smi}}, "gone": {"failure": "no route to host"}}, SETTINGS
    )
    keys = ("problem", "host", "gpu", "do")
    variables = {"here": {"cuda_toolkit_default": "13.0.1", "cluster_expected_gpu": 1, "cluster_expected_gpus": "x"}}
    preflight = variable_problems(variables, ["here"])
    return {
        "acceptance": [(each["kind"], each["host"], each["gpu"], each["do"]) for each in found],
        "terminal": summary.remedies(report),
        "nvidia_smi": [(each["kind"], each["do"]) for gpu in smi["gpus"] for each in gpu["faults"]]
        + [gpu["advice"] for gpu in smi["gpus"]],
        "report": sorted(tuple(each[key] for key in keys) for each in state["actions"]),
        "page": sorted(
            (each.problem, host, each.gpu, each.do) for each in page(state).todo for host in each.hosts or ("",)
        ),
        "preflight": [(each["kind"], each["host"], each["do"]) for each in preflight],
        "preflight's report": re.findall(r"do: .*", preflight_report(preflight)),
    }


def test_every_remedy_arrives_unchanged_if_all_messages_are_reworded(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = remedies()
    reword(monkeypatch)
    assert all(each["cause"][0] == "~" for _name, entry in hosts() for each in entry["problems"])
    assert remedies() == plain
    # The comparison covers every kind that acceptance and nvidia-smi's readers know.
    assert {kind for kind, *_rest in plain["acceptance"]} == set(REMEDIES)
    assert {each[0] for each in plain["nvidia_smi"] if isinstance(each, tuple)} == {*faults.REMEDIES, "xid_79"}
    assert {kind for kind, *_rest in plain["report"]} >= {"api_unread", "host_unreachable", "gpu_unhealthy", *REMEDIES}
    assert len(plain["preflight"]) == 3
    for found in plain.values():
        assert found and all(each and (not isinstance(each, tuple) or each[-1]) for each in found)


# A command after a colon or another command, or in parentheses.
PROGRAM = r"(?:ansible-playbook|ansible|crictl|dkms|journalctl|kubeadm|kubectl|nvidia-smi|sudo|systemctl)"
COMMAND = re.compile(rf"(?:(?<=: )|(?<=\()){PROGRAM}(?: (?:[^\s,;().]|[,.](?=[^\s,;().]))+)*(?=\.?\s*$|\. |[,;)])")


def test_each_command_in_an_advice_of_the_report_is_data() -> None:
    network = Network(cast(Api, Deaf()), cast(Run, Deaf()), "n").verify()
    report = json.loads(json.dumps(whole(dict(hosts()), network, {}, "now")))
    keys = {"certificates": {"certificates": [{"name": "apiserver", "expires": "", "days_left": -1}]}}
    kernel = {"running": "6.1", "newest": "6.2", "newest_has_driver": False, "newest_has_headers": True}
    reading = {
        "pci": [{"address": "0000:3b:00.0"}],
        "packages": {"kubelet": {"version": "1.35.8-1.1", "held": False}},
        "driver": {"loaded": "570.1", "library": "570.1", "packages": {}},
        "kernel": kernel,
        "swap": [],
        "nvidia_smi": gpus(),
        **keys,
        "moved_aside": ["20261122T020000.000000Z"],
    }
    nothing: dict[str, Any] = {"gpu_packages": {}, "minimums": {}, "loose": [], "versions": [], "pool": ""}
    drivers = {"source": "cuda_repository", "driver": "580.178.04", "existing": "refuse"}
    wanted = {"packages": {"kubelet": "1.36.4-1.1"}, **nothing, **drivers}
    seen = {"gpu1": {"reading": reading, "pins": wanted}, "gone": {"failure": "no route to host"}}
    launch = {"agents": [{"alive": False}], "queues": {"q": None}, "jobs": [{"orphaned": True}, {"trouble": "x"}]}
    state = report_state(report, seen, {**SETTINGS, "certificate_days": 30, "launch": launch})
    rows = [{"do": row["advice"], "commands": row["commands"]} for row in state["hosts"]["gpu1"]["versions"]]
    found = [*state["actions"], *report["problems"], *rows]
    for each in found:
        commands = each.get("commands", [])
        assert "`" not in each["do"] and all(command in each["do"] for command in commands), each
        assert [text for text in COMMAND.findall(each["do"]) if text not in commands] == [], each
    assert len({command for each in found for command in each.get("commands", [])}) > 15


def test_a_specific_remedy_replaces_the_general_one_of_its_kind() -> None:
    found = {(each["kind"], host): each["do"] for host, entry in hosts() for each in entry["problems"]}
    assert found["gpus_not_allocatable", "few"] == "Delete the plugin's pod."
    assert found["driver_not_ok", "driver"].startswith(
        "Reseat it. Then install and load the driver: ansible-playbook gpulab.kubernetes.site"
    )
    assert "ansible silent -m ping" in found["host_silent", "silent"]


def makers() -> Iterator[tuple[str, ast.expr, ast.expr | None]]:
    """Yield location, kind and remedy (unless it follows from the kind) of each call that creates a problem."""
    for path in sorted(PLUGINS.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                name = call.func.id if isinstance(call.func, ast.Name) else f".{getattr(call.func, 'attr', '')}"
                kind, do = MAKERS.get(name, (None, None))
                is_copy = any(isinstance(each, ast.Starred) for each in call.args) or any(
                    keyword.arg is None for keyword in call.keywords
                )
                if kind is not None and not is_copy:
                    yield f"{path.name}:{call.lineno}", call.args[kind], None if do is None else call.args[do]


def test_every_kind_has_a_remedy() -> None:
    assert all(KIND.fullmatch(kind) and do.strip() for kind, do in (*REMEDIES.items(), *faults.REMEDIES.items()))
    kinds = set()
    for place, kind, do in makers():
        assert not isinstance(do, ast.Constant) or do.value, f"{place}: nothing to do"
        if isinstance(kind, ast.Constant):
            name = str(kind.value)
            assert KIND.fullmatch(name), place
            assert do is not None or name in {*REMEDIES, *faults.REMEDIES}, f"{place}: no remedy of {name}"
            kinds.add(name)
    assert len(kinds) > 100, "the calls were not found"


def test_a_report_from_before_the_kinds_is_read() -> None:
    old = report_samples.well()
    old["problems"] = [
        {"host": "gpu1", "gpu": "GPU-1", "cause": "no pod was given this GPU"},
        {"host": "gpu1", "gpu": "GPU-2", "cause": "no pod was given this GPU"},
        {"host": "", "gpu": "", "cause": "the API could not be read: refused"},
    ]
    [both, api] = together(old["problems"])
    assert (both.kind, both.gpu, both.do, api.host) == ("", "GPU-1, GPU-2", "", "")
    found = report_state(old, {}, {})
    assert [each["what"] for each in found["actions"]] == ["no pod was given this GPU"]
    assert found["actions"][0]["do"].startswith("Fix the reported problem")
    assert summary.problems(old)[0] == "gpu1: GPU-1, GPU-2: no pod was given this GPU" and summary.remedies(old) == []
