# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disable swap, now and for the next boot. If memory is insufficient, nothing is changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from .._command import Result, Runner
from .._errors import DomainError
from .._files import BACKUP, difference, make_directory, printable, read_text, sync_path, under, write_text
from .._first_run import FirstRun
from . import swap_state as swap
from .swap_origins import MASKS, WAAGENT, blamed, origins, units_to_mask

# The kernel appends this to the name of a deleted file.
_DELETED = " (deleted)"


@dataclass
class Outcome:
    active: list[swap.ActiveSwap]
    fstab: list[swap.FstabSwap]
    units: list[str]
    configuration: list[str] = field(default_factory=list)
    backup: str | None = None
    diff: list[dict[str, str]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.active or self.fstab or self.units or self.configuration)

    def fstab_facts(self) -> list[dict[str, Any]]:
        facts = [asdict(entry) for entry in self.fstab]
        return [{k: printable(v) if isinstance(v, str) else v for k, v in entry.items()} for entry in facts]


class SwapOff:
    """Disables swap. ``module`` is an AnsibleModule, ``root`` the root directory."""

    def __init__(self, module: Any, fstab: str, proc_swaps: str, root: str) -> None:
        self._module = module
        self._runner = Runner(module, timeout=1800)
        self._root = root
        self._first_run = FirstRun(module, root)
        self._fstab_name = fstab
        self._fstab = under(root, fstab)
        self._waagent = under(root, WAAGENT)
        self._proc_swaps = under(root, proc_swaps)
        self._masked: list[tuple[Path, Path | None]] = []
        self._origins = origins(root)

    def apply(self) -> Outcome:
        text = read_text(self._fstab) or ""
        outcome = Outcome(self._active(), swap.fstab_swaps(text), units_to_mask(self._root))
        if outcome.active:
            off = "".join(f"{area.name}\n" for area in outcome.active)
            outcome.diff.append(difference(self._proc_swaps, off, ""))
        if outcome.fstab:
            outcome.diff.append(difference(self._fstab, text, swap.without_swap(text)))
        agent = read_text(self._waagent) or ""
        quiet = swap.without_azure_swap(agent)
        if quiet != agent:
            outcome.configuration.append(WAAGENT)
            outcome.diff.append(difference(self._waagent, agent, quiet))
        self._refuse_without_memory(outcome.active)
        if not self._module.check_mode and outcome.changed:
            self._refuse_without_access(outcome)
            try:
                self._turn_off(outcome.active)
                self._keep_off(outcome, text, quiet)
                self._verify()
            except DomainError as error:
                before = {self._fstab: text, self._waagent: agent}
                said = f"{str(error).rstrip('.')}. {self._put_back(outcome.active, before)}"
                raise DomainError(said, **error.fields) from error
        if outcome.units:
            masked = "".join(f"{unit} masked\n" for unit in outcome.units)
            outcome.diff.append(difference(under(self._root, MASKS), "", masked))
        return outcome

    def _keep_off(self, outcome: Outcome, text: str, waagent: str) -> None:
        self._mask(outcome.units)
        if outcome.fstab:
            outcome.backup = self._first_run.keep_file(self._fstab_name, self._fstab)
            write_text(self._fstab, swap.without_swap(text))
        if outcome.configuration:
            self._first_run.keep_file(WAAGENT, self._waagent)
            write_text(self._waagent, waagent)
        self._reload()
        self._mask_what_the_reload_made(outcome)

    def _mask_what_the_reload_made(self, outcome: Outcome) -> None:
        """Mask the units of swap partitions, which systemd creates only if fstab names no swap.

        Source: src/gpt-auto-generator/gpt-auto-generator.c, add_partition_swap: "swap specified in fstab, ignoring".
        """
        made = [unit for unit in units_to_mask(self._root) if unit not in outcome.units]
        if made:
            self._mask(made)
            outcome.units = sorted([*outcome.units, *made])
            self._reload()

    def _reload(self) -> None:
        if under(self._root, "/run/systemd/system").is_dir():
            self._runner.check(["systemctl", "daemon-reload"], "telling systemd that swap is off permanently")

    def _put_back(self, active: list[swap.ActiveSwap], before: dict[Path, str]) -> str:
        """Undo all changes and return a sentence about what could not be undone."""
        left = []
        undoes: list[Callable[[], None]] = [partial(self._restore, path, text) for path, text in before.items()]
        for undo in [*undoes, self._unmask]:
            try:
                undo()
            except (DomainError, OSError) as error:
                left.append(str(error))
        on = {area.name for area in self._active()}
        for area in active:
            priority = ["--priority", str(area.priority)] if area.priority >= 0 else []
            if area.name not in on and self._runner.run(["swapon", *priority, area.name]).rc != 0:
                left.append(f"{area.name} is off and could not be turned on again")
        return f"Not everything could be put back: {'; '.join(left)}." if left else "Nothing was changed."

    def _restore(self, path: Path, text: str) -> None:
        if (read_text(path) or "") != text:
            write_text(path, text)

    def _unmask(self) -> None:
        for path, kept in self._masked:
            path.unlink(missing_ok=True)
            if kept is not None:
                kept.rename(path)
        if self._masked:
            self._reload()

    def _active(self) -> list[swap.ActiveSwap]:
        return swap.active_swaps(read_text(self._proc_swaps) or "")

    def _refuse_without_memory(self, areas: list[swap.ActiveSwap]) -> None:
        missing = swap.shortage_mib(areas, read_text(under(self._root, "/proc/meminfo")) or "")
        if missing:
            names = ", ".join(area.name for area in areas)
            raise DomainError(
                f"Error while turning off swap {names}: its contents do not fit into the available memory, {missing} "
                "MiB are missing. Stop programs that use memory, or add memory; nothing was changed."
            )

    def _refuse_without_access(self, outcome: Outcome) -> None:
        """Raise DomainError before any change if a file can't be written (read-only, immutable)."""
        wanted = [self._fstab.resolve(), self._fstab.resolve().parent, self._fstab.parent] if outcome.fstab else []
        wanted += [under(self._root, MASKS)] if outcome.units else []
        wanted += [self._waagent, self._waagent.parent] if outcome.configuration else []
        for path in wanted:
            if path.exists() and not os.access(path, os.W_OK):
                raise DomainError(
                    f"Error while turning off swap: {path} can't be written (a read-only file system, or chattr +i), "
                    "so swap would be on again after a reboot. Make it writable; nothing was changed."
                )

    def _turn_off(self, areas: list[swap.ActiveSwap]) -> None:
        for area in areas:
            result = self._runner.run(["swapoff", area.name])
            if result.rc != 0:
                raise DomainError(
                    f"Error while turning off swap {area.name}: {result.message}.{self._advice(area, result)}",
                    **result.fields(),
                )

    def _advice(self, area: swap.ActiveSwap, result: Result) -> str:
        if area.name.endswith(_DELETED):
            return " The file was deleted while it was in use, so that only a reboot turns it off."
        if "allocate memory" not in result.message:
            return ""
        meminfo = read_text(under(self._root, "/proc/meminfo")) or ""
        missing, available = swap.shortage_mib([area], meminfo), swap.available_mib(meminfo)
        said = f" {missing} MiB of memory are missing." if missing else " The kernel wants more free memory"
        if not missing:
            known = "" if available is None else f" than the {available} MiB that are available"
            said += f"{known}, for the {area.used_kib // 1024} MiB in it."
        return said + " Stop programs that use memory, or add memory."

    def _mask(self, units: list[str]) -> None:
        directory = under(self._root, MASKS)
        self._first_run.keep_files({f"{MASKS}/{unit}": directory / unit for unit in units})
        for unit in units:
            path = directory / unit
            try:
                make_directory(directory)
                kept = path.with_name(path.name + BACKUP) if os.path.lexists(path) else None
                if kept is not None:
                    # systemd refuses to mask a unit that exists in this directory.
                    path.rename(kept)
                self._masked.append((path, kept))
                path.symlink_to(os.devnull)
                sync_path(directory)
            except OSError as error:
                raise DomainError(f"Error while masking {unit}: {error.strerror}") from error

    def _verify(self) -> None:
        # systemd may have enabled an area again before it was reloaded.
        for area in self._active():
            self._runner.check(["swapoff", area.name], f"turning off swap {area.name} again")
        left = [area.name for area in self._active()]
        if left:
            names = ", ".join(left)
            who = ", ".join(filter(None, (blamed(name, self._origins) for name in left)))
            at_boot = f"At boot it is turned on by {who}. " if who else ""
            raise DomainError(
                f"Error while turning off swap {names}: it is on again immediately. {at_boot}Find out what turns it "
                "on (systemctl list-units --type=swap, systemctl list-timers), and stop it."
            )
