# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify an archive, show what its restore would lose, and restore it: what the module cluster_restore does."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._etcd.client import Etcd
from .._files import locked, make_directory, read_text, text_or_nothing, under
from .._json import as_mapping, as_text
from .._kubeadm.damage import PKI as AUTHORITIES
from .._kubeadm.etcd_gate import endpoint_of
from .._kubeadm.init_evidence import ETCD_DATA, etcd_data
from .._kubeadm.x509 import CertificateError, certificates, public_key_hash
from .archive import describe
from .configuration import configuration, encryption_file, endpoint, endpoint_host
from .database import Database, read_database
from .manifest import CONFIGURATION, DATABASE, ENCRYPTION, PKI, Manifest
from .objects import VALUES
from .preview import ETCD, FILES, UNKNOWN, fields, preview, read_running
from .refusals import Target, refusals
from .restore import DIRECTORY, Restore
from .unpack import unpacked

_ETCD_MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"
_LIMIT = 3
_UNNAMED = (
    "The API server has encrypted Secrets, and kubeadm's configuration does not name the file with its key. It is "
    f"{ENCRYPTION} in the archive: put it where the API server reads it, and add encryption-provider-config again."
)


def ensure(module: Any) -> dict[str, Any]:
    """Restore the archive, or in check mode show what this would do. Raise DomainError before anything changes."""
    archive, root = Path(module.params["archive"]), module.params["root"]
    if not archive.is_file():
        raise DomainError(f"Error while reading the archive {archive}: there is no such file on this host")
    directory = under(root, DIRECTORY)
    make_directory(directory, 0o700)
    # A run whose controller was killed may still be active on this host.
    with locked(directory):
        return _ensure(module, archive, directory / "work")


def _ensure(module: Any, archive: Path, work: Path) -> dict[str, Any]:
    params, root = module.params, module.params["root"]
    restore = Restore(module, describe(archive).sha256)
    if restore.is_done and not params["again"]:
        line = "This archive was restored on this host already. To restore it again, add -e restore_again=true."
        return {"changed": False, "restored": True, "lines": [line], "moved_aside": []}
    with unpacked(module, archive, work, params["age"], params["identity"]) as (manifest, parts):
        hosts = _api_hosts(parts, params["endpoints"])
        _check(module, manifest, parts, hosts, [] if restore.is_interrupted else _authorities(root))
        snapshot = read_database(parts / DATABASE, VALUES)
        old, source = (None, UNKNOWN) if restore.is_interrupted else _old(module, work / "present.db")
        shown = fields(preview(manifest, snapshot, old, source, read_running(params["pods"])))
        shown["endpoint"] = _endpoint(parts, params["api_names"])
        shown["ca"] = (parts / f"{PKI}ca.crt").read_text()
        if ENCRYPTION in manifest.parts and not encryption_file((parts / CONFIGURATION).read_text()):
            shown["lines"].append(_UNNAMED)
        if restore.is_interrupted:
            shown["lines"].insert(1, "Its restore was interrupted, and continues.")
        moved = [] if module.check_mode else restore.apply(manifest, parts, _names(hosts[1:]))
    return {"changed": True, "restored": not module.check_mode, "moved_aside": moved, **shown}


def _endpoint(parts: Path, names: Collection[str]) -> str:
    """Return the endpoint of the cluster, empty if it is a name that leads to the control plane on each node."""
    found = endpoint((parts / CONFIGURATION).read_text())
    return "" if endpoint_host(found) in map(endpoint_host, names) else found


def _api_hosts(parts: Path, endpoints: Mapping[str, Any]) -> list[str]:
    """Return the hosts at which the API is reached: the archive's first, then others that nodes use."""
    found = [endpoint((parts / CONFIGURATION).read_text()), *map(as_text, endpoints.values())]
    return list(dict.fromkeys(endpoint_host(each) for each in found))


def _names(hosts: Iterable[str]) -> list[str]:
    return [each for each in hosts if each and not re.fullmatch(r"[0-9.]+|.*:.*", each)]


def _authorities(root: str) -> list[str]:
    """Return the hashes of the CAs of the cluster to which the host belongs, empty if there are none."""
    try:
        return [public_key_hash(each) for each in certificates(text_or_nothing(root, f"{AUTHORITIES}/ca.crt"))]
    except CertificateError:
        return []


def _check(module: Any, manifest: Manifest, parts: Path, hosts: Collection[str], own: Collection[str]) -> None:
    params = module.params
    configuration((parts / CONFIGURATION).read_text(), params["kubernetes_version"])
    address = as_text(as_mapping(params["node"].get("localAPIEndpoint")).get("advertiseAddress"))
    target = Target(
        params["cluster_name"],
        params["kubernetes_version"],
        params["trusted"],
        own,
        hosts,
        [endpoint_host(each) for each in (address, *params["api_names"])],
        params["control_planes"],
    )
    found = refusals(manifest, target, params["accept"])
    if found:
        sentences = " ".join(map(str, found))
        raise DomainError(
            f"Error while restoring a backup: {sentences} Nothing was changed.", refusals=[each.kind for each in found]
        )


def _old(module: Any, copy: Path) -> tuple[Database | None, str]:
    """Return the keys of the cluster as it is: from etcd if it answers, else from its files."""
    root = module.params["root"]
    for source, path in _sources(module, root, copy):
        with contextlib.suppress(DomainError, OSError):
            return read_database(path, VALUES), source
    return None, UNKNOWN


def _sources(module: Any, root: str, copy: Path) -> Iterator[tuple[str, Path]]:
    text = read_text(under(root, _ETCD_MANIFEST))
    if text and Runner(module).find(module.params["etcdctl"]):
        with contextlib.suppress(DomainError):
            options = {
                "endpoint": endpoint_of(text, module.params["etcd_endpoint"]),
                "pki": str(under(root, "/etc/kubernetes/pki/etcd")),
                "etcdctl": module.params["etcdctl"],
                "timeout": _LIMIT,
            }
            etcd = Etcd(module, options)
            # A file that a server writes to can't be read reliably.
            etcd.status()
            etcd.check(["snapshot", "save", str(copy)], "reading the present objects", timeout=module.params["timeout"])
            yield ETCD, copy
    yield FILES, under(root, etcd_data(root) or ETCD_DATA) / "member/snap/db"
