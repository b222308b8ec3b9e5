# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore a control plane from the parts of a verified backup. Each step can be repeated after an interruption.

What the host had is moved aside, never deleted. The restored etcd is a cluster of one new member with a token of its
own, so that members of the former one can't join it. Its revision is increased and everything before is compacted, so
that no client keeps a state of the lost time (https://github.com/etcd-io/etcd/issues/16028).
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from .._command import CommandError, Runner
from .._errors import DomainError
from .._files import (
    ASIDE,
    make_directory,
    move_aside,
    put_file,
    read_text,
    sync_path,
    text_or_nothing,
    time_stamp,
    under,
)
from .._json import as_mapping, as_text
from .._kubeadm import undo
from .._kubeadm.damage import (
    COMPONENTS,
    FILES,
    KUBELET_CERTIFICATE,
    KUBELET_CONF,
    KUBELET_CONFIGURATION,
    PKI,
    SIGNERS,
    damaged_files,
)
from .._kubeadm.init_evidence import ETCD_DATA, etcd_data
from .._kubeadm.kubeconfig import KubeconfigError, read_kubeconfig
from .._kubeadm.leaves import documents, node_configuration
from .._kubeadm.leftovers import CONFS, still_there
from .._kubeadm.manifests import ETCD, probe
from .._kubeadm.membership import RECORD as NAMES
from .._kubeadm.membership import recorded_names
from .._kubeadm.run import Kubeadm
from .._kubeadm.static_pods import StaticPods
from .._kubeadm.x509 import certificates, is_valid, public_key_hash
from .._words import listing
from . import manifest as backup
from .configuration import configuration, data_directory, encryption_file, with_names
from .manifest import Manifest
from .restore_record import DONE, RECORD, read_record

DIRECTORY = "/var/lib/gpulab/restore"
_BUMP = 1_000_000_000
_MANIFESTS = "/etc/kubernetes/manifests"
_KUBELET_PKI = "/var/lib/kubelet/pki"
_RESTORED = "restored"
_ENDING = 120.0
_INTERVAL = 1.0
_CONFS = ("admin", "super-admin", "controller-manager", "scheduler")


class Restore:
    """A restore on this host. ``module`` has the parameters of cluster_restore, ``digest`` is the archive's."""

    def __init__(self, module: Any, digest: str) -> None:
        params = module.params
        self._module = module
        self._root: str = params["root"]
        self._digest = digest
        self._runner = Runner(module, timeout=params["timeout"])
        self._kubeadm = Kubeadm(module, params["executable"], params["timeout"], self._root)
        self._pods = StaticPods(module, self._root, params["health_timeout"])
        self._record = self._path(RECORD)
        self._found = read_record(read_text(self._record))
        if self._found and self._found["archive"] != digest and self._found["step"] != DONE:
            raise DomainError(
                f"Error while restoring this host: the restore of another archive (SHA-256 {self._found['archive']}) "
                "was interrupted. Repeat that one with its archive. What the host had before is in "
                f"/var/lib/gpulab/aside-*; to restore the present archive instead, remove {self._record}."
            )

    @property
    def is_done(self) -> bool:
        """Return whether this archive was restored, and what it made is still there: a second run loses nothing."""
        made = (f"{_MANIFESTS}/{ETCD}.yaml", f"{(etcd_data(self._root) or ETCD_DATA).rstrip('/')}/member")
        is_there = all(self._path(name).exists() for name in made)
        return is_there and bool(self._found) and self._found["archive"] == self._digest and self._found["step"] == DONE

    @property
    def is_interrupted(self) -> bool:
        return bool(self._found) and self._found["step"] != DONE

    def apply(self, manifest: Manifest, parts: Path, names: Collection[str] = ()) -> list[str]:
        """Restore, or continue with the step in which an earlier run was interrupted. Return what was moved aside.

        ``names`` are those by which nodes reach the API, and that the archive may not have: a later migration gives
        them to the API server's certificate.
        """
        self._kubeadm.wait_for_others()
        config = configuration((parts / backup.CONFIGURATION).read_text(), self._module.params["kubernetes_version"])
        config = with_names(config, names)
        if not self.is_interrupted:
            data = sorted({etcd_data(self._root) or ETCD_DATA, data_directory(config)})
            keeps = self._keeps_kubelet(manifest)
            self._found = {"archive": self._digest, "cluster": manifest.cluster, "aside": data, "kubelet": keeps}
            self._note("")
        moved: list[str] = []
        steps: dict[str, Callable[[], object]] = {
            "stop": self._stop,
            "aside": lambda: moved.extend(self._move_aside()),
            "database": lambda: self._restore_database(parts / backup.DATABASE, config),
            "keys": lambda: self._write_keys(manifest, parts, config),
            "configuration": lambda: self._configure(config),
            "start": self._start,
            "node": lambda: self._finish(config),
        }
        order = [*steps]
        begin = order.index(self._found["step"]) + 1 if self._found["step"] in order else 0
        if 0 < begin <= order.index("configuration"):
            # The kubelet may have started again with the host.
            self._stop()
        for step in order[begin:]:
            steps[step]()
            self._note(step)
        self._note(DONE)
        return moved

    def _note(self, step: str) -> None:
        self._found["step"] = step
        put_file(self._record, json.dumps({"schema": 1, **self._found}).encode(), 0o600)

    def _stop(self) -> None:
        """Stop what uses the data. Other pods of this host continue to run."""
        self._kubeadm.stop_kubelet()
        deadline = time.monotonic() + _ENDING
        while True:
            self._pods.stop_all()
            left = still_there(self._runner, self._root, "6443")
            if not left:
                return
            if time.monotonic() >= deadline:
                raise DomainError(
                    f"Error while stopping the control plane: still there: {listing(left)}. Check crictl ps and "
                    "journalctl -u containerd, or reboot this host; then run again. No data were changed."
                )
            time.sleep(_INTERVAL)

    def _move_aside(self) -> list[str]:
        confs = [f"/etc/kubernetes/{name}.conf" for name in CONFS if name != "kubelet"]
        names = [f"{_MANIFESTS}/{name}.yaml" for name in COMPONENTS]
        if not self._found["kubelet"]:
            names += [KUBELET_CONF, _KUBELET_PKI]
        data = [f"{directory.rstrip('/')}/member" for directory in self._found["aside"]]
        # A new stamp for each attempt: what is moved twice must not be moved into itself.
        into = under(self._root, f"{ASIDE}{time_stamp()}")
        moved = move_aside([self._path(name) for name in (*names, *confs, PKI, *data)], self._root, into)
        # A change or an upgrade that was interrupted is neither continued nor undone in what is restored.
        undo.forget(self._root)
        return moved

    def _keeps_kubelet(self, manifest: Manifest) -> bool:
        """Return whether this host's kubelet belongs to the cluster of the archive, and can start."""
        if {KUBELET_CONF, KUBELET_CONFIGURATION, KUBELET_CERTIFICATE} & {*damaged_files(self._root, False)}:
            return False
        try:
            found = read_kubeconfig(read_text(self._path(KUBELET_CONF)) or "")
            # Its CA may be in a file that is moved aside.
            authority = found.authority(self._root)
            hashes = [public_key_hash(each) for each in certificates(authority or "")]
            file = self._path(found.client_certificate_file or KUBELET_CERTIFICATE)
            # A kubelet with an expired certificate needs an API server, which none starts without a kubelet.
            own = certificates(found.client_certificate or read_text(file) or "")[0]
            return manifest.ca in hashes and is_valid(own)
        except (KubeconfigError, DomainError):
            return False

    def _restore_database(self, snapshot: Path, config: str) -> None:
        directory = self._path(data_directory(config))
        if (directory / "member").exists():
            # The step before has moved the former data, so this is what an interrupted run has restored.
            return
        work = directory / _RESTORED
        shutil.rmtree(work, ignore_errors=True)
        make_directory(directory, 0o700)
        node, url = self._member()
        argv = [self._module.params["etcdutl"], "snapshot", "restore", str(snapshot), "--data-dir", str(work)]
        argv += ["--name", node, "--initial-cluster", f"{node}={url}", "--initial-advertise-peer-urls", url]
        argv += ["--initial-cluster-token", f"restored-{self._digest[:12]}-{time_stamp()}"]
        argv += ["--bump-revision", str(_BUMP), "--mark-compacted"]
        self._runner.check(argv, "restoring the snapshot of etcd")
        for path in sorted(work.rglob("*")):
            sync_path(path)
        (work / "member").replace(directory / "member")
        sync_path(directory)
        shutil.rmtree(work, ignore_errors=True)

    def _member(self) -> tuple[str, str]:
        node = self._module.params["node"]
        name = as_text(as_mapping(node.get("nodeRegistration")).get("name"))
        address = as_text(as_mapping(node.get("localAPIEndpoint")).get("advertiseAddress"))
        return name, f"https://{f'[{address}]' if ':' in address else address}:2380"

    def _write_keys(self, manifest: Manifest, parts: Path, config: str) -> None:
        """Write what signs certificates and tokens. kubeadm creates the certificates of this host."""
        for name in manifest.parts:
            path = f"/etc/kubernetes/{name}"
            if name.startswith(backup.PKI) and (path in SIGNERS or path not in FILES):
                mode = 0o600 if name.endswith(".key") else 0o644
                put_file(self._path(path), (parts / name).read_bytes(), mode)
        encryption = encryption_file(config)
        if encryption and backup.ENCRYPTION in manifest.parts:
            put_file(self._path(encryption), (parts / backup.ENCRYPTION).read_bytes(), 0o600)
        names = f"{backup.RECORD}{Path(NAMES).name}"
        if names in manifest.parts and not recorded_names(text_or_nothing(self._root, NAMES))["name"]:
            put_file(self._path(NAMES), (parts / names).read_bytes())

    def _configure(self, config: str) -> None:
        whole, new = self._documents(config), not self._found["kubelet"]
        # A power failure may have damaged what an interrupted run has created. What was there before was moved aside.
        for path in FILES:
            if path not in SIGNERS and (new or path not in (KUBELET_CONF, KUBELET_CONFIGURATION, KUBELET_CERTIFICATE)):
                self._path(path).unlink(missing_ok=True)
        self._phase(["certs", "all"], whole, "creating the certificates of this host")
        for name in (*_CONFS, *(["kubelet"] if new else [])):
            self._phase(["kubeconfig", name], whole, f"creating {name}.conf")
        for arguments in (["etcd", "local"], ["control-plane", "all"]):
            self._phase(arguments, whole, f"creating the manifests of {arguments[0]}")
        if new or not self._path(KUBELET_CONFIGURATION).exists():
            self._phase(["kubelet-start"], whole, "configuring the kubelet")
        # kubeadm syncs nothing that it writes.
        self._kubeadm.sync()

    def _start(self) -> None:
        self._runner.check(["systemctl", "restart", "kubelet"], "starting the kubelet")
        # Nothing else becomes healthy without etcd.
        for component in (ETCD, *(name for name in COMPONENTS if name != ETCD)):
            path = self._path(f"{_MANIFESTS}/{component}.yaml")
            self._pods.await_healthy(component, probe(read_text(path) or "", component), [path])

    def _finish(self, config: str) -> None:
        """Give the node what a control plane has; nothing changes if it has this already."""
        whole = self._documents(config)
        self._phase(["kubelet-finalize", "all"], whole, "letting the kubelet renew its certificate")
        self._phase(["mark-control-plane"], whole, "labeling the node")
        self._kubeadm.sync()

    def _documents(self, config: str) -> str:
        node = node_configuration(self._root, self._module.params["node"])
        return f"{documents(node, *self._module.params['kubelet'])}---\n{config}"

    def _phase(self, arguments: list[str], config: str, doing: str) -> None:
        try:
            self._kubeadm.phase(["init", "phase", *arguments], config, doing)
        except CommandError as error:
            raise CommandError(f"{error} The next run continues with this step.", **error.fields) from error

    def _path(self, name: str) -> Path:
        return under(self._root, name)
