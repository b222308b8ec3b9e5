"""How gpu-check reads NVML and compares changing values, with a stand-in for nvidia-ml-py."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest
from gpu_check import forms, nvml
from gpu_check.nvml import Facts, Nvml
from gpu_check.result import CheckError, Part


class Fabric(ctypes.Structure):
    _fields_ = [("state", ctypes.c_uint), ("status", ctypes.c_uint), ("healthMask", ctypes.c_uint)]


class FakeNvml(SimpleNamespace):
    """nvidia-ml-py on a machine with H100 GPUs; functions that are not set are not supported."""

    class NVMLError(Exception):
        pass

    NVML_SUCCESS = 0
    NVML_ERROR_NOT_SUPPORTED = 3
    NVML_FEATURE_ENABLED = 1
    NVML_NVLINK_DEVICE_TYPE_SWITCH = 2
    NVML_NVLINK_MAX_LINKS = 18
    NVML_GPU_INSTANCE_PROFILE_COUNT = 0
    NVML_FI_DEV_GET_GPU_RECOVERY_ACTION = 1
    byref = staticmethod(ctypes.byref)
    c_nvmlGpuFabricInfoV_t = Fabric  # noqa: N815

    def __getattr__(self, name: str) -> Any:
        def fail(*_arguments: object, **_more: object) -> None:
            raise self.NVMLError("Not Supported")

        if name.startswith("nvml"):
            return fail
        if name.startswith(("NVML_", "nvmlMemory")):
            return 0
        raise AttributeError(name)


def machine(count: int = 1, **functions: Any) -> FakeNvml:
    made = FakeNvml(nvmlInit=lambda: None, nvmlShutdown=lambda: None, nvmlDeviceGetCount=lambda: count)
    made.nvmlSystemGetDriverVersion = lambda: "580.178.04"
    made.nvmlSystemGetCudaDriverVersion_v2 = lambda: 13000
    made.nvmlDeviceGetHandleByIndex = lambda index: index
    vars(made).update(functions)
    return made


def fail(message: str) -> Any:
    def raising(*_arguments: object) -> None:
        raise FakeNvml.NVMLError(message)

    return raising


@pytest.mark.parametrize(
    ("library", "words", "expected"),
    [
        (
            machine(nvmlInit=fail("Driver Not Loaded")),
            "No NVIDIA driver answers on this machine (Driver Not Loaded).",
            2,
        ),
        (machine(count=0), "The NVIDIA driver finds no GPU on this machine.", 2),
        (machine(nvmlDeviceGetHandleByIndex=fail("GPU is lost")), "GPU 0 can't be opened (NVML: GPU is lost). Look", 3),
        (
            machine(nvmlSystemGetDriverVersion=fail("Unknown Error")),
            "NVML can't read the GPUs (Unknown Error). Look",
            3,
        ),
    ],
)
def test_missing_gpu_or_driver_is_one_error(library: FakeNvml, words: str, expected: int) -> None:
    with pytest.raises(CheckError) as caught, Nvml(library) as opened:
        opened.read()
    assert str(caught.value).startswith(words)
    assert caught.value.status == expected


def read(library: FakeNvml) -> Facts:
    with Nvml(library) as opened:
        return opened.read()


def test_cuda_version_is_unknown_without_libcuda() -> None:
    facts = read(machine(nvmlSystemGetCudaDriverVersion_v2=fail("Library Not Found")))
    assert facts.cuda_version is None
    part = Part("readers")
    forms.compare_gpus(
        part, "--version", {"driver_version": "580.178.04", "cuda_version": None, "gpus": []}, facts, facts
    )
    assert part.differences == []


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({}, "NODE"),
        # Links to a switch connect all GPUs.
        (dict.fromkeys(range(18), (2, "switch")), "NV18"),
        # Of the links to GPUs, only those to the other GPU count.
        ({0: (0, "B"), 1: (0, "B"), 2: (0, "C")}, "NV2"),
    ],
)
def test_connection_of_two_gpus_counts_their_nvlinks(links: dict[int, tuple[int, str]], expected: str) -> None:
    def state(_gpu: int, number: int) -> int:
        return int(number in links)

    facts = read(
        machine(
            count=2,
            nvmlDeviceGetPciInfo=lambda gpu: SimpleNamespace(busId="AB"[gpu]),
            nvmlDeviceGetNvLinkState=state,
            nvmlDeviceGetNvLinkRemoteDeviceType=lambda _gpu, number: links[number][0],
            nvmlDeviceGetNvLinkRemotePciInfo=lambda _gpu, number: SimpleNamespace(busId=links[number][1]),
            nvmlDeviceGetTopologyCommonAncestor=lambda _one, _other: 40,
        )
    )
    assert facts.topology[0, 1] == expected
    assert facts.topology[0, 0] == "X"


@pytest.mark.parametrize(
    ("numbers", "expected"), [([], ""), ([3], "3"), ([0, 1, 2, 8], "0-2,8"), ([0, 2, 3], "0,2-3"), ([63, 64], "63-64")]
)
def test_cpu_lists_are_formatted_as_ranges(numbers: list[int], expected: str) -> None:
    assert nvml._ranges(numbers) == expected
    words = [sum(1 << number % 64 for number in numbers if number // 64 == place) for place in range(2)]
    assert nvml._bits(words) == numbers


def problems(**functions: Any) -> Any:
    return read(machine(**functions)).gpus[0].get("problems")


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        ((0, 0, 0), []),
        ((3, 0, 2), []),
        ((3, 0, 1), None),
        ((2, 0, 0), None),
        ((1, 0, 0), None),
        ((3, 999, 0), None),
    ],
)
def test_fabric_that_is_not_ready_is_not_compared(fabric: tuple[int, int, int], expected: object) -> None:
    def fill(_gpu: int, info: Any) -> None:
        info._obj.state, info._obj.status, info._obj.healthMask = fabric

    assert problems(nvmlDeviceGetGpuFabricInfoV=fill) == expected


@pytest.mark.parametrize(("rows", "expected"), [((0, 0, 0, 0), []), ((0, 0, 1, 0), None), ((0, 0, 0, 1), None)])
def test_pending_or_failed_row_remapping_is_a_problem(rows: tuple[int, ...], expected: object) -> None:
    assert problems(nvmlDeviceGetRemappedRows=lambda _gpu: rows) == expected


@pytest.mark.parametrize(("action", "expected"), [(0, []), (1, None)])
def test_recovery_action_is_a_problem(action: int, expected: object) -> None:
    value = SimpleNamespace(nvmlReturn=0, value=SimpleNamespace(uiVal=action))
    assert problems(nvmlDeviceGetFieldValues=lambda _gpu, _ids: [value]) == expected


def compare(name: str, value: Any, first: Any, last: Any, where: str = "-q -x", **more: Any) -> Part:
    before, after = (Facts("580", None, gpus=[{name: each, "mig.devices": [], **more}]) for each in (first, last))
    part = Part("readers")
    forms._compare_value(part, where, 0, name, value, before, after)
    return part


@pytest.mark.parametrize(
    ("name", "value", "first", "last", "agrees"),
    [
        ("temperature_c", 34, 30, 30, True),
        ("temperature_c", 35, 30, 30, False),
        ("temperature_c", None, 30, 30, False),
        ("power_draw_w", 300.0, 100.0, 280.0, True),
        ("power_draw_w", 30.0, 100.0, 100.0, False),
        ("memory_total_mib", 81558, 81559, 81559, True),
        ("memory_total_mib", 80000, 81559, 81559, False),
        ("memory_used_mib", 81559, 4, 4, False),
        ("utilization_gpu_pct", 50, 0, 0, True),
        ("utilization_gpu_pct", 100, 0, 0, False),
        ("utilization_gpu_pct", None, 0, 0, False),
        ("name", "H100", "H100", "H100", True),
        ("name", "H100", "H200", "H200", False),
    ],
)
def test_changing_values_may_differ_within_bounds(name: str, value: Any, first: Any, last: Any, agrees: bool) -> None:
    assert (compare(name, value, first, last).differences == []) == agrees


def test_set_and_enforced_power_limits_are_both_accepted() -> None:
    for limit, agrees in ((700.0, True), (600.0, True), (500.0, False)):
        part = compare("power_limit_w", limit, 700.0, 700.0, enforced_power_limit_w=600.0)
        assert (part.differences == []) == agrees


def test_values_that_change_between_readings_are_not_compared() -> None:
    part = compare("compute_mode", "Default", "Default", "Prohibited")
    assert (part.differences, len(part.unavailable)) == ([], 1)


@pytest.mark.parametrize(
    ("value", "agrees"),
    [
        ("NVIDIA H100 80GB HBM3", True),
        ("NVIDIA H100 80GB ...", True),
        ("NVIDIA H200 80GB ...", False),
        ("...", False),
        ("NVIDIA H100", False),
    ],
)
def test_names_in_the_table_may_be_shortened(value: str, agrees: bool) -> None:
    name = "NVIDIA H100 80GB HBM3"
    assert (compare("name", value, name, name, "table").differences == []) == agrees


def test_processes_hidden_by_a_container_are_not_compared() -> None:
    hidden = 2**22 + 1
    part = compare("processes", [], [hidden], [hidden])
    assert (part.differences, len(part.unavailable)) == ([], 1)
    assert compare("processes", [7], [hidden], [hidden]).differences


@pytest.mark.parametrize(
    ("cell", "agrees"),
    [
        ("0,2,4,6,8,10,12", True),
        ("0,2,4,6,8,10", True),
        ("0,2,4,6,8", False),
        ("1,3,5,7,9,11", False),
        (None, False),
    ],
)
def test_truncated_cpu_lists_are_accepted(cell: str | None, agrees: bool) -> None:
    facts = Facts("580", None, gpus=[{"mig.devices": []}], topology={(0, 0): "X"}, affinity={0: "0,2,4,6,8,10,12"})
    part = Part("readers")
    found = {"gpus": ["GPU0"], "matrix": {"GPU0": {"GPU0": "X"}}, "cpu_affinity": {"GPU0": cell}}
    forms.compare_topology(part, "topo -m", found, facts)
    assert (part.differences == []) == agrees


def test_capture_is_only_repeated_for_changing_values() -> None:
    part = Part("readers")
    assert not forms.may_be_passing(part)
    part.compare("-q", "power_draw_w of GPU 0", 1, 2)
    assert forms.may_be_passing(part)
    part.compare("-q", "uuid of GPU 0", 1, 2)
    assert not forms.may_be_passing(part)
