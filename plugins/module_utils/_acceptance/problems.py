# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The problems that acceptance can find, with their remedies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .._nvidia_smi.faults import COMMANDS, DO_RESET
from .._problem import Problem, make_problem, mark_commands

UNOFFERED = "gpus_not_allocatable"
IMAGE = "image_not_pulled"
POD_FAILED = "pod_failed"
PROVE = "Then verify it: `ansible-playbook gpulab.kubernetes.verify -i INVENTORY`."
SITE = "`ansible-playbook gpulab.kubernetes.site -i INVENTORY`"
_FIX = f"Fix the reported problem. {PROVE}"
_GPU = "Check nvidia-smi and dmesg (Xid, fallen off the bus) on the host; reboot the host when its pods may be stopped."
_PLUGIN = "Check the device plugin's pod on this node (`kubectl logs`), and delete the pod to restart it."

# Kind -> remedy, with its commands in backticks; HOST stands for the name of the node.
REMEDIES = {
    "node_missing": f"Join it: {SITE}. If its name in the cluster differs, set cluster_node_name.",
    "node_not_ready": (
        f"On the host: `systemctl status kubelet containerd`, `journalctl -u kubelet -n 50`. Then run: {SITE}."
    ),
    "host_silent": (
        "Check that the host is up and reachable through SSH: `ansible HOST -m ping -i INVENTORY`. Then run again."
    ),
    "driver_not_ok": f"Follow what nvidia-smi reports. Then install and load the driver: {SITE}.",
    "gpu_count_differs": "Check lspci -d 10de: and dmesg on the host; correct cluster_expected_gpus if it is wrong.",
    "gpu_fewer": (
        "Check lspci -d 10de: and dmesg on the host. If a GPU was removed on purpose, set cluster_expected_gpus to the "
        f"number of GPUs that the host has now. {PROVE}"
    ),
    "gpu_not_visible": _GPU,
    "gpu_not_listed": _GPU,
    "gpu_not_given": f"Check the device plugin's pod on this node (`kubectl logs`), and which pods hold GPUs. {PROVE}",
    UNOFFERED: _PLUGIN,
    "sharing_differs": f"Fix the reported problem, or apply cluster_gpu_sharing: {SITE}.",
    "containerd_conflict": (
        f"Correct or remove the file that it names. If this collection wrote it, restore it: {SITE}. {PROVE}"
    ),
    POD_FAILED: _FIX,
    IMAGE: f"Check the image's name, and that this node reaches its registry. {PROVE}",
    "pod_gpu_count": _PLUGIN,
    "gpu_foreign": _PLUGIN,
    "gpu_given_twice": _PLUGIN,
    "gpu_of_other_resource": _PLUGIN,
    "labels_differ": (
        "GPU feature discovery updates labels once a minute; if the label stays wrong, check its pod on this node."
    ),
    "isolation_broken": f"Restore the container toolkit's configuration: {SITE}.",
    "isolation_not_proven": _FIX,
    "network_pod_failed": _FIX,
    "pod_network_broken": (
        "Check that the pod network's ports (flannel: UDP 8472) are open between these nodes, and check its pods. "
        f"{PROVE}"
    ),
    "service_not_reached": f"Check kube-proxy's pod on this node (`kubectl --namespace kube-system logs`). {PROVE}",
    "dns_not_reached": f"Check the pods of the cluster's DNS (`kubectl --namespace kube-system get pods`). {PROVE}",
}

# Messages of CUDA, NVML or the kernel in a pod or the device plugin -> remedy more specific than the kind's.
_WORDS = (
    (
        r"system not yet initialized|SystemNotReady|SYSTEM_NOT_READY|\berror(?: code)?[ =:(]{1,3}802\b",
        "The NVSwitches that connect the GPUs are not set up. On the host, nvidia-fabricmanager must run in the "
        f"version of the driver (`systemctl status nvidia-fabricmanager`); install both: {SITE}. A system with NVLink "
        f"5 also needs nvlsm. {PROVE}",
    ),
    (
        r"too many open files",
        f"The node's limit of inotify instances is used up: run {SITE}, which raises it to 8192, or set a larger "
        "fs.inotify.max_user_instances in host_sysctls; then delete the pod to restart it.",
    ),
    (
        r"driver version is insufficient|forward compatibility was attempted|\berror(?: code)?[ =:(]{1,3}(?:35|804)\b",
        "The driver is too old for the image's CUDA: choose an image with an older CUDA version, or a driver of a "
        f"newer branch (nvidia_driver_version). {PROVE}",
    ),
    (
        r"no kernel image is available",
        "The image's programs were not built for this GPU: choose an image whose CUDA version supports it. " + PROVE,
    ),
    (
        r"/dev/nvidia-uvm\b.*[Nn]o such file",
        "The module nvidia_uvm is not loaded: load it (modprobe nvidia_uvm), also at each boot, see "
        f"docs/troubleshooting.md. {PROVE}",
    ),
    (r"ERR_NVGPUCTRPERM", "Only administrators may read the GPU's performance counters: see docs/troubleshooting.md."),
    (r"uncorrectable (?:NVLink|ECC) error|ECC uncorrectable", f"{mark_commands(DO_RESET, COMMANDS)} {PROVE}"),
)

# Kinds of problems that are not evidence about GPUs and their driver.
_UNRELATED = {
    *("node_missing", "node_not_ready", "host_silent", "containerd_conflict", IMAGE, "isolation_not_proven"),
    *("network_pod_failed", "pod_network_broken", "service_not_reached", "dns_not_reached"),
}


def find_remedy(words: str) -> str:
    """Return the remedy for a message of a pod, empty if it is unknown."""
    return next((do for pattern, do in _WORDS if re.search(pattern, words, re.IGNORECASE)), "")


def inconclusive(entries: Iterable[Mapping[str, str]]) -> bool:
    """Return whether a report has problems, but none that shows a fault of a GPU or its driver."""
    kinds = {entry.get("kind", "") for entry in entries}
    return bool(kinds) and kinds <= _UNRELATED


def problem(kind: str, host: str, what: str, gpu: str = "", where: str = "", do: str = "") -> Problem:
    """Return a problem of a kind in REMEDIES. ``do`` replaces the kind's remedy with a more specific one."""
    return make_problem(kind, what, where, "", do or REMEDIES[kind].replace("HOST", host), host, gpu)
