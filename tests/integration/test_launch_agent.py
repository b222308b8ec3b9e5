"""What the role adds to W&B's agent, with wandb's own classes. No lab is needed."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from support import wandb_stand_in
from support.hosts import ROOT
from support.wandb_stand_in import ENTITY, KEY

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
# Says that it has buildx, and then builds or does not.
DOCKER = """#!/bin/sh
case "$*" in
  *--help) echo buildx ;;
  *build*) seq 1 30; exit $BUILD_STATUS ;;
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
def test_a_run_that_is_canceled_takes_its_pods_with_it(api: tuple[str, list[str]], how: str, query: str) -> None:
    url, asked = api
    python(CANCEL, url, how)
    assert asked == [f"/apis/batch/v1/namespaces/default/jobs/job{query}"]


@pytest.mark.parametrize("status", ["0", "1"])
def test_a_build_is_loaded_or_ends_with_its_last_lines(tmp_path: Path, status: str) -> None:
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


def test_the_agent_starts_and_polls_its_queue(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("{}")
    with wandb_stand_in.running() as wandb:
        wandb.queues["q"] = {"id": "q", "name": "gpu", "access": "PROJECT"}
        config = tmp_path / "launch-config.yaml"
        config.write_text(yaml.safe_dump({"entity": ENTITY, "queues": ["gpu"], "max_jobs": 3}))
        mine = {"HOME": str(tmp_path), "KUBECONFIG": str(kubeconfig), "WANDB_API_KEY": KEY, "WANDB_BASE_URL": wandb.url}
        argv = [str(PYTHON), str(FILES / "launch_agent.py"), "--config", str(config)]
        environment = {**os.environ, **mine, "WANDB_ERROR_REPORTING": "false", "PYTHONUNBUFFERED": "1"}
        with subprocess.Popen(
            argv, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as agent:
            try:
                end = time.monotonic() + 60
                while "PopFromRunQueue" not in "".join(wandb.operations) and time.monotonic() < end:
                    time.sleep(0.5)
            finally:
                agent.kill()
                output = (agent.communicate()[0] or b"").decode()
        (registered,) = wandb.agents.values()
    assert "polling on queues gpu" in output
    assert registered["config"]["max_jobs"] == 3
    assert (tmp_path / ".kube" / "config").readlink() == kubeconfig
