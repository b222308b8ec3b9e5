"""W&B Launch: queues at W&B, the agent on the cluster, jobs on simulated GPUs, and what goes wrong with them.

wandb's SDK, its agent and its Kubernetes runner are real, in the image that the lab builds of PyPI's package. W&B's
cloud is a stand-in (tests/support/wandb_stand_in.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support import wandb_stand_in
from support.cluster import Cluster
from support.hosts import ROOT, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play
from support.wandb_refusals import REFUSED
from support.wandb_stand_in import ENTITY, KEY, StandIn

from lab.depot.wandb_image import REFERENCE as IMAGE

SPEC = ROOT / "tests" / "integration" / "specs" / "launch.yml"
PYTHON = ROOT / ".cache" / "venv-wandb" / "bin" / "python"
NFS_SERVER, NFS_PATH = "192.0.2.10", "/srv/gpulab"
SHARED = f"/var/lib/lab-nfs/{NFS_SERVER}{NFS_PATH}"
CACHE = {"cluster_storage": ["nfs_cache"], "nfs_cache_server": NFS_SERVER, "nfs_cache_path": NFS_PATH}
ONE_OR_TWO = {"type": "integer", "default": 1, "minimum": 1, "maximum": 2}
QUEUE = {
    "name": "gpu",
    "variables": {"gpus": ONE_OR_TWO},
    "shared_memory": "64Mi",
    "volumes": {"/cache": "gpulab-cache"},
}
# Counts the GPUs that it sees, and how often it has run with this cache.
JOB = """
import pathlib, subprocess, wandb
run = wandb.init()
kept = pathlib.Path("/cache/runs")
earlier = int(kept.read_text()) if kept.exists() else 0
kept.write_text(str(earlier + 1))
listed = subprocess.run(["nvidia-smi", "-L"], check=True, capture_output=True, text=True).stdout
run.summary["gpus"], run.summary["earlier"] = listed.count("UUID: GPU-"), earlier
run.finish()
"""
LAUNCH = """
import json, sys
from wandb.sdk.launch._launch_add import launch_add
item = launch_add(queue_name="gpu", name="job", **json.loads(sys.argv[1]))
print(item.id)
"""
VALIDATE = """
import json, sys
from wandb.sdk.launch.errors import LaunchError
from wandb.sdk.launch.utils import validate_launch_resource_args
answers = []
for resource, arguments in json.load(sys.stdin):
    try:
        validate_launch_resource_args({resource: arguments})
        answers.append("")
    except LaunchError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Site:
    lab: Lab
    inventory: Inventory
    cluster: Cluster
    wandb: StandIn
    key: Path

    def variables(self, values: dict[str, Any]) -> list[str]:
        usual = {
            "wandb_launch_base_url": self.wandb.url,
            "wandb_launch_entity": ENTITY,
            "wandb_launch_api_key_file": str(self.key),
            "wandb_launch_python": str(PYTHON),
            "wandb_launch_image": IMAGE,
            "wandb_launch_queues": [QUEUE],
        }
        return ["-e", json.dumps({**usual, **values})]

    def launch(self, values: dict[str, Any], *arguments: str) -> Run:
        return play(self.lab.path, *arguments, *self.variables(values), playbook="playbooks/wandb_launch.yml")

    def report(self) -> dict[str, Any]:
        play(self.lab.path, *self.variables({}), playbook="playbooks/report.yml").expect_success()
        found: dict[str, Any] = json.loads(self.lab.report.read_text())
        return found

    def push(self, gpus: int, image: str = IMAGE, **more: Any) -> dict[str, Any]:
        """Put a job into the queue through wandb's SDK, and return what W&B keeps of it."""
        job = {"docker_image": image, "project": "p", "entity": ENTITY, "template_variables": {"gpus": gpus}}
        argument = json.dumps({**job, **(more or {"entry_point": ["python3", "-c", JOB]})})
        own = {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": self.wandb.url, "WANDB_ERROR_REPORTING": "false"}
        command = [str(PYTHON), "-c", LAUNCH, argument]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **own})
        assert done.returncode == 0, done.stderr
        return self.wandb.items[done.stdout.split()[-1]]

    def agents(self) -> list[str]:
        return self.cluster.kubectl("get", "pods", "--namespace=wandb", "--output=name").split()


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(1)


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    subprocess.run(["make", "wandb-tools"], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "wandb")
    with running("launch", SPEC) as lab:
        play(lab.path).expect_success()
        inventory = lab.inventory()
        inventory.control_plane.run(f"mkdir -p -m 777 {SHARED}")
        # This machine, as nodes and pods reach it.
        depot = urlsplit(inventory.control_plane.variables["kubeadm_repository_url"]).hostname or ""
        address = depot.rpartition(".")[0] + ".1"
        key = lab.directory / "wandb.key"
        key.write_text(f"{KEY}\n")
        key.chmod(0o600)
        with wandb_stand_in.running(address) as wandb:
            yield Site(lab, inventory, Cluster.of(inventory), wandb, key)
        assert wandb.unknown == []


def test_what_is_refused_in_preflight_is_what_wandb_refuses() -> None:
    cases = json.dumps([(resource, arguments) for resource, arguments, _ in REFUSED])
    done = subprocess.run([str(PYTHON), "-c", VALIDATE], input=cases, capture_output=True, text=True, check=True)
    for (resource, arguments, words), answer in zip(REFUSED, json.loads(done.stdout), strict=True):
        assert bool(answer) == bool(words), f"{resource} {arguments}: wandb says {answer!r}"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"wandb_launch_entity": ""}, "set wandb_launch_entity to your team at W&B"),
        ({"wandb_launch_api_key_file": ""}, "wandb_launch_api_key_file to a file with an API key"),
        ({"wandb_launch_python": sys.executable}, "Install wandb==0.31.0 for the Python of wandb_launch_python"),
        ({"wandb_launch_api_key": "y" * 40}, "does not know the key: it has expired, was deleted, or belongs to"),
        ({"wandb_launch_api_key": "short"}, "API key must have 40+ characters"),
        ({"wandb_launch_entity": "nobody"}, "Look at wandb_launch_entity (nobody)"),
        ({"wandb_launch_base_url": "http://127.0.0.1:1"}, "Look at wandb_launch_base_url"),
        ({"wandb_launch_agent_config": {"maxjobs": 1}}, "maxjobs: Extra inputs are not permitted"),
        ({"wandb_launch_agent_config": {"builder": {"type": "podman"}}}, "builder.type: Input should be"),
        ({"wandb_launch_queues": [{**QUEUE, "gpus": 1, "variables": {}, "volumes": {"/cache": "no"}}]}, "no claim no"),
        ({"wandb_launch_queues": [{"name": "gpu", "gpus": 3}]}, "no node that they may run on has more than 2"),
        (
            {
                "wandb_launch_queues": [
                    {"name": "q", "resource_args": {"spec": {"template": {"spec": {"hostPID": True}}}}}
                ]
            },
            "queue q: the launch agent refuses spec.template.spec.hostPID",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_changes(site: Site, values: dict[str, Any], words: str) -> None:
    run = site.launch({"wandb_launch_queues": [{"name": "gpu", "gpus": 1}], **values})
    assert run.status != 0
    assert words in run.failures()
    assert not run.changed()
    assert "Traceback" not in run.output
    assert site.wandb.queues == {}


def test_check_apply_and_a_second_run_that_changes_nothing(site: Site) -> None:
    play(site.lab.path, "-e", json.dumps(CACHE), playbook="playbooks/storage.yml").expect_success()
    predicted = site.launch({}, "--check", "--diff").expect_success()
    assert predicted.changed()
    assert site.wandb.queues == {}
    run = site.launch({}, "--diff", "-vvv").expect_success()
    assert predicted.changed() == run.changed()
    assert KEY not in predicted.output + run.output
    assert '"nvidia.com/gpu": "{{gpus}}"' in json.dumps(site.wandb.configs)
    agents = site.agents()
    assert [agent["config"]["queues"] for agent in site.wandb.agents.values()] == [["gpu"]]
    site.launch({}).expect_unchanged()
    site.launch({}, "--check").expect_unchanged()
    assert site.agents() == agents


def test_the_agent_may_do_what_its_runner_calls_and_no_more(site: Site) -> None:
    who = "--as=system:serviceaccount:wandb:launch-agent"
    listed = site.cluster.kubectl("auth", "can-i", "--list", who, "--namespace=default", "--no-headers")
    rules = {line.split("[", 1)[0].strip(): line.rsplit("[", 1)[1].strip("] \n") for line in listed.splitlines()}
    assert rules["jobs.batch"] == "create list watch delete"
    assert (rules["pods"], rules["pods/log"]) == ("list watch", "get")
    for verb, resource in (("create", "pods"), ("get", "secrets/other"), ("list", "secrets"), ("get", "configmaps")):
        done = site.inventory.control_plane.attempt(
            f"kubectl --kubeconfig /etc/kubernetes/admin.conf auth can-i {verb} {resource} {who} --namespace=default"
        )
        assert done.stdout == "no\n", f"{verb} {resource}"


def test_jobs_run_on_gpus_and_their_cache_survives(site: Site) -> None:
    for number, gpus in enumerate((2, 1)):
        item = site.push(gpus)
        wait_for(lambda item=item: item["state"] not in ("PENDING", "LEASED", "CLAIMED"), 120)  # type: ignore[misc]
        assert (item["state"], item["message"]) == ("FINISHED", "")
        summary = site.wandb.runs[item["associatedRunId"]]["summary"]
        assert (summary["gpus"], summary["earlier"]) == (gpus, number)
    assert site.inventory.control_plane.run(f"cat {SHARED}/runs") == "2"


def test_the_first_job_of_the_guide_runs(site: Site) -> None:
    item = site.push(2, config=json.loads((ROOT / "examples" / "launch" / "hello.json").read_text()))
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)
    assert site.wandb.runs[item["associatedRunId"]]["summary"]["gpus"] == 2


def test_a_job_without_free_gpus_waits_and_says_so(site: Site) -> None:
    site.cluster.start_gpu_pod("holder", 2)
    item = site.push(1)
    wait_for(lambda: bool(item["warnings"]), 60)
    assert "Insufficient nvidia.com/gpu" in item["warnings"][0]
    site.cluster.delete_pod("holder")
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)


def test_more_gpus_than_the_queue_allows_are_refused_at_w_and_b(site: Site) -> None:
    with pytest.raises(AssertionError, match="is greater than the maximum of 2"):
        site.push(3)


def test_an_image_that_cannot_be_pulled_is_told_and_deleting_its_job_fails_it_at_w_and_b(site: Site) -> None:
    item = site.push(1, "ghcr.io/gpulab/nothing:1")
    wait_for(lambda: "ImagePullBackOff" in site.cluster.kubectl("get", "pods", "--output=json"), 120)
    (waits,) = [each for each in site.report()["actions"] if each["kind"] == "launch"]
    assert "ghcr.io/gpulab/nothing:1" in waits["what"] and "can't be pulled" in waits["what"]
    assert "delete the Job" in waits["do"]
    site.cluster.kubectl("delete", "jobs", "--all")
    # The agent gives a run a minute to appear at W&B after its end.
    wait_for(lambda: bool(item["state"] == "FAILED"), 180)


def test_the_report_says_how_it_stands_and_what_to_do(site: Site) -> None:
    site.cluster.start_gpu_pod("holder", 2)
    item = site.push(1)
    wait_for(lambda: "Unschedulable" in site.cluster.kubectl("get", "pods", "--output=json"), 60)
    report = site.report()
    assert report["launch"]["queues"]["gpu"]["claimed"] == 1
    assert "agents: 1 of 1 alive" in report["launch"]["words"]
    assert "jobs: 0 running on 0 GPUs, 1 not running yet" in report["launch"]["words"]
    (waits,) = [each for each in report["actions"] if each["kind"] == "launch"]
    assert "Insufficient nvidia.com/gpu" in waits["what"]
    assert "It runs when GPUs become free" in waits["do"]
    site.cluster.delete_pod("holder")
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)
    queues = site.wandb.queues
    # Where there is no queue at all, the agent makes one.
    site.wandb.queues = {identity: {**queue, "name": "other"} for identity, queue in queues.items()}
    site.cluster.kubectl("rollout", "restart", "deployment/launch-agent", "--namespace=wandb")
    restarts = (
        "get",
        "pods",
        "--namespace=wandb",
        "--output=jsonpath={.items[*].status.containerStatuses[0].restartCount}",
    )
    wait_for(lambda: site.cluster.kubectl(*restarts) not in ("", "0"), 90)
    actions: dict[str, Any] = {}

    def told() -> bool:
        actions.update({each["problem"]: each for each in site.report()["actions"] if each["kind"] == "launch"})
        return "Not all of requested queues (gpu) found" in actions.get("launch_agent_down", {"what": ""})["what"]

    # Between two starts of its container the agent has no log.
    wait_for(told, 120)
    site.wandb.queues = queues
    assert actions["launch_queue_missing"]["what"] == "W&B has no queue gpu"
    site.cluster.kubectl("rollout", "restart", "deployment/launch-agent", "--namespace=wandb")
    site.cluster.kubectl("rollout", "status", "deployment/launch-agent", "--namespace=wandb", "--timeout=120s")


def test_an_expired_key_is_told_and_a_new_one_restarts_the_agent(site: Site) -> None:
    new = "b" * 40
    site.wandb.keys = {new}
    run = site.launch({})
    assert "does not know the key" in run.failures()
    assert not run.changed()
    site.key.write_text(new)
    agents = site.agents()
    run = site.launch({}).expect_success()
    assert new not in run.output
    assert site.agents() != agents
    site.launch({}).expect_unchanged()


def test_a_server_that_is_too_old_is_told(site: Site) -> None:
    site.wandb.unsupported = {"UpsertRunQueue"}
    run = site.launch({"wandb_launch_queues": [QUEUE, {"name": "more", "gpus": 1}]})
    site.wandb.unsupported = set()
    assert run.status != 0 and "is too old for it" in run.output
    assert not run.changed()


def test_it_is_removed_and_queues_are_deleted_by_name_only(site: Site) -> None:
    gone = {"wandb_launch_state": "absent"}
    assert site.launch(gone, "--check").expect_success().changed()
    assert site.agents()
    site.launch(gone).expect_success()
    site.launch(gone).expect_unchanged()
    assert [queue["name"] for queue in site.wandb.queues.values()] == ["gpu"]
    kinds = "deployments,secrets,configmaps,roles,rolebindings,serviceaccounts"
    left = site.cluster.kubectl("get", kinds, "--all-namespaces", "--output=name")
    assert "launch-agent" not in left
    deleted = {**gone, "wandb_launch_queues_absent": ["gpu"]}
    site.launch(deleted).expect_success()
    assert site.wandb.queues == {}
    site.launch(deleted).expect_unchanged()
