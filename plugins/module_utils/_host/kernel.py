# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules and sysctl settings: pure functions for the files that contain them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from .._errors import DomainError

_HEADER = "# Managed by Ansible (gpulab.kubernetes.kernel_settings); changes made here are overwritten.\n"
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KEY = re.compile(r"[A-Za-z0-9_:@-]+(?:[./][A-Za-z0-9_:@-]+)+")
# Paths that show a module which no list contains, as in a container or a kernel without modules.
_TRACES = {"br_netfilter": ("/proc/sys/net/bridge",), "ip_tables": ("/proc/net/ip_tables_names",)}
_ENTRY = re.compile(r"^\s*-?\s*(?P<key>[^#;=\s][^=\s]*)\s*=\s*(?P<value>.*?)\s*$", re.MULTILINE)


def module_name(name: str) -> str:
    """Return the kernel's form of a module name (``br-netfilter`` is ``br_netfilter``)."""
    if not _MODULE.fullmatch(name):
        raise DomainError(f"Error while reading the list of kernel modules: {name!r} is not the name of a module")
    return name.replace("-", "_")


def loaded_modules(proc_modules: str) -> set[str]:
    """Return the names in the text of ``/proc/modules``."""
    return {line.split()[0] for line in proc_modules.splitlines() if line.strip()}


def traces(module: str) -> list[str]:
    """Return paths of which at least one exists if the kernel has the module, even if no list contains it."""
    return [f"/sys/module/{module}", *_TRACES.get(module, ())]


def builtin_modules(modules_builtin: str) -> set[str]:
    """Return the names in ``/lib/modules/<release>/modules.builtin``, whose lines are paths of .ko files."""
    names = (PurePosixPath(line.strip()).name for line in modules_builtin.splitlines() if line.strip())
    return {name.partition(".ko")[0].replace("-", "_") for name in names}


def sysctl_path(key: str) -> str:
    """Return the path below ``/proc/sys`` of a key in either notation.

    The first separator decides, as in sysctl.d(5): in ``net/ipv4/conf/eth0.1/forwarding`` the dot is part of a name.
    """
    if not _KEY.fullmatch(key.replace("..", "")) or ".." in key:
        raise DomainError(f"Error while reading the sysctl settings: {key!r} is not the name of a setting")
    first = re.search(r"[./]", key)
    if first and first.group() == "/":
        return key
    return key.translate(str.maketrans("./", "/."))


def sysctl_value(value: Any) -> str:
    """Return a value in the kernel's form: 1 and 0 for true and false, single spaces between words."""
    if isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, (str, int, float)) or "\n" in str(value):
        raise DomainError(f"Error while reading the sysctl settings: {value!r} is not a single value")
    return " ".join(str(value).split())


def same_value(one: str, other: str) -> bool:
    """Return whether two values are equal for the kernel, which separates numbers with tabs."""
    return one.split() == other.split()


def modules_file(names: Iterable[str]) -> str:
    """Return the text of a file for systemd-modules-load."""
    return _HEADER + "".join(f"{name}\n" for name in names)


def sysctl_file(values: Mapping[str, str]) -> str:
    """Return the text of a file for systemd-sysctl."""
    return _HEADER + "".join(f"{key} = {value}\n" for key, value in sorted(values.items()))


def sysctl_keys(text: str) -> set[str]:
    """Return the paths below ``/proc/sys`` that a file for systemd-sysctl sets."""
    found = set()
    for entry in _ENTRY.finditer(text):
        with contextlib.suppress(DomainError):
            found.add(sysctl_path(entry["key"]))
    return found


def overridden(values: Mapping[str, str], ours: str, others: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the settings that a file read later than ours overrides at the next boot.

    ``others`` maps paths of sysctl.d files to their texts. The files are read in the order of their names in all
    directories (sysctl.d(5)), and the last one wins.
    """
    wanted = {sysctl_path(key): (key, value) for key, value in values.items()}
    last: dict[str, dict[str, str]] = {}
    for path in sorted(others, key=lambda path: (PurePosixPath(path).name, path)):
        if PurePosixPath(path).name <= PurePosixPath(ours).name:
            continue
        for entry in _ENTRY.finditer(others[path]):
            try:
                key, value = wanted[sysctl_path(entry["key"])]
            except (KeyError, DomainError):
                continue
            last[key] = {"key": key, "value": entry["value"], "file": path}
            if same_value(entry["value"], value):
                del last[key]
    return sorted(last.values(), key=lambda found: found["key"])
