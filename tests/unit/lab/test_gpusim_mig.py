"""MIG in the simulated NVML: the mode, partitioning, and what a container sees of the MIG devices."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from gpusim_probe import DRIVER, INVALID, NOT_SUPPORTED, SUCCESS, Machine, machine

from lab.gpusim import library, models

NOT_FOUND, IN_USE, INSUFFICIENT_RESOURCES = 6, 19, 23
Make = Callable[..., Machine]

PRELUDE = """
class Placement(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]
def mode(gpu, wanted):
    status = ctypes.c_int(-1)
    code = nvml.nvmlDeviceSetMigMode(gpu, wanted, ctypes.byref(status))
    return code or status.value
def modes(gpu):
    current, pending = ctypes.c_uint(7), ctypes.c_uint(7)
    nvml.nvmlDeviceGetMigMode(gpu, ctypes.byref(current), ctypes.byref(pending))
    return [current.value, pending.value]
def cut(gpu, profile, start, compute):
    gi, ci = ctypes.c_void_p(), ctypes.c_void_p()
    code = nvml.nvmlDeviceCreateGpuInstanceWithPlacement(
        gpu, profile, ctypes.byref(Placement(start, 0)), ctypes.byref(gi))
    return code or nvml.nvmlGpuInstanceCreateComputeInstance(gi, compute, ctypes.byref(ci)), gi, ci
def parts(gpu):
    found = []
    for index in range(7):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, ctypes.byref(handle)) == 0:
            found.append((text("nvmlDeviceGetName", handle), text("nvmlDeviceGetUUID", handle),
                          number("nvmlDeviceGetGpuInstanceId", handle)))
    return found
nvml.nvmlInit_v2()
gpu = device(0)[1]
"""
ONE_G, THREE_G = "cut(gpu, 19, {}, 0)[0]", "cut(gpu, 9, {}, 2)[0]"


@pytest.fixture
def make(tmp_path: Path, built: Path) -> Make:
    """A function that creates a machine with GPUs."""

    def made(model: models.Model = models.A100) -> Machine:
        return machine(tmp_path, built, model, 2, DRIVER)

    return made


def test_the_mode_changes_immediately_if_no_other_process_uses_the_gpu(make: Make) -> None:
    made = make()
    assert made.run(PRELUDE + "print(json.dumps([mode(gpu, 1), modes(gpu), modes(device(1)[1])]))") == [
        SUCCESS,
        [1, 1],
        [0, 0],
    ]
    assert (made.root / "mig").read_text() == "mode 0 1 1\nend\n"
    assert made.run(PRELUDE + "print(json.dumps(modes(gpu)))") == [1, 1]


def test_the_mode_stays_pending_while_other_processes_use_the_gpu(make: Make) -> None:
    made = make()
    seen = made.run(
        PRELUDE
        + """
import subprocess
other = subprocess.Popen([sys.executable, "-c", "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).nvmlInit_v2(),"
    " flush=True); sys.stdin.read()", sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
other.stdout.readline()
answers = [mode(gpu, 1), modes(gpu)]
other.communicate()
print(json.dumps([*answers, mode(gpu, 1), modes(gpu)]))
"""
    )
    assert seen == [IN_USE, [0, 1], SUCCESS, [1, 1]]


def test_a_model_without_mig_supports_no_mode(make: Make) -> None:
    assert make(models.T4).run(PRELUDE + "print(json.dumps(mode(gpu, 1)))") == NOT_SUPPORTED


@pytest.mark.parametrize(
    ("cuts", "last"),
    [
        ([ONE_G.format(0), ONE_G.format(0)], INSUFFICIENT_RESOURCES),
        ([THREE_G.format(4), ONE_G.format(3)], SUCCESS),
        ([THREE_G.format(4), ONE_G.format(4)], INSUFFICIENT_RESOURCES),
        ([THREE_G.format(2)], INSUFFICIENT_RESOURCES),
        ([ONE_G.format(place) for place in range(7)], SUCCESS),
        (["cut(gpu, 20, 0, 0)[0]", "cut(gpu, 20, 1, 0)[0]"], INSUFFICIENT_RESOURCES),
        (["cut(gpu, 15, 0, 0)[0]", "cut(gpu, 15, 6, 0)[0]"], SUCCESS),
        (["cut(gpu, 3, 0, 0)[0]"], INVALID),
    ],
)
def test_instances_are_only_created_at_valid_placements(make: Make, cuts: list[str], last: int) -> None:
    codes = make().run(PRELUDE + f"mode(gpu, 1)\nprint(json.dumps([{', '.join(cuts)}]))")
    assert codes == [SUCCESS] * (len(cuts) - 1) + [last]


def test_mig_devices_have_stable_identities(make: Make) -> None:
    made = make()
    seen = made.run(PRELUDE + "mode(gpu, 1)\ncut(gpu, 9, 4, 2)\ncut(gpu, 19, 0, 0)\nprint(json.dumps(parts(gpu)))")
    assert [(name, gi) for name, _uuid, gi in seen] == [
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", 1),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", 7),
    ]
    assert seen == made.run(PRELUDE + "print(json.dumps(parts(gpu)))")
    other = made.run(PRELUDE + "gpu = device(1)[1]\nmode(gpu, 1)\ncut(gpu, 9, 4, 2)\nprint(json.dumps(parts(gpu)))")
    assert len({uuid for _name, uuid, _gi in [*seen, *other]}) == 3


def test_a_container_sees_the_mig_device_whose_nodes_it_has(make: Make) -> None:
    made = make()
    made.run(PRELUDE + "mode(gpu, 1)\ncut(gpu, 9, 4, 2)\ncut(gpu, 19, 0, 0)\nprint(0)")
    caps = made.root / "dev/nvidia-caps"
    # Minor of GPU instance 7: 3 + 7 * 9; of its compute instance 0: the next one.
    assert {path.name for path in caps.iterdir()} == {f"nvidia-cap{minor}" for minor in (12, 13, 66, 67)}
    for minor in (12, 13):
        (caps / f"nvidia-cap{minor}").unlink()
    seen = made.run(PRELUDE + "print(json.dumps([name for name, *_ in parts(gpu)]))")
    assert seen == ["NVIDIA A100-SXM4-40GB MIG 1g.5gb"]


def test_compute_instances_are_destroyed_before_their_gpu_instance(make: Make) -> None:
    made = make()
    seen = made.run(
        PRELUDE
        + """
mode(gpu, 1)
code, gi, ci = cut(gpu, 9, 4, 2)
print(json.dumps([nvml.nvmlGpuInstanceDestroy(gi), mode(gpu, 0), modes(gpu), nvml.nvmlComputeInstanceDestroy(ci),
                  nvml.nvmlGpuInstanceDestroy(gi), nvml.nvmlGpuInstanceDestroy(gi), mode(gpu, 0), parts(gpu)]))
"""
    )
    assert seen == [IN_USE, IN_USE, [1, 0], SUCCESS, SUCCESS, NOT_FOUND, SUCCESS, []]
    assert (made.root / "mig").read_text() == "end\n"
    assert not list((made.root / "dev/nvidia-caps").iterdir())


def test_reloading_the_module_keeps_the_mode_and_no_instance(tmp_path: Path) -> None:
    script = (Path(library.__file__).parent / "driver/module.sh").read_text()
    function = script[script.index("write_mig() {") : script.index("# NVIDIA's tools learn")]
    kept = tmp_path / "lib/mig"
    kept.parent.mkdir()
    kept.write_text("mode 0 1 1\nmode 1 0 1\ngi 0 1 9 4\nci 0 1 0 2 0\nend\n")
    argv = ["sh", "-euc", f"run={tmp_path} mig={kept}\n{function}\nwrite_mig"]
    subprocess.run(argv, check=True)
    assert kept.read_text() == "mode 0 1 1\nmode 1 1 1\nend\n"


@pytest.mark.parametrize("device", ["/dev/nvidiactl", "/dev/null"])
def test_containers_with_a_gpu_get_the_drivers_entries_in_proc(tmp_path: Path, device: str) -> None:
    script = (Path(library.__file__).parent / "driver/runc.sh").read_text().replace("exec /usr/bin/runc", "exec echo")
    config = tmp_path / "config.json"
    hooks = '"hooks":{"createContainer":[{"path":"/usr/bin/nvidia-cdi-hook"}]}'
    config.write_text(f'{{"linux":{{"devices":[{{"path":"{device}"}}]}},{hooks}}}')
    argv = ["sh", "-c", script, "runc", "--root", "/run/runc", "create", "--bundle", str(tmp_path), "one"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert said.split() == argv[4:]
    paths = [hook["path"] for hook in json.loads(config.read_text())["hooks"]["createContainer"]]
    ours = ["/usr/lib/nvidia-simulated/proc-hook"] if device == "/dev/nvidiactl" else []
    assert paths == [*ours, "/usr/bin/nvidia-cdi-hook"]
