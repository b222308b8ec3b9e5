# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring this host's control plane back after an upgrade of it was interrupted, so that the API answers again."""

from __future__ import annotations

import contextlib
from pathlib import Path

from .._errors import DomainError, reported
from .._files import put_file, read_text, under
from .._words import listing
from . import leaves
from .components import Components, component_tags
from .damage import KUBELET_CONFIGURATION
from .differences import manifest_of
from .manifests import API_SERVER, COMPONENTS, ETCD, image, image_tag, tag, with_image
from .static_pods import StaticPods
from .undo import UNDOING, Undo

DOING = "Error while upgrading the control plane:"
AGAIN = "run gpulab.kubernetes.upgrade_cluster again"


class Repair:
    """The components of this host and the record of their upgrade. In check mode (``check``), nothing changes."""

    def __init__(self, root: str, pods: StaticPods, components: Components, undo: Undo, check: bool) -> None:
        self._root, self._pods, self._components, self._undo, self._check = root, pods, components, undo, check

    def run(self) -> list[str]:
        """Let the API return, so that the upgrade can be planned again. Return what this changes. Raise DomainError."""
        gone = [name for name in leaves.expired(self._root) if name != leaves.SUPER_ADMIN]
        if gone:
            raise DomainError(
                f"{DOING} it was interrupted, and certificates have expired ({listing(gone)}). Run "
                "gpulab.kubernetes.renew_certificates first. Nothing was changed."
            )
        undoing, lost = self._undo.state == UNDOING, self.lost()
        if lost and not undoing:
            if not self._check:
                self.restore(lost, needs_quorum=False)
            return [f"restored {name}" for name in lost]
        if not undoing and self._answers():
            return []
        if not self._check:
            self._go_back()
        why = "whose undo was interrupted" if undoing else "because the API server is not healthy"
        return [f"restored the files from before the upgrade, {why}"]

    def _answers(self) -> bool:
        """Return whether the API server on this host is healthy, or becomes so; a preview does not wait.

        Raise DomainError if it can't because etcd is not: no other file of this host would help.
        """
        if self._check:
            return not self._components.reason(API_SERVER)
        try:
            self._components.wait(API_SERVER, [])
        except (DomainError, OSError):
            etcd = self._components.reason(ETCD) if ETCD in self.manifests() else ""
            if etcd and any(each.running for each in self._pods.containers(ETCD)):
                raise DomainError(
                    f"{DOING} it was interrupted, and etcd runs, but is not healthy ({etcd}). If there are several "
                    f"control planes, start the others, because it needs a quorum. Then {AGAIN}. Nothing was changed."
                ) from None
            return False
        return True

    def _go_back(self) -> None:
        """Restore the files from before the upgrade; if etcd has moved to a new minor, its manifest stays."""
        self.keep_certificates()
        try:
            if self.has_new_etcd():
                self._components.undo_all_but(manifest_of(ETCD))
            else:
                # The program that could ask etcd for its quorum may not be installed yet.
                self._components.undo(needs_quorum=False)
        except (DomainError, OSError) as error:
            raise DomainError(
                f"{DOING} it was interrupted, and the control plane did not become healthy with the files from "
                f"before: {reported(error)}\nThese are copied in {self._undo.copies}. Repair the cause, and {AGAIN}."
            ) from error

    def keep_certificates(self) -> None:
        """Let an undo keep certificates that were renewed since the upgrade began, because the former ones expire."""
        names = leaves.renewed_files(self._root)
        with contextlib.suppress(DomainError, OSError):
            leaves.check_whole(self._root, names)
            if not leaves.expired(self._root):
                self._undo.copy_again(names)

    def lost(self) -> list[str]:
        """Return files that were lost or cut off when the host lost its power, or kubeadm was killed between two
        renames."""
        manifests = [name for name in self._undo.names if name.endswith(".yaml") and not self._tag_of(name)]
        return [*manifests, *(name for name in self._undo.restorable() if name not in manifests)]

    def _tag_of(self, name: str) -> str:
        return image_tag(read_text(self._path(name)) or "", Path(name).stem) if name != KUBELET_CONFIGURATION else "-"

    def restore(self, names: list[str], needs_quorum: bool = True) -> None:
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
            self.await_all(self._undo.since, needs_quorum)
        except (DomainError, OSError) as error:
            raise DomainError(
                f"{DOING} files that its interruption had lost were restored, but {reported(error)}\nRepair the "
                f"cause, and {AGAIN}."
            ) from error

    def await_all(self, before: float = 0, needs_quorum: bool = True) -> None:
        """Wait until all components are healthy, with containers that are newer than their manifests, or from
        ``before``. A manifest with the same text as before the upgrade needs no new container."""
        for component in self.manifests():
            name = manifest_of(component)
            is_same = read_text(self._path(name)) == self._undo.original(name)
            self._components.wait(component, [name], self._undo.since if is_same else before, needs_quorum)

    def has_new_etcd(self) -> bool:
        """Return whether etcd on this host has moved to another minor, or may have."""
        if ETCD not in self.manifests():
            return False
        before = image_tag(self._undo.original(manifest_of(ETCD)) or "", ETCD)
        now = self.tags()[ETCD] or str(self._undo.settings.get("etcd") or "")
        return now.split(".")[:2] != before.split(".")[:2]

    def tags(self) -> dict[str, str]:
        """Return the image tags of the components of this host, empty ones for manifests that were lost."""
        found = component_tags(self._root)
        return {name: found.get(name, "") for name in self.manifests()}

    def manifests(self) -> list[str]:
        """Return the components of this host, also those whose manifest an interruption has lost."""
        names = self._undo.names if self._undo.is_upgrade else []
        return [name for name in COMPONENTS if manifest_of(name) in names or self._path(manifest_of(name)).exists()]

    def _path(self, name: str) -> Path:
        return under(self._root, name)
