"""Simulated CUDA toolkits: contents for the packages of NVIDIA's CUDA repositories, by name.

They contain an nvcc that only prints its version, and nothing that computes. Their effects on a host are those of the
real packages: parallel directories, alternatives for /usr/local/cuda and /usr/local/cuda-<major>, and the linker's
paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.depot import cache, deb
from lab.depot.content import Content, Filling

_NOTICE = """{name} (simulated)
This package stands in for NVIDIA's package of the same name in the rehearsal lab of gpulab.kubernetes.
It holds no NVIDIA software and computes nothing."""
_NVCC = """#!/bin/sh
# Simulated: it prints its version and compiles nothing.
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
_SECTION = "multiverse/devel"
_NAME = re.compile(r"cuda-(?P<part>[a-z]+)-(?P<major>\d+)-(?P<minor>\d+)(?P<common>-config-common)?")
_COMMON = re.compile(r"cuda-toolkit(?:-(?P<major>\d+))?-config-common")


@dataclass(frozen=True)
class _Series:
    """All toolkits of a minor version, which share a directory."""

    major: str
    minor: str

    @property
    def name(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def home(self) -> str:
        return f"/usr/local/cuda-{self.name}"

    @property
    def words(self) -> dict[str, str]:
        # The newest alternative has the highest priority.
        return {"home": self.home, "major": self.major, "priority": f"{self.major}{self.minor}"}


def content(name: str, version: str) -> Content | None:
    """Return the content of a toolkit's package, None for a name that is not a toolkit's."""
    fill = _filling(name, version.partition("-")[0])
    if fill is None:
        return None
    # dpkg considers a package replaced, and removes it, if it only contains directories of other packages.
    notice = _NOTICE.format(name=name)

    def noticed() -> Filling:
        filling = fill()
        filling.files[f"/usr/share/doc/{name}/copyright"] = f"{notice}\n"
        return filling

    return Content(notice, cache.digest(cache.tree_digest(Path(__file__)), name, version), noticed, _SECTION)


def _filling(name: str, version: str) -> Callable[[], Filling] | None:
    if found := _COMMON.fullmatch(name):
        major = found["major"]
        path = f"/etc/ld.so.conf.d/988_cuda-{major}.conf" if major else "/etc/ld.so.conf.d/000_cuda.conf"
        where = f"/usr/local/cuda-{major}" if major else "/usr/local/cuda"
        return lambda: Filling({path: f"{where}/{_LIBRARIES}\n"}, conffiles=[path])
    found = _NAME.fullmatch(name)
    if not found:
        return None
    series = _Series(found["major"], found["minor"])
    if found["common"]:
        return lambda: _alternatives(series)
    maker = _PARTS.get(found["part"])
    return (lambda: Filling(maker(series, version))) if maker else None


def _alternatives(series: _Series) -> Filling:
    scripts = {"postinst": _POSTINST.format(**series.words), "prerm": _PRERM.format(**series.words)}
    return Filling(scripts=scripts, directories=[series.home])


def _nvcc(series: _Series, version: str) -> dict[str, deb.Content]:
    return {f"{series.home}/bin/nvcc": deb.File(_NVCC.format(minor=series.name, version=version), 0o755)}


def _cudart(series: _Series, version: str) -> dict[str, deb.Content]:
    return {
        f"{series.home}/{_LIBRARIES}/libcudart.so.{version}": "simulated\n",
        f"{series.home}/lib64": deb.Link(_LIBRARIES),
    }


def _compat(series: _Series, _version: str) -> dict[str, deb.Content]:
    return {f"{series.home}/compat/libcuda.so.1": "simulated\n"}


def _meta(_series: _Series, _version: str) -> dict[str, deb.Content]:
    return {}


_PARTS: dict[str, Callable[[_Series, str], dict[str, deb.Content]]] = {
    "toolkit": _meta,
    "compiler": _meta,
    "libraries": _meta,
    "nvcc": _nvcc,
    "cudart": _cudart,
    "compat": _compat,
}
