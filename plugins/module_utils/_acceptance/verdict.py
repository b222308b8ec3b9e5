# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the pods' reports with the hosts' GPUs. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._cluster import objects
from .._cluster.isolation import isolation
from .._nvidia_smi.faults import COMMANDS
from .._problem import Problem, mark_commands
from .._words import counted
from .problems import IMAGE, POD_FAILED, SITE, UNOFFERED, find_remedy, problem
from .run import PodProof
from .target import SILENT, PluginLog, Target, label_problem, lost_gpus

Report = Mapping[str, Any]

# Printed by a check that does not really compute; the report repeats it.
SIMULATED = "[simulated]"
_NO_LOG = PluginLog()


def host_entry(
    target: Target,
    proofs: Sequence[PodProof],
    image: str,
    plugin_log: PluginLog = _NO_LOG,
    earlier: Report | None = None,
) -> dict[str, Any]:
    """Return a host's section of the report, from the results of its pods.

    ``plugin_log`` may show why GPUs are not offered, the ``earlier`` entry which GPU nvidia-smi no longer lists.
    """
    reported: dict[str, list[PodProof]] = {}
    problems = _host_problems(target, plugin_log)
    for proof in proofs:
        if proof.kind == "gpu":
            problems += _pod_problems(target, proof, reported)
    devices = [*_devices(target, reported, proofs), *_gone(target, earlier)]
    problems += [
        problem(
            each["kind"],
            target.name,
            each["reason"],
            each["uuid"],
            do={UNOFFERED: plugin_log.do, POD_FAILED: find_remedy(each["reason"])}.get(each["kind"], ""),
        )
        for each in devices
        if each["state"] == "missing"
    ]
    # If several pods share a GPU, a failed pod does not make the GPU itself unverified.
    if (not target.host.gpus and target.host.wanted) or target.host.shared:
        failed = [proof for proof in proofs if proof.trouble]
        problems += [
            problem(
                _kind_of([proof.trouble]),
                target.name,
                f"pod {proof.name}: {proof.trouble}",
                do=find_remedy(proof.trouble),
            )
            for proof in failed
        ]
    # If the driver is unhealthy, wrong labels are not reported.
    label = label_problem(target) if target.node is not None and target.host.state == "ok" else ""
    if label:
        problems.append(problem("labels_differ", target.name, label))
    found = {
        "devices": devices,
        "pods": sum(len(pods) for pods in reported.values()),
        "isolation": _isolation(target, proofs, problems),
        "fingerprint": target.fingerprint(image),
        "problems": [each.entry() for each in problems],
    }
    return {**_entry(target, found, earlier), "kept": False}


def kept_entry(target: Target, earlier: Report) -> dict[str, Any]:
    """Return a host's section of the report, from an earlier verification that is still valid."""
    return {**_entry(target, earlier, earlier), "kept": True, "proven_at": earlier["proven_at"]}


def _entry(target: Target, found: Report, earlier: Report | None) -> dict[str, Any]:
    """Return the current state of the host and its node, with the results ``found`` by a verification."""
    states = [device["state"] for device in found["devices"]]
    return {
        "os": target.info.get("osImage", ""),
        "kernel": target.info.get("kernelVersion", ""),
        "driver": target.host.driver,
        "toolkit": target.host.toolkit,
        "containerd": target.info.get("containerRuntimeVersion", "").replace("containerd://", ""),
        "kubelet": target.info.get("kubeletVersion", ""),
        "containerd_config": dict(target.host.containerd),
        "gpus": {
            "expected": target.host.provable or len(found["devices"]),
            "nvidia_smi": len(target.host.models),
            "pci": target.host.pci,
            "capacity": target.capacity,
            "allocatable": target.allocatable,
            "proven": states.count("proven"),
            "in_use": states.count("in_use"),
            "pods": found["pods"],
        },
        "sharing": dict(target.host.sharing),
        "devices": list(found["devices"]),
        "labels": target.labels,
        "isolation": found["isolation"],
        "isolated": isolation(target.node) if target.node else {},
        "fingerprint": found["fingerprint"],
        "problems": list(found["problems"]),
        "warnings": [each.entry() for each in _fewer(target, found["devices"], earlier)],
    }


def _fewer(target: Target, devices: Sequence[Mapping[str, Any]], earlier: Report | None) -> list[Problem]:
    """Return a warning for each GPU of an earlier verification that is missing, unless it is among the devices."""
    fewer, lost = lost_gpus(target.host, earlier)
    told = {device["uuid"] for device in devices}
    cause = f"{counted(fewer, 'GPU')} fewer than at the last verification"
    if len(lost) > fewer:
        cause += f", {counted(len(lost) - fewer, 'GPU')} replaced"
    return [
        problem("gpu_fewer", target.name, cause, uuid, where="cluster_expected_gpus")
        for uuid in lost
        if uuid not in told
    ]


def unproven_entry(
    target: Target, image: str, plugin_log: PluginLog = _NO_LOG, earlier: Report | None = None
) -> dict[str, Any]:
    """Return a host's section without running pods: its free GPUs are ``unproven``."""
    entry = host_entry(target, [], image, plugin_log, earlier)
    listed = {gpu.uuid for gpu in target.host.gpus}
    open_ones = {each["uuid"] for each in entry["devices"] if each["state"] == "missing"} & listed
    reason = "the host has changed since its verification" if earlier else "it has not been verified yet"
    state = {"state": "unproven", "kind": "gpu_unproven", "reason": reason}
    return {
        **entry,
        "devices": [{**each, **state} if each["uuid"] in open_ones else each for each in entry["devices"]],
        "problems": [each for each in entry["problems"] if each["gpu"] not in open_ones],
        "proven_at": "",
    }


def _host_problems(target: Target, plugin_log: PluginLog) -> list[Problem]:
    host, name, found = target.host, target.name, []
    if target.node is None:
        cause = "the cluster has no node of this name: it has not joined, or was deleted"
        return [problem("node_missing", name, cause)]
    if not target.ready:
        found.append(problem("node_not_ready", name, objects.not_ready_reason(target.node)))
    if host.state == SILENT:
        found.append(problem("host_silent", name, host.complaint))
    elif host.wanted and host.state != "ok":
        do = host.advice and f"{mark_commands(host.advice, COMMANDS)} Then install and load the driver: {SITE}."
        found.append(problem("driver_not_ok", name, f"nvidia-smi: {host.complaint or host.state}", do=do))
    if host.expected is not None and host.expected != host.pci:
        cause = f"{host.pci} of {host.expected} expected GPUs are on the PCI bus"
        found.append(problem("gpu_count_differs", name, cause, where="cluster_expected_gpus"))
    if host.state == "ok" and len(host.models) != host.pci:
        cause = f"nvidia-smi sees {len(host.models)} of {host.pci} GPUs on the PCI bus"
        found.append(problem("gpu_not_visible", name, cause))
    if host.sharing.get("complaint"):
        cause = host.sharing["complaint"]
        found.append(problem("sharing_differs", name, cause, where="cluster_gpu_sharing"))
    for resource, amount in target.differing.items() if host.state != SILENT else ():
        wanted, capacity = host.amounts.get(resource, 0), target.amount_of(resource, "capacity")
        cause = f"{amount} of {wanted} GPUs are allocatable (capacity {capacity})"
        if resource != objects.GPU:
            cause = f"{amount} of {wanted} {resource} are allocatable (capacity {capacity})"
        cause += f": device plugin: {plugin_log.words}" if plugin_log.words else ""
        found.append(problem(UNOFFERED, name, cause, where=resource, do=plugin_log.do))
    for conflict in host.containerd.get("conflicts", []):
        if conflict["level"] == "problem":
            cause = f"containerd's configuration: {conflict['text']}{_files(conflict)}"
            found.append(problem("containerd_conflict", name, cause, where=", ".join(conflict["files"])))
    return found


def _files(conflict: Mapping[str, Any]) -> str:
    """Return the files to check, unless the text names them."""
    unnamed = [path for path in conflict["files"] if path not in conflict["text"]]
    return f" (see {', '.join(unnamed)})" if unnamed else ""


def _pod_problems(target: Target, proof: PodProof, reported: dict[str, list[PodProof]]) -> list[Problem]:
    """Return the problems in a pod's report; GPUs that it may verify are added to ``reported``."""
    found = []
    own = {gpu.uuid: gpu for gpu in target.host.gpus}
    if not proof.trouble and len(proof.gpus) != 1:
        seen = ", ".join(gpu.uuid for gpu in proof.gpus) or "none"
        cause = f"pod {proof.name} requested 1 GPU but saw {len(proof.gpus)} ({seen})"
        found.append(problem("pod_gpu_count", target.name, cause))
    for gpu in proof.gpus:
        if gpu.uuid not in own:
            kind, cause = "gpu_foreign", f"pod {proof.name} reported a GPU that the host does not have"
        elif len(reported.get(gpu.uuid, [])) >= own[gpu.uuid].replicas:
            others = ", ".join(other.name for other in reported[gpu.uuid])
            kind, cause = "gpu_given_twice", f"pods {others} and {proof.name} were given the same GPU"
        elif own[gpu.uuid].resource != proof.resource:
            kind = "gpu_of_other_resource"
            cause = f"pod {proof.name} requested {proof.resource} but was given a {own[gpu.uuid].resource}"
        else:
            if len(proof.gpus) == 1:
                reported.setdefault(gpu.uuid, []).append(proof)
            continue
        found.append(problem(kind, target.name, cause, gpu.uuid))
    return found


def _devices(
    target: Target, reported: Mapping[str, Sequence[PodProof]], proofs: Sequence[PodProof]
) -> list[dict[str, Any]]:
    """Return the state of each GPU of the host, in nvidia-smi's order."""
    held = {uuid: pod for uuid, pod in target.host.held.items() if pod in target.holders and uuid not in reported}
    open_ones = [gpu for gpu in target.host.gpus if gpu.uuid not in reported and gpu.uuid not in held]
    # Without the kubelet's record only the number of GPUs in use is known; unverified GPUs are in use if it matches.
    unnamed = 0 if target.host.shared else sum(target.holders.values()) - len(held)
    pods = ", ".join(sorted(set(target.holders) - set(held.values())) or sorted(target.holders))
    found = []
    for gpu in target.host.gpus:
        device: dict[str, Any] = {"uuid": gpu.uuid, "name": gpu.name}
        if gpu.uuid in reported:
            pods_of_it = ", ".join(proof.name for proof in reported[gpu.uuid])
            device.update(state="proven", pod=pods_of_it, check_output=reported[gpu.uuid][0].output)
        elif gpu.uuid in held:
            device.update(state="in_use", pod=held[gpu.uuid])
        elif unnamed >= len(open_ones):
            device.update(state="in_use", pod=pods)
        else:
            kind, reason = _reason(target, proofs, unnamed, pods)
            device.update(state="missing", kind=kind, reason=reason)
        found.append(device)
    return found


def _gone(target: Target, earlier: Report | None) -> list[dict[str, Any]]:
    """Return the GPUs of an earlier report that nvidia-smi no longer lists, unless more than are missing."""
    listed = {gpu.uuid for gpu in target.host.gpus}
    known = [device for device in (earlier or {}).get("devices", []) if device["uuid"] not in listed]
    silent = target.host.state == SILENT
    if not silent and len(known) > target.host.provable - len(listed):
        return []
    why = {"kind": "gpu_not_listed", "reason": "nvidia-smi no longer lists it"}
    why = {"kind": "host_silent", "reason": target.host.complaint} if silent else why
    return [{"uuid": each["uuid"], "name": each["name"], "state": "missing", **why} for each in known]


def _reason(target: Target, proofs: Sequence[PodProof], unnamed: int, pods: str) -> tuple[str, str]:
    """Return kind and reason of an unverified GPU; all failed pods are named, because any of them may have got it."""
    troubles = list(dict.fromkeys(proof.trouble for proof in proofs if proof.kind == "gpu" and proof.trouble))
    kind = _kind_of(troubles) if troubles else "gpu_not_given"
    reason = "; ".join(troubles) or "no pod was given this GPU"
    if not troubles and target.allocatable < len(target.host.gpus):
        kind = UNOFFERED
        reason = f"the device plugin offers {target.allocatable} of {len(target.host.gpus)} GPUs"
    return kind, f"{reason} (or it is one of {unnamed} GPUs held by {pods})" if unnamed > 0 else reason


def _kind_of(troubles: Sequence[str]) -> str:
    return IMAGE if all(trouble.startswith(objects.PULL_REASONS) for trouble in troubles) else POD_FAILED


def _isolation(target: Target, proofs: Sequence[PodProof], problems: list[Problem]) -> dict[str, Any]:
    for proof in proofs:
        if proof.kind != "isolation":
            continue
        if proof.trouble:
            cause = f"isolation was not verified: pod {proof.name}: {proof.trouble}"
            problems.append(problem("isolation_not_proven", target.name, cause))
        elif proof.leaked and target.host.own_plugin:
            cause = f"a pod that requested no GPUs sees {', '.join(proof.leaked)} (NVIDIA_VISIBLE_DEVICES=all)"
            problems.append(problem("isolation_broken", target.name, cause))
        return {"ok": not proof.trouble and not proof.leaked, "saw": proof.leaked}
    return {}


def whole(
    hosts: Mapping[str, Mapping[str, Any]], network: Mapping[str, Any], cluster: Mapping[str, str], generated: str
) -> dict[str, Any]:
    """Return the report of one run from its sections."""
    devices = [device for entry in hosts.values() for device in entry["devices"]]
    outputs = [device["check_output"].splitlines() for device in devices if device.get("check_output")]
    problems = [each for entry in hosts.values() for each in entry["problems"]]
    problems += [{"gpu": "", **each} for each in network.get("problems", [])]
    warnings = [each for entry in hosts.values() for each in entry["warnings"]]
    return {
        "generated": generated,
        "cluster": dict(cluster),
        "hosts": {name: dict(entry) for name, entry in hosts.items()},
        "network": dict(network),
        "isolation": {name: entry["isolation"]["ok"] for name, entry in hosts.items() if entry["isolation"]},
        "totals": {
            "gpus": sum(entry["gpus"]["expected"] for entry in hosts.values()),
            "proven": sum(entry["gpus"]["proven"] for entry in hosts.values()),
            "in_use": sum(entry["gpus"]["in_use"] for entry in hosts.values()),
        },
        # Lines that all checks printed: their result, without lines about individual GPUs.
        "checks": [line for line in (outputs[0] if outputs else []) if all(line in other for other in outputs)],
        "simulated": any(SIMULATED in device.get("check_output", "") for device in devices),
        "kept": bool(hosts) and all(entry["kept"] for entry in hosts.values()) and network.get("kept", True),
        "problems": problems,
        "warnings": warnings,
    }
