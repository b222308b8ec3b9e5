# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join a host to a cluster, or report which cluster it already belongs to."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .._command import CommandError
from .._errors import DomainError
from .._files import ASIDE, move_aside, put_file, read_text, time_stamp, under, write_text
from . import join_decision as state
from .damage import KUBELET_CERTIFICATE, KUBELET_CONF, damaged_files, kubelet_runs
from .join_command import is_ca_hash
from .kubeconfig import Kubeconfig, host_port, read_kubeconfig
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
# The CAs of the cluster that a join goes to, until the join is on the disk: a power failure may damage all other files
# that show them.
_RECORD = "/var/lib/gpulab/kubeadm-join.json"
# A kubelet registers its node some time after it got its certificate.
_REGISTRATION = 300.0
# kubeadm does not let a host join while its node is Ready, as it still is for some time after a power failure.
_STILL_READY = re.compile(r'status "Ready" already exists in the cluster')
_UNTIL_NOT_READY, _PAUSE = 120.0, 2.0


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
        if self.node_name:
            configuration["nodeRegistration"] = {"name": self.node_name}
        return json.dumps(configuration)


@dataclass
class Outcome:
    changed: bool
    joined: bool
    reason: str
    node_name: str | None = None
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
        self._record = under(root, _RECORD)

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
        joined = verdict.action == state.JOINED
        changed = late or not joined or found.bootstrap_conf
        outcome = Outcome(changed, joined, verdict.reason, found.node, [], verdict.warnings)
        if self._module.check_mode:
            return outcome
        if joined:
            # The file contains a token and is no longer needed.
            put_file(self._etc / "bootstrap-kubelet.conf", None)
            if self._record.exists() and self._kubeadm.sync():
                put_file(self._record, None)
            return outcome
        self._join(wanted, verdict.action == state.CLEAN, outcome)
        # kubeadm exits when the kubelet has its certificate, before the node is registered.
        found = self._ask(self._gather())
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
        write_text(self._record, json.dumps(wanted.ca_cert_hashes), mode=0o600)
        aside = under(self._root, f"{ASIDE}{time_stamp()}")
        while True:
            if clean:
                # What a failed attempt has left replaces files of the same names there.
                moved = move_aside([under(self._root, path) for path in _LEFTOVERS], self._root, aside)
                outcome.moved_aside = list(dict.fromkeys([*outcome.moved_aside, *moved]))
            try:
                doing = "joining the cluster"
                if self._kubeadm.run_with("join", configuration, wanted.ignored, doing, wanted.discovery):
                    put_file(self._record, None)
                return
            except CommandError as error:
                if not _STILL_READY.search(str(error)) or time.monotonic() >= deadline:
                    raise
            time.sleep(_PAUSE)

    def _decide(self, wanted: Wanted) -> tuple[state.Verdict, state.Evidence]:
        found = self._gather()
        if found.kubelet_conf and not state.belongs_elsewhere(found, wanted.ca_cert_hashes):
            found = self._ask(found)
        verdict = state.decide(found, wanted.ca_cert_hashes)
        if verdict.action == state.REFUSE:
            raise DomainError(f"Error while joining the cluster: {verdict.reason}. {verdict.advice}")
        return verdict, found

    def _gather(self) -> state.Evidence:
        found = state.Evidence(
            bootstrap_conf=(self._etc / "bootstrap-kubelet.conf").exists(),
            control_plane=any((self._etc / name).exists() for name in _CONTROL_PLANE),
            leftovers=tuple(path for path in _IN_THE_WAY if under(self._root, path).exists()),
            damaged=damaged_files(self._root, False),
            admin_conf=(self._etc / "admin.conf").exists(),
            kubelet_runs=kubelet_runs(self._root),
        )
        text, ca = read_text(self._etc / "kubelet.conf"), read_text(self._etc / "pki/ca.crt") or ""
        if text is None or KUBELET_CONF in found.damaged:
            return replace(found, ca_cert_hashes=tuple(_hashes(ca)) or self._recorded())
        config = read_kubeconfig(text)
        authority = config.authority(self._root) or ca
        return replace(
            found,
            kubelet_conf=True,
            server=config.server,
            ca_cert_hashes=tuple(_hashes(authority)),
            node=self._node(config),
        )

    def _recorded(self) -> tuple[str, ...]:
        """Return the CAs of the cluster of a join that has not finished."""
        try:
            found = json.loads(read_text(self._record) or "[]")
        except ValueError:
            return ()
        return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()

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
            while api.get(f"/api/v1/nodes/{found.node}").status == 404:
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
        return replace(found, api=state.KNOWN)


def _hashes(pem: str) -> Sequence[str]:
    try:
        return sorted({public_key_hash(certificate) for certificate in certificates(pem)})
    except CertificateError:
        return []
