"""The simulated NVML, compiled and loaded by another process on a scratch machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gpusim_probe import (
    DRIVER,
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NOT_SUPPORTED,
    SUCCESS,
    TIMEOUT,
    UNINITIALIZED,
    UNKNOWN,
    VERSION_MISMATCH,
    Machine,
    machine,
)

from lab.depot.cache import DepotError
from lab.gpusim import library, models

LATER = "595.91.07"
Make = Callable[..., Machine]


@pytest.fixture
def make(tmp_path: Path, built: Path) -> Make:
    """A function that creates a machine with GPUs."""

    def made(model: models.Model = models.T4, count: int = 4) -> Machine:
        return machine(tmp_path, built, model, count, DRIVER)

    return made


def test_every_declared_function_is_exported(built: Path) -> None:
    names = library.declared(library.header().read_text())
    listed = subprocess.run(["nm", "-D", "--defined-only", built], check=True, text=True, stdout=subprocess.PIPE).stdout
    exported = {line.split()[-1] for line in listed.splitlines()}
    assert len(names) > 400
    assert exported == {*names, "nvmlErrorString"}


def test_the_library_loads_in_images_with_an_old_c_library(built: Path) -> None:
    listed = subprocess.run(["objdump", "-T", built], check=True, text=True, stdout=subprocess.PIPE).stdout
    needed = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", listed)}
    assert max(needed) <= (2, 17)


def test_the_soname_is_the_one_that_programs_open(built: Path) -> None:
    listed = subprocess.run(["objdump", "-p", built], check=True, text=True, stdout=subprocess.PIPE).stdout
    assert re.search(r"SONAME\s+libnvidia-ml\.so\.1$", listed, re.MULTILINE)


def test_all_fields_of_the_description_are_returned(make: Make) -> None:
    made = make(models.A100, 2)
    seen = made.run("""
nvml.nvmlInit_v2()
print(json.dumps([
    {"name": text("nvmlDeviceGetName", h), "uuid": text("nvmlDeviceGetUUID", h),
     "serial": text("nvmlDeviceGetSerial", h), "minor": number("nvmlDeviceGetMinorNumber", h),
     "power_max_mw": number("nvmlDeviceGetEnforcedPowerLimit", h),
     "cores": number("nvmlDeviceGetNumGpuCores", h), "pcie_generation": number("nvmlDeviceGetMaxPcieLinkGeneration", h)}
    for h in (device(0)[1], device(1)[1])]))
""")
    assert seen == [{key: gpu[key] for key in seen[0]} for gpu in made.gpus]


def test_pci_address_and_memory_are_returned(make: Make) -> None:
    seen = make().run("""
class Pci(ctypes.Structure):
    _fields_ = [("legacy", ctypes.c_char * 16), ("domain", ctypes.c_uint), ("bus", ctypes.c_uint),
                ("device", ctypes.c_uint), ("id", ctypes.c_uint), ("sub", ctypes.c_uint),
                ("bus_id", ctypes.c_char * 32)]
nvml.nvmlInit_v2()
pci, memory = Pci(), (ctypes.c_ulonglong * 3)()
nvml.nvmlDeviceGetPciInfo_v3(device(2)[1], ctypes.byref(pci))
nvml.nvmlDeviceGetMemoryInfo(device(2)[1], memory)
by_bus = ctypes.c_void_p()
code = nvml.nvmlDeviceGetHandleByPciBusId_v2(b"0000:4B:00.0", ctypes.byref(by_bus))
print(json.dumps([pci.bus_id.decode(), pci.legacy.decode(), hex(pci.id), hex(pci.sub), memory[0] >> 20,
                  code, by_bus.value == device(2)[1].value]))
""")
    assert seen == ["00000000:4B:00.0", "0000:4B:00.0", "0x1eb810de", "0x12a210de", 15360, SUCCESS, True]


@pytest.mark.parametrize(("model", "code", "mode"), [(models.T4, NOT_SUPPORTED, 7), (models.A100, SUCCESS, 0)])
def test_mig_is_disabled_or_not_supported_by_the_model(make: Make, model: models.Model, code: int, mode: int) -> None:
    seen = make(model, 1).run("""
current, pending = ctypes.c_uint(7), ctypes.c_uint(7)
nvml.nvmlInit_v2()
code = nvml.nvmlDeviceGetMigMode(device(0)[1], ctypes.byref(current), ctypes.byref(pending))
print(json.dumps([code, current.value, pending.value]))
""")
    assert seen == [code, mode, mode]


def test_versions_are_those_that_were_compiled_in(make: Make) -> None:
    seen = make().run("""
buffer = ctypes.create_string_buffer(80)
nvml.nvmlSystemGetNVMLVersion(buffer, 80)
cuda = number("nvmlSystemGetCudaDriverVersion_v2")
nvml.nvmlInit_v2()
print(json.dumps([buffer.value.decode(), cuda, nvml.nvmlSystemGetDriverVersion(buffer, 80), buffer.value.decode()]))
""")
    assert seen == [f"13.{DRIVER}", 13000, SUCCESS, DRIVER]


def test_a_container_sees_the_gpus_whose_device_nodes_it_has(make: Make) -> None:
    made = make()
    for index in (0, 1, 3):
        (made.root / "dev" / f"nvidia{index}").unlink()
    seen = made.run("""
nvml.nvmlInit_v2()
print(json.dumps([number("nvmlDeviceGetCount_v2"), text("nvmlDeviceGetUUID", device(0)[1]), device(1)[0]]))
""")
    assert seen == [1, made.gpus[2]["uuid"], 2]


INIT = "print(json.dumps(nvml.nvmlInit_v2()))"


def test_a_device_node_that_cannot_be_opened_is_an_unknown_error(make: Make) -> None:
    made = make()
    # Any error except ENOENT and EPERM means a forbidden device; here the node is a link to itself.
    (made.root / "dev" / "nvidia1").unlink()
    (made.root / "dev" / "nvidia1").symlink_to("nvidia1")
    seen = made.run("nvml.nvmlInit_v2()\nprint(json.dumps([device(0)[0], device(1)[0], device(2)[0]]))")
    assert seen == [SUCCESS, UNKNOWN, SUCCESS]
    (made.root / "dev" / "nvidiactl").unlink()
    (made.root / "dev" / "nvidiactl").symlink_to("nvidiactl")
    assert made.run(INIT) == UNKNOWN


def test_without_a_driver_initialization_fails(make: Make) -> None:
    made = make()
    (made.root / "dev" / "nvidiactl").unlink()
    assert made.run(INIT) == DRIVER_NOT_LOADED
    (made.root / "dev" / "nvidiactl").touch()
    made.write("")
    assert made.run(INIT) == DRIVER_NOT_LOADED
    made.state.unlink()
    assert made.run(INIT) == DRIVER_NOT_LOADED
    assert made.run('print(json.dumps(number("nvmlDeviceGetCount_v2")))') == -UNINITIALIZED


def test_the_state_is_found_below_the_root_of_the_library(make: Make) -> None:
    made = make()
    libraries = made.root / "driver-root/usr/lib/x86_64-linux-gnu"
    firmware = made.root / f"driver-root/lib/firmware/nvidia/{DRIVER}"
    libraries.mkdir(parents=True)
    firmware.mkdir(parents=True)
    made.library = Path(shutil.copy(made.library, libraries))
    made.state.rename(firmware / "gsp_gpusim.bin")
    assert made.run('nvml.nvmlInit_v2()\nprint(json.dumps(number("nvmlDeviceGetCount_v2")))') == 4


def test_another_loaded_driver_version_is_a_mismatch(make: Make) -> None:
    made = make()
    made.write(LATER)
    assert made.run(INIT) == VERSION_MISMATCH
    made.write(DRIVER, [{"kind": "mismatch"}])
    assert made.run(INIT) == VERSION_MISMATCH
    made.state.unlink()
    (made.root / "version").write_text(f"NVRM version: NVIDIA UNIX Kernel Module  {LATER}  Release Build\n")
    assert made.run(INIT) == VERSION_MISMATCH


def test_a_lost_gpu_does_not_affect_the_others(make: Make) -> None:
    made = make()
    made.write(DRIVER, [{"kind": "lost", "gpu": 1, "sequence": 3}])
    seen = made.run(
        "nvml.nvmlInit_v2()\nprint(json.dumps([number('nvmlDeviceGetCount_v2'), device(0)[0], device(1)[0]]))"
    )
    assert seen == [4, SUCCESS, GPU_IS_LOST]


@pytest.mark.parametrize(
    ("model", "script"),
    [
        (models.T4, "number('nvmlDeviceGetRetiredPagesPendingStatus', device(i)[1])"),
        (models.A100, "rows(device(i)[1])"),
    ],
)
def test_faulty_memory_is_pending_until_a_reset(make: Make, model: models.Model, script: str) -> None:
    made = make(model)
    made.write(DRIVER, [{"kind": "pending", "gpu": 1, "sequence": 3}])
    seen = made.run(f"""
nvml.nvmlInit_v2()
def rows(handle):
    values = [ctypes.c_uint(9) for _ in range(4)]
    assert nvml.nvmlDeviceGetRemappedRows(handle, *map(ctypes.byref, values)) == 0
    return values[2].value
print(json.dumps([{script} for i in (0, 1)]))""")
    assert seen == [0, 1]


def test_a_gpu_can_be_lost_while_it_is_in_use(make: Make) -> None:
    made = make()
    seen = made.run("""
nvml.nvmlInit_v2()
handle = device(1)[1]
before = text("nvmlDeviceGetName", handle)
changed = json.loads(state.read_text())
changed["faults"] = [{"kind": "lost", "gpu": 1, "sequence": 1}]
state.write_text(json.dumps(changed))
print(json.dumps([before, text("nvmlDeviceGetName", handle), text("nvmlDeviceGetName", device(0)[1]),
                  text("nvmlDeviceGetUUID", handle), number("nvmlDeviceGetMinorNumber", handle)]))
""")
    # The identity was cached before: the device plugin needs it to remove only this GPU.
    assert seen == ["Tesla T4", GPU_IS_LOST, "Tesla T4", made.gpus[1]["uuid"], 1]


EVENTS = """
class Event(ctypes.Structure):
    _fields_ = [("device", ctypes.c_void_p), ("type", ctypes.c_ulonglong), ("data", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]
def fault(**entry):
    changed = json.loads(state.read_text())
    changed["faults"].append(entry)
    state.write_text(json.dumps(changed))
def wait(events, timeout):
    event = Event()
    code = nvml.nvmlEventSetWait_v2(events, ctypes.byref(event), timeout)
    return [code, event.data, event.device] if code == 0 else [code]
nvml.nvmlInit_v2()
events = ctypes.c_void_p()
nvml.nvmlEventSetCreate(ctypes.byref(events))
for index in (0, 1):
    nvml.nvmlDeviceRegisterEvents(device(index)[1], ctypes.c_ulonglong(8), events)
"""


def test_an_xid_wakes_a_process_that_waits_for_events(make: Make) -> None:
    code, xid, right_device, late = make().run(
        EVENTS
        + """
threading.Timer(0.3, fault, kwargs={"kind": "xid", "gpu": 1, "xid": 48, "sequence": 1}).start()
started = time.monotonic()
code, xid, where = wait(events, 10000)
print(json.dumps([code, xid, where == device(1)[1].value, time.monotonic() - started > 5]))
"""
    )
    assert (code, xid, right_device, late) == (SUCCESS, 48, True, False)


def test_each_fault_is_delivered_once_and_in_order(make: Make) -> None:
    made = make()
    made.write(DRIVER, [{"kind": "xid", "gpu": 0, "xid": 13, "sequence": 5}])
    seen = made.run(
        EVENTS
        + """
first = wait(events, 100)
fault(kind="lost", gpu=1, sequence=7)
fault(kind="xid", gpu=0, xid=31, sequence=6)
fault(kind="xid", gpu=3, xid=62, sequence=8)
print(json.dumps([first[:1], wait(events, 100)[:2], wait(events, 100)[:2], wait(events, 100)[:1]]))
"""
    )
    # Faults older than the event set are not delivered; others come in order of number, a lost GPU as Xid 79. GPU 3 was
    # not registered.
    assert seen == [[TIMEOUT], [SUCCESS, 31], [SUCCESS, 79], [TIMEOUT]]


def test_a_partly_written_state_is_read_again(make: Make) -> None:
    seen = make().run("""
nvml.nvmlInit_v2()
whole = state.read_text()
state.write_text(whole[: len(whole) // 2])
threading.Timer(0.05, state.write_text, [whole.replace("Tesla T4", "Tesla T9")]).start()
print(json.dumps(text("nvmlDeviceGetName", device(3)[1])))
""")
    assert seen == "Tesla T9"


def test_a_driver_in_use_holds_a_lock(make: Make) -> None:
    seen = make().run("""
import fcntl
def free():
    with state.open() as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
answers = [free()]
nvml.nvmlInit_v2(); nvml.nvmlInit_v2(); answers.append(free())
nvml.nvmlShutdown(); answers.append(free())
nvml.nvmlShutdown(); answers.append(free())
print(json.dumps(answers))
""")
    assert seen == [True, False, False, True]


def test_an_unknown_driver_version_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(DepotError, match=rf"570\.1.*{DRIVER}, {LATER}"):
        library.library("570.1")
