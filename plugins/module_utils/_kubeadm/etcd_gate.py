# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask etcd before a control plane changes, and wait for it afterwards."""

from __future__ import annotations

import time
from typing import Any

from .._errors import DomainError
from .._etcd.client import Etcd
from .._etcd.members import HEALTHY, Member
from .._etcd.quorum import may_stop, standing
from .._files import under
from .manifests import ETCD, flag
from .static_pods import UnhealthyError

_INTERVAL = 1.0
_TIMEOUT = 3


class EtcdGate:
    """etcd with its member on this host. ``text`` is always the manifest of the member."""

    def __init__(self, module: Any, root: str) -> None:
        self._module = module
        self._root = root

    def members(self, text: str) -> list[Member]:
        """Return all members with their health."""
        return self._etcd(text).members()

    def ask(self, text: str, restarts: bool) -> None:
        """Raise DomainError if etcd has no quorum, or would lose it while its member on this host ``restarts``."""
        members = self._etcd(text).members()
        found = standing(members)
        reason = "" if found.has_quorum else f"etcd has no quorum ({found}, {found.quorum} needed)."
        if restarts and not reason:
            # If it is the only member, the API is without etcd for a moment, to which the caller has agreed.
            verdict = may_stop(members, [flag(text, ETCD, "name")], last_voter=True)
            reason = "" if verdict.allowed else verdict.reason
        if reason:
            raise DomainError(f"Error while changing the control plane: {reason} Nothing was changed.")

    def wait(self, text: str) -> None:
        """Wait until the member on this host is healthy and etcd has a quorum. Raise UnhealthyError."""
        deadline, name = time.monotonic() + self._module.params["health_timeout"], flag(text, ETCD, "name")
        while True:
            try:
                members = self._etcd(text).members()
                # A learner answers, too, but has no vote.
                own = [each for each in members if each.name == name and each.health == HEALTHY and not each.learner]
                if standing(members).has_quorum and own:
                    return
                reason = str(standing(members))
            except DomainError as error:
                reason = str(error)
            if time.monotonic() >= deadline:
                raise UnhealthyError(f"its member is not healthy, or etcd has no quorum ({reason})")
            time.sleep(_INTERVAL)

    def _etcd(self, text: str) -> Etcd:
        params = self._module.params
        pki = str(under(self._root, "/etc/kubernetes/pki/etcd"))
        endpoint = endpoint_of(text, params["etcd_endpoint"])
        options = {"endpoint": endpoint, "pki": pki, "etcdctl": params["etcdctl"], "timeout": _TIMEOUT}
        return Etcd(self._module, options)


def endpoint_of(text: str, usual: str) -> str:
    """Return an address at which the member on this host listens, the usual one if it does."""
    urls = [url for url in flag(text, ETCD, "listen-client-urls").split(",") if url]
    return usual if usual in urls or not urls else urls[0]
