# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the evidence for the decision about ``kubeadm init``. Nothing is changed."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .._backup import restore_record
from .._command import Runner
from .._files import read_text, under
from .._systemd import is_active
from . import init_decision as state
from .damage import COMPONENTS, KUBELET_CERTIFICATE, damaged_admin_files, damaged_files, missing_files
from .kubeconfig import Kubeconfig, KubeconfigError, read_kubeconfig
from .probe import Api, ApiRefusedError, ApiSilentError
from .use import NODES, OBJECTS, etcd_files, is_used, listed, search_etcd

RECORD = "/var/lib/gpulab/kubeadm-init.json"

_KUBERNETES = "/etc/kubernetes"
_CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
_WORKLOADS = (OBJECTS["daemonsets"], OBJECTS["deployments"])
_ETCD_MANIFEST = f"{_KUBERNETES}/manifests/etcd.yaml"
ETCD_DATA = "/var/lib/etcd"


def gather(module: Any, root: str, patience: float) -> state.Evidence:
    """Return the evidence; ``patience`` is how long to wait for an expected API server, in seconds."""
    directory = under(root, _KUBERNETES)
    manifests = tuple(name for name in COMPONENTS if (directory / "manifests" / f"{name}.yaml").exists())
    kubelet_conf = read_text(directory / "kubelet.conf")
    etcd_local = "etcd" in manifests or "kube-apiserver" not in manifests
    damaged = (*damaged_admin_files(root), *damaged_files(root, True))
    name = etcd_data(root, damaged)
    data = under(root, name) if name else None
    found = state.Evidence(
        admin_conf=(directory / "admin.conf").exists(),
        kubelet_conf=kubelet_conf is not None,
        bootstrap_conf=(directory / "bootstrap-kubelet.conf").exists(),
        kubelet_final=bool(re.search(r"^\s*client-certificate:\s*\S", kubelet_conf or "", re.MULTILINE)),
        kubelet_certificate=os.path.lexists(under(root, KUBELET_CERTIFICATE)),
        manifests=manifests,
        ca_key=(directory / "pki/ca.key").exists(),
        began=under(root, RECORD).exists(),
        etcd=state.UNASKED if data is None or etcd_files(data) else state.ABSENT,
        etcd_local=etcd_local,
        damaged=damaged,
        restoring=restore_record.is_interrupted(root),
    )
    if not found.control_plane:
        return found
    found = replace(found, missing=missing_files(root, etcd_local))
    # A manifest may be missing for a moment while the API server is restarted.
    expected = "kube-apiserver" in manifests or _searched(data) in (state.UNUSED, state.ALIVE)
    found = _wait_for_api(module, root, found, patience if expected else 0)
    return found if found.api == state.ALIVE else replace(found, etcd=_searched(data))


def init_record(root: str) -> dict[str, Any]:
    """Return the record of an init that began, empty if there is none or it is damaged."""
    try:
        record = json.loads(read_text(under(root, RECORD)) or "")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def etcd_data(root: str, damaged: Sequence[str] = ()) -> str:
    """Return the directory of etcd's data, empty if the file that names it is one of the ``damaged`` ones."""
    unknown = _ETCD_MANIFEST in damaged
    manifest = "" if unknown else read_text(under(root, _ETCD_MANIFEST)) or ""
    named = re.search(r"--data-dir=([^\s\"']+)", manifest)
    found = named[1] if named else init_record(root).get("etcd")
    if isinstance(found, str) and found.startswith("/"):
        return found
    return "" if unknown else ETCD_DATA


def _searched(data: Path | None) -> str:
    return search_etcd(data) if data else state.UNREADABLE


def _wait_for_api(module: Any, root: str, found: state.Evidence, patience: float) -> state.Evidence:
    deadline, runner = time.monotonic() + patience, Runner(module, timeout=30)
    while True:
        asked = _ask(module, root, found)
        settled = asked.api in (state.ALIVE, state.BARREN, state.UNASKED)
        if settled or time.monotonic() >= deadline or not is_active(runner, "kubelet"):
            return asked
        time.sleep(2)


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
    complete = len(listed(api, NODES)) > 1 or any(listed(api, path, limit="1") for path in _WORKLOADS)
    known = state.ALIVE if published or complete else state.BARREN
    # Only whether these files may be made again depends on it.
    return replace(found, api=known, complete=complete, used=not found.incomplete or is_used(api))
