"""Build the kit of gpu-check: the collection, Python packages, programs, and a root file system for a container.

Usage: python -m gpu_check.build ARCHIVE. The archive has one directory, gpu-check, which is also kept in
.cache/gpu-kit.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

import yaml

from gpu_check.kit import MANIFEST
from lab import paths, progress
from lab.depot import golang, recipes, tools, versions
from lab.depot.cache import DepotError
from lab.gpusim import sample_image
from lab.nodes import system
from lab.nodes.errors import LabError

ROOT = paths.REPOSITORY
KIT = ROOT / ".cache" / "gpu-kit" / "gpu-check"
_HERE = Path(__file__).resolve().parent
# ansible-core for each Python, as in requirements.txt; the last release of 2.19 still supports Python 3.11.
_ANSIBLE = {"3.11": "ansible-core==2.19.*"} | dict.fromkeys(("3.12", "3.13", "3.14"), "ansible-core==2.21.*")
_NVML = f"nvidia-ml-py=={metadata.version('nvidia-ml-py')}"
# The glibc of the oldest supported distribution, and older ones.
_PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64")
_CONTAINERD = next(iter(versions.RUNC))
_MOST_MB = 50
_COMPILERS = ("gcc", "libc6-dev", "libseccomp-dev", "binutils")
# The parts of the collection that are needed to run its modules.
_COLLECTION = ("plugins", "meta", "MANIFEST.json", "FILES.json")


def main() -> None:
    archive = Path(sys.argv[1])
    try:
        _require_packages()
        with progress.step("The kit of gpu-check") as step:
            build()
            pack(archive)
            size = archive.stat().st_size / 10**6
            step.note(f"{size:.1f} MB")
    except (DepotError, LabError) as error:
        sys.exit(str(error))
    if size > _MOST_MB:
        sys.exit(f"Error while packing {archive}: it is {size:.1f} MB; the limit is {_MOST_MB} MB.")
    progress.say(f"{archive}: {size:.1f} MB. Unpack it on a machine with a GPU and run: python3 gpu-check/gpu-check")


def build() -> None:
    """Fill the kit's directory."""
    shutil.rmtree(KIT, ignore_errors=True)
    KIT.mkdir(parents=True)
    wheels = _wheels(KIT / "wheels")
    _programs(KIT / "bin")
    _root_file_system(KIT / "rootfs.tar.gz", KIT / "bin")
    _collection()
    package = KIT / "gpu_check"
    package.mkdir()
    for file in sorted(_HERE.glob("*.py")):
        if file != Path(__file__).resolve():
            shutil.copy2(file, package)
    shutil.copy2(_HERE / "gpu-check", KIT)
    for script in ("train_ddp.py", "minimal_ddp.py"):
        shutil.copy2(ROOT / "examples" / "training" / script, KIT)
    shutil.copy2(ROOT / "LICENSE", KIT)
    version = str(yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"])
    files = {
        str(file.relative_to(KIT)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(KIT.rglob("*"))
        if file.is_file()
    }
    (KIT / MANIFEST).write_text(json.dumps({"version": version, "wheels": wheels, "files": files}, indent=1) + "\n")


def _require_packages() -> None:
    """Install the compilers that are missing, or raise DepotError with their names if that needs root."""
    absent = [package for package in system.missing_packages() if package in _COMPILERS]
    if absent and os.geteuid() != 0:
        raise DepotError(
            f"Error while packing the kit: install the missing packages: apt-get install {' '.join(absent)}"
        )
    if absent:
        system.install(absent)


def pack(archive: Path) -> None:
    """Write the kit's directory into an archive, atomically."""
    with tempfile.TemporaryDirectory(dir=archive.resolve().parent) as work:
        new = Path(work, archive.name)
        with tarfile.open(new, "w:gz", compresslevel=6) as packed:
            packed.add(KIT, KIT.name)
        new.replace(archive)


def _wheels(directory: Path) -> dict[str, list[str]]:
    """Download packages for each Python, and return the file names that each Python needs."""
    directory.mkdir()
    needed = {}
    for version, ansible in _ANSIBLE.items():
        with tempfile.TemporaryDirectory() as work:
            argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", work]
            argv += ["--only-binary=:all:", "--implementation=cp", f"--python-version={version}"]
            argv += [f"--platform={platform}" for platform in _PLATFORMS]
            tools.run([*argv, ansible, _NVML], doing=f"downloading packages for Python {version}", log="gpu-kit")
            needed[version] = sorted(file.name for file in Path(work).iterdir())
            for name in needed[version]:
                shutil.copy2(Path(work, name), directory)
    return needed


def _programs(directory: Path) -> None:
    toolkit = recipes.container_toolkit(list(versions.table()["nvidia_container_toolkit"])[-1])
    runc = recipes.runc(_CONTAINERD)
    directory.mkdir()
    for recipe, names in (
        (runc, ("runc",)),
        (toolkit, ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime")),
    ):
        golang.provide(recipe)
        for name in names:
            shutil.copy2(recipe.program(name), directory)


def _root_file_system(archive: Path, programs: Path) -> None:
    with tempfile.TemporaryDirectory() as work:
        rootfs = sample_image.check_image(Path(work, "image")) / "rootfs"
        shutil.copy2(rootfs / "cuda-samples" / "vectorAdd", programs)
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(rootfs, ".")


def _collection() -> None:
    """Build the collection and unpack it as ansible-galaxy installs it, without guides, pictures and tests."""
    with tempfile.TemporaryDirectory() as work:
        argv = [sys.executable, "-m", "ansible", "galaxy", "collection", "build", "--output-path", work, ROOT]
        tools.run(argv, doing="building the collection", log="gpu-kit")
        target = KIT / "ansible_collections" / "gpulab" / "kubernetes"
        target.mkdir(parents=True)
        with tarfile.open(next(Path(work).glob("*.tar.gz"))) as packed:
            members = [member for member in packed.getmembers() if member.name.startswith(_COLLECTION)]
            packed.extractall(target, members, filter="data")


if __name__ == "__main__":
    main()
