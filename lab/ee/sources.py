"""pip's package sources of this machine, for a build: mounted as files that don't become part of the image."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
# One of pip's system-wide configuration directories.
INSIDE = "/etc/xdg/pip"
# Settings that a build may need; this machine's directories and files don't exist inside.
_KEPT = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")


def volume(directory: Path, authorities: Path = _AUTHORITIES) -> str:
    """Write pip's settings into a directory and return podman's option that mounts it read-only in a build.

    An address may contain a password, so only the owner can read the file.
    """
    lines = pip_settings(_listed())
    # The machine may trust additional certificate authorities, such as those of a company's proxy.
    if authorities.is_file():
        (directory / "ca.crt").write_bytes(authorities.read_bytes())
        lines.append(f"cert = {INSIDE}/ca.crt")
    path = directory / "pip.conf"
    path.touch(mode=0o600)
    path.write_text("\n".join(["[global]", *lines, ""]))
    return f"--volume={directory}:{INSIDE}:ro"


def pip_settings(listed: str) -> list[str]:
    """Return the settings in `pip config list` that also apply in a container, as lines of a pip.conf."""
    found: dict[str, str] = {}
    for line in listed.splitlines():
        key, _equals, value = line.partition("=")
        section, _dot, setting = key.partition(".")
        # Settings of the environment come last and take precedence, as in pip.
        if section in ("global", "install", ":env:") and setting in _KEPT:
            found[setting] = " ".join(part for word in _unquoted(value) for part in word.split("\\n") if part)
    return [f"{setting} = {value}" for setting, value in sorted(found.items()) if value]


def _unquoted(value: str) -> list[str]:
    """Return the words of a value as quoted by pip; others are skipped."""
    try:
        return shlex.split(value)
    except ValueError:
        return []


def _listed() -> str:
    argv = [sys.executable, "-m", "pip", "config", "list"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment).stdout
