# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join a host to a cluster, or report which cluster it already belongs to."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._backup import restore_record
from .._command import CommandError
from .._errors import DomainError
from .._files import ASIDE, move_aside, put_file, read_text, time_stamp, under
from .._json import as_mapping
from .._words import listing
from . import join_decision as state
from . import join_record
from .damage import KUBELET_CERTIFICATE, KUBELET_CONF, SIGNERS, damaged_files, kubelet_runs
from .init_evidence import ETCD_DATA, etcd_data
from .join_command import is_ca_hash
from .kubeconfig import Kubeconfig, host_port, read_kubeconfig
from .leftovers import clean_control_plane
from .membership import lost_name, node_name
from .probe import Api, ApiRefusedError, ApiSilentError
from .run import Kubeadm
from .x509 import CertificateError, certificates, public_key_hash

# Files that ``kubeadm join`` leaves if it is interrupted. The last two exist after that only if files are damaged.
_LEFTOVERS = (
    "/etc/kubernetes/bootstrap-kubelet.conf",
    "/etc/kubernetes/pki/ca.crt",
    "/var/lib/kubelet/config.yaml",
    "/var/lib/kubelet/instance-config.yaml",
    "/var/lib/kubelet/kubeadm-flags.env",
    KUBELET_CONF,
    KUBELET_CERTIFICATE,
)
_IN_THE_WAY = _LEFTOVERS[:2]
_CONTROL_PLANE = ("manifests/kube-apiserver.yaml", "pki/ca.key")
# kubeadm sets it in its last step on a control plane.
_MARK = "node-role.kubernetes.io/control-plane"
# A kubelet registers its node some time after it got its certificate.
_REGISTRATION = 300.0
# kubeadm does not let a host join while its node is Ready, as it still is for some time after a power failure.
_STILL_READY = re.compile(r'status "Ready" already exists in the cluster')
_UNTIL_NOT_READY, _PAUSE = 120.0, 2.0
# How long containers of a failed attempt may take to end.
_ENDING = 60.0


@dataclass(frozen=True)
class Wanted:
    """The cluster to join. ``config`` is a whole JoinConfiguration in YAML, else one is made of the rest.

    The role gives ``config``; whoever calls the module alone needs no template. ``discovery`` is the kubeconfig that
    ``config`` names, if it does.
    """

    host: str | None
    port: int | None
    token: str | None
    ca_cert_hashes: tuple[str, ...]
    config: str | None
    ignored: tuple[str, ...]
    node_name: str | None
    discovery: str | None = None
    control_plane: bool = False
    # Text by path, of a host that becomes a control plane.
    pki: Mapping[str, str] = field(default_factory=dict)

    def configuration(self) -> str:
        if self.config:
            return self.config
        if not (self.host and self.port and self.token and self.ca_cert_hashes):
            raise DomainError(
                "Error while joining the cluster: this host does not belong to a cluster yet, and the data for "
                "joining one is missing. Set config, or api_endpoint, token and ca_cert_hashes (kubeadm_join_info "
                "returns them)."
            )
        discovery = {
            "token": self.token,
            "apiServerEndpoint": host_port(self.host, self.port),
            "caCertHashes": list(self.ca_cert_hashes),
        }
        configuration: dict[str, Any] = {
            "apiVersion": "kubeadm.k8s.io/v1beta4",
            "kind": "JoinConfiguration",
            "discovery": {"bootstrapToken": discovery},
        }
        if self.control_plane:
            configuration["controlPlane"] = {}
        if self.node_name:
            configuration["nodeRegistration"] = {"name": self.node_name}
        return json.dumps(configuration)


@dataclass
class Outcome:
    changed: bool
    joined: bool
    reason: str
    node_name: str | None = None
    resumed: bool = False
    moved_aside: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class KubeadmJoin:
    """Runs ``kubeadm join``. ``module`` is an AnsibleModule, ``root`` the root directory."""

    def __init__(self, module: Any, executable: str, timeout: float, patience: float, root: str) -> None:
        self._module = module
        self._kubeadm = Kubeadm(module, executable, timeout, root)
        self._patience = patience
        self._root = root
        self._etc = under(root, "/etc/kubernetes")

    def apply(self, wanted: Wanted) -> Outcome:
        wrong = [value for value in wanted.ca_cert_hashes if not is_ca_hash(value)]
        if wrong:
            raise DomainError(f"Error while joining the cluster: {wrong[0]!r} is not a CA hash, sha256:<64 hex digits>")
        if not self._module.check_mode:
            self._kubeadm.wait_for_others()
        verdict, found = self._decide(wanted)
        late = False
        if verdict.action == state.CLEAN and not self._module.check_mode:
            # The kubelet of an interrupted join may get its certificate at any moment.
            self._kubeadm.stop_kubelet()
            try:
                verdict, found = self._decide(wanted)
            except DomainError:
                self._kubeadm.runner.run(["systemctl", "start", "kubelet"])
                raise
            late = verdict.action == state.JOINED
        if late:
            self._kubeadm.runner.check(["systemctl", "start", "kubelet"], "starting the kubelet")
        joined, clean = verdict.action == state.JOINED, verdict.action == state.CLEAN
        changed = late or not joined or found.bootstrap_conf
        outcome = Outcome(changed, joined, verdict.reason, found.node, clean, [], verdict.warnings)
        if self._module.check_mode:
            return outcome
        if joined:
            # The file contains a token and is no longer needed.
            put_file(self._etc / "bootstrap-kubelet.conf", None)
            if found.recorded and self._kubeadm.sync():
                join_record.forget(self._root)
            return outcome
        self._join(wanted, clean, outcome)
        # kubeadm exits when the kubelet has its certificate, before the node is registered.
        found = self._ask(self._gather(wanted.control_plane))
        if found.api == state.DELETED:
            raise DomainError(
                "Error while joining the cluster: the kubelet has its certificate, but has not registered the node "
                f"{found.node} within {self._patience:g} s. See journalctl -u kubelet on this host, and run again."
            )
        outcome.joined = True
        outcome.node_name = found.node
        return outcome

    def _join(self, wanted: Wanted, clean: bool, outcome: Outcome) -> None:
        configuration, deadline = wanted.configuration(), time.monotonic() + (_UNTIL_NOT_READY if clean else 0)
        _check_pki(wanted)
        join_record.write(self._root, wanted.ca_cert_hashes, wanted.control_plane)
        aside = under(self._root, f"{ASIDE}{time_stamp()}")
        while True:
            if clean:
                # What a failed attempt has left replaces files of the same names there.
                moved = self._clean(configuration, aside) if wanted.control_plane else []
                moved += move_aside([under(self._root, path) for path in _LEFTOVERS], self._root, aside)
                outcome.moved_aside = list(dict.fromkeys([*outcome.moved_aside, *moved]))
            for path, text in wanted.pki.items():
                put_file(under(self._root, path), text.encode(), 0o644 if path.endswith((".crt", ".pub")) else 0o600)
            try:
                doing = "joining the cluster"
                if self._kubeadm.run_with("join", configuration, wanted.ignored, doing, wanted.discovery):
                    join_record.forget(self._root)
                return
            except CommandError as error:
                if not _STILL_READY.search(str(error)) or time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE)

    def _clean(self, configuration: str, aside: Path) -> list[str]:
        data = etcd_data(self._root, damaged_files(self._root, True)) or ETCD_DATA
        return clean_control_plane(self._kubeadm, self._root, configuration, data, aside, _ENDING, "a join")

    def _decide(self, wanted: Wanted) -> tuple[state.Verdict, state.Evidence]:
        found = self._gather(wanted.control_plane)
        if found.kubelet_conf and not state.belongs_elsewhere(found, wanted.ca_cert_hashes):
            found = self._ask(found)
        decide = state.decide_control_plane if wanted.control_plane else state.decide
        verdict = decide(found, wanted.ca_cert_hashes)
        if verdict.action == state.REFUSE:
            raise DomainError(f"Error while joining the cluster: {verdict.reason}. {verdict.advice}")
        return verdict, found

    def _gather(self, control_plane: bool) -> state.Evidence:
        record = join_record.read(self._root)
        found = state.Evidence(
            recorded=record is not None,
            restoring=restore_record.is_interrupted(self._root),
            bootstrap_conf=(self._etc / "bootstrap-kubelet.conf").exists(),
            control_plane=any((self._etc / name).exists() for name in _CONTROL_PLANE),
            leftovers=tuple(path for path in _IN_THE_WAY if under(self._root, path).exists()),
            damaged=damaged_files(self._root, control_plane and (self._etc / _CONTROL_PLANE[0]).exists()),
            admin_conf=(self._etc / "admin.conf").exists(),
            kubelet_runs=kubelet_runs(self._root),
        )
        text, ca = read_text(self._etc / "kubelet.conf"), read_text(self._etc / "pki/ca.crt") or ""
        if text is None or KUBELET_CONF in found.damaged:
            hashes = tuple(_hashes(ca))
            recorded = record.ca_cert_hashes if record else ()
            return replace(
                found, ca_cert_hashes=hashes or recorded, joining=bool(record and record.makes_control_plane(hashes))
            )
        config = read_kubeconfig(text)
        hashes = tuple(_hashes(config.authority(self._root) or ca))
        return replace(
            found,
            kubelet_conf=True,
            server=config.server,
            ca_cert_hashes=hashes,
            joining=bool(record and record.makes_control_plane(hashes)),
            node=self._node(config),
        )

    def _node(self, config: Kubeconfig) -> str | None:
        text = config.client_certificate
        if text is None and config.client_certificate_file:
            text = read_text(under(self._root, config.client_certificate_file))
        return node_name(text or "") or None

    def _ask(self, found: state.Evidence) -> state.Evidence:
        if not found.node:
            return found
        path = self._etc / "kubelet.conf"
        try:
            api = Api(read_kubeconfig(read_text(path) or ""), self._module.tmpdir, self._root)
            fresh = time.time() - path.stat().st_mtime < _REGISTRATION
            deadline = time.monotonic() + (self._patience if fresh else 0)
            while (answer := api.get(f"/api/v1/nodes/{found.node}")).status == 404:
                if time.monotonic() >= deadline:
                    return replace(found, api=state.DELETED)
                time.sleep(0.5)
        except ApiRefusedError as error:
            return replace(found, api=state.REFUSED, api_message=str(error))
        except ApiSilentError as error:
            # The run writes the name before the host joins.
            if self._module.check_mode and lost_name(self._root, found.server):
                return found
            return replace(found, api=state.SILENT, api_message=str(error))
        metadata = as_mapping(as_mapping(answer.body).get("metadata"))
        return replace(found, api=state.KNOWN, marked=_MARK in as_mapping(metadata.get("labels")))


def _check_pki(wanted: Wanted) -> None:
    """Check what a host gets that becomes a control plane: the CAs and keys of the cluster, and nothing else."""
    missing, unknown = {*SIGNERS} - {*wanted.pki}, {*wanted.pki} - {*SIGNERS}
    if unknown or (wanted.control_plane and missing):
        wrong = f"{listing(sorted(missing))} missing" if missing else f"{listing(sorted(unknown))} is not one of them"
        raise DomainError(
            f"Error while joining the cluster: the CAs and keys of the control planes are incomplete: {wrong}. Set pki "
            "(kubeadm_join_info returns it)."
        )


def _hashes(pem: str) -> Sequence[str]:
    try:
        return sorted({public_key_hash(certificate) for certificate in certificates(pem)})
    except CertificateError:
        return []
