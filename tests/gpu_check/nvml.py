"""Read the GPUs through NVML with NVIDIA's own bindings (nvidia-ml-py): the reference for all readers.

Values have the names and units of the module nvidia_smi_info. A value that NVML lacks is absent; None means that NVML
reports it as not applicable.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_check.result import STATUS_NO_GPU, CheckError, in_mig_mode

_ENABLED = {0: "Disabled", 1: "Enabled"}
_COMPUTE = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_FABRIC = {0: None, 1: "Not Started", 2: "In Progress", 3: "Completed"}
_LEVELS = {10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# Names as nvidia-smi writes them; it has further names, which are not compared.
_BRANDS = {1: "Quadro", 2: "Tesla", 5: "GeForce", 6: "Titan", 12: "Quadro RTX", 13: "NVIDIA RTX", 14: "NVIDIA"}
_ARCHITECTURES = dict(
    enumerate(("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell"), 2)
)
_MIB = 2**20
_NO_RECOVERY, _NO_FABRIC, _FABRIC_COMPLETED = 0, 0, 3
_MOST_CPUS = 4096
_MOST_PLACES = 64
_FURTHER_DIRECTORIES = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
_LIBRARY = re.compile(r"/libnvidia-ml\.so\.(\d+(?:\.\d+)+)$")


@dataclass
class Facts:
    """One reading. ``gpus`` by index; ``topology`` has a cell for each pair of indices, ``affinity`` CPUs by index.

    MIG: ``profiles`` (name, id, maximum of instances), ``placements`` (starts and size by profile id) and ``instances``
    (id, start) are by index, too. ``processes`` are (pid, name) of compute processes by index, ``graphics`` the number
    of graphics processes. ``cuda_version`` is None if NVML can't open libcuda.
    """

    driver_version: str
    cuda_version: str | None
    gpus: list[dict[str, Any]] = field(default_factory=list)
    topology: dict[tuple[int, int], str] = field(default_factory=dict)
    affinity: dict[int, str] = field(default_factory=dict)
    profiles: dict[int, set[tuple[str, int, int]]] = field(default_factory=dict)
    placements: dict[int, dict[int, tuple[tuple[int, ...], int]]] = field(default_factory=dict)
    instances: dict[int, set[tuple[int, int]]] = field(default_factory=dict)
    processes: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    graphics: dict[int, int] = field(default_factory=dict)
    serials: list[str] = field(default_factory=list)


class Nvml:
    """An open NVML, used as a context manager. Raises CheckError if there is no driver, no GPU, or a lost GPU."""

    def __init__(self, library: Any = None) -> None:
        self._nvml = library or importlib.import_module("pynvml")

    def __enter__(self) -> Nvml:
        nvml = self._nvml
        _preload()
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise CheckError(f"No NVIDIA driver answers on this machine ({error}).", STATUS_NO_GPU) from None
        if not nvml.nvmlDeviceGetCount():
            nvml.nvmlShutdown()
            raise CheckError("The NVIDIA driver finds no GPU on this machine.", STATUS_NO_GPU)
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def library(self) -> tuple[str, str]:
        """Return the path of the loaded library and the version in its file name, or an empty version."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.partition("/")[1] + line.partition("/")[2]
            if "/libnvidia-ml.so" in path:
                match = _LIBRARY.search(path)
                return path, match[1] if match else ""
        return "", ""

    def read(self) -> Facts:
        """Read everything. Raises CheckError if NVML fails, or a GPU can't be opened."""
        try:
            return self._read()
        except self._nvml.NVMLError as error:
            raise CheckError(
                f"NVML can't read the GPUs ({error}). Look at the kernel log (dmesg | grep -e NVRM -e Xid), then run "
                "gpu-check again."
            ) from None

    def _read(self) -> Facts:
        nvml = self._nvml
        facts = Facts(_text(nvml.nvmlSystemGetDriverVersion()), None)
        with self._may_lack():
            cuda = nvml.nvmlSystemGetCudaDriverVersion_v2()
            facts.cuda_version = f"{cuda // 1000}.{cuda % 1000 // 10}"
        handles = [self._open(index) for index in range(nvml.nvmlDeviceGetCount())]
        for index, handle in enumerate(handles):
            facts.gpus.append({"index": index, **self._gpu(handle)})
            facts.profiles[index] = self._profiles(handle)
            facts.placements[index] = self._placements(handle, facts.profiles[index])
            facts.instances[index] = self._instances(handle, facts.gpus[index]["mig.devices"])
            facts.processes[index] = [(pid, _process_name(pid)) for pid in self._pids(handle, "Compute", "MPSCompute")]
            facts.graphics[index] = len(self._pids(handle, "Graphics"))
            with self._may_lack():
                facts.serials.append(_text(nvml.nvmlDeviceGetSerial(handle)))
            with self._may_lack():
                words = -(-max(os.cpu_count() or 1, 1) // 64)
                facts.affinity[index] = _ranges(_bits(nvml.nvmlDeviceGetCpuAffinity(handle, max(words, 16))))
            for other, second in enumerate(handles):
                with self._may_lack():
                    facts.topology[index, other] = "X" if index == other else self._link(handle, second)
        return facts

    def _open(self, index: int) -> Any:
        nvml = self._nvml
        try:
            return nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            raise CheckError(
                f"GPU {index} can't be opened (NVML: {error}). Look for Xid messages in the kernel log "
                "(dmesg | grep -e NVRM -e Xid), reset the GPU or reboot, then run gpu-check again."
            ) from None

    def _gpu(self, handle: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, read in self._fields().items():
            with self._may_lack():
                found[name] = read(handle)
        found["mig.capable"] = found.get("mig.current") is not None
        if in_mig_mode(found):
            # In MIG mode, the driver reports no utilization for the whole GPU.
            found.pop("utilization_gpu_pct", None)
        found["mig.devices"] = self._mig_devices(handle)
        return found

    def _fields(self) -> Mapping[str, Callable[[Any], Any]]:
        nvml = self._nvml
        return {
            "minor_number": nvml.nvmlDeviceGetMinorNumber,
            "uuid": lambda handle: _text(nvml.nvmlDeviceGetUUID(handle)),
            "name": lambda handle: _text(nvml.nvmlDeviceGetName(handle)),
            "brand": lambda handle: self._known(_BRANDS, nvml.nvmlDeviceGetBrand(handle)),
            "architecture": lambda handle: self._known(_ARCHITECTURES, nvml.nvmlDeviceGetArchitecture(handle)),
            "pci_bus_id": lambda handle: _text(nvml.nvmlDeviceGetPciInfo(handle).busId).upper(),
            "memory_total_mib": lambda handle: round(self._memory(handle).total / _MIB),
            "memory_used_mib": lambda handle: self._memory(handle).used // _MIB,
            "compute_mode": lambda handle: _COMPUTE[nvml.nvmlDeviceGetComputeMode(handle)],
            "persistence_mode": lambda handle: _ENABLED[nvml.nvmlDeviceGetPersistenceMode(handle)],
            "temperature_c": lambda handle: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power_draw_w": lambda handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "power_limit_w": lambda handle: nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000,
            "enforced_power_limit_w": lambda handle: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
            "utilization_gpu_pct": lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "mig.current": lambda handle: _ENABLED[nvml.nvmlDeviceGetMigMode(handle)[0]],
            "mig.pending": lambda handle: _ENABLED[nvml.nvmlDeviceGetMigMode(handle)[1]],
            "ecc.current": lambda handle: _ENABLED[nvml.nvmlDeviceGetEccMode(handle)[0]],
            "ecc.pending": lambda handle: _ENABLED[nvml.nvmlDeviceGetEccMode(handle)[1]],
            "ecc.uncorrected_aggregate": lambda handle: nvml.nvmlDeviceGetTotalEccErrors(
                handle, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_AGGREGATE_ECC
            ),
            "retired_or_remapped.pending": self._pending,
            "retired_or_remapped.failure": lambda handle: bool(nvml.nvmlDeviceGetRemappedRows(handle)[3]),
            "fabric.state": lambda handle: _FABRIC[self._fabric(handle).state],
            "fabric.status": self._fabric_status,
            "processes": lambda handle: self._pids(handle, "Compute", "MPSCompute", "Graphics"),
            "problems": self._problems,
        }

    def _known(self, names: Mapping[int, str], number: int) -> str:
        """Return the name of an enum value. A value without a name is treated as not supported."""
        if number not in names:
            raise self._nvml.NVMLError(self._nvml.NVML_ERROR_NOT_SUPPORTED)
        return names[number]

    @contextlib.contextmanager
    def _may_lack(self) -> Iterator[None]:
        with contextlib.suppress(self._nvml.NVMLError, KeyError):
            yield

    def _memory(self, handle: Any) -> Any:
        nvml = self._nvml
        with self._may_lack():
            return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
        return nvml.nvmlDeviceGetMemoryInfo(handle)

    def _pending(self, handle: Any) -> bool:
        """Return whether a page retirement or a row remapping is pending. A GPU supports one of the two."""
        found = []
        with self._may_lack():
            found.append(bool(self._nvml.nvmlDeviceGetRemappedRows(handle)[2]))
        with self._may_lack():
            found.append(bool(self._nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle)))
        if not found:
            raise self._nvml.NVMLError(self._nvml.NVML_ERROR_NOT_SUPPORTED)
        return any(found)

    def _fabric(self, handle: Any) -> Any:
        nvml = self._nvml
        info = nvml.c_nvmlGpuFabricInfoV_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, nvml.byref(info))
        return info

    def _fabric_status(self, handle: Any) -> str | None:
        """Return the status as nvidia-smi words it, if it is known here."""
        fabric = self._fabric(handle)
        if fabric.state == _NO_FABRIC:
            return None
        return self._known({0: "Success"}, fabric.status) if fabric.state == _FABRIC_COMPLETED else self._known({}, 0)

    def _pids(self, handle: Any, *kinds: str) -> list[int]:
        """Return the IDs of the processes of these kinds on a GPU."""
        found: set[int] = set()
        for kind in kinds:
            with self._may_lack():
                running = getattr(self._nvml, f"nvmlDeviceGet{kind}RunningProcesses")(handle)
                found |= {process.pid for process in running}
        return sorted(found)

    def _problems(self, handle: Any) -> list[str]:
        """Return an empty list if NVML reports no problem. Raise an error otherwise: there is nothing to compare."""
        nvml, wrong = self._nvml, False
        with self._may_lack():
            wrong = self._pending(handle)
        with self._may_lack():
            wrong = wrong or bool(nvml.nvmlDeviceGetRemappedRows(handle)[3])
        with self._may_lack():
            value = nvml.nvmlDeviceGetFieldValues(handle, [nvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
            wrong = wrong or (value.nvmlReturn == nvml.NVML_SUCCESS and value.value.uiVal != _NO_RECOVERY)
        with self._may_lack():
            fabric = self._fabric(handle)
            # Each fault has two bits in the mask: value 1 means present, value 2 absent.
            faults = any(fabric.healthMask >> shift & 3 == 1 for shift in range(0, 32, 2))
            wrong = wrong or fabric.state not in (_NO_FABRIC, _FABRIC_COMPLETED) or fabric.status != 0 or faults
        if wrong:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        return []

    def _mig_devices(self, handle: Any) -> list[dict[str, Any]]:
        nvml = self._nvml
        devices: list[dict[str, Any]] = []
        with self._may_lack():
            for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
                with self._may_lack():
                    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
                    devices.append(
                        {
                            "index": index,
                            "uuid": _text(nvml.nvmlDeviceGetUUID(device)),
                            "profile": _text(nvml.nvmlDeviceGetName(device)).rpartition("MIG ")[2],
                            "gi": nvml.nvmlDeviceGetGpuInstanceId(device),
                            "ci": nvml.nvmlDeviceGetComputeInstanceId(device),
                            "memory_total_mib": round(self._memory(device).total / _MIB),
                        }
                    )
        return devices

    def _profiles(self, handle: Any) -> set[tuple[str, int, int]]:
        nvml, found = self._nvml, set()
        for number in range(nvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            with self._may_lack():
                info = nvml.nvmlDeviceGetGpuInstanceProfileInfo(handle, number)
                found.add((_text(info.name).removeprefix("MIG "), info.id, info.instanceCount))
        return found

    def _placements(self, handle: Any, profiles: set[tuple[str, int, int]]) -> dict[int, tuple[tuple[int, ...], int]]:
        nvml, found = self._nvml, {}
        for _name, number, _most in profiles:
            with self._may_lack():
                places = (nvml.c_nvmlGpuInstancePlacement_t * _MOST_PLACES)()
                count = ctypes.c_uint(_MOST_PLACES)
                nvml.nvmlDeviceGetGpuInstancePossiblePlacements(handle, number, places, ctypes.byref(count))
                known = places[: count.value]
                if known:
                    found[number] = (tuple(sorted(place.start for place in known)), known[0].size)
        return found

    def _instances(self, handle: Any, devices: list[dict[str, Any]]) -> set[tuple[int, int]]:
        """Return (id, start) of every GPU instance that contains one of these MIG devices."""
        nvml, found = self._nvml, set()
        for device in devices:
            with self._may_lack():
                instance = nvml.nvmlDeviceGetGpuInstanceById(handle, device["gi"])
                found.add((device["gi"], nvml.nvmlGpuInstanceGetInfo(instance).placement.start))
        return found

    def _link(self, one: Any, other: Any) -> str:
        """Return how two GPUs are connected, in the terms of ``nvidia-smi topo -m``."""
        nvml, links = self._nvml, 0
        address = nvml.nvmlDeviceGetPciInfo(other).busId
        for number in range(nvml.NVML_NVLINK_MAX_LINKS):
            with self._may_lack():
                if nvml.nvmlDeviceGetNvLinkState(one, number) != nvml.NVML_FEATURE_ENABLED:
                    continue
                kind = nvml.nvmlDeviceGetNvLinkRemoteDeviceType(one, number)
                through_switch = kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
                links += through_switch or nvml.nvmlDeviceGetNvLinkRemotePciInfo(one, number).busId == address
        return f"NV{links}" if links else _LEVELS[nvml.nvmlDeviceGetTopologyCommonAncestor(one, other)]


def _preload() -> None:
    """Load NVML from the directories of some container platforms, so that nvidia-ml-py then finds it by name.

    NVML itself opens libcuda by name to read the CUDA version.
    """
    with contextlib.suppress(OSError):
        ctypes.CDLL("libnvidia-ml.so.1")
        return
    for directory in _FURTHER_DIRECTORIES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(f"{directory}/libnvidia-ml.so.1")
            ctypes.CDLL(f"{directory}/libcuda.so.1")
            return


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _bits(words: Any) -> list[int]:
    return [64 * place + bit for place, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def _ranges(numbers: list[int]) -> str:
    """Return numbers in nvidia-smi's notation, for example 0-3,8."""
    parts: list[list[int]] = []
    for number in numbers[:_MOST_CPUS]:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def _process_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
