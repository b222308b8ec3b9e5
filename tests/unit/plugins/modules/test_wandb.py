# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules for W&B Launch with a small stand-in for wandb and a small API server.

tests/integration/test_launch.py runs them with wandb itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.agents import read
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.server import TRIED
from ansible_collections.gpulab.kubernetes.plugins.modules import wandb_agents_info

from lab.depot.wandb_image import REFERENCE as LAB_IMAGE

ROOT = Path(__file__).resolve().parents[4]
KEY = "k" * 40
# The methods of LaunchApi that are called, with a file instead of a server.
WANDB = """
import json, pathlib
FILE = pathlib.Path({file!r})
class Item:
    state = "pending"
class RunQueue:
    def __init__(self, name):
        self.name, kept = name, json.loads(FILE.read_text())[name]
        self.prioritization_mode, self._default_resource_config_id = kept["mode"], "1"
        self.type, self.default_resource_config = kept["type"], {{"resource_args": {{kept["type"]: kept["config"]}}}}
        self.template_variables = kept["variables"]
        self.items = [Item(), Item()]
    def delete(self):
        kept = json.loads(FILE.read_text())
        del kept[self.name]
        FILE.write_text(json.dumps(kept))
class LaunchApi:
    def __init__(self, overrides, api_key):
        if api_key != {key!r}:
            raise Exception("Failed to verify credentials: invalid API key")
    def entity_is_team(self, entity):
        if entity != "team":
            raise Exception("Error fetching entity x check that you have access to this entity")
    def get_project_run_queues(self, entity, project):
        return [{{"name": name}} for name in json.loads(FILE.read_text())]
    def run_queue(self, entity, name):
        return RunQueue(name)
    def upsert_run_queue(self, name, config, resource, entity, template_variables, prioritization_mode):
        kept = json.loads(FILE.read_text())
        variables = [{{"name": n, "schema": json.dumps(v["schema"])}} for n, v in template_variables.items()]
        kept[name] = {{"config": config, "type": resource, "mode": prioritization_mode, "variables": variables}}
        FILE.write_text(json.dumps(kept))
"""
CONFIG = """
class ValidationError(Exception):
    def errors(self):
        return [{"loc": ("max_jobs",), "msg": "Input should be a valid integer"}]
def AgentConfig(max_jobs=1, **_):
    if not isinstance(max_jobs, int):
        raise ValidationError
"""


class Site:
    def __init__(self, here: Path, run: Callable[..., dict[str, Any]]) -> None:
        self._run, self.file = run, here / "queues.json"
        self.file.write_text("{}")
        for path, text in (
            ("wandb/sdk/launch/api.py", WANDB.format(file=str(self.file), key=KEY)),
            ("wandb/sdk/launch/agent/config.py", CONFIG),
        ):
            (here / path).parent.mkdir(parents=True, exist_ok=True)
            (here / path).write_text(text)

    def queue(self, check: bool = False, **more: Any) -> dict[str, Any]:
        arguments = {"api_key": KEY, "entity": "team", "name": "gpu", **more}
        return self._run("wandb_queue", arguments, check=check)

    def info(self, **more: Any) -> dict[str, Any]:
        return self._run("wandb_launch_info", {"api_key": KEY, "entity": "team", **more})

    def kept(self) -> Any:
        return json.loads(self.file.read_text())


@pytest.fixture
def site(tmp_path: Path, run_module: Callable[..., dict[str, Any]]) -> Site:
    # Modules run in this directory, where Python searches first.
    return Site(tmp_path / "module-tmp", run_module)


def test_a_queue_is_created_changed_and_deleted_once(site: Site) -> None:
    wanted: dict[str, Any] = {"resource_args": {"kind": "Job"}, "template_variables": {"gpus": {"type": "integer"}}}
    result = site.queue(check=True, **wanted)
    assert (result["changed"], result["diff"]["before"], site.kept()) == (True, {}, {})
    assert site.queue(**wanted)["changed"]
    assert not site.queue(**wanted)["changed"]
    result = site.queue(**wanted, prioritization="V0")
    assert (result["diff"]["before"]["prioritization"], result["queue"]["prioritization"]) == ("DISABLED", "V0")
    assert site.kept()["gpu"]["mode"] == "V0"
    assert site.queue(state="absent")["changed"]
    assert not site.queue(state="absent")["changed"]
    assert site.kept() == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"api_key": "x" * 40}, "rejects the key"),
        ({"entity": "other"}, "Check wandb_launch_entity (other)"),
        ({"resource_args": {"hostPID": True}}, "would refuse each of its jobs: hostPID: "),
    ],
)
def test_an_error_has_a_remedy_and_does_not_show_the_key(site: Site, arguments: dict[str, Any], words: str) -> None:
    result = site.queue(**arguments)
    assert result["failed"]
    assert words in result["msg"]
    assert "x" * 40 not in json.dumps(result)
    assert site.kept() == {}


def test_queues_are_read_and_a_configuration_is_checked(site: Site) -> None:
    site.queue()
    result = site.info(queues=["gpu", "none"], agent_config={"max_jobs": 2})
    assert (result["names"], result["queues"]) == (["gpu"], {"gpu": {"pending": 2}, "none": None})
    assert "max_jobs: Input should be a valid integer" in site.info(agent_config={"max_jobs": "many"})["msg"]


def test_all_parts_of_wandb_have_the_version_of_the_table() -> None:
    table = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_versions"]
    image = yaml.safe_load((ROOT / "roles/wandb_launch/defaults/main.yml").read_text())["wandb_launch_image"]
    assert f"wandb=={table['wandb']}" in (ROOT / "requirements-wandb.txt").read_text().split()
    assert {table["wandb"]} == {TRIED, image.rpartition(":")[2], LAB_IMAGE.rpartition(":")[2]}


LABELS = {"app.kubernetes.io/part-of": "wandb-launch"}


class Cluster:
    """An API with an agent that keeps failing, and a job that waits."""

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        if path.endswith("/deployments"):
            metadata = {"name": "launch-agent", "namespace": "wandb", "labels": LABELS}
            template = {"metadata": {"labels": LABELS}}
            spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
            other: dict[str, Any] = {"template": {"metadata": {}}}
            return [{"metadata": metadata, "spec": spec}, {"metadata": {"name": "other"}, "spec": other}]
        if path.endswith("/events"):
            return []
        if query["labelSelector"] == "wandb.ai/monitor=true":
            metadata = {"name": "job-1-abc", "namespace": "default", "labels": {"job-name": "job-1"}}
            spec = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}
            reason = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"}
            return [{"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [reason]}}]
        status = {
            "name": "agent",
            "image": "x",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }
        return [{"metadata": {"name": "a-1", "labels": LABELS}, "spec": {}, "status": {"containerStatuses": [status]}}]

    def text(self, path: str, **_: str) -> str:
        assert path == "/api/v1/namespaces/wandb/pods/a-1/log"
        return "Starting\n\nNot all of requested queues (gpu) found\n"


def test_agents_and_jobs_are_read_with_their_problems() -> None:
    found = read(Cluster())  # type: ignore[arg-type]  # It has what is called.
    (agent,), (job,) = found["agents"], found["jobs"]
    assert (agent["name"], agent["alive"], agent["pod"]) == ("launch-agent", False, "a-1")
    assert "CrashLoopBackOff: container agent keeps exiting" in agent["trouble"]
    assert agent["log"] == ["Starting", "Not all of requested queues (gpu) found"]
    assert job == {
        "name": "job-1",
        "namespace": "default",
        "phase": "Pending",
        "node": "",
        "gpus": 2,
        "trouble": "Unschedulable: no GPU",
        "orphaned": True,
    }


def test_a_pod_without_its_job_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb_agents_info, "Api", lambda _path: Cluster())
    warnings: list[str] = []
    module: Any = SimpleNamespace(params={"kubeconfig": "/none"}, warn=warnings.append)
    wandb_agents_info.run_module(module)
    (warning,) = warnings
    assert warning.startswith("The Job default/job-1 no longer exists, but its pod holds 2 GPUs.")


@pytest.mark.parametrize(
    ("drivers", "gpus"), [(["nvidia"] * 2, 2), (["nvidia", "vfio-pci"], 1), (["", ""], 2), ([], 0)]
)
def test_a_job_that_requests_all_gpus_counts_those_of_its_host(
    tmp_path: Path, programs: Any, run_module: Any, drivers: list[str], gpus: int
) -> None:
    for number, driver in enumerate(drivers):
        device = tmp_path / f"root/sys/bus/pci/devices/0000:{number:02x}:00.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
        if driver:
            (device / "driver").symlink_to(f"../../../bus/pci/drivers/{driver}")
    requests = [{"Driver": "", "Count": -1, "DeviceIDs": None, "Capabilities": [["gpu"]]}]
    container = {"Name": "/a", "Config": {"Env": ["WANDB_LAUNCH=True"]}, "HostConfig": {"DeviceRequests": requests}}
    programs.add("systemctl", "printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\n'")
    programs.add("journalctl", "true")
    programs.add("docker", f"if [ $1 = ps ]; then echo a; else echo '{json.dumps([container])}'; fi")
    arguments = {"unit": "wandb-launch-agent", "host": "gpubox", "root": str(tmp_path / "root")}
    (job,) = run_module("wandb_agent_unit_info", arguments)["jobs"]
    assert (job["node"], job["gpus"]) == ("gpubox", gpus)
