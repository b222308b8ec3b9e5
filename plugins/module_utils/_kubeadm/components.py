# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until the components of a control plane are healthy after a change, and restore the files from before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from .._errors import DomainError, reported
from .._files import read_text, under
from . import leaves
from .differences import manifest_of
from .etcd_gate import EtcdGate
from .manifests import COMPONENTS, ETCD, image_tag, probe
from .static_pods import StaticPods, UnhealthyError
from .undo import Undo


def component_tags(root: str) -> dict[str, str]:
    """Return the image tags of the static pods of this host, empty ones for damaged manifests."""
    texts = {name: read_text(under(root, manifest_of(name))) for name in COMPONENTS}
    return {name: image_tag(text, name) for name, text in texts.items() if text is not None}


class Components:
    """The components of the control plane on this host, and the record of their change."""

    def __init__(self, root: str, pods: StaticPods, etcd: EtcdGate, undo: Undo) -> None:
        self._root, self._pods, self._etcd, self._undo = root, pods, etcd, undo

    def files_of(self, component: str) -> list[str]:
        """Return the files that the component reads, and that the change has copies of."""
        read = (manifest_of(component), *leaves.READ_BY[component])
        return [name for name in read if name in self._undo.names]

    def wait(self, component: str, files: Iterable[str], before: float = 0, needs_quorum: bool = True) -> None:
        """Wait until a component is healthy, with a container that is newer than its ``files``, or from ``before``.

        Of etcd, also wait for a quorum, if it ``needs_quorum``. Raise UnhealthyError.
        """
        text = read_text(under(self._root, manifest_of(component))) or ""
        try:
            paths = [under(self._root, name) for name in files]
            self._pods.await_healthy(component, probe(text, component), paths, before)
            if component == ETCD and needs_quorum:
                self._etcd.wait(text)
        except UnhealthyError as error:
            raise UnhealthyError(f"{component} is not healthy: {error}", **error.fields) from error

    def reason(self, component: str) -> str:
        """Return why a component is not healthy now, empty if it is."""
        text = read_text(under(self._root, manifest_of(component))) or ""
        return self._pods.reason(component, probe(text, component))

    def undo(self, needs_quorum: bool = True) -> None:
        """Restore the files as they were before the change, wait until everything is healthy, and forget the change."""
        self._run_with(self._undo.restore(), needs_quorum)
        self._undo.end()

    def undo_all_but(self, name: str) -> None:
        """Restore the files as they were before the change, but not this one, and wait. The change is not forgotten."""
        self._run_with(self._undo.put_back([each for each in self._undo.names if each != name]), needs_quorum=False)

    def _run_with(self, restored: Sequence[str], needs_quorum: bool) -> None:
        """Let all components run with their files, of which some were ``restored``, and wait."""
        for component in reversed(COMPONENTS):
            names = self.files_of(component)
            paths = [under(self._root, name) for name in names]
            if manifest_of(component) not in restored and names and self._pods.is_stale(component, paths):
                self._pods.restart(component)
            if names:
                self.wait(component, names, self._undo.since, needs_quorum)

    def fail(self, error: DomainError, doing: str, undone: str) -> NoReturn:
        """Undo the change, and raise its error with what is in place then: ``undone``, or the copies of the files."""
        try:
            self.undo()
        except (DomainError, OSError) as another:
            raise DomainError(
                f"{doing} {error}\nIt could not be undone: {reported(another)}\nThe files as they were before are "
                f"copied in {self._undo.copies}; the next run continues to undo the change.",
                **error.fields,
            ) from another
        raise DomainError(f"{doing} {error}\n{undone}", undone=True, **error.fields) from error
