"""The recipe in examples/driver-installer, with stand-ins for NVIDIA's archive and the programs of image and node."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "examples" / "driver-installer"
VERSION = "595.91.07"
ARCHIVE = f"""#!/bin/sh
[ "$*" = --extract-only ] || exit 9
echo unpacked >>"$STATE/log"
mkdir NVIDIA-Linux-x86_64-{VERSION}
cd NVIDIA-Linux-x86_64-{VERSION}
mkdir 32 firmware kernel-open
touch libcuda.so.{VERSION} libnvidia-ml.so.{VERSION} 32/libcuda.so.{VERSION} firmware/gsp_ga10x.bin nvidia-bug-report.sh
printf '#!/bin/sh\\necho "nvidia-modprobe $*" >>"$STATE/log"\\n' >nvidia-modprobe
printf '#!/bin/sh\\necho "GPU 0: NVIDIA T4 (UUID: GPU-1)"\\n' >nvidia-smi
chmod 755 nvidia-modprobe nvidia-smi
"""
LOG = 'echo "${0##*/} $*" >>"$STATE/log"\n'
# Programs of the image or the node. The last arguments of nsenter are a command that runs on the node.
PROGRAMS = {
    "apt-get": LOG,
    "insmod": LOG
    + f"""case $1 in */nvidia.ko) ;; *) exit 0 ;; esac
[ ! -e "$STATE/refused" ] || exit 1
echo "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build" >"$STATE/version\"""",
    "ldconfig": 'for each in "$2"/*.so.*; do link=${each%%.so.*}.so.1; ln -sf "${each##*/}" "$link"; done',
    "make": LOG + 'cd "$2" && touch nvidia.ko nvidia-uvm.ko nvidia-modeset.ko nvidia-drm.ko',
    "modinfo": "case $3 in */nvidia.ko) echo i2c-core,drm ;; *) echo nvidia ;; esac",
    "nsenter": """while [ "$1" != -- ]; do shift; done
shift
case $1 in
cat) exec cat "$STATE/version" ;;
tee) exec cat >"$STATE/firmware" ;;
modprobe) echo "host $*" >>"$STATE/log" ;;
*) exec "$@" ;;
esac""",
}


@dataclass(frozen=True)
class Node:
    place: Path

    @property
    def root(self) -> Path:
        """Return the driver's directory, which has the same path on the host and in the container here."""
        return self.place / "driver"

    @property
    def log(self) -> list[str]:
        path = self.place / "log"
        return path.read_text().splitlines() if path.exists() else []

    def install(self, version: str = VERSION) -> subprocess.CompletedProcess[str]:
        (self.place / "log").unlink(missing_ok=True)
        environment = {
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "STATE": str(self.place),
            "NVIDIA_DRIVER_VERSION": version,
            "NVIDIA_INSTALL_DIR_HOST": str(self.root),
            "NVIDIA_INSTALL_DIR_CONTAINER": str(self.root),
            "ROOT_MOUNT_DIR": str(self.place),
        }
        argv = [str(self.place / "image" / "install")]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    for name in ("bin", "image", "driver"):
        (tmp_path / name).mkdir()
    for name, script in PROGRAMS.items():
        program(tmp_path / "bin" / name, f"#!/bin/sh\nset -eu\n{script}\n")
    for name in ("install", "load-module"):
        program(tmp_path / "image" / name, (RECIPE / name).read_text())
    program(tmp_path / "image" / f"NVIDIA-Linux-x86_64-{VERSION}.run", ARCHIVE)
    return Node(tmp_path)


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_the_driver_is_installed_where_the_role_expects_it_and_loaded(node: Node) -> None:
    done = node.install()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "GPU 0: NVIDIA T4 (UUID: GPU-1)"
    files = {str(path.relative_to(node.root)) for path in node.root.rglob("*") if not path.is_dir()}
    libraries = {name for name in files if name.startswith("usr/lib/x86_64-linux-gnu/")}
    assert {name.rpartition("/")[2] for name in libraries} == {
        *("libnvidia-ml.so", "libnvidia-ml.so.1", f"libnvidia-ml.so.{VERSION}"),
        *("libcuda.so.1", f"libcuda.so.{VERSION}"),
    }
    assert {name for name in files if name.startswith("usr/bin/")} == {"usr/bin/nvidia-smi", "usr/bin/nvidia-modprobe"}
    assert f"usr/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin" in files
    assert (node.root / "lib").readlink() == Path("usr/lib")
    assert (node.place / "firmware").read_text() == f"{node.root}/usr/lib/firmware"
    modules = node.root / "kernel" / VERSION / os.uname().release
    assert node.log[-6:] == [
        *("host modprobe i2c-core", "host modprobe drm", f"insmod {modules}/nvidia.ko"),
        *(f"insmod {modules}/nvidia-uvm.ko", f"insmod {modules}/nvidia-modeset.ko", "nvidia-modprobe -c 0 -u -m"),
    ]


def test_a_loaded_driver_is_not_changed_and_modules_are_built_once_for_a_kernel(node: Node) -> None:
    assert node.install().returncode == 0
    assert any(line.startswith("make ") for line in node.log)
    again = node.install()
    assert (again.returncode, again.stdout, node.log) == (0, "GPU 0: NVIDIA T4 (UUID: GPU-1)\n", [])
    (node.place / "version").unlink()
    assert node.install().returncode == 0
    assert not any(line.startswith(("make ", "apt-get ")) for line in node.log)
    assert sum(line.startswith("insmod ") for line in node.log) == 3


def test_another_version_than_the_images_is_refused(node: Node) -> None:
    done = node.install("580.178.04")
    assert done.returncode == 1
    assert f"this image has NVIDIA-Linux-x86_64-{VERSION}.run, but the driver 580.178.04 is wanted" in done.stderr
    assert list(node.root.iterdir()) == []


def test_a_module_that_the_kernel_refuses_and_missing_headers_are_errors(node: Node) -> None:
    (node.place / "refused").touch()
    done = node.install()
    assert done.returncode == 1 and "the kernel refuses nvidia. See dmesg on the node" in done.stderr
    program(node.place / "bin" / "apt-get", "#!/bin/sh\nexit 100\n")
    (node.root / "kernel" / VERSION / os.uname().release).rename(node.place / "modules")
    done = node.install()
    assert done.returncode == 1 and f"headers of the kernel {os.uname().release} can't be installed" in done.stderr


def test_the_image_contains_the_scripts_and_the_programs_that_they_run() -> None:
    text = (RECIPE / "Containerfile").read_text()
    (copied,) = re.findall(r"^COPY --chmod=755 (.*) \./$", text, re.MULTILINE)
    assert set(copied.split()) == {path.name for path in RECIPE.iterdir()} - {"Containerfile"}
    assert {"gcc", "kmod", "make", "util-linux"} <= set(text.split())
