# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A report as JUnit XML: a suite for each host, a test case for each GPU and each problem. Pure.

https://github.com/windyroad/JUnit-Schema/blob/master/JUnit.xsd. Two reports with the same findings are identical: they
contain no temperatures, and only the time of the verification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from ...module_utils._acceptance.problems import PROVE
from .actions import listed
from .origin import verified
from .read import Report, dictionaries, dictionary, number, text, texts

_PACKAGE = "gpulab.kubernetes"
# Characters that XML 1.0 does not allow, even escaped.
_INVALID = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
# Attribute of a suite -> the outcome that it counts, empty for all.
_COUNTS = {"tests": "", "failures": "failure", "errors": "error", "skipped": "skipped"}
_DETAILS = (("where", "Where"), ("why", "Why"), ("do", "Do"))


@dataclass(frozen=True)
class Case:
    """A test case; ``outcome`` is a JUnit element: skipped, failure, error, or empty if the case passed."""

    name: str
    outcome: str = ""
    kind: str = ""
    message: str = ""
    details: str = ""


def junit(report: Report) -> str:
    """Return the report as an XML document. GPUs in use and warnings are skipped; errors fail."""
    cluster, hosts = dictionary(report.get("cluster")), report["hosts"]
    name = text(cluster.get("name")) or text(cluster.get("endpoint")) or "cluster"
    actions: dict[str, list[dict[str, Any]]] = {host: [] for host in hosts}
    for action in listed(report):
        actions.setdefault(text(action.get("host")), []).append(action)
    root = Element("testsuites", name=_valid(name))
    for host, own in actions.items():
        cases = list(_cases(hosts.get(host, {}), own))
        if cases:
            suite = SubElement(root, "testsuite", id=str(len(root)), name=_valid(host or name), package=_PACKAGE)
            suite.set("hostname", _valid(host or name))
            moment = _TIME.match(text(hosts.get(host, {}).get("proven_at")) or verified(report))
            if moment:
                suite.set("timestamp", moment[0])
            _fill(suite, cases, f"{name}.{host or name}", report)
    for key in _COUNTS:
        root.set(key, str(sum(int(suite.get(key, 0)) for suite in root)))
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _cases(host: dict[str, Any], actions: list[dict[str, Any]]) -> Iterator[Case]:
    """Yield the GPUs of a host, then its problems; an error of a known GPU is part of the GPU's case."""
    devices = dictionaries(host.get("devices"))
    errors: dict[str, list[dict[str, Any]]] = {text(device.get("uuid")): [] for device in devices}
    errors.pop("", None)
    others = []
    for action in actions:
        known = [uuid for uuid in text(action.get("gpu")).split(", ") if uuid in errors]
        if known and _is_error(action) and _is_reachable(host):
            for uuid in known:
                errors[uuid].append(action)
        else:
            others.append(action)
    for place, device in enumerate(devices):
        found = errors.get(text(device.get("uuid")), [])
        yield _gpu(place, device, found) if _is_reachable(host) else _unknown(place, device)
    yield from map(_problem, others)


def _gpu(place: int, device: dict[str, Any], errors: list[dict[str, Any]]) -> Case:
    state, name = text(device.get("state")), _name(place, device)
    if errors:
        message = "; ".join(text(each.get("what")) for each in errors)
        return Case(name, "failure", _kind(errors[0]), message, "\n".join(map(_details, errors)))
    if device.get("healthy") is False:
        message = f"unhealthy: {'; '.join(texts(device.get('health'))) or 'no reason given'}"
        return Case(name, "failure", "gpu_unhealthy", message, f"Do: {' '.join([*texts(device.get('advice')), PROVE])}")
    if state == "in_use":
        return Case(name, "skipped", "", f"in use by pod {text(device.get('pod')) or 'of unknown name'}")
    if state != "proven":
        message = f"not verified: {text(device.get('reason')) or 'no reason given'}"
        return Case(name, "failure", text(device.get("kind")) or "gpu_unproven", message, f"Do: {PROVE}")
    return Case(name)


def _unknown(place: int, device: dict[str, Any]) -> Case:
    return Case(_name(place, device), "skipped", "", "its host could not be reached, so its state is unknown")


def _problem(action: dict[str, Any]) -> Case:
    what, severity = text(action.get("what")) or "problem", text(action.get("severity"))
    if _is_error(action):
        return Case(what, "error", _kind(action), what, _details(action))
    return Case(what, "skipped", "", f"{severity or 'warning'}: {what}\n{_details(action)}".strip())


def _name(place: int, device: dict[str, Any]) -> str:
    index = number(device.get("index"))
    parts = (text(device.get("name")), text(device.get("uuid")))
    return f"GPU {place if index is None else index}" + "".join(f", {part}" for part in parts if part)


def _is_error(action: dict[str, Any]) -> bool:
    return action.get("severity") == "error"


def _is_reachable(host: dict[str, Any]) -> bool:
    return host.get("reachable") is not False


def _kind(action: dict[str, Any]) -> str:
    return text(action.get("problem")) or "problem"


def _details(action: dict[str, Any]) -> str:
    return "\n".join(f"{title}: {text(action.get(key))}" for key, title in _DETAILS if text(action.get(key)))


def _fill(suite: Element, cases: list[Case], classname: str, report: Report) -> None:
    outcomes = [case.outcome for case in cases]
    for key, outcome in _COUNTS.items():
        suite.set(key, str(outcomes.count(outcome) if outcome else len(outcomes)))
    suite.set("time", "0")
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", name=name, value=_valid(value))
    for case in cases:
        element = SubElement(suite, "testcase", name=_valid(case.name), classname=_valid(classname), time="0")
        if case.outcome:
            result = SubElement(element, case.outcome, message=_valid(case.message))
            if case.outcome != "skipped":
                result.set("type", _valid(case.kind))
                result.text = _valid(case.details)
    SubElement(suite, "system-out").text = _valid("\n".join(texts(report.get("checks"))))
    SubElement(suite, "system-err")


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    """Yield properties of the whole report; only suites can have properties."""
    cluster = dictionary(report.get("cluster"))
    yield "simulated", "true" if report.get("simulated") is True else "false"
    known = {
        "verified": verified(report),
        "api": text(cluster.get("endpoint")),
        "kubernetes": text(cluster.get("kubernetes_version")),
        "collection": text(dictionary(report.get("origin")).get("collection")),
    }
    yield from ((name, value) for name, value in known.items() if value)


def _valid(words: str) -> str:
    return _INVALID.sub("", words)
