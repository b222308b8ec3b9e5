# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply kernel modules and sysctl settings, now and for the next boot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import difference, read_text, under, write_text
from .._first_run import FirstRun
from . import kernel

_SYSCTL_DIRECTORIES = ("/usr/lib/sysctl.d", "/usr/local/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d")


@dataclass
class Outcome:
    """Changes to the running kernel: ``loaded`` modules and ``set`` parameters; in check mode, planned changes.

    ``not_raised``: parameters that stay below their minimum, with the kernel's error.
    """

    loaded: list[str] = field(default_factory=list)
    set: dict[str, str] = field(default_factory=dict)
    not_raised: dict[str, str] = field(default_factory=dict)
    overridden: list[dict[str, str]] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.diff)


class KernelSettings:
    """Applies the settings. ``module`` is an AnsibleModule, ``root`` the root directory."""

    def __init__(self, module: Any, root: str) -> None:
        self._root = root
        self._runner = Runner(module, timeout=120)
        self._first_run = FirstRun(module, root)
        self._check: bool = module.check_mode
        self._outcome = Outcome()

    def apply(
        self,
        modules: Sequence[str] | None,
        sysctls: dict[str, Any] | None,
        minimums: dict[str, Any],
        modules_file: str,
        sysctl_file: str,
        recorded: Sequence[str] = (),
    ) -> Outcome:
        """Apply all settings. Raise DomainError for the first module, or for all settings, that the kernel rejects.

        ``recorded`` are parameters that others change as a consequence, so that the record of the first run has them.
        """
        values = {key: kernel.sysctl_value(value) for key, value in (sysctls or {}).items()}
        for key in values:
            kernel.sysctl_path(key)
        if modules is not None:
            self._load(modules)
        self._record([*values, *minimums, *recorded], sysctl_file)
        self._set(values)
        values.update(self._raise({key: low for key, low in minimums.items() if key not in values}, sysctl_file))
        if modules is not None:
            self._keep(modules_file, kernel.modules_file(modules), bool(modules))
        if sysctls is not None or minimums:
            self._keep(sysctl_file, kernel.sysctl_file(values), bool(values))
            self._outcome.overridden = kernel.overridden(values, sysctl_file, self._other_files(sysctl_file))
        return self._outcome

    def _load(self, modules: Sequence[str]) -> None:
        release = os.uname().release
        present = kernel.loaded_modules(read_text(under(self._root, "/proc/modules")) or "")
        present |= kernel.builtin_modules(read_text(under(self._root, f"/lib/modules/{release}/modules.builtin")) or "")
        for name in modules:
            known = kernel.module_name(name)
            if known not in present and not any(under(self._root, path).exists() for path in kernel.traces(known)):
                self._modprobe(name, release)

    def _record(self, keys: Sequence[str], sysctl_file: str) -> None:
        """Record parameters before the first change. What a later run finds, Kubernetes may have changed."""
        if not under(self._root, sysctl_file).exists():
            paths = dict.fromkeys(kernel.sysctl_path(key) for key in keys)
            self._first_run.keep_sysctls({path: self._current(path) for path in paths})

    def _current(self, path: str) -> str | None:
        with contextlib.suppress(OSError):
            return " ".join((under(self._root, "/proc/sys") / path).read_text(encoding="utf-8").split())
        return None

    def _modprobe(self, name: str, release: str) -> None:
        # For an alias or a built-in module that modules.builtin does not name, modprobe does nothing.
        planned = self._runner.run(["modprobe", "--dry-run", "--verbose", name])
        result = planned
        if planned.rc == 0 and planned.stdout.strip() and not self._check:
            result = self._runner.run(["modprobe", name])
        if result.rc != 0:
            advice = "Install the kernel's full set of modules, or a kernel that has this module"
            if not under(self._root, f"/lib/modules/{release}").is_dir():
                advice = (
                    f"The running kernel {release} has no modules in /lib/modules: it was probably upgraded; reboot"
                )
            raise DomainError(
                f"Error while loading the kernel module {name}: {result.message}. {advice}.", **result.fields()
            )
        if planned.stdout.strip():
            self._outcome.loaded.append(name)
            self._outcome.diff.append(
                {"before_header": f"kernel module {name}", "after_header": f"kernel module {name}"}
                | {"before": "", "after": "loaded\n"}
            )

    def _set(self, values: dict[str, str]) -> None:
        problems = []
        for key, value in sorted(values.items()):
            path = under(self._root, "/proc/sys") / kernel.sysctl_path(key)
            try:
                current = path.read_text(encoding="utf-8").strip() if path.exists() else None
                if current is None and not (self._check and self._outcome.loaded):
                    problems.append(f"{key}: this kernel has no such setting (is the module it belongs to loaded?)")
                    continue
                if current is not None and kernel.same_value(current, value):
                    continue
                if not self._check:
                    path.write_text(value + "\n", encoding="utf-8")
            except OSError as error:
                problems.append(f"{key}: the kernel rejects {value!r}: {error.strerror}")
                continue
            self._outcome.set[key] = value
            self._outcome.diff.append(difference(path, f"{current or ''}\n", f"{value}\n"))
        if problems:
            raise DomainError("Error while setting kernel parameters: " + "; ".join(problems))

    def _raise(self, minimums: dict[str, Any], sysctl_file: str) -> dict[str, str]:
        """Raise low parameters; return what the file must contain, without parameters that were already high enough."""
        ours = kernel.sysctl_keys(read_text(under(self._root, sysctl_file)) or "")
        kept = {}
        for key, wanted in sorted(minimums.items()):
            path = under(self._root, "/proc/sys") / kernel.sysctl_path(key)
            try:
                low = int(wanted)
                current = int(path.read_text(encoding="utf-8")) if path.exists() else None
                if current is None or (current >= low and kernel.sysctl_path(key) not in ours):
                    continue
                kept[key] = str(max(current, low))
                if current < low:
                    if not self._check:
                        path.write_text(f"{low}\n", encoding="utf-8")
                    self._outcome.set[key] = str(low)
                    self._outcome.diff.append(difference(path, f"{current}\n", f"{low}\n"))
            except (OSError, ValueError, TypeError) as error:
                kept.pop(key, None)
                self._outcome.not_raised[key] = str(getattr(error, "strerror", None) or error)
        return kept

    def _keep(self, path: str, text: str, needed: bool) -> None:
        file = under(self._root, path)
        before = read_text(file)
        if before == text or (before is None and not needed):
            return
        if not self._check:
            self._first_run.keep_file(path, file)
            write_text(file, text)
        self._outcome.diff.append(difference(file, before, text))

    def _other_files(self, ours: str) -> dict[str, str]:
        # A file hides files of the same name in directories that come earlier in the list.
        found: dict[str, Path] = {}
        for directory in _SYSCTL_DIRECTORIES:
            for path in under(self._root, directory).glob("*.conf"):
                found[path.name] = path
        found.pop(Path(ours).name, None)
        return {str(path): read_text(path) or "" for path in found.values() if path.is_file()}
