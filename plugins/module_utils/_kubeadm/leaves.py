# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The certificates of a control plane that are not CAs: who reads them, renewal, and the names in the API server's."""

from __future__ import annotations

import ipaddress
import json
import ssl
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from .._errors import DomainError
from .._files import put_file, read_file, read_text, sync_path, under
from .._json import as_mapping
from .._words import listing
from .kubeconfig import read_kubeconfig
from .manifests import API_SERVER, ETCD
from .run import Kubeadm
from .x509 import CertificateError, alternative_names, begins, certificates, expires, is_valid

_ETC = "/etc/kubernetes"
_PKI = f"{_ETC}/pki"
SERVING = (f"{_PKI}/apiserver.key", f"{_PKI}/apiserver.crt")


def _pairs(*names: str) -> tuple[str, ...]:
    return tuple(f"{_PKI}/{name}.{end}" for name in names for end in ("crt", "key"))


# Files that a component reads when it starts. Programs that run for a moment read the others.
READ_BY: Mapping[str, tuple[str, ...]] = {
    API_SERVER: _pairs("apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client"),
    "kube-controller-manager": (f"{_ETC}/controller-manager.conf",),
    "kube-scheduler": (f"{_ETC}/scheduler.conf",),
    ETCD: _pairs("etcd/server", "etcd/peer"),
}
SUPER_ADMIN = f"{_ETC}/super-admin.conf"
# What kubeadm calls those that no component reads.
UNREAD: Mapping[str, str] = {
    f"{_PKI}/etcd/healthcheck-client.crt": "etcd-healthcheck-client",
    f"{_ETC}/admin.conf": "admin.conf",
    SUPER_ADMIN: "super-admin.conf",
}
_OTHERS = (*UNREAD, f"{_PKI}/etcd/healthcheck-client.key")
# In seconds. Validity is a matter of the time, and kubeadm and kubelet allow for a difference of five minutes.
_SKEW = 300
# Without certificateValidityPeriod, which is rarely longer.
_LIFETIME = timedelta(days=365)
_NOT_OFFERED = 'CAs are not replaced by this collection, see "The CA" in docs/certificates.md.'


@dataclass(frozen=True)
class Names:
    """Names in the API server's certificate that are missing, that were removed, and that only the certificate has."""

    missing: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        return bool(self.missing or self.removed)


def renewed_files(root: str) -> list[str]:
    """Return the files that a renewal writes: those of kubeadm's that exist."""
    names = [*(name for files in READ_BY.values() for name in files), *_OTHERS]
    return [name for name in names if under(root, name).exists()]


def expired(root: str) -> list[str]:
    """Return the files of which a certificate has expired, or is not valid yet.

    Files that can't be read are not among them.
    """
    return [name for name in renewed_files(root) if not name.endswith(".key") and _is_expired(root, name)]


def _is_expired(root: str, name: str) -> bool:
    try:
        text = read_text(under(root, name)) or ""
        pem = text if name.endswith(".crt") else read_kubeconfig(text).client_certificate or ""
        return not is_valid(certificates(pem)[0])
    except DomainError:
        return False


def check_clock(controller_time: float) -> None:
    """Raise DomainError if this host's clock differs from that of the controller; 0 is an unknown time."""
    ahead = time.time() - controller_time
    if controller_time and abs(ahead) > _SKEW:
        raise DomainError(
            f"Error while renewing certificates: the clock of this host is {abs(ahead):.0f} s "
            f"{'ahead of' if ahead > 0 else 'behind'} the controller's, and certificates would be valid at the wrong "
            "time. Turn on time synchronization (timedatectl set-ntp true). Nothing was changed."
        )


def check_authorities(root: str) -> list[str]:
    """Return warnings about CAs that end soon. Raise DomainError if they can't sign certificates on this host."""
    doing, warnings = "Error while renewing certificates:", []
    for path in (under(root, f"{_PKI}/{name}.crt") for name in ("ca", "front-proxy-ca", "etcd/ca")):
        if not path.exists():
            continue
        try:
            authority = certificates(read_text(path) or "")[0]
            since, until = begins(authority), expires(authority)
        except CertificateError as error:
            raise DomainError(f"{doing} the CA {path} is damaged ({error}). Restore it from a backup.") from error
        if not is_valid(authority):
            raise DomainError(
                f"{doing} the CA {path} is valid from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} UTC, and so are "
                f"certificates that it signs: a renewal does not help. {_NOT_OFFERED} Nothing was changed."
            )
        if until - datetime.now(timezone.utc) < _LIFETIME:
            warnings.append(f"The CA {path} ends on {until:%Y-%m-%d}, and so do renewed certificates. {_NOT_OFFERED}")
    key = under(root, f"{_PKI}/ca.key")
    if not key.exists():
        raise DomainError(
            f"{doing} the key of the CA ({key}) is not on this host. Renew them where the key is, and copy them to "
            "this host. Nothing was changed."
        )
    return warnings


def check_whole(root: str, names: Iterable[str]) -> None:
    """Raise DomainError if one of these certificates, keys and kubeconfigs is not valid; others are not read."""
    for name in names:
        path = under(root, name)
        if not name.endswith((".crt", ".conf")) or not path.exists():
            continue
        try:
            if name.endswith(".conf"):
                user = read_kubeconfig(read_text(path) or "")
                if user.client_certificate is not None:
                    _check_pair(root, user.client_certificate, user.client_key or "")
            elif path.with_suffix(".key").exists():
                _check_pair(root, read_text(path) or "", read_text(path.with_suffix(".key")) or "")
            else:
                certificates(read_text(path) or "")
        except (DomainError, OSError) as error:
            raise DomainError(f"Error while checking {path}: it is damaged ({error})") from error


def _check_pair(root: str, certificate: str, key: str) -> None:
    """Raise OSError if these texts are not a certificate and its key."""
    with scratch(root) as directory:
        path = directory / "pair.pem"
        put_file(path, f"{certificate}\n{key}\n".encode(), 0o600)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(path)


def renew(kubeadm: Kubeadm, root: str, config: str, names: Iterable[str] = ("all",)) -> None:
    """Renew certificates in place, and sync them. ``names`` are kubeadm's."""
    for name in names:
        kubeadm.phase(["certs", "renew", name], config, "renewing the certificates")
    written = [under(root, name) for name in renewed_files(root)]
    for path in dict.fromkeys([*written, *(path.parent for path in written)]):
        sync_path(path)


def compare_names(present: Collection[str], wanted: Collection[str], recorded: Collection[str] | None) -> Names:
    """Compare the names; ``recorded`` are those of the configuration in the cluster (certSANs), None if unknown."""
    present, wanted, known = ({normal(name) for name in names} for names in (present, wanted, recorded or ()))
    extra = present - wanted
    removed = extra if recorded is None else extra & known
    missing = wanted - present
    return Names(*(tuple(sorted(names)) for names in (missing, removed, extra - removed)))


def normal(name: str) -> str:
    """Return a name as it is compared: an IP address can be written in several forms."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def serving_names(pem: str | None) -> list[str]:
    return alternative_names(certificates(pem or "")[0])


def check_without_key(present: Collection[str], wanted: Collection[str]) -> None:
    """Raise DomainError if the API server's certificate lacks names, and no new one can be signed on this host."""
    lacking = sorted({normal(name) for name in wanted} - {normal(name) for name in present})
    if lacking:
        raise DomainError(
            f"Error while changing the API server's certificate: it lacks {listing(lacking)}, and the CA's key is not "
            "on this host. Create the certificate where the key is. Nothing was changed."
        )


def new_serving_certificate(
    kubeadm: Kubeadm, root: str, node: Mapping[str, Any], cluster: Mapping[str, Any]
) -> dict[str, bytes]:
    """Return the API server's new certificate and key, by path. Nothing is changed."""
    if not under(root, f"{_PKI}/ca.key").exists():
        return {}
    with scratch(root) as directory:
        for name in ("ca.crt", "ca.key"):
            (directory / name).symlink_to(under(root, f"{_PKI}/{name}"))
        config = documents(node, {**cluster, "certificatesDir": str(directory)})
        kubeadm.phase(["init", "phase", "certs", "apiserver"], config, "creating the API server's certificate")
        made = {name: read_file(directory / Path(name).name) for name in SERVING}
    return {name: data for name, data in made.items() if data}


def node_configuration(root: str, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return InitConfiguration for kubeadm, which requires that the directory of patches exists."""
    directory = as_mapping(node.get("patches")).get("directory")
    missing = isinstance(directory, str) and not under(root, directory).is_dir()
    return {name: value for name, value in node.items() if name != "patches" or not missing}


def check_directory(cluster: Mapping[str, Any]) -> None:
    """Raise DomainError if the certificates of a ClusterConfiguration are in another directory than usual."""
    directory = str(cluster.get("certificatesDir") or _PKI)
    if directory.rstrip("/") != _PKI:
        raise DomainError(
            f"Error while changing the control plane: its certificates are in {directory} (certificatesDir), but only "
            f"{_PKI} is supported. Change it with kubeadm. Nothing was changed."
        )


def configured_names(cluster: Mapping[str, Any]) -> list[str]:
    """Return the names that a ClusterConfiguration adds to the API server's certificate."""
    return [str(name) for name in as_mapping(cluster.get("apiServer")).get("certSANs") or []]


def with_names(cluster: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any]:
    """Return a ClusterConfiguration that also adds these names to the certificate."""
    server = {**as_mapping(cluster.get("apiServer")), "certSANs": [*configured_names(cluster), *names]}
    return {**cluster, "apiServer": server} if names else cluster


def documents(*parts: Mapping[str, Any]) -> str:
    """Return a configuration for kubeadm, whose YAML may be JSON."""
    return "".join(f"---\n{json.dumps(part)}\n" for part in parts)


@contextmanager
def scratch(root: str) -> Iterator[Path]:
    """Provide a private directory that is in memory on a host."""
    parent = under(root, "/run/gpulab")
    parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=parent, prefix="control-plane-") as directory:
        yield Path(directory)
