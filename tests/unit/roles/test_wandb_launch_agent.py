# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role's additions to W&B's agent, with stand-ins; tests/integration/test_launch.py uses the real wandb."""

from __future__ import annotations

import asyncio
import importlib.util
import io
import json
import re
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FILES = ROOT / "roles" / "wandb_launch" / "files" / "agent"


@pytest.fixture(scope="module")
def program() -> Any:
    specification = importlib.util.spec_from_file_location("launch_agent", FILES / "launch_agent.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_all_files_have_the_same_version_of_wandb(program: Any) -> None:
    versions = yaml.safe_load((ROOT / "roles" / "cluster" / "vars" / "main" / "versions.yml").read_text())
    (pinned,) = re.findall(r"^wandb==(\S+) ", (FILES / "requirements.txt").read_text(), re.MULTILINE)
    assert program.VERSION == pinned == versions["cluster_versions"]["wandb"]
    assert f"wandb-launch-agent:{pinned} " in (FILES / "Containerfile").read_text()
    with pytest.raises(SystemExit, match=r"wandb 0\.30\.0 is installed"):
        program.check_version("0.30.0")


def test_requirements_have_hashes() -> None:
    lines = (FILES / "requirements.txt").read_text().splitlines()
    named = [number for number, line in enumerate(lines) if line[:1].isalpha()]
    assert len(named) > 50
    assert all(lines[number + 1].startswith("    --hash=sha256:") for number in named)


@pytest.mark.parametrize(("given", "policy"), [({}, "Background"), ({"propagation_policy": "Orphan"}, "Orphan")])
def test_jobs_are_deleted_with_their_pods(program: Any, given: dict[str, str], policy: str) -> None:
    class Batch:
        def delete_namespaced_job(self, **options: str) -> dict[str, str]:
            return options

    program.delete_pods_with_jobs(Batch)
    assert Batch().delete_namespaced_job(name="a", **given) == {"name": "a", "propagation_policy": policy}


def test_kubeconfig_is_linked_to_where_wandb_looks(program: Any, tmp_path: Path) -> None:
    for name in ("first", "second"):
        program.link_kubeconfig(str(tmp_path / name), tmp_path)
        assert (tmp_path / ".kube" / "config").readlink() == tmp_path / name
    program.link_kubeconfig("", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_docker_passes_the_proxy_to_jobs_and_builds(program: Any, tmp_path: Path) -> None:
    path = tmp_path / ".docker" / "config.json"
    program.set_docker_proxies(tmp_path, {"PATH": "/bin"})
    assert not path.exists()
    path.parent.mkdir()
    path.write_text(json.dumps({"auths": {"registry.example.org": {}}, "proxies": {"tcp://a": {}}}))
    program.set_docker_proxies(tmp_path, {"https_proxy": "http://p:1", "no_proxy": ".svc", "http_proxy": ""})
    wanted = {"httpsProxy": "http://p:1", "noProxy": ".svc"}
    assert json.loads(path.read_text()) == {
        "auths": {"registry.example.org": {}},
        "proxies": {"tcp://a": {}, "default": wanted},
    }
    program.set_docker_proxies(tmp_path, {})
    assert json.loads(path.read_text())["proxies"]["default"] == {}


class Docker:
    """Stand-in for wandb.docker, with similar errors."""

    class DockerError(Exception):
        message = ""

    def build(self, tags: list[str], file: str) -> str:
        lines = "\n".join(f"line {number}" for number in range(30))
        raise self.DockerError(
            f"It returned with code 1\nThe content of stdout is '{lines}'\nThe content of stderr ..."
        )


def test_failed_build_prints_its_last_twenty_lines(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    docker = Docker()
    program.report_failed_builds(docker)
    with pytest.raises(docker.DockerError) as caught:
        docker.build(["job:1"], file="Dockerfile")
    printed = [line for line in capsys.readouterr().out.splitlines() if line]
    assert printed[0] == "launch: build: job:1 failed. The last lines of its output:"
    assert printed[1:] == [f"launch: build: line {number}" for number in range(10, 30)]
    assert "is 'line 10\nline 11" in str(caught.value) and "line 9\n" not in str(caught.value)


@pytest.mark.parametrize(("repository", "loaded"), [("", ["job:1"]), ("registry.example.org/jobs", [])])
def test_image_is_loaded_unless_it_is_pushed(program: Any, repository: str, loaded: list[str]) -> None:
    class Registry:
        async def get_repo_uri(self) -> str:
            return repository

    class Builder:
        registry = Registry()

        async def build_image(self, image: str) -> str:
            return image

    seen: list[str] = []
    program.load_after_builds(Builder, seen.append)
    assert asyncio.run(Builder().build_image("job:1")) == "job:1"
    assert seen == loaded


@pytest.mark.parametrize(("answer", "said"), [(b"unpacking\nloaded\n", ""), (b"ctr: no space left\n", "no space left")])
def test_socket_unit_reports_whether_loading_succeeded(program: Any, tmp_path: Path, answer: bytes, said: str) -> None:
    path, got = str(tmp_path / "s"), []

    def serve(server: socket.socket) -> None:
        connection = server.accept()[0]
        with connection, connection.makefile("rb") as stream:
            got.append(stream.read())
            connection.sendall(answer)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        result = program._through_socket(path, io.BytesIO(b"archive" * 100000))
        thread.join()
    assert got == [b"archive" * 100000]
    assert said in result and bool(result) == bool(said)


def test_failed_load_of_an_image_fails_the_run(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho archive\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program.load_image("grep --quiet archive", "job:1")
    assert capsys.readouterr().out == "launch: loaded job:1 into the cluster\n"
    for target, words in (("sh -c 'echo bad node; exit 3'", "bad node"), (f"{tmp_path}/none", "No such file")):
        with pytest.raises(RuntimeError, match=f"Error while loading job:1 into the cluster: .*{words}"):
            program.load_image(target, "job:1")


def test_broken_archive_fails_the_run(program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(RuntimeError, match="docker save failed"):
        program.load_image("cat", "job:1")
