# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.drift import drift

WANTED = {"packages": {"kubelet": "1.36.4", "nvidia-container-toolkit": "1.20.1"}, "driver": "580.178.04", "gpus": True}
SEEN: dict[str, Any] = {
    "packages": {
        "kubelet": {"version": "1.36.4-1.1", "held": True},
        "nvidia-container-toolkit": {"version": "1.20.1-1", "held": True},
    },
    "driver": {
        "loaded": "580.178.04",
        "library": "580.178.04",
        "packages": {
            "nvidia-open-580": {"version": "580.178.04-1", "held": True},
            "nvidia-fabricmanager": {"version": "580.178.04-1", "held": True},
        },
    },
    "kernel": {"running": "6.1", "newest": "6.1", "newest_has_driver": True},
    "swap": [],
    "files": [],
}
AGENT = "Azure's agent (/etc/waagent.conf)"


def changed(path: str, value: Any) -> dict[str, Any]:
    """SEEN with one value replaced, "top" or "top/key"."""
    first, _slash, key = path.partition("/")
    return {**SEEN, first: {**SEEN[first], key: value} if key else value}


LOOSE = changed("packages/kubelet", {"version": "1.36.4-1.1", "held": False})


def test_as_pinned() -> None:
    assert drift({"gpu1": {"seen": SEEN, "wanted": WANTED}}) == []
    assert drift({"gpu1": {"seen": LOOSE, "wanted": {**WANTED, "loose": ["kubelet"]}}}) == []


@pytest.mark.parametrize(
    ("seen", "component", "found", "advice"),
    [
        (changed("driver/loaded", "595.91.07"), "driver", "595.91.07", "gpulab.kubernetes.upgrade_driver"),
        (
            changed("swap", [{"name": "/mnt/swapfile", "origin": AGENT}]),
            "swap",
            f"/mnt/swapfile, turned on by {AGENT}",
            "site.yml turns it off",
        ),
        (
            changed("swap", [{"name": "", "origin": AGENT}]),
            "swap",
            f"on at the next boot by {AGENT}",
            "site.yml turns it off",
        ),
        (
            changed("swap", [{"name": "/dev/sda2", "origin": ""}]),
            "swap",
            "/dev/sda2, turned on by something that no file names (journalctl --boot --grep=swap may show it)",
            "scripts by hand",
        ),
        (changed("driver/loaded", ""), "driver", "none", "gpulab.kubernetes.upgrade_driver"),
        (changed("driver/library", "580.200.01"), "library", "580.200.01", "gpulab.kubernetes.upgrade_driver"),
        (
            changed("driver/packages", {"nvidia-fabricmanager": {"version": "580.200.01-1", "held": True}}),
            "nvidia-fabricmanager",
            "580.200.01-1",
            "gpulab.kubernetes.upgrade_driver",
        ),
        (
            changed("packages/kubelet", {"version": "1.36.5-1.1", "held": True}),
            "kubelet",
            "1.36.5-1.1",
            "site.yml",
        ),
        (
            changed("packages/kubelet", {"version": "1.36.4-1.1", "held": False}),
            "kubelet",
            "1.36.4-1.1, not on hold",
            "hold",
        ),
        (
            changed("packages", {"kubelet": SEEN["packages"]["kubelet"]}),
            "nvidia-container-toolkit",
            "not installed",
            "",
        ),
        (changed("files", ["/etc/containerd/config.toml"]), "/etc/containerd/config.toml", "by hand", "site.yml"),
        (
            changed("kernel", {"running": "6.1", "newest": "6.2", "newest_has_driver": False}),
            "kernel",
            "6.2 at the next boot",
            "linux-headers-6.2",
        ),
        (
            changed(
                "kernel", {"running": "6.1", "newest": "6.2", "newest_has_driver": False, "newest_has_headers": True}
            ),
            "kernel",
            "6.2 at the next boot",
            "dkms autoinstall -k 6.2",
        ),
        ({"failure": "it did not answer"}, "host", "it did not answer", ""),
    ],
)
def test_what_differs(seen: dict[str, Any], component: str, found: str, advice: str) -> None:
    (row,) = drift({"gpu1": {"seen": seen, "wanted": WANTED}, "cp1": {"seen": SEEN, "wanted": {}}})
    assert (row["host"], row["component"]) == ("gpu1", component)
    assert found in row["found"] and advice in row["advice"]


def test_a_driver_without_any_hold() -> None:
    loose = changed(
        "driver", {**SEEN["driver"], "packages": {"nvidia-open": {"version": "580.178.04-1", "held": False}}}
    )
    (row,) = drift({"gpu1": {"seen": loose, "wanted": WANTED}})
    assert row["found"] == "no package of it is on hold"


def test_a_newer_kernel_with_the_driver_and_a_driver_of_another_are_no_drift() -> None:
    seen = changed("kernel", {"running": "6.1", "newest": "6.2", "newest_has_driver": True})
    assert drift({"gpu1": {"seen": seen, "wanted": WANTED}}) == []
    other = changed("driver/loaded", "550.1")
    assert drift({"gpu1": {"seen": other, "wanted": {**WANTED, "driver": ""}}}) == []


def test_auto_is_one_version_for_a_pool() -> None:
    auto = {**WANTED, "driver": "auto", "pool": "", "versions": ["580.178.04", "595.91.07"]}
    behind, ahead = SEEN, changed("driver", {"loaded": "595.91.07", "library": "595.91.07", "packages": {}})
    other = changed("driver", {"loaded": "570.1.02", "library": "570.1.02", "packages": {}})
    assert drift({"gpu1": {"seen": SEEN, "wanted": auto}}) == []
    assert (
        drift({"gpu1": {"seen": SEEN, "wanted": auto}, "gpu2": {"seen": ahead, "wanted": {**auto, "pool": "b"}}}) == []
    )
    rows = drift({"gpu1": {"seen": behind, "wanted": auto}, "gpu2": {"seen": ahead, "wanted": auto}})
    assert {(row["host"], row["wanted"]) for row in rows} == {("gpu1", "595.91.07")}
    rows = drift({"gpu1": {"seen": other, "wanted": auto}})
    assert {(row["component"], row["wanted"]) for row in rows} == {
        (component, "a version of the table") for component in ("driver", "library")
    }
    assert [row["component"] for row in drift({"gpu1": {"seen": {"failure": "gone"}, "wanted": auto}})] == ["host"]
