# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find files of kubeadm and the kubelet that a power failure has left empty or cut off.

Neither program syncs all files that it writes. New ones are empty if the power is cut within about half a minute.
"""

from __future__ import annotations

from pathlib import Path

from .._files import read_file, under
from .._host.network import listeners

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"

_CONFS = ("kubelet", "admin", "super-admin", "controller-manager", "scheduler")
# The kubelet starts only with these. It also starts without flags, which a user may have moved to its configuration.
_KUBELET = ("/var/lib/kubelet/config.yaml", KUBELET_CERTIFICATE)
_PKI = (".crt", ".key", ".pub")
# A file is cut off at the end of a page. Whole files end with a line feed.
_PAGE = 4096
_BLANK = b"\0 \t\r\n"


def damaged_files(root: str) -> tuple[str, ...]:
    """Return the files that exist but are empty or cut off, and a link of the kubelet to a missing certificate."""
    etc = under(root, "/etc/kubernetes")
    paths = [etc / f"{name}.conf" for name in _CONFS]
    paths += [etc / f"manifests/{name}.yaml" for name in COMPONENTS]
    paths += sorted(path for path in (etc / "pki").rglob("*") if path.suffix in _PKI)
    paths += [under(root, path) for path in _KUBELET]
    return tuple(f"/{path.relative_to(root)}" for path in paths if _is_damaged(path))


def kubelet_runs(root: str) -> bool:
    """Return whether a kubelet has started with whole files, which it does not read again."""
    # A user other than root does not see the names of processes.
    return any(one["process"] in ("kubelet", "") for one in listeners(root, ["10250/tcp"]))


def _is_damaged(path: Path) -> bool:
    try:
        data = read_file(path)
    except OSError:
        # A directory, or a file that only root may read.
        return False
    if data is None:
        return path.is_symlink() and path.name == Path(KUBELET_CERTIFICATE).name
    cut_off = len(data) % _PAGE == 0 and not data.endswith(b"\n")
    return cut_off or b"\0" in data or not data.strip(_BLANK)
