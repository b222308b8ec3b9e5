"""Read facts about GPUs directly from /proc, /sys, /dev, dpkg and apt, as a second reference."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

_PCI = Path("/sys/bus/pci/devices")
_DRIVER = Path("/proc/driver/nvidia")
_MAJOR = re.compile(r"^\s*(\d+) nvidia(?:-frontend)?$", re.MULTILINE)


@dataclass
class Machine:
    """``pci`` maps the address of a GPU to (device id, class, driver), or is None if /sys does not show it.

    ``minors`` maps an address to its device minor; ``kind`` is open or proprietary; both are read from the driver's
    files. ``origin`` is the origin of the package with the NVML library: nvidia, distribution, empty if no package owns
    the library, or None if unknown.
    """

    pci: dict[str, tuple[str, str, str]] | None = None
    minors: dict[str, int] = field(default_factory=dict)
    loaded: str = ""
    kind: str = ""
    nouveau: bool | None = None
    origin: str | None = None
    uninstaller: bool = False
    major: int | None = None
    simulated: bool = False


def read(library: str) -> Machine:
    """Return the facts of the machine. ``library`` is the path of the loaded NVML library, or empty."""
    found = Machine(uninstaller=Path("/usr/bin/nvidia-uninstall").exists())
    if _PCI.is_dir():
        devices = {device.name: _device(device) for device in sorted(_PCI.iterdir())}
        # Some container platforms show a PCI bus without the GPUs that they pass through.
        found.pci = {name: device for name, device in devices.items() if device} or None
    version = _text(_DRIVER / "version")
    words = version.splitlines()[0].split() if version else []
    found.loaded = next((word for word in words if re.fullmatch(r"\d{3}(?:\.\d+)+", word)), "")
    found.kind = ("open" if "Open" in words else "proprietary") if words else ""
    found.simulated = "(simulated)" in version
    gpus = _DRIVER / "gpus"
    for gpu in sorted(gpus.iterdir()) if gpus.is_dir() else ():
        minor = re.search(r"^Device Minor:\s*(\d+)", _text(gpu / "information"), re.MULTILINE)
        if minor:
            found.minors[gpu.name] = int(minor[1])
    modules = _text(Path("/proc/modules"))
    found.nouveau = any(line.startswith("nouveau ") for line in modules.splitlines()) if modules else None
    major = _MAJOR.search(_text(Path("/proc/devices")))
    found.major = int(major[1]) if major else None
    found.origin = _origin(library)
    return found


def node_problem(minor: int, major: int | None) -> str:
    """Return what is wrong with the device node of a GPU, or an empty string."""
    node = Path(f"/dev/nvidia{minor}")
    try:
        status = node.stat()
    except OSError as error:
        return f"{node}: {error.strerror}"
    if not stat.S_ISCHR(status.st_mode):
        return f"{node} is not a character device"
    found = (status.st_rdev >> 8 & 0xFFF, (status.st_rdev & 0xFF) | (status.st_rdev >> 12 & 0xFFF00))
    return "" if found == (major or found[0], minor) else f"{node} is device {found[0]}:{found[1]}"


def _device(device: Path) -> tuple[str, str, str] | None:
    """Return (device id, class, driver) of an NVIDIA display device, or None for any other device."""
    kind = _text(device / "class").strip()
    if _text(device / "vendor").strip() != "0x10de" or not kind.startswith("0x03") or (device / "physfn").exists():
        return None
    driver = device / "driver"
    return _text(device / "device").strip(), kind, driver.resolve().name if driver.exists() else ""


def _origin(library: str) -> str | None:
    """Return the origin of a file, from its package's maintainer and apt's sources of the installed version."""
    if not library or not shutil.which("dpkg-query"):
        return None
    path = Path(library)
    for each in dict.fromkeys([str(path), str(path.resolve()), str(path.resolve()).removeprefix("/usr")]):
        package = _output("dpkg-query", "--search", each).partition(": ")[0].partition(",")[0]
        if package:
            maintainer = _output("dpkg-query", "--show", "--showformat=${Maintainer}", package)
            installed = _output("apt-cache", "policy", package).partition(" *** ")[2].partition("\n     ")[2]
            sources = re.split(r"\n {0,5}\S", installed)[0]
            if "nvidia.com" in maintainer or "/cuda/repos/" in sources:
                return "nvidia"
            # Without package lists, apt knows no source. Ubuntu's maintainers also appear in NVIDIA's packages.
            return "distribution" if re.search("https?://|file:", sources) else None
    return ""


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
