# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the endpoint of a running cluster where kubeadm stored it: kubeconfigs of hosts, and objects in the cluster.

kubeadm has no command for this (kubernetes/kubeadm, issues 338 and 1955). The former endpoint stays valid, so the parts
can be changed one after the other, and each change can be repeated.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import difference, read_text, under, write_text
from .._json import as_mapping, as_text
from .._systemd import Restarts, Systemd
from .endpoint_cluster import ClusterEndpoint
from .endpoint_text import with_endpoint
from .kubeconfig import read_kubeconfig
from .membership import membership
from .probe import Api, ApiRefusedError, ApiSilentError
from .text import instant

CHECK, KUBELET, KUBECONFIGS, CLUSTER = "check", "kubelet", "kubeconfigs", "cluster"
_ETC = "/etc/kubernetes"
_API_SERVER = f"{_ETC}/manifests/kube-apiserver.yaml"
_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{}"
_PAUSE_S = 1.0


@dataclass(frozen=True)
class _File:
    """A kubeconfig to change: its text, and the text that it must have."""

    path: Path
    before: str
    after: str


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
        parts = {CHECK: self._check, KUBELET: self._kubelet, KUBECONFIGS: self._kubeconfigs, CLUSTER: self._cluster}
        parts[self._module.params["part"]]()
        return {"changed": bool(self._changes), "changes": self._changes, "diff": self._diff}

    def _kubelet(self) -> None:
        # A control plane's kubelet uses its own API server, by its address.
        is_worker = not under(self._root, _API_SERVER).exists()
        file = self._planned("kubelet.conf") if is_worker else None
        unit = self._systemd.unit("kubelet")
        # In check mode, a changed file has not caused the restart yet.
        restarts = file is not None or self._restarts.pending(unit)
        if not restarts and not self._restarts.kept(unit):
            return
        if restarts:
            self._changes.append("kubelet: restarted; pods continue to run")
        node = membership(self._root)["node_name"]
        if not node:
            raise DomainError(
                "Error while changing the endpoint of the kubelet: the name of its node is not in "
                "/var/lib/kubelet/pki/kubelet-client-current.pem. Repair the kubelet first. Nothing was changed."
            )
        if self._module.check_mode:
            return
        if file:
            self._write(file, restarts="kubelet")
        try:
            since = datetime.now(timezone.utc)
            if restarts:
                self._systemd.do("restart", unit.name)
            self._await_lease(node, since)
        except DomainError as error:
            if file:
                # If this is killed, too, the next run restarts the kubelet.
                with contextlib.suppress(DomainError):
                    self._restarts.note(unit.name)
                write_text(file.path, file.before)
                self._systemd.do("restart", unit.name)
                raise DomainError(f"{error}\nThe former endpoint was put back, and the kubelet restarted.") from error
            raise
        self._restarts.clear(unit)

    def _kubeconfigs(self) -> None:
        for name in ("admin.conf", "super-admin.conf"):
            file = self._planned(name)
            if file and not self._module.check_mode:
                self._write(file)

    def _planned(self, name: str) -> _File | None:
        """Return the change of a kubeconfig, None if it does not exist, or needs none."""
        path = under(self._root, f"{_ETC}/{name}")
        text = read_text(path)
        if text is None:
            return None
        try:
            changed = with_endpoint(text, self._new, self._former)
        except DomainError as error:
            raise DomainError(f"Error while changing the endpoint in {path}: {error}. Nothing was changed.") from None
        if changed == text:
            return None
        before = read_kubeconfig(text).server
        self._changes.append(f"{name}: {before} -> https://{self._new}")
        # The file contains keys.
        self._diff.append(difference(path, f"server: {before}\n", f"server: https://{self._new}\n"))
        return _File(path, text, changed)

    def _write(self, file: _File, restarts: str = "") -> None:
        self._await_api(file.after, file.path)
        if restarts:
            self._restarts.note(restarts)
        write_text(file.path, file.after)

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

    def _await_lease(self, node: str, since: datetime) -> None:
        """Wait until the restarted kubelet has renewed the lease of its node. Raise DomainError."""
        text = read_text(under(self._root, f"{_ETC}/kubelet.conf")) or ""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                api = Api(read_kubeconfig(text), self._module.tmpdir, self._root)
                spec = as_mapping(as_mapping(api.get(_LEASE.format(node)).body).get("spec"))
                renewed = as_text(spec.get("renewTime"))
                reason = f"it renewed the lease of its node {node} last at {renewed or 'no time'}"
                if _is_since(renewed, since):
                    return
            except (ApiSilentError, ApiRefusedError) as error:
                reason = str(error)
            if time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_S)
        raise DomainError(
            f"Error while restarting the kubelet with its new endpoint: {reason}. See journalctl -u kubelet, and run "
            f"this again.{self._systemd.journal('kubelet')}"
        )

    def _check(self) -> None:
        self._objects().check()

    def _cluster(self) -> None:
        cluster = self._objects()
        cluster.ensure(wait=not self._module.check_mode)
        self._changes, self._diff = cluster.changes, cluster.diff

    def _objects(self) -> ClusterEndpoint:
        text = read_text(under(self._root, f"{_ETC}/admin.conf"))
        if text is None:
            raise DomainError("Error while changing the endpoint in the cluster: this host has no admin.conf")
        api = Api(read_kubeconfig(text), self._module.tmpdir, self._root, read_only=self._module.check_mode)
        return ClusterEndpoint(api, self._new, self._former, self._module.params["nodes"], self._timeout)


def _is_since(text: str, since: datetime) -> bool:
    try:
        return instant(text) >= since.replace(microsecond=0)
    except ValueError:
        return False
