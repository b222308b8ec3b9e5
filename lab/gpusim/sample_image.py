"""The context of the image that replaces nvcr.io/nvidia/k8s/cuda-sample:vectoradd-*: vectorAdd, a shell, glibc."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from lab.depot import tools
from lab.depot.cache import DepotError
from lab.gpusim import library

_SOURCES = Path(__file__).parent / "image"
_PROGRAMS = ("sh", "cat", "env", "id", "ls", "sleep", "true")
# nvidia-smi, which is mounted from the host, needs these, which are separate files in glibc.
_FURTHER_LIBRARIES = ("libdl.so.2", "libm.so.6", "libpthread.so.0", "librt.so.1")
_DIRECTORIES = ("dev", "etc", "proc", "sys", "tmp", "usr/bin", "usr/lib", "usr/lib64", "var/run")
_LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
}
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def check_image(out: Path) -> Path:
    """Write the context (Dockerfile and rootfs/) into the directory `out` and return it.

    The shell and the C library are this machine's own. Raises DepotError if something is missing.
    """
    if out.exists():
        shutil.rmtree(out)
    rootfs = out / "rootfs"
    for name in _DIRECTORIES:
        (rootfs / name).mkdir(parents=True)
    for name, text in _FILES.items():
        (rootfs / name).write_text(text)
    (rootfs / "tmp").chmod(0o1777)
    for name, target in _LINKS.items():
        (rootfs / name).symlink_to(target)
    samples = rootfs / "cuda-samples"
    samples.mkdir()
    _compile(samples / "vectorAdd")
    (samples / "sample").symlink_to("vectorAdd")
    programs = [_program(name) for name in _PROGRAMS]
    for name, program in zip(_PROGRAMS, programs, strict=True):
        shutil.copy2(program, rootfs / "usr/bin" / name)
    for needed in _libraries([samples / "vectorAdd", *programs]):
        place = rootfs / needed.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(needed, place)
    shutil.copy2(_SOURCES / "Dockerfile", out)
    return out


def _compile(target: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        built = Path(work, target.name)
        tools.run(
            ["gcc", "-O2", "-Wall", f"-I{library.header().parent}", "-o", built, _SOURCES / "vector_add.c", "-ldl"],
            doing="compiling the stand-in of vectorAdd",
            log="gpusim",
        )
        shutil.copy2(built, target)


def _program(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise DepotError(f"Error while making the check image: {name} is not there.")
    return Path(found)


def _libraries(programs: list[Path]) -> list[Path]:
    found = {
        Path(path)
        for program in programs
        for path in _LIBRARY.findall(tools.run(["ldd", program], doing=f"reading what {program} links", log="gpusim"))
    }
    libc = next((path for path in found if path.name == "libc.so.6"), None)
    if libc is None:
        raise DepotError("Error while making the check image: this machine has no glibc.")
    further = {libc.with_name(name) for name in _FURTHER_LIBRARIES}
    return sorted(found | {path for path in further if path.exists()})
