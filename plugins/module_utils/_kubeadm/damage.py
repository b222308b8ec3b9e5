# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find files of kubeadm and the kubelet that a power failure has left empty or cut off.

Neither program syncs all files that it writes. New ones are empty if the power is cut within about half a minute.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .._files import read_file, text_or_nothing, under
from .._host.network import listeners

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBELET_CONF = "/etc/kubernetes/kubelet.conf"
KUBELET_CONFIGURATION = "/var/lib/kubelet/config.yaml"
KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
# Nothing in the cluster needs these files, and users rewrite them.
ADMIN = ("/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf")
PKI = "/etc/kubernetes/pki"

_CAS = ("ca", "front-proxy-ca", "etcd/ca")
_LEAVES = (
    *("apiserver", "apiserver-kubelet-client", "apiserver-etcd-client", "front-proxy-client"),
    *("etcd/server", "etcd/peer", "etcd/healthcheck-client"),
)
# Everything that they have signed becomes invalid with new ones.
SIGNERS = (*(f"{PKI}/{name}.{kind}" for name in _CAS for kind in ("crt", "key")), f"{PKI}/sa.key", f"{PKI}/sa.pub")
# The kubelet starts only with these. It also starts without flags, which a user may have moved to its configuration.
_NODE = (KUBELET_CONF, f"{PKI}/ca.crt", KUBELET_CONFIGURATION, KUBELET_CERTIFICATE)
# kubeadm's own names; a user may keep other files in these directories.
_CONTROL_PLANE = (
    *(f"/etc/kubernetes/{name}.conf" for name in ("controller-manager", "scheduler")),
    *(f"/etc/kubernetes/manifests/{name}.yaml" for name in COMPONENTS),
    *(path for path in SIGNERS if path not in _NODE),
    *(f"{PKI}/{name}.{kind}" for name in _LEAVES for kind in ("crt", "key")),
)
FILES = (*_NODE, *_CONTROL_PLANE, *ADMIN)
# A control plane starts without these files. A CA's key may be kept elsewhere; only kubeadm uses the other two.
_DISPENSABLE = {
    *(f"{PKI}/{name}.key" for name in _CAS),
    *(f"{PKI}/etcd/healthcheck-client.{kind}" for kind in ("crt", "key")),
}
# kubeadm makes both of a group, or reads both.
_GROUPS = (*((f"{PKI}/{name}.crt", f"{PKI}/{name}.key") for name in _LEAVES), (KUBELET_CONF, KUBELET_CERTIFICATE))
# A file is cut off at the end of a page. Whole files end with a line feed.
_PAGE = 4096
_BLANK = b"\0 \t\r\n"


def damaged_files(root: str, control_plane: bool) -> tuple[str, ...]:
    """Return the files that exist but are empty or cut off, and those that are missing next to kubelet.conf.

    Files of ADMIN are not included. On a host that is not a ``control_plane``, only what its kubelet needs counts.
    """
    paths = (*_NODE, *_CONTROL_PLANE) if control_plane else _NODE
    lost = _lost_files(root)
    return tuple(path for path in paths if path in lost or _is_damaged(under(root, path)))


def damaged_admin_files(root: str) -> tuple[str, ...]:
    """Return the files of ADMIN that are empty or cut off."""
    return damaged_among(root, ADMIN)


def damaged_among(root: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of these files that are empty or cut off."""
    return tuple(path for path in paths if _is_damaged(under(root, path)))


def necessary(paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of these files without which the host can't start."""
    return tuple(path for path in paths if path not in _DISPENSABLE)


def missing_files(root: str, local_etcd: bool) -> tuple[str, ...]:
    """Return the files of a control plane that kubeadm made once and that do not exist."""
    etcd = (f"{PKI}/etcd/", f"{PKI}/apiserver-etcd-client.", "/etc/kubernetes/manifests/etcd.yaml")
    return tuple(
        path
        for path in necessary((*_NODE, *_CONTROL_PLANE))
        if not os.path.lexists(under(root, path)) and (local_etcd or not path.startswith(etcd))
    )


def with_companions(paths: Iterable[str]) -> tuple[str, ...]:
    """Add the files without which kubeadm does not make these files again."""
    found = set(paths)
    return tuple(sorted(found.union(*(group for group in _GROUPS if found.intersection(group)))))


def kubelet_runs(root: str) -> bool:
    """Return whether a kubelet has started with whole files, which it does not read again."""
    # Its API and its health check. A user other than root does not see the names of processes.
    return any(one["process"] in ("kubelet", "") for one in listeners(root, ["10250/tcp", "10248/tcp"]))


def _lost_files(root: str) -> tuple[str, ...]:
    """Return the missing files without which a kubelet that does not run can't start with its kubelet.conf."""
    text = text_or_nothing(root, KUBELET_CONF)
    wanted = (KUBELET_CONFIGURATION, *([KUBELET_CERTIFICATE] if KUBELET_CERTIFICATE in text else []))
    lost = tuple(path for path in wanted if not under(root, path).exists())
    return lost if lost and under(root, KUBELET_CONF).exists() and not kubelet_runs(root) else ()


def _is_damaged(path: Path) -> bool:
    try:
        data = read_file(path)
    except OSError:
        # A directory or named pipe, or a file that only root may read.
        return False
    if data is None:
        return path.is_symlink() and path.name == Path(KUBELET_CERTIFICATE).name
    cut_off = len(data) % _PAGE == 0 and not data.endswith(b"\n")
    return cut_off or b"\0" in data or not data.strip(_BLANK)
