# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ``wandb launch-agent`` of one release, with what it lacks on a cluster.

- The pods of a stopped run are deleted with its Job. The API orphans them otherwise, and they keep their GPUs.
- Jobs and builds of Docker have the proxy of the agent.
- A failed build ends with the last lines of its output, in the log and at W&B.
- An image that Docker has built reaches the cluster's only node, where LAUNCH_AGENT_LOAD_IMAGES says how: the path of a
  socket that takes an archive, or a command that reads one.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

VERSION = "0.31.0"
BUILD = "launch: build: "
_LOADED = "launch: loaded"
_SUCCESS = "loaded"
_LINES = 20
_OUTPUT = "The content of stdout is '"
_PROXIES = {"http_proxy": "httpProxy", "https_proxy": "httpsProxy", "no_proxy": "noProxy"}
_LOAD = "LAUNCH_AGENT_LOAD_IMAGES"


def check_version(installed: str) -> None:
    """Exit if wandb is another release than the one whose source these changes were made for."""
    if installed != VERSION:
        sys.exit(
            f"Error while starting the launch agent: wandb {installed} is installed, but this program changes wandb "
            f"{VERSION}. Install the release in requirements.txt, or run wandb launch-agent."
        )


def link_kubeconfig(kubeconfig: str, home: Path) -> None:
    """Put a kubeconfig where wandb looks whether there is one (get_kube_context_and_api_client)."""
    usual = home / ".kube" / "config"
    if kubeconfig and Path(kubeconfig) != usual:
        usual.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        usual.unlink(missing_ok=True)
        usual.symlink_to(kubeconfig)


def set_docker_proxies(home: Path, environment: Mapping[str, str]) -> None:
    """Let docker give its proxy to builds and to the containers that it runs, which are jobs.

    https://docs.docker.com/engine/cli/proxy/
    """
    found = {key: environment[name] for name, key in _PROXIES.items() if environment.get(name)}
    path = home / ".docker" / "config.json"
    settings = json.loads(path.read_text()) if path.is_file() else {}
    if found == (settings.get("proxies") or {}).get("default", {}):
        return
    settings["proxies"] = {**(settings.get("proxies") or {}), "default": found}
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(settings, indent=2))


def delete_pods_with_jobs(batch: Any) -> None:
    """Let this BatchV1Api delete Jobs with their pods, unless a call says otherwise."""
    delete = batch.delete_namespaced_job

    @functools.wraps(delete)
    def with_pods(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("propagation_policy", "Background")
        return delete(self, *args, **kwargs)

    batch.delete_namespaced_job = with_pods


def report_failed_builds(docker: Any) -> None:
    """Let wandb.docker print the last lines of a build that fails, and name only those in its error."""
    build = docker.build

    @functools.wraps(build)
    def with_report(tags: list[str], *args: Any, **kwargs: Any) -> Any:
        try:
            return build(tags, *args, **kwargs)
        except docker.DockerError as error:
            # The output is only in its message.
            before, named, rest = str(error).partition(_OUTPUT)
            output, end, after = rest.rpartition("'\n")
            lines = [line.rstrip() for line in output.splitlines() if line.strip()][-_LINES:]
            # What docker prints ends with a carriage return here.
            head = f"{', '.join(tags)} failed. The last lines of its output:"
            _say("", *(BUILD + line for line in (head, *lines)))
            error.message = before + named + "\n".join(lines) + end + after
            error.args = (error.message,)
            raise

    docker.build = with_report


def load_after_builds(builder: Any, load: Callable[[str], None]) -> None:
    """Let this DockerBuilder load each image that it does not push to a registry."""
    build_image = builder.build_image

    @functools.wraps(build_image)
    async def with_load(self: Any, *args: Any, **kwargs: Any) -> str:
        image: str = await build_image(self, *args, **kwargs)
        if not await self.registry.get_repo_uri():
            await asyncio.to_thread(load, image)
        return image

    builder.build_image = with_load


def load_image(target: str, image: str) -> None:
    """Give an image of Docker to the node. Raises RuntimeError, which the agent reports for the run."""
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
        assert saved.stdout is not None
        said = _through_socket(target, saved.stdout) if target.startswith("/") else _through(target, saved.stdout)
    if said or saved.returncode:
        raise RuntimeError(
            f"Error while loading {image} into the cluster: {said or 'docker save failed'}. Look into the log of the "
            "agent, and launch the job again."
        )
    _say(f"{_LOADED} {image} into the cluster")


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _through(command: str, archive: Any) -> str:
    done = subprocess.run(
        shlex.split(command), stdin=archive, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return (done.stdout.strip()[-500:] or f"exit status {done.returncode}") if done.returncode else ""


def _through_socket(path: str, archive: Any) -> str:
    """The unit behind the socket answers with what it printed, and with one word as its last line if it worked."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            with connection.makefile("wb") as stream:
                shutil.copyfileobj(archive, stream)
            connection.shutdown(socket.SHUT_WR)
            with connection.makefile("r", errors="replace") as answers:
                lines = answers.read().splitlines()
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return "" if lines[-1:] == [_SUCCESS] else "\n".join(lines)[-500:] or f"{path} gave no answer"


def main() -> None:
    """Change wandb, and run its command."""
    import wandb
    import wandb.docker
    from kubernetes_asyncio.client import BatchV1Api
    from wandb.cli.cli import cli
    from wandb.sdk.launch.builder.docker_builder import DockerBuilder

    check_version(wandb.__version__)
    link_kubeconfig(os.environ.get("KUBECONFIG", ""), Path.home())
    set_docker_proxies(Path.home(), os.environ)
    delete_pods_with_jobs(BatchV1Api)
    report_failed_builds(wandb.docker)
    if target := os.environ.get(_LOAD):
        load_after_builds(DockerBuilder, functools.partial(load_image, target))
    cli(["launch-agent", *sys.argv[1:]], prog_name="wandb")


if __name__ == "__main__":
    main()
