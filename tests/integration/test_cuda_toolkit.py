"""Several CUDA toolkits on the nodes of a cluster: compared, installed, selected, removed."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Built
from support.cluster import Cluster, gpu_pod
from support.hosts import ROOT, Host
from support.lab import Lab, running
from support.play import Run, play

PLAYBOOK = "playbooks/install_cuda.yml"
OLD, NEW = "12.9.1", "13.0.2"
# Newer than driver 580, of the same major version.
AHEAD = "13.1.1"
PROFILE = "/etc/profile.d/gpulab-cuda.sh"
DRIVER = "nvidia_driver_version=580.178.04"

# The libcuda functions that the toolkit calls, for CUDA 13.0 and a Tesla T4. The simulated driver has no libcuda.
LIBCUDA = """
int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) { (void)device; *value = which == 75 ? 7 : 5; return 0; }
"""
# Replaces runc and prints its arguments.
TOOLKIT = """
accept-nvidia-visible-devices-envvar-when-unprivileged = true
[nvidia-container-runtime]
mode = "{mode}"
runtimes = ["/bin/echo"]
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Ubuntu 24.04 has all of these toolkits and driver 580, which `auto` keeps once it is installed."""
    with running("cuda", ROOT / "lab" / "specs" / "shapes.yml") as lab:
        yield lab


@pytest.fixture(scope="module")
def built(lab: Lab) -> Built:
    run = play(lab.path, "--extra-vars", DRIVER).expect_success()
    inventory = lab.inventory()
    return Built(lab, inventory, Cluster.of(inventory), run)


@pytest.fixture(scope="module")
def host(built: Built) -> Host:
    first: Host = built.inventory.workers[0]
    return first


def cuda(built: Built, host: Host, *arguments: str, **variables: object) -> Run:
    extra = json.dumps({f"cuda_toolkit_{name}": value for name, value in variables.items()})
    return play(built.lab.path, "--limit", host.name, "-e", extra, *arguments, playbook=PLAYBOOK)


def nvcc(host: Host, path: str) -> str:
    return host.run(f"{path} --version").strip().splitlines()[-1]


def homes(host: Host) -> set[str]:
    return set(host.run("ls -d /usr/local/cuda-*.* 2>/dev/null || true").split())


def test_check_mode_predicts_the_toolkits_and_changes_nothing(built: Built, host: Host) -> None:
    run = cuda(built, host, "--check", versions=[OLD, NEW]).expect_success()
    assert run.changed()
    assert homes(host) == set()


def test_a_toolkit_without_native_support_is_refused_if_native_is_required(built: Built, host: Host) -> None:
    for versions, words in (([AHEAD], "is older than CUDA 13.1.1 requires"), (["14.0.0"], "not in the table")):
        run = cuda(built, host, versions=versions, accept=["native"])
        assert run.status != 0
        assert words in run.failures() and "Nothing was changed" in run.failures()
    assert homes(host) == set()


def test_two_toolkits_are_installed_together_and_the_older_one_is_the_default(built: Built, host: Host) -> None:
    run = cuda(built, host, versions=[OLD, NEW], default=OLD).expect_success()
    assert "CUDA 12.9.1: native" in run.output
    assert homes(host) == {"/usr/local/cuda-12.9", "/usr/local/cuda-13.0"}
    assert "V12.9.86" in nvcc(host, "/usr/local/cuda/bin/nvcc")
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda-13.0/bin/nvcc")
    assert "V12.9.86" in host.run("bash -lc 'nvcc --version'")
    assert host.run("bash -lc 'echo \"${LD_LIBRARY_PATH:-none}\"'").strip() == "none"
    held = set(host.run("apt-mark showhold").split())
    assert {"cuda-toolkit-12-9", "cuda-toolkit-13-0"} <= held
    cuda(built, host, versions=[OLD, NEW], default=OLD).expect_unchanged()


def test_two_shells_use_different_toolkits_simultaneously(host: Host) -> None:
    """The commands of docs/cuda.md run in two shells, each of which waits for the other."""
    guide = (ROOT / "docs" / "cuda.md").read_text()
    (block,) = [part for part in guide.split("```sh\n")[1:] if part.startswith("export CUDA_HOME=")]
    words = block.split("```")[0]
    assert "CUDA_HOME=/usr/local/cuda-12.9\n" in words
    host.run("rm -rf /tmp/shells && mkdir /tmp/shells")
    both = "until [ -e /tmp/shells/12.9 ] && [ -e /tmp/shells/13.0 ]; do sleep 0.1; done"
    said = "nvcc --version | tail -1; ls $LD_LIBRARY_PATH/libcudart.so.*"
    shells = []
    for minor in ("12.9", "13.0"):
        script = f"{words.replace('12.9', minor)}touch /tmp/shells/{minor}; {both}; {said}"
        shells.append(f"timeout 30 bash -lc {shlex.quote(script)} > /tmp/shells/said-{minor} &")
    host.run("\n".join([*shells, "wait"]), 60)
    for minor, version, library in (("12.9", "V12.9.86", "libcudart.so.12."), ("13.0", "V13.0.88", "libcudart.so.13.")):
        shown = host.run(f"cat /tmp/shells/said-{minor}")
        assert version in shown and f"/usr/local/cuda-{minor}/lib64/{library}" in shown


def test_the_default_toolkit_and_the_library_path_can_be_changed(built: Built, host: Host) -> None:
    cuda(built, host, versions=[OLD, NEW], library_path=True).expect_success()
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda/bin/nvcc")
    assert "/usr/local/cuda/lib64" in host.run("bash -lc 'echo \"$LD_LIBRARY_PATH\"'")
    cuda(built, host, versions=[OLD, NEW]).expect_success()
    assert "LD_LIBRARY_PATH" not in host.run(f"cat {PROFILE}")


def test_minor_version_compatibility_is_reported_with_its_limits(built: Built, host: Host) -> None:
    run = cuda(built, host, versions=[OLD, NEW, AHEAD], default=NEW).expect_success()
    told = run.words
    assert "minor version compatibility" in told and "lacks features that need the newer driver" in told
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda/bin/nvcc")


def test_removing_one_toolkit_leaves_the_others(built: Built, host: Host) -> None:
    predicted = cuda(built, host, "--check", versions=[NEW, AHEAD], remove=["12.9"]).expect_success()
    assert predicted.changed() and "/usr/local/cuda-12.9" in homes(host)
    cuda(built, host, versions=[NEW, AHEAD], default=NEW, remove=["12.9"]).expect_success()
    assert homes(host) == {"/usr/local/cuda-13.0", "/usr/local/cuda-13.1"}
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda/bin/nvcc")
    assert "V13.1.115" in nvcc(host, "/usr/local/cuda-13.1/bin/nvcc")
    cuda(built, host, versions=[NEW, AHEAD], default=NEW, remove=["12.9"]).expect_unchanged()


def test_pods_with_different_toolkits_run_together_regardless_of_their_requirements(built: Built, host: Host) -> None:
    """With CDI, the toolkit does not compare NVIDIA_REQUIRE_CUDA, which CUDA images set, with the driver."""
    pods = {"old-cuda": "cuda>=9.0", "new-cuda": "cuda>=99.0"}
    try:
        for name, required in pods.items():
            pod = gpu_pod(name, 1, host.name)
            pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_REQUIRE_CUDA", "value": required}]
            built.cluster.apply(pod)
        for name in pods:
            built.cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=120s")
    finally:
        for name in pods:
            built.cluster.delete_pod(name)


def test_the_container_toolkit_checks_requirements_of_images_only_without_cdi(
    built: Built, host: Host, tmp_path: Path
) -> None:
    """NVIDIA's own nvidia-container-runtime runs on the host in both modes of docs/cuda.md."""
    (tmp_path / "cuda.c").write_text(LIBCUDA)
    library = tmp_path / "libcuda.so.1"
    command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-o", str(library), str(tmp_path / "cuda.c")]
    subprocess.run(command, check=True)
    host.run("mkdir -p /tmp/require/bundle")
    host.run(f"base64 -d > /tmp/require/libcuda.so.1 <<< {base64.b64encode(library.read_bytes()).decode()}")

    def start(mode: str, required: str) -> subprocess.CompletedProcess[str]:
        env = ["PATH=/usr/bin", "NVIDIA_VISIBLE_DEVICES=all", f"NVIDIA_REQUIRE_CUDA={required}"]
        process = {"user": {"uid": 0, "gid": 0}, "cwd": "/", "args": ["true"], "env": env}
        bundle = {"ociVersion": "1.0.2", "process": process, "root": {"path": "rootfs"}, "linux": {}}
        files = {"config.toml": TOOLKIT.format(mode=mode), "bundle/config.json": json.dumps(bundle)}
        for name, text in files.items():
            host.run(f"printf %s {shlex.quote(text)} > /tmp/require/{name}")
        environment = "NVIDIA_CTK_CONFIG_FILE_PATH=/tmp/require/config.toml LD_LIBRARY_PATH=/tmp/require"
        ran = host.attempt(f"{environment} nvidia-container-runtime create --bundle /tmp/require/bundle x")
        assert (ran.returncode == 0) == ("create --bundle /tmp/require/bundle x" in ran.stdout), ran.stderr
        return ran

    for mode, required in (("cdi", "cuda>=9.0"), ("cdi", "cuda>=99.0"), ("csv", "cuda>=9.0")):
        assert start(mode, required).returncode == 0, (mode, required)
    refused = start("csv", "cuda>=99.0")
    words = "requirements not met: unsatisfied condition: cuda>=99.0 (cuda=13.0)"
    assert refused.returncode != 0 and words in refused.stderr
    assert words in (ROOT / "docs" / "cuda.md").read_text()
    host.run("rm -rf /tmp/require")


def test_toolkits_older_than_ubuntus_repository_are_refused_with_an_alternative(built: Built, host: Host) -> None:
    run = cuda(built, host, versions=["11.2.2", "11.3.1"])
    assert run.status != 0 and not run.changed()
    for version in ("11.2.2", "11.3.1"):
        assert f"CUDA {version}: the oldest version in NVIDIA's repository for Ubuntu 24.04 is 12.5" in run.failures()
    assert "docker.io/nvidia/cuda" in run.failures() and "Nothing was changed" in run.failures()


def test_all_toolkits_can_be_removed_without_touching_the_driver(built: Built, host: Host) -> None:
    cuda(built, host, remove=["13.0", "13.1"]).expect_success()
    assert homes(host) == set()
    assert host.attempt(f"test -e {PROFILE}").returncode != 0
    assert "580.178.04" in host.run("cat /proc/driver/nvidia/version")
    play(built.lab.path).expect_unchanged()
