# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a reset removes from a host, what it restores, and what it keeps. Pure functions.

What the record of the first run does not have is removed only if its name or its text shows that this collection,
kubeadm or the pod network made it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping

from .._first_run import DIRECTORY as FIRST_RUN
from .._first_run import Before
from .._host.managed_files import REPLACED
from . import known, shared_files
from .model import (
    CONTAINERS,
    DATA,
    DIRECTORY,
    FILE,
    HOLD,
    KEEP,
    KUBECONFIG,
    LINK,
    MODULE,
    MOUNT,
    ORDER,
    PACKAGE,
    RECORD,
    REMOVE,
    RESTORE,
    RULES,
    SERVICE,
    SWAP,
    SYSCTL,
    UNIT,
    Action,
    Readings,
)
from .shared_files import File

_WITHOUT_BLOCK = "without the block of this collection"
_UNKNOWN = "no record shows whether it was here before"
_SYSCTL_FILE = "/etc/sysctl.d/95-gpulab.conf"
_REBOOT = "the kernel keeps it until the next boot"


def plan(now: Readings, lose_data: bool) -> list[Action]:
    """Return the actions in the order in which they are carried out; those of KEEP name what stays, and why."""
    going, needed = purgeable(now)
    # Packages that this collection has installed, and that go, or have gone in an interrupted reset.
    gone = {name for name, before in _of_kind(now, PACKAGE) if before is None} - (now.packages.keys() - going)
    found = [
        *_units(now),
        *([Action(REMOVE, CONTAINERS, "of pods")] if now.busy else []),
        *(Action(REMOVE, MOUNT, path) for path in _unmounted(now, going)),
        *(Action(REMOVE, LINK, name) for name, kind in now.links.items() if known.LINKS.get(name) == kind),
        *(Action(REMOVE, RULES, table, f"{count} of the cluster") for table, count in now.rules.items()),
        *_kubeconfigs(now),
        *_module(now, going),
        *_packages(now, going, needed),
        *_files(now, gone),
        *_directories(now, going, gone, lose_data),
        *_sysctls(now),
        *([Action(RESTORE, SWAP, "of /etc/fstab")] if now.swaps else []),
        *_record(now),
    ]
    return sorted(found, key=lambda action: ORDER.index(action.kind))


def purgeable(now: Readings) -> tuple[set[str], dict[str, str]]:
    """Return the packages to purge, and for those that stay, why.

    They were absent before the first run, and nothing that stays depends on them.
    """
    going = {name for name, _before in _of_kind(now, PACKAGE) if _before is None and name in now.packages}
    why: dict[str, str] = {}
    if _has_docker(now):
        why = dict.fromkeys((name for name in going if known.DOCKER_PACKAGES.fullmatch(name)), known.DOCKER_FIRST)
    going -= why.keys()
    while True:
        stays = [package for name, package in now.packages.items() if name not in going]
        needed = {name: package.name for package in stays for name in package.depends if name in going}
        if not needed:
            return going, why
        why |= {name: f"{user} depends on it" for name, user in needed.items()}
        going -= needed.keys()


def _of_kind(now: Readings, kind: str) -> list[tuple[str, Before | None]]:
    return [(name, entry.before) for (each, name), entry in now.record.entries.items() if each == kind]


def _has_docker(now: Readings) -> bool:
    """Return whether Docker is installed by this collection and was not removed by its own playbook."""
    return any(
        name in now.packages and before is None and re.fullmatch(r"docker-ce|docker\.io", name)
        for name, before in _of_kind(now, PACKAGE)
    )


def _unmounted(now: Readings, going: set[str]) -> list[str]:
    """Return the mounts to end, the last ones first. Those of a containerd that stays may be of other containers."""
    tops = (known.KUBELET, *(known.CONTAINERD if "containerd.io" in going else ()))
    return [point for point, top in now.mounts if top in tops]


def _units(now: Readings) -> Iterator[Action]:
    recorded = dict(_of_kind(now, UNIT))
    for name, unit in now.units.items():
        if known.CONNECTION.fullmatch(name) or not unit.exists:
            continue
        before, enabled = recorded.get(name), unit.file_state in ("enabled", "enabled-runtime")
        is_own = bool(known.OWN_UNITS.fullmatch(name))
        # A kubelet that was there before runs again after the reset, without a cluster.
        is_of_user = name == known.KUBELET_UNIT and (before is not None or not now.state)
        stops = is_own and (unit.running or enabled) and (not is_of_user or known.KUBELET in now.directories)
        if stops:
            yield Action(REMOVE, UNIT, name, "stop and disable")
        if before is not None and not (name == known.DOCKER and _has_docker(now)):
            verbs = _verbs(before, enabled and not stops, unit.running and not stops)
            # One that is masked or static can't be enabled, and was not changed either.
            if verbs and unit.file_state in ("enabled", "enabled-runtime", "disabled"):
                yield Action(RESTORE, SERVICE, name, " and ".join(verbs), verbs)


def _verbs(before: Before, enabled: bool, runs: bool) -> list[str]:
    was_enabled, ran = before["enabled"] == "enabled", before["active"] in ("active", "activating", "reloading")
    return [
        *(["enable" if was_enabled else "disable"] if enabled != was_enabled else []),
        *(["start" if ran else "stop"] if runs != ran else []),
    ]


def _kubeconfigs(now: Readings) -> Iterator[Action]:
    for path, identical in now.kubeconfigs.items():
        if identical:
            yield Action(REMOVE, KUBECONFIG, path, "a copy of admin.conf")
        else:
            yield Action(KEEP, KUBECONFIG, path, "it names this cluster, but is not a copy of admin.conf")


def _module(now: Readings, going: set[str]) -> Iterator[Action]:
    """Yield the unloading of the driver's modules: without its packages, no later run could use or replace it."""
    if now.driver and any(map(known.DRIVER_PACKAGES.fullmatch, going)):
        yield Action(REMOVE, MODULE, "nvidia", now.driver)


def _packages(now: Readings, going: set[str], why: Mapping[str, str]) -> Iterator[Action]:
    for name in sorted(going):
        yield Action(REMOVE, PACKAGE, name, now.packages[name].version)
    for name, reason in sorted(why.items()):
        yield Action(KEEP, PACKAGE, name, reason)
    recorded = dict(_of_kind(now, PACKAGE))
    for name, before in sorted(recorded.items()):
        package = now.packages.get(name)
        if before is None:
            continue
        if package is None:
            yield Action(KEEP, PACKAGE, name, f"it was {before['version']} and is removed, which can't be undone")
            continue
        if package.version != before["version"]:
            yield Action(KEEP, PACKAGE, name, f"it was {before['version']}, and stays {package.version}")
        if package.held != before["held"]:
            state = "hold" if before["held"] else "install"
            yield Action(RESTORE, HOLD, name, "on hold" if before["held"] else "not on hold", state)
    for name in sorted(now.packages.keys() - recorded.keys()):
        if known.EARLIER_PACKAGES.fullmatch(name):
            yield Action(KEEP, PACKAGE, name, f"{_UNKNOWN}; remove it with apt-get purge {name}")


def _files(now: Readings, gone: set[str]) -> Iterator[Action]:
    recorded = {name: None if known.GENERATED.get(name) in gone else before for name, before in _of_kind(now, FILE)}
    for name in sorted({*recorded, *now.files}):
        file = now.files.get(name)
        if _has_docker(now) and known.DOCKER_FILES.fullmatch(name):
            if file and recorded.get(name, 0) is None:
                yield Action(KEEP, FILE, name, known.DOCKER_FIRST)
        elif name in recorded:
            yield from _file(name, recorded[name], file, now.copies.get(name))
        elif file and name in known.FILES:
            yield Action(REMOVE, FILE, name, "of flannel or the kubelet")
        elif file and known.GENERATED.get(name.removesuffix(REPLACED)) in gone:
            yield Action(REMOVE, FILE, name, "of a package that goes")
        elif file and (bare := shared_files.without_block(name, file)) is not None:
            yield Action(RESTORE, FILE, name, _WITHOUT_BLOCK, bare)
        elif file and shared_files.is_ours(name, file):
            yield Action(REMOVE, FILE, name)
    for name in now.cni:
        yield Action(KEEP, FILE, name, "the configuration of another pod network")


def _file(name: str, before: Before | None, file: File | None, copy: File | None) -> Iterator[Action]:
    if before is None:
        if file and (shared_files.is_ours(name, file) or file.link == "/dev/null"):
            yield Action(REMOVE, FILE, name)
        elif file:
            yield Action(KEEP, FILE, name, "it was replaced by content that is not of this collection")
        return
    if file and _is_as_before(file, before):
        return
    if copy is None or not _is_as_before(copy, before, owner=False):
        lost = "its copy in the record of the first run is missing or damaged"
        bare = shared_files.without_block(name, file) if file else None
        if bare is not None:
            yield Action(RESTORE, FILE, name, _WITHOUT_BLOCK, bare)
        elif file:
            yield Action(REMOVE if shared_files.is_ours(name, file) else KEEP, FILE, name, lost)
        return
    undone = shared_files.undone(name, file, copy) if file else None
    if undone is not None and undone.data.rstrip(b"\n") != copy.data.rstrip(b"\n"):
        why = "only what this collection has changed, because the file was changed later"
        yield Action(RESTORE, FILE, name, why, undone) if undone != file else Action(KEEP, FILE, name, why)
    elif undone is None and file and not shared_files.is_ours(name, file) and file.link != "/dev/null":
        yield Action(KEEP, FILE, name, f"it was changed later; how it was before is in {name}.before-gpulab", copy)
    else:
        yield Action(RESTORE, FILE, name, "as it was", shared_files.as_before(copy, before))


def _is_as_before(file: File, before: Before, owner: bool = True) -> bool:
    if "link" in before:
        return file.link == str(before["link"])
    same = not file.link and hashlib.sha256(file.data).hexdigest() == str(before["sha256"])
    rights = (f"{file.mode:04o}", file.uid, file.gid) == (before["mode"], before["uid"], before["gid"])
    return same and (rights or not owner)


def _directories(now: Readings, going: set[str], gone: set[str], lose_data: bool) -> Iterator[Action]:
    for path in now.directories:
        if known.EMPTY.get(path) and known.EMPTY[path] not in gone:
            continue
        if path not in known.CONTAINERD:
            yield Action(REMOVE, DIRECTORY, path)
        elif "containerd.io" in going:
            yield Action(REMOVE, DIRECTORY, path, "images and containers of containerd, which goes")
        elif not path.startswith("/run"):
            yield Action(KEEP, DIRECTORY, path, "images of containerd, which stays")
    for path, what in now.data.items():
        yield Action(REMOVE if lose_data else KEEP, DATA, path, what)


def _sysctls(now: Readings) -> Iterator[Action]:
    recorded = dict(_of_kind(now, SYSCTL))
    for name, before in recorded.items():
        if before is not None and name in now.sysctls and now.sysctls[name] != before["value"]:
            yield Action(RESTORE, SYSCTL, name, f"{now.sysctls[name]} => {before['value']}", before["value"])
    if not recorded and _SYSCTL_FILE in now.files:
        yield Action(KEEP, SYSCTL, "of Kubernetes", f"{_UNKNOWN}; {_REBOOT}")


def _record(now: Readings) -> Iterator[Action]:
    for path in now.state:
        if path == FIRST_RUN and _has_docker(now):
            yield Action(KEEP, RECORD, path, known.DOCKER_FIRST)
        else:
            yield Action(REMOVE, RECORD, path)
