"""The unpacked kit: its integrity, and its Python packages."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

from gpu_check.result import CheckError

MANIFEST = "MANIFEST.json"
# Megabytes that the packages and a container's root file system need in the temporary directory.
_NEEDED_MB = 200


class Kit:
    """A kit in ``root``. Raises CheckError if a file is missing or damaged, or this machine is not supported."""

    def __init__(self, root: Path) -> None:
        self.root = root
        try:
            manifest: dict[str, Any] = json.loads((root / MANIFEST).read_text())
            files, wheels = dict(manifest["files"]), dict(manifest["wheels"])
            self.version = str(manifest["version"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise _incomplete(root, f"{MANIFEST} can't be read ({type(error).__name__})") from None
        # Source files that were edited; the report must mention them.
        self.edited: list[str] = []
        if platform.machine() != "x86_64":
            raise CheckError(f"This kit is for x86_64; this machine is {platform.machine()}.")
        for name, digest in files.items():
            file = root / name
            if not file.is_file():
                raise _incomplete(root, f"{name} is missing")
            if _sha256(file) != digest:
                if file.suffix != ".py" or not file.stat().st_size:
                    raise _incomplete(root, f"{name} is damaged")
                self.edited.append(name)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if version not in wheels:
            known = ", ".join(wheels)
            raise CheckError(
                f"gpu-check needs one of Python {known}; this is {version} ({sys.executable}). Run it with another "
                "Python: python3.12 gpu-check"
            )
        self._wheels = wheels[version]

    @property
    def programs(self) -> Path:
        return self.root / "bin"

    def unpack(self, work: Path) -> Path:
        """Unpack the packages for this Python below ``work`` and return their directory."""
        site = work / "site"
        for name in self._wheels:
            with zipfile.ZipFile(self.root / "wheels" / name) as wheel:
                wheel.extractall(site)
        return site


def require_space(directory: Path) -> None:
    """Raise CheckError if a directory has too little space for a run."""
    free = shutil.disk_usage(directory).free // 10**6
    if free < _NEEDED_MB:
        raise CheckError(
            f"{directory} has {free} MB free; gpu-check needs {_NEEDED_MB} MB there for the time of the run. Free some "
            "space, or set TMPDIR to another directory."
        )


def _incomplete(root: Path, what: str) -> CheckError:
    return CheckError(f"The kit in {root} is incomplete: {what}. Unpack the whole archive again.")


def _sha256(file: Path) -> str:
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
