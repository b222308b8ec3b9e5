# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the configuration or the certificates of one control plane; what does not become healthy is undone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._errors import DomainError, reported
from .._files import put_file, read_text, under
from .._words import abridged, listing
from . import cluster_settings, leaves
from .components import Components
from .differences import Differences, Plan, manifest_of
from .etcd_gate import EtcdGate
from .manifests import API_SERVER, COMPONENTS, ETCD, image
from .run import Kubeadm
from .static_pods import StaticPods
from .undo import CONFIGURATION, NONE, NOTHING, REFUSE, RENEWAL, REPEAT, UNDO, Undo, next_step

KEEP, EXPIRED, ALL = "keep", "expired", "all"
# What a renewal takes from the configuration in the cluster.
_LIFETIMES = ("certificateValidityPeriod", "encryptionAlgorithm")
# What a renewal needs of ClusterConfiguration.
_FOR_RENEWAL = ("apiVersion", "kind", "kubernetesVersion", "certificatesDir", "networking", *_LIFETIMES)


class ControlPlane:
    """The control plane on this host. ``module`` has the parameters of kubeadm_control_plane."""

    def __init__(self, module: Any) -> None:
        params = module.params
        self._module = module
        self._root: str = params["root"]
        self._kubeadm = Kubeadm(module, params["executable"], params["timeout"], self._root)
        self._pods = StaticPods(module, self._root, params["health_timeout"])
        self._etcd = EtcdGate(module, self._root)
        self._undo = Undo(self._root)
        self._components = Components(self._root, self._pods, self._etcd, self._undo)
        self._node = leaves.node_configuration(self._root, params["node"])
        self._differences = Differences(module, self._kubeadm, self._undo, self._node)
        self._cluster: Mapping[str, Any] = params["cluster"]
        self._check: bool = module.check_mode or not params["restart"]

    def ensure(self) -> dict[str, Any]:
        """Apply what differs. Raise DomainError if it was refused, or undone because it was not healthy."""
        params = self._module.params
        for configuration in (self._cluster, params["recorded"] or {}):
            leaves.check_directory(configuration)
        if not self._check:
            self._kubeadm.wait_for_others()
            if self._undo.is_outdated:
                self._undo.end()
        # An upgrade that continues does not use the copies.
        old = leaves.expired(self._undo.copies) if self._undo.names and not self._undo.is_upgrade else []
        step = next_step(self._undo.state, self._undo.kind, bool(old))
        # Expired certificates are renewed in any case: an upgrade can't be completed with them. Its record stays.
        verified = params["verify"] and not params["compare"] and params["certificates"] == KEEP
        if step == REFUSE and params["certificates"] != EXPIRED and not verified:
            raise DomainError(
                "Error while changing the control plane: its upgrade was interrupted. Complete it first: run "
                "gpulab.kubernetes.upgrade_cluster."
            )
        gone = sorted({*leaves.expired(self._root), *old}) if params["certificates"] == EXPIRED else []
        if gone or params["certificates"] == ALL or (step == REPEAT and not params["verify"]):
            leaves.check_clock(params["controller_time"])
            for warning in leaves.check_authorities(self._root):
                self._module.warn(warning)
        earlier, restarted = self._resume(step, gone)
        unread = [name for name in gone if name in leaves.UNREAD]
        if unread == gone:
            gone = []
            earlier += self._renew_unread(unread)
        # A renewal that was repeated counts as the wanted one.
        plan = self._plan(gone, everything=params["certificates"] == ALL and step != REPEAT)
        changes = abridged([*earlier, *plan.changes])
        pending = not params["restart"] and (step != NOTHING or plan.differs)
        uploaded = params["upload"] and not pending
        completed = step in (REPEAT, UNDO) and params["certificates"] != EXPIRED
        changed = bool(changes) or uploaded or completed
        result: dict[str, Any] = {
            "changed": changed and not pending,
            "changes": changes,
            "edits": abridged(plan.edits),
            "lost": abridged(plan.lost),
            "restarted": [name for name in COMPONENTS if name in (*restarted, *self._affected(plan))],
            "interrupted": step != NOTHING,
            "pending": pending,
            "uploaded": uploaded,
            "diff": {"before": "", "after": "".join(f"{line}\n" for line in changes)},
        }
        if plan.differs or params["verify"]:
            gated = params["certificates"] != EXPIRED
            if gated:
                self._ask_etcd(plan)
            if not self._check:
                self._apply(plan, gated)
        if uploaded:
            self._upload()
        return result

    def _resume(self, step: str, gone: list[str]) -> tuple[list[str], list[str]]:
        """Repeat or undo what was interrupted. Return what this changes, and the components that it restarts."""
        params, check = self._module.params, self._check
        if step == NOTHING or (step in (REPEAT, REFUSE) and params["verify"]):
            return [], []
        undone = self._differences.undone() if step == UNDO else []
        if params["certificates"] == EXPIRED:
            # With expired certificates, nothing can become healthy: a renewal begins with the files of before.
            return (self._restore_unread() if all(name in leaves.UNREAD for name in gone) else undone), []
        affected = [name for name in COMPONENTS if self._components.files_of(name)]
        if not check:
            self._pods.check_kubelet()
        if step == REPEAT:
            if not check:
                self._apply(Plan(renewed=True), gated=True)
            return ["certificates: renewed again, because their renewal was interrupted"], affected
        if not check:
            self._components.undo()
            self._module.warn(f"A change of this control plane was interrupted. {_UNDONE}")
        return undone, affected

    def _restore_unread(self) -> list[str]:
        """Restore what no component reads, such as admin.conf, which is needed to hold the lease of the cluster."""
        names = [name for name in self._undo.restorable() if name in leaves.UNREAD]
        if not self._check:
            self._undo.put_back(names)
        return [f"certificates: restored {listing(names)} (damaged)"] if names else []

    def _renew_unread(self, names: list[str]) -> list[str]:
        """Renew expired certificates that no component reads: nothing restarts. Return what this changes."""
        if names and not self._check:
            recorded = self._undo.state == NONE
            if recorded:
                self._undo.begin(names, RENEWAL, self._for_renewal())
            config = leaves.documents(self._node, self._for_renewal())
            leaves.renew(self._kubeadm, self._root, config, [leaves.UNREAD[name] for name in names])
            leaves.check_whole(self._root, names)
            if recorded:
                self._undo.end()
        return [f"certificates: renewed {listing(names)} (expired)"] if names else []

    def _plan(self, gone: list[str], everything: bool) -> Plan:
        plan = Plan(renewed=everything or bool(gone))
        if self._module.params["compare"]:
            self._differences.add_to(plan)
        if plan.renewed:
            plan.changes.append(f"certificates: renewed{f' (expired: {listing(gone)})' if gone else ''}")
        return plan

    def _affected(self, plan: Plan) -> list[str]:
        there = [name for name in COMPONENTS if self._path(manifest_of(name)).exists()]
        changed = {*plan.manifests, *([API_SERVER] if plan.serving else [])}
        return [name for name in there if plan.renewed or name in changed]

    def _ask_etcd(self, plan: Plan) -> None:
        """Raise DomainError if etcd forbids the change. A preview asks only if etcdctl is installed."""
        text = read_text(self._path(manifest_of(ETCD)))
        # An interrupted change may be the reason that etcd has no quorum.
        if not plan.differs or text is None or self._undo.state != NONE:
            return
        if not self._check or shutil.which(self._module.params["etcdctl"]):
            self._etcd.ask(text, restarts=ETCD in self._affected(plan))

    def _apply(self, plan: Plan, gated: bool) -> None:
        self._pods.check_kubelet()
        for component, text in plan.manifests.items():
            self._pods.pull(image(text, component), self._module.params["timeout"])
        if plan.differs and not self._undo.is_upgrade:
            renewed = leaves.renewed_files(self._root) if plan.renewed else []
            kind = CONFIGURATION if plan.manifests or plan.serving else RENEWAL
            names = [*map(manifest_of, plan.manifests), *plan.serving, *renewed]
            self._undo.begin(names, kind, self._for_renewal() if plan.renewed else {})
        try:
            self._write_certificates(plan)
            for component in COMPONENTS:
                self._settle(component, plan, gated)
            if gated:
                self._check_all()
                leaves.check_whole(self._root, self._undo.names)
            elif plan.renewed:
                # It waits up to five minutes before it starts again what has ended often.
                self._pods.restart_kubelet()
        except (DomainError, OSError) as error:
            if self._undo.is_upgrade and gated:
                raise DomainError(
                    f"Error while changing the control plane: {reported(error)}\nIts upgrade was interrupted. Complete "
                    "it: run gpulab.kubernetes.upgrade_cluster."
                ) from error
            if not gated or self._undo.state == NONE:
                raise
            self._fail(reported(error))
        if gated and not self._undo.is_upgrade:
            self._undo.end()

    def _for_renewal(self) -> Mapping[str, Any]:
        """Return the configuration for a renewal; one that is repeated has its own."""
        if self._undo.settings and not self._undo.is_upgrade:
            return self._undo.settings
        compared = self._module.params["compare"]
        recorded = {} if compared else cluster_settings.configuration(self._module, self._root)
        lifetimes = {name: recorded[name] for name in _LIFETIMES if name in recorded}
        leaves.check_directory(recorded)
        found = {**self._cluster, **lifetimes}
        return {name: found[name] for name in _FOR_RENEWAL if name in found}

    def _write_certificates(self, plan: Plan) -> None:
        if plan.renewed:
            # kubeadm reads the former certificates, which an interrupted renewal may have damaged.
            if self._undo.is_upgrade:
                self._undo.put_back([name for name in self._undo.restorable() if not name.endswith(".yaml")])
            else:
                self._undo.put_back()
            leaves.renew(self._kubeadm, self._root, leaves.documents(self._node, self._for_renewal()))
        for name, data in plan.serving.items():
            _write(self._path(name), data, 0o600 if name.endswith(".key") else 0o644)

    def _settle(self, component: str, plan: Plan, gated: bool) -> None:
        """Make a component run with its files, and wait until it is healthy."""
        names = self._components.files_of(component)
        files = [self._path(name) for name in names]
        text = plan.manifests.get(component)
        if text is not None:
            _write(self._path(manifest_of(component)), text.encode(), 0o600)
        elif names and self._pods.is_stale(component, files):
            self._pods.restart(component)
        if names and gated:
            self._components.wait(component, names)

    def _check_all(self) -> None:
        for component in COMPONENTS:
            if self._path(manifest_of(component)).exists():
                self._components.wait(component, [])

    def _fail(self, error: DomainError) -> None:
        """Undo the change and raise its error."""
        if leaves.expired(self._undo.copies):
            raise DomainError(
                f"Error while renewing certificates that have expired: {error}\nThe files as they were before are "
                f"copied in {self._undo.copies}; the next run of gpulab.kubernetes.renew_certificates repeats the "
                "renewal.",
                **error.fields,
            ) from error
        self._components.fail(error, "Error while changing the control plane:", _UNDONE)

    def _upload(self) -> None:
        if not self._module.check_mode:
            config = leaves.documents(self._node, self._cluster)
            doing = "storing the configuration in the cluster (ConfigMap kubeadm-config)"
            self._kubeadm.phase(["init", "phase", "upload-config", "kubeadm"], config, doing)

    def _path(self, name: str) -> Path:
        return under(self._root, name)


_UNDONE = "The change was undone on this control plane, which is healthy again."


def _write(path: Path, data: bytes, mode: int) -> None:
    """Replace a file, also one that a link refers to. It keeps its owner."""
    path = path.resolve()
    state = path.stat() if path.exists() else None
    put_file(path, data, mode, (state.st_uid, state.st_gid) if state else None)
