# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Load NVIDIA's kernel module in the wanted version, after unloading nouveau.

Only /proc/driver/nvidia/version is reliable: /proc/modules has no version, and modprobe succeeds even if the module
finds no device.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .._command import Result, Runner
from .._errors import DomainError
from .._files import read_text, under
from .._versions import compare_versions
from .driver_messages import read_messages
from .kernel_log import kernel_records
from .signing import certificate

OPEN, PROPRIETARY = "open", "proprietary"
VERSION_FILE = "/proc/driver/nvidia/version"
# "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.178.04  ..." or "... UNIX Open Kernel Module for x86_64  580..."
_VERSION = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
# In the order of removal: a module comes before the modules that it uses.
_MODULES = ("nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia_peermem", "gdrdrv", "nvidia_fs", "nvidia")
# The CDI specification also gives containers the device nodes of these modules.
_COMPANIONS = {"nvidia_modeset": "/dev/nvidia-modeset", "nvidia_uvm": "/dev/nvidia-uvm"}
# Modules from other software; whatever loaded them does not load them again by itself.
_FURTHER = tuple(name for name in _MODULES if name not in ("nvidia", *_COMPANIONS))


# Error messages of modprobe -> advice. The kernel's text for an error number follows "could not insert 'nvidia'".
_ENROLL = "enroll DKMS's key (mokutil --import {key_file}, then reboot and confirm at the console)"
_REFUSALS = (
    (
        r"Key was rejected|Required key not available|Key has (?:expired|been revoked)|unsigned module"
        r"|module signature",
        "Secure Boot is on and the module is not signed with a key that this machine trusts. Turn off Secure Boot, or "
        f"{_ENROLL}.",
    ),
    (
        r"Error running (?:install|remove) command|install command",
        "A line beginning with install in /etc/modprobe.d or /usr/lib/modprobe.d runs another command in place of the "
        "module: find it (grep -r nvidia /etc/modprobe.d /usr/lib/modprobe.d) and remove it.",
    ),
    (
        r"No such device",
        "The driver found no GPU that it supports. Check the kernel log (dmesg) for lines with NVRM.",
    ),
    (
        r"Operation not permitted|Lockdown",
        "If Secure Boot is on (mokutil --sb-state) or the kernel is locked down (cat /sys/kernel/security/lockdown), "
        f"the module is not signed with a key that this machine trusts: turn off Secure Boot, or {_ENROLL}. If loading "
        "was turned off until the next boot (sysctl kernel.modules_disabled is 1), reboot without that setting. Only "
        "if this is a container: load the module on the host itself.",
    ),
    (
        r"Exec format error|Invalid module format|disagrees about version",
        "The module was built for another kernel or with another compiler than {release}. Build it again: dkms remove "
        "and dkms install for this kernel (dkms status shows the version), with its headers, linux-headers-{release}.",
    ),
    (
        r"Unknown symbol",
        "The module needs functions or parameters that are not there: a module that it needs has another version, or a "
        "file in /etc/modprobe.d sets an option that this version does not have (grep -r nvidia /etc/modprobe.d). The "
        "kernel log (dmesg) names them; build the module again for {release} (dkms status).",
    ),
    (
        r"Invalid argument",
        "The kernel or the module refuses a parameter: check the options in /etc/modprobe.d (grep -r nvidia "
        "/etc/modprobe.d) and the kernel log (dmesg), and: dkms status",
    ),
    (
        r"Device or resource busy",
        "Another driver uses the GPU (lspci -k -d 10de:), for example nouveau or vfio-pci: unload it or reboot.",
    ),
    (
        r"Cannot allocate memory|Out of memory",
        "The kernel has not enough memory for the module: check free -m and the kernel log (dmesg).",
    ),
    (
        r"modules\.dep|could not open moddep|modules\.builtin|directory /lib/modules/\S+: No such file",
        "The modules of the running kernel {release} are not installed: it was removed or replaced since the boot. "
        "Reboot into an installed kernel, or install it again; depmod -a repairs a missing list.",
    ),
    (
        r"Permission denied",
        "Modules can be loaded by root only: check become, and whether a security module forbids it (dmesg).",
    ),
    (
        r"not found",
        "There is no nvidia module for the running kernel {release}. It is built by DKMS, which needs this kernel's "
        "headers: install linux-headers-{release} (or boot a kernel whose headers apt has), then see: dkms status",
    ),
)


def parse_version(text: str) -> str:
    """Return the loaded version from /proc/driver/nvidia/version, empty if there is none."""
    match = _VERSION.search(text)
    return match.group(1) if match else ""


def parse_modules(text: str) -> str:
    """Return the kind of the loaded modules, open or proprietary, from /proc/driver/nvidia/version."""
    return "" if not parse_version(text) else OPEN if "Open Kernel Module" in text else PROPRIETARY


def advice(said: str, release: str, key_file: str) -> str:
    """Return the advice for an error message of modprobe; ``key_file`` is the file with DKMS's key."""
    for words, do in _REFUSALS:
        if re.search(words, said, re.IGNORECASE):
            return do.format(release=release, key_file=key_file)
    return "See the kernel's log (dmesg) for lines with NVRM, and: dkms status"


@dataclass
class Outcome:
    """``reason`` is a sentence why a reboot is required; ``modules`` were unloaded together with the driver's own."""

    changed: bool = False
    loaded_before: str = ""
    loaded_version: str = ""
    reboot_required: bool = False
    reason: str = ""
    modules: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Driver:
    def __init__(self, runner: Runner, root: str, check: bool) -> None:
        self._runner = runner
        self._root = root
        self._check = check
        self._release = os.uname().release

    def loaded_version(self) -> str:
        return parse_version(self._loaded())

    def _loaded(self) -> str:
        return read_text(under(self._root, VERSION_FILE)) or ""

    def _modules(self) -> set[str]:
        return {line.split(" ", 1)[0] for line in (read_text(under(self._root, "/proc/modules")) or "").splitlines()}

    def ensure(self, version: str, blacklist: str, further: Sequence[str] = (), modules: str = "") -> Outcome:
        """Load the driver, with ``modules`` of that kind if given.

        Failures to load ``further`` modules are only warnings.
        Raise DomainError if the module can't be loaded and a reboot would not help.
        """
        before = self.loaded_version()
        outcome = Outcome(loaded_before=before, loaded_version=before)
        for release in self._old_initramfs(blacklist):
            outcome.changed = True
            if not self._check:
                self._runner.check(
                    ["update-initramfs", "-u", "-k", release],
                    f"keeping nouveau out of the initial ramdisk of {release}",
                )
        if before == version and modules in ("", parse_modules(self._loaded())):
            # An interrupted run may have loaded only the first module.
            missing = self._missing_companions()
            outcome.changed |= bool(missing)
            if not self._check:
                self._load_companions(missing, version)
                self._load_further(further, outcome)
            return outcome
        if not self._check:
            self._make_room(before, version, modules, outcome)
        if outcome.reboot_required:
            return outcome
        outcome.changed = True
        if not self._check:
            self._load(version, outcome)
            self._load_further([*further, *outcome.modules], outcome)
        return outcome

    def remove(self) -> Outcome:
        """Unload the loaded driver; ``reboot_required`` is set if it is in use."""
        before = self.loaded_version()
        outcome = Outcome(changed=bool(before), loaded_before=before)
        if before and not self._check:
            result = self._unload(self._modules(), outcome)
            outcome.loaded_version = self.loaded_version()
            if result.rc != 0 or outcome.loaded_version:
                said = result.message if result.rc != 0 else "it is still there"
                outcome.reboot_required, outcome.reason = True, f"driver {before} is in use: {said}"
                outcome.changed = False
                self._load_companions(self._missing_companions(), before)
                self._load_further(outcome.modules, outcome)
        return outcome

    def _missing_companions(self) -> list[str]:
        loaded = self._modules()
        return [
            name for name, node in _COMPANIONS.items() if name not in loaded and not under(self._root, node).exists()
        ]

    def _load_companions(self, names: Iterable[str], version: str) -> None:
        for name in names:
            self._runner.check(["modprobe", name], f"loading {name} of the NVIDIA driver {version}")

    def _load_further(self, names: Iterable[str], outcome: Outcome) -> None:
        for name in dict.fromkeys(name for name in names if name not in self._modules()):
            result = self._runner.run(["modprobe", name])
            if result.rc != 0:
                outcome.warnings.append(
                    f"The module {name}, which was loaded together with the previous driver, can't be loaded: "
                    f"{result.message}"
                )

    def _make_room(self, before: str, version: str, modules: str, outcome: Outcome) -> None:
        loaded = self._modules()
        if "nouveau" in loaded:
            result = self._runner.run(["modprobe", "-r", "nouveau"])
            if result.rc != 0:
                outcome.reboot_required = True
                outcome.reason = f"the nouveau driver is in use and can't be unloaded: {result.message}"
        elif before:
            result = self._unload(loaded, outcome)
            if result.rc != 0 or self.loaded_version():
                outcome.reboot_required = True
                other = version if version != before else f"its {modules} modules"
                outcome.reason = (
                    f"driver {before} is in use and can't be unloaded to load {other}: "
                    f"{result.message if result.rc != 0 else 'it is still there'}"
                )
                self._load_further(outcome.modules, outcome)

    def _unload(self, loaded: set[str], outcome: Outcome) -> Result:
        outcome.modules = [name for name in _FURTHER if name in loaded]
        # In a container, the host's modules may be missing from the list.
        names = [name for name in _MODULES if name in loaded] or ["nvidia_uvm", "nvidia_modeset", "nvidia"]
        for name in names:
            result = self._runner.run(["modprobe", "-r", name])
            if result.rc != 0:
                break
        return result

    def _load(self, version: str, outcome: Outcome) -> None:
        begun = time.time()
        result = self._runner.run(["modprobe", "nvidia"])
        outcome.loaded_version = self.loaded_version()
        if not outcome.loaded_version:
            said = result.message if result.rc else f"modprobe found nothing wrong, but there is no {VERSION_FILE}"
            raise DomainError(
                f"Error while loading the NVIDIA driver {version}: {said}. {self._reasons(begun, said)}",
                **result.fields(),
            )
        if outcome.loaded_version != version:
            raise DomainError(
                f"Error while loading the NVIDIA driver {version}: the module that was loaded is "
                f"{outcome.loaded_version}. Another module of this name is in /lib/modules/{self._release}; check: "
                "modinfo -n nvidia; dkms status"
            )
        self._load_companions(_COMPANIONS, version)

    def _old_initramfs(self, blacklist: str) -> list[str]:
        """Return the kernels whose initial ramdisk contains nouveau and is older than the blacklist.

        The running kernel and the newest one, which boots next, are checked; ``update-initramfs -u`` alone would only
        update the newest.
        """
        if not blacklist or self._runner.find("update-initramfs") is None:
            return []
        file, boot = under(self._root, blacklist), under(self._root, "/boot")
        images = {path.name.removeprefix("initrd.img-"): path for path in boot.glob("initrd.img-*")}
        modules = {
            release: read_text(under(self._root, f"/lib/modules/{release}/modules.dep")) or "" for release in images
        }
        # DKMS also keeps copies of initial ramdisks in /boot.
        kernels = sorted(filter(modules.get, images), key=functools.cmp_to_key(compare_versions))
        return [
            release
            for release in dict.fromkeys([self._release, *kernels[-1:]])
            if "/nouveau.ko" in modules.get(release, "")
            and (not file.exists() or _changed_at(file) > _changed_at(images[release]))
        ]

    def _reasons(self, begun: float, said: str) -> str:
        """Return advice from the kernel log if the module found no GPU, otherwise from modprobe's message."""
        records = kernel_records(self._runner.run)[0] if "No such device" in said else None
        # The kernel's clock may be slightly behind.
        found = [each for each in read_messages(records or [], begun - 1) if not each.switch]
        if not found:
            return advice(said, self._release, certificate(self._root))
        lines = "; ".join(each.line for each in found)
        return f"The kernel log: {lines}. {' '.join(dict.fromkeys(each.do for each in found))}"


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0
