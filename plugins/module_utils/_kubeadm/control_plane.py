# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Change the configuration or the certificates of one control plane; what does not become healthy is undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._errors import DomainError, reported
from .._files import put_file, read_text, sync_directory, under
from .._json import as_mapping
from .._words import listing
from . import cluster_settings, leaves
from .etcd_gate import EtcdGate
from .manifests import COMPONENTS, ETCD, compare, image, probe, settings, with_membership
from .run import Kubeadm
from .static_pods import StaticPods, UnhealthyError
from .undo import CHANGING, NONE, NOTHING, UNDO, Undo, next_step

KEEP, EXPIRED, ALL = "keep", "expired", "all"
_MANIFESTS = "/etc/kubernetes/manifests"
# What a renewal takes from the configuration in the cluster.
_LIFETIMES = ("certificateValidityPeriod", "encryptionAlgorithm")


@dataclass
class Plan:
    """What differs: the new ``manifests`` by component, the API server's ``serving`` certificate and key by path,
    whether all certificates are to be ``renewed``, and ``edits`` that are kept."""

    manifests: dict[str, str] = field(default_factory=dict)
    serving: dict[str, bytes] = field(default_factory=dict)
    renewed: bool = False
    changes: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return bool(self.manifests or self.serving or self.renewed)


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
        self._node: Mapping[str, Any] = params["node"]
        self._cluster: Mapping[str, Any] = params["cluster"]
        self._recorded: Mapping[str, Any] | None = params["recorded"]

    def ensure(self) -> dict[str, Any]:
        """Apply what differs. Raise DomainError if it was refused, or undone because it was not healthy."""
        params, check = self._module.params, self._module.check_mode
        if not check:
            self._kubeadm.wait_for_others()
        interrupted = self._undo.state
        if not check and next_step(interrupted, False) == UNDO:
            self._pods.check_kubelet()
            self._put_back()
        plan = self._plan(params["certificates"])
        step = next_step(self._undo.state, plan.differs)
        result: dict[str, Any] = {
            "changed": step != NOTHING or interrupted != NONE,
            "changes": plan.changes,
            "edits": plan.edits,
            "restarted": self._affected(plan),
            "interrupted": interrupted != NONE,
            "uploaded": bool(params["upload"]),
            "diff": {"before": "", "after": "".join(f"{line}\n" for line in plan.changes)},
        }
        if not check and (step != NOTHING or params["verify"]):
            self._apply(plan, gated=params["certificates"] != EXPIRED)
        if params["upload"]:
            result["changed"] = True
            self._upload()
        return result

    def _plan(self, certificates: str) -> Plan:
        plan = Plan()
        if self._module.params["compare"]:
            self._plan_manifests(plan)
            self._plan_serving(plan)
        gone = leaves.expired(self._root) if certificates == EXPIRED else []
        plan.renewed = certificates == ALL or bool(gone)
        if plan.renewed:
            plan.changes.append(f"certificates: renewed{f' (expired: {listing(gone)})' if gone else ''}")
        return plan

    def _plan_manifests(self, plan: Plan) -> None:
        self._kubeadm.validate(leaves.documents(self._node, self._cluster))
        wanted = self._render(self._cluster)
        recorded = self._render(self._recorded) if self._recorded is not None else {}
        for component, text in wanted.items():
            running = read_text(self._path(_manifest(component)))
            if running is None:
                raise DomainError(
                    f"Error while comparing {component} with its configuration: {_manifest(component)} is missing. "
                    "Restore it from a backup, or stop what moved it away."
                )
            original = self._undo.original(_manifest(component))
            found = compare(
                component,
                settings(running, component),
                settings(text, component),
                settings(recorded[component], component) if component in recorded else None,
                settings(original, component) if original is not None else None,
            )
            plan.edits += map(str, found.edits)
            if found.changes and found.edits:
                raise DomainError(_refusal(component, f"the manifest has settings that are {_ONLY}", found.edits))
            if found.changes:
                plan.manifests[component] = with_membership(text, running) if component == ETCD else text
                plan.changes += map(str, found.changes)

    def _plan_serving(self, plan: Plan) -> None:
        made = leaves.new_serving_certificate(self._kubeadm, self._root, self._node, self._cluster)
        key, certificate = leaves.SERVING
        # A certificate that an interrupted change has left may be damaged.
        interrupted = key in self._undo.names
        text = self._undo.original(certificate) if interrupted else read_text(self._path(certificate))
        present = leaves.serving_names(text)
        if not made:
            leaves.check_without_key(present, _names(self._cluster))
            return
        recorded = _names(self._recorded) if self._recorded is not None else None
        found = leaves.compare_names(present, leaves.serving_names(made[certificate].decode()), recorded)
        plan.edits += [f"kube-apiserver: name {name} in its certificate" for name in found.edits]
        if found.differ and found.edits:
            raise DomainError(_refusal("kube-apiserver", f"its certificate has names that are {_ONLY}", found.edits))
        if found.differ or interrupted:
            plan.serving = made
            names = [*(f"+{name}" for name in found.missing), *(f"-{name}" for name in found.removed)]
            plan.changes.append(f"kube-apiserver: names in its certificate {listing(names)}")

    def _render(self, cluster: Mapping[str, Any]) -> dict[str, str]:
        """Return the manifests that kubeadm writes for this configuration, by component. Nothing is changed."""
        config, phase = leaves.documents(self._node, cluster), ["init", "phase"]
        with leaves.scratch(self._root) as directory:
            doing = "creating the manifests of the control plane"
            self._kubeadm.phase([*phase, "control-plane", "all"], config, doing, directory)
            self._kubeadm.phase([*phase, "etcd", "local"], config, doing, directory)
            found = {name: read_text(directory / f"{name}.yaml") for name in COMPONENTS}
        return {name: text for name, text in found.items() if text is not None}

    def _affected(self, plan: Plan) -> list[str]:
        there = [name for name in COMPONENTS if self._path(_manifest(name)).exists()]
        serving = ["kube-apiserver"] if plan.serving else []
        return [name for name in there if plan.renewed or name in plan.manifests or name in serving]

    def _apply(self, plan: Plan, gated: bool) -> None:
        affected = self._affected(plan)
        self._pods.check_kubelet()
        text = read_text(self._path(_manifest(ETCD)))
        # While a change is completed, its own restart may be the reason that etcd has no quorum.
        if gated and plan.differs and text is not None and self._undo.state != CHANGING:
            self._etcd.ask(text, restarts=ETCD in affected)
        for component, text in plan.manifests.items():
            self._pods.pull(image(text, component), self._module.params["timeout"])
        if plan.differs:
            renewed = leaves.renewed_files(self._root) if plan.renewed else []
            self._undo.begin([*map(_manifest, plan.manifests), *plan.serving, *renewed])
        try:
            self._write_certificates(plan)
            for component in COMPONENTS:
                self._settle(component, plan, gated)
            if gated:
                self._check_all()
            elif plan.renewed:
                # It waits up to five minutes before it starts again what has ended often.
                self._pods.restart_kubelet()
        except (DomainError, OSError) as error:
            if not gated or self._undo.state == NONE:
                raise
            self._fail(reported(error), repair=not (plan.differs or self._module.params["compare"]))
        self._undo.end()

    def _write_certificates(self, plan: Plan) -> None:
        if plan.renewed:
            # kubeadm reads the former certificates, which an interrupted renewal may have damaged.
            self._undo.put_back()
            compared = self._module.params["compare"]
            recorded = {} if compared else cluster_settings.configuration(self._module, self._root)
            lifetimes = {name: recorded[name] for name in _LIFETIMES if name in recorded}
            leaves.renew(self._kubeadm, self._root, leaves.documents(self._node, {**self._cluster, **lifetimes}))
        for name, data in plan.serving.items():
            path = self._path(name)
            put_file(path, data, 0o600 if name.endswith(".key") else 0o644)
            sync_directory(path.parent)

    def _settle(self, component: str, plan: Plan, gated: bool) -> None:
        """Make a component run with its files, and wait until it is healthy."""
        names = self._files_of(component)
        files = [self._path(name) for name in names]
        text = plan.manifests.get(component)
        if text is not None:
            path = self._path(_manifest(component))
            put_file(path, text.encode(), 0o600)
            sync_directory(path.parent)
        elif names and self._pods.is_stale(component, files):
            self._pods.restart(component)
        if names and gated:
            # The kubelet may not have noticed an interrupted change that is taken back.
            original = self._undo.original(_manifest(component))
            same = text is not None and original is not None and _same(text, original, component)
            self._await(component, files, self._undo.since if same else 0)

    def _files_of(self, component: str) -> list[str]:
        read = (_manifest(component), *leaves.READ_BY[component])
        return [name for name in read if name in self._undo.names]

    def _await(self, component: str, files: list[Path], before: float = 0) -> None:
        text = read_text(self._path(_manifest(component))) or ""
        try:
            self._pods.await_healthy(component, probe(text, component), files, before)
            if component == ETCD:
                self._etcd.wait(text)
        except UnhealthyError as error:
            raise UnhealthyError(f"{component} is not healthy: {error}", **error.fields) from error

    def _check_all(self) -> None:
        for component in COMPONENTS:
            if self._path(_manifest(component)).exists():
                self._await(component, [])

    def _fail(self, error: DomainError, repair: bool) -> None:
        """Undo the change and raise its error, unless this run only repairs what an interrupted one has left."""
        try:
            self._put_back()
        except (DomainError, OSError) as another:
            raise DomainError(
                f"Error while changing the control plane: {error}\nIt could not be undone: {reported(another)}\nThe "
                f"files as they were before are copied in {under(self._root, '/var/lib/gpulab/control-plane/before')}; "
                "the next run continues to undo the change.",
                **error.fields,
            ) from another
        said = f"{error}\nThe change was undone on this control plane, which is healthy again."
        if not repair:
            raise DomainError(f"Error while changing the control plane: {said}", undone=True, **error.fields) from error
        self._module.warn(f"A change of this control plane was interrupted: {said}")

    def _put_back(self) -> None:
        """Restore the files as they were before the change, and wait until everything is healthy."""
        since = self._undo.since
        restored = self._undo.restore()
        for component in reversed(COMPONENTS):
            names = self._files_of(component)
            files = [self._path(name) for name in names]
            if _manifest(component) not in restored and names and self._pods.is_stale(component, files):
                self._pods.restart(component)
            if names:
                self._await(component, files, since)
        self._undo.end()

    def _upload(self) -> None:
        if not self._module.check_mode:
            config = leaves.documents(self._node, self._cluster)
            doing = "storing the configuration in the cluster (ConfigMap kubeadm-config)"
            self._kubeadm.phase(["init", "phase", "upload-config", "kubeadm"], config, doing)

    def _path(self, name: str) -> Path:
        return under(self._root, name)


_ONLY = "neither in the cluster's configuration nor in the inventory"


def _names(cluster: Mapping[str, Any]) -> list[str]:
    return [str(name).lower() for name in as_mapping(cluster.get("apiServer")).get("certSANs") or []]


def _manifest(component: str) -> str:
    return f"{_MANIFESTS}/{component}.yaml"


def _same(text: str, other: str, component: str) -> bool:
    return settings(text, component) == settings(other, component)


def _refusal(component: str, what: str, edits: Iterable[Any]) -> str:
    return (
        f"Error while changing {component}: {what}, so the change would remove them: {listing(edits)}. Add them to "
        "kubeadm_cluster_configuration to keep them, or remove them by hand. Nothing was changed."
    )
