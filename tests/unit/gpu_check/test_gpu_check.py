"""gpu-check without a GPU: statuses, what it replaces in what it keeps, an incomplete kit, and programs on GPUs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from gpu_check import kit, programs, scrub
from gpu_check.kit import Kit
from gpu_check.main import main
from gpu_check.nvml import Facts, Nvml
from gpu_check.result import CheckError, NotRunError, Part, status, table

UUID = "6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11"


def part(*, differs: bool = False, reason: str = "") -> Part:
    made = Part("part", reason=reason)
    made.compare("-L", "uuid of GPU 0", "a", "b" if differs else "a")
    return made


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([part()], 0),
        ([part(), part(reason="no torch")], 3),
        ([part(differs=True), part(reason="no torch")], 1),
        ([part(differs=True)], 1),
    ],
)
def test_status(parts: list[Part], expected: int) -> None:
    assert status(parts) == expected


def test_table_names_every_difference_and_reason() -> None:
    lines = table([part(differs=True), part(reason="no torch")]).splitlines()
    assert "    -L: uuid of GPU 0 is 'a', expected 'b'" in lines
    assert "    not run: no torch" in lines


SERIAL = "1651922040001"
RAW = {
    "-L": f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-{UUID})\n",
    "-q -x": f"<serial>{SERIAL}</serial><uuid>GPU-{UUID}</uuid>"
    "<board_part_number>692-2G520-0200-000</board_part_number><vbios_version>96.00.99.00.01</vbios_version><img_version>G520.0200.00.05</img_version><board_id>0x5300</board_id>"
    "<process_name>/home/ada/secret.py</process_name><chassis_serial_number>N/A</chassis_serial_number>",
    "-q": f"    Serial Number                         : {SERIAL}\n    VBIOS Version    : 96.00.99.00.01\n"
    "    Product Name     : NVIDIA H100 80GB HBM3\n            Name                      : /home/ada/secret.py\n"
    "        OEM Object    : 2.1\n",
    "ansible": f"host-7 said {SERIAL}; secret.py",
}


def test_what_identifies_a_machine_is_replaced() -> None:
    uuids = scrub.identities(RAW)
    names = {"host-7": "host", SERIAL: "0", "secret.py": "process"}
    clean = {name: scrub.scrub(text, uuids, names) for name, text in RAW.items()}
    text = "".join(clean.values())
    for secret in (UUID, SERIAL, "692-2G520", "G520.0200", "0x5300", "ada", "host-7", "secret"):
        assert secret not in text
    for kept in ("NVIDIA H100 80GB HBM3", "96.00.99.00.01", "<chassis_serial_number>N/A"):
        assert kept in text
    assert clean["-L"] == "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    assert scrub.identities(clean) == {}


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/runc").write_text("program")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = kit._sha256(tmp_path / "bin/runc")
    manifest = {"version": "1", "wheels": {version: []}, "files": {"bin/runc": digest}}
    (tmp_path / kit.MANIFEST).write_text(json.dumps(manifest))
    return tmp_path


def test_a_complete_kit_is_accepted(unpacked: Path) -> None:
    assert Kit(unpacked).programs == unpacked / "bin"


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda root: (root / "bin/runc").unlink(), "bin/runc is missing"),
        (lambda root: (root / "bin/runc").write_text("half"), "bin/runc is damaged"),
        (lambda root: (root / kit.MANIFEST).unlink(), "MANIFEST.json can't be read"),
        (lambda root: (root / kit.MANIFEST).write_text("{"), "MANIFEST.json can't be read"),
    ],
)
def test_an_incomplete_kit_is_one_error(unpacked: Path, break_it: object, words: str) -> None:
    break_it(unpacked)  # type: ignore[operator]
    with pytest.raises(CheckError, match="Unpack the whole archive again") as caught:
        Kit(unpacked)
    assert words in str(caught.value)
    assert caught.value.status == 3


def test_an_unsupported_python_is_one_error(unpacked: Path) -> None:
    manifest = json.loads((unpacked / kit.MANIFEST).read_text())
    (unpacked / kit.MANIFEST).write_text(json.dumps({**manifest, "wheels": {"3.99": []}}))
    with pytest.raises(CheckError, match=r"needs one of Python 3\.99; this is"):
        Kit(unpacked)


class FakeNvml:
    """nvidia-ml-py without a GPU, or with a lost one."""

    class NVMLError(Exception):
        pass

    def __init__(self, count: int | None, lost: bool = False) -> None:
        self._count, self._lost = count, lost

    def nvmlInit(self) -> None:  # noqa: N802
        if self._count is None:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self._count or 0

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:  # noqa: N802
        return 13000

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "580.178.04"

    def nvmlDeviceGetHandleByIndex(self, _index: int) -> None:  # noqa: N802
        raise self.NVMLError("GPU is lost")


@pytest.mark.parametrize(
    ("library", "words", "expected"),
    [
        (FakeNvml(None), "No NVIDIA driver answers on this machine (Driver Not Loaded).", 2),
        (FakeNvml(0), "The NVIDIA driver finds no GPU on this machine.", 2),
        (FakeNvml(1), "GPU 0 can't be opened (NVML: GPU is lost). Look for Xid", 3),
    ],
)
def test_no_usable_gpu_is_one_error(library: FakeNvml, words: str, expected: int) -> None:
    with pytest.raises(CheckError) as caught, Nvml(library) as nvml:
        nvml.read()
    assert str(caught.value).startswith(words)
    assert caught.value.status == expected


@pytest.mark.parametrize(
    ("processes", "used", "words"),
    [
        ([], 4, ""),
        ([(123, "python3")], 4, "GPU 0 is in use by python3 (123); end it"),
        ([], 40000, "40000 MiB of GPU 0 are in use by a process that can't be seen from here"),
    ],
)
def test_a_gpu_in_use(processes: list[tuple[int, str]], used: int, words: str) -> None:
    facts = Facts("580", "13.0", gpus=[{"memory_used_mib": used}], processes={0: processes})
    assert programs.in_use(facts).startswith(words)
    assert bool(programs.in_use(facts)) == bool(words)


def python_with_torch(directory: Path, seen: str, summary: str = "", status: int = 0) -> str:
    """An interpreter whose torch sees GPUs, and whose torchrun prints a summary."""
    program = directory / "python-with-torch"
    program.write_text(
        f"#!/bin/sh\nif [ \"$1\" = -c ]; then echo '{seen}'; exit; fi\n"
        f"echo 'TORCH_DDP_SUMMARY {summary}'; echo 'ValueError: nothing to learn' >&2; exit {status}\n"
    )
    program.chmod(0o755)
    return str(program)


SUMMARY = {"backend": "nccl", "processes": 1, "ranks_equal": True, "loss": [0.4, 0.1], "samples_per_s": 5.0}


@pytest.mark.parametrize(
    ("change", "status", "fields"),
    [
        ({}, 0, []),
        ({"backend": "gloo"}, 0, ["backend"]),
        ({"processes": 2}, 0, ["processes"]),
        ({"ranks_equal": False}, 0, ["ranks_equal"]),
        ({"loss": [0.1, 0.4]}, 0, ["loss goes down"]),
        ({}, 1, ["exit status"]),
    ],
)
def test_training(tmp_path: Path, change: dict[str, object], status: int, fields: list[str]) -> None:
    seen, summary = json.dumps(["2.11", "13.0", 1]), json.dumps({**SUMMARY, **change})
    python, torch = programs.torch_python(python_with_torch(tmp_path, seen, summary, status), {})
    found = Part("training")
    programs.training(found, python, torch, Path("train_ddp.py"), {"PATH": "/usr/bin:/bin"}, tmp_path)
    assert [each.field for each in found.differences] == fields
    assert found.notes == (["ValueError: nothing to learn"] if status else [])
    assert found.unavailable == ([] if status else ["NCCL between GPUs (there is one GPU)"])


@pytest.mark.parametrize(
    ("seen", "words"),
    [('["2.11", null, 0]', "the torch 2.11 of .* is built without CUDA"), ('["2.11", "13.0", 0]', "finds no GPU")],
)
def test_torch_without_a_gpu_is_not_run(tmp_path: Path, seen: str, words: str) -> None:
    with pytest.raises(NotRunError, match=words):
        programs.torch_python(python_with_torch(tmp_path, seen), {})


def test_without_torch_is_not_run(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(NotRunError, match=r"no torch in .*--python"):
        programs.torch_python(str(program), {})


@pytest.mark.parametrize(
    "arguments", [["--out", "/nonexistent"], ["--script", "/nonexistent.py"], ["--python", "/nonexistent"], ["--what"]]
)
def test_wrong_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 3
    assert "gpu-check: error: " in capsys.readouterr().err
