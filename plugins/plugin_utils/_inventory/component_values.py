# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check values of variables about the software on hosts and in the cluster, storage and reports.

An argument specification can't express these forms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...module_utils._apt import credentials
from ...module_utils._apt.key import AptKeyError, read_pins
from ...module_utils._benchmark.pods import LONGEST_TIMEOUT, SHORTEST_TIMEOUT
from ...module_utils._cluster.quantities import quantity
from ...module_utils._nvidia import sharing
from .. import _images, _nfs
from .._backup import values as backup_values
from .._containerd import registries
from .._cuda.plan import MINOR_VERSION, RELEASE
from . import files
from .cluster_values import label

_QUOTE = "put it in quotes"
_DRIVER = re.compile(r"auto|[0-9]{3}(?:\.[0-9]+){1,2}", re.ASCII)
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?", re.ASCII)
_MOUNT_OPTION = re.compile(r"[a-z_]+[0-9.]*(?:=[A-Za-z0-9.:/_-]+)?", re.ASCII)
_MOST_VERIFIED = 4096
# Prometheus considers a sample stale after 5 minutes.
_LONGEST_INTERVAL = 300
_DIRECTORY = re.compile(r"/|(?:/[^/\s]+)+")
# Roles with a package repository.
REPOSITORIES = ("kubeadm", "containerd", "nvidia_container_toolkit", "nvidia_driver", "cuda_toolkit")


def _releases(value: Any) -> Iterator[str]:
    minors: dict[str, str] = {}
    for entry in value:
        wrong = _wrong_release(entry)
        if wrong:
            yield wrong
        elif minors.setdefault(minor(entry), entry) != entry:
            yield f"{minors[minor(entry)]} and {entry} can't be installed side by side: both are CUDA {minor(entry)}"


def _release(value: Any) -> Iterator[str]:
    wrong = _wrong_release(value) if value != "" else ""
    if wrong:
        yield wrong


def _wrong_release(entry: Any) -> str:
    if not isinstance(entry, str):
        return f"{entry!r} is not a string; write all three numbers, and {_QUOTE}, as in '12.9.1'"
    return "" if RELEASE.fullmatch(entry) else f"{entry!r:.60} is not a release; write all three numbers, as in 12.9.1"


def _minors(value: Any) -> Iterator[str]:
    for entry in value:
        if not isinstance(entry, str):
            yield (
                f"{entry!r} is not a string: a number loses trailing zeros, so that 12.10 becomes 12.1; {_QUOTE}, as "
                "in '12.9'"
            )
        elif not MINOR_VERSION.fullmatch(entry):
            yield f"{entry!r:.60} is not a minor version; write it as in 12.9"


def minor(release: str) -> str:
    return release.rpartition(".")[0]


def _driver(value: Any) -> Iterator[str]:
    if not _DRIVER.fullmatch(str(value)):
        yield f"it must be auto, or a version such as 595.91.07, not {str(value)!r:.60}"


def _directory(value: Any) -> Iterator[str]:
    if not _DIRECTORY.fullmatch(str(value)):
        yield f"it must be an absolute path without a slash at the end, such as /opt/nvidia/driver, not {str(value)!r}"


def _disk(value: Any) -> Iterator[str]:
    for path, mib in value.items():
        if not isinstance(path, str) or not path.startswith("/"):
            yield f"{path!r:.120} is not an absolute path, such as /usr"
        if isinstance(mib, bool) or not re.fullmatch(r"[0-9]+", str(mib), re.ASCII):
            yield f"{path} must have a whole number of MiB, such as 2000, not {mib!r:.60}"


def _fingerprints(value: Any) -> Iterator[str]:
    try:
        read_pins(value)
    except AptKeyError as error:
        yield str(error).partition(": ")[2]


def _junit_file(value: Any) -> Iterator[str]:
    # The report and its page next to it have other extensions.
    if value != "" and not str(value).endswith(".xml"):
        yield f"it must be a file that ends with .xml, or empty, not {str(value)!r:.120}"
    elif value:
        yield from files.writable(value)


def _metrics_file(value: Any) -> Iterator[str]:
    # node_exporter only reads files with this extension.
    if value != "" and not (_DIRECTORY.fullmatch(str(value)) and str(value).endswith(".prom")):
        yield f"it must be the absolute path of a file that ends with .prom, or empty, not {str(value)!r:.120}"
    elif value:
        yield from files.writable(value)


def _server(value: Any) -> Iterator[str]:
    if value != "" and not _SERVER.fullmatch(str(value)):
        yield f"it must be an address or a name, such as 192.0.2.10 or nas.example.org, not {str(value)!r:.120}"


def _exported(value: Any) -> Iterator[str]:
    if value != "":
        yield from _nfs.path_problems(value)


def _capacity(value: Any) -> Iterator[str]:
    if not quantity(value):
        yield f"it must be an amount with a unit, such as 100Gi, not {str(value)!r:.60}"


def _mount_options(value: Any) -> Iterator[str]:
    for option in value:
        if not _MOUNT_OPTION.fullmatch(str(option)):
            yield f"{str(option)!r:.60} is not an option of nfs(5), such as nfsvers=4 or noatime"


def _verified(value: Any) -> Iterator[str]:
    if not 1 <= int(value) <= _MOST_VERIFIED:
        yield f"it must be 1 to {_MOST_VERIFIED} MiB, because a pod keeps the data in memory, not {value}"


def _interval(value: Any) -> Iterator[str]:
    if not 1 <= int(value) <= _LONGEST_INTERVAL:
        yield f"it must be 1 to {_LONGEST_INTERVAL} seconds, not {value}"


def _benchmark_timeout(value: Any) -> Iterator[str]:
    if not SHORTEST_TIMEOUT <= int(value) <= LONGEST_TIMEOUT:
        yield f"it must be {SHORTEST_TIMEOUT} to {LONGEST_TIMEOUT} seconds, not {value}"


# Variable -> check that yields what is wrong with its value, as the end of a sentence. Types are already checked.
VALUES: dict[str, Callable[[Any], Iterable[str]]] = {
    "backup_directory": _nfs.path_problems,
    "backup_keep_count": backup_values.positive,
    "backup_keep_days": backup_values.positive,
    "backup_places": backup_values.place_problems,
    "backup_recipients": backup_values.recipient_problems,
    "backup_schedule": backup_values.schedule_problems,
    "cluster_gpu_sharing": sharing.problems,
    "cluster_image_digests": _images.problems,
    "cuda_toolkit_versions": _releases,
    "cuda_toolkit_default": _release,
    "cuda_toolkit_remove": _minors,
    "nvidia_driver_root": _directory,
    "report_file": files.report,
    "report_junit": _junit_file,
    "report_metrics": _metrics_file,
    "cluster_kubeconfig": files.kubeconfig,
    "drift_report": files.created,
    "gpu_benchmark_report": files.required,
    "gpu_benchmark_namespace": label,
    "gpu_benchmark_timeout": _benchmark_timeout,
    "plan_report": files.required,
    "torch_ddp_benchmark": files.required,
    "torch_ddp_summary": files.optional,
    "nvidia_driver_version": _driver,
    "preflight_disk_mib": _disk,
    "preflight_driver_disk_mib": _disk,
    "cluster_apt_credentials": credentials.problems,
    "containerd_registry_mirrors": registries.mirror_problems,
    "containerd_registry_credentials": registries.credential_problems,
    "nfs_cache_server": _server,
    "nfs_cache_path": _exported,
    "nfs_cache_capacity": _capacity,
    "nfs_cache_namespace": label,
    "nfs_cache_claim": label,
    "nfs_cache_mount_options": _mount_options,
    "nfs_cache_verify_mib": _verified,
    "nfs_server_path": _nfs.path_problems,
    "nfs_server_clients": _nfs.client_problems,
    "nfs_server_insecure_clients": _nfs.client_problems,
    "nfs_server_options": _nfs.option_problems,
    "dcgm_exporter_namespace": label,
    "dcgm_exporter_interval": _interval,
    "local_path_class": label,
    "local_path_namespace": label,
    "local_path_directory": _nfs.path_problems,
    "local_path_verify_mib": _verified,
    **{f"{role}_repository_key_fingerprints": _fingerprints for role in REPOSITORIES},
}
