# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for variables that an argument specification can't express: forms of entries, and related values.

Values are those of the inventory, or the defaults.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ...module_utils._apt import credentials
from ...module_utils._apt.key import AptKeyError, read_pins, unpinned
from ...module_utils._benchmark.pods import LONGEST_TIMEOUT, SHORTEST_TIMEOUT
from ...module_utils._cluster import pools
from ...module_utils._cluster.quantities import quantity
from ...module_utils._nvidia import sharing
from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .. import _images, _nfs
from .._containerd import registries
from .._cuda.plan import MINOR_VERSION, RELEASE
from .._preflight.network import is_node_name
from . import files

Values = Mapping[str, Any]

_POOL = "gpulab.io/pool"
# Sources whose driver may be in a directory other than /.
_ELSEWHERE = ("daemonset", "preinstalled", "operator")
_QUOTE = "put it in quotes"
_SERIAL = re.compile(r"[1-9][0-9]*|(?:[1-9][0-9]?|100)%", re.ASCII)
# A duration as Go parses it, in units that make sense for a timeout.
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+", re.ASCII)
_ZERO = re.compile(r"[0.]+(?:[a-z]+[0.]+)*[a-z]+", re.ASCII)
_DRIVER = re.compile(r"auto|[0-9]{3}(?:\.[0-9]+){1,2}", re.ASCII)
_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]+\]?", re.ASCII)
_FLAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_ARGUMENT = re.compile(r"""[^\s"'\\$`\x00-\x1f\x7f-\x9f]*""")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_MOUNT_OPTION = re.compile(r"[a-z_]+[0-9.]*(?:=[A-Za-z0-9.:/_-]+)?", re.ASCII)
_MOST_VERIFIED = 4096
# Prometheus considers a sample stale after 5 minutes.
_LONGEST_INTERVAL = 300
_LONGEST_DISRUPTION_WAIT = 24 * 3600
_SHUTDOWN = ("kubeadm_shutdown_grace_period", "kubeadm_shutdown_grace_period_critical_pods")
# Roles with a package repository.
_REPOSITORIES = ("kubeadm", "containerd", "nvidia_container_toolkit", "nvidia_driver", "cuda_toolkit")
_DIRECTORY = re.compile(r"/|(?:/[^/\s]+)+")


def _pool(value: Any) -> Iterator[str]:
    if value != "":
        yield from pools.problems({_POOL: value}, [])


def _labels(value: Any) -> Iterator[str]:
    yield from pools.problems(value, [])


def _taints(value: Any) -> Iterator[str]:
    yield from pools.problems({}, value)


def _releases(value: Any) -> Iterator[str]:
    minors: dict[str, str] = {}
    for entry in value:
        wrong = _wrong_release(entry)
        if wrong:
            yield wrong
        elif minors.setdefault(_minor(entry), entry) != entry:
            yield f"{minors[_minor(entry)]} and {entry} can't be installed side by side: both are CUDA {_minor(entry)}"


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


def _minor(release: str) -> str:
    return release.rpartition(".")[0]


def _serial(value: Any) -> Iterator[str]:
    if not _SERIAL.fullmatch(str(value)):
        yield f"it must be a number of nodes, such as 2, or a percentage from 1% to 100%, not {str(value)!r}"


def _directory(value: Any) -> Iterator[str]:
    if not _DIRECTORY.fullmatch(str(value)):
        yield f"it must be an absolute path without a slash at the end, such as /opt/nvidia/driver, not {str(value)!r}"


def _timeouts(value: Any) -> Iterator[str]:
    for key, duration in value.items():
        if not _DURATION.fullmatch(str(duration)):
            yield f"{key} must be a duration with a unit, such as 90s, 5m or 1h30m, not {str(duration)!r}"
        elif _ZERO.fullmatch(str(duration)):
            yield f"{key} is {duration}, which leaves kubeadm no time"


def _driver(value: Any) -> Iterator[str]:
    if not _DRIVER.fullmatch(str(value)):
        yield f"it must be auto, or a version such as 595.91.07, not {str(value)!r:.60}"


def _file(value: Any) -> Iterator[str]:
    if value != "" and not (_DIRECTORY.fullmatch(str(value)) and value != "/"):
        yield f"it must be the absolute path of a file, such as /etc/resolv.conf, or empty, not {str(value)!r:.120}"


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


def _disk(value: Any) -> Iterator[str]:
    for path, mib in value.items():
        if not isinstance(path, str) or not path.startswith("/"):
            yield f"{path!r:.120} is not an absolute path, such as /usr"
        if isinstance(mib, bool) or not re.fullmatch(r"[0-9]+", str(mib), re.ASCII):
            yield f"{path} must have a whole number of MiB, such as 2000, not {mib!r:.60}"


def _lease(value: Any) -> Iterator[str]:
    if int(value) < 60:
        yield f"it must be at least 60 seconds, not {value}: an API server that restarts would let it expire"


def _delegate(value: Any) -> Iterator[str]:
    if not str(value).strip():
        yield "it is empty; set it to a host in the inventory, or remove it to use the controller"


def _cluster_configuration(value: Any) -> Iterator[str]:
    networking = value.get("networking", {})
    given = {*value, *(f"networking.{key}" for key in networking)} if isinstance(networking, Mapping) else {*value}
    for key in sorted(map(str, given)):
        if key in _RESERVED:
            yield f"{key} can't be set here; {_RESERVED[key]}"
    if not isinstance(networking, Mapping):
        yield f"networking is not a mapping: {networking!r:.60}"


def _fingerprints(value: Any) -> Iterator[str]:
    try:
        read_pins(value)
    except AptKeyError as error:
        yield str(error).partition(": ")[2]


# Keys of ClusterConfiguration that are set elsewhere or must not change.
_RESERVED = {
    "apiVersion": "this collection writes kubeadm.k8s.io/v1beta4",
    "kind": "this collection writes ClusterConfiguration",
    "kubernetesVersion": "set cluster_kubernetes_version instead",
    "controlPlaneEndpoint": "set cluster_api_name or cluster_api_endpoint instead",
    "imageRepository": "set kubeadm_image_repository instead",
    "certificatesDir": "this collection looks for them in /etc/kubernetes/pki",
    "networking.podSubnet": "set cluster_pod_network instead",
    "networking.serviceSubnet": "set cluster_service_network instead",
    "networking.dnsDomain": "set cluster_dns_domain instead",
}


def _minikube_options(value: Any) -> Iterator[str]:
    for option in value:
        if not str(option).isprintable() or not str(option):
            yield f"{str(option)!r:.120} is empty or contains a character that can't be printed, such as a line break"


def _kubelet_arguments(value: Any) -> Iterator[str]:
    for name, argument in value.items():
        if not _FLAG.fullmatch(str(name)):
            yield f"{str(name)!r:.120} is not the name of an argument, such as v or eviction-hard, without dashes"
        elif not isinstance(argument, (str, int, float)) or not _ARGUMENT.fullmatch(str(argument)):
            yield (
                f"the value of {name} must be a text or a number without spaces, quotes, backslashes, $ and backticks: "
                "it becomes a word of an environment file of systemd"
            )


# Addresses that are not a host's: unspecified, loopback, multicast and broadcast.
_NO_HOST = re.compile(r"(?:0|127|22[4-9]|23[0-9])\..*|255\.255\.255\.255")
_LIKE_ADDRESS = re.compile(r"\[.*\]|[0-9]+(?:\.[0-9]+){3}")


def _node_name(value: Any) -> Iterator[str]:
    name = str(value)
    if name and not is_node_name(name):
        yield (
            "it must be a DNS name in lower case, of letters, digits, '-' and '.', such as gpu1, and not localhost; "
            "not "
            f"{name!r:.120}"
        )


def _node_address(value: Any) -> Iterator[str]:
    text = str(value)
    if text:
        wrong = list(_not_ipv4(text))
        yield from wrong
        if not wrong and _NO_HOST.fullmatch(text):
            yield f"other hosts can't reach {text}; write the address that they reach, such as 192.0.2.21"


def _not_ipv4(text: str) -> Iterator[str]:
    try:
        if ipaddress.ip_address(text).version == 6:
            yield f"{text} is an IPv6 address; only IPv4 is supported"
    except ValueError:
        yield f"it must be an IPv4 address, such as 192.0.2.21, not {text!r:.120}"


def _cluster_name(value: Any) -> Iterator[str]:
    if value != "":
        domain = " (the DNS domain of services is cluster_dns_domain)" if "." in str(value) else ""
        yield from (f"{wrong}{domain}" for wrong in _label(value))


def _api_name(value: Any) -> Iterator[str]:
    name = str(value)
    if name and (not is_node_name(name) or _LIKE_ADDRESS.fullmatch(name)):
        yield f"it must be a DNS name in lower case without a port, such as api.lab.internal, not {name!r:.120}"


def _endpoint(value: Any) -> Iterator[str]:
    host, _colon, port = str(value).rpartition(":")
    if value != "" and not 1 <= int(port) <= 65535:
        yield f"{port} is not a port; write a number from 1 to 65535"
    if value != "" and _LIKE_ADDRESS.fullmatch(host):
        yield from _not_ipv4(host.strip("[]"))


def _server(value: Any) -> Iterator[str]:
    if value != "" and not _SERVER.fullmatch(str(value)):
        yield f"it must be an address or a name, such as 192.0.2.10 or nas.example.org, not {str(value)!r:.120}"


def _exported(value: Any) -> Iterator[str]:
    if value != "":
        yield from _nfs.path_problems(value)


def _capacity(value: Any) -> Iterator[str]:
    if not quantity(value):
        yield f"it must be an amount with a unit, such as 100Gi, not {str(value)!r:.60}"


def _label(value: Any) -> Iterator[str]:
    if not _LABEL.fullmatch(str(value)):
        yield (
            "it must consist of at most 63 lower-case letters, digits and '-', and must not start or end with '-', "
            f"not {str(value)!r:.120}"
        )


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


def _disruption_wait(value: Any) -> Iterator[str]:
    if not 1 <= int(value) <= _LONGEST_DISRUPTION_WAIT:
        yield f"it must be 1 to {_LONGEST_DISRUPTION_WAIT} seconds, not {value}: to wait longer, defer and run again"


def _benchmark_timeout(value: Any) -> Iterator[str]:
    if not SHORTEST_TIMEOUT <= int(value) <= LONGEST_TIMEOUT:
        yield f"it must be {SHORTEST_TIMEOUT} to {LONGEST_TIMEOUT} seconds, not {value}"


# Variable -> check that yields what is wrong with its value, as the end of a sentence. Types are already checked.
VALUES: dict[str, Callable[[Any], Iterable[str]]] = {
    "cluster_node_name": _node_name,
    "cluster_node_address": _node_address,
    "cluster_name": _cluster_name,
    "cluster_api_name": _api_name,
    "cluster_api_endpoint": _endpoint,
    "cluster_gpu_sharing": sharing.problems,
    "cluster_image_digests": _images.problems,
    "cluster_node_pool": _pool,
    "cluster_node_labels": _labels,
    "cluster_node_taints": _taints,
    "cuda_toolkit_versions": _releases,
    "cuda_toolkit_default": _release,
    "cuda_toolkit_remove": _minors,
    "nvidia_driver_upgrade_serial": _serial,
    "cluster_serial": _serial,
    "cluster_lease_duration": _lease,
    "cluster_disruption_wait": _disruption_wait,
    "nvidia_driver_root": _directory,
    "kubeadm_cluster_configuration": _cluster_configuration,
    "kubeadm_timeouts": _timeouts,
    "kubeadm_resolv_conf": _file,
    "kubeadm_kubelet_extra_args": _kubelet_arguments,
    "minikube_options": _minikube_options,
    "report_file": files.report,
    "report_junit": _junit_file,
    "report_metrics": _metrics_file,
    "cluster_kubeconfig": files.kubeconfig,
    "drift_report": files.created,
    "gpu_benchmark_report": files.required,
    "gpu_benchmark_namespace": _label,
    "gpu_benchmark_timeout": _benchmark_timeout,
    "plan_report": files.required,
    "torch_ddp_benchmark": files.required,
    "torch_ddp_summary": files.optional,
    "nvidia_driver_version": _driver,
    "preflight_disk_mib": _disk,
    "preflight_driver_disk_mib": _disk,
    "cluster_api_delegate": _delegate,
    "cluster_apt_credentials": credentials.problems,
    "containerd_registry_mirrors": registries.mirror_problems,
    "containerd_registry_credentials": registries.credential_problems,
    "nfs_cache_server": _server,
    "nfs_cache_path": _exported,
    "nfs_cache_capacity": _capacity,
    "nfs_cache_namespace": _label,
    "nfs_cache_claim": _label,
    "nfs_cache_mount_options": _mount_options,
    "nfs_cache_verify_mib": _verified,
    "nfs_server_path": _nfs.path_problems,
    "nfs_server_clients": _nfs.client_problems,
    "nfs_server_insecure_clients": _nfs.client_problems,
    "nfs_server_options": _nfs.option_problems,
    "dcgm_exporter_namespace": _label,
    "dcgm_exporter_interval": _interval,
    "local_path_class": _label,
    "local_path_namespace": _label,
    "local_path_directory": _nfs.path_problems,
    "local_path_verify_mib": _verified,
    **{f"{role}_repository_key_fingerprints": _fingerprints for role in _REPOSITORIES},
}


def _installer(host: str, values: Values) -> Iterator[Problem]:
    if values["nvidia_driver_source"] == "daemonset" and not values["nvidia_driver_installer_image"]:
        yield Problem(
            "installer_image_missing",
            "nvidia_driver_source is daemonset, but nvidia_driver_installer_image is empty",
            "nvidia_driver_installer_image",
            "A pod of that image installs the driver",
            "Set the image, or choose another nvidia_driver_source",
            host,
        )


def _root(host: str, values: Values) -> Iterator[Problem]:
    root, source = values["nvidia_driver_root"], values["nvidia_driver_source"]
    if root != "/" and source not in _ELSEWHERE:
        yield Problem(
            "driver_root_unused",
            f"nvidia_driver_root is {root}, but nvidia_driver_source is {source}",
            "nvidia_driver_root",
            "Packages install the driver only below /",
            f"Remove nvidia_driver_root, or set nvidia_driver_source to {' or '.join(_ELSEWHERE)}",
            host,
        )


def _operator(host: str, values: Values) -> Iterator[Problem]:
    source, manager = values["nvidia_driver_source"], values["cluster_gpu_manager"]
    if source == "operator" and manager != "gpu_operator":
        yield Problem(
            "gpu_operator_not_chosen",
            f"nvidia_driver_source is operator, but cluster_gpu_manager is {manager}",
            "nvidia_driver_source, cluster_gpu_manager",
            "The GPU Operator is configured to install the driver but would not be installed, so nothing would "
            "install a driver",
            "Set cluster_gpu_manager to gpu_operator for all hosts, or choose another nvidia_driver_source",
            host,
        )


def _tunnel(host: str, values: Values) -> Iterator[Problem]:
    if boolean(values["cluster_api_tunnel"]) and values["cluster_api_delegate"] != "localhost":
        yield Problem(
            "tunnel_with_delegate",
            f"cluster_api_tunnel is true, but cluster_api_delegate is {values['cluster_api_delegate']}",
            "cluster_api_tunnel, cluster_api_delegate",
            "The tunnel starts on the controller, so tasks that use the API must run there",
            "Remove one of the two settings",
            host,
        )


def _toolkits(host: str, values: Values) -> Iterator[Problem]:
    versions, default = values["cuda_toolkit_versions"], values["cuda_toolkit_default"]
    both = [version for version in versions if _minor(version) in values["cuda_toolkit_remove"]]
    if both:
        yield Problem(
            "cuda_wanted_and_removed",
            f"CUDA {listing(map(_minor, both))} is both wanted and removed",
            "cuda_toolkit_versions, cuda_toolkit_remove",
            f"Wanted is {listing(both)}",
            "Remove it from one of the two settings",
            host,
        )
    if default and default not in versions:
        yield Problem(
            "cuda_default_unknown",
            f"cuda_toolkit_default is {default}, which is not among cuda_toolkit_versions",
            "cuda_toolkit_default",
            f"The default must be one of the releases to install ({listing(versions) or 'none'})",
            "Choose one of them, add it to cuda_toolkit_versions, or remove cuda_toolkit_default",
            host,
        )


def _shutdown(host: str, values: Values) -> Iterator[Problem]:
    total, critical = (int(values[name]) for name in _SHUTDOWN)
    if 0 < total < critical:
        yield Problem(
            "shutdown_periods_invalid",
            f"Of the {total} seconds that a shutdown waits for pods, {critical} are for critical pods",
            ", ".join(_SHUTDOWN),
            "The kubelet does not start with such periods",
            f"Set {_SHUTDOWN[0]} to the whole time, and {_SHUTDOWN[1]} to a part of it",
            host,
        )


def _cache(host: str, values: Values) -> Iterator[Problem]:
    missing = [name for name in ("nfs_cache_server", "nfs_cache_path") if not values[name]]
    if "nfs_cache" in values["cluster_storage"] and values["nfs_cache_state"] == "present" and missing:
        yield Problem(
            "nfs_cache_source_missing",
            f"cluster_storage contains nfs_cache without {listing(missing)}",
            ", ".join(missing),
            "The cache is a directory on an NFS server",
            "Set the server and the directory that it exports",
            host,
        )


def _export(host: str, values: Values) -> Iterator[Problem]:
    for name in ("nfs_server_clients", "nfs_server_insecure_clients"):
        if opened := [] if values["nfs_server_any_client"] else _nfs.open_clients(values[name]):
            yield Problem(
                "nfs_server_client_open",
                f"{name}: {listing(opened)} is not limited to known addresses",
                name,
                "Whoever reaches the server as such a client can read and change the directory, as any user",
                "Name the nodes or their network, such as 192.0.2.0/24, or set nfs_server_any_client",
                host,
            )


def _pinned(role: str) -> Callable[[str, Values], Iterator[Problem]]:
    url, pins = f"{role}_repository_url", f"{role}_repository_key_fingerprints"

    def rule(host: str, values: Values) -> Iterator[Problem]:
        if unpinned(str(values[url]), values[pins]):
            yield Problem(
                "repository_key_unpinned",
                f"{pins} is empty, and {url}, {values[url]}, is not encrypted",
                pins,
                "Anyone on the way could send a key and packages of their own, which root would install",
                "Set the fingerprint of the repository's key, or use an https address",
                host,
            )

    return rule


# Rules for related values of one host, each with the variables that it needs.
HOST: tuple[tuple[tuple[str, ...], Callable[[str, Values], Iterable[Problem]]], ...] = (
    (("nvidia_driver_source", "nvidia_driver_installer_image"), _installer),
    (("nvidia_driver_source", "nvidia_driver_root"), _root),
    (("nvidia_driver_source", "cluster_gpu_manager"), _operator),
    (("cluster_api_tunnel", "cluster_api_delegate"), _tunnel),
    (("cuda_toolkit_versions", "cuda_toolkit_default", "cuda_toolkit_remove"), _toolkits),
    (_SHUTDOWN, _shutdown),
    (("cluster_storage", "nfs_cache_state", "nfs_cache_server", "nfs_cache_path"), _cache),
    (("nfs_server_clients", "nfs_server_insecure_clients", "nfs_server_any_client"), _export),
    *(((f"{role}_repository_url", f"{role}_repository_key_fingerprints"), _pinned(role)) for role in _REPOSITORIES),
)


def _one_manager(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    found: dict[str, list[str]] = {}
    for host, values in hosts.items():
        found.setdefault(values["cluster_gpu_manager"], []).append(host)
    if len(found) > 1:
        words = "; ".join(f"{manager} for {listing(names)}" for manager, names in found.items())
        yield Problem(
            "gpu_managers_differ",
            f"cluster_gpu_manager differs between hosts of the cluster: {words}",
            "cluster_gpu_manager",
            "Only one of the two can offer the GPUs of the cluster, for all nodes",
            "Set it once for all hosts, the control plane included (group_vars/all)",
        )


def _homeless(hosts: Mapping[str, Values]) -> Iterator[Problem]:
    wishes = {host: pools.wanted({}, values["cluster_node_taints"]) for host, values in hosts.items()}
    if pools.homeless([{"metadata": {"name": host}, "spec": {}} for host in hosts], wishes):
        yield Problem(
            "nodes_all_tainted",
            f"Every node would have a taint: {listing(hosts)}",
            "cluster_node_taints",
            "Pods that tolerate none of them, such as the cluster's DNS, could not be scheduled",
            "Remove the taints from one node (cluster_node_taints=[]), such as the control plane or a worker",
        )


# The same for all hosts of the cluster.
CLUSTER: tuple[tuple[tuple[str, ...], Callable[[Mapping[str, Values]], Iterable[Problem]]], ...] = (
    (("cluster_gpu_manager",), _one_manager),
    (("cluster_node_taints",), _homeless),
)
