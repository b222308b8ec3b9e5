"""The files that describe a node's hardware."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import pytest

from lab.gpusim import SiliconFiles, models, silicon

T4_IDS = ("0x10de", "0x1eb8", "0x030200")
A100_IDS = ("0x10de", "0x20b0", "0x030200")


def described(files: SiliconFiles) -> list[dict[str, models.Value]]:
    """The GPUs of a description."""
    gpus: list[dict[str, models.Value]] = json.loads(files.description.read_text())["gpus"]
    return gpus


@pytest.mark.parametrize(
    ("model", "count", "name", "memory", "ids"),
    [("t4", 4, "Tesla T4", 15360, T4_IDS), ("a100", 2, "NVIDIA A100-SXM4-40GB", 40960, A100_IDS)],
)
def test_description_and_pci_entries_match(
    tmp_path: Path, model: str, count: int, name: str, memory: int, ids: tuple[str, str, str]
) -> None:
    files = silicon(model, count, "gpu1", tmp_path)
    gpus = described(files)
    assert [(gpu["name"], gpu["memory_total_mib"]) for gpu in gpus] == [(name, memory)] * count
    assert {entry.name for entry in files.pci_devices.iterdir()} == {gpu["bus_id"] for gpu in gpus}
    for entry in files.pci_devices.iterdir():
        assert tuple((entry / part).read_text().strip() for part in ("vendor", "device", "class")) == ids
        vendor, device = struct.unpack_from("<HH", (entry / "config").read_bytes())
        assert (f"0x{vendor:04x}", f"0x{device:04x}") == ids[:2]
        assert len((entry / "config").read_bytes()) == 256
        assert all(
            re.fullmatch(r"0x\w{16} 0x\w{16} 0x\w{16}", line)
            for line in (entry / "resource").read_text().split("\n")[:-1]
        )


def test_the_module_can_read_the_description_line_by_line(tmp_path: Path) -> None:
    lines = silicon("t4", 4, "gpu1", tmp_path).description.read_text().splitlines()
    assert sum(bool(re.search(r'"minor": \d+.*"bus_id": "0000:\w\w:00.0"', line)) for line in lines) == 4


def test_gpu_identities_are_stable_and_unique(tmp_path: Path) -> None:
    nodes = ("lab-gpu1", "lab-gpu2", "ci-gpu1")
    first = {node: described(silicon("t4", 4, node, tmp_path / node)) for node in nodes}
    again = {node: described(silicon("t4", 4, node, tmp_path / f"{node}-again")) for node in nodes}
    assert first == again
    for key in ("uuid", "serial"):
        assert len({gpu[key] for gpus in first.values() for gpu in gpus}) == 12
    uuid = str(first["ci-gpu1"][0]["uuid"])
    assert re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid)


def test_a_lower_count_removes_the_surplus_pci_entries(tmp_path: Path) -> None:
    silicon("t4", 4, "gpu1", tmp_path)
    files = silicon("t4", 1, "gpu1", tmp_path)
    assert [entry.name for entry in files.pci_devices.iterdir()] == ["0000:17:00.0"]


def test_a_node_without_gpus_has_an_empty_bus(tmp_path: Path) -> None:
    files = silicon("none", 0, "cp1", tmp_path)
    assert described(files) == []
    assert list(files.pci_devices.iterdir()) == []
    assert files.mounts == {files.description: "/etc/gpusim/gpus.json", files.pci_devices: "/sys/bus/pci/devices"}


@pytest.mark.parametrize(
    ("model", "count", "node", "words"),
    [
        ("h100", 1, "gpu1", "h100 is not simulated, a100, t4 are"),
        ("t4", 17, "gpu1", "0 to 16"),
        ("t4", 1, "a/b", "no host"),
    ],
)
def test_invalid_requests_are_named(tmp_path: Path, model: str, count: int, node: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        silicon(model, count, node, tmp_path / "files")
