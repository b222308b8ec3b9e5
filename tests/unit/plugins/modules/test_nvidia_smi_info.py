# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import smi_tables
import smi_texts as smi
from support.programs import run_ansible

REPOSITORY = Path(__file__).resolve().parents[4]
CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", REPOSITORY.parent / "shared/captures"))


@pytest.fixture
def prints(programs: Any, tmp_path: Path) -> Any:
    """Create an nvidia-smi that prints a text for any arguments, and then runs ``end``."""

    def make(text: str | bytes, end: str = "exit 0") -> str:
        path = tmp_path / "output"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(programs.add("nvidia-smi", f"cat {path}\n{end}"))

    return make


def test_the_program_is_found_in_path(run_module: Any, prints: Any) -> None:
    prints(smi.xml())
    for check in (False, True):
        result = run_module("nvidia_smi_info", {}, check=check)
        assert (result["changed"], result["state"], result["count"]) == (False, "ok", 4)
        assert [gpu["uuid"] for gpu in result["gpus"]] == [gpu.uuid for gpu in smi.FOUR]


def test_each_form_is_queried_with_its_option(run_module: Any, programs: Any, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(smi.listed())
    (tmp_path / "csv").write_text(smi.csv("count,index,uuid,name,pci.bus_id"))
    programs.add(
        "nvidia-smi",
        f'echo "$*" >> {tmp_path}/log\ncase "$1" in\n-q) echo broken; exit 255;;\n--query-gpu=*) cat {tmp_path}/csv;;\n'
        f"-L) cat {tmp_path}/list;;\n*) exit 1;;\nesac",
    )
    result = run_module("nvidia_smi_info", {})
    assert (result["state"], result["source"]) == ("ok", ["csv", "list"])
    log = (tmp_path / "log").read_text().splitlines()
    assert log[0] == "-q -x"
    assert log[1].endswith("--format=csv")
    assert log[2:] == ["-L", ""]


def test_a_driver_in_another_root_directory_is_queried(run_module: Any, tmp_path: Path) -> None:
    program = tmp_path / "usr" / "bin" / "nvidia-smi"
    program.parent.mkdir(parents=True)
    (tmp_path / "output").write_text(smi.xml())
    program.write_text(f'#!/bin/sh\necho "$LD_LIBRARY_PATH" >{tmp_path}/log\ncat {tmp_path}/output\n')
    program.chmod(0o755)
    result = run_module("nvidia_smi_info", {"driver_root": str(tmp_path), "executable": "nothing"})
    assert (result["state"], result["count"]) == ("ok", 4)
    assert (tmp_path / "log").read_text().startswith(f"{tmp_path}/usr/lib/x86_64-linux-gnu:")


def test_a_missing_program_is_reported(run_module: Any) -> None:
    result = run_module("nvidia_smi_info", {"executable": "nvidia-smi-is-not-here"})
    assert (result["failed"], result["state"], result["rc"]) == (False, "driver_not_installed", None)
    assert result["gpus"] == []
    assert "nvidia-smi-is-not-here" in result["message"]
    assert "Install the NVIDIA driver" in result["advice"]


@pytest.mark.parametrize(("words", "rc", "state"), smi.MESSAGES)
def test_each_error_message_has_its_state(run_module: Any, prints: Any, words: str, rc: int, state: str) -> None:
    path = prints(words, f"exit {rc}")
    result = run_module("nvidia_smi_info", {"executable": path})
    assert (result["failed"], result["state"], result["rc"]) == (False, state, rc)


def test_the_module_only_fails_on_requested_states(run_module: Any, prints: Any) -> None:
    words, rc, state = smi.MESSAGES[1]
    prints(words, f"exit {rc}")
    assert not run_module("nvidia_smi_info", {"fail_on": ["degraded"]})["failed"]
    result = run_module("nvidia_smi_info", {"fail_on": [state]})
    assert result["failed"]
    assert result["msg"].startswith("Error while reading the GPUs: driver_not_loaded: NVIDIA-SMI has failed because")
    assert "modprobe nvidia" in result["msg"]
    assert (result["state"], result["rc"]) == (state, rc)


def test_a_program_that_hangs_is_killed(run_module: Any, prints: Any) -> None:
    prints(smi.xml()[:400], "sleep 600")
    begun = time.monotonic()
    result = run_module("nvidia_smi_info", {"timeout": 1})
    assert time.monotonic() - begun < 20
    assert (result["state"], result["rc"]) == ("timeout", None)
    assert "no response within 1 s" in result["message"]


def test_a_program_ended_by_a_signal_is_reported(run_module: Any, prints: Any) -> None:
    prints(smi.xml()[:900], "kill -SEGV $$")
    result = run_module("nvidia_smi_info", {})
    assert (result["state"], result["rc"]) == ("crashed", -11)


PLAYBOOK = """
- name: Ask them all
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Ask
      gpulab.kubernetes.nvidia_smi_info:
        executable: "{{ item }}"
        timeout: 2
      loop: "{{ programs }}"
      register: asked

    - name: Write down
      ansible.builtin.copy:
        content: "{{ asked.results | to_json }}"
        dest: "{{ answers }}"
        mode: "0600"

    - name: Insist
      gpulab.kubernetes.nvidia_smi_info:
        executable: "{{ programs[1] }}"
        fail_on: [driver_not_loaded]
"""


def test_the_module_works_in_a_playbook(programs: Any, tmp_path: Path) -> None:
    words, rc, _state = smi.MESSAGES[1]
    for name, text in {
        "good": smi.xml(),
        "words": words,
        "lost": smi_tables.many(4, "GPU1: 0001:20:00.0: lost\n"),
    }.items():
        (tmp_path / name).write_text(text)
    bodies = {
        "good": f"cat {tmp_path}/good",
        "words": f"cat {tmp_path}/words; exit {rc}",
        "stderr": f"cat {tmp_path}/words >&2; exit 255",
        "lost": f"cat {tmp_path}/lost; exit 15",
        "crash": f"head -c 900 {tmp_path}/good; kill -SEGV $$",
        "wrapped-crash": f"head -c 900 {tmp_path}/good; exit 139",
        "slow": f"head -c 900 {tmp_path}/good; sleep 600",
        "silent": "exit 0",
    }
    answers = tmp_path / "answers.json"
    (tmp_path / "play.yml").write_text(PLAYBOOK)
    settings = {
        "programs": [str(programs.add(name, body)) for name, body in bodies.items()],
        "answers": str(answers),
        "ansible_python_interpreter": sys.executable,
    }
    arguments = ["-i", "localhost,", "-c", "local", "play.yml", "-e", json.dumps(settings)]
    status, output = run_ansible(tmp_path, *arguments)
    assert status == 2, output
    assert "Error while reading the GPUs: driver_not_loaded: NVIDIA-SMI has failed because" in " ".join(output.split())
    found = dict(zip(bodies, json.loads(answers.read_text()), strict=True))
    assert {name: (each["state"], each.get("rc"), each["failed"]) for name, each in found.items()} == {
        "good": ("ok", 0, False),
        "words": ("driver_not_loaded", 9, False),
        "stderr": ("driver_not_loaded", 255, False),
        "lost": ("degraded", 15, False),
        "crash": ("crashed", -11, False),
        "wrapped-crash": ("crashed", 139, False),
        "slow": ("timeout", None, False),
        "silent": ("unreadable", 0, False),
    }
    assert [gpu["index"] for gpu in found["lost"]["gpus"]] == [0, 1, 2, 3]


def test_an_invalid_time_limit_is_an_error(run_module: Any, prints: Any) -> None:
    prints(smi.xml())
    result = run_module("nvidia_smi_info", {"timeout": 0})
    assert result["failed"]
    assert result["msg"] == "Error while reading the GPUs: timeout is 0 s; set it to 1 s or more"


def test_a_file_that_is_not_executable_is_reported(run_module: Any, programs: Any) -> None:
    path = programs.add("nvidia-smi", "")
    path.write_bytes(b"\x7fELF\x02nothing behind it")
    result = run_module("nvidia_smi_info", {})
    assert (result["state"], result["rc"]) == ("unreadable", 126)
    assert "Exec format error" in result["message"]


def test_invalid_utf8_is_replaced(run_module: Any, prints: Any) -> None:
    prints(smi.xml((smi.Gpu(name="T\xe9sla"),)).encode("latin-1"))
    assert run_module("nvidia_smi_info", {})["gpus"][0]["name"] == "T\ufffdsla"


def test_only_the_requested_parts_are_gathered(run_module: Any, prints: Any) -> None:
    prints(smi.xml())
    assert run_module("nvidia_smi_info", {})["gpus"][0]["processes"][0]["pid"] == 4000
    result = run_module("nvidia_smi_info", {"gather": ["gpus", "topology"]})
    assert result["gpus"][0]["processes"] == []
    assert result["topology"] is None


def _index() -> list[tuple[str, dict[str, Any]]]:
    path = CAPTURES / "INDEX.tsv"
    rows = [row.split("\t") for row in path.read_text().splitlines()[1:]] if path.exists() else []
    return [(row[0], json.loads(row[3])) for row in rows if row[0].startswith("nvidia_smi_")]


RECORDED = _index()


@pytest.mark.skipif(not RECORDED, reason="recorded outputs are not here")
@pytest.mark.parametrize(("name", "expected"), RECORDED, ids=[name for name, _expected in RECORDED])
def test_recorded_outputs_are_read(run_module: Any, prints: Any, name: str, expected: dict[str, Any]) -> None:
    prints((CAPTURES / name).read_bytes(), f"exit {expected.get('exit_code', 0)}")
    result = run_module("nvidia_smi_info", {"gather": ["gpus", "mig", "processes", "topology"]})
    readers = {"xml": _xml, "csv": _csv, "table": _table, "L": _list, "topo": _topo}
    check = readers[name.split("/")[0].rpartition("_")[2]]
    check(result, expected)


def _null(value: Any) -> Any:
    return None if value in ("N/A", "[N/A]", "None", "REDACTED", None) else value


def _number(value: Any) -> float | None:
    text = str(_null(value) or "").partition(" ")[0]
    return float(text) if text else None


def _xml(result: dict[str, Any], expected: dict[str, Any]) -> None:
    assert result["source"] == ["xml"]
    for key in ("driver_version", "cuda_version"):
        assert result[key] == expected[key]
    assert (result["count"], len(result["gpus"])) == (expected["attached_gpus"], expected["gpu_elements"])
    faulty = any(not gpu["healthy"] for gpu in result["gpus"])
    assert result["state"] == (
        "ok" if expected["attached_gpus"] == expected["gpu_elements"] and not faulty else "degraded"
    )
    gpu, first = result["gpus"][0], expected["gpu0"]
    assert gpu["pci_bus_id"] == first["pci_id_attr"].upper()
    for key in ("name", "brand", "architecture", "uuid"):
        assert gpu[key] == first[key]
    assert gpu["minor_number"] == _number(first["minor_number"])
    assert gpu["memory_total_mib"] == first["memory_total_MiB"]
    assert gpu["memory_used_mib"] == _number(first["memory_used"])
    assert gpu["mig"]["current"] == _null(first["mig_current"])
    assert gpu["mig"]["pending"] == _null(first["mig_pending"])
    assert len(gpu["mig"]["devices"]) == first["mig_device_count"]
    assert gpu["ecc"]["current"] == _null(first["ecc_current"])
    assert gpu["persistence_mode"] == _null(first["persistence_mode"])
    assert gpu["temperature_c"] == _number(first["gpu_temp"])
    assert len(gpu["processes"]) == first["process_count"]
    assert gpu["fabric"]["state"] == _null(first.get("fabric_state"))
    assert gpu["fabric"]["status"] == _null(first.get("fabric_status"))
    assert [gpu["uuid"] for gpu in result["gpus"]] == expected.get("all_uuids", [first["uuid"]])
    assert [gpu["pci_bus_id"] for gpu in result["gpus"]] == expected.get("all_pci", [first["pci_id_attr"]])
    for device, wanted in zip(gpu["mig"]["devices"], expected.get("mig_devices", []), strict=True):
        assert (device["gi"], device["ci"]) == (int(wanted["gi"]), int(wanted["ci"]))
        assert (device["memory_total_mib"], device["uuid"]) == (wanted["memory_total_MiB"], wanted["uuid"])


def _csv(result: dict[str, Any], expected: dict[str, Any]) -> None:
    row = expected["row0"]
    gpu = result["gpus"][0]
    if isinstance(row, list):
        row = dict(zip(expected["columns"], row, strict=True))
        assert (result["state"], gpu["uuid"]) == ("degraded", row["gpu_uuid"])
        assert len(gpu["processes"]) == expected["rows"]
        first = gpu["processes"][0]
        assert (first["pid"], first["name"]) == (int(row["pid"]), row["process_name"])
        return
    assert (result["state"], result["count"]) == ("ok", expected["rows"])
    assert result["driver_version"] == row["driver_version"]
    assert (gpu["name"], gpu["uuid"], gpu["pci_bus_id"]) == (row["name"], row["uuid"], row["pci.bus_id"])
    assert gpu["memory_total_mib"] == _number(row["memory.total [MiB]"])
    assert gpu["memory_used_mib"] == _number(row["memory.used [MiB]"])
    assert gpu["utilization_gpu_pct"] == _number(row["utilization.gpu [%]"])
    assert gpu["power_draw_w"] == _number(row["power.draw [W]"])
    assert gpu["ecc"]["current"] == _null(row["ecc.mode.current"])
    assert gpu["mig"]["current"] == _null(row["mig.mode.current"])
    assert gpu["fabric"]["state"] == _null(row["fabric.state"])


def _table(result: dict[str, Any], expected: dict[str, Any]) -> None:
    assert result["driver_version"] == expected["driver_version"]
    assert result["cuda_version"] == expected["cuda_version"]
    if "attached_gpus" in expected:
        assert (result["count"], result["gpus"][0]["pci_bus_id"]) == (expected["attached_gpus"], expected["first_gpu"])
        assert result["state"] == "degraded"
        return
    if "gpus" not in expected:
        assert result["state"] == "unreadable"
        return
    assert len(result["gpus"]) == len(expected["gpus"])
    for gpu, wanted in zip(result["gpus"], expected["gpus"], strict=True):
        assert (gpu["index"], gpu["name"]) == (wanted["index"], wanted["name_shown"])
        assert gpu["pci_bus_id"] == wanted["bus_id"]
        assert gpu["memory_total_mib"] == wanted["memory_total_MiB"]
        assert gpu["memory_used_mib"] == wanted["memory_used_MiB"]
        assert gpu["mig"]["current"] == _null(wanted["mig_mode_col"])
        devices = [device for device in expected["mig_devices"] if device["gpu"] == gpu["index"]]
        found = [(device["gi"], device["ci"], device["memory_total_mib"]) for device in gpu["mig"]["devices"]]
        assert found == [(device["gi"], device["ci"], device["memory_total_MiB"]) for device in devices]
    pids = [process["pid"] for gpu in result["gpus"] for process in gpu["processes"]]
    assert pids == expected["process_pids"]


def _list(result: dict[str, Any], expected: dict[str, Any]) -> None:
    assert result["state"] == "ok"
    for gpu, wanted in zip(result["gpus"], expected["gpus"], strict=True):
        assert (gpu["index"], gpu["name"], gpu["uuid"]) == (wanted["index"], wanted["name"], wanted["uuid"])
        found = [(device["profile"], device["uuid"]) for device in gpu["mig"]["devices"]]
        assert found == [(device["profile"], device["uuid"]) for device in wanted["mig"]]


def _topo(result: dict[str, Any], expected: dict[str, Any]) -> None:
    if "error" in expected:
        assert result["topology"] is None
        assert expected["error"] in result["message"]
        return
    for key in ("gpus", "nics", "matrix"):
        assert result["topology"][key] == expected[key]
    for key in ("cpu_affinity", "numa_affinity", "gpu_numa_id"):
        assert result["topology"][key] == {gpu: _null(value) or None for gpu, value in expected[key].items()}


def journal(xid: int, text: str, time: int) -> str:
    message = f"NVRM: Xid (PCI:{smi.FOUR[1].bus[4:-2].lower()}): {xid}, {text}"
    return json.dumps({"MESSAGE": message, "_TRANSPORT": "kernel", "__REALTIME_TIMESTAMP": f"{time}000000"})


def test_xids_are_read_from_the_kernel_log(run_module: Any, prints: Any, programs: Any, tmp_path: Path) -> None:
    prints(smi.xml())
    (tmp_path / "journal").write_text(
        f"{journal(79, 'GPU has fallen off the bus.', 1795323985)}\n{journal(31, 'MMU', 1795323990)}\n"
    )
    programs.add("journalctl", f'case "$*" in *--boot*--identifier=kernel*) cat {tmp_path}/journal;; *) exit 1;; esac')
    assert run_module("nvidia_smi_info", {})["xids"] is None
    result = run_module("nvidia_smi_info", {"gather": ["gpus", "xids"]})
    assert (result["failed"], result["state"], result["xids_failure"]) == (False, "degraded", None)
    assert [(each["xid"], each["severity"], each["last"]) for each in result["xids"]] == [
        (31, "warning", "2026-11-22T05:06:30Z"),
        (79, "critical", "2026-11-22T05:06:25Z"),
    ]
    assert [gpu["healthy"] for gpu in result["gpus"]] == [True, False, True, True]
    later = run_module("nvidia_smi_info", {"gather": ["xids"], "xids_since": "2026-11-22T05:06:26Z"})
    assert (later["state"], [each["xid"] for each in later["xids"]]) == ("ok", [31])


def test_an_unreadable_kernel_log_is_reported(run_module: Any, prints: Any, programs: Any) -> None:
    prints(smi.xml())
    for name in ("journalctl", "dmesg"):
        programs.add(name, "echo 'Operation not permitted' >&2; exit 1")
    result = run_module("nvidia_smi_info", {"gather": ["gpus", "xids"]})
    assert (result["state"], result["xids"]) == ("ok", None)
    assert result["xids_failure"].count("Operation not permitted") == 2


def test_an_invalid_time_is_an_error(run_module: Any, prints: Any) -> None:
    prints(smi.xml())
    result = run_module("nvidia_smi_info", {"gather": ["xids"], "xids_since": "yesterday"})
    assert result["failed"] and "write it as in 2026-11-22T05:06:25Z" in result["msg"]


REQUIRED = "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2bb1)\nNVRM: installed in this system requires use of the "


@pytest.mark.parametrize("gather", [["gpus"], ["gpus", "xids"]])
def test_without_devices_the_kernels_reason_is_reported(
    run_module: Any, programs: Any, prints: Any, tmp_path: Path, gather: list[str]
) -> None:
    record = {"MESSAGE": f"{REQUIRED}NVIDIA open kernel modules.", "_TRANSPORT": "kernel"}
    (tmp_path / "journal").write_text(json.dumps(record))
    programs.add("journalctl", f"cat {tmp_path}/journal")
    prints("No devices were found\n", "exit 6")
    result = run_module("nvidia_smi_info", {"gather": gather})
    assert result["state"] == "no_devices" and "nvidia_driver_modules=open" in result["advice"]
    assert result["problems"][0].startswith("GPU 00000000:3B:00.0: requires NVIDIA's open kernel modules")
    assert result["problems"][0] in result["message"]
    asked = "xids" in gather
    assert [each["kind"] for each in result["driver_messages"] or []] == ["open_modules_required"] * asked
    assert (result["xids"] == []) == asked
