"""The gpu-check kit on machines with simulated GPUs: all comparable values agree, and differences are named."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gpu_check import scrub
from support.hosts import ROOT, Host
from support.lab import Lab, running
from support.play import play

ROLES = """
- hosts: workers
  become: true
  roles:
    - gpulab.kubernetes.containerd
    - gpulab.kubernetes.nvidia_driver
    - gpulab.kubernetes.nvidia_container_toolkit
"""
KIT = "/opt/kit/gpu-check"
# Paths that a run could leave behind.
TRACES = "find /etc /run/cdi -printf '%p %T@\\n' | sort; find /dev -name 'nvidia*' | sort; ls -A /tmp /run"
PARTS = ["readers", "kernel", "readers in use", "CDI specification", "modules", "isolation", "training"]
# These parts need a GPU that computes.
NOT_RUN = ("kernel", "readers in use", "training")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kit") / "gpu-kit.tar.gz"
    subprocess.run([sys.executable, "-m", "gpu_check.build", path], cwd=ROOT, env=environment(), check=True)
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


@pytest.fixture(scope="module")
def lab(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    playbook = tmp_path_factory.mktemp("play") / "roles.yml"
    playbook.write_text(ROLES)
    with running("gpu-check", ROOT / "tests/integration/specs/gpu-check.yml") as lab:
        play(lab.path, playbook=str(playbook)).expect_success()
        for host in lab.inventory().hosts.values():
            unpack(host, archive)
        yield lab


def unpack(host: Host, archive: Path) -> None:
    script = "rm -rf /opt/kit && mkdir /opt/kit && tar -xzf - -C /opt/kit"
    with archive.open("rb") as packed:
        subprocess.run([*host.ssh(), f"sudo bash -c '{script}'"], stdin=packed, check=True, timeout=120)


@pytest.fixture
def host(lab: Lab) -> Host:
    return lab.inventory().hosts["gpu1"]


def check(host: Host, *arguments: str, prefix: str = "") -> tuple[int, str]:
    """Run the unpacked kit and return its exit status and output."""
    words = " ".join(arguments)
    done = host.attempt(f"cd /root && {prefix} python3 {KIT}/gpu-check {words} 2>&1", timeout=200)
    return done.returncode, done.stdout


def report(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.run("cat /root/gpu-check.json"))
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {part["name"]: part["state"] for part in found["parts"]}


def test_the_kit_is_small(archive: Path) -> None:
    assert archive.stat().st_size <= 50e6


@pytest.mark.parametrize(("name", "model"), [("gpu1", "Tesla T4"), ("gpu2", "NVIDIA A100-SXM4-40GB")])
def test_all_comparable_values_agree(lab: Lab, name: str, model: str) -> None:
    host = lab.inventory().hosts[name]
    before = host.run(TRACES)
    status, printed = check(host)
    found = report(host)
    assert status == found["status"] == 3, printed
    assert found["edited_files"] == []
    assert states(found) == {part: "not run" if part in NOT_RUN else "agrees" for part in PARTS}
    assert found["simulated"] is True
    assert f"GPU 0: {model}" in printed and "(simulated)" in printed
    assert "not run: there is no libcuda.so.1 on this machine: the GPUs are simulated" in printed
    assert "not run: no torch in /usr/bin/python3" in printed
    compared = {part["name"]: part["compared"] for part in found["parts"]}
    assert all(compared["readers"][form] >= 20 for form in ("table", "-q", "-q -x", "csv"))
    assert {"nvidia_smi_info", "gpu_host_info", "preflight_info", "nvidia_cdi_spec"} == set(compared["modules"])
    assert set(compared["isolation"]) == {
        "container without a GPU (no request)",
        "container without a GPU (void)",
        "container with GPU 0",
        "container with GPU 1",
    }
    assert host.run(TRACES) == before


def test_mig_devices_are_compared(lab: Lab) -> None:
    host = lab.inventory().hosts["gpu2"]
    host.run("nvidia-smi -i 0 -mig 1 && nvidia-smi mig -i 0 -cgi 9,14,19 -C")
    host.run("systemctl start nvidia-cdi-refresh.service")
    status, printed = check(host)
    found = report(host)
    assert status == 3, printed
    readers = found["parts"][0]
    assert (readers["state"], readers["differences"]) == ("agrees", [])
    assert {"mig -lgip", "mig -lgipp", "mig -lgi", "mig -lci"} < set(readers["compared"])


def test_the_archive_identifies_no_machine(host: Host) -> None:
    check(host)
    packed = subprocess.run([*host.ssh(), "sudo cat /root/gpu-check-raw.tar.gz"], check=True, capture_output=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        texts = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    assert {"gpu-check/nvidia-smi -q -x.txt", "gpu-check/nvml.json", "gpu-check/cdi.yaml"} < set(texts)
    assert scrub.uuids(texts.values()) == {}
    everything = "".join(texts.values())
    serials = re.findall(r"Serial Number\s+: (\S+)", host.run("nvidia-smi -q"))
    for secret in (*serials, host.run("hostname").strip()):
        assert not re.search(rf"\b{secret}\b", everything)
    assert "Tesla T4" in everything


@pytest.mark.parametrize(
    ("file", "text", "replacement", "words"),
    [
        ("_nvidia_smi/listing.py", "uuid=word(gpu[3])", "uuid=None", "-L: uuid of GPU 0 is None"),
        ("_nvidia_smi/table.py", "mib(memory[2])", "mib(memory[1])", "table: memory_total_mib of GPU 0 is 0"),
        ("_nvidia_smi/query.py", 'get("minor_number")', 'get("minor")', "nvidia_smi_info: minor_number of GPU 0"),
        ("_nvidia_smi/query_csv.py", 'row.get("power.limit")', 'row.get("power")', "csv: power_limit_w of GPU 0"),
        ("_nvidia/pci.py", '"0x03"', '"0x04"', "gpu_host_info: pci is []"),
        (
            "_nvidia/kernel_module.py",
            'OPEN if "Open',
            'PROPRIETARY if "Open',
            "preflight_info: nvidia_driver.loaded_modules is 'proprietary'",
        ),
        ("_nvidia/cdi.py", 'f"{kind}="', '"none"', "nvidia_cdi_spec: devices is []"),
    ],
)
def test_a_broken_reader_is_reported_as_a_difference(
    host: Host, file: str, text: str, replacement: str, words: str
) -> None:
    path = f"{KIT}/ansible_collections/gpulab/kubernetes/plugins/module_utils/{file}"
    code = host.run(f"cat {path}")
    assert text in code
    script = (
        f"import pathlib; p = pathlib.Path({path!r}); p.write_text(p.read_text().replace({text!r}, {replacement!r}))"
    )
    host.run(f"cp {path} {path}.kept && python3 - <<'END'\n{script}\nEND")
    try:
        status, printed = check(host)
    finally:
        host.run(f"mv {path}.kept {path}")
    assert (status, words in printed) == (1, True), printed
    assert f"This kit was edited: ansible_collections/gpulab/kubernetes/plugins/module_utils/{file}" in printed


def test_a_lost_gpu_is_one_error(lab: Lab, host: Host) -> None:
    lab.fault("gpu1", "lost", "--gpu", "1")
    try:
        status, printed = check(host)
    finally:
        lab.fault("gpu1", "clear")
    assert status == 3
    assert printed.startswith("gpu-check: GPU 1 can't be opened (NVML: GPU is lost). Look for Xid messages")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("damage", "restore", "words"),
    [
        (
            "mv {kit}/bin/runc /root/",
            "mv /root/runc {kit}/bin/",
            "is incomplete: bin/runc is missing. Unpack",
        ),
        (
            "cp {kit}/rootfs.tar.gz /root/ && truncate -s 100 {kit}/rootfs.tar.gz",
            "mv /root/rootfs.tar.gz {kit}/",
            "is incomplete: rootfs.tar.gz is damaged. Unpack",
        ),
        (
            "mkdir /mnt/small && mount -t tmpfs -o size=50m none /mnt/small",
            "umount /mnt/small && rmdir /mnt/small",
            "/mnt/small has 52 MB free; gpu-check needs 200 MB",
        ),
    ],
)
def test_each_obstacle_to_a_run_is_one_error(host: Host, damage: str, restore: str, words: str) -> None:
    host.run(damage.format(kit=KIT))
    try:
        status, printed = check(host, prefix="TMPDIR=/mnt/small" if "/mnt/small" in words else "")
    finally:
        host.run(restore.format(kit=KIT))
    assert (status, printed.count("\n")) == (3, 1), printed
    assert words in printed


def test_without_a_driver_the_error_is_one_sentence(lab: Lab, host: Host) -> None:
    lab.fault("gpu1", "unload")
    try:
        status, printed = check(host)
    finally:
        lab.fault("gpu1", "clear")
        host.run("modprobe nvidia && modprobe nvidia_uvm && modprobe nvidia_modeset")
    assert (status, printed) == (2, "gpu-check: No NVIDIA driver answers on this machine (Driver Not Loaded).\n")
