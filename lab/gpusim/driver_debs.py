"""Pack the simulated driver: the same packages, names and versions as in NVIDIA's CUDA repositories."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.depot import cache, deb, tools, versions
from lab.gpusim import library
from lab.gpusim.nvidia_smi import nvidia_smi
from lab.gpusim.packages import Package, packages

_FILES = Path(__file__).parent / "driver"
_LIB = "/usr/lib/nvidia-simulated"
_UNITS = "/usr/lib/systemd/system"
_SECTION = "NVIDIA"

# CUDA repository: family of package names, and the Debian suite whose nvidia-smi suits the nodes of that shape.
_DISTRIBUTIONS = {
    "debian12": ("Debian", "bookworm"),
    "debian13": ("Debian", "trixie"),
    "ubuntu2404": ("Ubuntu", "trixie"),
}
_MODULES = ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm")
_LICENCES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}

_NOTICE = """Simulated: {summary}.
This package stands in for NVIDIA's package of the same name in the rehearsal lab of gpulab.kubernetes.
It drives no GPU and holds no NVIDIA software{exception}."""
_SMI_NOTICE = """ except nvidia-smi, which was taken from Debian's
non-free package on this machine; do not redistribute it"""

_DKMS_INSTALL = (
    f'#!/bin/sh\nset -e\n[ "$1" != configure ] || {_LIB}/dkms install || {{\n'
    "  [ $? -ne 10 ] || exit 10\n  echo 'No kernel modules directory.'\n}\n"
)
# As DKMS has it: an upgrade, too, removes what the former version has built.
_DKMS_REMOVE = f'#!/bin/sh\nset -e\ncase "$1" in remove | upgrade | deconfigure) {_LIB}/dkms remove || true ;; esac\n'


@dataclass
class Part:
    """What a part of the driver puts into a package."""

    files: dict[str, deb.Content] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)


def build_driver_debs(version: str, distro: str, out: Path) -> list[Path]:
    """Write the packages of a driver version for one CUDA repository (debian12, debian13, ubuntu2404) into `out`.

    Their deb version is the one of the product's version table. Raises DepotError for what isn't simulated.
    """
    driver = library.driver(version)
    if distro not in _DISTRIBUTIONS:
        raise cache.DepotError(
            f"Error while packing driver {version} for {distro}: the lab knows {', '.join(_DISTRIBUTIONS)}."
        )
    family, suite = _DISTRIBUTIONS[distro]
    deb_version = versions.table()["nvidia_driver"][version]["packages"][family]
    with tempfile.TemporaryDirectory() as work:
        maker = _Parts(driver, suite, Path(work))
        return [_pack(package, maker, out) for package in packages(driver, family, deb_version)]


def driver_part(driver: library.Driver, suite: str, work: Path, name: str) -> dict[str, deb.Content]:
    """Return the files of one part of a driver, for what is no package."""
    return _Parts(driver, suite, work).part(name).files


def _pack(package: Package, maker: _Parts, out: Path) -> Path:
    files: dict[str, deb.Content] = {}
    scripts: dict[str, str] = {}
    for name in package.parts:
        part = maker.part(name)
        files |= part.files
        scripts |= part.scripts
    notice = _NOTICE.format(summary=package.summary, exception=_SMI_NOTICE if "smi" in package.parts else "")
    files[f"/usr/share/doc/{package.name}/README.simulated"] = f"{notice}\n"
    return deb.make(
        package.name,
        package.version,
        out=out,
        files=files,
        depends=package.depends,
        scripts=scripts,
        architecture=package.architecture,
        description=notice,
        section=_SECTION,
        fields=package.fields,
    )


class _Parts:
    """Makes each part once for all packages of a driver."""

    def __init__(self, driver: library.Driver, suite: str, work: Path) -> None:
        self.driver = driver
        self._suite = suite
        self._work = work
        self._makers: Mapping[str, Callable[[str], Part]] = {
            "library": self._library,
            "smi": self._smi,
            "kernel-common": self._kernel_common,
            "source": self._source,
            "dkms": self._dkms,
            "firmware": self._firmware,
            "persistenced": self._persistenced,
            "modprobe": self._modprobe,
            "fabricmanager": self._fabricmanager,
            "pin": self._pin,
        }

    def part(self, name: str) -> Part:
        """Return a part; what follows a colon in its name is its argument."""
        kind, _, argument = name.partition(":")
        return self._makers[kind](argument)

    def _library(self, _: str) -> Part:
        built = library.library(self.driver.version)
        directory = "/usr/lib/x86_64-linux-gnu"
        links: dict[str, deb.Content] = {
            f"{directory}/libnvidia-ml.so.1": deb.Link(built.name),
            f"{directory}/libnvidia-ml.so": deb.Link("libnvidia-ml.so.1"),
        }
        return Part(
            {f"{directory}/{built.name}": deb.File(built, 0o644), **links}, {"triggers": "activate-noawait ldconfig\n"}
        )

    def _smi(self, _: str) -> Part:
        program = nvidia_smi(self._suite)
        return Part(
            {
                "/usr/bin/nvidia-smi": deb.File(program, 0o755),
                "/usr/share/doc/nvidia-smi/copyright": deb.File(program.with_name("copyright"), 0o644),
            }
        )

    def _kernel_common(self, _: str) -> Part:
        return Part(
            {
                f"{_LIB}/module": deb.File(_FILES / "module.sh", 0o755),
                f"{_LIB}/runc": deb.File(_FILES / "runc.sh", 0o755),
                f"{_LIB}/proc-hook": deb.File(_FILES / "proc-hook.sh", 0o755),
                "/usr/lib/modprobe.d/nvidia-simulated.conf": deb.File(_FILES / "modprobe.conf", 0o644),
                **_unit("nvidia-simulated.service"),
            },
            _reloads(),
        )

    def _source(self, flavor: str) -> Part:
        modules = {f"{_LIB}/modules/{name}.ko": deb.File(self._module(name, flavor), 0o644) for name in _MODULES}
        return Part({f"{_LIB}/kernel": f"version={self.driver.version}\nflavor={flavor}\n", **modules})

    def _dkms(self, _: str) -> Part:
        return Part(
            {f"{_LIB}/dkms": deb.File(_FILES / "dkms.sh", 0o755), "/usr/sbin/dkms": deb.Link(f"{_LIB}/dkms")},
            {"postinst": _DKMS_INSTALL, "prerm": _DKMS_REMOVE},
        )

    def _firmware(self, _: str) -> Part:
        directory = f"/usr/lib/firmware/nvidia/{self.driver.version}"
        return Part({f"{directory}/gsp_{chip}.bin": "simulated\n" for chip in ("ga10x", "tu10x")})

    def _persistenced(self, _: str) -> Part:
        program = deb.File(_FILES / "nvidia-persistenced.sh", 0o755)
        return Part({"/usr/bin/nvidia-persistenced": program, **_unit("nvidia-persistenced.service")}, _reloads())

    def _modprobe(self, _: str) -> Part:
        return Part({"/usr/bin/nvidia-modprobe": deb.File(_FILES / "nvidia-modprobe.sh", 0o755)})

    def _fabricmanager(self, _: str) -> Part:
        program = (_FILES / "nv-fabricmanager.sh").read_text().replace("@VERSION@", self.driver.version)
        return Part(
            {
                "/usr/bin/nv-fabricmanager": program,
                "/usr/share/nvidia/nvswitch/fabricmanager.cfg": "# Simulated: nothing here is read.\n",
                **_unit("nvidia-fabricmanager.service", enabled=False),
            },
            _reloads(),
        )

    def _pin(self, version: str) -> Part:
        # A priority of 1000 makes apt go down to the pinned version too.
        names = "nvidia-* libnvidia-* cuda-drivers* firmware-nvidia-gsp"
        text = f"Package: {names}\nPin: version {version}\nPin-Priority: 1000\n"
        return Part({"/etc/apt/preferences.d/nvidia-driver-pinning": text})

    def _module(self, name: str, flavor: str) -> Path:
        """Compile what modinfo and depmod read of a kernel module, and nothing to load."""
        target = self._work / flavor / f"{name}.ko"
        if not target.is_file():
            target.parent.mkdir(exist_ok=True)
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
            source = target.with_suffix(".c")
            source.write_text("\n".join([*lines, ""]))
            tools.run(
                ["gcc", "-c", "-o", target, source], doing=f"compiling the placeholder {target.name}", log="gpusim"
            )
        return target


def _unit(name: str, *, enabled: bool = True) -> dict[str, deb.Content]:
    files: dict[str, deb.Content] = {f"{_UNITS}/{name}": deb.File(_FILES / name, 0o644)}
    if enabled:
        files[f"{_UNITS}/multi-user.target.wants/{name}"] = deb.Link(f"../{name}")
    return files


def _reloads() -> dict[str, str]:
    script = "#!/bin/sh\n[ ! -d /run/systemd/system ] || systemctl daemon-reload || true\n"
    return {"postinst": script, "postrm": script}
