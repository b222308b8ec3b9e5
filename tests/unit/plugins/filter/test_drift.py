# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.report import drift

WANTED: dict[str, Any] = {
    "packages": {"kubelet": "1.36.4"},
    "gpu_packages": {"nvidia-container-toolkit": "1.20.1"},
    "minimums": {"nvidia-container-toolkit": "1.17.0"},
    "existing": "refuse",
    "loose": [],
    "source": "cuda_repository",
    "driver": "580.178.04",
}
SEEN: dict[str, Any] = {
    "pci": [{"address": "0000:3b:00.0", "device_id": "0x1eb8"}],
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
    "kernel": {"running": "6.1", "newest": "6.1", "newest_has_driver": True, "newest_has_headers": True},
    "swap": [],
    "files": [],
}
AGENT = "Azure's agent (/etc/waagent.conf)"


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return SEEN with the value at ``path``, which is "top" or "top/key", replaced."""
    first, _slash, key = path.partition("/")
    return {**SEEN, first: {**SEEN[first], key: value} if key else value}


LOOSE = changed("packages/kubelet", {"version": "1.36.4-1.1", "held": False})


def test_pinned_state_has_no_drift() -> None:
    assert drift({"gpu1": {"seen": SEEN, "wanted": WANTED}}) == []
    assert drift({"gpu1": {"seen": LOOSE, "wanted": {**WANTED, "loose": ["kubelet"]}}}) == []


@pytest.mark.parametrize(
    ("seen", "component", "found", "advice"),
    [
        (changed("driver/loaded", "595.91.07"), "NVIDIA driver", "595.91.07", "gpulab.kubernetes.upgrade_driver"),
        (
            changed("swap", [{"name": "/mnt/swapfile", "origin": AGENT}]),
            "swap",
            f"/mnt/swapfile, turned on by {AGENT}",
            "Turn it off: ansible-playbook gpulab.kubernetes.site -i INVENTORY.",
        ),
        (
            changed("swap", [{"name": "", "origin": AGENT}]),
            "swap",
            f"on at the next boot by {AGENT}",
            "Turn it off: ansible-playbook gpulab.kubernetes.site -i INVENTORY.",
        ),
        (
            changed("swap", [{"name": "/dev/sda2", "origin": ""}]),
            "swap",
            "/dev/sda2, turned on by something that no file names (journalctl --boot --grep=swap may show it)",
            "If a script runs swapon",
        ),
        (changed("driver/loaded", ""), "NVIDIA driver", "", "gpulab.kubernetes.upgrade_driver"),
        (
            changed("driver/library", "580.200.01"),
            "NVIDIA driver's library",
            "580.200.01",
            "gpulab.kubernetes.upgrade_driver",
        ),
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
            "gpulab.kubernetes.site",
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
            "",
            "Install it: ansible-playbook gpulab.kubernetes.site -i INVENTORY.",
        ),
        (
            changed("files", ["/etc/containerd/config.toml"]),
            "/etc/containerd/config.toml",
            "another file",
            "gpulab.kubernetes.site",
        ),
        (
            changed(
                "kernel", {"running": "6.1", "newest": "6.2", "newest_has_driver": False, "newest_has_headers": False}
            ),
            "kernel of the next boot",
            "6.2, which has none",
            "linux-headers-6.2",
        ),
        (
            changed(
                "kernel", {"running": "6.1", "newest": "6.2", "newest_has_driver": False, "newest_has_headers": True}
            ),
            "kernel of the next boot",
            "6.2, which has none",
            "dkms autoinstall -k 6.2",
        ),
        ({"failure": "it did not answer"}, "host", "it did not answer", ""),
    ],
)
def test_difference_is_reported_with_component_and_advice(
    seen: dict[str, Any], component: str, found: str, advice: str
) -> None:
    (row,) = drift({"gpu1": {"seen": seen, "wanted": WANTED}, "cp1": {"seen": SEEN, "wanted": {}}})
    assert (row["host"], row["component"]) == ("gpu1", component)
    assert found in row["found"] and advice in row["advice"] and row["drift"]
    expected = f"gpu1: {row['component']}: expected {row['wanted']}, found {row['found'] or 'nothing'}. {row['advice']}"
    assert row["text"] == expected


CONFIG, DROP_IN = "/etc/containerd/config.toml", "/etc/containerd/conf.d/50-nvidia.toml"
UNMANAGED_KERNEL = {"running": "6.1", "newest": "6.2", "newest_has_driver": False, "newest_has_headers": True}
# Everything that can differ does.
ALL_DIFFER = {
    **SEEN,
    "packages": {
        "kubelet": {"version": "1.36.4-1.1", "held": False},
        "containerd.io": {"version": "2.3.5-1", "held": True},
        "nvidia-container-toolkit": {"version": "1.20.0-1", "held": True},
    },
    "driver": {
        "loaded": "570.1",
        "library": "570.1",
        "packages": {"nvidia-open": {"version": "570.1-1", "held": True}},
    },
    "files": [CONFIG, DROP_IN],
    "swap": [{"name": "/swapfile", "origin": AGENT}],
    "kernel": UNMANAGED_KERNEL,
}
DRIVER = {"NVIDIA driver", "NVIDIA driver's library", "nvidia-open"}


@pytest.mark.parametrize(
    ("purpose", "pending", "deferred"),
    [
        ("disruption", "containerd: repository, packages, service (restart)", {"containerd.io"}),
        ("disruption", "containerd: configuration (restart)", {CONFIG}),
        ("disruption", "nvidia_container_toolkit: packages, configuration", {"nvidia-container-toolkit", DROP_IN}),
        ("disruption", "nvidia_driver: kernel module; kubeadm: packages, kubelet", {*DRIVER, "kubelet"}),
        ("driver-upgrade", "the NVIDIA driver to 580.178.04", DRIVER),
        ("driver-upgrade", "the NVIDIA driver to 595.91.07", set()),
        ("kubernetes-upgrade", "the kubelet to 1.36.4", {"kubelet"}),
        ("kubernetes-upgrade", "the kubelet to 1.35.8", set()),
        # Nothing is left but a restart.
        ("disruption", "a restart of containerd", set()),
        ("disruption", "host: swap", set()),
        ("disruption", "containerd: everything, since the host could not be read", set()),
    ],
)
def test_only_what_a_deferred_change_corrects_is_deferred(purpose: str, pending: str, deferred: set[str]) -> None:
    entry = {"since": "2026-11-27T10:00:00Z", "change": "a change", "users": ["team/train"], "pending": pending}
    wanted = {**WANTED, "packages": {**WANTED["packages"], "containerd.io": "2.3.6"}}
    seen = {**ALL_DIFFER, "deferred": json.dumps({purpose: entry})}
    rows = drift({"gpu1": {"seen": seen, "wanted": wanted}})
    assert {row["component"] for row in rows} == {
        *("kubelet", "containerd.io", "nvidia-container-toolkit", CONFIG, DROP_IN, "swap", "kernel of the next boot"),
        *DRIVER,
    }
    assert {row["component"] for row in rows if row["deferred"]} == deferred
    since = "a change has been deferred since 2026-11-27T10:00:00Z"
    assert all((since in row["text"]) == row["deferred"] == (row["advice"] not in row["text"]) for row in rows)


@pytest.mark.parametrize("record", ["", "{", None])
def test_no_deferral_excuses_a_difference_without_a_record_that_can_be_read(record: str | None) -> None:
    rows = drift({"gpu1": {"seen": {**ALL_DIFFER, "deferred": record}, "wanted": WANTED}})
    assert rows and not any(row["deferred"] for row in rows)


def test_driver_without_held_packages_is_drift() -> None:
    loose = changed(
        "driver", {**SEEN["driver"], "packages": {"nvidia-open": {"version": "580.178.04-1", "held": False}}}
    )
    (row,) = drift({"gpu1": {"seen": loose, "wanted": WANTED}})
    assert row["found"] == "none of its packages on hold"


def test_supported_newer_kernel_and_unmanaged_driver_are_not_drift() -> None:
    seen = changed("kernel", {"running": "6.1", "newest": "6.2", "newest_has_driver": True})
    assert drift({"gpu1": {"seen": seen, "wanted": WANTED}}) == []
    other = changed("driver/loaded", "550.1")
    assert drift({"gpu1": {"seen": other, "wanted": {**WANTED, "source": "preinstalled"}}}) == []


def test_automatic_version_must_be_the_same_in_a_pool() -> None:
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
        (component, "a version in the table") for component in ("NVIDIA driver", "NVIDIA driver's library")
    }
    assert [row["component"] for row in drift({"gpu1": {"seen": {"failure": "gone"}, "wanted": auto}})] == ["host"]


def test_host_without_gpus_needs_no_toolkit_or_driver() -> None:
    bare = {**SEEN, "pci": [], "driver": {"loaded": "", "library": "", "packages": {}}}
    assert drift({"cp1": {"seen": changed_packages(bare, {}), "wanted": WANTED}}) == []


@pytest.mark.parametrize(
    ("existing", "version", "differs"),
    [
        ("keep", "1.21.0-1", False),
        ("keep", "1.16.2-1", True),
        ("refuse", "1.21.0-1", True),
        ("replace", "1.21.0-1", True),
    ],
)
def test_version_that_is_kept_is_not_drift(existing: str, version: str, differs: bool) -> None:
    seen = changed_packages(SEEN, {"nvidia-container-toolkit": {"version": version, "held": True}})
    rows = drift({"gpu1": {"seen": seen, "wanted": {**WANTED, "existing": existing}}})
    assert [row["component"] for row in rows] == ["nvidia-container-toolkit"] * differs


def changed_packages(seen: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {**seen, "packages": {"kubelet": SEEN["packages"]["kubelet"], **more}}
