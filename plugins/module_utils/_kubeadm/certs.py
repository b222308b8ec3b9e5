# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the expiry dates of a control plane's certificates from ``kubeadm certs check-expiration``.

kubeadm prints JSON since 1.30, before that a table. Source: kubernetes cmd/kubeadm/app/cmd/certs.go (alpha/certs.go
before 1.20).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from .text import Columns, columns, instant, is_remark, json_objects, plain, unreadable

_WHAT = "certificates' expiration"
_DAY = 86400
_HEADER = re.compile(
    r"\s*CERTIFICATE(?:(?P<authority> AUTHORITY)|)\s{2,}EXPIRES\s{2,}RESIDUAL TIME"
    r"(?(authority)|(?P<signed>\s{2,}CERTIFICATE AUTHORITY)?)(?:\s{2,}EXTERNALLY MANAGED)?\s*"
)
_MISSING = re.compile(r"\s*!MISSING! +([\w.-]+)\s*")
_NAME = re.compile(r"[\w.-]+")
_DATE = re.compile(r"([A-Z][a-z]{2}) (\d{2}), (\d{4}) (\d{2}):(\d{2}) UTC", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# ShortHumanDuration of k8s.io/apimachinery prints a whole number of the largest unit, rounded down. kubeadm 1.32 and
# later use HumanDuration, which adds the next smaller unit if the first number is small.
_RESIDUAL = re.compile(
    r"(?:(?P<years>\d{1,6})y)?(?:(?P<days>\d{1,6})d)?(?:(?P<hours>\d{1,6})h)?(?:\d{1,6}m)?(?:\d{1,6}s)?(?<=[smhdy])"
    r"|<invalid>",
    re.ASCII,
)
_YES_NO = {"yes": True, "true": True, "no": False, "false": False}


@dataclass(frozen=True)
class Certificate:
    """A certificate or CA with its expiry.

    ``expires`` is in UTC, ``days_left`` in whole days (negative if expired); both are None if ``missing``. ``ca`` names
    the signing CA; it is None for a CA, and if kubeadm does not print it (parts of 1.15 to 1.19).
    """

    name: str
    expires: datetime | None
    days_left: int | None
    ca: str | None
    externally_managed: bool | None
    missing: bool


@dataclass(frozen=True)
class Expiration:
    """Certificates and CAs, in kubeadm's order."""

    certificates: tuple[Certificate, ...]
    authorities: tuple[Certificate, ...]


def check_expiration(kubeconfig: str) -> list[list[str]]:
    """Return the commands to try in order; older versions of kubeadm do not know the first ones."""
    options = ["--kubeconfig", kubeconfig]
    alpha = ["alpha", "certs", "check-expiration"]
    known = [["certs", "check-expiration", "-o", "json", *options], ["certs", "check-expiration", *options]]
    return [*known, [*alpha, *options], alpha]


def expiration(text: str, now: datetime) -> Expiration:
    """Parse the output of ``kubeadm certs check-expiration``, with or without ``-o json``.

    If kubeadm prints only whole years, the days are counted from ``now``. Raise KubeadmTextError for unreadable or
    truncated output.
    """
    text = plain(text)
    try:
        objects = json_objects(text)
        found = _from_json(objects) if objects else _from_table(text.split("\n"), now)
    except ValueError as error:
        raise unreadable(_WHAT, str(error)) from error
    if not found.certificates:
        raise unreadable(_WHAT, "it names no certificate")
    names = {authority.name for authority in found.authorities}
    lost = next((each.ca for each in found.certificates if each.ca is not None and each.ca not in names), None)
    if lost is not None:
        raise unreadable(_WHAT, f"it was cut off, the CA {lost} is not in it")
    return found


def _from_json(objects: list[dict[str, Any]]) -> Expiration:
    if len(objects) != 1 or objects[0].get("kind") != "CertificateExpirationInfo":
        raise ValueError("the JSON is not a CertificateExpirationInfo")
    parts = []
    for key in ("certificates", "certificateAuthorities"):
        entries = objects[0].get(key) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError(f"{key} is not a list of objects")
        parts.append(tuple(_certificate(entry) for entry in entries))
    return Expiration(*parts)


def _certificate(entry: dict[str, Any]) -> Certificate:
    name, missing, external = entry.get("name"), entry.get("missing"), entry.get("externallyManaged")
    left, ca = entry.get("residualTime"), entry.get("caName")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a certificate has no name")
    if not isinstance(missing, bool) or not isinstance(external, bool) or not isinstance(ca, (str, type(None))):
        raise ValueError(f"the fields of {name} are not of their types")
    if missing:
        return Certificate(name, None, None, ca or None, None, True)
    if not isinstance(left, int) or isinstance(left, bool):
        raise ValueError(f"{name} has no residual time")
    return Certificate(name, instant(entry.get("expirationDate")), left // _DAY, ca or None, external, False)


def _from_table(lines: list[str], now: datetime) -> Expiration:
    heads = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line)]
    if not heads:
        wrong = next((line for line in lines if not is_remark(line)), "")
        raise unreadable(_WHAT, "there is neither JSON nor a table, but", wrong)
    parts: dict[bool, tuple[Certificate, ...]] = {}
    signed = False
    for head, end in zip(heads, [*heads[1:], len(lines)]):
        match = _HEADER.fullmatch(lines[head])
        authority = bool(match and match["authority"])
        signed = signed or bool(match and match["signed"])
        if authority in parts:
            raise ValueError("a table comes twice")
        known = columns(lines[head])
        parts[authority] = tuple(_row(known, line, now) for line in lines[head + 1 : end] if not is_remark(line))
    if False not in parts or (signed and True not in parts):
        raise ValueError("it was cut off, a table is not in it")
    return Expiration(parts[False], parts.get(True, ()))


def _row(known: Columns, line: str, now: datetime) -> Certificate:
    missing = _MISSING.fullmatch(line)
    if missing:
        return Certificate(missing[1], None, None, None, None, True)
    cells = known.cells(line)
    if cells is None:
        raise unreadable(_WHAT, "a row does not fit the head of its table", line)
    name = cells[known.names[0]]
    residual = _RESIDUAL.fullmatch(cells["RESIDUAL TIME"])
    external = cells.get("EXTERNALLY MANAGED")
    if not _NAME.fullmatch(name) or not residual or external not in (*_YES_NO, None):
        raise unreadable(_WHAT, "a row does not fit the head of its table", line)
    expires = _date(cells["EXPIRES"])
    if expires is None:
        raise unreadable(_WHAT, "a row holds no date", line)
    # The column of this name in the table of CAs holds the CA's own name.
    ca = cells.get("CERTIFICATE AUTHORITY", "") if known.names[0] == "CERTIFICATE" else ""
    managed = None if external is None else _YES_NO[external]
    return Certificate(name, expires, _days(residual, expires, now), ca or None, managed, False)


def _days(residual: re.Match[str], expires: datetime, now: datetime) -> int:
    if residual["years"] and not residual["days"]:
        return (expires - now) // timedelta(days=1)
    if residual[0] == "<invalid>":
        return min((expires - now) // timedelta(days=1), -1)
    years, days, hours = (int(residual[unit] or 0) for unit in ("years", "days", "hours"))
    return years * 365 + days + hours // 24


def _date(text: str) -> datetime | None:
    match = _DATE.fullmatch(text)
    if not match or match[1] not in _MONTHS:
        return None
    try:
        month = _MONTHS.index(match[1]) + 1
        return datetime(int(match[3]), month, int(match[2]), int(match[4]), int(match[5]), tzinfo=timezone.utc)
    except ValueError:
        return None
