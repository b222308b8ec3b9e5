# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find DKMS's key for signing modules, and whether the firmware trusts it (Secure Boot)."""

from __future__ import annotations

import re
from typing import Any

from .._command import Runner
from .._files import text_or_nothing, under

# Default certificates of DKMS 3 (its function prepare_signing); Ubuntu uses the one of shim-signed.
_UBUNTU, _DEBIAN = "/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub"
_CONFIGURATION = "/etc/dkms/framework.conf"
_SETTING = re.compile(r"^[ \t]*mok_certificate=[\"']?([^\s\"'#]+)", re.MULTILINE)


def certificate(root: str) -> str:
    """Return the path of the certificate that DKMS signs with; the file may not exist yet."""
    files = [_CONFIGURATION]
    directory = under(root, f"{_CONFIGURATION}.d")
    if directory.is_dir():
        files += sorted(f"{_CONFIGURATION}.d/{path.name}" for path in directory.glob("*.conf"))
    set_to = [path for file in files for path in _SETTING.findall(text_or_nothing(root, file))]
    if set_to and set_to[-1].startswith("/"):
        return str(set_to[-1])
    ubuntu = re.search(r"^ID=[\"']?ubuntu\b", text_or_nothing(root, "/etc/os-release"), re.MULTILINE)
    return _UBUNTU if ubuntu else _DEBIAN


def signing_key(runner: Runner, root: str) -> dict[str, Any]:
    """Return ``certificate`` and whether it is ``enrolled``, None if unknown."""
    path = certificate(root)
    if not under(root, path).is_file():
        return {"certificate": path, "enrolled": False}
    if runner.find("mokutil") is None:
        return {"certificate": path, "enrolled": None}
    # The exit status differs between versions of mokutil; the messages do not.
    result = runner.run(["mokutil", "--test-key", str(under(root, path))])
    words = f"{result.stdout}\n{result.stderr}"
    enrolled = True if "is already enrolled" in words else False if "is not enrolled" in words else None
    return {"certificate": path, "enrolled": enrolled}
