"""gpu-check without a GPU: exit status, anonymized captures, incomplete kits, and programs that run on GPUs."""

from __future__ import annotations

import json
import os
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_check import archive, kit, scrub
from gpu_check.kit import Kit
from gpu_check.main import main
from gpu_check.nvml import Facts
from gpu_check.process import run
from gpu_check.programs import Programs, Torch, in_use
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
def test_exit_status_shows_differences_and_parts_that_did_not_run(parts: list[Part], expected: int) -> None:
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
    "ansible": f"HOST-7 said {SERIAL}; secret.py",
    "table": "|    0   N/A  N/A      1234      C   /home/ada/secret.py                    500MiB |",
}


def test_identifying_values_are_replaced() -> None:
    scrubber = scrub.Scrubber(RAW.values(), {"host-7": "host", SERIAL: "0", "secret.py": "process"})
    clean = {name: scrubber.text(text) for name, text in RAW.items()}
    text = "".join(clean.values())
    for secret in (UUID, SERIAL, "692-2G520", "G520.0200", "0x5300", "ada", "host-7", "secret"):
        assert secret not in text.lower()
    for kept in ("NVIDIA H100 80GB HBM3", "96.00.99.00.01", "<chassis_serial_number>N/A"):
        assert kept in text
    assert clean["-L"] == "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    assert scrub.uuids(clean.values()) == {}


def test_keys_of_json_are_not_replaced(tmp_path: Path) -> None:
    """A host may have the name of a key."""
    raw = tmp_path / "raw"
    raw.mkdir()
    processes = {"0": [[1234, "secret"]]}
    values = {"gpus": [{"uuid": f"GPU-{UUID}"}], "at": "gpus says hello", "processes": processes}
    (raw / "nvml.json").write_text(json.dumps(values))
    archive.write(tmp_path, {"gpus": {1, 2}, "path": "/home/ada/x"}, raw, {"gpus": "host"})
    assert json.loads((tmp_path / archive.REPORT).read_text()) == {"gpus": [1, 2], "path": "/home/user/x"}
    with tarfile.open(tmp_path / archive.ARCHIVE) as packed:
        found = json.load(packed.extractfile("gpu-check/nvml.json"))  # type: ignore[arg-type]
    assert found == {
        "gpus": [{"uuid": "GPU-00000000-0000-0000-0000-000000000000"}],
        "at": "host says hello",
        "processes": {"0": [[1234, "process"]]},
    }


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/runc").write_text("program")
    (tmp_path / "reader.py").write_text("pass")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    files = {name: kit._sha256(tmp_path / name) for name in ("bin/runc", "reader.py")}
    manifest = {"version": "1", "wheels": {version: []}, "files": files}
    (tmp_path / kit.MANIFEST).write_text(json.dumps(manifest))
    return tmp_path


def test_a_complete_kit_is_accepted(unpacked: Path) -> None:
    assert Kit(unpacked).programs == unpacked / "bin"
    assert Kit(unpacked).edited == []


def test_edited_files_of_a_kit_are_named(unpacked: Path) -> None:
    (unpacked / "reader.py").write_text("fail")
    assert Kit(unpacked).edited == ["reader.py"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda root: (root / "bin/runc").unlink(), "bin/runc is missing"),
        (lambda root: (root / "bin/runc").write_text("half"), "bin/runc is damaged"),
        (lambda root: (root / kit.MANIFEST).unlink(), "MANIFEST.json can't be read"),
        (lambda root: (root / kit.MANIFEST).write_text("{"), "MANIFEST.json can't be read"),
        (lambda root: (root / kit.MANIFEST).write_text("{}"), "MANIFEST.json can't be read"),
        (lambda root: (root / kit.MANIFEST).write_text("[]"), "MANIFEST.json can't be read"),
        (lambda root: (root / "reader.py").write_text(""), "reader.py is damaged"),
    ],
)
def test_incomplete_kit_is_refused_with_one_error(unpacked: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(unpacked)
    with pytest.raises(CheckError, match="Unpack the whole archive again") as caught:
        Kit(unpacked)
    assert words in str(caught.value)
    assert caught.value.status == 3


def test_unsupported_python_is_refused_with_one_error(unpacked: Path) -> None:
    manifest = json.loads((unpacked / kit.MANIFEST).read_text())
    (unpacked / kit.MANIFEST).write_text(json.dumps({**manifest, "wheels": {"3.99": []}}))
    with pytest.raises(CheckError, match=r"needs one of Python 3\.99; this is"):
        Kit(unpacked)


@pytest.mark.parametrize(
    ("processes", "used", "graphics", "words"),
    [
        ([], 4, 0, ""),
        ([(123, "python3")], 4, 0, "GPU 0 is in use by python3 (123); end it"),
        ([], 40000, 0, "40000 MiB of GPU 0 are in use by a process that can't be seen from here"),
        # A desktop uses memory, but doesn't conflict with the test kernel.
        ([], 3000, 2, ""),
    ],
)
def test_gpu_in_use_is_named_with_its_user(
    processes: list[tuple[int, str]], used: int, graphics: int, words: str
) -> None:
    facts = Facts("580", "13.0", gpus=[{"memory_used_mib": used}], processes={0: processes}, graphics={0: graphics})
    assert in_use(facts).startswith(words)
    assert bool(in_use(facts)) == bool(words)


def programs(directory: Path) -> Programs:
    return Programs({"PATH": "/usr/bin:/bin"}, directory, lambda: 30.0)


@pytest.mark.parametrize(
    ("mig", "devices", "words"), [("Enabled", [], "has no MIG device"), ("Disabled", [], "libcuda")]
)
def test_kernel_is_not_run_without_a_usable_device(tmp_path: Path, mig: str, devices: list[object], words: str) -> None:
    program = executable(tmp_path / "vectorAdd", "echo '[simulated] Test PASSED'")
    facts = Facts("580", "13.0", gpus=[{"uuid": "GPU-1", "mig.current": mig, "mig.devices": []}])
    with pytest.raises(NotRunError, match=words):
        programs(tmp_path).kernel(Part("kernel"), program, facts, simulated=False)


FOUND = "echo 'Result verification failed' >&2; exit 1"


@pytest.mark.parametrize(
    ("normal", "corrupt", "fields"),
    [
        ("echo 'GPU 0: H100 (UUID: 1)'; echo 'Test PASSED'", "echo 'Result verification failed' >&2; exit 1", []),
        (
            "echo 'GPU 0: H100 (UUID: 2)'; echo 'Test PASSED'",
            "echo 'Result verification failed' >&2; exit 1",
            ["UUIDs"],
        ),
        ("echo 'GPU 0: H100 (UUID: 1)'; echo 'Test PASSED'", "echo 'Test PASSED'", ["detection"]),
        ("echo 'Error while compiling' >&2; exit 1", "", ["exit status"]),
        ("echo 'GPU 0: H100 (UUID: 1)'", "echo 'Result verification failed' >&2; exit 1", ["result"]),
    ],
)
def test_kernel_must_pass_on_the_right_gpu_and_detect_corruption(
    tmp_path: Path, normal: str, corrupt: str, fields: list[str]
) -> None:
    script = f'if [ "$1" = --corrupt ]; then {corrupt or "true"}; else {normal}; fi'
    program = executable(tmp_path / "vectorAdd", script)
    facts = Facts("580", "13.0", gpus=[{"uuid": "GPU-1", "mig.devices": []}])
    found = Part("kernel")
    programs(tmp_path).kernel(found, program, facts, simulated=False)
    assert [each.field.split(" of ")[0] for each in found.differences] == fields


def executable(program: Path, script: str) -> Path:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def test_hanging_program_is_stopped_with_its_children(tmp_path: Path) -> None:
    # The child has its own session, like torchrun's workers.
    program = executable(tmp_path / "hangs", f"setsid sleep 600 & echo $! > {tmp_path}/child; wait")
    started = time.monotonic()
    with pytest.raises(NotRunError, match="hangs did not end within 1 s"):
        run([str(program)], os.environ, 1)
    assert time.monotonic() - started < 10
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    while child.exists() and child.read_text().split()[2] != "Z":
        assert time.monotonic() - started < 20
        time.sleep(0.05)


def python_with_torch(directory: Path, seen: str, summary: str = "", status: int = 0) -> str:
    """Return the path of an interpreter whose torch finds GPUs, and whose torchrun prints a summary."""
    script = f"if [ \"$1\" = -c ]; then echo '{seen}'; exit; fi\n"
    script += f"echo 'TORCH_DDP_SUMMARY {summary}'; echo 'ValueError: nothing to learn' >&2; exit {status}"
    return str(executable(directory / "python-with-torch", script))


SUMMARY = {"backend": "nccl", "processes": 1, "ranks_equal": True, "loss": [0.4, 0.1], "samples_per_s": 5.0}


@pytest.mark.parametrize(
    ("change", "status", "fields"),
    [
        ({}, 0, []),
        ({"loss": None}, 0, ["loss goes down"]),
        ({"backend": "gloo"}, 0, ["backend"]),
        ({"processes": 2}, 0, ["processes"]),
        ({"ranks_equal": False}, 0, ["ranks_equal"]),
        ({"loss": [0.1, 0.4]}, 0, ["loss goes down"]),
        ({}, 1, ["exit status"]),
        (None, 0, ["summary"]),
    ],
)
def test_differences_in_the_training_summary_are_reported(
    tmp_path: Path, change: dict[str, object] | None, status: int, fields: list[str]
) -> None:
    summary = "nonsense" if change is None else json.dumps({**SUMMARY, **change})
    python = python_with_torch(tmp_path, json.dumps(["2.11", "13.0", 1, True]), summary, status)
    torch = programs(tmp_path).torch(python)
    assert torch == Torch(python, "2.11", 1)
    found = Part("training")
    programs(tmp_path).training(found, torch, Path("train_ddp.py"), 1)
    assert [each.field for each in found.differences] == fields
    failed = bool(status) or change is None
    assert found.notes == (["ValueError: nothing to learn"] if failed else [])
    assert found.unavailable == ([] if failed else ["NCCL between GPUs (there is one GPU)"])


@pytest.mark.parametrize(
    ("lines", "status", "fields"),
    [
        (["rank 1 of 2: nccl, cuda:1, {}", "rank 0 of 2: nccl, cuda:0, {}"], 0, []),
        (["rank 0 of 2: nccl, cuda:0, {}"], 0, ["ranks with NCCL and the same parameters"]),
        (["rank 0 of 2: gloo, cpu, {}", "rank 1 of 2: gloo, cpu, {}"], 0, ["ranks with NCCL and the same parameters"]),
        ([], 1, ["exit status", "ranks with NCCL and the same parameters"]),
    ],
)
def test_all_ranks_must_use_nccl_and_agree_on_parameters(
    tmp_path: Path, lines: list[str], status: int, fields: list[str]
) -> None:
    said = "\n".join(lines).replace("{}", "all processes have the same parameters")
    python = str(executable(tmp_path / "python", f"echo '{said}'; echo 'RuntimeError: no' >&2; exit {status}"))
    found = Part("training")
    programs(tmp_path).one_step(found, Torch(python, "2.11", 2), Path("minimal_ddp.py"))
    assert [each.field for each in found.differences] == fields
    assert found.notes == (["RuntimeError: no"] if status else [])


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ('["2.11", null, 0, true]', "the torch 2.11 of .* is built without CUDA"),
        ('["2.11", "13.0", 0, true]', "finds no GPU"),
        ('["2.11", "13.0", 2, false]', "has no code for these GPUs"),
        ("nonsense", "no torch in"),
    ],
)
def test_training_is_not_run_if_torch_cannot_use_the_gpus(tmp_path: Path, seen: str, words: str) -> None:
    with pytest.raises(NotRunError, match=words):
        programs(tmp_path).torch(python_with_torch(tmp_path, seen))


def test_training_is_not_run_without_torch(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match=r"no torch in .*--python"):
        programs(tmp_path).torch(str(executable(tmp_path / "python", "exit 1")))


@pytest.mark.parametrize(
    "arguments", [["--out", "/nonexistent"], ["--script", "/nonexistent.py"], ["--python", "/nonexistent"], ["--what"]]
)
def test_wrong_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 3
    assert "gpu-check: error: " in capsys.readouterr().err
