# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrade this host's control plane, or a worker's kubelet configuration, with kubeadm.

kubeadm replaces one static pod after the other, and restores the manifest of one that does not start. What it does not
cover is covered here: a record before the first file changes, so that the next run continues after a kill or a power
cut; manifests that were lost between two renames; the health of all components afterwards; and the copies that it
leaves.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from .._errors import DomainError, reported
from .._files import read_text, under
from .._json import as_mapping
from .._words import listing
from . import leaves
from .components import Components
from .damage import KUBELET_CONFIGURATION
from .differences import manifest_of
from .etcd_gate import EtcdGate
from .hasten import Hastener
from .manifests import COMPONENTS, ETCD, tag
from .repair import AGAIN, DOING, Repair
from .run import Kubeadm
from .static_pods import StaticPods
from .undo import NONE, UNDOING, UPGRADE, Undo
from .upgrade_info import COPIES

APPLY, NODE, REPAIR = "apply", "node", "repair"
_NUMBER = re.compile(r"-?[0-9][0-9-]*$")
_RESTORE = (
    "etcd may have written with its new minor already, so its former version is not used any more. Repair the "
    f"cause, and {AGAIN}: it continues here. If that is impossible, restore the backup that was taken before the "
    "upgrade (gpulab.kubernetes.restore, docs/restore.md), which loses what has changed since."
)


class Upgrade:
    """The upgrade of this host. ``module`` has the parameters of kubeadm_upgrade."""

    def __init__(self, module: Any) -> None:
        params = module.params
        self._module = module
        self._root: str = params["root"]
        self._version = f"v{params['version']}"
        self._kubeadm = Kubeadm(module, params["executable"], params["timeout"], self._root)
        self._pods = StaticPods(module, self._root, params["health_timeout"])
        self._etcd = EtcdGate(module, self._root)
        self._undo = Undo(self._root)
        self._components = Components(self._root, self._pods, self._etcd, self._undo)
        self._repair = Repair(self._root, self._pods, self._components, self._undo, module.check_mode)

    def ensure(self) -> dict[str, Any]:
        """Upgrade the host. Raise DomainError if it failed; the message says what is in place then."""
        check = self._module.check_mode
        if not check:
            self._kubeadm.wait_for_others()
        if self._module.params["action"] == REPAIR:
            interrupted = self._undo.is_upgrade
            changes = self._repair.run() if interrupted else []
            return self._result(bool(changes), "", changes, interrupted)
        if not self._repair.manifests():
            return self._worker()
        if not check and self._undo.is_outdated:
            self._undo.end()
        interrupted = self._undo.state != NONE
        if interrupted and self._undo.kind != UPGRADE:
            raise DomainError(
                "Error while upgrading the control plane: another change of it was interrupted. Complete it first: "
                "gpulab.kubernetes.site -e cluster_control_plane_gap=allow. Nothing was changed."
            )
        action = str(self._undo.settings.get("action") or self._module.params["action"])
        changes = list(self._changes())
        pending = interrupted or action == APPLY or bool(changes)
        if pending and not check:
            self._run(action, interrupted)
            self._prune()
        return self._result(pending, action if pending else "", changes, interrupted)

    def _result(self, changed: bool, action: str, changes: Sequence[str], interrupted: bool = False) -> dict[str, Any]:
        return {
            "changed": changed,
            "action": action,
            "changes": list(changes),
            "interrupted": interrupted,
            "diff": {"before": "", "after": "".join(f"{line}\n" for line in changes)},
        }

    def _worker(self) -> dict[str, Any]:
        path = under(self._root, KUBELET_CONFIGURATION)
        before = read_text(path)
        if not self._module.check_mode:
            self._check_version()
            self._call(NODE)
            self._prune()
        changed = self._module.check_mode or read_text(path) != before
        return self._result(changed, NODE, ())

    def _changes(self) -> Iterator[str]:
        wanted = {name: self._version for name in COMPONENTS if name != ETCD}
        wanted[ETCD] = self._module.params["etcd"]
        for name, running in self._repair.tags().items():
            if wanted[name] and running != wanted[name]:
                yield f"{name}: {running or 'damaged'} -> {wanted[name]}"

    def _run(self, action: str, interrupted: bool) -> None:
        self._check_version()
        self._check_images()
        self._pods.check_kubelet()
        if self._undo.state == UNDOING:
            self._repair.keep_certificates()
            self._components.undo()
            interrupted = False
        lost = self._repair.lost() if interrupted else []
        if lost:
            self._repair.restore(lost)
        if not interrupted:
            text = read_text(under(self._root, manifest_of(ETCD)))
            if text is not None:
                self._etcd.ask(text, restarts=True)
            manifests = map(manifest_of, self._repair.manifests())
            names = [*manifests, *leaves.renewed_files(self._root), KUBELET_CONFIGURATION]
            names = [name for name in names if under(self._root, name).exists()]
            settings = {"action": action, "version": self._version, "etcd": self._module.params["etcd"]}
            self._undo.begin(names, UPGRADE, settings)
        try:
            # Attempts that failed have left copies, too.
            self._prune()
            self._call(action)
            self._repair.await_all()
            leaves.check_whole(self._root, self._undo.names)
        except (DomainError, OSError) as error:
            self._fail(reported(error))
        self._undo.end()

    def _check_version(self) -> None:
        found = self._kubeadm.run(["version", "--output", "short"], "asking kubeadm for its version").strip()
        if found != self._version:
            raise DomainError(
                f"Error while upgrading to {self._version}: kubeadm is {found[:40]}. Install its package of this "
                "version first. Nothing was changed."
            )

    def _check_images(self) -> None:
        """Refuse an etcd that the plan does not have: kubeadm chooses it by a table of its own."""
        wanted, cluster = self._module.params["etcd"], self._module.params["cluster"] or {}
        if not wanted or ETCD not in self._repair.manifests():
            return
        listed = self._kubeadm.images(leaves.documents({**cluster, "kubernetesVersion": self._version}))
        found = [tag(each) for each in listed if each.partition("@")[0].rpartition("/")[2].startswith(f"{ETCD}:")]
        if found != [wanted]:
            raise DomainError(
                f"Error while upgrading to {self._version}: kubeadm would install etcd {listing(found) or '?'}, and "
                f"not {wanted}. Set etcd.local.imageTag in kubeadm_cluster_configuration. Nothing was changed."
            )

    def _call(self, action: str) -> None:
        given = self._module.params["configuration"] or {}
        config = leaves.documents(
            {**given, APPLY: {**as_mapping(given.get(APPLY)), "kubernetesVersion": self._version}}
        )
        words = ["upgrade", APPLY, "--yes"] if action == APPLY else ["upgrade", NODE]
        try:
            with Hastener(self._root, self._pods).running():
                self._kubeadm.phase(words, config, f"upgrading this host to {self._version} (kubeadm upgrade {action})")
        finally:
            self._kubeadm.sync()

    def _is_healthy(self) -> bool:
        try:
            self._repair.await_all()
        except (DomainError, OSError):
            return False
        return True

    def _fail(self, error: DomainError) -> None:
        """Raise the error, after the files from before are in place again, if these can still be used."""
        found = [tag for name, tag in self._repair.tags().items() if name != ETCD]
        if all(each == self._version for each in found) and self._is_healthy():
            raise DomainError(
                f"{DOING} {error}\nAll its components are healthy, and have the new version. To complete the upgrade, "
                f"{AGAIN}.",
                **error.fields,
            ) from error
        if self._repair.has_new_etcd():
            raise DomainError(f"{DOING} {error}\n{_RESTORE}", **error.fields) from error
        self._repair.keep_certificates()
        self._components.fail(
            error,
            DOING,
            "The files from before are in place again, and the control plane is healthy. The configuration in the "
            "cluster, kube-proxy and CoreDNS may have the new version already. Repair the cause, and "
            f"{AGAIN}.",
        )

    def _prune(self) -> None:
        """Remove all but the newest of each kind of kubeadm's copies."""
        found = [
            path for path in under(self._root, COPIES).glob("kubeadm-*") if path.is_dir() and not path.is_symlink()
        ]
        seen: set[str] = set()
        for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True):
            kind = _NUMBER.sub("", path.name)
            if kind in seen:
                shutil.rmtree(path, ignore_errors=True)
            seen.add(kind)
