# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong in a report and what to do about it, first things first. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .read import Report, dictionaries, dictionary, number, text, texts

ERROR, WARNING = "error", "warning"
API_FAILURE = "the API was not read"
# An expired certificate comes first: without the API nothing else can be mended, or even be seen.
_ORDER = ("expired", "unreachable", "api", "unhealthy", "unproven", "isolated", "drift", "xids", "certificate")
_ILL = "Look at nvidia-smi -q and dmesg (Xid) on the host. A reset or a reboot often helps."
_AFRESH = "Then prove it: ansible-playbook playbooks/verify.yml."
# What acceptance says, and what to do about it; the first that fits.
_CURES = (
    ("has not joined", "Run site.yml, which joins it. If its name in the cluster differs, set cluster_node_name."),
    ("not ready", "On the host: systemctl status kubelet containerd, journalctl -u kubelet -n 50. Then run site.yml."),
    ("expected GPUs", "Look at lspci -d 10de: and dmesg on the host; correct cluster_expected_gpus if it is wrong."),
    ("asked for no GPU", "Run site.yml, which closes it in the container toolkit's configuration."),
    ("sees", "Look at nvidia-smi and dmesg (Xid, fallen off the bus) on the host; reboot it when its pods may stop."),
    ("nvidia-smi", "Follow what nvidia-smi says, then run site.yml, which installs and loads the driver."),
    ("allocatable", "Look at the device plugin's pod on this node (kubectl logs), delete it to start it anew."),
    ("label", "GPU feature discovery labels once a minute; look at its pod on this node when it stays so."),
    ("did not answer", "See that the host is up and reached by SSH (ansible HOST -m ping), and run again."),
)


@dataclass(frozen=True)
class Action:
    """``kind`` decides about the order; ``host`` is empty for what concerns the cluster, ``gpu`` is a UUID or empty."""

    kind: str
    severity: str
    host: str
    gpu: str
    what: str
    do: str

    def fields(self) -> dict[str, str]:
        return asdict(self)


def actions(report: Report, certificate_days: int) -> list[Action]:
    """Everything to do, the most urgent first. Certificates count from ``certificate_days`` before they expire."""
    found: dict[Action, None] = {}
    for problem, gpus in _grouped(dictionaries(report["problems"])).items():
        found[_of_problem(*problem, ", ".join(filter(None, gpus)))] = None
    for host, entry in report["hosts"].items():
        found.update(dict.fromkeys(_of_host(host, entry, certificate_days)))
    # A host that doesn't answer says it once, not for each of its GPUs.
    gone = {host for host, entry in report["hosts"].items() if entry.get("reachable") is False}
    kept = [each for each in found if each.kind != "unproven" or each.host not in gone]
    return sorted(kept, key=lambda each: (_ORDER.index(each.kind), each.host, each.what))


def _grouped(problems: list[dict[str, Any]]) -> dict[tuple[str, str], list[str]]:
    """Host and cause -> the GPUs concerned."""
    found: dict[tuple[str, str], list[str]] = {}
    for each in problems:
        found.setdefault((text(each.get("host")), text(each.get("cause"))), []).append(text(each.get("gpu")))
    return found


def _of_problem(host: str, cause: str, gpus: str) -> Action:
    if not host and cause.startswith(API_FAILURE):
        do = "On the control plane: systemctl status kubelet, crictl ps -a --name kube-apiserver. Then run again."
        return Action("api", ERROR, "", "", cause, do)
    cure = next((cure for sign, cure in _CURES if sign in cause), f"Mend what it says. {_AFRESH}")
    return Action("unproven", ERROR, host, gpus, cause, cure.replace("HOST", host))


def _of_host(host: str, entry: dict[str, Any], certificate_days: int) -> Iterator[Action]:
    if entry.get("reachable") is False:
        do = f"See that it is up and reached by SSH: ansible {text(entry.get('inventory_name')) or host} -m ping."
        yield Action("unreachable", ERROR, host, "", text(entry.get("failure")) or "the host was not reached", do)
        return
    for device in dictionaries(entry.get("devices")):
        if device.get("healthy") is False:
            what = f"{_gpu(device)} is not well: {'; '.join(texts(device.get('health'))) or 'no reason given'}"
            do = " ".join(texts(device.get("advice"))) or _ILL
            yield Action("unhealthy", ERROR, host, text(device.get("uuid")), what, f"{do} {_AFRESH}")
    open_ones = [_gpu(device) for device in dictionaries(entry.get("devices")) if device.get("state") == "unproven"]
    if open_ones:
        what = f"no proof covers {', '.join(open_ones)}"
        yield Action("unproven", ERROR, host, "", what, "Prove it: ansible-playbook playbooks/verify.yml.")
    for row in dictionaries(entry.get("versions")):
        if row.get("drift") is True:
            have = f"is {text(row.get('found'))}" if row.get("found") else "is not there"
            what = f"{text(row.get('component'))} {have}, {text(row.get('wanted'))} is wanted"
            do = "Run site.yml, which brings it about, or set the variable of this version to what is there."
            yield Action("drift", WARNING, host, "", what, do)
    yield from _kernel(host, entry)
    yield from _isolation(host, entry)
    if text(entry.get("xids_failure")):
        what = f"the kernel log was not read: {text(entry['xids_failure'])}"
        yield Action("xids", WARNING, host, "", what, "Errors of GPUs (Xids) are not known then; see journalctl -k.")
    yield from _certificates(host, entry, certificate_days)


def _kernel(host: str, entry: dict[str, Any]) -> Iterator[Action]:
    kernel = dictionary(entry.get("kernel"))
    newest = text(kernel.get("newest"))
    if kernel.get("newest_has_driver") is False and newest != text(kernel.get("running")):
        do = f"Install linux-headers-{newest}, for which DKMS then builds the driver, before this host boots again."
        if kernel.get("newest_has_headers") is True:
            do = f"Its headers are there: dkms autoinstall -k {newest} builds the driver, or says why not."
        yield Action("drift", WARNING, host, "", f"the kernel {newest} boots next, and has no NVIDIA driver", do)


def _isolation(host: str, entry: dict[str, Any]) -> Iterator[Action]:
    isolated = dictionary(entry.get("isolated"))
    if not isolated:
        return
    name = text(entry.get("inventory_name")) or host
    back = f"ansible-playbook playbooks/isolate_gpu.yml -e gpu_isolation_state=returned --limit {name}"
    what = f"no new GPU pods since {text(isolated.get('since'))}: {text(isolated.get('reason'))}"
    yield Action("isolated", WARNING, host, "", what, f"When it is mended, prove it and give it back: {back}")


def _certificates(host: str, entry: dict[str, Any], certificate_days: int) -> Iterator[Action]:
    if text(entry.get("certificates_failure")):
        what = f"the certificates were not read: {text(entry['certificates_failure'])}"
        yield Action("certificate", WARNING, host, "", what, "Run kubeadm certs check-expiration on the host.")
    for each in dictionaries(entry.get("certificates")):
        name, days = text(each.get("name")), number(each.get("days_left"))
        renew = f"On {host}: kubeadm certs renew {name}, then restart the control plane's static pods."
        if each.get("externally_managed") is True:
            renew = "Its CA is managed outside of the cluster: renew it there."
        if each.get("authority") is True:
            renew = "A CA is replaced by hand: see Manual Rotation of CA Certificates in Kubernetes' documentation."
        what, kind = f"certificate {name}", "expired"
        if each.get("apt_key") is True:
            what, kind = f"the key of the apt source {name}", "certificate"
            renew = "Run site.yml, which fetches the renewed key once the repository or the mirror has one."
        if days is not None and days < 0:
            yield Action(kind, ERROR, host, "", f"{what} has expired", renew)
        elif days is not None and days < certificate_days:
            yield Action("certificate", WARNING, host, "", f"{what} expires in {days} days", renew)


def _gpu(device: dict[str, Any]) -> str:
    index = number(dictionary(device).get("index"))
    return f"GPU {index}" if index is not None else f"GPU {text(device.get('uuid')) or 'without a UUID'}"
