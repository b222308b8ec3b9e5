# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Initialize the first control plane, resume an interrupted init, or leave a finished one unchanged."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import ASIDE, move_aside, put_file, time_stamp, under, write_text
from . import init_decision as state
from . import join_record, undo
from .damage import COMPONENTS, with_companions
from .init_evidence import ETCD_DATA, RECORD, etcd_data, gather, init_record
from .leftovers import api_port, clean_control_plane
from .run import Kubeadm


@dataclass
class Outcome:
    changed: bool
    initialized: bool
    reason: str
    evidence: dict[str, Any]
    moved_aside: list[str] = field(default_factory=list)


class KubeadmInit:
    """Runs ``kubeadm init``. ``module`` is an AnsibleModule, ``root`` the root directory."""

    def __init__(
        self, module: Any, executable: str, timeout: float, patience: float, root: str, ending: float = 60
    ) -> None:
        self._module = module
        self._kubeadm = Kubeadm(module, executable, timeout, root)
        self._patience = patience
        self._ending = ending
        self._root = root
        self._etc = under(root, "/etc/kubernetes")
        self._record = under(root, RECORD)

    def apply(self, config: str, ignored: Sequence[str]) -> Outcome:
        """Initialize the control plane. Raise DomainError if kubeadm fails or only a person can decide."""
        if not self._module.check_mode:
            self._kubeadm.wait_for_others()
        found = gather(self._module, self._root, self._patience)
        verdict = state.decide(found)
        evidence = asdict(found)
        if verdict.action == state.REFUSE:
            raise DomainError(
                f"Error while initializing the control plane: {verdict.reason}. {verdict.advice}", evidence=evidence
            )
        finished = verdict.action == state.FINISHED
        outcome = Outcome(not finished or found.began, finished, verdict.reason, evidence)
        if self._module.check_mode:
            return outcome
        if finished:
            # Left by a run that was killed after kubeadm had finished, or that could not sync.
            outcome.changed = found.began and self._kubeadm.sync() and self._forget()
            return outcome
        self._kubeadm.validate(config)
        # Of a cluster that was on this host before.
        undo.forget(self._root)
        join_record.forget(self._root)
        wanted = _data_directory(config)
        data = etcd_data(self._root, found.damaged) or wanted
        self._begin(wanted if verdict.action == state.INIT else data, bare=verdict.action == state.INIT)
        if verdict.action == state.CLEAN:
            self._clean(config, data, outcome)
            self._begin(wanted)
        if verdict.action == state.RESUME:
            # kubeadm makes missing files, but fails if one is damaged.
            paths = [under(self._root, path) for path in with_companions(found.remade)]
            outcome.moved_aside = move_aside(paths, self._root, self._aside())
            ignored = [*ignored, *self._own_traces(config, data)]
        if self._kubeadm.run_with("init", config, ignored, "initializing the control plane"):
            self._forget()
        outcome.initialized = True
        return outcome

    def _forget(self) -> bool:
        """Remove the record of an init that has finished; return whether it is removed."""
        try:
            put_file(self._record, None)
        except OSError as error:
            self._module.warn(f"Error while removing {self._record}: {error.strerror}. The next run removes it.")
            return False
        return True

    def _own_traces(self, config: str, data: str) -> list[str]:
        """Return the preflight checks that fail because of what this init has already created.

        They are listed one by one because kubeadm rejects ``all`` together with checks named in its configuration.
        """
        ports = [api_port(config), "2379", "2380", "10250", "10257", "10259"]
        files = [f"FileAvailable--etc-kubernetes-manifests-{name}.yaml" for name in COMPONENTS]
        directory = f"DirAvailable-{data.rstrip('/').replace('/', '-')}"
        return [*files, *(f"Port-{number}" for number in ports), directory]

    def _begin(self, data: str, bare: bool = False) -> None:
        """Record that an init begins, with etcd's directory, and which files were in /etc/kubernetes before it."""
        record = init_record(self._root)
        if not self._record.exists():
            files = sorted(path for path in self._etc.rglob("*") if path.is_file()) if bare else []
            record = {"began": time_stamp(), "before": [str(path.relative_to(self._etc)) for path in files]}
        if record.get("etcd") != data:
            write_text(self._record, json.dumps({**record, "etcd": data}), mode=0o600)

    def _clean(self, config: str, data: str, outcome: Outcome) -> None:
        aside = self._aside()
        cleaned = clean_control_plane(self._kubeadm, self._root, config, data, aside, self._ending, "an init")
        outcome.moved_aside += cleaned
        self._restore()

    def _aside(self) -> Path:
        return under(self._root, f"{ASIDE}{time_stamp()}")

    def _restore(self) -> None:
        """Restore the files that were in /etc/kubernetes before the first init, such as a user's CA or static pods."""
        record = init_record(self._root)
        began, before = str(record.get("began") or ""), record.get("before")
        # An earlier cleanup may have been interrupted after it moved them.
        places = [path for path in under(self._root, ASIDE).parent.glob("aside-*") if path.name >= f"aside-{began}"]
        for name in map(str, before if isinstance(before, list) else ()):
            for place in sorted(places, reverse=True):
                kept = place / self._etc.relative_to(self._root) / name
                if kept.is_file() and not (self._etc / name).exists():
                    was = kept.stat()
                    put_file(self._etc / name, kept.read_bytes(), stat.S_IMODE(was.st_mode), (was.st_uid, was.st_gid))


def _data_directory(config: str) -> str:
    """Return the directory that etcd gets with a configuration, empty if it can't be read."""
    found = re.search(r"(?:^|[{,])[ \t]*[\"']?dataDir[\"']?[ \t]*:[ \t]*[\"']?(/[^\s\"'#,}]+)", config, re.MULTILINE)
    return found[1] if found else "" if "dataDir" in config else ETCD_DATA
