# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as metrics in Prometheus' text format. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from ...module_utils._benchmark.log import read_figures
from .._nodes.kubernetes import minors_behind
from .benchmark import measured_rows
from .origin import severities
from .read import Report, dictionaries, dictionary, number, text, texts

Sample = tuple[str, dict[str, str], int]

# Metric -> figure of the benchmark.
_SPEEDS = {
    "gpulab_gpu_memory_bandwidth_bytes_per_second": "memory_bytes_per_s",
    "gpulab_gpu_bf16_flops_per_second": "bf16_flop_per_s",
    "gpulab_gpu_fp32_flops_per_second": "fp32_flop_per_s",
    "gpulab_gpu_host_to_device_bytes_per_second": "host_to_device_bytes_per_s",
}
_HELP = {
    "gpulab_gpus_expected": "GPUs that the hosts must have.",
    "gpulab_gpus_proven": "GPUs that the last verification has verified in a pod.",
    "gpulab_gpus_in_use": "GPUs that running pods used during the last verification.",
    "gpulab_nodes": "Nodes in the report.",
    "gpulab_node_reachable": "1 if the node was reached for the report, otherwise 0.",
    "gpulab_gpu_healthy": "1 if the driver reports no problem with the GPU, otherwise 0.",
    "gpulab_gpu_missing": "1 for a GPU that the node had at an earlier verification and has no longer.",
    "gpulab_gpu_memory_bandwidth_bytes_per_second": "Bytes per second that the GPU read and wrote in its memory.",
    "gpulab_gpu_bf16_flops_per_second": "Operations per second of bf16 matrix multiplication.",
    "gpulab_gpu_fp32_flops_per_second": "Operations per second of fp32 matrix multiplication, without TF32.",
    "gpulab_gpu_host_to_device_bytes_per_second": "Bytes per second from pinned host memory to the GPU.",
    "gpulab_gpu_benchmark_timestamp_seconds": "Time at which the GPU was measured last.",
    "gpulab_problems": "Problems in the report, by severity.",
    "gpulab_version_drift": "Components of the node that differ from their pinned state.",
    "gpulab_kubelet_minors_behind": "Minor releases that the kubelet of the node is behind the cluster.",
    "gpulab_node_deferred_timestamp_seconds": "Time since when a change of the node is deferred.",
    "gpulab_backup_timestamp_seconds": "Time of the newest backup of the cluster that was restored on trial.",
    "gpulab_backup_failed": "1 if the last backup on the control plane failed, otherwise 0.",
    "gpulab_certificate_expiration_timestamp_seconds": (
        "Time at which a certificate or the key of an apt source expires."
    ),
    "gpulab_report_timestamp_seconds": "Time at which the hosts and the API were read for the report.",
}


def metrics(report: Report) -> str:
    """Return the report as text. A missing value is left out, not reported as 0."""
    cluster = dictionary(report.get("cluster"))
    common = {"cluster": text(cluster.get("name")) or text(cluster.get("endpoint"))}
    # node_exporter refuses two samples with the same name and labels: keep the worse one.
    samples: dict[str, dict[str, int]] = {name: {} for name in _HELP}
    for name, labels, value in _samples(report):
        key = _labels({**common, **labels})
        samples[name][key] = min(value, samples[name].get(key, value))
    return "".join(
        f"# HELP {name} {_HELP[name]}\n# TYPE {name} gauge\n"
        + "".join(f"{name}{labels} {value}\n" for labels, value in found.items())
        for name, found in samples.items()
        if found
    )


def _samples(report: Report) -> Iterator[Sample]:
    totals = dictionary(report.get("totals"))
    for key, name in (("gpus", "expected"), ("proven", "proven"), ("in_use", "in_use")):
        count = number(totals.get(key))
        if count is not None:
            yield f"gpulab_gpus_{name}", {}, count
    yield "gpulab_nodes", {}, len(report["hosts"])
    for severity, count in severities(report).items():
        yield "gpulab_problems", {"severity": severity.removesuffix("s")}, count
    for each in dictionaries(report.get("warnings")):
        if each.get("kind") == "gpu_fewer":
            yield "gpulab_gpu_missing", {"node": text(each.get("host")), "uuid": text(each.get("gpu"))}, 1
    observed = _seconds(report.get("observed"))
    if observed is not None:
        yield "gpulab_report_timestamp_seconds", {}, observed
    for node, entry in report["hosts"].items():
        yield from _of_node(node, entry)
        behind = minors_behind(entry.get("kubelet"), dictionary(report.get("cluster")).get("kubernetes_version"))
        if behind is not None and entry.get("reachable") is not False:
            yield "gpulab_kubelet_minors_behind", {"node": node}, behind
    for row in measured_rows(report):
        yield from _of_benchmark(row)


def _of_node(node: str, entry: dict[str, Any]) -> Iterator[Sample]:
    reachable = entry.get("reachable") is not False
    yield "gpulab_node_reachable", {"node": node}, int(reachable)
    for each in dictionaries(entry.get("certificates")):
        expires = _seconds(each.get("expires"))
        if expires is not None:
            kind = "authority" if each.get("authority") is True else "certificate"
            labels = {"node": node, "name": text(each.get("name"))}
            labels["kind"] = "apt_key" if each.get("apt_key") is True else kind
            yield "gpulab_certificate_expiration_timestamp_seconds", labels, expires
    # Data from an earlier run of an unreachable host are not current.
    if not reachable:
        return
    for device in dictionaries(entry.get("devices")):
        if isinstance(device.get("healthy"), bool):
            labels = {"node": node, "gpu": text(device.get("index")), "uuid": text(device.get("uuid"))}
            yield "gpulab_gpu_healthy", {**labels, "model": text(device.get("name"))}, int(device["healthy"])
    for each in dictionaries(entry.get("deferred")):
        since = _seconds(each.get("since"))
        if since is not None:
            labels = {name: text(each.get(name)) for name in ("change", "pending")}
            users = ", ".join(texts(each.get("users")))
            yield "gpulab_node_deferred_timestamp_seconds", {"node": node, **labels, "users": users}, since
    backup = dictionary(entry.get("backup"))
    if backup:
        yield "gpulab_backup_failed", {"node": node}, int(bool(text(backup.get("error"))))
        taken = _seconds(backup.get("taken"))
        if taken is not None:
            yield "gpulab_backup_timestamp_seconds", {"node": node}, taken
    versions = dictionaries(entry.get("versions"))
    if versions:
        yield "gpulab_version_drift", {"node": node}, sum(row.get("drift") is True for row in versions)


def _of_benchmark(row: dict[str, Any]) -> Iterator[Sample]:
    """Yield the figures of a GPU; those of a CPU would be mistaken for a slow GPU."""
    moment = _seconds(row.get("measured"))
    if row.get("device") != "cuda" or moment is None:
        return
    labels = {"node": text(row.get("node")), "gpu": text(row.get("index")), "uuid": text(row.get("uuid"))}
    labels["model"] = text(row.get("name"))
    yield "gpulab_gpu_benchmark_timestamp_seconds", labels, moment
    figures = read_figures(row.get("figures"))
    for name, key in _SPEEDS.items():
        if key in figures:
            yield name, labels, int(figures[key])


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    valid = value.encode("utf-8", "replace").decode("utf-8")
    return valid.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _seconds(written: Any) -> int | None:
    """Return seconds since 1970 for a time such as 2026-11-21T04:00:00Z, None for anything else."""
    try:
        moment = datetime.fromisoformat(text(written).replace("Z", "+00:00"))
        return int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp())
    except (ValueError, OverflowError):
        return None
