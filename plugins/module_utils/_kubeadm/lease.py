# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease that keeps runs from changing a cluster simultaneously (coordination.k8s.io/v1, Lease)."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from .._errors import DomainError
from .probe import Api, ApiConflictError

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
NAME = "gpulab-kubernetes"
_PURPOSE = "gpulab.io/purpose"
# Characters allowed in the names of users, hosts, job templates and runs.
_SAFE = re.compile(r"[\w .,:/@'()+-]{1,200}")
_LONGEST = 200
_FRACTION = re.compile(r"\.(\d+)")


class LeaseHeldError(DomainError):
    """Another run holds the lease."""


@dataclass(frozen=True)
class Lease:
    """Holder and purpose of the lease, when it was taken, and when it expires unless it is renewed."""

    holder: str
    purpose: str
    since: datetime
    until: datetime


def read(body: Mapping[str, Any]) -> Lease | None:
    """Return the lease from an API object; None if no one holds it or the object is not valid."""
    spec, metadata = body.get("spec"), body.get("metadata")
    if not isinstance(spec, Mapping) or not isinstance(metadata, Mapping) or not spec.get("holderIdentity"):
        return None
    renewed, seconds = _time(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    if renewed is None or not isinstance(seconds, int):
        return None
    annotations = metadata.get("annotations")
    purpose = annotations.get(_PURPOSE, "") if isinstance(annotations, Mapping) else ""
    since = _time(spec.get("acquireTime")) or renewed
    try:
        until = renewed + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return Lease(str(spec["holderIdentity"]), str(purpose), since, until)


def may_take(lease: Lease | None, me: str, broken: str, now: datetime) -> bool:
    """Return whether the lease is free, expired, or held by ``me`` or by the run that the user declared ``broken``."""
    return lease is None or lease.holder in (me, broken) or lease.until <= now


def refusal(lease: Lease) -> str:
    # Ansible evaluates values given with -e, so the holder must not contain an expression.
    if _SAFE.fullmatch(lease.holder):
        broken = json.dumps({"cluster_lease_break": lease.holder}, ensure_ascii=False)
        remedy = f"run this again with -e {shlex.quote(broken)}"
    else:
        remedy = f"remove it: kubectl --namespace kube-system delete lease {NAME}"
    return (
        f"Error while taking the lease of the cluster: {_line(lease.holder)} has held it since {_shown(lease.since)}"
        + (f" ({_line(lease.purpose)})" if lease.purpose else "")
        + f". It expires at {_shown(lease.until)} unless that run renews it. Wait for that run to end; if it has ended "
        f"without releasing the lease, {remedy}"
    )


class Holder:
    """Takes, renews and releases the lease in the name of ``me``."""

    def __init__(self, api: Api, me: str) -> None:
        self._api = api
        self._me = me

    def hold(self, purpose: str, duration: int, broken: str, now: datetime) -> Lease | None:
        """Take or renew the lease and return the previous one. Raise LeaseHeldError."""
        try:
            return self._take(purpose, duration, broken, now)
        except ApiConflictError:
            # Another run was faster; reading again shows its lease.
            return self._take(purpose, duration, broken, now)

    def release(self) -> bool:
        """Release the lease if ``me`` holds it; return whether it did."""
        answer = self._api.get(f"{_LEASES}/{NAME}")
        there = read(answer.body) if answer.status == 200 and isinstance(answer.body, dict) else None
        if not there or there.holder != self._me:
            return False
        version = answer.body["metadata"].get("resourceVersion")
        only_this = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": version}}
        self._api.send("DELETE", f"{_LEASES}/{NAME}", only_this)
        return True

    def _take(self, purpose: str, duration: int, broken: str, now: datetime) -> Lease | None:
        body = self._api.get(f"{_LEASES}/{NAME}")
        there = body.body if body.status == 200 and isinstance(body.body, dict) else {}
        before = read(there)
        if before and not may_take(before, self._me, broken, now):
            left = (before.until - now).total_seconds()
            raise LeaseHeldError(
                refusal(before), held_by=before.holder, expires=_micro(before.until), expires_in=round(left, 1)
            )
        self._write(there, self._lease(there, before, purpose, duration, now))
        return before

    def _lease(
        self, there: Mapping[str, Any], before: Lease | None, purpose: str, duration: int, now: datetime
    ) -> dict[str, Any]:
        mine = before is not None and before.holder == self._me
        since = before.since if before and mine else now
        version = (there.get("metadata") or {}).get("resourceVersion")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": NAME,
                "namespace": "kube-system",
                "annotations": {_PURPOSE: purpose},
                **({"resourceVersion": version} if version else {}),
            },
            "spec": {
                "holderIdentity": self._me,
                "leaseDurationSeconds": duration,
                "acquireTime": _micro(since),
                "renewTime": _micro(now),
            },
        }

    def _write(self, there: Mapping[str, Any], lease: Mapping[str, Any]) -> None:
        if there:
            self._api.send("PUT", f"{_LEASES}/{NAME}", lease)
        else:
            self._api.send("POST", _LEASES, lease)


def _time(text: Any) -> datetime | None:
    try:
        # Before 3.11, Python accepts neither Z nor fractions other than 3 or 6 digits.
        six_digits = _FRACTION.sub(lambda found: f".{found[1]:0<6.6}", str(text)).replace("Z", "+00:00")
        return datetime.fromisoformat(six_digits).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def _micro(time: datetime) -> str:
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])


def _shown(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")
