"""The role's additions to W&B's agent, tested with wandb's own classes. Needs no lab."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import wandb_stand_in
from support.hosts import ROOT
from support.wandb_stand_in import ENTITY, KEY, StandIn
from support.wandb_stand_in_artifacts import job

FILES = ROOT / "roles" / "wandb_launch" / "files" / "agent"
VENV = ROOT / ".cache" / "venv-wandb-agent"
PYTHON = VENV / "bin" / "python"
CANCEL = """
import asyncio, sys
from kubernetes_asyncio import client
from wandb.sdk.launch.runner.kubernetes_runner import KubernetesSubmittedRun
if sys.argv[2] == "changed":
    import launch_agent
    launch_agent.delete_pods_with_jobs(client.BatchV1Api)
async def cancel():
    async with client.ApiClient(client.Configuration(host=sys.argv[1])) as api:
        await KubernetesSubmittedRun(client.BatchV1Api(api), None, None, None, "job", "default").cancel()
asyncio.run(cancel())
"""
BUILD = """
import asyncio, tempfile, types
import wandb.docker, launch_agent
from wandb.sdk.launch._project_spec import EntryPoint
from wandb.sdk.launch.builder.docker_builder import DockerBuilder
from wandb.sdk.launch.builder import docker_builder
from wandb.sdk.launch.registry.local_registry import LocalRegistry
launch_agent.report_failed_builds(wandb.docker)
launch_agent.load_after_builds(DockerBuilder, lambda image: print("loads", image))
class Context:
    def __init__(self, launch_project): pass
    def create_build_context(self, kind): return tempfile.mkdtemp(), "1"
docker_builder.BuildContextManager = Context
project = types.SimpleNamespace(image_name="job", build_required=lambda: True, api=None)
builder = DockerBuilder(None, LocalRegistry(), {})
try:
    print("built", asyncio.run(builder.build_image(project, EntryPoint("a.py", ["python", "a.py"]))))
except Exception as error:
    print("error", type(error).__name__, error)
"""
# Reports that buildx is available, and then builds or fails.
DOCKER = """#!/bin/sh
case "$*" in
  *--help) echo buildx ;;
  save*) echo "archive of $2" ;;
  *build*) seq 1 30; exit $BUILD_STATUS ;;
  *inspect*) exit 1 ;;
esac
"""


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    argv = [".ci/make-venv", str(VENV), str(FILES / "requirements.txt"), "3.13", "3.12", "3.11"]
    subprocess.run(argv, cwd=ROOT, check=True)


def python(script: str, *arguments: str, **environment: str) -> str:
    mine = {"PYTHONPATH": str(FILES), "WANDB_ERROR_REPORTING": "false", **environment}
    argv = [str(PYTHON), "-c", script, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **mine})
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def api() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            asked.append(self.path)
            body = b'{"kind": "Status", "status": "Success"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.mark.parametrize(("how", "query"), [("changed", "?propagationPolicy=Background"), ("as it is", "")])
def test_canceling_a_run_deletes_its_pods(api: tuple[str, list[str]], how: str, query: str) -> None:
    url, asked = api
    python(CANCEL, url, how)
    assert asked == [f"/apis/batch/v1/namespaces/default/jobs/job{query}"]


@pytest.mark.parametrize("status", ["0", "1"])
def test_a_built_image_is_loaded_and_a_failed_build_ends_with_its_last_lines(tmp_path: Path, status: str) -> None:
    docker = tmp_path / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    lines = python(BUILD, BUILD_STATUS=status, PATH=f"{tmp_path}:{os.environ['PATH']}").splitlines()
    if status == "0":
        assert lines[-2:] == ["loads job:1", "built job:1"]
    else:
        said = [line for line in lines if line.startswith("launch: build: ")]
        assert said[1:] == [f"launch: build: {number}" for number in range(11, 31)]
        (error,) = [number for number, line in enumerate(lines) if line.startswith("error LaunchDockerError")]
        assert "11" in lines[error:][2] and "10" not in lines[error:]


class Kubernetes(BaseHTTPRequestHandler):
    """The Kubernetes API, as far as the agent calls it for a Job."""

    protocol_version = "HTTP/1.1"
    made: list[dict[str, Any]]

    def do_GET(self) -> None:
        if "watch=" in self.path:
            time.sleep(2)
        self._send(200, {"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body["metadata"].setdefault("name", "launch-1")
        self.made.append({**body, "by": self.headers.get("Authorization")})
        self._send(201, body)

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@dataclass(frozen=True)
class Agent:
    wandb: StandIn
    made: list[dict[str, Any]]
    home: Path

    def output(self) -> str:
        return (self.home / "log").read_text()


@contextmanager
def agent(home: Path, **environment: str) -> Iterator[Agent]:
    """Run the agent during the block, with stand-ins for W&B's cloud and for the API."""
    handler: Any = type("Handler", (Kubernetes,), {"made": []})
    kubeconfig, config = home / "kubeconfig", home / "launch-config.yaml"
    config.write_text(
        yaml.safe_dump({"entity": ENTITY, "queues": ["gpu"], "max_jobs": 3, "builder": {"type": "docker"}})
    )
    with wandb_stand_in.running() as wandb, ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        context = {"cluster": "c", "user": "u", "namespace": "default"}
        kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "x",
                    "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                    "users": [{"name": "u", "user": {"token": "secret"}}],
                    "contexts": [{"name": "x", "context": context}],
                }
            )
        )
        wandb.queues["q"] = {"id": "q", "name": "gpu", "access": "PROJECT"}
        mine = {"HOME": str(home), "KUBECONFIG": str(kubeconfig), "WANDB_API_KEY": KEY, "WANDB_BASE_URL": wandb.url}
        mine |= {
            "WANDB_ERROR_REPORTING": "false",
            "PYTHONUNBUFFERED": "1",
            "WANDB_RELEASE_NAME": "agent",
            **environment,
        }
        argv = [str(PYTHON), str(FILES / "launch_agent.py"), "--config", str(config)]
        with (home / "log").open("w") as log:
            running = subprocess.Popen(argv, env={**os.environ, **mine}, cwd=home, stdout=log, stderr=subprocess.STDOUT)
            try:
                yield Agent(wandb, handler.made, home)
            finally:
                running.kill()
                running.wait()
        server.shutdown()


def wait_for(condition: Callable[[], bool], agent: Agent) -> None:
    end = time.monotonic() + 90
    while not condition():
        assert time.monotonic() < end, agent.output()
        time.sleep(0.5)


def push(wandb: StandIn) -> dict[str, Any]:
    """Put a job of source code into the queue, as W&B passes it to the agent."""
    source = {"Dockerfile": "FROM scratch\n", "main.py": "print(1)\n"}
    wandb.artifacts += job(ENTITY, "p", "build", source, ["python3", "main.py"])
    container = {"name": "job", "image": "${image_uri}"}
    arguments = {"kubernetes": {"kind": "Job", "spec": {"template": {"spec": {"containers": [container]}}}}}
    spec: dict[str, Any] = {"job": f"{ENTITY}/p/build:v0", "entity": ENTITY, "project": "p", "resource": "kubernetes"}
    spec |= {"resource_args": arguments, "overrides": {}, "author": "lab"}
    item = {"id": "item", "state": "PENDING", "associatedRunId": None, "queue": "gpu", "runSpec": spec}
    wandb.items["item"] = {**item, "message": "", "warnings": []}
    return wandb.items["item"]


@pytest.mark.parametrize("status", ["0", "1"])
def test_a_job_of_source_code_is_built_and_runs_as_a_kubernetes_job(tmp_path: Path, status: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    docker = programs / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    load = f"sh -c 'cat >{tmp_path}/loaded'"
    with agent(tmp_path, PATH=path, BUILD_STATUS=status, LAUNCH_AGENT_LOAD_IMAGES=load) as running:
        item = push(running.wandb)
        if status == "0":
            wait_for(lambda: any(each["kind"] == "Job" for each in running.made), running)
            (made,) = [each for each in running.made if each["kind"] == "Job"]
            (container,) = made["spec"]["template"]["spec"]["containers"]
            assert (tmp_path / "loaded").read_text() == f"archive of {container['image']}\n"
            assert made["by"] == "Bearer secret"
        else:
            wait_for(lambda: item["state"] == "FAILED", running)
            assert [each for each in running.made if each["kind"] == "Job"] == []
            assert "The content of stdout is '11\n" in item["message"]
            said = [line for line in running.output().splitlines() if line.startswith("launch: build: ")]
            assert said[1:] == [f"launch: build: {number}" for number in range(11, 31)]
    assert running.wandb.unknown == []


def test_the_agent_starts_and_polls_its_queue(tmp_path: Path) -> None:
    with agent(tmp_path) as running:
        wait_for(lambda: "polling on queues gpu" in running.output(), running)
        (registered,) = running.wandb.agents.values()
    assert registered["config"]["max_jobs"] == 3
    assert (tmp_path / ".kube" / "config").readlink() == tmp_path / "kubeconfig"
