"""Roles alone on a host that is in no cluster, and CUDA toolkits side by side: compared, installed, chosen, removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Built
from support.cluster import Cluster
from support.hosts import ROOT, Host
from support.lab import Lab, running
from support.play import Run, play

PLAYBOOK = "playbooks/install_cuda.yml"
OLD, NEW = "12.9.1", "13.0.2"
# Newer than driver 580, of the same major version.
AHEAD = "13.1.1"
PROFILE = "/etc/profile.d/gpulab-cuda.sh"
DRIVER = "nvidia_driver_version=580.178.04"
ALONE = f"""
- hosts: spare
  become: true
  roles:
    - gpulab.kubernetes.containerd
    - gpulab.kubernetes.nvidia_driver
    - role: gpulab.kubernetes.cuda_toolkit
      vars:
        cuda_toolkit_versions: ["{OLD}"]
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Ubuntu 24.04 has all of these toolkits and driver 580, which `auto` keeps once it is there."""
    with running("cuda", ROOT / "lab" / "specs" / "shapes.yml") as lab:
        yield lab


@pytest.fixture(scope="module")
def alone(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The inventory of a single host that is in no cluster, and a playbook with three roles for it."""
    directory = tmp_path_factory.mktemp("alone")
    text = lab.path.read_text()
    host = next(line for line in text.splitlines() if line.startswith("gpu1 "))
    (directory / "spare.ini").write_text(f"[spare]\n{host}\n\n{text[text.index('[all:vars]') :]}")
    (directory / "alone.yml").write_text(ALONE)
    return directory / "spare.ini", directory / "alone.yml"


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


def test_roles_work_alone_on_a_host_in_no_cluster(lab: Lab, alone: tuple[Path, Path]) -> None:
    inventory, playbook = alone
    run = play(inventory, "--check", "--extra-vars", DRIVER, playbook=str(playbook)).expect_success()
    assert run.changed()
    play(inventory, "--extra-vars", DRIVER, playbook=str(playbook)).expect_success()
    host = lab.inventory().workers[0]
    assert host.run("systemctl is-active containerd").strip() == "active"
    assert "580.178.04" in host.run("cat /proc/driver/nvidia/version")
    assert homes(host) == {"/usr/local/cuda-12.9"}
    play(inventory, "--extra-vars", DRIVER, playbook=str(playbook)).expect_unchanged()
    remove = json.dumps({"cuda_toolkit_versions": [], "cuda_toolkit_remove": ["12.9"]})
    play(inventory, "--extra-vars", DRIVER, "--extra-vars", remove, playbook=str(playbook)).expect_success()
    assert homes(host) == set()


def test_check_mode_predicts_and_changes_nothing(built: Built, host: Host) -> None:
    run = cuda(built, host, "--check", versions=[OLD, NEW]).expect_success()
    assert run.changed()
    assert homes(host) == set()


def test_what_the_driver_does_not_run_natively_is_refused_when_asked_for_that(built: Built, host: Host) -> None:
    for versions, words in (([AHEAD], "is older than CUDA 13.1.1 requires"), (["14.0.0"], "not in the table")):
        run = cuda(built, host, versions=versions, accept=["native"])
        assert run.status != 0
        assert words in run.failures() and "Nothing was changed" in run.failures()
    assert homes(host) == set()


def test_two_side_by_side_with_the_older_as_default(built: Built, host: Host) -> None:
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


def test_another_default_and_the_library_path_when_asked_for(built: Built, host: Host) -> None:
    cuda(built, host, versions=[OLD, NEW], library_path=True).expect_success()
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda/bin/nvcc")
    assert "/usr/local/cuda/lib64" in host.run("bash -lc 'echo \"$LD_LIBRARY_PATH\"'")
    cuda(built, host, versions=[OLD, NEW]).expect_success()
    assert "LD_LIBRARY_PATH" not in host.run(f"cat {PROFILE}")


def test_minor_version_compatibility_says_what_is_lost(built: Built, host: Host) -> None:
    run = cuda(built, host, versions=[OLD, NEW, AHEAD], default=NEW).expect_success()
    told = " ".join(run.output.split())
    assert "minor version compatibility" in told and "lacks features that need the newer driver" in told
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda/bin/nvcc")


def test_removing_one_leaves_the_others(built: Built, host: Host) -> None:
    predicted = cuda(built, host, "--check", versions=[NEW, AHEAD], remove=["12.9"]).expect_success()
    assert predicted.changed() and "/usr/local/cuda-12.9" in homes(host)
    cuda(built, host, versions=[NEW, AHEAD], default=NEW, remove=["12.9"]).expect_success()
    assert homes(host) == {"/usr/local/cuda-13.0", "/usr/local/cuda-13.1"}
    assert "V13.0.88" in nvcc(host, "/usr/local/cuda/bin/nvcc")
    assert "V13.1.115" in nvcc(host, "/usr/local/cuda-13.1/bin/nvcc")
    cuda(built, host, versions=[NEW, AHEAD], default=NEW, remove=["12.9"]).expect_unchanged()


def test_the_driver_is_untouched_and_all_toolkits_can_go(built: Built, host: Host) -> None:
    cuda(built, host, remove=["13.0", "13.1"]).expect_success()
    assert homes(host) == set()
    assert host.attempt(f"test -e {PROFILE}").returncode != 0
    assert "580.178.04" in host.run("cat /proc/driver/nvidia/version")
    play(built.lab.path).expect_unchanged()
