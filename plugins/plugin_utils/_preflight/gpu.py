# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules about GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from ...module_utils._problem import Problem
from .._cuda import compatibility
from .._cuda import data as families
from .._cuda.data import OPEN_REQUIRED, OPEN_UNSUPPORTED
from .._cuda.families import by_device_id
from .._driver.packages import PROPRIETARY, flavors
from .._driver.plan import INSTALLED
from .driver import components, does_not_build, driver, known_version, secure_boot, wanted_version
from .model import Cluster, ClusterRule, HostRule, Reading, listing

# SXM modules of HGX systems; GB200 and GB300 are arm64.
_NVLINK_5 = {"0x2901": "B200", "0x3182": "B300"}
_WITHOUT_MIG = (
    families.FERMI,
    families.KEPLER_GK10X,
    families.KEPLER,
    families.MAXWELL,
    families.PASCAL,
    families.VOLTA,
    families.TURING,
    families.AMPERE_GA10X,
    families.ADA,
)


def count(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    expected, found = reading.settings["expected_gpus"], reading.facts["gpus"]
    if expected is not None and int(expected) != len(found):
        yield reading.problem(
            "gpu_count_differs",
            f"{expected} GPUs are expected, but the PCI bus has {len(found)}",
            "cluster_expected_gpus",
            "A GPU may have fallen off the bus, or may not be seated properly",
            "Check lspci -d 10de: and the kernel log (dmesg); correct cluster_expected_gpus if it is wrong",
        )
    passed = [gpu["address"] for gpu in found if gpu["driver"] == "vfio-pci"]
    if passed:
        yield reading.problem(
            "gpus_passed_through",
            f"GPUs are reserved for virtual machines: {listing(passed)}",
            "driver vfio-pci",
            "NVIDIA's driver can't use them",
            "Release them from vfio-pci (kernel command line, /etc/modprobe.d), or exclude the host",
        )


def nvlink(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """HGX B200 and B300: their NVSwitches are not on PCI, and need more than a fabric manager."""
    bridges = reading.facts["nvlink_bridges"]
    gpus = sorted({_NVLINK_5[device] for device in _device_ids(reading) if device in _NVLINK_5})
    if (bridges or gpus) and reading.settings["nvidia_driver_source"] in INSTALLED:
        seen = f"bridges {listing(bridges)}" if bridges else f"{listing(gpus)} GPUs"
        yield reading.problem(
            "nvlink5_unsupported",
            f"This is a system with NVLink 5 ({seen}), which this collection does not set up yet",
            "nvidia_driver_source",
            "Its NVSwitches are managed through ConnectX-7 bridges: CUDA starts only with NVIDIA's subnet manager "
            "(nvlsm), the module ib_umad and a fabric manager",
            "Install the driver, nvlsm and the fabric manager as described in NVIDIA's guide and set "
            "nvidia_driver_source=preinstalled, or let the GPU Operator install them (nvidia_driver_source=operator)",
        )


def family(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    if reading.settings["nvidia_driver_source"] not in INSTALLED:
        return
    modules, version = reading.settings["nvidia_driver_modules"], _driver_to_be(reading)
    for device in _device_ids(reading):
        found = by_device_id(device)
        if found is None:
            if modules == "auto":
                yield reading.problem(
                    "gpu_unknown",
                    f"The GPU with the PCI ID 10de:{device.removeprefix('0x')} is not known to this collection",
                    "nvidia_driver_modules",
                    "It needs either the open or the proprietary kernel modules",
                    "Set nvidia_driver_modules to open (Turing and newer) or proprietary for this host",
                )
            continue
        label = f"{found.name} GPUs (PCI ID 10de:{device.removeprefix('0x')})"
        wrong = {OPEN_UNSUPPORTED: "open", OPEN_REQUIRED: "proprietary"}.get(found.open_modules)
        right = {"open": "proprietary", "proprietary": "open"}.get(str(wrong), "")
        if modules == wrong:
            yield reading.problem(
                "kernel_modules_do_not_fit",
                f"{label} do not work with the {wrong} kernel modules",
                "nvidia_driver_modules",
                f"They need the {right} kernel modules",
                f"Set nvidia_driver_modules to {right} or auto",
            )
        why = compatibility.branch_problem(found, version.branch) if version else None
        if version and not why and PROPRIETARY in (modules, right) and PROPRIETARY not in flavors(str(version.branch)):
            why = f"NVIDIA provides no proprietary kernel modules of branch {version.branch}"
        if version and why:
            yield reading.problem(
                "driver_does_not_fit_gpu",
                f"{label} do not work with the driver {version.text}",
                "nvidia_driver_version",
                why[0].upper() + why[1:],
                "Set nvidia_driver_version for this host to a version of a branch that supports them",
            )


def _device_ids(reading: Reading) -> list[str]:
    return sorted({gpu["device_id"] for gpu in reading.facts["gpus"]})


def check_image(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Acceptance would find out in the end, after everything has been changed."""
    image = cluster.settings["acceptance_image"]
    cuda, version = compatibility.cuda_of_image(image), _driver_to_be(reading)
    if cuda is None or version is None:
        return
    found = {}
    for device in _device_ids(reading):
        family = by_device_id(device)
        # A driver that doesn't drive the GPU is a problem of its own.
        if family is None or compatibility.branch_problem(family, version.branch) is None:
            verdict = compatibility.judge(cuda, version.text, device if family else None)
            # NVIDIA's images bring the package for forward compatibility along.
            if verdict.kind == compatibility.UNSUPPORTED:
                found[verdict.reason] = verdict
    for verdict in found.values():
        yield reading.problem(
            "check_image_does_not_fit",
            f"The image of the verification has CUDA {cuda}, which the driver {version.text} can't run on this host",
            f"acceptance_image ({image})",
            verdict.reason,
            f"Set acceptance_image to an image with a CUDA version that the driver can run. Or: {verdict.advice}",
        )


def _driver_to_be(reading: Reading) -> compatibility.Driver | None:
    """The driver that the host will have, None when that isn't known, or is no version (another rule tells)."""
    preinstalled = reading.settings["nvidia_driver_source"] == "preinstalled"
    loaded, wanted = reading.facts["nvidia_driver"]["loaded_version"], wanted_version(reading)
    try:
        return compatibility.read_driver(str(loaded if preinstalled else wanted))
    except compatibility.CudaError:
        return None


def sharing(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """What the PCI bus alone tells about a layout. The profiles are the driver's to know."""
    declared = reading.settings["gpu_sharing"]
    gpus = reading.facts["gpus"]
    if declared.get("mode") != "mig" or not gpus:
        return
    found = {by_device_id(device) for device in _device_ids(reading)}
    unable = sorted({family.name for family in found if family in _WITHOUT_MIG})
    if unable:
        yield reading.problem(
            "mig_unsupported",
            f"MIG is configured for this host, but {listing(unable)} GPUs can't be partitioned",
            "nvidia_device_plugin_sharing",
            "MIG needs a data center GPU with the Ampere architecture or newer",
            "Choose time_slicing, mps or exclusive for this host",
        )
    if reading.settings["nvidia_driver_source"] == "operator":
        yield reading.problem(
            "mig_with_driver_of_operator",
            "MIG is configured for this host, but the GPU Operator installs the driver (nvidia_driver_source)",
            "nvidia_device_plugin_sharing",
            "The host partitions its own GPUs, but then has no nvidia-smi",
            "Install the driver on the host (nvidia_driver_source), or choose time_slicing, mps or exclusive",
        )
    layout = declared.get("layout")
    absent = sorted(str(key) for key in layout if int(key) >= len(gpus)) if isinstance(layout, dict) else []
    if absent:
        yield reading.problem(
            "mig_layout_unknown_gpu",
            f"The layout contains GPU {listing(absent)}, but the host has {len(gpus)} (0 to {len(gpus) - 1})",
            "nvidia_device_plugin_sharing",
            "Its keys are GPU indexes",
            "Correct the layout",
        )


def driver_roots(cluster: Cluster) -> Iterator[Problem]:
    found: dict[str, list[str]] = {}
    readings = [reading for reading in cluster.read if not reading.left_out and reading.facts["gpus"]]
    # Beside drivers below / the operator knows itself where it puts one.
    readings.sort(key=lambda reading: reading.settings["nvidia_driver_source"] == "operator")
    for reading in readings:
        if reading.settings["nvidia_driver_source"] != "operator" or set(found) - {"/"}:
            found.setdefault(reading.settings["nvidia_driver_root"], []).append(reading.host)
    if found and cluster.settings["gpu_manager"] == "device_plugin":
        found.setdefault(cluster.settings["device_plugin_root"], ["other hosts of the inventory"])
    if len(found) > 1:
        words = "; ".join(f"{root} on {listing(hosts)}" for root, hosts in sorted(found.items()))
        yield Problem(
            "driver_roots_differ",
            f"The drivers are in different directories: {words}",
            "nvidia_driver_source, nvidia_driver_root",
            "One program offers the GPUs of all nodes, and looks for the driver in one directory",
            "Give all GPU hosts of the cluster nvidia_driver_source=daemonset or none, and the same nvidia_driver_root",
        )


RULES: tuple[HostRule, ...] = (
    count,
    known_version,
    family,
    nvlink,
    check_image,
    driver,
    sharing,
    secure_boot,
    components,
    does_not_build,
)
CLUSTER_RULES: tuple[ClusterRule, ...] = (driver_roots,)
