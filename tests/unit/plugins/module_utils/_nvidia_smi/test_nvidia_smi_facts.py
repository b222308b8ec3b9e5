# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import smi_texts as smi
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import NvidiaSmi
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.values import bus_id, mib, word

ALL = ["gpus", "mig", "processes", "topology"]


def always(text: str, rc: int = 0) -> Callable[[Sequence[str]], Result]:
    """A program that prints the same for any arguments."""
    return lambda arguments: Result(tuple(arguments), rc, text, "")


def facts(run: Callable[[Sequence[str]], Result], gather: Sequence[str] | None = None) -> dict[str, Any]:
    return NvidiaSmi(run).facts(ALL if gather is None else gather)


class Program:
    """Answers each form from a table: xml, csv, list, table, topo."""

    def __init__(self, **answers: tuple[str, int] | str) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, arguments: Sequence[str]) -> Result:
        first = arguments[0] if arguments else "table"
        form = {"-q": "xml", "-L": "list", "topo": "topo", "table": "table"}.get(first, "csv")
        self.asked.append(form)
        answer = self.answers.get(form, ("", 1))
        text, rc = (answer, 0) if isinstance(answer, str) else answer
        if form == "csv" and text == "auto":
            text = smi.csv(first.split("=")[1])
        return Result(tuple(arguments), rc, text, "")


def test_the_xml_form_is_sufficient() -> None:
    program = Program(xml=smi.xml())
    found = facts(program, ["gpus", "mig", "processes"])
    assert program.asked == ["xml"]
    assert (found["state"], found["message"], found["rc"], found["advice"]) == ("ok", None, 0, None)
    assert (found["source"], found["count"], found["driver_version"], found["cuda_version"]) == (
        ["xml"],
        4,
        "580.178.04",
        "13.0",
    )
    assert found["gpus"][2] == {
        "index": 2,
        "minor_number": 2,
        "uuid": "GPU-00000002-0000-0000-0000-000000000000",
        "name": "Tesla T4",
        "brand": "Tesla",
        "architecture": "Turing",
        "pci_bus_id": "00000000:30:00.0",
        "memory_total_mib": 15360,
        "memory_used_mib": 3,
        "compute_mode": "Default",
        "persistence_mode": "Enabled",
        "mig": {"capable": False, "current": None, "pending": None, "devices": []},
        "ecc": {"current": "Enabled", "pending": "Disabled", "uncorrected_aggregate": None},
        "retired_or_remapped": {"pending": None, "failure": None},
        "fabric": {"state": None, "status": None},
        "temperature_c": 33,
        "power_draw_w": None,
        "power_limit_w": None,
        "utilization_gpu_pct": 7,
        "processes": [
            {
                "pid": 4002,
                "type": "C",
                "name": "/usr/bin/train, a <b>",
                "used_memory_mib": 300,
                "gi": None,
                "ci": None,
            }
        ],
        "healthy": True,
        "problems": [],
        "faults": [],
    }


@pytest.mark.parametrize("doctype", [None, *(f"nvsmi_device_v{number}.dtd" for number in (10, 11, 12, 13))])
@pytest.mark.parametrize("before", ["", "Warning: infoROM\n", "\ufeff", "\x1b[32mbanner\x1b[0m\n\n"])
def test_other_output_around_the_xml_is_ignored(doctype: str | None, before: str) -> None:
    text = before + smi.xml(doctype=doctype).replace("\n", "\r\n") + "bye\r\n"
    found = facts(always(text))
    assert (found["state"], found["count"], len(found["gpus"])) == ("ok", 4, 4)


EXTRAS = [
    ("<power_readings><power_draw>70.5 W</power_draw><power_limit>72 W</power_limit></power_readings>", (70.5, 72.0)),
    (
        "<gpu_power_readings><power_draw>70 W</power_draw><current_power_limit>72.00 W</current_power_limit>"
        "</gpu_power_readings>",
        (70.0, 72.0),
    ),
    (
        "<gpu_power_readings><average_power_draw>71.00 W</average_power_draw><instant_power_draw>70.00 W"
        "</instant_power_draw><current_power_limit>72.00 W</current_power_limit></gpu_power_readings>",
        (70.0, 72.0),
    ),
    (
        "<gpu_power_readings><instant_power_draw>N/A</instant_power_draw><average_power_draw>71.00 W"
        "</average_power_draw><current_power_limit>N/A</current_power_limit></gpu_power_readings>",
        (71.0, None),
    ),
    (
        "<gpu_power_readings><instant_power_draw>38.89 W</instant_power_draw><gpu_ceiling_power_limit>"
        "<current_power_limit>250.00 W</current_power_limit><requested_power_limit>260.00 W</requested_power_limit>"
        "</gpu_ceiling_power_limit><gpu_base_power><current_base_power>N/A</current_base_power></gpu_base_power>"
        "<max_power_limit>350.00 W</max_power_limit></gpu_power_readings>",
        (38.89, 250.0),
    ),
    ("<power_readings>N/A</power_readings>", (None, None)),
]


@pytest.mark.parametrize(("extra", "expected"), EXTRAS)
def test_power_is_read_in_every_version(extra: str, expected: tuple[float | None, float | None]) -> None:
    (gpu,) = facts(always(smi.xml((smi.Gpu(extra=extra),))))["gpus"]
    assert (gpu["power_draw_w"], gpu["power_limit_w"]) == expected


ECC = [
    ("<double_bit><device_memory>1</device_memory><total>3</total></double_bit>", 3),
    ("<sram_uncorrectable>1</sram_uncorrectable><dram_uncorrectable>4</dram_uncorrectable>", 5),
    (
        "<sram_uncorrectable_parity>1</sram_uncorrectable_parity><sram_uncorrectable_secded>1"
        "</sram_uncorrectable_secded><dram_correctable>9</dram_correctable><dram_uncorrectable>0</dram_uncorrectable>",
        2,
    ),
    ("<double_bit><total>N/A</total></double_bit>", None),
]


@pytest.mark.parametrize(("aggregate", "expected"), ECC)
def test_uncorrected_errors_are_read_in_every_version(aggregate: str, expected: int | None) -> None:
    extra = f"<ecc_errors><volatile></volatile><aggregate>{aggregate}</aggregate></ecc_errors>"
    (gpu,) = facts(always(smi.xml((smi.Gpu(extra=extra),))))["gpus"]
    assert gpu["ecc"]["uncorrected_aggregate"] == expected


PROBLEMS = [
    ("<gpu_recovery_action>Reset</gpu_recovery_action>", "recovery action: Reset"),
    ("<gpu_reset_status><reset_required>Yes</reset_required></gpu_reset_status>", "a reset is required"),
    ("<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows>", "row remapping failed"),
    ("<fabric><state>In Progress</state><status>N/A</status></fabric>", "fabric state: In Progress"),
    ("<fabric><state>Completed</state><status>Insufficient Resources</status></fabric>", "fabric status: Insuff"),
    ("<fabric><health><summary>Limited Capacity</summary></health></fabric>", "fabric health: Limited Capacity"),
]


@pytest.mark.parametrize(("extra", "problem"), PROBLEMS)
def test_a_gpu_that_reports_a_problem_is_unhealthy(extra: str, problem: str) -> None:
    found = facts(always(smi.xml((smi.Gpu(0), smi.Gpu(1, extra=extra)))))
    assert found["state"] == "degraded"
    assert [gpu["healthy"] for gpu in found["gpus"]] == [True, False]
    assert found["gpus"][1]["problems"][0].startswith(problem)
    assert problem in found["message"]


@pytest.mark.parametrize(
    ("extra", "pending", "failure"),
    [
        ("<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>", True, None),
        ("<retired_pages><pending_retirement>No</pending_retirement></retired_pages>", False, None),
        (
            "<retired_pages><pending_retirement>N/A</pending_retirement></retired_pages><remapped_rows>"
            "<remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure>"
            "</remapped_rows>",
            True,
            False,
        ),
        ("<remapped_rows>N/A</remapped_rows>", None, None),
    ],
)
def test_retired_pages_and_remapped_rows_are_read(extra: str, pending: bool | None, failure: bool | None) -> None:
    (gpu,) = facts(always(smi.xml((smi.Gpu(extra=extra),))))["gpus"]
    assert gpu["retired_or_remapped"] == {"pending": pending, "failure": failure}


def test_profiles_and_uuids_of_mig_devices_come_from_the_list() -> None:
    gpu = smi.Gpu(0, "NVIDIA A100-SXM4-40GB", "Enabled", smi.MIG_DEVICES)
    program = Program(xml=smi.xml((gpu,)), list=smi.listed((gpu,)) + smi.MIG_LIST)
    found = facts(program, ["gpus", "mig"])
    assert program.asked == ["xml", "list"]
    assert (found["state"], found["source"]) == ("ok", ["xml", "list"])
    assert found["gpus"][0]["mig"] == {
        "capable": True,
        "current": "Enabled",
        "pending": "Enabled",
        "devices": [
            {
                "gi": 7,
                "ci": 0,
                "profile": "1g.5gb",
                "uuid": "MIG-11111111-0000-0000-0000-000000000000",
                "memory_total_mib": 4864,
            },
            {
                "gi": 8,
                "ci": 1,
                "profile": "1c.2g.10gb",
                "uuid": "MIG-22222222-0000-0000-0000-000000000000",
                "memory_total_mib": 4864,
            },
        ],
    }
    assert facts(Program(xml=smi.xml((gpu,))), ["gpus"])["gpus"][0]["mig"]["devices"][0]["profile"] is None


def test_mig_uuids_of_older_drivers_contain_the_instances() -> None:
    gpu = smi.Gpu(0, "A100-SXM4-40GB")
    line = f"  MIG 3g.20gb Device 0: (UUID: MIG-{gpu.uuid}/2/0)\n"
    (found,) = facts(always(smi.listed((gpu,)) + line))["gpus"]
    assert (found["mig"]["devices"][0]["gi"], found["mig"]["devices"][0]["ci"]) == (2, 0)


def test_without_xml_csv_list_and_table_are_read() -> None:
    program = Program(xml=("ERROR: Option -x is not recognized.\n", 255), csv="auto", list=smi.listed())
    found = facts(program, ["gpus"])
    assert program.asked == ["xml", "csv", "list", "table"]
    assert (found["state"], found["source"], found["count"]) == ("ok", ["csv", "list"], 4)
    gpu = found["gpus"][3]
    assert (gpu["index"], gpu["pci_bus_id"], gpu["memory_total_mib"]) == (3, "00000000:40:00.0", 15360)
    assert (gpu["power_draw_w"], gpu["minor_number"], gpu["architecture"]) == (70.02, None, None)


def test_csv_fields_that_a_driver_does_not_know_are_omitted() -> None:
    def run(arguments: Sequence[str]) -> Result:
        if arguments and arguments[0].startswith("--query-gpu="):
            fields = arguments[0].split("=")[1]
            for unknown in ("mig.mode.current", "mig.mode.pending", "retired_pages.pending"):
                if unknown in fields.split(","):
                    text = f'Field "{unknown}" is not a valid field to query.\n\n'
                    return Result(tuple(arguments), 2, text, "")
            return Result(tuple(arguments), 0, smi.csv(fields), "")
        return Result(tuple(arguments), 255, "ERROR\n", "")

    found = facts(run, ["gpus"])
    assert (found["state"], found["count"]) == ("ok", 4)
    assert found["gpus"][0]["mig"]["capable"] is None


LOST = "Unable to determine the device handle for GPU{address}: GPU is lost.  Reboot the system to recover this GPU\n"
OTHERS = tuple(gpu for gpu in smi.FOUR if gpu.index != 2)


@pytest.mark.parametrize("address", ["0000:30:00.0", " 0000:30:00.0", "2: 0000:30:00.0"])
def test_a_lost_gpu_keeps_its_index_and_position(address: str) -> None:
    words = LOST.format(address=address)
    program = Program(
        xml=(words, 15), csv=(words, 15), list=(smi.listed(OTHERS[:2]) + words + smi.listed(OTHERS[2:]), 15)
    )
    found = facts(program, ["gpus"])
    assert (found["state"], found["rc"], found["count"]) == ("degraded", 15, 4)
    assert [gpu["index"] for gpu in found["gpus"]] == [0, 1, 2, 3]
    assert [gpu["healthy"] for gpu in found["gpus"]] == [True, True, False, True]
    assert found["gpus"][2]["pci_bus_id"] == "00000000:30:00.0"
    assert found["gpus"][2]["problems"] == ["GPU is lost.  Reboot the system to recover this GPU"]
    assert "GPU is lost" in found["message"]


HANDLE = "Unable to determine the device handle for GPU{}: {}\n"
# The last two belong to nvidia-smi's exit statuses 8 and 10, with its own line breaks.
REASONS = (
    "Unknown Error",
    "Unable to communicate with GPU because it is insufficiently powered.\n"
    "This may be because not all required external power cables are\n"
    "attached, or the attached cables are not seated properly.",
    'The NVIDIA kernel\nmodule detected an issue with GPU interrupts.Consult the "Common Problems"\n'
    "Chapter of the NVIDIA Driver README for\ndetails and steps that can be taken to resolve this issue.",
)


@pytest.mark.parametrize("reason", REASONS, ids=[reason[:20] for reason in REASONS])
@pytest.mark.parametrize("rc", [6, 8, 10, 255])
def test_the_only_gpu_cannot_be_opened(reason: str, rc: int) -> None:
    found = facts(always(HANDLE.format("0: 0000:01:00.0", reason) + "No devices were found\n", rc), ["gpus"])
    assert (found["state"], found["count"]) == ("unreadable", 1)
    assert found["advice"].startswith("nvidia-smi can't open GPU 00000000:01:00.0. Check the kernel log")
    (gpu,) = found["gpus"]
    assert (gpu["index"], gpu["pci_bus_id"], gpu["healthy"]) == (0, "00000000:01:00.0", False)
    assert gpu["problems"] == [reason.replace("\n", " ")]


@pytest.mark.parametrize("reason", REASONS, ids=[reason[:20] for reason in REASONS])
def test_one_of_several_gpus_cannot_be_opened(reason: str) -> None:
    found = facts(always(HANDLE.format(" 0000:30:00.0", reason) + smi.xml(OTHERS, attached=4), 10))
    assert (found["state"], found["count"]) == ("degraded", 4)
    assert [gpu["healthy"] for gpu in found["gpus"]] == [True, True, False, True]
    assert found["gpus"][2]["problems"] == [reason.replace("\n", " ")]


def test_a_lost_gpu_in_the_csv_is_found() -> None:
    program = Program(xml=("", 1), csv=smi.csv("count,index,uuid,name,pci.bus_id,memory.total", lost=2))
    found = facts(program, ["gpus"])
    assert found["state"] == "degraded"
    lost = found["gpus"][2]
    assert (lost["index"], lost["uuid"], lost["healthy"], lost["problems"]) == (2, None, False, ["GPU is lost"])


def test_a_gpu_missing_in_the_xml_is_added_from_other_forms() -> None:
    text = smi.xml(OTHERS, attached=4)
    found = facts(Program(xml=text, csv="auto"), ["gpus"])
    assert (found["count"], [gpu["index"] for gpu in found["gpus"]]) == (4, [0, 1, 2, 3])
    assert [gpu["architecture"] for gpu in found["gpus"]] == ["Turing", "Turing", None, "Turing"]
    alone = facts(Program(xml=text), ["gpus"])
    assert (alone["state"], alone["count"], len(alone["gpus"])) == ("degraded", 4, 3)
    assert "4 GPUs are attached, but only 3 could be read" in alone["message"]
    assert [gpu["index"] for gpu in alone["gpus"]] == [None, None, None], "nobody can tell which one is missing"


def test_a_crash_in_the_middle_of_the_xml_is_detected() -> None:
    whole = smi.xml()
    cut = whole[: whole.index("<gpu id", whole.index(smi.FOUR[2].uuid))]
    alone = facts(always(cut, 139), ["gpus"])
    assert (alone["state"], alone["rc"], len(alone["gpus"])) == ("crashed", 139, 3)
    assert alone["count"] == 4
    helped = facts(Program(xml=(cut, -11), csv="auto"), ["gpus"])
    assert (helped["state"], len(helped["gpus"])) == ("degraded", 4)


def test_the_table_is_read() -> None:
    found = facts(always(smi.TABLE), ["gpus", "processes"])
    assert (found["state"], found["driver_version"], found["cuda_version"]) == ("degraded", "610.57.04", "13.3")
    one, other = found["gpus"]
    assert (one["temperature_c"], one["power_draw_w"], one["power_limit_w"]) == (42, 98.0, 400.0)
    assert (one["memory_used_mib"], one["memory_total_mib"], one["utilization_gpu_pct"]) == (59, 40960, 12)
    assert (one["compute_mode"], one["persistence_mode"], one["ecc"]["current"]) == (
        "Exclusive_Process",
        "Enabled",
        "Enabled",
    )
    assert one["mig"]["current"] == "Disabled"
    assert one["processes"][0]["name"] == "python train.py"
    assert one["healthy"]
    assert (other["pci_bus_id"], other["memory_total_mib"], other["temperature_c"]) == ("00000000:20:00.0", None, None)
    assert "GPU is lost" in other["problems"]


def test_a_truncated_table_is_never_ok() -> None:
    good = smi.TABLE.replace("ERR!", "  0 ").replace("GPU is lost            ", "      59MiB /  40960MiB")
    assert facts(always(good))["state"] == "ok"
    for end in range(len(good) - 2):
        assert facts(always(good[:end]))["state"] != "ok"


def test_the_text_form_of_the_query_is_read() -> None:
    found = facts(always(smi.QUERY_TEXT), ["gpus", "processes"])
    assert (found["state"], found["source"], found["driver_version"]) == ("ok", ["query_text"], "535.183.01")
    (gpu,) = found["gpus"]
    assert (gpu["index"], gpu["minor_number"], gpu["memory_total_mib"]) == (0, 5, 81559)
    assert (gpu["temperature_c"], gpu["utilization_gpu_pct"], gpu["ecc"]["uncorrected_aggregate"]) == (29, 3, 3)
    assert gpu["mig"] == {"capable": True, "current": "Disabled", "pending": "Enabled", "devices": []}
    assert (gpu["processes"][0]["pid"], gpu["processes"][0]["used_memory_mib"]) == (1234, 100)


def test_output_with_versions_only_is_unreadable_but_has_the_versions() -> None:
    text = 'NVIDIA-SMI version  : 610.57.04\nDRIVER version      : Deprecated, see "KMD version" instead\n'
    found = facts(always(text + "KMD version         : 610.57.04\nCUDA UMD version    : 13.3"))
    assert (found["state"], found["driver_version"], found["cuda_version"]) == ("unreadable", "610.57.04", "13.3")


def test_the_topology_is_read() -> None:
    found = facts(Program(xml=smi.xml(smi.FOUR[:2]), topo=smi.TOPOLOGY))
    assert found["topology"] == {
        "gpus": ["GPU0", "GPU1"],
        "nics": ["NIC0"],
        "matrix": {
            "GPU0": {"GPU0": "X", "GPU1": "NV12", "NIC0": "PXB"},
            "GPU1": {"GPU0": "NV12", "GPU1": "X", "NIC0": "SYS"},
            "NIC0": {"GPU0": "PXB", "GPU1": "SYS", "NIC0": "X"},
        },
        "cpu_affinity": {"GPU0": "0-31", "GPU1": "32-63"},
        "numa_affinity": {"GPU0": "0", "GPU1": "1"},
        "gpu_numa_id": {"GPU0": None, "GPU1": None},
    }
    refused = facts(Program(xml=smi.xml(), topo=("ERROR: Option -m is missing its value.\n", 255)))
    assert (refused["topology"], refused["state"]) == (None, "ok")


@pytest.mark.parametrize(("words", "rc", "state"), smi.MESSAGES)
def test_error_messages_determine_the_state(words: str, rc: int, state: str) -> None:
    found = facts(always(words, rc))
    assert (found["state"], found["rc"]) == (state, rc)
    assert found["advice"]
    assert found["message"]
    first = words.strip("\x1b[3m1\r\n").split("\n")[0]
    assert not first or first[:20].strip() in found["message"]


def test_after_a_final_error_no_other_form_is_tried() -> None:
    words, rc, _state = smi.MESSAGES[1]
    program = Program(xml=(words, rc))
    facts(program)
    assert program.asked == ["xml"]


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        ("00000000:53:00.0", "00000000:53:00.0"),
        ("0000:a8:00.0", "00000000:A8:00.0"),
        ("a8:00.0", "00000000:A8:00.0"),
        ("10000:01:00.0", "00010000:01:00.0"),
        ("0003:00.0", "00000000:03:00.0"),
        ("0103:00.0", None),
        ("0000:53:00", None),
        ("", None),
        (None, None),
        ("N/A", None),
        ("GPU-1", None),
    ],
)
def test_pci_addresses_are_normalized(raw: str | None, address: str | None) -> None:
    assert bus_id(raw) == address


@pytest.mark.parametrize("raw", ["N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "ERR!", "", " ", "None"])
def test_placeholders_are_read_as_unknown(raw: str) -> None:
    assert word(raw) is None
    assert mib(raw) is None


@pytest.mark.parametrize(("raw", "size"), [("15360 MiB", 15360), ("15360", 15360), ("2 GiB", 2048), ("1 XB", None)])
def test_memory_sizes_are_read(raw: str, size: int | None) -> None:
    assert mib(raw) == size
