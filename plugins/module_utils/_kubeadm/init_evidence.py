# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the evidence for the decision about ``kubeadm init``. Nothing is changed."""

from __future__ import annotations

import mmap
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import read_text, under
from . import init_decision as state
from .damage import COMPONENTS, KUBELET_CERTIFICATE, damaged_files
from .kubeconfig import Kubeconfig, KubeconfigError, read_kubeconfig
from .probe import Api, ApiRefusedError, ApiSilentError

RECORD = "/var/lib/gpulab/kubeadm-init.json"

_KUBERNETES = "/etc/kubernetes"
_CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_WORKLOADS = ("/apis/apps/v1/daemonsets", "/apis/apps/v1/deployments")

# Keys that the API server writes; etcd stores them unencoded in its database and log. Every cluster that others can
# join has the first one (kubeadm's phase bootstrap-token); the addons are written later.
_ALIVE = (
    b"/configmaps/kube-public/cluster-info",
    b"/registry/daemonsets/",
    b"/registry/deployments/",
    b"/registry/statefulsets/",
)
_WRITTEN = b"/registry/"
# A cluster is in use if it has a second node, or a workload other than kubeadm's addons.
_NODES = b"/registry/minions/"
_ADDONS = {b"/registry/daemonsets/kube-system/kube-proxy", b"/registry/deployments/kube-system/coredns"}
_KEY = re.compile(rb"[a-z0-9./-]+")
_LONGEST_KEY = 600


def gather(module: Any, root: str, patience: float, config: str = "") -> state.Evidence:
    """Return the evidence; ``patience`` is how long to wait for an expected API server, in seconds.

    ``config`` is kubeadm's configuration, which names etcd's directory if the manifest does not.
    """
    directory = under(root, _KUBERNETES)
    manifests = tuple(name for name in COMPONENTS if (directory / "manifests" / f"{name}.yaml").exists())
    kubelet_conf = read_text(directory / "kubelet.conf")
    data = _etcd_files(etcd_data(root, config))
    found = state.Evidence(
        admin_conf=(directory / "admin.conf").exists(),
        kubelet_conf=kubelet_conf is not None,
        bootstrap_conf=(directory / "bootstrap-kubelet.conf").exists(),
        kubelet_final=bool(re.search(r"^\s*client-certificate:\s*\S", kubelet_conf or "", re.MULTILINE)),
        kubelet_certificate=under(root, KUBELET_CERTIFICATE).exists(),
        manifests=manifests,
        ca_key=(directory / "pki/ca.key").exists(),
        began=under(root, RECORD).exists(),
        etcd=state.UNASKED if data else state.ABSENT,
        etcd_local="etcd" in manifests or "kube-apiserver" not in manifests,
        damaged=damaged_files(root),
    )
    if not found.control_plane:
        return found
    # A manifest may be missing for a moment while the API server is restarted.
    expected = "kube-apiserver" in manifests or search_etcd(data) in (state.UNUSED, state.ALIVE)
    found = _wait_for_api(module, root, found, patience if expected else 0)
    return found if found.api == state.ALIVE else replace(found, etcd=search_etcd(data))


def search_etcd(files: list[Path]) -> str:
    """Return what the etcd files contain, as in ``Evidence.etcd``; ``absent`` without the data of an API server."""
    written = published = False
    nodes: set[bytes] = set()
    for path in files:
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                published = published or any(data.find(marker) >= 0 for marker in _ALIVE)
                written = written or data.find(_WRITTEN) >= 0
                if any(key not in _ADDONS for prefix in _ALIVE[1:] for key in _keys(data, prefix)):
                    return state.ALIVE
                for key in _keys(data, _NODES):
                    nodes.add(key)
                    if len(nodes) > 1:
                        return state.ALIVE
        except (OSError, ValueError):
            return state.UNREADABLE
    return state.UNUSED if published else state.BARREN if written else state.ABSENT


def _keys(data: mmap.mmap, prefix: bytes) -> Iterator[bytes]:
    """Yield the keys that begin with a prefix. Their length precedes them, as a varint of protobuf."""
    place = data.find(prefix)
    while place >= 0:
        high, low = data[place - 1], data[place - 2]
        # What follows a key may look like a part of it.
        size = high << 7 | low & 0x7F if low & 0x80 and 0 < high < 0x80 and high << 7 < _LONGEST_KEY else high
        found = _KEY.match(data[place : place + _LONGEST_KEY])
        key = found[0] if found else prefix
        yield key[:size] if size > len(prefix) else key
        place = data.find(prefix, place + 1)


def etcd_data(root: str, config: str = "") -> Path:
    """Return the directory of etcd's data."""
    manifest = read_text(under(root, f"{_KUBERNETES}/manifests/etcd.yaml")) or ""
    named = re.search(r"--data-dir=([^\s\"']+)", manifest)
    named = named or re.search(r"^\s*dataDir:\s*[\"']?([^\s\"'#]+)", config, re.MULTILINE)
    return under(root, named[1] if named else "/var/lib/etcd")


def _etcd_files(directory: Path) -> list[Path]:
    member = directory / "member"
    files = [member / "snap/db", *sorted(member.glob("wal/*.wal"))]
    # mmap rejects empty files.
    return [path for path in files if path.is_file() and path.stat().st_size]


def _wait_for_api(module: Any, root: str, found: state.Evidence, patience: float) -> state.Evidence:
    deadline = time.monotonic() + patience
    while True:
        asked = _ask(module, root, found)
        settled = asked.api in (state.ALIVE, state.BARREN, state.UNASKED)
        if settled or time.monotonic() >= deadline or not _kubelet_runs(module):
            return asked
        time.sleep(2)


def _kubelet_runs(module: Any) -> bool:
    try:
        return Runner(module, timeout=30).run(["systemctl", "is-active", "kubelet"]).rc == 0
    except DomainError:
        return False


def _ask(module: Any, root: str, found: state.Evidence) -> state.Evidence:
    answers: dict[str, str] = {}
    for api in servers(module, root, answers):
        try:
            return _questions(api, found)
        except ApiRefusedError as error:
            answers[state.REFUSED] = str(error)
        except ApiSilentError as error:
            answers.setdefault(state.SILENT, str(error))
    for kind in (state.REFUSED, state.SILENT):
        if kind in answers:
            return replace(found, api=kind, api_message=answers[kind])
    return replace(found, api_message="there is no admin.conf with which to query the API server")


def servers(module: Any, root: str, answers: dict[str, str]) -> Iterator[Api]:
    """Yield API clients with administrator credentials, for the cluster's address and this host's own."""
    local = _kubeconfig(root, "controller-manager.conf", answers)
    for name in ("admin.conf", "super-admin.conf"):
        config = _kubeconfig(root, name, answers)
        if config:
            for server in dict.fromkeys([config.server, local.server if local else config.server]):
                try:
                    yield Api(config, module.tmpdir, root, server)
                except ApiRefusedError as error:
                    answers[state.REFUSED] = str(error)


def _kubeconfig(root: str, name: str, answers: dict[str, str]) -> Kubeconfig | None:
    text = read_text(under(root, f"{_KUBERNETES}/{name}"))
    try:
        return read_kubeconfig(text) if text is not None else None
    except KubeconfigError as error:
        # The file was truncated by an interruption or a full disk.
        answers[state.SILENT] = f"{_KUBERNETES}/{name} can't be used ({error})"
        return None


def _questions(api: Api, found: state.Evidence) -> state.Evidence:
    published = api.get(_CLUSTER_INFO).status == 200
    if published and not found.began:
        return replace(found, api=state.ALIVE)
    complete = len(_listed(api, "/api/v1/nodes")) > 1 or any(_listed(api, path, limit="1") for path in _WORKLOADS)
    return replace(found, api=state.ALIVE if published or complete else state.BARREN, complete=complete)


def _listed(api: Api, path: str, **query: str) -> list[Any]:
    answer = api.get(path, **query)
    # Only a valid list shows that there are no objects.
    if answer.status != 200 or not isinstance(answer.body, dict):
        raise ApiSilentError(f"{api.server} gives no list at {path}")
    return answer.items()
