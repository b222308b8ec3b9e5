# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the endpoint of a running cluster where kubeadm stored it: kubeconfigs of hosts, and objects in the cluster.

kubeadm has no command for this (kubernetes/kubeadm, issues 338 and 1955). The former endpoint stays valid, so the parts
can be changed one after the other, and each change can be repeated.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import difference, read_text, sync_directory, under, write_text
from .._json import as_mapping, as_text
from .._systemd import Restarts, Systemd
from .kubeconfig import KubeconfigError, endpoint, host_port, read_kubeconfig
from .membership import membership
from .probe import Api, ApiConflictError, ApiRefusedError, ApiSilentError

KUBELET, KUBECONFIGS, CLUSTER = "kubelet", "kubeconfigs", "cluster"
_ETC = "/etc/kubernetes"
_API_SERVER = f"{_ETC}/manifests/kube-apiserver.yaml"
_MAPS = "/api/v1/namespaces/{}/configmaps/{}"
_PROXY = ("kube-system", "kube-proxy", "kubeconfig.conf")
# kubeadm-config is last: with it, the cluster has the new endpoint for later runs.
_INFO = (("kube-public", "cluster-info", "kubeconfig"), ("kube-system", "kubeadm-config", "ClusterConfiguration"))
_DAEMONSET = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy"
_ANNOTATION = "gpulab.io/api-endpoint"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}"
_PAUSE_S = 1.0
_LINE = re.compile(
    r"(?P<key>[ \t]*(?:- )?(?:server|controlPlaneEndpoint):[ \t]*)[\"']?(?P<value>[^\s\"'#]+)[\"']?[ \t]*"
)


def with_endpoint(text: str, new: str, former: list[str]) -> str:
    """Return a kubeconfig or a ClusterConfiguration with the new endpoint. Raise DomainError for an unknown one.

    Endpoints are host:port.
    """
    lines = text.split("\n")
    found = {place: match for place, line in enumerate(lines) if (match := _LINE.fullmatch(line))}
    for place, match in found.items():
        there = _host_port(match["value"])
        if there not in (new, *former):
            raise DomainError(f"its endpoint is {match['value']!r:.200}, neither {' nor '.join([new, *former])}")
        if there != new:
            scheme = "https://" if match["value"].startswith("https://") else ""
            lines[place] = f"{match['key']}{scheme}{new}"
    if not found:
        raise DomainError("it has no endpoint")
    return "\n".join(lines)


def _host_port(value: str) -> str:
    try:
        return host_port(*endpoint(value if value.startswith("https://") else f"https://{_with_port(value)}"))
    except KubeconfigError:
        return ""


def _with_port(value: str) -> str:
    return value if re.search(r":[0-9]+\Z", value) else f"{value}:6443"


class EndpointChange:
    """Changes one part. ``module`` has the parameters of kubeadm_endpoint."""

    def __init__(self, module: Any) -> None:
        params = module.params
        self._module, self._root, self._new = module, params["root"], params["endpoint"]
        self._former = [str(each) for each in params["replaces"]]
        self._timeout: float = params["timeout"]
        self._systemd = Systemd(Runner(module, timeout=120))
        self._restarts = Restarts(self._systemd, Path(params["run_dir"]))
        self._changes: list[str] = []
        self._diff: list[dict[str, str]] = []

    def ensure(self) -> dict[str, Any]:
        """Apply what differs. Raise DomainError."""
        parts = {KUBELET: self._kubelet, KUBECONFIGS: self._kubeconfigs, CLUSTER: self._cluster}
        parts[self._module.params["part"]]()
        return {"changed": bool(self._changes), "changes": self._changes, "diff": self._diff}

    def _kubelet(self) -> None:
        # A control plane's kubelet uses its own API server, by its address.
        if not under(self._root, _API_SERVER).exists():
            self._file("kubelet.conf", restarts="kubelet")
        unit = self._systemd.unit("kubelet")
        # In check mode, a changed file has not caused the restart yet.
        if not self._changes and not self._restarts.pending(unit):
            return
        self._changes.append("kubelet: restarted; pods continue to run")
        if self._module.check_mode:
            return
        since = datetime.now(timezone.utc)
        self._systemd.do("restart", unit.name)
        self._await_lease(since)
        self._restarts.clear(unit)

    def _kubeconfigs(self) -> None:
        for name in ("admin.conf", "super-admin.conf"):
            self._file(name)

    def _file(self, name: str, restarts: str = "") -> None:
        path = under(self._root, f"{_ETC}/{name}")
        text = read_text(path)
        if text is None:
            return
        try:
            changed = with_endpoint(text, self._new, self._former)
        except DomainError as error:
            raise DomainError(f"Error while changing the endpoint in {path}: {error}. Nothing was changed.") from None
        if changed == text:
            return
        before = read_kubeconfig(text).server
        self._changes.append(f"{name}: {before} -> https://{self._new}")
        # The file contains keys.
        self._diff.append(difference(path, f"server: {before}\n", f"server: https://{self._new}\n"))
        if self._module.check_mode:
            return
        self._await_api(changed, path)
        if restarts:
            self._restarts.note(restarts)
        write_text(path, changed)
        sync_directory(path.parent)

    def _await_api(self, text: str, path: Path) -> None:
        """Wait until the new endpoint answers these credentials. Raise DomainError."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                Api(read_kubeconfig(text), self._module.tmpdir, self._root).get("/readyz")
                return
            except (ApiSilentError, ApiRefusedError) as error:
                if time.monotonic() >= deadline:
                    raise DomainError(
                        f"Error while changing the endpoint in {path}: {error}. The file was not changed, and the "
                        "former endpoint is still valid."
                    ) from error
            time.sleep(_PAUSE_S)

    def _await_lease(self, since: datetime) -> None:
        """Wait until the restarted kubelet has renewed the lease of its node. Raise DomainError."""
        node = membership(self._root)["node_name"]
        text = read_text(under(self._root, f"{_ETC}/kubelet.conf")) or ""
        deadline = time.monotonic() + self._timeout
        said = "its node is unknown"
        while node:
            try:
                api = Api(read_kubeconfig(text), self._module.tmpdir, self._root)
                spec = as_mapping(as_mapping(api.get(_LEASE.format(node)).body).get("spec"))
                said = f"it renewed the lease of its node {node} last at {as_text(spec.get('renewTime')) or 'no time'}"
                if _is_since(as_text(spec.get("renewTime")), since):
                    return
            except (ApiSilentError, ApiRefusedError) as error:
                said = str(error)
            if time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_S)
        raise DomainError(
            f"Error while restarting the kubelet with its new endpoint: {said}. See journalctl -u kubelet, and run "
            f"this again.{self._systemd.journal('kubelet')}"
        )

    def _cluster(self) -> None:
        text = read_text(under(self._root, f"{_ETC}/admin.conf"))
        if text is None:
            raise DomainError("Error while changing the endpoint in the cluster: this host has no admin.conf")
        api = Api(read_kubeconfig(text), self._module.tmpdir, self._root, read_only=self._module.check_mode)
        self._config_map(api, *_PROXY)
        self._kube_proxy(api)
        for place in _INFO:
            self._config_map(api, *place)

    def _config_map(self, api: Api, namespace: str, name: str, key: str) -> None:
        path = _MAPS.format(namespace, name)
        found = self._retry(lambda: api.get(path), path)
        # A cluster may have another service proxy.
        if found.status == 404:
            return
        text = as_text(as_mapping(as_mapping(found.body).get("data")).get(key))
        try:
            changed = with_endpoint(text, self._new, self._former)
        except DomainError as error:
            raise DomainError(
                f"Error while changing the endpoint in the ConfigMap {name} in {namespace}: {error}. Change it there "
                f"(kubectl -n {namespace} edit configmap {name}), and run this again."
            ) from None
        if changed != text:
            self._changes.append(f"ConfigMap {name} in {namespace}: the endpoint is {self._new}")
            self._diff.append(difference(Path(path), text, changed))
            body = {**found.body, "data": {**found.body["data"], key: changed}}
            self._retry(lambda: api.send("PUT", path, body), path)

    def _kube_proxy(self, api: Api) -> None:
        """Let kube-proxy read its kubeconfig again, and wait for all its pods."""
        found = self._retry(lambda: api.get(_DAEMONSET), _DAEMONSET)
        if found.status == 404:
            return
        body = copy.deepcopy(found.body)
        annotations = body["spec"]["template"].setdefault("metadata", {}).setdefault("annotations", {})
        if annotations.get(_ANNOTATION) != self._new:
            self._changes.append("DaemonSet kube-proxy in kube-system: restarted; connections continue")
            annotations[_ANNOTATION] = self._new
            self._retry(lambda: api.send("PUT", _DAEMONSET, body), _DAEMONSET)
        deadline = time.monotonic() + max(self._timeout, 300)
        while not self._module.check_mode:
            missing = rollout_missing(as_mapping(self._retry(lambda: api.get(_DAEMONSET), _DAEMONSET).body))
            if not missing:
                return
            if time.monotonic() >= deadline:
                raise DomainError(
                    f"Error while restarting kube-proxy with its new endpoint: {missing}. See kubectl -n kube-system "
                    "get pods -l k8s-app=kube-proxy -o wide, and run this again; the former endpoint is still valid."
                )
            time.sleep(_PAUSE_S)

    def _retry(self, request: Any, path: str) -> Any:
        """Return the result of a request that is repeated while the API is silent or the object changes."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return request()
            except ApiSilentError as error:
                if time.monotonic() >= deadline:
                    raise DomainError(f"Error while changing the endpoint in the cluster: {error}") from error
            except (ApiConflictError, ApiRefusedError) as error:
                raise DomainError(
                    f"Error while changing the endpoint in the cluster: {error} ({path}). Run this again."
                ) from error
            time.sleep(_PAUSE_S)


def rollout_missing(daemonset: Mapping[str, Any]) -> str:
    """Return what a DaemonSet's rollout lacks, empty if all its pods are of the current template and available."""
    status, metadata = as_mapping(daemonset.get("status")), as_mapping(daemonset.get("metadata"))
    wanted = _number(status.get("desiredNumberScheduled"))
    if _number(status.get("observedGeneration")) < _number(metadata.get("generation")):
        return "its controller has not seen the change yet"
    updated, available = _number(status.get("updatedNumberScheduled")), _number(status.get("numberAvailable"))
    return "" if min(updated, available) >= wanted else f"{min(updated, available)} of {wanted} nodes have a new pod"


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _is_since(text: str, since: datetime) -> bool:
    try:
        found = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return False
    return found >= since.replace(microsecond=0)
