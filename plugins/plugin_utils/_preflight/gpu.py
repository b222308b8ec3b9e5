# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rules for GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from ...module_utils._nvidia.pci import PASSED_THROUGH, address_of, selects
from ...module_utils._problem import Problem, Remedy
from ...module_utils._words import listing
from .._cuda import compatibility
from .._cuda import data as families
from .._cuda.families import by_device_id
from .._driver import fit
from .._driver.plan import INSTALLED
from .._driver.version import other_distributions
from .driver import (
    components,
    does_not_build,
    driver,
    driver_to_be,
    kept_modules,
    kernel_headers,
    known_version,
    modules_to_be,
    secure_boot,
)
from .model import Cluster, ClusterRule, Facts, HostRule, Reading
from .remedies import IGNORED, IMAGE, INSTEAD, describe_remedies, remedies

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
    left_out = reading.facts["gpus_left_out"]
    passed = [gpu["address"] for gpu in left_out if gpu["driver"] == PASSED_THROUGH and not _ignored(reading, gpu)]
    # If the expected number counts only the other GPUs, the pass-through is intended.
    if passed and (expected is None or int(expected) == len(found) + len(passed)):
        ignored = [*(reading.settings.get("ignored_gpus") or ()), *passed]
        yield replace(
            reading.problem(
                "gpus_passed_through",
                f"GPUs are reserved for virtual machines: {listing(passed)}",
                "driver vfio-pci",
                "NVIDIA's driver can't use them",
                f"Leave them out of Kubernetes ({IGNORED}=[{listing(ignored)}], or cluster_expected_gpus={len(found)} "
                "for the others), or release them from vfio-pci (kernel command line, /etc/modprobe.d)",
            ),
            remedies=(Remedy(((IGNORED, ignored),)),),
        )
    elif expected is not None and int(expected) != len(found):
        addresses = listing(gpu["address"] for gpu in left_out)
        more = f", and {len(left_out)} that are left out ({addresses})" if left_out else ""
        yield replace(
            reading.problem(
                "gpu_count_differs",
                f"{expected} GPUs are expected, but the PCI bus has {len(found)}{more}",
                "cluster_expected_gpus",
                "A GPU may have fallen off the bus, or may not be seated properly",
                "Check lspci -d 10de: and the kernel log (dmesg); correct cluster_expected_gpus if it is wrong",
            ),
            remedies=(Remedy((("cluster_expected_gpus", len(found)),)),),
        )


def ignored(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check GPUs to be left out that the host does not have or that can't be left out."""
    entries = [str(entry) for entry in reading.settings.get("ignored_gpus") or ()]
    every = [*reading.facts["gpus"], *reading.facts["gpus_left_out"]]
    named = any(gpu.get("name") for gpu in every)
    for entry in entries:
        model = address_of(entry) == "" and (named or entry.lower().startswith(("10de:", "0x")))
        # An entry for all hosts may name a model that this host does not have.
        if every and not model and not any(selects(entry, gpu) for gpu in every):
            others = [each for each in entries if each != entry]
            yield replace(
                reading.problem(
                    "ignored_gpu_unknown",
                    f"{IGNORED} contains {entry}, which is none of the GPUs of this host",
                    IGNORED,
                    "A GPU that is to be left out would be given to pods",
                    "Use a PCI address or a PCI ID of this host (lspci -nn -d 10de:): "
                    + listing(f"{gpu['address']} (10de:{str(gpu['device_id']).removeprefix('0x')})" for gpu in every),
                ),
                remedies=(Remedy(((IGNORED, others),)),),
            )
    version, modules = driver_to_be(reading), modules_to_be(reading)
    for gpu in reading.facts["gpus_left_out"]:
        if gpu["driver"] == PASSED_THROUGH or not version or not reading.facts["gpus"]:
            continue
        if any(fit.serves((gpu["device_id"],), version.branch, kind) for kind in fit.KINDS if modules in ("", kind)):
            yield replace(
                reading.problem(
                    "ignored_gpu_is_driven",
                    f"The GPU {gpu['address']} is left out ({IGNORED}), but the driver {version.text} will drive it",
                    IGNORED,
                    "The device plugin offers every GPU that the driver drives",
                    f"Reserve it for another driver: driverctl set-override {gpu['address']} {PASSED_THROUGH} (package "
                    f"driverctl), then run again; or remove it from {IGNORED}",
                ),
                remedies=(Remedy((), (("vfio", str(gpu["address"])),)),),
            )


def _ignored(reading: Reading, gpu: Facts) -> bool:
    return any(selects(str(entry), gpu) for entry in reading.settings.get("ignored_gpus") or ())


def nvlink(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check HGX B200 and B300: their NVSwitches are not on PCI, and need more than a fabric manager."""
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
    """Check that one driver supports all GPUs of the host, and that the present or planned driver does."""
    devices = _device_ids(reading)
    apart = fit.conflict(devices)
    if apart:
        several = len(fit.families(devices)) > 1
        yield reading.problem(
            "gpus_need_different_drivers" if several else "gpu_unsupported",
            "No driver serves all GPUs of this host"
            if several
            else f"No driver serves the {listing(_names(devices))} GPUs",
            "hardware",
            apart,
            "Put the GPUs into different hosts" if several else "Use a different GPU",
        )
        return
    setting, source = str(reading.settings["nvidia_driver_modules"]), reading.settings["nvidia_driver_source"]
    version, modules = driver_to_be(reading), modules_to_be(reading)
    for device in devices:
        found, label = by_device_id(device), f"10de:{device.removeprefix('0x')}"
        if found is None:
            if setting == fit.AUTO and source in INSTALLED:
                yield replace(
                    reading.problem(
                        "gpu_unknown",
                        f"The GPU with the PCI ID {label} is not known to this collection",
                        "nvidia_driver_modules",
                        "It needs either the open or the proprietary kernel modules",
                        "Set nvidia_driver_modules to open (Turing and newer) or proprietary for this host",
                    ),
                    remedies=tuple(Remedy((("nvidia_driver_modules", kind),)) for kind in fit.KINDS),
                )
            continue
        able = [each.modules for each in fit.driver_ranges((device,))]
        if modules and modules not in able:
            loaded = source == "preinstalled"
            reason = fit.modules_problem(found, found.last_branch or 580, modules)
            yield reading.problem(
                "loaded_modules_do_not_fit" if loaded else "kernel_modules_do_not_fit",
                f"{found.name} GPUs (PCI ID {label}) do not work with the {modules} kernel modules"
                + (f" of the loaded driver {version.text}" if loaded and version else ""),
                "/proc/driver/nvidia/version" if loaded else "nvidia_driver_modules",
                f"They need the {able[0]} kernel modules: {reason}",
                INSTEAD,
            )
        why = fit.refusal(found, version.branch, modules if modules in able else "") if version else ""
        if version and why:
            yield reading.problem(
                "driver_does_not_fit_gpu",
                f"{found.name} GPUs (PCI ID {label}) do not work with the driver {version.text}",
                "nvidia_driver_version",
                why[0].upper() + why[1:],
                INSTEAD,
            )


def _names(devices: tuple[str, ...]) -> list[str]:
    return [found.name for found in fit.families(devices)]


def _device_ids(reading: Reading) -> tuple[str, ...]:
    return fit.devices_of(reading.facts)


def decide(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Yield the problems of a host's driver, each with the changes that solve it."""
    own = "secure_boot", "kernel_headers_missing", "apt_components_missing", "nvlink5_unsupported", "gpu_unknown"
    other = other_distributions(
        _device_ids(reading), str(reading.facts["os"]["key"]), cluster.settings["nvidia_driver_versions"]
    )
    for problem in _find(reading, cluster):
        found = problem.remedies or remedies(reading, cluster, problem, _find)
        keep = any(
            dict(remedy.settings) == {"nvidia_driver_source": "preinstalled"} for remedy in found if not remedy.host
        )
        advice = "" if problem.kind in own or problem.remedies else describe_remedies(found, other)
        if problem.do == INSTEAD and advice:
            do = advice
        else:
            do = "; or ".join(filter(None, [problem.do, advice[:1].lower() + advice[1:]]))
        answers = problem.answers if keep else ()
        yield replace(problem, remedies=found, do=do, answers=answers)


def _find(reading: Reading, cluster: Cluster) -> list[Problem]:
    # If no driver supports the GPUs, there is no driver to check.
    rules = _DRIVER_RULES if not fit.conflict(_device_ids(reading)) else (family, ignored)
    return list(chain.from_iterable(rule(reading, cluster) for rule in rules))


_DRIVER_RULES: tuple[HostRule, ...] = (
    known_version,
    family,
    ignored,
    nvlink,
    driver,
    kept_modules,
    secure_boot,
    components,
    does_not_build,
    kernel_headers,
)
# The newest image of the sample for older GPUs, newest first; NVIDIA has no others that these can run.
_SAMPLES = tuple(
    f"nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda{tag}" for tag in ("12.5.0", "11.7.1-ubuntu20.04", "10.2")
)


def check_image(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check acceptance's image now, because acceptance would only fail after all changes."""
    image = cluster.settings["acceptance_image"]
    cuda, version = compatibility.cuda_of_image(image), driver_to_be(reading)
    if cuda is None or version is None or fit.conflict(_device_ids(reading)):
        return
    found = {}
    for device in _device_ids(reading):
        known = by_device_id(device)
        # A driver that does not support the GPU is a separate problem.
        if known is None or compatibility.branch_problem(known, version.branch) is None:
            verdict = compatibility.judge(cuda, version.text, device if known else None)
            # NVIDIA's images include the package for forward compatibility.
            if verdict.kind == compatibility.UNSUPPORTED:
                found[verdict.reason] = verdict
    for verdict in found.values():
        yield replace(
            reading.problem(
                "check_image_does_not_fit",
                f"The image of the verification has CUDA {cuda}, which the driver {version.text} can't run on this "
                "host",
                f"acceptance_image ({image})",
                verdict.reason,
                f"Set acceptance_image to an image with a CUDA version that the driver can run. Or: {verdict.advice}",
            ),
            remedies=tuple(
                Remedy(((IMAGE, sample),))
                for sample in _SAMPLES
                if all(
                    compatibility.judge(str(compatibility.cuda_of_image(sample)), version.text, device).kind
                    != compatibility.UNSUPPORTED
                    for device in _device_ids(reading)
                )
            )[:1],
        )


def sharing(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    """Check a layout as far as the PCI bus shows it. Only the driver knows the profiles."""
    declared = reading.settings["gpu_sharing"]
    gpus = reading.facts["gpus"]
    if declared.get("mode") != "mig" or not gpus:
        return
    found = {by_device_id(device) for device in _device_ids(reading)}
    unable = sorted({each.name for each in found if each in _WITHOUT_MIG})
    if unable:
        yield reading.problem(
            "mig_unsupported",
            f"MIG is configured for this host, but {listing(unable)} GPUs can't be partitioned",
            "cluster_gpu_sharing",
            "MIG needs a data center GPU with the Ampere architecture or newer",
            "Choose time_slicing, mps or exclusive for this host",
        )
    if reading.settings["nvidia_driver_source"] == "operator":
        yield reading.problem(
            "mig_with_driver_of_operator",
            "MIG is configured for this host, but the GPU Operator installs the driver (nvidia_driver_source)",
            "cluster_gpu_sharing",
            "The host partitions its own GPUs, but then has no nvidia-smi",
            "Install the driver on the host (nvidia_driver_source), or choose time_slicing, mps or exclusive",
        )
    layout = declared.get("layout")
    absent = sorted(str(key) for key in layout if int(key) >= len(gpus)) if isinstance(layout, dict) else []
    if absent:
        yield reading.problem(
            "mig_layout_unknown_gpu",
            f"The layout contains GPU {listing(absent)}, but the host has {len(gpus)} (0 to {len(gpus) - 1})",
            "cluster_gpu_sharing",
            "Its keys are GPU indexes",
            "Correct the layout",
        )


def driver_roots(cluster: Cluster) -> Iterator[Problem]:
    found: dict[str, list[str]] = {}
    readings = [reading for reading in cluster.read if not reading.left_out and reading.facts["gpus"]]
    # If all other drivers are in /, the operator finds its own driver by itself.
    readings.sort(key=lambda reading: reading.settings["nvidia_driver_source"] == "operator")
    for reading in readings:
        if reading.settings["nvidia_driver_source"] != "operator" or set(found) - {"/"}:
            found.setdefault(reading.settings["nvidia_driver_root"], []).append(reading.host)
    if found and cluster.settings["gpu_manager"] == "device_plugin":
        found.setdefault(cluster.settings["device_plugin_root"], ["other hosts of the inventory"])
    if len(found) > 1:
        shown = "; ".join(f"{root} on {listing(hosts)}" for root, hosts in sorted(found.items()))
        yield Problem(
            "driver_roots_differ",
            f"The drivers are in different directories: {shown}",
            "nvidia_driver_source, nvidia_driver_root",
            "One program offers the GPUs of all nodes, and looks for the driver in one directory",
            "Give all GPU hosts of the cluster nvidia_driver_source=daemonset or none, and the same nvidia_driver_root",
        )


RULES: tuple[HostRule, ...] = (count, decide, check_image, sharing)
CLUSTER_RULES: tuple[ClusterRule, ...] = (driver_roots,)
