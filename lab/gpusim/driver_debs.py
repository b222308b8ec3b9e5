"""Contents of the simulated driver's packages in NVIDIA's CUDA repositories."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from lab.depot import cache, deb, tools
from lab.depot.content import Content, Filling, merged, placeholder
from lab.gpusim import library
from lab.gpusim.nvidia_smi import nvidia_smi
from lab.gpusim.packages import parts, virtual

_FILES = Path(__file__).parent / "driver"
_LIB = "/usr/lib/nvidia-simulated"
_UNITS = "/usr/lib/systemd/system"
_SECTION = "NVIDIA"

# CUDA repository -> the Debian suite whose nvidia-smi runs on nodes of that shape.
_SUITES = {
    "debian12": "bookworm",
    "debian13": "trixie",
    "ubuntu2204": "bookworm",
    "ubuntu2404": "trixie",
    "ubuntu2604": "trixie",
}
_MODULES = ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm")
_LICENCES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}

_NOTICE = """Simulated: {name}.
This package stands in for NVIDIA's package of the same name in the rehearsal lab of gpulab.kubernetes.
It drives no GPU and holds no NVIDIA software{exception}."""
_SMI_NOTICE = """ except nvidia-smi, which was taken from Debian's
non-free package on this machine; do not redistribute it"""

_DKMS_INSTALL = (
    f'#!/bin/sh\nset -e\n[ "$1" != configure ] || {_LIB}/dkms install || {{\n'
    "  [ $? -ne 10 ] || exit 10\n  echo 'No kernel modules directory.'\n}\n"
)
# As in DKMS: an upgrade also removes modules of the former version.
_DKMS_REMOVE = f'#!/bin/sh\nset -e\ncase "$1" in remove | upgrade | deconfigure) {_LIB}/dkms remove || true ;; esac\n'


@lru_cache
def key() -> str:
    """Return the cache key of everything that the simulation's results depend on."""
    return cache.tree_digest(Path(__file__).parent, Path(deb.__file__))


def driver_content(name: str, version: str, distribution: str) -> Content | None:
    """Return the content of a package of a CUDA repository (debian12, ubuntu2404, ...).

    Packages other than the driver's are empty placeholders. None if the driver is not simulated in this version.
    """
    held = parts(name, version)
    if held is None:
        return placeholder(name)
    release = version.partition("-")[0]
    pinning = any(part.startswith("pin:") for part in held)
    if release not in library.DRIVERS and not pinning:
        return None
    suite = _SUITES.get(distribution, "") if "smi" in held else ""
    if "smi" in held and not suite:
        raise cache.DepotError(
            f"Error while packing driver {version} for {distribution}: the lab knows {', '.join(_SUITES)}."
        )
    notice = _NOTICE.format(name=name, exception=_SMI_NOTICE if "smi" in held else "")

    def fill() -> Filling:
        if pinning:
            return merged([_pin(held[0].partition(":")[2]), _readme(name, notice)])
        maker = _Parts(library.driver(release), suite)
        return merged([*(maker.part(part) for part in held), _readme(name, notice)])

    return Content(notice, cache.digest(key(), release, suite, *held), fill, _SECTION, virtual(held))


def driver_part(driver: library.Driver, suite: str, name: str) -> dict[str, deb.Content]:
    """Return the files of one part of a driver, for use outside of a package."""
    return _Parts(driver, suite).part(name).files


def _readme(name: str, notice: str) -> Filling:
    return Filling({f"/usr/share/doc/{name}/README.simulated": f"{notice}\n"})


def _pin(version: str) -> Filling:
    names = "nvidia-* libnvidia-* cuda-drivers* firmware-nvidia-gsp libcuda1"
    wanted = f"{version}-*" if version.count(".") > 1 else f"{version}.*"
    # With a priority of 1000, apt also downgrades to the pinned version.
    text = f"Package: {names}\nPin: version {wanted}\nPin-Priority: 1000\n"
    return Filling({"/etc/apt/preferences.d/nvidia-driver-pin": text})


class _Parts:
    """The contents of one driver's parts."""

    def __init__(self, driver: library.Driver, suite: str) -> None:
        self.driver = driver
        self._suite = suite
        self._makers: Mapping[str, Callable[[str], Filling]] = {
            "library": self._library,
            "smi": self._smi,
            "kernel-common": self._kernel_common,
            "source": self._source,
            "dkms": self._dkms,
            "firmware": self._firmware,
            "persistenced": self._persistenced,
            "modprobe": self._modprobe,
            "fabricmanager": self._fabricmanager,
        }

    def part(self, name: str) -> Filling:
        """Return a part; the text after a colon in its name is its argument."""
        kind, _, argument = name.partition(":")
        return self._makers[kind](argument)

    def _library(self, _: str) -> Filling:
        built = library.library(self.driver.version)
        directory = "/usr/lib/x86_64-linux-gnu"
        links: dict[str, deb.Content] = {
            f"{directory}/libnvidia-ml.so.1": deb.Link(built.name),
            f"{directory}/libnvidia-ml.so": deb.Link("libnvidia-ml.so.1"),
        }
        return Filling(
            {f"{directory}/{built.name}": deb.File(built, 0o644), **links}, {"triggers": "activate-noawait ldconfig\n"}
        )

    def _smi(self, _: str) -> Filling:
        program = nvidia_smi(self._suite)
        return Filling(
            {
                "/usr/bin/nvidia-smi": deb.File(program, 0o755),
                "/usr/share/doc/nvidia-smi/copyright": deb.File(program.with_name("copyright"), 0o644),
            }
        )

    def _kernel_common(self, _: str) -> Filling:
        return Filling(
            {
                f"{_LIB}/module": deb.File(_FILES / "module.sh", 0o755),
                f"{_LIB}/runc": deb.File(_FILES / "runc.sh", 0o755),
                f"{_LIB}/proc-hook": deb.File(_FILES / "proc-hook.sh", 0o755),
                "/usr/lib/modprobe.d/nvidia-simulated.conf": deb.File(_FILES / "modprobe.conf", 0o644),
                **_unit("nvidia-simulated.service"),
            },
            _reloads(),
        )

    def _source(self, flavor: str) -> Filling:
        modules = {f"{_LIB}/modules/{name}.ko": deb.File(self._module(name, flavor), 0o644) for name in _MODULES}
        return Filling({f"{_LIB}/kernel": f"version={self.driver.version}\nflavor={flavor}\n", **modules})

    def _dkms(self, _: str) -> Filling:
        return Filling(
            {f"{_LIB}/dkms": deb.File(_FILES / "dkms.sh", 0o755), "/usr/sbin/dkms": deb.Link(f"{_LIB}/dkms")},
            {"postinst": _DKMS_INSTALL, "prerm": _DKMS_REMOVE},
        )

    def _firmware(self, _: str) -> Filling:
        directory = f"/usr/lib/firmware/nvidia/{self.driver.version}"
        return Filling({f"{directory}/gsp_{chip}.bin": "simulated\n" for chip in ("ga10x", "tu10x")})

    def _persistenced(self, _: str) -> Filling:
        program = deb.File(_FILES / "nvidia-persistenced.sh", 0o755)
        return Filling({"/usr/bin/nvidia-persistenced": program, **_unit("nvidia-persistenced.service")}, _reloads())

    def _modprobe(self, _: str) -> Filling:
        return Filling({"/usr/bin/nvidia-modprobe": deb.File(_FILES / "nvidia-modprobe.sh", 0o755)})

    def _fabricmanager(self, _: str) -> Filling:
        program = (_FILES / "nv-fabricmanager.sh").read_text().replace("@VERSION@", self.driver.version)
        return Filling(
            {
                "/usr/bin/nv-fabricmanager": program,
                "/usr/share/nvidia/nvswitch/fabricmanager.cfg": "# Simulated: nothing here is read.\n",
                **_unit("nvidia-fabricmanager.service", enabled=False),
            },
            _reloads(),
        )

    def _module(self, name: str, flavor: str) -> bytes:
        """Compile a kernel module that modinfo and depmod can read, but that can't be loaded."""
        facts = {
            "version": self.driver.version,
            "license": _LICENCES[flavor],
            "description": "simulated, can't be loaded",
            "name": name.replace("-", "_"),
            **({} if name == "nvidia" else {"depends": "nvidia"}),
        }
        lines = [
            f'__attribute__((section(".modinfo"), used)) static const char fact_{key}[] = "{key}={value}";'
            for key, value in facts.items()
        ]
        with tempfile.TemporaryDirectory() as work:
            source, target = Path(work, "module.c"), Path(work, "module.ko")
            source.write_text("\n".join([*lines, ""]))
            tools.run(["gcc", "-c", "-o", target, source], doing=f"compiling the placeholder {name}.ko", log="gpusim")
            return target.read_bytes()


def _unit(name: str, *, enabled: bool = True) -> dict[str, deb.Content]:
    files: dict[str, deb.Content] = {f"{_UNITS}/{name}": deb.File(_FILES / name, 0o644)}
    if enabled:
        files[f"{_UNITS}/multi-user.target.wants/{name}"] = deb.Link(f"../{name}")
    return files


def _reloads() -> dict[str, str]:
    script = "#!/bin/sh\n[ ! -d /run/systemd/system ] || systemctl daemon-reload || true\n"
    return {"postinst": script, "postrm": script}
