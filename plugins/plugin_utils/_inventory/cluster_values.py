# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check values of variables about the cluster, its nodes and its API, which an argument specification can't express."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ...module_utils._cluster import pools
from .._preflight.network import is_node_name

_POOL = "gpulab.io/pool"
_SERIAL = re.compile(r"[1-9][0-9]*|(?:[1-9][0-9]?|100)%", re.ASCII)
# A duration as Go parses it, in units that make sense for a timeout.
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h))+", re.ASCII)
_ZERO = re.compile(r"[0.]+(?:[a-z]+[0.]+)*[a-z]+", re.ASCII)
_FLAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_ARGUMENT = re.compile(r"""[^\s"'\\$`\x00-\x1f\x7f-\x9f]*""")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_LONGEST_DISRUPTION_WAIT = 24 * 3600
_FILE = re.compile(r"(?:/[^/\s]+)+")


def _pool(value: Any) -> Iterator[str]:
    if value != "":
        yield from pools.problems({_POOL: value}, [])


def _labels(value: Any) -> Iterator[str]:
    yield from pools.problems(value, [])


def _taints(value: Any) -> Iterator[str]:
    yield from pools.problems({}, value)


def _serial(value: Any) -> Iterator[str]:
    if not _SERIAL.fullmatch(str(value)):
        yield f"it must be a number of nodes, such as 2, or a percentage from 1% to 100%, not {str(value)!r}"


def _timeouts(value: Any) -> Iterator[str]:
    for key, duration in value.items():
        if not _DURATION.fullmatch(str(duration)):
            yield f"{key} must be a duration with a unit, such as 90s, 5m or 1h30m, not {str(duration)!r}"
        elif _ZERO.fullmatch(str(duration)):
            yield f"{key} is {duration}, which leaves kubeadm no time"


def _lease(value: Any) -> Iterator[str]:
    if int(value) < 60:
        yield f"it must be at least 60 seconds, not {value}: an API server that restarts would let it expire"


def _disruption_wait(value: Any) -> Iterator[str]:
    if not 1 <= int(value) <= _LONGEST_DISRUPTION_WAIT:
        yield f"it must be 1 to {_LONGEST_DISRUPTION_WAIT} seconds, not {value}: to wait longer, defer and run again"


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


def _file(value: Any) -> Iterator[str]:
    if value != "" and not _FILE.fullmatch(str(value)):
        yield f"it must be the absolute path of a file, such as /etc/resolv.conf, or empty, not {str(value)!r:.120}"


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
        yield from (f"{wrong}{domain}" for wrong in label(value))


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


def label(value: Any) -> Iterator[str]:
    if not _LABEL.fullmatch(str(value)):
        yield (
            "it must consist of at most 63 lower-case letters, digits and '-', and must not start or end with '-', "
            f"not {str(value)!r:.120}"
        )


# Variable -> check that yields what is wrong with its value, as the end of a sentence. Types are already checked.
VALUES: dict[str, Callable[[Any], Iterable[str]]] = {
    "cluster_node_name": _node_name,
    "cluster_node_address": _node_address,
    "cluster_name": _cluster_name,
    "cluster_api_name": _api_name,
    "cluster_api_endpoint": _endpoint,
    "cluster_node_pool": _pool,
    "cluster_node_labels": _labels,
    "cluster_node_taints": _taints,
    "nvidia_driver_upgrade_serial": _serial,
    "cluster_serial": _serial,
    "cluster_lease_duration": _lease,
    "cluster_disruption_wait": _disruption_wait,
    "kubeadm_cluster_configuration": _cluster_configuration,
    "kubeadm_timeouts": _timeouts,
    "kubeadm_resolv_conf": _file,
    "kubeadm_kubelet_extra_args": _kubelet_arguments,
    "minikube_options": _minikube_options,
    "cluster_api_delegate": _delegate,
}
