# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._problem import Problem
from ..plugin_utils._preflight import cluster as cluster_rules
from ..plugin_utils._preflight import containerd as containerd_rules
from ..plugin_utils._preflight import existing, in_use
from ..plugin_utils._preflight import gpu as gpu_rules
from ..plugin_utils._preflight import host as host_rules
from ..plugin_utils._preflight.failure import failure
from ..plugin_utils._preflight.model import Cluster, readings

DOCUMENTATION = r"""
name: preflight_problems
short_description: Find all problems with hosts and settings before anything changes
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Applies every rule to every host, so that all problems are reported together.
positional: _input, settings
options:
  _input:
    description:
      - For each host name, a dictionary with C(facts) (the result of M(gpulab.kubernetes.preflight_info), or empty),
        C(failure) (the result of the task that failed or found the host unreachable, or empty) and C(settings), the
        settings of this host - C(node_name), C(node_address), C(become) (whether the inventory lets Ansible become
        root), C(proxied) (whether the host uses a proxy), C(resolv_conf) (the file of name servers that is configured
        for this host, or empty), C(expected_gpus) (or null), C(sysctls) (as in C(host_sysctls)), C(ignored_gpus),
        C(nvidia_driver_version),
        C(nvidia_driver_source), C(nvidia_driver_root), C(nvidia_driver_modules), C(nvidia_driver_replace_foreign),
        C(existing_packages) and C(existing_sources) (what to do with them), C(packages) (by component C(names),
        C(version) and the C(minimum) that may be kept, empty for none), C(nvidia_driver_upgrading) (whether this run
        changes the driver), C(containerd_version), C(containerd_conf_dir), C(containerd_files) (the files that will be
        written, the base first, as dictionaries of C(path), C(text) and C(gpus), which is true for those that only
        hosts with GPUs get). A host with C(left_out) is only compared with the other hosts, and needs only the first
        two settings.
    type: dict
    required: true
  settings:
    description:
      - Settings that all hosts share - C(control_plane) (list of host names), C(cluster_pod_network),
        C(cluster_service_network), C(cluster_dns_domain), C(cluster_api_endpoint) (all as declared),
        C(kubernetes_version), C(kubernetes_versions) (those in the table), C(network_plugin), C(flannel_backend),
        C(image_repository), C(cluster_configuration), C(kube_proxy_configuration), C(gpu_manager_changing) (whether
        this run changes the GPU manager), C(api) (the result of M(gpulab.kubernetes.api_reach_info), or empty),
        C(api_endpoint), C(api_delegate), C(ansible_core) (the version on the controller), C(distributions),
        C(kubelet_configuration), C(reachable_ports), C(clock_skew_s), C(nvidia_driver_versions) (for each version, the
        distributions that have it), C(gpu_manager), C(device_plugin_root) (the root directory in which the device
        plugin looks for the driver), C(acceptance_image), C(minimum) (the minimum C(memory_mib) and C(cpus) for
        V(control_plane) and V(worker)), C(disk_mib) (by path), C(driver_disk_mib) (by path, in addition if a driver
        will be installed).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if there are problems
  ansible.builtin.assert:
    that: __preflight_readings | gpulab.kubernetes.preflight_problems(_preflight_settings) | length == 0
"""

RETURN = r"""
_value:
  description: Problems; problems of the whole cluster (without a host) come first.
  type: list
  elements: dict
  contains:
    kind:
      description: Identifier of the problem, such as V(gpu_count_differs). It is stable across versions.
      type: str
      version_added: 0.2.0
    host:
      description: Host, empty if the problem concerns the whole cluster.
      type: str
    what:
      description: Description of the problem.
      type: str
    where:
      description: Variable, file or device to look at.
      type: str
    why:
      description: Why it matters.
      type: str
    do:
      description: How to fix it.
      type: str
    answers:
      description: Variables with the values that keep the existing state, if there are any.
      type: dict
      version_added: 0.2.0
    remedies:
      description: >-
        Changes after which the problem does not occur again, the best one first, if they are known. Each has
        C(settings), variables with their new values, and, if something must be done on the host first, C(host) -
        C(branches) and C(modules) of a driver to install, C(packages) to install, C(signing_key) to enroll, the
        distribution whose components must be added to apt's sources (C(components)), or the address of a GPU to reserve
        for virtual machines (C(vfio)).
      type: list
      elements: dict
      version_added: 0.2.0
"""


_CLUSTER_RULES = (*cluster_rules.RULES, *gpu_rules.CLUSTER_RULES, *in_use.CLUSTER_RULES)
_HOST_RULES = (*host_rules.RULES, *containerd_rules.RULES, *gpu_rules.RULES, *existing.RULES, *in_use.RULES)


def preflight_problems(hosts: Mapping[str, Any], settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return [problem.fields() for problem in find(Cluster(readings(hosts), settings))]
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"Error while checking the rules of preflight: bad input ({error!r})") from error


def find(cluster: Cluster) -> list[Problem]:
    problems = [problem for rule in _CLUSTER_RULES for problem in rule(cluster)]
    for reading in cluster.readings:
        if not reading.facts:
            problems += failure(reading, cluster)
            continue
        for rule in () if reading.left_out else _HOST_RULES:
            problems += rule(reading, cluster)
    order = ["", *(reading.host for reading in cluster.readings)]
    return sorted(problems, key=lambda problem: order.index(problem.host))


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight_problems": preflight_problems}
