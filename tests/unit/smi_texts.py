# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia-smi prints, in small: the forms, without the fields that nobody reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gpu:
    index: int = 0
    name: str = "Tesla T4"
    mig: str = "N/A"
    extra: str = ""

    @property
    def uuid(self) -> str:
        return f"GPU-{self.index:08x}-0000-0000-0000-000000000000"

    @property
    def bus(self) -> str:
        return f"{self.index // 8:08X}:{0x10 + 0x10 * (self.index % 8):02X}:00.0"


FOUR = tuple(Gpu(index) for index in range(4))

MIG_DEVICES = """<mig_devices>
 <mig_device><index>0</index><gpu_instance_id>7</gpu_instance_id><compute_instance_id>0</compute_instance_id>
  <fb_memory_usage><total>4864 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device>
 <mig_device><index>1</index><gpu_instance_id>8</gpu_instance_id><compute_instance_id>1</compute_instance_id>
  <fb_memory_usage><total>4864 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device>
</mig_devices>"""


def _gpu_xml(gpu: Gpu) -> str:
    return f"""
 <gpu id="{gpu.bus}">
  <product_name>{gpu.name}</product_name>
  <product_brand>Tesla</product_brand>
  <product_architecture>Turing</product_architecture>
  <persistence_mode>Enabled</persistence_mode>
  <mig_mode><current_mig>{gpu.mig}</current_mig><pending_mig>{gpu.mig}</pending_mig></mig_mode>
  {gpu.extra if "<mig_devices>" in gpu.extra else "<mig_devices>None</mig_devices>"}
  <uuid>{gpu.uuid}</uuid>
  <minor_number>{gpu.index}</minor_number>
  <pci><pci_bus_id>{gpu.bus}</pci_bus_id></pci>
  <fan_speed>N/A</fan_speed>
  <fb_memory_usage><total>15360 MiB</total><used>3 MiB</used></fb_memory_usage>
  <compute_mode>Default</compute_mode>
  <utilization><gpu_util>7 %</gpu_util></utilization>
  <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Disabled</pending_ecc></ecc_mode>
  <temperature><gpu_temp>33 C</gpu_temp></temperature>
  {gpu.extra if "<mig_devices>" not in gpu.extra else ""}
  <processes>
   <process_info><gpu_instance_id>N/A</gpu_instance_id><compute_instance_id>N/A</compute_instance_id>
    <pid>{4000 + gpu.index}</pid><type>C</type><process_name>/usr/bin/train, a &lt;b&gt;</process_name>
    <used_memory>300 MiB</used_memory></process_info>
  </processes>
 </gpu>"""


def xml(gpus: tuple[Gpu, ...] = FOUR, doctype: str | None = "nvsmi_device_v13.dtd", attached: int | None = None) -> str:
    declared = f'<!DOCTYPE nvidia_smi_log SYSTEM "{doctype}">\n' if doctype else ""
    return f"""<?xml version="1.0" ?>
{declared}<nvidia_smi_log>
 <timestamp>Fri Nov 20 21:00:01 2026</timestamp>
 <driver_version>580.178.04</driver_version>
 <cuda_version>13.0</cuda_version>
 <attached_gpus>{len(gpus) if attached is None else attached}</attached_gpus>{"".join(map(_gpu_xml, gpus))}
</nvidia_smi_log>
"""


def csv(fields: str, gpus: tuple[Gpu, ...] = FOUR, lost: int | None = None) -> str:
    """The answer to --query-gpu with these fields; one GPU may be lost."""
    units = {"memory.total": "MiB", "memory.used": "MiB", "power.draw": "W", "power.limit": "W", "utilization.gpu": "%"}
    header = ", ".join(f"{name} [{units[name]}]" if name in units else name for name in fields.split(","))
    rows = []
    for gpu in gpus:
        known = {
            "count": str(len(gpus)),
            "index": str(gpu.index),
            "uuid": gpu.uuid,
            "name": gpu.name,
            "pci.bus_id": gpu.bus,
            "driver_version": "580.178.04",
            "memory.total": "15360 MiB",
            "memory.used": "3 MiB",
            "temperature.gpu": "33",
            "power.draw": "70.02 W",
            "utilization.gpu": "7 %",
            "compute_mode": "Default",
        }
        if gpu.index == lost:
            known = {name: value for name, value in known.items() if name in ("count", "index", "pci.bus_id")}
        nothing = "[GPU is lost]" if gpu.index == lost else "[N/A]"
        rows.append(", ".join(known.get(name, nothing) for name in fields.split(",")))
    return "\n".join([header, *rows]) + "\n"


def listed(gpus: tuple[Gpu, ...] = FOUR) -> str:
    return "".join(f"GPU {gpu.index}: {gpu.name} (UUID: {gpu.uuid})\n" for gpu in gpus)


def logged(gpus: tuple[Gpu, ...] = FOUR, attached: int | None = None) -> str:
    """The log as text."""
    parts = "".join(
        f"""
GPU {gpu.bus}
    Product Name                          : {gpu.name}
    Product Architecture                  : Turing
    GPU UUID                              : {gpu.uuid}
    Minor Number                          : {gpu.index}
    FB Memory Usage
        Total                             : 15360 MiB
        Used                              : 3 MiB
    GPU Power Readings
        Average Power Draw                : 31.00 W
        Instantaneous Power Draw          : 30.50 W
        GPU Ceiling Power Limit
            Current Power Limit           : 70.00 W
            Requested Power Limit         : 72.00 W
        GPU Base Power
            Current Base Power            : N/A
        Max Power Limit                   : 75.00 W
    Module Power Readings
        Current Power Limit               : N/A
    Processes                             : None
    Capabilities
        EGM                               : disabled
"""
        for gpu in gpus
    )
    return f"""
==============NVSMI LOG==============

Timestamp                                 : Fri Nov 20 21:00:01 2026
Driver Version                            : 610.77.01 [Deprecated; use KMD Version instead]
CUDA Version                              : 13.3 [Deprecated; use CUDA UMD Version instead]
KMD Version                               : 610.77.01
CUDA UMD Version                          : 13.3

Attached GPUs                             : {len(gpus) if attached is None else attached}{parts}"""


MIG_LIST = (
    "  MIG 1g.5gb      Device  0: (UUID: MIG-11111111-0000-0000-0000-000000000000)\n"
    "  MIG 1c.2g.10gb  Device  1: (UUID: MIG-22222222-0000-0000-0000-000000000000)\n"
)

TABLE = """Fri Nov 20 21:00:01 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:10:00.0 Off |                    0 |
| N/A   42C    P0             98W /  400W |      59MiB /  40960MiB |     12%   E. Process |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100-SXM4-40GB          On  |   00000000:20:00.0 Off |                 ERR! |
| N/A  ERR!    P0            ERR! /  400W | GPU is lost            |    ERR!      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A           28511      C   python train.py                         230MiB |
+-----------------------------------------------------------------------------------------+
"""

QUERY_TEXT = """
==============NVSMI LOG==============

Timestamp                                 : Fri Jun 21 02:03:08 2024
Driver Version                            : 535.183.01
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:53:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Brand                         : NVIDIA
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    GPU UUID                              : GPU-566e6f65-c38e-b12f-4824-6944218668b9
    Minor Number                          : 5
    PCI
        Bus Id                            : 00000000:53:00.0
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 2 MiB
    Compute Mode                          : Default
    Utilization
        Gpu                               : 3 %
    Ecc Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Aggregate
            SRAM Uncorrectable            : 1
            DRAM Uncorrectable            : 2
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 29 C
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 1234
            Type                          : C
            Name                          : python
            Used GPU Memory               : 100 MiB
"""

TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A\n"
    "GPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \t\t\t\t\n"
    "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)

# (words on stdout, exit status, state)
MESSAGES = [
    (
        "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display "
        "Driver is properly installed and present in your system.\nPlease also try adding directory that contains "
        "libnvidia-ml.so to your system PATH.\n",
        12,
        "driver_not_installed",
    ),
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA driver is installed and running.\n\n",
        9,
        "driver_not_loaded",
    ),
    (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163\n",
        18,
        "version_mismatch",
    ),
    ("Failed to initialize NVML: Driver/library version mismatch\n", 255, "version_mismatch"),
    ("Failed to initialize NVML: Insufficient Permissions\n", 4, "access_denied"),
    ("Failed to initialize NVML: GPU access blocked by the operating system\n", 17, "access_denied"),
    ("Failed to initialize NVML: GPU is lost\n", 15, "gpu_lost"),
    ("Failed to initialize NVML: GPU requires reset\n", 255, "reset_required"),
    ("Failed to initialize NVML: Unknown Error\n", 255, "unreadable"),
    ("Failed to initialize NVML: Timeout\n", 255, "timeout"),
    ("No devices were found\n", 6, "no_devices"),
    ("No devices found.\n", 0, "no_devices"),
    ("\x1b[31mNo devices were found\x1b[0m\r\n", 6, "no_devices"),
    ("Wrapper 1.0: asking the GPUs\nNo devices were found\n", 6, "no_devices"),
    (
        "Unable to determine the device handle for GPU0000:10:00.0: GPU is lost.  "
        "Reboot the system to recover this GPU\n",
        15,
        "gpu_lost",
    ),
    (
        "Unable to determine the device handle for GPU 0000:10:00.0: A GPU reset must occur before "
        "this GPU can be used again.\n",
        255,
        "reset_required",
    ),
    ("ERROR: Option --bogus is not recognized. Please run 'nvidia-smi -h'.\n", 255, "unreadable"),
    ("", 139, "crashed"),
    ("", 134, "crashed"),
    ("", 0, "unreadable"),
    ("\n \n", 0, "unreadable"),
    ("", 9, "driver_not_loaded"),
    ("", 124, "timeout"),
    ("hello\n", 0, "unreadable"),
    ("sh: 1: nvidia-smi: command not found\n", 127, "driver_not_installed"),
    ("bash: /usr/bin/nvidia-smi: No such file or directory\n", 127, "driver_not_installed"),
    ("Command 'nvidia-smi' not found, but can be installed with:\napt install x\n", 127, "driver_not_installed"),
    ('exec: "nvidia-smi": executable file not found in $PATH: unknown\n', 127, "driver_not_installed"),
    ("bash: /usr/bin/nvidia-smi: Permission denied\n", 126, "access_denied"),
    ("bash: /usr/bin/nvidia-smi: cannot execute binary file: Exec format error\n", 126, "unreadable"),
    ("Segmentation fault (core dumped)\n", 1, "crashed"),
    ("run.sh: line 3:  1234 Bus error               nvidia-smi\n", 135, "crashed"),
    # What a shell says on the way doesn't matter when nvidia-smi has words of its own.
    (
        "/etc/profile: line 9: module: command not found\nFailed to initialize NVML: Driver/library version mismatch\n",
        18,
        "version_mismatch",
    ),
    (
        "nvidia-smi: error while loading shared libraries: libnvidia-ml.so.1: cannot open shared object file: No such "
        "file or directory\n",
        127,
        "driver_not_installed",
    ),
    (
        "Failed to initialize NVML: GPU access blocked by the operating system\n"
        "Failed to properly shut down NVML: GPU access blocked by the operating system\n",
        17,
        "access_denied",
    ),
    (
        "NVIDIA: API mismatch: the NVIDIA kernel module has version 550.163.01,\nbut this NVIDIA driver component has "
        "version 535.261.03.\n",
        255,
        "version_mismatch",
    ),
    # There is a device, and it can't be opened.
    (
        "Unable to determine the device handle for GPU0: 0000:10:00.0: Unknown Error\nNo devices were found\n",
        6,
        "unreadable",
    ),
    (
        "Unable to determine the device handle for GPU0: 0000:10:00.0: GPU is lost.  Reboot the system to recover this "
        "GPU\nNo devices were found\n",
        6,
        "gpu_lost",
    ),
    ("Unable to determine the device handle for GPU 0000:10:00.0: Unknown Error\n", 255, "unreadable"),
    # Without a header nobody knows what is what, so the words are not about all GPUs.
    ("0, GPU-11, Tesla T4\n1, [GPU is lost], [GPU is lost]\n", 0, "unreadable"),
    *(
        (f"Failed to initialize NVML: {words}\n", rc, state)
        for words, rc, state in (
            ("Uninitialized", 255, "unreadable"),
            ("Invalid Argument", 2, "unreadable"),
            ("Not Supported", 3, "unreadable"),
            ("Not Found", 6, "unreadable"),
            ("Insufficient External Power", 8, "unreadable"),
            ("Driver Not Loaded", 9, "driver_not_loaded"),
            ("NVML Shared Library Not Found", 12, "driver_not_installed"),
            ("Function Not Found", 13, "version_mismatch"),
            ("Corrupted infoROM", 14, "unreadable"),
            ("In use by another client", 19, "unreadable"),
            ("Insufficient Memory", 255, "unreadable"),
        )
    ),
]
