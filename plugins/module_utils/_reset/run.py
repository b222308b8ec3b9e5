# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the module host_reset does: read a host, plan its reset, and carry it out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .._apt.cli import Apt
from .._command import Runner
from .._errors import DomainError
from .._files import locked, make_directory, put_file, text_or_nothing, under
from .._json import as_mapping, as_text, as_texts
from .._kubeadm.membership import membership
from . import known
from .apply import Reset
from .model import KEEP, Readings
from .plan import plan
from .readings import Host

_TIMEOUT = 600
_NAMES = ("name", "api_name", "role", "node_name", "endpoint")


def ensure(module: Any) -> dict[str, Any]:
    """Reset the host, or in check mode return what this would do. Raise DomainError before anything changes."""
    root = module.params["root"]
    if module.check_mode:
        return _ensure(module, root)
    make_directory(under(root, known.OWN))
    # A run whose controller was killed may still be active on this host.
    with locked(under(root, known.OWN)):
        return _ensure(module, root)


def _ensure(module: Any, root: str) -> dict[str, Any]:
    host = Host(Runner(module, timeout=_TIMEOUT), root, module.params["data"])
    now = host.read()
    begun = read_state(text_or_nothing(root, known.STATE))
    cluster = _cluster(root, begun)
    if now.record.damage:
        module.warn(f"Parts of the record of the first run are not valid and are ignored: {now.record.damage[0]}.")
    actions = plan(now, module.params["lose_data"])
    doing = [action for action in actions if action.do != KEEP]
    left: list[str] = []
    reset = Reset(host, Apt(host.runner, module.params["lock_timeout"]), now.packages)
    reset.check(actions)
    if doing and not module.check_mode:
        agreed = module.params["lose_etcd"] or begun.get("lose_etcd", False)
        _refuse_last_copy(now, agreed)
        record = {"schema": 1, **cluster, "lose_etcd": agreed}
        put_file(under(root, known.STATE), json.dumps(record).encode(), 0o600)
        reset.apply(actions)
        reset.forget()
        left = reset.left
    return {
        "changed": bool(doing),
        "actions": [{"do": each.do, "kind": each.kind, "name": each.name, "why": each.why} for each in actions],
        "kept": [*(f"{each.kind} {each.name}: {each.why}" for each in actions if each.do == KEEP), *left],
        "cluster": cluster,
        "etcd": now.etcd,
        "begun": bool(begun),
        "diff": {"before": "".join(f"{each}\n" for each in doing), "after": ""},
    }


def read_state(text: str) -> dict[str, Any]:
    """Return what an interrupted reset has recorded, empty if there is nothing."""
    try:
        found = as_mapping(json.loads(text or "{}"))
    except (ValueError, RecursionError):
        found = {}
    if found.get("schema") != 1:
        return {}
    texts = {name: as_text(found.get(name)) for name in _NAMES}
    return {**texts, "ca_hashes": as_texts(found.get("ca_hashes")), "lose_etcd": found.get("lose_etcd") is True}


def _cluster(root: str, begun: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster of the host; what is already removed, from the record of the interrupted reset."""
    found = membership(root)
    return {name: found[name] or begun.get(name) or found[name] for name in (*_NAMES, "ca_hashes")}


def _refuse_last_copy(now: Readings, agreed: bool) -> None:
    if now.etcd and not agreed:
        raise DomainError(
            f"Error while resetting this host: {now.etcd} may be the last copy of etcd's data, and no backup of this "
            "run replaces it. Nothing was changed. Run the playbook gpulab.kubernetes.reset, which takes a backup, or "
            "add -e reset_last_etcd_copy=lose."
        )
