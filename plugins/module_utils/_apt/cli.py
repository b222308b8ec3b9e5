# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run apt and dpkg without questions, wait for their locks, and do not restart services."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path

from .._command import CommandError, Result, Runner
from .._errors import DomainError
from .dpkg import Package

ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "DEBIAN_PRIORITY": "critical",
    "APT_LISTCHANGES_FRONTEND": "none",
    # needrestart would restart containerd and the kubelet under running pods.
    "NEEDRESTART_MODE": "l",
    "NEEDRESTART_SUSPEND": "1",
    "UCF_FORCE_CONFFOLD": "1",
}
_KEEP_CONFIGURATION = ("--force-confdef", "--force-confold")
_COMMON = ("-q", "-o", "Acquire::Retries=3", "-o", "Dpkg::Use-Pty=0")
_LOCKED = re.compile(
    r"Could not get lock|Unable to (?:acquire|lock)|frontend lock (?:was|is) locked|database (?:lock )?is locked"
    r"|locked by another process"
)
_COMPLAINT = re.compile(
    r"(?:[EW]|Err(?::\d+)?|dpkg(?:-deb)?): ?|Err:\d+ |Errors were encountered|subprocess "
    r"|The following (?:held )?packages (?:have unmet|will be (?:REMOVED|DOWNGRADED|changed))"
)
_HOLDER = re.compile(r"(?:held by process|process with pid) (\d+)(?: \(([^)]*)\))?")
_DISTRIBUTION_DRIVER = re.compile(r"nvidia-smi|nvidia-utils-\d+-server")
# Packages with a distribution's kernel modules, by kind of modules.
_DISTRIBUTION_MODULES = {
    "open": re.compile(r"nvidia-open-kernel-dkms|nvidia-headless-\d+-server-open"),
    "proprietary": re.compile(r"nvidia-kernel-dkms|nvidia-headless-\d+-server"),
}
_DRIVER_VERSION = re.compile(r"(?:\d+:)?(\d{3}(?:\.\d+)+)[-+~]")
_PAUSE = 2.0
# Only longer waits are reported: apt's own timers often hold the lock for some seconds.
_LONG_S = 10.0


class LockTimeoutError(DomainError):
    """Another package manager did not finish in time."""


class Apt:
    """Runs apt-get, apt-cache and dpkg. ``lock_timeout`` (s) limits the wait for another package manager.

    ``waited`` has the seconds by lock holder.
    """

    def __init__(self, runner: Runner, lock_timeout: float) -> None:
        self._runner = runner
        self._lock_timeout = lock_timeout
        self.waited: dict[str, float] = {}

    def notes(self) -> list[str]:
        """Return messages about long waits."""
        return [
            f"Waited {seconds:.0f} s for another package manager{holder}, which held its lock"
            for holder, seconds in self.waited.items()
            if seconds >= _LONG_S
        ]

    def update(self, options: Sequence[str], doing: str) -> Result:
        """Refresh the indexes; an unreachable index is an error, not a warning."""
        argv = ["apt-get", "update", *_COMMON, "-o", "APT::Update::Error-Mode=any", *options]
        return self._patiently(argv, doing)

    def install(self, options: Sequence[str], wanted: Sequence[str], doing: str, simulate: bool = False) -> Result:
        """Run ``apt-get install`` with ``name=version`` words. Raise CommandError with apt's message."""
        argv = ["apt-get", "install", "-y", *_COMMON]
        for flag in _KEEP_CONFIGURATION:
            argv += ["-o", f"Dpkg::Options::={flag}"]
        return self._patiently([*argv, *(["-s"] if simulate else []), *options, *wanted], doing)

    def configure_pending(self) -> Result:
        """Configure packages that an interrupted dpkg has left unconfigured."""
        argv = ["dpkg", "--configure", "-a", *_KEEP_CONFIGURATION]
        return self._patiently(argv, "completing the interrupted work of dpkg")

    def purge(self, names: Sequence[str], doing: str, simulate: bool = False) -> Result:
        """Remove packages with their configuration, also those on hold, and no others that nothing needs any more."""
        argv = ["apt-get", "purge", "-y", *_COMMON, "-o", "APT::Get::AutomaticRemove=false"]
        return self._patiently([*argv, "--allow-change-held-packages", *(["-s"] if simulate else []), *names], doing)

    def hold(self, packages: Sequence[Package], state: str = "hold") -> Result:
        """Hold installed packages, or with the state ``install``, release them.

        ``apt-mark hold`` would do the same, but rebuilds apt's cache first.
        """
        names = [each.name if each.architecture == "all" else f"{each.name}:{each.architecture}" for each in packages]
        selections = "".join(f"{name} {state}\n" for name in names)
        doing = f"{'holding' if state == 'hold' else 'releasing'} {', '.join(names)}"
        return self._patiently(["dpkg", "--set-selections"], doing, selections)

    def madison(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the versions that apt knows of each package, newest first."""
        result = self._runner.check(["apt-cache", "madison", *names], "asking apt for versions", environ=ENVIRONMENT)
        return read_madison(result.stdout)

    def _patiently(self, argv: list[str], doing: str, data: str | None = None) -> Result:
        deadline = time.monotonic() + self._lock_timeout
        while True:
            begun = time.monotonic()
            result = self._runner.run(argv, data=data, environ=ENVIRONMENT)
            if result.rc == 0:
                return result
            text = f"{result.stdout}\n{result.stderr}"
            if not _LOCKED.search(text):
                raise CommandError(f"Error while {doing}: {words(result)}", **result.fields())
            holder = _holder(text)
            if begun + _PAUSE > deadline:
                raise LockTimeoutError(
                    f"Error while {doing}: another package manager{holder} has held its lock for more than "
                    f"{self._lock_timeout:g} s. Wait until it is done (apt-daily, unattended-upgrades and cloud-init "
                    "run after boot), or raise cluster_apt_lock_timeout (in your own task: lock_timeout), and run "
                    "again",
                    **result.fields(),
                )
            time.sleep(_PAUSE)
            self.waited[holder] = self.waited.get(holder, 0) + time.monotonic() - begun


def words(result: Result) -> str:
    """Return the errors of apt or dpkg, without progress lines. Indented lines belong to the line above."""
    kept: list[str] = []
    keeping = False
    for line in f"{result.stderr}\n{result.stdout}".splitlines():
        keeping = bool(_COMPLAINT.match(line) or (keeping and line.startswith(" ")))
        if keeping:
            kept.append(line.rstrip())
    return "\n".join(dict.fromkeys(kept)) or result.message


def known_packages(runner: Runner, root: str, prefix: str) -> list[str]:
    """Return the packages known to apt whose names begin with ``prefix``; none without apt."""
    if runner.find("apt-cache") is None:
        return []
    return runner.run(["apt-cache", "-o", f"Dir={root}", "pkgnames", prefix]).stdout.split()


def distribution_drivers(runner: Runner, root: str) -> list[str]:
    """Return the packages with nvidia-smi in the distribution's own drivers that apt knows."""
    names = known_packages(runner, root, "nvidia-")
    return sorted(name for name in names if _DISTRIBUTION_DRIVER.fullmatch(name))


def distribution_versions(runner: Runner, root: str) -> list[dict[str, str]]:
    """Return the versions of the distribution's own drivers that apt knows, each with its kind of kernel modules.

    Flat repositories are skipped, because NVIDIA's contains packages of the same names.
    """
    names = known_packages(runner, root, "nvidia-")
    kinds = {name: kind for kind, pattern in _DISTRIBUTION_MODULES.items() for name in names if pattern.fullmatch(name)}
    if not kinds:
        return []
    text = runner.run(["apt-cache", "-o", f"Dir={root}", "madison", *sorted(kinds)], environ=ENVIRONMENT).stdout
    lines = [line for line in text.splitlines() if len(line.rpartition("|")[2].split()) > 2]
    found = {
        (match[1], kinds[name])
        for name, versions in read_madison("\n".join(lines)).items()
        for version in versions
        if name in kinds and (match := _DRIVER_VERSION.match(version))
    }
    return [{"version": version, "modules": kind} for version, kind in sorted(found)]


def read_madison(text: str) -> dict[str, list[str]]:
    """Parse ``apt-cache madison`` to versions by package; other lines are ignored."""
    versions: dict[str, list[str]] = {}
    for line in text.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 3 and columns[2].endswith("Packages"):
            known = versions.setdefault(columns[0], [])
            if columns[1] not in known:
                known.append(columns[1])
    return versions


def _holder(text: str) -> str:
    match = _HOLDER.search(text)
    if not match:
        return ""
    name = match.group(2)
    if not name:
        try:
            name = Path("/proc", match.group(1), "comm").read_text(encoding="utf-8").strip()
        except OSError:
            name = "unknown"
    return f" ({name}, process {match.group(1)})"
