# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each output form alone, from a program that prints the same for any arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest
import smi_tables
import smi_texts as smi
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia_smi.facts import NvidiaSmi


def facts(text: str, rc: int = 0) -> dict[str, Any]:
    program = NvidiaSmi(lambda arguments: Result(tuple(arguments), rc, text, ""))
    return program.facts(["gpus", "mig", "processes", "topology"])


def picked(gpu: dict[str, Any], *keys: str) -> list[Any]:
    return [gpu[key] for key in keys]


def test_a_table_with_two_lines_per_gpu_is_read() -> None:
    found = facts(smi_tables.OLD)
    assert (found["state"], found["driver_version"], found["cuda_version"]) == ("ok", "418.126.02", "10.1")
    first, second = found["gpus"]
    values = ("name", "pci_bus_id", "persistence_mode", "compute_mode", "temperature_c", "utilization_gpu_pct")
    assert picked(first, *values) == ["Tesla V100-SXM2...", "00000000:1A:00.0", "Disabled", "Exclusive_Thread", 41, 17]
    assert picked(first, "power_draw_w", "power_limit_w", "memory_used_mib", "memory_total_mib") == [
        58,
        300,
        1214,
        32480,
    ]
    assert picked(second, "power_draw_w", "power_limit_w", "compute_mode") == [None, None, "Prohibited"]
    assert [gpu["ecc"]["current"] for gpu in found["gpus"]] == ["Enabled", "Disabled"]
    assert [gpu["mig"]["capable"] for gpu in found["gpus"]] == [None, None], "nobody knew of MIG yet"
    assert picked(first["processes"][0], "pid", "type", "name", "used_memory_mib", "gi") == [
        *(23145, "C", "python3 -m train", 1203, None),
    ]
    assert second["processes"][0]["name"] == "/usr/lib/xorg/Xorg"


TABLES = [
    (smi_tables.WSL, "546.33|545.29.06", 14.0, None, 8192, "/Xwayland", None),
    (smi_tables.SHARED_MEMORY, "580.142", 4.0, None, None, None, None),
    (smi_tables.CONTAINER, "616.56", 312.0, 1100.0, 275040, None, 9190),
]


@pytest.mark.parametrize(("text", "driver", "draw", "limit", "memory", "process", "used"), TABLES)
def test_tables_of_all_kinds_of_hosts_are_read(
    text: str, driver: str, draw: float, limit: float, memory: int, process: str | None, used: int | None
) -> None:
    found = facts(text)
    (gpu,) = found["gpus"]
    assert (found["state"], found["source"]) == ("ok", ["table"])
    assert found["driver_version"] in driver.split("|")
    assert picked(gpu, "power_draw_w", "power_limit_w", "memory_total_mib") == [draw, limit, memory]
    assert [(each["name"], each["used_memory_mib"]) for each in gpu["processes"]] == (
        [(process, used)] if process or used else []
    )


def test_a_pending_mig_change_in_the_table_is_read() -> None:
    (gpu,) = facts(smi_tables.CONTAINER)["gpus"]
    assert picked(gpu["mig"], "capable", "current", "pending") == [True, "Disabled", None]


@pytest.mark.parametrize("text", [smi_tables.MIG_ONE_CELL, smi_tables.MIG_SHARED])
def test_compute_instances_share_the_memory_of_their_gpu_instance(text: str) -> None:
    found = facts(text)
    (gpu,) = found["gpus"]
    assert (found["state"], gpu["mig"]["current"], gpu["utilization_gpu_pct"]) == ("ok", "Enabled", None)
    assert [picked(each, "gi", "ci", "memory_total_mib", "profile") for each in gpu["mig"]["devices"]] == [
        [1, 0, 20096, None],
        [1, 1, 20096, None],
        [2, 0, 9856, None],
    ]
    assert picked(gpu["processes"][0], "pid", "name", "gi", "ci") == [5150, "./solve --deep", 1, 1]


@pytest.mark.parametrize("words", ["Unknown Error", "GPU is lost.  Reboot the system to recover this GPU"])
def test_a_lost_gpu_above_the_table_keeps_its_position(words: str) -> None:
    line = f"Unable to determine the device handle for GPU1: 0001:20:00.0: {words}\n"
    found = facts(smi_tables.many(4, line), 15)
    assert (found["state"], found["count"], found["rc"]) == ("degraded", 4, 15)
    assert [picked(gpu, "index", "pci_bus_id", "healthy") for gpu in found["gpus"]] == [
        [0, "00000000:20:00.0", True],
        [1, "00000001:20:00.0", False],
        [2, "00000002:20:00.0", True],
        [3, "00000003:20:00.0", True],
    ]
    assert found["gpus"][1]["problems"] == [words]
    assert facts(smi_tables.many(4))["state"] == "ok"


def test_a_gpu_omitted_between_others_keeps_its_position() -> None:
    others = tuple(gpu for gpu in smi.FOUR if gpu.index != 2)
    for text in (smi.listed(others), smi.csv("index,uuid,name,memory.total", others)):
        found = facts(text)
        assert (found["state"], found["count"]) == ("degraded", 4)
        assert [picked(gpu, "index", "healthy") for gpu in found["gpus"]] == [
            [0, True],
            [1, True],
            [2, False],
            [3, True],
        ]
        assert found["message"] == "GPU 2: nvidia-smi reports nothing about it"
    # A missing last GPU is detected because the others contain the count.
    found = facts(smi.csv("count,index,uuid,name", smi.FOUR[:3]).replace("\n3, ", "\n4, "))
    assert (found["count"], found["gpus"][3]["index"], found["gpus"][3]["healthy"]) == (4, 3, False)


@pytest.mark.parametrize(
    ("line", "index", "address"),
    [
        ("Unable to determine the device handle for gpu 0000:30:00.0: GPU is lost.", 2, "00000000:30:00.0"),
        ("GPU2: 0000:30:00.0: Unknown Error", 2, "00000000:30:00.0"),
        ("Unable to determine the device handle for GPU2: Unknown Error", 2, None),
    ],
)
def test_an_error_between_the_lines_of_the_list_is_read(line: str, index: int, address: str | None) -> None:
    text = smi.listed(smi.FOUR[:2]) + line + "\n" + smi.listed(smi.FOUR[3:])
    found = facts(text, 15)
    assert (found["state"], found["count"]) == ("degraded", 4)
    assert picked(found["gpus"][index], "index", "pci_bus_id", "healthy") == [index, address, False]


def test_a_gpu_that_is_only_named_in_an_error_has_no_index() -> None:
    line = "Unable to determine the device handle for GPU 0000:{}:00.0: GPU is lost.  Reboot the system\n"
    found = facts(line.format("2A") + line.format("3B"), 15)
    assert (found["state"], found["count"]) == ("gpu_lost", 2)
    assert [picked(gpu, "index", "pci_bus_id") for gpu in found["gpus"]] == [
        [None, "00000000:2A:00.0"],
        [None, "00000000:3B:00.0"],
    ]


def test_a_gpu_with_errors_in_every_cell_of_the_table_is_unhealthy() -> None:
    found = facts(smi_tables.ILL)
    (gpu,) = found["gpus"]
    assert (found["state"], gpu["index"], gpu["name"]) == ("reset_required", 0, None)
    assert picked(gpu, "power_draw_w", "power_limit_w", "temperature_c", "memory_total_mib") == [None] * 4
    assert "GPU requires reset" in gpu["problems"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("index, name, pci.bus_id\n0, [GPU is lost], 00000000:10:00.0\n", "gpu_lost"),
        ("index, name\n0, [GPU requires reset]\n1, [GPU requires reset]\n", "reset_required"),
        ("index, name\n0, [GPU requires reset]\n1, [GPU is lost]\n", "gpu_lost"),
        ("index, name\n0, Tesla T4\n1, [GPU is lost]\n", "degraded"),
        ("index, name, uuid\n0, [Insufficient Permissions], [Insufficient Permissions]\n", "degraded"),
        ("GPU 0: Unknown Error (UUID: Unknown Error)\n", "degraded"),
        (smi.xml((smi.Gpu(extra="<serial>GPU is lost</serial>"),)), "gpu_lost"),
        (smi.xml((smi.Gpu(), smi.Gpu(1, extra="<serial>GPU requires reset</serial>"))), "degraded"),
        (smi.xml((), attached=0), "no_devices"),
        (smi.logged(()), "no_devices"),
    ],
)
def test_errors_in_place_of_values_determine_the_state(text: str, state: str) -> None:
    found = facts(text)
    assert found["state"] == state
    assert not any("[" in str(value) for gpu in found["gpus"] for value in gpu.values() if isinstance(value, str))


def test_names_with_commas_are_read() -> None:
    text = (
        "index, name, pci.bus_id, uuid\n0, T4, rev. 2, blue, 00000000:10:00.0, GPU-1\n1, T4, 00000000:20:00.0, GPU-2\n"
    )
    found = facts(text)
    assert [gpu["name"] for gpu in found["gpus"]] == ["T4, rev. 2, blue", "T4"]
    assert (found["state"], found["gpus"][0]["uuid"]) == ("ok", "GPU-1")


CSV_HEAD = "uuid, power.limit [W], name, index, temperature.gpu, memory.total [MiB], unheard.of, pci.bus_id"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("GPU-7, 70.5 W, X, 0, 31, 81559 MiB, ?, 00000000:10:00.0", ["GPU-7", 70.5, "X", 31, 81559]),
        ("GPU-7, 70.5, X, 0, 31, 81559, ?, 0000:10:00.0", ["GPU-7", 70.5, "X", 31, 81559]),
        ("GPU-7, [N/A], X, 0, [N/A], [N/A], [N/A], 0000:10:00.0", ["GPU-7", None, "X", None, None]),
        ("GPU-7, [Not Supported], X, 0, [Never Seen Before], 1 MiB, , 0000:10:00.0", ["GPU-7", None, "X", None, 1]),
    ],
)
def test_csv_columns_are_found_by_name(row: str, expected: list[Any]) -> None:
    found = facts(f"a banner\n{CSV_HEAD}\n{row}\n")
    (gpu,) = found["gpus"]
    assert (found["state"], gpu["pci_bus_id"]) == ("ok", "00000000:10:00.0")
    assert picked(gpu, "uuid", "power_limit_w", "name", "temperature_c", "memory_total_mib") == expected


def test_a_gpu_without_any_identity_is_counted_once() -> None:
    found = facts("name, memory.total [MiB], driver_version\nTesla T4, 15360 MiB, 418.87\n")
    assert (found["state"], found["count"], found["gpus"][0]["memory_total_mib"]) == ("degraded", 1, 15360)


def test_rows_about_other_things_do_not_count_as_gpus() -> None:
    head = "gpu_name, gpu_bus_id, gpu_uuid, retired_pages.address, retired_pages.cause\n"
    assert facts(f"{head}X, 00000000:10:00.0, GPU-1, 0x01, Double Bit ECC\n")["state"] == "degraded"
    head = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    found = facts(f"{head}GPU-1, 42, /opt/a, b, 12 MiB\nGPU-1, 43, [Insufficient Permissions], [N/A]\n")
    assert (found["state"], found["source"]) == ("degraded", ["processes"])
    names = [(each["pid"], each["name"], each["used_memory_mib"]) for each in found["gpus"][0]["processes"]]
    assert names == [(42, "/opt/a, b", 12), (43, None, None)]


def test_the_text_form_of_driver_610_is_read() -> None:
    found = facts("some warning\n" + smi.logged() + "bye\n")
    assert (found["state"], found["count"], found["source"]) == ("ok", 4, ["query_text"])
    assert (found["driver_version"], found["cuda_version"]) == ("610.77.01", "13.3")
    assert picked(found["gpus"][3], "index", "minor_number", "power_draw_w", "power_limit_w") == [3, 3, 30.5, 70.0]
    lost = "Unable to determine the device handle for GPU1: 0000:20:00.0: Unknown Error\n"
    found = facts(lost + smi.logged((smi.FOUR[0], *smi.FOUR[2:]), attached=4), 255)
    assert (found["state"], found["count"]) == ("degraded", 4)
    assert [gpu["index"] for gpu in found["gpus"]] == [0, 1, 2, 3]


@pytest.mark.parametrize("attached", [3, 4])
def test_a_lost_gpu_above_the_xml_keeps_its_position(attached: int) -> None:
    line = "Unable to determine the device handle for GPU1: 0000:20:00.0: GPU is lost.  Reboot the system\n"
    found = facts(line + smi.xml((smi.FOUR[0], *smi.FOUR[2:]), attached=attached), 15)
    assert (found["state"], found["count"], found["source"]) == ("degraded", 4, ["xml"])
    assert [picked(gpu, "index", "minor_number") for gpu in found["gpus"]] == [[0, 0], [1, None], [2, 2], [3, 3]]


SUPERCHIP = """<gpu_power_readings><average_power_draw>N/A</average_power_draw><instant_power_draw>118.20 W
</instant_power_draw><current_power_limit>900.00 W</current_power_limit></gpu_power_readings>
<gpu_memory_power_readings><average_power_draw>47.00 W</average_power_draw></gpu_memory_power_readings>
<module_power_readings><power_state>P0</power_state><power_draw>212.00 W</power_draw>
<current_power_limit>1000.00 W</current_power_limit></module_power_readings>
<fabric><state>Completed</state><status>Success</status><cliqueId>7</cliqueId>
<health><summary>Healthy</summary><bandwidth>Full</bandwidth><route_unhealthy>False</route_unhealthy></health></fabric>"""


def test_a_superchip_is_read() -> None:
    text = smi.xml((smi.Gpu(name="NVIDIA GH200 480GB", extra=SUPERCHIP),)).replace(
        "00000000:10:00.0", "00000009:01:00.0"
    )
    found = facts(text)
    (gpu,) = found["gpus"]
    assert (found["state"], gpu["pci_bus_id"]) == ("ok", "00000009:01:00.0")
    assert picked(gpu, "power_draw_w", "power_limit_w") == [118.2, 900.0]
    assert gpu["fabric"] == {"state": "Completed", "status": "Success"}


VGPU_GUEST = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">
<nvidia_smi_log><driver_version>510.108.03</driver_version><cuda_version>11.6</cuda_version>
<attached_gpus>1</attached_gpus><gpu id="00000000:02:01.0"><product_name>GRID V100D-8C</product_name>
<product_brand>NVIDIA Virtual Compute Server</product_brand><persistence_mode>N/A</persistence_mode>
<mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode><mig_devices>None</mig_devices>
<uuid>GPU-5ee1ab1e-0000-11ee-8000-0242ac120002</uuid><minor_number>0</minor_number>
<gpu_virtualization_mode><virtualization_mode>VGPU</virtualization_mode></gpu_virtualization_mode>
<vgpu_software_licensed_product><license_status>Unlicensed</license_status></vgpu_software_licensed_product>
<pci><pci_bus_id>00000000:02:01.0</pci_bus_id></pci><fan_speed>N/A</fan_speed>
<fb_memory_usage><total>8192 MiB</total><used>480 MiB</used></fb_memory_usage><compute_mode>Default</compute_mode>
<utilization><gpu_util>0 %</gpu_util></utilization><ecc_mode><current_ecc>N/A</current_ecc></ecc_mode>
<retired_pages><pending_retirement>N/A</pending_retirement></retired_pages><remapped_rows>N/A</remapped_rows>
<temperature><gpu_temp>N/A</gpu_temp></temperature><power_readings><power_draw>N/A</power_draw></power_readings>
</gpu></nvidia_smi_log>"""


def test_a_guest_with_a_vgpu_is_read() -> None:
    found = facts(VGPU_GUEST)
    (gpu,) = found["gpus"]
    assert (found["state"], gpu["name"], gpu["memory_total_mib"]) == ("degraded", "GRID V100D-8C", 8192)
    nothing = ("persistence_mode", "temperature_c", "power_draw_w", "power_limit_w", "architecture")
    assert picked(gpu, *nothing) == [None] * 5
    assert gpu["retired_or_remapped"] == {"pending": None, "failure": None}


@pytest.mark.parametrize(
    ("mode", "status", "problem"),
    [
        ("VGPU", "Unlicensed", True),
        ("VGPU", "Unlicensed (Restricted)", True),
        ("VGPU", "Unlicensed (Unrestricted)", True),
        ("VGPU", "Expired", True),
        ("VGPU", "Licensed", False),
        ("VGPU", "Licensed (Expiry: 2026-12-1 6:57:30 GMT)", False),
        ("VGPU", "N/A", False),
        ("Pass-Through", "Unlicensed (Unrestricted)", False),
        ("None", "Unlicensed", False),
    ],
)
@pytest.mark.parametrize("product", ["vgpu_software_licensed_product", "grid_licensed_product"])
def test_a_vgpu_without_a_license_is_a_problem(mode: str, status: str, problem: bool, product: str) -> None:
    text = VGPU_GUEST.replace("VGPU</virt", f"{mode}</virt").replace("Unlicensed", status)
    found = facts(text.replace("vgpu_software_licensed_product", product))
    assert found["state"] == ("degraded" if problem else "ok")
    (gpu,) = found["gpus"]
    assert gpu["problems"] == ([f"the vGPU has no license: {status}"] if problem else [])
    assert [each["kind"] for each in gpu["faults"]] == ["vgpu_unlicensed"] * problem
    if problem:
        assert "nvidia-gridd" in gpu["faults"][0]["do"]


LICENSE_LOG = """    GPU Virtualization Mode
        Virtualization Mode               : VGPU
        Host VGPU Mode                    : N/A
    vGPU Software Licensed Product
        Product Name                      : NVIDIA Virtual Compute Server
        License Status                    : Unlicensed (Restricted)
"""


def test_a_vgpu_without_a_license_is_a_problem_in_the_text_form() -> None:
    text = smi.logged((smi.Gpu(name="GRID T4-16C"),)).replace("    Processes", f"{LICENSE_LOG}    Processes", 1)
    (gpu,) = facts(text)["gpus"]
    assert gpu["problems"] == ["the vGPU has no license: Unlicensed (Restricted)"]


# The second version line has no version.
UNKNOWN = re.sub(r"13\.3 \[.*", "13.3", smi.logged()).replace("13.3\n\nAttached", "N/A\n\nAttached")


@pytest.mark.parametrize("text", [smi.xml(), smi.logged(), UNKNOWN, smi_tables.CONTAINER, smi_tables.SHARED_MEMORY])
def test_a_libcuda_that_cannot_be_loaded_is_reported(text: str) -> None:
    sound = facts(text)
    broken = facts(re.sub(r"((?i:CUDA(?: UMD)? Version\s*: |<cuda_version>))\d+\.\d", r"\1ERR!", text))
    assert (sound["state"], sound["problems"]) == ("ok", [])
    assert (broken["state"], broken["cuda_version"], broken["gpus"]) == ("degraded", None, sound["gpus"])
    assert broken["problems"] == ["CUDA Version: ERR! (nvidia-smi can't load libcuda)"]
    assert "libcuda" in broken["message"] and "libcuda.so.1" in broken["advice"]


@pytest.mark.parametrize(
    "words", ["Unknown Error", "Not Supported", "Insufficient External Power", "Insufficient Memory"]
)
def test_a_library_that_cannot_initialize_has_its_own_remedy(words: str) -> None:
    found = facts(f"Failed to initialize NVML: {words}\n", 255)
    hints = {"Insufficient External Power": "power cables", "Insufficient Memory": "free -m"}
    assert found["state"] == "unreadable" and hints.get(words, "ls -l /dev/nvidia*") in found["advice"]


def test_another_wording_of_a_version_mismatch_is_recognized() -> None:
    words = "Failed to initialize NVML: RM has detected an NVML/RM version mismatch."
    assert facts(words, 255)["state"] == "version_mismatch"


MIG_LOG = """    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 1
        Shared FB Memory Usage
            Total                         : 71424 MiB
    Processes
        GPU instance ID                   : 2
        Compute instance ID               : 1
        Process ID                        : 5150
            Type                          : C
            Name                          : [Insufficient Permissions]
            Used GPU Memory               : N/A
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 5151
            Type                          : G
            Name                          : Xorg
            Used GPU Memory               : 4 MiB
"""


def test_mig_devices_and_processes_in_the_text_form_are_read() -> None:
    text = smi.logged(smi.FOUR[:1]).replace("    Processes                             : None\n", MIG_LOG)
    found = facts(text)
    assert found["state"] == "ok"
    assert found["gpus"][0]["mig"]["devices"] == [
        {"gi": 2, "ci": 1, "profile": None, "uuid": None, "memory_total_mib": 71424}
    ]
    one, other = found["gpus"][0]["processes"]
    assert picked(one, "pid", "gi", "ci", "name", "used_memory_mib") == [5150, 2, 1, None, None]
    assert picked(other, "pid", "gi", "ci", "name", "used_memory_mib") == [5151, None, None, "Xorg", 4]


def test_gpus_with_masked_ids_are_not_merged() -> None:
    text = smi.xml(smi.FOUR[:2]).replace(smi.FOUR[1].uuid, smi.FOUR[0].uuid)
    assert [gpu["pci_bus_id"] for gpu in facts(text)["gpus"]] == ["00000000:10:00.0", "00000000:20:00.0"]
    text = smi.listed(smi.FOUR[:2]).replace(smi.FOUR[1].uuid, smi.FOUR[0].uuid)
    assert [gpu["index"] for gpu in facts(text)["gpus"]] == [0, 1]


def test_a_warning_about_a_gpu_is_a_problem_of_that_gpu() -> None:
    warning = "WARNING: infoROM is corrupted at gpu {}:20:00.0\n"
    for text in (smi.xml() + warning.format("0000"), warning.format("0001") + smi_tables.many(4)):
        found = facts(text, 14)
        assert (found["state"], found["count"], found["rc"]) == ("degraded", 4, 14)
        assert [gpu["healthy"] for gpu in found["gpus"]] == [True, False, True, True]
    # The list has no addresses, so the warning belongs to one of its GPUs, which is unknown.
    found = facts(smi.listed() + warning.format("0000"), 14)
    assert (found["state"], found["count"]) == ("degraded", 4)


def test_network_devices_in_the_topology_of_older_drivers_are_recognized() -> None:
    text = (
        "\t\x1b[4mGPU0\tbnxt_re0\tmlx5_bond_1\tCPU Affinity\x1b[0m\nGPU0\t X \tPIX\tSYS\t0-7\nbnxt_re0\tPIX\t X \tSYS\n"
    )
    found = facts(text + "mlx5_bond_1\tSYS\tSYS\t X \n\nLegend:\n")["topology"]
    assert (found["nics"], found["cpu_affinity"]) == (["bnxt_re0", "mlx5_bond_1"], {"GPU0": "0-7"})
    assert found["matrix"]["GPU0"] == {"GPU0": "X", "bnxt_re0": "PIX", "mlx5_bond_1": "SYS"}
