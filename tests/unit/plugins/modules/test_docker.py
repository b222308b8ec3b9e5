# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docker_info, and the container checks of docker_gpu_acceptance, with a fake docker script."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

INFO = {"ServerVersion": "29.8.2", "LiveRestoreEnabled": False, "DockerRootDir": "/var/lib/docker"}
PS = [
    {"Names": "web", "Image": "nginx:1", "Labels": "a=\u0085"},
    {"Names": "jupyter", "Image": "jupyter/base-notebook"},
]
GPUS = ["GPU-11111111-0000-4000-8000-000000000001", "GPU-22222222-0000-4000-8000-000000000002"]
LISTED = "".join(f"GPU {number}: Tesla T4 (UUID: {uuid})\n" for number, uuid in enumerate(GPUS))
# Containers see what {here}/all, {here}/<uuid> and {here}/none list; {here}/check has the exit status of the image's
# check.
DOCKER = """case "$1 $2" in
  "info --format") cat {here}/info; test -s {here}/info ;;
  "ps --no-trunc") cat {here}/ps ;;
  "image inspect") exit 1 ;;
  "pull --quiet") test ! -e {here}/no-image || {{ echo "manifest unknown" >&2; exit 1; }} ;;
  "run --rm")
    case "$*" in
      *"echo /dev/nvidia"*) cat {here}/none ;;
      *"--gpus all"*) cat {here}/all ;;
      *"-L") wanted=${{6#device=}}; cat {here}/$wanted ;;
      *) . {here}/check ;;
    esac ;;
esac"""


class Host:
    def __init__(self, here: Path, programs: Any, run: Any) -> None:
        here.mkdir()
        self.here, self._run = here, run
        programs.add("docker", DOCKER.format(here=here))
        programs.add("nvidia-smi", f"cat {here}/all-of-the-host")
        for name in ("all", "all-of-the-host"):
            self.write(name, LISTED)
        for line, uuid in zip(LISTED.splitlines(), GPUS, strict=True):
            self.write(uuid, line + "\n")
        self.write("none", "/dev/nvidia*\n")
        self.write("check", "echo Test PASSED\n")
        self.write("info", json.dumps(INFO))
        self.write("ps", "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in PS))

    def write(self, name: str, text: str) -> None:
        (self.here / name).write_text(text)

    def info(self, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("docker_info", {"root": str(self.here), **options})
        return result

    def verify(self, check: bool = False) -> dict[str, Any]:
        result: dict[str, Any] = self._run("docker_gpu_acceptance", {"image": "cuda"}, check=check)
        return result


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path / "host", programs, run_module)


def test_a_running_docker_is_read(host: Host) -> None:
    found = host.info()
    assert (found["installed"], found["version"], found["live_restore"]) == (True, "29.8.2", False)
    assert found["data_root"] == "/var/lib/docker"
    assert found["containers"] == ["jupyter (jupyter/base-notebook)", "web (nginx:1)"]
    assert (found["rootless"], found["snap"]) == ([], False)


@pytest.mark.parametrize("text", ["", json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon"]})])
def test_a_docker_that_does_not_respond_has_no_containers(host: Host, text: str) -> None:
    host.write("info", text)
    found = host.info()
    assert (found["installed"], found["version"], found["containers"]) == (True, "", [])


@pytest.mark.parametrize("text", ["{", "[]", "null", "\x00"])
def test_an_invalid_response_is_an_error(host: Host, text: str) -> None:
    host.write("info", text)
    assert host.info()["msg"].startswith("Error while reading docker info: ")


def test_rootless_docker_and_the_snap_are_detected(host: Host) -> None:
    home = str(Path.home())
    unit = host.here / home.lstrip("/") / ".config/systemd/user/docker.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    snap = host.here / "var/lib/snapd/snaps/docker_3265.snap"
    snap.parent.mkdir(parents=True)
    snap.touch()
    found = host.info()
    assert [one["file"] for one in found["rootless"]] == [f"{home}/.config/systemd/user/docker.service"]
    assert found["snap"] is True


def test_users_that_do_not_exist_are_found(host: Host) -> None:
    assert host.info()["unknown_users"] == []
    assert host.info(users=["root", "nobody-of-this-host"])["unknown_users"] == ["nobody-of-this-host"]


def test_every_gpu_is_verified(host: Host) -> None:
    result = host.verify()
    assert (result["failed"], result["changed"], result["gpus"], result["simulated"]) == (False, False, GPUS, False)
    host.write("check", "echo '[simulated] Test PASSED'\n")
    assert host.verify()["simulated"] is True
    assert host.verify(check=True)["gpus"] == []


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("all", LISTED.splitlines()[0], "a container that requests all GPUs has GPU-1"),
        (GPUS[1], LISTED, f"a container that requests the GPU {GPUS[1]} has GPU-1"),
        (GPUS[1], "", f"a container that requests the GPU {GPUS[1]} has none"),
        ("none", "/dev/nvidia0 /dev/nvidiactl\n", "requests no GPUs has /dev/nvidia0, /dev/nvidiactl"),
        ("check", "echo 'no CUDA device' >&2; exit 1\n", f"the check on the GPU {GPUS[0]} failed: no CUDA device"),
        ("all-of-the-host", "", "nvidia-smi -L lists none"),
    ],
)
def test_each_kind_of_failed_check_is_named(host: Host, file: str, text: str, words: str) -> None:
    host.write(file, text)
    result = host.verify()
    assert result["failed"] and words in result["msg"] and "run again" in result["msg"]
    assert result.get("cmd", "").startswith("docker run --rm --name=gpulab-check") == (file == "check")


def test_an_image_that_cannot_be_pulled_is_named(host: Host) -> None:
    host.write("no-image", "")
    result = host.verify()
    assert "Error while pulling the image cuda: manifest unknown" in result["msg"]
    assert result["cmd"] == "docker pull --quiet cuda"


def test_mig_devices_count_instead_of_their_gpu(host: Host) -> None:
    parts = "  MIG 1g.5gb      Device  0: (UUID: MIG-a)\n  MIG 1g.5gb      Device  1: (UUID: MIG-b)\n"
    cut = LISTED.splitlines()[0] + "\n" + parts
    for name in ("all", "all-of-the-host"):
        host.write(name, cut)
    for name, part in zip(("MIG-a", "MIG-b"), parts.splitlines(), strict=True):
        host.write(name, LISTED.splitlines()[0] + "\n" + part + "\n")
    assert host.verify()["gpus"] == ["MIG-a", "MIG-b"]
