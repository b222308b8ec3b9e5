# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong in a report and what to do about it, most urgent first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ...module_utils._acceptance.problems import PROVE, SITE
from ...module_utils._files import ASIDE
from ...module_utils._nvidia_smi.faults import COMMANDS, DO_LOOK
from ...module_utils._problem import Problem, make_problem, mark_commands, read, split_commands, together
from ...module_utils._words import counted
from .._nodes.deferral import sentence
from .._nodes.kubernetes import KUBELET_SKEW, minors_behind, release
from .backup import problems as backup_problems
from .certificates import CA_DAYS, REPLACE_CA, renewal
from .drift import Row
from .launch import problems as launch_problems
from .read import Report, dictionaries, dictionary, number, text, texts

ERROR, WARNING = "error", "warning"
_FIELDS = ("severity", "problem", "host", "gpu", "what", "where", "why", "do")
API_UNREAD = "api_unread"
# An expired certificate comes first: without the API, nothing else can be fixed or even read.
_ORDER = (
    "expired",
    "unreachable",
    "api",
    "unhealthy",
    "unproven",
    "fewer",
    "isolated",
    "deferred",
    "behind",
    "drift",
    "backup",
    "xids",
    "launch",
    "certificate",
    "aside",
)
# For problems and versions in older reports, which contain no remedy.
_OTHERWISE = f"Fix the reported problem. {PROVE}"


@dataclass(frozen=True)
class Action:
    """A problem with its place in the order: ``kind`` decides the place; the problem's own kind is ``problem``."""

    kind: str
    severity: str
    problem: Problem

    def fields(self) -> dict[str, Any]:
        own = {"problem": self.problem.kind, "kind": self.kind, "severity": self.severity}
        return {"gpu": "", **self.problem.fields(), **own}


def listed(report: Report) -> list[dict[str, Any]]:
    """Return the actions of a stored report, or its problems if it was written without a list of actions."""
    if "actions" in report:
        return [
            {**{key: text(each.get(key)) for key in _FIELDS}, "commands": texts(each.get("commands"))}
            for each in dictionaries(report["actions"])
        ]
    problems = map(read, dictionaries(report["problems"]))
    return [Action("", ERROR, each).fields() for each in problems]


def actions(report: Report, certificate_days: int) -> list[Action]:
    """Return all actions, most urgent first; certificates that expire within ``certificate_days`` are included."""
    found = dict.fromkeys(map(_of_problem, together(dictionaries(report["problems"]))))
    found.update({Action("fewer", WARNING, each): None for each in together(dictionaries(report.get("warnings")))})
    for host, entry in report["hosts"].items():
        found.update(dict.fromkeys(_of_host(host, entry, certificate_days)))
        found.update(dict.fromkeys(_behind(host, entry, dictionary(report.get("cluster")))))
    found.update(dict.fromkeys(_apt_keys(report["hosts"], certificate_days)))
    launch = launch_problems(dictionary(report.get("launch")))
    found.update({Action("launch", ERROR if is_error else WARNING, each): None for is_error, each in launch})
    # An unreachable host is one problem, not one per GPU.
    gone = {host for host, entry in report["hosts"].items() if entry.get("reachable") is False}
    kept = [each for each in found if each.kind != "unproven" or each.problem.host not in gone]
    return sorted(kept, key=lambda each: (_ORDER.index(each.kind), each.problem.host, each.problem.what))


def api_unread(failure: str) -> Problem:
    do = "On the control plane: `systemctl status kubelet`, `crictl ps -a --name kube-apiserver`. Then run again."
    return make_problem(API_UNREAD, f"the API could not be read: {failure}", "", "", do)


def _of_problem(problem: Problem) -> Action:
    kind = "api" if problem.kind == API_UNREAD else "unproven"
    do, commands = split_commands(_OTHERWISE)
    return Action(kind, ERROR, problem if problem.do else replace(problem, do=do, commands=commands))


def _action(kind: str, severity: str, problem: str, host: str, what: str, do: str, gpu: str = "") -> Action:
    return Action(kind, severity, make_problem(problem, what, "", "", do, host, gpu))


def _of_host(host: str, entry: dict[str, Any], certificate_days: int) -> Iterator[Action]:
    if entry.get("reachable") is False:
        name = text(entry.get("inventory_name")) or host
        do = f"Check that the host is up and reachable through SSH: `ansible {name} -m ping -i INVENTORY`."
        failure = text(entry.get("failure")) or "the host could not be reached"
        yield _action("unreachable", ERROR, "host_unreachable", host, failure, do)
        return
    for device in dictionaries(entry.get("devices")):
        if device.get("healthy") is False:
            what = f"{_gpu(device)} is unhealthy: {'; '.join(texts(device.get('health'))) or 'no reason given'}"
            do = mark_commands(" ".join(texts(device.get("advice"))) or DO_LOOK, COMMANDS)
            gpu = text(device.get("uuid"))
            yield _action("unhealthy", ERROR, "gpu_unhealthy", host, what, f"{do} {PROVE}", gpu)
    open_ones = [_gpu(device) for device in dictionaries(entry.get("devices")) if device.get("state") == "unproven"]
    if open_ones:
        what = f"no verification covers {', '.join(open_ones)}"
        do = "Verify it: `ansible-playbook gpulab.kubernetes.verify -i INVENTORY`."
        yield _action("unproven", ERROR, "gpu_unproven", host, what, do)
    for row in dictionaries(entry.get("versions")):
        if row.get("drift") is True:
            difference = Row(text(row.get("component")), text(row.get("wanted")), text(row.get("found")))
            do, commands = text(row.get("advice")), tuple(texts(row.get("commands")))
            if not do:
                do, commands = split_commands(_OTHERWISE)
            found = Problem("version_differs", difference.text, "", "", do, host, commands=commands)
            yield Action("drift", WARNING, found)
    yield from _isolation(host, entry)
    for each in dictionaries(entry.get("deferred")):
        said = {name: text(each.get(name)) for name in ("since", "change", "pending")}
        what = sentence({**said, "users": texts(each.get("users"))})
        do = "Run the playbook again when they have finished, or with another cluster_disruption_policy."
        yield _action("deferred", WARNING, "change_deferred", host, what, do)
    if text(entry.get("xids_failure")):
        what = f"the kernel log could not be read: {text(entry['xids_failure'])}"
        do = "Without it, errors of GPUs (Xids) are unknown. On the host, check: `journalctl -k`."
        yield _action("xids", WARNING, "kernel_log_unread", host, what, do)
    for kind, what, do in backup_problems(dictionary(entry.get("backup"))):
        yield _action("backup", WARNING, kind, host, what, do)
    yield from _certificates(host, entry, certificate_days)
    for moment in texts(entry.get("moved_aside")):
        since = f"{moment[:4]}-{moment[4:6]}-{moment[6:8]}"
        what = (
            f"files of an earlier attempt to form a cluster, perhaps with CA keys, are in {ASIDE}{moment} since {since}"
        )
        do = f"If no one needs them, remove them on {host}: `sudo rm -r {ASIDE}{moment}`"
        yield _action("aside", WARNING, "files_moved_aside", host, what, do)


def _behind(host: str, entry: dict[str, Any], cluster: dict[str, Any]) -> Iterator[Action]:
    behind = minors_behind(entry.get("kubelet"), cluster.get("kubernetes_version"))
    if behind and entry.get("reachable") is not False:
        found, wanted = release(entry["kubelet"]), release(cluster["kubernetes_version"])
        what = f"its kubelet ({found}) is {counted(behind, 'minor')} behind the cluster ({wanted})"
        do = (
            f"Kubernetes allows {KUBELET_SKEW}. Run this when its jobs have finished, or with another "
            "cluster_disruption_policy: `ansible-playbook gpulab.kubernetes.site -i INVENTORY`."
        )
        yield _action("behind", WARNING, "kubelet_behind", host, what, do)


def _isolation(host: str, entry: dict[str, Any]) -> Iterator[Action]:
    isolated = dictionary(entry.get("isolated"))
    if not isolated:
        return
    name = text(entry.get("inventory_name")) or host
    back = f"ansible-playbook gpulab.kubernetes.isolate_gpu -i INVENTORY -e gpu_isolation_state=returned --limit {name}"
    what = f"no new GPU pods since {text(isolated.get('since'))}: {text(isolated.get('reason'))}"
    do = f"When it is repaired, verify it and end its isolation: `{back}`"
    yield _action("isolated", WARNING, "node_isolated", host, what, do)


def _certificates(host: str, entry: dict[str, Any], certificate_days: int) -> Iterator[Action]:
    if text(entry.get("certificates_failure")):
        what = f"the certificates could not be read: {text(entry['certificates_failure'])}"
        do = "On the host: `kubeadm certs check-expiration`."
        yield _action("certificate", WARNING, "certificates_unread", host, what, do)
    renewable: dict[int, list[str]] = {}
    for each in dictionaries(entry.get("certificates")):
        name, days = text(each.get("name")), number(each.get("days_left"))
        limit = max(certificate_days, CA_DAYS) if each.get("authority") is True else certificate_days
        if each.get("apt_key") is True or days is None or days >= limit:
            continue
        if each.get("authority") is True:
            yield _certificate(host, [name], days, REPLACE_CA)
        elif each.get("externally_managed") is True:
            yield _certificate(host, [name], days, "Its CA is managed outside the cluster: renew it there.")
        else:
            renewable.setdefault(max(days, -1), []).append(name)
    # kubeadm creates most of them in the same minute, and one command renews all of them.
    for days, names in renewable.items():
        yield _certificate(host, names, days, renewal(names))


def _certificate(host: str, names: list[str], days: int, renew: str) -> Action:
    what = f"certificate {names[0]}" if len(names) == 1 else f"certificates {', '.join(names)}"
    one = len(names) == 1
    if days < 0:
        what += " has expired" if one else " have expired"
        return _action("expired", ERROR, "certificate_expired", host, what, renew)
    what += f" {'expires' if one else 'expire'} in {counted(days, 'day')}"
    return _action("certificate", WARNING, "certificate_expires", host, what, renew)


def _apt_keys(hosts: dict[str, Any], certificate_days: int) -> Iterator[Action]:
    """Yield one action per key and date: the key is the repository's, and usually the same on all hosts."""
    having: dict[tuple[str, int], list[str]] = {}
    for host, entry in hosts.items():
        for each in dictionaries(entry.get("certificates")):
            days = number(each.get("days_left"))
            if each.get("apt_key") is True and days is not None and days < certificate_days:
                having.setdefault((text(each.get("name")), days), []).append(host)
    renew = f"When the repository or the mirror has a renewed key, fetch it: {SITE}."
    for (name, days), names in having.items():
        what, host = f"the key of the apt source {name}", names[0] if len(names) == 1 else ""
        where = "" if host else f" (on {len(names)} hosts)"
        if days < 0:
            yield _action("certificate", ERROR, "apt_key_expired", host, f"{what} has expired{where}", renew)
        else:
            what = f"{what} expires in {counted(days, 'day')}{where}"
            yield _action("certificate", WARNING, "apt_key_expires", host, what, renew)


def _gpu(device: dict[str, Any]) -> str:
    index = number(dictionary(device).get("index"))
    return f"GPU {index}" if index is not None else f"GPU {text(device.get('uuid')) or 'without a UUID'}"
