# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find what differs between a control plane and the configuration that it is to have. Nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import DomainError
from .._files import read_text, under
from .._json import as_mapping
from .._words import abridged, listing
from . import leaves
from .manifests import API_SERVER, COMPONENTS, ETCD, compare, settings, with_membership
from .run import Kubeadm
from .undo import Undo

_MANIFESTS = "/etc/kubernetes/manifests"
_ENDPOINT = "metadata.annotations.kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"
_ONLY = "neither in the cluster's configuration nor in the inventory"


@dataclass
class Plan:
    """What differs: the new ``manifests`` by component, the API server's ``serving`` certificate and key by path,
    whether all certificates are to be ``renewed``, and ``edits`` that are kept, of which a new manifest would lose
    those in ``lost``."""

    manifests: dict[str, str] = field(default_factory=dict)
    serving: dict[str, bytes] = field(default_factory=dict)
    renewed: bool = False
    changes: list[str] = field(default_factory=list)
    edits: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return bool(self.manifests or self.serving or self.renewed)


class Differences:
    """What differs on this host. ``module`` has the parameters of kubeadm_control_plane.

    A file that an interrupted change has left counts as it was before, because it is undone first.
    """

    def __init__(self, module: Any, kubeadm: Kubeadm, undo: Undo, node: Mapping[str, Any]) -> None:
        params = module.params
        self._root: str = params["root"]
        self._kubeadm, self._undo = kubeadm, undo
        self._node = node
        self._cluster: Mapping[str, Any] = params["cluster"]
        self._recorded: Mapping[str, Any] | None = params["recorded"]
        self._keep_names: list[str] = params["keep_names"]

    def add_to(self, plan: Plan) -> None:
        """Add the manifests and the certificate that differ. Raise DomainError if they must not be replaced."""
        self._node = self._as_it_runs()
        self._plan_manifests(plan)
        self._plan_serving(plan)

    def undone(self) -> list[str]:
        """Return what differs from the files as they were before an interrupted change."""
        changes: list[str] = []
        for component in COMPONENTS:
            text, original = (
                read_text(under(self._root, manifest_of(component))),
                self._undo.original(manifest_of(component)),
            )
            if original is None or text == original:
                continue
            try:
                found = compare(component, settings(text or "", component), settings(original, component))
                changes += map(str, found.changes)
            except DomainError:
                changes.append(f"{component}: its manifest, which is damaged, is restored")
        others = [name for name in self._undo.names if name.endswith((".crt", ".conf"))]
        if any(read_text(under(self._root, name)) != self._undo.original(name) for name in others):
            changes.append("certificates: those from before the interrupted change")
        return [f"undone: {line}" for line in changes]

    def _as_it_runs(self) -> Mapping[str, Any]:
        """Return InitConfiguration with the name and the addresses of this control plane.

        It may have been created with others than the inventory now has, and they can't change.
        """
        found = [self._present(manifest_of(component)) for component in (API_SERVER, ETCD)]
        server, etcd = (settings(text, name) if text else {} for text, name in zip(found, (API_SERVER, ETCD)))
        return node_of(self._node, server, etcd)

    def _plan_manifests(self, plan: Plan) -> None:
        self._kubeadm.validate(leaves.documents(self._node, self._cluster))
        wanted = self._render(self._cluster)
        recorded = self._render(self._recorded) if self._recorded is not None else {}
        for component, text in wanted.items():
            running = self._present(manifest_of(component))
            if running is None:
                raise DomainError(
                    f"Error while comparing {component} with its configuration: {manifest_of(component)} is missing. "
                    "Restore it from a backup, or stop what moved it away."
                )
            found = compare(
                component,
                settings(running, component),
                settings(text, component),
                settings(recorded[component], component) if component in recorded else None,
            )
            own = [each for each in found.edits if each.before is not None]
            if found.changes and own:
                raise DomainError(_refusal(component, f"the manifest has settings that are {_ONLY}", own))
            if not found.changes:
                plan.edits += map(str, found.edits)
                plan.lost += [str(each) for each in own if each.setting != "image"]
            else:
                # What was removed by hand, or an older kubeadm did not write, comes with the new manifest.
                plan.changes += map(str, found.edits)
                plan.manifests[component] = with_membership(text, running) if component == ETCD else text
                plan.changes += map(str, found.changes)

    def _plan_serving(self, plan: Plan) -> None:
        certificate = leaves.SERVING[1]
        present = leaves.serving_names(self._present(certificate))
        kept = [name for name in self._keep_names if name in present]
        wanted = leaves.with_names(self._cluster, kept)
        made = leaves.new_serving_certificate(self._kubeadm, self._root, self._node, wanted)
        if not made:
            leaves.check_without_key(present, leaves.configured_names(self._cluster))
            return
        recorded = leaves.configured_names(self._recorded) if self._recorded is not None else None
        found = leaves.compare_names(present, leaves.serving_names(made[certificate].decode()), recorded)
        plan.edits += [f"kube-apiserver: name {name} in its certificate" for name in found.edits]
        if found.differ and found.edits:
            raise DomainError(_refusal("kube-apiserver", f"its certificate has names that are {_ONLY}", found.edits))
        if found.differ:
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

    def _present(self, name: str) -> str | None:
        original = self._undo.original(name)
        return read_text(under(self._root, name)) if original is None else original


def manifest_of(component: str) -> str:
    return f"{_MANIFESTS}/{component}.yaml"


def node_of(node: Mapping[str, Any], server: Mapping[str, str], etcd: Mapping[str, str]) -> dict[str, Any]:
    """Return InitConfiguration with what the running API server and etcd have been given by kubeadm."""
    address, _colon, port = server.get(_ENDPOINT, "").rpartition(":")
    port = server.get("--secure-port") or port
    local = {"advertiseAddress": address.strip("[]")} if address else {}
    numbered = {"bindPort": int(port)} if port.isdigit() else {}
    name = {"name": etcd["--name"]} if etcd.get("--name") else {}
    changed = {
        "localAPIEndpoint": {**as_mapping(node.get("localAPIEndpoint")), **local, **numbered},
        "nodeRegistration": {**as_mapping(node.get("nodeRegistration")), **name},
    }
    return {**node, **{key: value for key, value in changed.items() if value}}


def _refusal(component: str, what: str, edits: Iterable[Any]) -> str:
    found = listing(abridged(map(str, edits)))
    return (
        f"Error while changing {component}: {what}, so the change would remove them: {found}. Add them to "
        "kubeadm_cluster_configuration and run gpulab.kubernetes.site to keep them, or remove them by hand. Nothing "
        "was changed."
    )
