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

import contextlib
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .._errors import DomainError, reported
from .._files import put_file, read_text, under
from .._json import as_mapping
from .._words import listing
from . import leaves
from .components import Components, component_tags
from .damage import KUBELET_CONFIGURATION
from .differences import manifest_of
from .etcd_gate import EtcdGate
from .hasten import Hastener
from .manifests import API_SERVER, COMPONENTS, ETCD, image, image_tag, probe, tag, with_image
from .run import Kubeadm
from .static_pods import StaticPods
from .undo import CHANGING, NONE, UNDOING, UPGRADE, Undo
from .upgrade_info import COPIES

APPLY, NODE, REPAIR = "apply", "node", "repair"
_NUMBER = re.compile(r"-?[0-9][0-9-]*$")
_AGAIN = "run gpulab.kubernetes.upgrade_cluster again"
_RESTORE = (
    "etcd may have written with its new minor already, so its former version is not used any more. Repair the "
    f"cause, and {_AGAIN}: it continues here. If that is impossible, restore the backup that was taken before the "
    "upgrade (gpulab.kubernetes.restore, docs/restore.md), which loses what has changed since."
)
_DOING = "Error while upgrading the control plane:"


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

    def ensure(self) -> dict[str, Any]:
        """Upgrade the host. Raise DomainError if it failed; the message says what is in place then."""
        check = self._module.check_mode
        if not check:
            self._kubeadm.wait_for_others()
        if self._module.params["action"] == REPAIR:
            return self._repair()
        if not self._manifests():
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

    def _repair(self) -> dict[str, Any]:
        """Let the API return after an interruption, so that the upgrade can be planned again."""
        if self._undo.state == NONE or self._undo.kind != UPGRADE:
            return self._result(False, "", ())
        gone = [name for name in leaves.expired(self._root) if name != leaves.SUPER_ADMIN]
        if gone:
            raise DomainError(
                f"{_DOING} it was interrupted, and certificates have expired ({listing(gone)}). Run "
                "gpulab.kubernetes.renew_certificates first. Nothing was changed."
            )
        check, lost = self._module.check_mode, self._lost()
        changes = [f"restored {name}" for name in lost]
        if self._undo.state == CHANGING and lost:
            if not check:
                self._restore_lost(lost, needs_quorum=False)
        elif self._undo.state == UNDOING or not self._answers():
            why = (
                "whose undo was interrupted" if self._undo.state == UNDOING else "because the API server is not healthy"
            )
            changes = [f"restored the files from before the upgrade, {why}"]
            if not check:
                self._go_back()
        return self._result(bool(changes), "", changes, interrupted=True)

    def _answers(self) -> bool:
        """Return whether the API server on this host is healthy, or becomes so; a preview does not wait.

        Raise DomainError if it can't because etcd is not: no other file of this host would help.
        """
        if self._module.check_mode:
            return not self._reason(API_SERVER)
        try:
            self._components.wait(API_SERVER, [])
        except (DomainError, OSError):
            etcd = self._reason(ETCD) if ETCD in self._manifests() else ""
            if etcd and any(each.running for each in self._pods.containers(ETCD)):
                raise DomainError(
                    f"{_DOING} it was interrupted, and etcd runs, but is not healthy ({etcd}). If there are several "
                    f"control planes, start the others, because it needs a quorum. Then {_AGAIN}. Nothing was changed."
                ) from None
            return False
        return True

    def _reason(self, component: str) -> str:
        """Return why a component is not healthy now, empty if it is."""
        return self._pods.reason(component, probe(read_text(self._path(manifest_of(component))) or "", component))

    def _go_back(self) -> None:
        """Restore the files from before the upgrade; if etcd has moved to a new minor, its manifest stays."""
        self._keep_certificates()
        try:
            if self._has_new_etcd():
                self._components.undo_all_but(manifest_of(ETCD))
            else:
                # The program that could ask etcd for its quorum may not be installed yet.
                self._components.undo(needs_quorum=False)
        except (DomainError, OSError) as error:
            raise DomainError(
                f"{_DOING} it was interrupted, and the control plane did not become healthy with the files from "
                f"before: {reported(error)}\nThese are copied in {self._undo.copies}. Repair the cause, and {_AGAIN}."
            ) from error

    def _keep_certificates(self) -> None:
        """Let an undo keep certificates that were renewed since the upgrade began, because the former ones expire."""
        names = leaves.renewed_files(self._root)
        with contextlib.suppress(DomainError, OSError):
            leaves.check_whole(self._root, names)
            if not leaves.expired(self._root):
                self._undo.copy_again(names)

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
        for name, running in self._tags().items():
            if wanted[name] and running != wanted[name]:
                yield f"{name}: {running or 'damaged'} -> {wanted[name]}"

    def _run(self, action: str, interrupted: bool) -> None:
        self._check_version()
        self._check_images()
        self._pods.check_kubelet()
        if self._undo.state == UNDOING:
            self._keep_certificates()
            self._components.undo()
            interrupted = False
        if interrupted and self._lost():
            self._restore_lost(self._lost())
        if not interrupted:
            text = read_text(self._path(manifest_of(ETCD)))
            if text is not None:
                self._etcd.ask(text, restarts=True)
            names = [*map(manifest_of, self._manifests()), *leaves.renewed_files(self._root), KUBELET_CONFIGURATION]
            names = [name for name in names if self._path(name).exists()]
            settings = {"action": action, "version": self._version, "etcd": self._module.params["etcd"]}
            self._undo.begin(names, UPGRADE, settings)
        try:
            # Attempts that failed have left copies, too.
            self._prune()
            self._call(action)
            self._await_all()
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
        if not wanted or ETCD not in self._manifests():
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

    def _lost(self) -> list[str]:
        """Return files that were lost or cut off when the host lost its power, or kubeadm was killed between two
        renames."""
        manifests = [name for name in self._undo.names if name.endswith(".yaml") and not self._tag_of(name)]
        return [*manifests, *(name for name in self._undo.restorable() if name not in manifests)]

    def _tag_of(self, name: str) -> str:
        return image_tag(read_text(self._path(name)) or "", Path(name).stem) if name != KUBELET_CONFIGURATION else "-"

    def _restore_lost(self, names: list[str], needs_quorum: bool = True) -> None:
        """Restore what was lost, and wait until everything is healthy. Raise DomainError.

        A new etcd may have written already what a former one can't read, so its manifest gets the new image.
        """
        self._undo.put_back([name for name in names if name != manifest_of(ETCD)])
        text, wanted = self._undo.original(manifest_of(ETCD)), str(self._undo.settings.get("etcd") or "")
        if manifest_of(ETCD) in names and text:
            former = image(text, ETCD)
            reference = former.partition("@")[0].removesuffix(f":{tag(former)}")
            new = with_image(text, ETCD, f"{reference}:{wanted}") if wanted else text
            put_file(self._path(manifest_of(ETCD)), new.encode(), 0o600)
        # If the kubelet has not noticed that a manifest was lost, its container is from before the upgrade.
        try:
            self._await_all(self._undo.since, needs_quorum)
        except (DomainError, OSError) as error:
            raise DomainError(
                f"{_DOING} files that its interruption had lost were restored, but {reported(error)}\nRepair the "
                f"cause, and {_AGAIN}."
            ) from error

    def _await_all(self, before: float = 0, needs_quorum: bool = True) -> None:
        """Wait until all components are healthy, with containers that are newer than their manifests, or from
        ``before``. A manifest with the same text as before the upgrade needs no new container."""
        for component in self._manifests():
            name = manifest_of(component)
            is_same = read_text(self._path(name)) == self._undo.original(name)
            self._components.wait(component, [name], self._undo.since if is_same else before, needs_quorum)

    def _is_healthy(self) -> bool:
        try:
            self._await_all()
        except (DomainError, OSError):
            return False
        return True

    def _fail(self, error: DomainError) -> None:
        """Raise the error, after the files from before are in place again, if these can still be used."""
        found = [tag for name, tag in self._tags().items() if name != ETCD]
        if all(each == self._version for each in found) and self._is_healthy():
            raise DomainError(
                f"{_DOING} {error}\nAll its components are healthy, and have the new version. To complete the upgrade, "
                f"{_AGAIN}.",
                **error.fields,
            ) from error
        if self._has_new_etcd():
            raise DomainError(f"{_DOING} {error}\n{_RESTORE}", **error.fields) from error
        self._keep_certificates()
        self._components.fail(
            error,
            _DOING,
            "The files from before are in place again, and the control plane is healthy. The configuration in the "
            "cluster, kube-proxy and CoreDNS may have the new version already. Repair the cause, and "
            f"{_AGAIN}.",
        )

    def _has_new_etcd(self) -> bool:
        """Return whether etcd on this host has moved to another minor, or may have."""
        if ETCD not in self._manifests():
            return False
        before = image_tag(self._undo.original(manifest_of(ETCD)) or "", ETCD)
        now = self._tags()[ETCD] or str(self._undo.settings.get("etcd") or "")
        return now.split(".")[:2] != before.split(".")[:2]

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

    def _tags(self) -> dict[str, str]:
        """Return the image tags of the components of this host, empty ones for manifests that were lost."""
        found = component_tags(self._root)
        return {name: found.get(name, "") for name in self._manifests()}

    def _manifests(self) -> list[str]:
        """Return the components of this host, also those whose manifest an interruption has lost."""
        names = self._undo.names if self._undo.kind == UPGRADE else []
        return [name for name in COMPONENTS if manifest_of(name) in names or self._path(manifest_of(name)).exists()]

    def _path(self, name: str) -> Path:
        return under(self._root, name)
