"""Where pip finds packages on this machine, for a build: shown to it as files, which stay out of the image."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
# One of pip's places for the settings of a whole machine.
INSIDE = "/etc/xdg/pip"
# What a build may have to know; directories and files of this machine mean nothing inside.
_KEPT = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")


def volume(directory: Path, authorities: Path = _AUTHORITIES) -> str:
    """Write pip's settings into a directory and return podman's option that shows it to a build, read-only.

    An address may hold a password: the file is for its owner only.
    """
    lines = pip_settings(_listed())
    # The machine may trust authorities of its own, such as those of a company's proxy.
    if authorities.is_file():
        (directory / "ca.crt").write_bytes(authorities.read_bytes())
        lines.append(f"cert = {INSIDE}/ca.crt")
    path = directory / "pip.conf"
    path.touch(mode=0o600)
    path.write_text("\n".join(["[global]", *lines, ""]))
    return f"--volume={directory}:{INSIDE}:ro"


def pip_settings(listed: str) -> list[str]:
    """Return those settings of `pip config list` that hold inside of a container, too, as lines of a pip.conf."""
    found: dict[str, str] = {}
    for line in listed.splitlines():
        key, _equals, value = line.partition("=")
        section, _dot, setting = key.partition(".")
        # What the environment says comes last and wins, as with pip itself.
        if section in ("global", "install", ":env:") and setting in _KEPT:
            found[setting] = " ".join(part for word in _unquoted(value) for part in word.split("\\n") if part)
    return [f"{setting} = {value}" for setting, value in sorted(found.items()) if value]


def _unquoted(value: str) -> list[str]:
    """The words of a value; pip quotes it, and what is quoted in another way is passed over."""
    try:
        return shlex.split(value)
    except ValueError:
        return []


def _listed() -> str:
    argv = [sys.executable, "-m", "pip", "config", "list"]
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment).stdout
