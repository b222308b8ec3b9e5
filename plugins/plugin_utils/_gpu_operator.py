# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compute and check the values of the GPU Operator's chart from what hosts have."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from ..module_utils._problem import Problem
from ..module_utils._words import listing
from ._cuda import compatibility

Values = Mapping[str, Any]

CONFIG = "gpulab-device-plugin"
_OWN = "gpu_operator_values"
_CONTROL_PLANE = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
# The validator of v26.7.0 tests GPUs with a program built with this CUDA version, whose first branch is 580:
# https://github.com/NVIDIA/gpu-operator/issues/2842
_VALIDATOR_CUDA = "13.2"
_VALIDATOR_BRANCH = "580"
_NO_WORKLOAD = ("WITH_WORKLOAD", "false")
# Environment variables that the operator sets on its device plugin, where they override the configuration, by the
# configuration's key.
_PLUGIN = {
    "DEVICE_LIST_STRATEGY": "flags.plugin.deviceListStrategy",
    "PASS_DEVICE_SPECS": "flags.plugin.passDeviceSpecs",
    "GDRCOPY_ENABLED": "flags.gdrcopyEnabled",
    "GDS_ENABLED": "flags.gdsEnabled",
    "MOFED_ENABLED": "flags.mofedEnabled",
}
# By default, the operator's toolkit gives GPUs to every pod that sets NVIDIA_VISIBLE_DEVICES.
_TOOLKIT = ("ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "false")
# The operator's pods restart if the name of a configuration changes, but not its content. Nothing reads this variable:
# a different value restarts them.
_CONFIGURATION = "GPULAB_CONFIGURATION"


@dataclass(frozen=True)
class Host:
    """A host with GPUs, and the versions of its driver and container toolkit, empty for none.

    ``source`` is where its driver comes from, ``root`` the directory that contains the driver's files, ``devices`` are
    the PCI device IDs of its GPUs. ``system`` is the distribution, such as ``Ubuntu 24.04``, empty if unknown.
    """

    host: str
    driver: str = ""
    toolkit: str = ""
    source: str = "cuda_repository"
    root: str = "/"
    devices: Sequence[str] = ()
    system: str = ""

    @property
    def has_driver(self) -> bool:
        """Return whether the host has a driver; a driver installer's DaemonSet runs before the operator."""
        return bool(self.driver) or self.source == "daemonset"

    @property
    def wants_driver(self) -> bool:
        """Return whether the operator has to install a driver."""
        return self.source == "operator" and not self.driver


@dataclass(frozen=True)
class Wanted:
    """The wanted settings: device plugin configurations by name, the default one, and so on."""

    configs: Mapping[str, Any]
    default_config: str
    tolerations: Sequence[Mapping[str, str]] = ()
    dcgm_exporter: bool = True
    driver_version: str = ""
    driver_modules: str = "auto"
    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: Sequence[str] = ()

    @property
    def secret_proxy(self) -> bool:
        """Return whether the proxy URLs contain a user or a password."""
        return "@" in self.http_proxy + self.https_proxy


def computed(hosts: Sequence[Host], wanted: Wanted) -> dict[str, Any]:
    """Return the values that follow from the hosts' state. ``host_problems`` finds hosts that can't be combined."""
    driver = any(host.wants_driver for host in hosts)
    toolkit = driver or (bool(hosts) and not any(host.toolkit for host in hosts))
    tolerations = [dict(toleration) for toleration in wanted.tolerations]
    roots = [host.root for host in hosts if host.root != "/"]
    data = {name: _text(config) for name, config in sorted(wanted.configs.items())}
    digest = _variable(_CONFIGURATION, hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16])
    return {
        "cdi": {"enabled": True},
        "daemonsets": {"tolerations": tolerations},
        "dcgmExporter": {
            "enabled": wanted.dcgm_exporter,
            # The operator creates it as soon as the cluster has ServiceMonitors.
            "serviceMonitor": {"enabled": wanted.dcgm_exporter},
        },
        "devicePlugin": {
            "config": {
                "create": True,
                "name": CONFIG,
                "default": wanted.default_config,
                "data": data,
            },
            "enabled": True,
            "env": [*_plugin_variables(wanted), digest],
        },
        "driver": {
            "enabled": driver,
            **({"kernelModuleType": wanted.driver_modules} if driver else {}),
            # Without a version, the chart's default applies.
            **({"version": wanted.driver_version} if driver and wanted.driver_version else {}),
            **({"env": _proxies(wanted)} if driver and _proxies(wanted) else {}),
        },
        "gfd": {"enabled": True, "env": [digest]},
        **({"hostPaths": {"driverInstallDir": roots[0]}} if roots and not driver else {}),
        # The MIG layout is a setting of the hosts, so MIG Manager must not change it.
        "mig": {"strategy": _strategies(wanted)[0]},
        "migManager": {"enabled": False},
        "nfd": {"enabled": True},
        "node-feature-discovery": {name: {"tolerations": [_CONTROL_PLANE, *tolerations]} for name in ("gc", "worker")},
        "toolkit": {"enabled": toolkit, **({"env": [_variable(*_TOOLKIT)]} if toolkit else {})},
        **({} if _validator_runs(hosts, wanted) else {"validator": {"cuda": {"env": [_variable(*_NO_WORKLOAD)]}}}),
    }


def _validator_runs(hosts: Sequence[Host], wanted: Wanted) -> bool:
    """Return whether the validator's CUDA program runs on all GPUs; otherwise nodes would never be ready."""
    return all(
        compatibility.judge(_VALIDATOR_CUDA, host.driver or wanted.driver_version or _VALIDATOR_BRANCH, device).kind
        != compatibility.UNSUPPORTED
        for host in hosts
        for device in host.devices
    )


def _proxies(wanted: Wanted) -> list[dict[str, str]]:
    """Return proxy variables of the driver container, which downloads kernel headers; none for URLs with a password."""
    found = {"HTTP_PROXY": wanted.http_proxy, "HTTPS_PROXY": wanted.https_proxy}
    if wanted.secret_proxy or not any(found.values()):
        return []
    found["NO_PROXY"] = ",".join(wanted.no_proxy)
    return [_variable(each, value) for name, value in found.items() if value for each in (name, name.lower())]


def _plugin_variables(wanted: Wanted) -> list[dict[str, str]]:
    config = yaml.safe_load(_text(wanted.configs.get(wanted.default_config, {})))
    found = {name: _at(config, path) for name, path in _PLUGIN.items()}
    texts = {name: ",".join(value) if isinstance(value, list) else str(value).lower() for name, value in found.items()}
    return [_variable(name, texts[name]) for name, value in found.items() if value is not None]


def _variable(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def _text(config: Any) -> str:
    # Convert Ansible's own types of texts and mappings, which YAML can't dump.
    text: str = config if isinstance(config, str) else yaml.safe_dump(json.loads(json.dumps(config)), sort_keys=True)
    return text


def _strategies(wanted: Wanted) -> list[str]:
    """Return the MIG strategies of the configurations, only ``none`` if no GPU is partitioned."""
    found = {str(_at(config, "flags.migStrategy") or "none") for config in _configs(wanted)} - {"none"}
    return sorted(found) or ["none"]


def _configs(wanted: Wanted) -> list[Any]:
    return [yaml.safe_load(config) if isinstance(config, str) else config for config in wanted.configs.values()]


def sharing_problems(wanted: Wanted) -> Iterator[Problem]:
    """Yield sharing settings that the operator can't set for its device plugin per node."""
    strategies = _strategies(wanted)
    if len(strategies) > 1:
        yield Problem(
            "mig_strategies_differ",
            f"GPUs are partitioned with different MIG strategies: {listing(strategies)}",
            "cluster_gpu_sharing",
            "The operator has a single MIG strategy for all nodes (mig.strategy)",
            "Choose single or mixed for all hosts whose GPUs are partitioned",
        )
    if "mixed" in strategies and any(_at(config, "sharing.mps") for config in _configs(wanted)):
        yield Problem(
            "mps_with_mig_mixed",
            "GPUs of some hosts are shared through MPS, GPUs of other hosts are partitioned with the MIG strategy "
            "mixed",
            "cluster_gpu_sharing",
            "The operator has a single MIG strategy for all nodes (mig.strategy), and with mixed, its device plugin "
            "does not start on nodes with MPS",
            "Share through time slices instead of MPS, partition no GPUs, or set cluster_gpu_manager=device_plugin",
        )


def host_problems(hosts: Sequence[Host]) -> Iterator[Problem]:
    """Yield hosts without a driver or toolkit, and hosts that one operator can't serve together."""
    for host in hosts:
        if not host.has_driver and not host.wants_driver:
            yield Problem(
                "driver_missing",
                "No driver responds",
                "nvidia_driver_source",
                f"nvidia_driver_source is {host.source}, so the driver is installed on this host, and the operator "
                "installs none",
                "Run site.yml for this host first, or set nvidia_driver_source=operator",
                host.host,
            )
    equipped = [host.host for host in hosts if host.toolkit]
    bare = [host.host for host in hosts if not host.toolkit]
    if equipped and bare:
        yield Problem(
            "toolkit_on_some_hosts",
            f"The container toolkit is on {listing(equipped)}, but not on {listing(bare)}",
            "nvidia_container_toolkit",
            "The operator installs it on all nodes or on none; on hosts that already have it, two toolkits would "
            "write containerd's files",
            "Run site.yml for the hosts without it, or remove its packages from the others",
        )
    elif equipped and any(host.wants_driver for host in hosts):
        yield Problem(
            "toolkit_on_host",
            f"The operator installs the driver, but {listing(equipped)} already has a container toolkit",
            "nvidia_container_toolkit",
            "This toolkit looks for the driver on the host, where the operator does not install it",
            "Remove the packages nvidia-container-toolkit and nvidia-container-toolkit-base from the host, or install "
            "the driver on the hosts (nvidia_driver_source)",
        )
    # If all other drivers are in /, the operator finds its own driver by itself.
    roots = sorted({host.root for host in hosts if not host.wants_driver})
    if roots and roots != ["/"]:
        roots = sorted({host.root for host in hosts})
    if len(roots) > 1:
        yield Problem(
            "driver_roots_differ",
            f"The drivers are in different directories: {listing(roots)}",
            "nvidia_driver_root",
            "The operator has a single directory for all nodes (hostPaths.driverInstallDir)",
            "Give all GPU hosts the same nvidia_driver_source and nvidia_driver_root",
        )


def relation_problems(values: Values) -> Iterator[Problem]:
    """Yield values that contradict each other or the settings of this role."""
    found = {name: _at(values, name) for name in ("gpuCluster.deployCR", "clusterPolicy.deployCR")}
    if found["gpuCluster.deployCR"] or found["clusterPolicy.deployCR"] is False:
        yield Problem(
            "cluster_policy_replaced",
            "The operator would use GPUCluster (DRA) instead of ClusterPolicy",
            _OWN,
            "This role configures the operator through its ClusterPolicy, and waits for it",
            "Remove gpuCluster.deployCR and clusterPolicy.deployCR",
        )
    nri = _at(values, "cdi.nriPluginEnabled")
    if nri and not (_at(values, "cdi.enabled") and _at(values, "toolkit.enabled")):
        yield Problem(
            "nri_plugin_alone",
            "cdi.nriPluginEnabled needs cdi.enabled and toolkit.enabled",
            _OWN,
            "The plugin is part of the operator's container toolkit",
            "Remove cdi.nriPluginEnabled",
        )
    if _at(values, "migManager.enabled"):
        yield Problem(
            "mig_manager_enabled",
            "migManager.enabled is true",
            _OWN,
            "The operator would undo the MIG geometry that the hosts declare",
            "Remove this value, and declare the geometry in cluster_gpu_sharing",
        )
    if not _at(values, "devicePlugin.enabled"):
        yield Problem(
            "device_plugin_disabled",
            "devicePlugin.enabled is false",
            _OWN,
            "Nothing would offer the GPUs to pods",
            "Remove this value, or set cluster_gpu_manager=device_plugin",
        )


def image_problems(values: Values, hosts: Sequence[Host]) -> Iterator[Problem]:
    """Yield hosts without a driver image; the operator uses one distribution's image for all nodes.

    Of the distributions that this collection supports, NVIDIA builds images for Ubuntu only:
    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/platform-support.html
    """
    served = [host for host in hosts if host.wants_driver and host.system]
    systems = sorted({host.system for host in served})
    if not _at(values, "driver.enabled") or _at(values, "driver.repository"):
        return
    do = (
        "Install the driver on the hosts (nvidia_driver_source=cuda_repository), or set a registry with your own "
        "images (gpu_operator_values: {driver: {repository: ...}})"
    )
    for host in served:
        if not host.system.startswith("Ubuntu "):
            yield Problem(
                "driver_image_missing",
                "The operator is configured to install the driver, but NVIDIA publishes no driver image for "
                f"{host.system}",
                "nvidia_driver_source",
                "The driver's pod would wait for its image forever",
                do,
                host.host,
            )
    if len(systems) > 1:
        yield Problem(
            "driver_images_differ",
            f"The operator is configured to install the driver on hosts with different systems: {listing(systems)}",
            "nvidia_driver_source",
            "It would use the image for the system of its first GPU node on all of them",
            do,
        )


def toolkit_problems(values: Values, hosts: Sequence[Host]) -> Iterator[Problem]:
    """Yield hosts with a toolkit if the operator installs one: both would change containerd's configuration."""
    if _at(values, "toolkit.enabled"):
        for host in hosts:
            if host.toolkit and not host.wants_driver:
                yield Problem(
                    "toolkit_twice",
                    "The operator would install a second container toolkit",
                    f"{_OWN}: toolkit.enabled",
                    f"nvidia-container-toolkit {host.toolkit} is installed here, and containerd uses it",
                    "Remove toolkit.enabled, or uninstall the package first",
                    host.host,
                )


def proxy_problems(values: Values, wanted: Wanted) -> Iterator[Problem]:
    """Yield a proxy password that the driver container needs, but that must not be in the ClusterPolicy."""
    if wanted.secret_proxy and _at(values, "driver.enabled") and not _at(values, "driver.secretEnv"):
        yield Problem(
            "proxy_password_shown",
            "The proxy's address contains a password, and the operator's driver container needs the proxy",
            "cluster_http_proxy",
            "The variables of that container are in the ClusterPolicy, which many users can read",
            "Put HTTP_PROXY, HTTPS_PROXY and NO_PROXY, in upper and in lower case, into a Secret in the operator's "
            "namespace, and name it in gpu_operator_values: {driver: {secretEnv: NAME}}",
        )


def _at(values: Values, path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
