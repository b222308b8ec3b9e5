"""CUDA toolkits, simulated: the packages that NVIDIA's CUDA repository has, with their names, relations and places.

They hold an nvcc that only tells its version, and nothing that computes. What the real packages do to a host is here:
directories side by side, alternatives for /usr/local/cuda and /usr/local/cuda-<major>, and the linker's paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import cache, deb, versions

_REVISION = "1"
_NOTICE = """{summary} (simulated)
This package stands in for NVIDIA's package of the same name in the rehearsal lab of gpulab.kubernetes.
It holds no NVIDIA software and computes nothing."""
_NVCC = """#!/bin/sh
# Simulated: it tells its version and compiles nothing.
case "$*" in
--version|-V) echo "nvcc: simulated CUDA compiler driver"; echo "Cuda compilation tools, release {minor}, V{version}" ;;
*) echo "nvcc fatal: simulated, it compiles nothing" >&2; exit 1 ;;
esac
"""
_POSTINST = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
	update-alternatives --install /usr/local/cuda cuda {home} {priority}
	update-alternatives --install /usr/local/cuda-{major} cuda-{major} {home} {priority}
fi
"""
_PRERM = """#!/bin/sh
set -e
if [ "$1" = remove ]; then
	update-alternatives --remove cuda {home}
	update-alternatives --remove cuda-{major} {home}
fi
"""
_LIBRARIES = "targets/x86_64-linux/lib"


@dataclass(frozen=True)
class Toolkit:
    """A release of the toolkit, such as 12.9.1."""

    version: str

    @property
    def major(self) -> str:
        """12 of 12.9.1."""
        return self.version.split(".")[0]

    @property
    def minor(self) -> str:
        """12.9 of 12.9.1, which is side by side with others."""
        return ".".join(self.version.split(".")[:2])

    @property
    def suffix(self) -> str:
        """What the names of its packages end in."""
        return self.minor.replace(".", "-")

    @property
    def home(self) -> str:
        """Where it lies."""
        return f"/usr/local/cuda-{self.minor}"

    @property
    def priority(self) -> int:
        """Of its alternative: the newest is chosen."""
        return int(self.minor.replace(".", ""))

    @property
    def deb_version(self) -> str:
        """Of its packages."""
        return f"{self.version}-{_REVISION}"


def toolkits() -> list[Toolkit]:
    """The toolkits of the depot, oldest first."""
    return [Toolkit(version) for version in versions.CUDA_TOOLKITS]


def are_packed() -> bool:
    """Say whether the packages are there, made from the same."""
    return cache.key_of(_directory()) == key()


def build() -> None:
    """Pack them, unless they are there."""
    if not are_packed():
        with cache.fresh(_directory(), key()) as work:
            pack(work)


def found() -> dict[Path, str]:
    """Return the packages with their keys; they are the same for each distribution."""
    return dict.fromkeys(sorted(_directory().glob("*.deb")), cache.key_of(_directory()))


def _directory() -> Path:
    return paths.debs() / "cuda-toolkits"


def pack(out: Path) -> list[Path]:
    """Write the packages of all toolkits into `out`."""
    known = toolkits()
    packed = [path for toolkit in known for path in _of(toolkit, out)]
    newest = {toolkit.major: toolkit for toolkit in known}
    for major, toolkit in newest.items():
        where = f"/usr/local/cuda-{major}/{_LIBRARIES}"
        name = f"cuda-toolkit-{major}-config-common"
        packed.append(_common(out, name, toolkit.deb_version, f"/etc/ld.so.conf.d/988_cuda-{major}.conf", where))
    where = f"/usr/local/cuda/{_LIBRARIES}"
    name = "cuda-toolkit-config-common"
    packed.append(_common(out, name, known[-1].deb_version, "/etc/ld.so.conf.d/000_cuda.conf", where))
    return packed


def _of(toolkit: Toolkit, out: Path) -> list[Path]:
    own, home = toolkit.suffix, toolkit.home
    words = {"home": home, "major": toolkit.major, "priority": toolkit.priority}
    common = f"cuda-toolkit-{own}-config-common"
    compiler: dict[str, deb.Content] = {
        f"{home}/bin/nvcc": deb.File(_NVCC.format(minor=toolkit.minor, version=toolkit.version), 0o755)
    }
    runtime: dict[str, deb.Content] = {
        f"{home}/{_LIBRARIES}/libcudart.so.{toolkit.version}": "simulated\n",
        f"{home}/lib64": deb.Link(_LIBRARIES),
        f"{home}/version.json": f'{{"cuda": {{"name": "CUDA SDK (simulated)", "version": "{toolkit.version}"}}}}\n',
    }
    compat: dict[str, deb.Content] = {f"{home}/compat/libcuda.so.1": "simulated\n"}
    scripts = {"postinst": _POSTINST.format(**words), "prerm": _PRERM.format(**words)}
    parents = [f"cuda-toolkit-{toolkit.major}-config-common", "cuda-toolkit-config-common"]
    whole = [f"{name}-{own} (>= {toolkit.deb_version})" for name in ("cuda-nvcc", "cuda-cudart")]
    return [
        _pack(out, f"cuda-toolkit-{own}", toolkit, "CUDA Toolkit meta-package", depends=[common, *whole]),
        _pack(out, f"cuda-nvcc-{own}", toolkit, "CUDA nvcc", compiler, [f"cuda-cudart-{own}"]),
        _pack(out, f"cuda-cudart-{own}", toolkit, "CUDA Runtime native libraries", runtime, [common]),
        _pack(out, f"cuda-compat-{own}", toolkit, "CUDA compatibility platform", compat),
        _pack(out, common, toolkit, f"Common config package for CUDA Toolkit {toolkit.minor}", {}, parents, scripts),
    ]


def _pack(
    out: Path,
    name: str,
    toolkit: Toolkit,
    summary: str,
    files: Mapping[str, deb.Content] | None = None,
    depends: list[str] | None = None,
    scripts: Mapping[str, str] | None = None,
) -> Path:
    notice = _NOTICE.format(summary=summary)
    # dpkg takes a package for replaced, and forgets it, when all that it holds is a directory of others.
    own = {f"/usr/share/doc/{name}/copyright": f"{notice}\n"}
    return deb.make(
        name,
        toolkit.deb_version,
        out=out,
        files={**own, **(files or {})},
        directories=[toolkit.home] if scripts else [],
        depends=depends or [],
        scripts=scripts,
        architecture="all" if scripts else "amd64",
        section="multiverse/devel",
        description=notice,
    )


def _common(out: Path, name: str, version: str, path: str, directory: str) -> Path:
    return deb.make(
        name,
        version,
        out=out,
        files={path: f"{directory}\n"},
        conffiles=[path],
        architecture="all",
        section="multiverse/devel",
        description=_NOTICE.format(summary="Common config package for CUDA Toolkit"),
    )


def key() -> str:
    """Key of everything that the packages depend on."""
    here = Path(__file__).resolve()
    return cache.digest(cache.tree_digest(here, here.with_name("deb.py")), *versions.CUDA_TOOLKITS)
