# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of cloud-init from its files (its documentation's "Reported status" page)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from .._command import CommandError, Runner
from .._files import text_or_nothing, under

_RESULT = "/run/cloud-init/result.json"
_OFF = ("/run/cloud-init/disabled", "/etc/cloud/cloud-init.disabled")
_PAUSE_S = 2.0
# All of cloud-init's settings, merged; before 23.3, only its sources exist. A later one takes precedence: cloud-init's
# documentation, "Configuration sources".
_MERGED = "/run/cloud-init/combined-cloud-config.json"
_SOURCES = (
    "etc/cloud/cloud.cfg",
    "etc/cloud/cloud.cfg.d/*.cfg",
    "var/lib/cloud/instance/vendor-cloud-config.txt",
    "var/lib/cloud/instance/vendor2-cloud-config.txt",
    "var/lib/cloud/instance/cloud-config.txt",
)
_HOSTS_SETTING = re.compile(r"^manage_etc_hosts[ \t]*:[ \t]*[\"']?(\w+)", re.MULTILINE)
# With "localhost", it only changes the line of the host's own name.
_FROM_TEMPLATE = ("true", "yes", "on", "1", "template")


@dataclass(frozen=True)
class CloudInit:
    """State of cloud-init: absent, disabled, running, done or error. ``waited`` is in seconds."""

    state: str
    errors: tuple[str, ...] = ()
    waited: float = 0.0

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "errors": list(self.errors), "waited": round(self.waited, 1)}

    def notes(self) -> list[str]:
        """Return warnings for the user; they do not stop the run."""
        if self.state == "running":
            return [f"cloud-init is still setting up this host after {self.waited:.0f} s; see cloud-init status --long"]
        if self.state == "error":
            said = "; ".join(self.errors)
            return [f"cloud-init ended with errors, so something may be missing on this host: {said}"]
        return []


def wait(runner: Runner, root: str, timeout: float, sleep: Callable[[float], None] = time.sleep) -> CloudInit:
    """Return the state of cloud-init when it has finished, at the latest after ``timeout`` seconds."""
    begun = time.monotonic()
    while True:
        found = _read(runner, root)
        waited = time.monotonic() - begun
        if found.state != "running" or waited + _PAUSE_S > timeout:
            return CloudInit(found.state, found.errors, waited)
        sleep(_PAUSE_S)


def rewrites_hosts(root: str) -> bool:
    """Return whether cloud-init writes /etc/hosts from its template at each boot (``manage_etc_hosts``)."""
    if _off(root):
        return False
    try:
        found = json.loads(text_or_nothing(root, _MERGED))
        setting = found.get("manage_etc_hosts", "")
    except (ValueError, AttributeError, RecursionError):
        files = [path for source in _SOURCES for path in sorted(under(root, "/").glob(source))]
        settings = [match for path in files for match in _HOSTS_SETTING.findall(text_or_nothing("/", str(path)))]
        setting = settings[-1] if settings else ""
    return str(setting).lower() in _FROM_TEMPLATE


def _off(root: str) -> str:
    """Return absent or disabled, empty if cloud-init runs at boot."""
    if not under(root, "/usr/bin/cloud-init").exists():
        return "absent"
    off = any(under(root, path).exists() for path in _OFF) or not under(root, "/run/cloud-init").is_dir()
    return "disabled" if off else ""


def _read(runner: Runner, root: str) -> CloudInit:
    if _off(root):
        return CloudInit(_off(root))
    if under(root, _RESULT).exists():
        errors = _errors(text_or_nothing(root, _RESULT))
        return CloudInit("error" if errors else "done", errors)
    # cloud-init is part of the boot; after the boot, the result is never written.
    if _booting(runner):
        return CloudInit("running")
    return CloudInit("error", (f"it stopped before it wrote {_RESULT}",))


def _booting(runner: Runner) -> bool:
    try:
        return runner.run(["systemctl", "is-system-running"]).stdout.strip() in ("initializing", "starting")
    except CommandError:
        return False


def _errors(text: str) -> tuple[str, ...]:
    try:
        errors = json.loads(text)["v1"]["errors"]
        return tuple(" ".join(str(error).split()) for error in errors)
    except (ValueError, KeyError, TypeError, RecursionError):
        return (f"{_RESULT} can't be read",)
