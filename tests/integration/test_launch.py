"""W&B Launch: queues at W&B, agents on the cluster and with Docker, jobs on simulated GPUs, and failures.

wandb's SDK, its agent and its Kubernetes runner are real, in the image that the lab builds from PyPI's package. W&B's
cloud is a stand-in (tests/support/wandb_stand_in.py). Most steps are the commands of docs/wandb-launch.md, in the
page's order.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from support import wandb_index, wandb_jobs, wandb_stand_in
from support.cluster import Cluster
from support.guides import Checkout, Guide, blocks
from support.hosts import ROOT, Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, play
from support.wandb_jobs import PYTHON, wait_for
from support.wandb_refusals import REFUSED
from support.wandb_stand_in import KEY, StandIn

from lab.depot.wandb_image import REFERENCE as IMAGE

SPEC = ROOT / "tests" / "integration" / "specs" / "launch.yml"
AGENT = ROOT / "roles" / "wandb_launch" / "files" / "agent"
PAGE = "wandb-launch.md"
GUIDE = yaml.safe_load(next(block.script for block in blocks(PAGE) if block.file == "group_vars/all.yml"))
(QUEUE,) = GUIDE["wandb_launch_queues"]
SHARED = f"/var/lib/lab-nfs/{GUIDE['nfs_cache_server']}{GUIDE['nfs_cache_path']}"
# The reader's editor, which writes the API key into the key file.
EDITOR = f"#!/bin/sh\necho {KEY} >$1\n"
# Reports the number of visible GPUs, and how often it has run with this cache.
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
# By default, the agent gives a stopped run a minute to end.
STOPS = {"stopped_run_timeout": 5}
# Runs until it is stopped, longer than an agent takes to restart.
LONG_JOB = """
import pathlib, time, wandb
run = wandb.init()
while not pathlib.Path("/tmp/end").exists():
    time.sleep(1)
run.finish()
"""
READ = """
import json, sys
from wandb.sdk.launch._project_spec import LaunchProject
found = []
for path in sys.argv[1:]:
    with open(path) as file:
        job = {"entity": "e", "project": "p", "resource": "kubernetes", **json.load(file)}
    project = LaunchProject.from_spec(job, None)
    entry = project.override_entrypoint
    found.append([project.docker_image, entry.command if entry else [], project.override_args, project.override_config])
print(json.dumps(found))
"""
# wandb sends SIGINT to the program of a stopped run.
STUBBORN_JOB = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + LONG_JOB
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
    guide: Guide
    key: Path

    def variables(self, values: dict[str, Any]) -> list[str]:
        usual = {
            "wandb_launch_base_url": self.wandb.url,
            "wandb_launch_entity": GUIDE["wandb_launch_entity"],
            "wandb_launch_api_key_file": str(self.key),
            "wandb_launch_python": str(PYTHON),
            "wandb_launch_image": IMAGE,
            "wandb_launch_agent_config": STOPS,
            "wandb_launch_queues": [QUEUE],
        }
        return ["-e", json.dumps({**usual, **values})]

    def launch(self, values: dict[str, Any], *arguments: str) -> Run:
        return play(self.lab.path, *arguments, *self.variables(values), playbook="playbooks/wandb_launch.yml")

    def report(self) -> dict[str, Any]:
        play(self.lab.path, *self.variables({}), playbook="playbooks/report.yml").expect_success()
        return read(self.lab.report)

    def push(self, gpus: int, image: str = IMAGE, queue: str = "gpu", **more: Any) -> dict[str, Any]:
        """Put a job into a queue through wandb's SDK, and return W&B's record of it."""
        job = {"docker_image": image, "template_variables": {"gpus": gpus}, "queue_name": queue}
        more = more or {"entry_point": ["python3", "-c", JOB]}
        return wandb_jobs.push(self.wandb, self.key.read_text().strip(), **job, **more)

    def agents(self) -> list[str]:
        return self.cluster.kubectl("get", "pods", "--namespace=wandb", "--output=name").split()


def read(report: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(report.read_text())
    return found


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
        # The guide's job uses an image from Docker Hub, which is unreachable here. The agent's image has Python, and
        # wandb, which the job would install. crictl pulls it, because the kubelet would pull its own image again under
        # the new name.
        job = json.loads((ROOT / "examples" / "launch" / "hello.json").read_text())["docker"]["docker_image"]
        inventory.control_plane.run(f"crictl pull {IMAGE} && ctr --namespace k8s.io images tag {IMAGE} {job}")
        # The address of this machine, as nodes and pods reach it.
        depot = urlsplit(inventory.control_plane.variables["kubeadm_repository_url"]).hostname or ""
        address = depot.rpartition(".")[0] + ".1"
        home, editor = lab.directory / "home", lab.directory / "editor"
        home.mkdir()
        editor.write_text(EDITOR)
        editor.chmod(0o700)
        with wandb_stand_in.running(address) as wandb:
            reader = {"HOME": str(home), "EDITOR": str(editor)}
            reader |= {"WANDB_BASE_URL": wandb.url, "WANDB_ERROR_REPORTING": "false"}
            checkout = Checkout(lab.directory / "checkout", reader)
            checkout.fill()
            mine = {"wandb_launch_base_url": wandb.url, "wandb_launch_image": IMAGE, "wandb_launch_agent_config": STOPS}
            lines = [lab.path.read_text(), *(f"{name}={json.dumps(value)}" for name, value in mine.items()), ""]
            (checkout.path / "my.ini").write_text("\n".join(lines))
            guide = Guide(PAGE, checkout)
            guide.through("pip install wandb")
            yield Site(lab, inventory, Cluster.of(inventory), wandb, guide, home / "wandb.key")
        assert wandb.unknown == []


def test_wandb_accepts_the_jobs_of_the_examples_as_written() -> None:
    paths = sorted((ROOT / "examples" / "launch").glob("*.json"))
    done = subprocess.run([str(PYTHON), "-c", READ, *map(str, paths)], capture_output=True, text=True, check=True)
    for path, found in zip(paths, json.loads(done.stdout), strict=True):
        job = json.loads(path.read_text())
        overrides = {"entry_point": [], "args": [], "run_config": {}, **job["overrides"]}
        assert found == [job["docker"]["docker_image"], *overrides.values()], path.name


def test_preflight_refuses_exactly_what_wandb_refuses() -> None:
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
        ({"wandb_launch_api_key": "y" * 40}, "rejects the key: it has expired, was deleted, or belongs to"),
        ({"wandb_launch_api_key": "short"}, "API key must have 40+ characters"),
        ({"wandb_launch_entity": "nobody"}, "Check wandb_launch_entity (nobody)"),
        ({"wandb_launch_base_url": "http://127.0.0.1:1"}, "Check wandb_launch_base_url"),
        ({"wandb_launch_agent_config": {"maxjobs": 1}}, "maxjobs: Extra inputs are not permitted"),
        ({"wandb_launch_agent_config": {"builder": {"type": "podman"}}}, "builder.type: Input should be"),
        ({"wandb_launch_queues": [{**QUEUE, "gpus": 1, "variables": {}, "volumes": {"/cache": "no"}}]}, "no claim no"),
        ({"wandb_launch_queues": [{"name": "gpu", "gpus": 5}]}, "no node on which they may run has more than 4"),
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
def test_invalid_settings_are_reported_before_anything_changes(site: Site, values: dict[str, Any], words: str) -> None:
    run = site.launch({"wandb_launch_queues": [{"name": "gpu", "gpus": 1}], **values})
    assert run.status != 0
    assert words in run.failures()
    assert not run.changed()
    assert "Traceback" not in run.output
    assert site.wandb.queues == {}


def test_check_mode_predicts_the_changes_and_a_second_run_changes_nothing(site: Site) -> None:
    site.guide.through("kubernetes.storage")
    predicted = site.guide.through("--check --diff")
    assert predicted.changed()
    assert site.wandb.queues == {}
    run = site.guide.through("kubernetes.wandb_launch")
    assert predicted.changed() == run.changed()
    assert '"nvidia.com/gpu": "{{gpus}}"' in json.dumps(site.wandb.configs)
    agents = site.agents()
    assert [agent["config"]["queues"] for agent in site.wandb.agents.values()] == [["gpu"]]
    again = site.launch({}, "--diff", "-vvv").expect_unchanged()
    assert KEY not in predicted.output + run.output + again.output
    site.launch({}, "--check").expect_unchanged()
    assert site.agents() == agents


def test_the_agent_has_only_the_permissions_that_its_runner_needs(site: Site) -> None:
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


def test_jobs_run_on_gpus_and_their_cache_is_kept(site: Site) -> None:
    for number, gpus in enumerate((2, 1)):
        item = site.push(gpus)
        wait_for(lambda item=item: item["state"] not in ("PENDING", "LEASED", "CLAIMED"), 120)  # type: ignore[misc]
        assert (item["state"], item["message"]) == ("FINISHED", "")
        summary = site.wandb.runs[item["associatedRunId"]]["summary"]
        assert (summary["gpus"], summary["earlier"]) == (gpus, number)
    assert site.inventory.control_plane.run(f"cat {SHARED}/runs") == "2"


def test_the_first_job_of_the_guide_runs(site: Site) -> None:
    before = set(site.wandb.items)
    site.guide.through("wandb launch")
    (item,) = (site.wandb.items[identity] for identity in set(site.wandb.items) - before)
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)
    assert site.wandb.runs[item["associatedRunId"]]["summary"]["gpus"] == 2


def test_a_job_without_free_gpus_waits_and_the_report_says_so(site: Site) -> None:
    site.cluster.start_gpu_pod("holder", 4)
    item = site.push(1)
    wait_for(lambda: bool(item["warnings"]), 60)
    assert "Insufficient nvidia.com/gpu" in item["warnings"][0]
    site.cluster.delete_pod("holder")
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)


def stop_a_run(site: Site, agent_config: dict[str, Any]) -> None:
    """Stop a run at W&B, and wait until its pod is gone and its GPU is free."""
    assert agent_config["stopped_run_timeout"]
    item = site.push(4, entry_point=["python3", "-c", STUBBORN_JOB])
    wait_for(lambda: item["associatedRunId"] in site.wandb.runs, 90)
    assert "launch-" in site.cluster.kubectl("get", "pods", "--output=name")
    site.wandb.runs[item["associatedRunId"]]["stopped"] = True
    wait_for(lambda: "launch-" not in site.cluster.kubectl("get", "pods", "--output=name"), 120)
    # W&B ends a run that no longer reports.
    item["state"] = "FINISHED"


def test_a_stopped_run_releases_its_gpus(site: Site) -> None:
    stop_a_run(site, STOPS)


def test_w_and_b_refuses_more_gpus_than_the_queue_allows(site: Site) -> None:
    with pytest.raises(AssertionError, match="is greater than the maximum of 4"):
        site.push(5)


def test_an_image_that_cannot_be_pulled_is_reported_and_deleting_its_job_fails_it_at_w_and_b(site: Site) -> None:
    item = site.push(1, "ghcr.io/gpulab/nothing:1")
    wait_for(lambda: "ImagePullBackOff" in site.cluster.kubectl("get", "pods", "--output=json"), 120)
    (waits,) = [each for each in site.report()["actions"] if each["kind"] == "launch"]
    assert "ghcr.io/gpulab/nothing:1" in waits["what"] and "can't be pulled" in waits["what"]
    assert "delete the Job" in waits["do"]
    site.cluster.kubectl("delete", "jobs", "--all")
    # The agent waits a minute after the end of a run for it to appear at W&B.
    wait_for(lambda: bool(item["state"] == "FAILED"), 180)


def test_the_report_shows_the_state_of_queues_and_jobs_with_remedies(site: Site) -> None:
    site.cluster.start_gpu_pod("holder", 4)
    item = site.push(1)
    wait_for(lambda: "Unschedulable" in site.cluster.kubectl("get", "pods", "--output=json"), 60)
    site.guide.through("kubernetes.report")
    report = read(site.guide.checkout.path / site.lab.report.name)
    assert report["launch"]["queues"]["gpu"]["claimed"] == 1
    assert "agents: 1 of 1 alive" in report["launch"]["words"]
    assert "jobs: 0 running on 0 GPUs, 1 not running yet" in report["launch"]["words"]
    (waits,) = [each for each in report["actions"] if each["kind"] == "launch"]
    assert "Insufficient nvidia.com/gpu" in waits["what"]
    assert "The job runs when GPUs become free" in waits["do"]
    site.cluster.delete_pod("holder")
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)
    queues = site.wandb.queues
    # If W&B has no queue at all, the agent creates one.
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

    # The agent has no log between two starts of its container.
    wait_for(told, 120)
    site.wandb.queues = queues
    assert actions["launch_queue_missing"]["what"] == "W&B has no queue gpu"
    site.cluster.kubectl("rollout", "restart", "deployment/launch-agent", "--namespace=wandb")
    site.cluster.kubectl("rollout", "status", "deployment/launch-agent", "--namespace=wandb", "--timeout=120s")


def test_an_expired_key_is_reported_and_a_new_one_restarts_the_agent(site: Site) -> None:
    new = "b" * 40
    site.wandb.keys = {new}
    run = site.launch({})
    assert "rejects the key" in run.failures()
    assert not run.changed()
    site.key.write_text(new)
    agents = site.agents()
    run = site.launch({}, "--diff", "-vvv").expect_success()
    assert new not in run.output
    assert site.agents() != agents
    site.launch({}).expect_unchanged()


def test_a_server_that_is_too_old_is_reported(site: Site) -> None:
    site.wandb.unsupported = {"UpsertRunQueue"}
    run = site.launch({"wandb_launch_queues": [QUEUE, {"name": "more", "gpus": 1}]})
    site.wandb.unsupported = set()
    assert run.status != 0 and "is too old for it" in run.output
    assert not run.changed()


def test_the_agent_is_removed_and_queues_are_only_deleted_by_name(site: Site) -> None:
    gone = {"wandb_launch_state": "absent"}
    assert site.launch(gone, "--check").expect_success().changed()
    assert site.agents()
    site.guide.through("wandb_launch_state=absent")
    site.launch(gone).expect_unchanged()
    assert [queue["name"] for queue in site.wandb.queues.values()] == ["gpu"]
    kinds = "deployments,secrets,configmaps,roles,rolebindings,serviceaccounts"
    left = site.cluster.kubectl("get", kinds, "--all-namespaces", "--output=name")
    assert "launch-agent" not in left
    deleted = {**gone, "wandb_launch_queues_absent": ["gpu"]}
    site.guide.through("wandb_launch_queues_absent")
    assert site.wandb.queues == {}
    site.launch(deleted).expect_unchanged()
    assert site.guide.left() == []


DOCKER_QUEUE = {
    "name": "box",
    "type": "local-container",
    "variables": {"gpus": {"type": "integer", "default": 1, "minimum": 1, "maximum": 4}},
    "shared_memory": "64Mi",
    "memory": "2Gi",
    "cpu": "500m",
}
UNIT = "wandb-launch-agent"
# The lab's image with an entry point that runs its arguments: wandb's runner appends the job's arguments to it. An
# empty entry point would keep the image's own, which is the agent.
DOCKER_IMAGE = "job:1"


@dataclass(frozen=True)
class Box:
    """The lab's host with Docker."""

    site: Site
    path: Path
    host: Host
    index: str

    def launch(self, values: dict[str, Any], *arguments: str) -> Run:
        mine = {"wandb_launch_queues": [DOCKER_QUEUE], "wandb_launch_index_url": self.index}
        variables = self.site.variables({**mine, **values})
        return play(self.path, *arguments, *variables, playbook="playbooks/wandb_launch_docker.yml")

    def started(self) -> str:
        return self.host.run(f"systemctl show --value --property=InvocationID {UNIT}").strip()


@pytest.fixture(scope="module")
def box(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    directory = tmp_path_factory.mktemp("docker")
    text = site.lab.path.read_text()
    path = directory / "docker.ini"
    path.write_text(text.replace("[all:vars]", "[docker]\ncp1\n\n[all:vars]"))
    path.chmod(0o600)
    host = site.inventory.control_plane
    python = host.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
    address = urlsplit(site.wandb.url).hostname or ""
    with wandb_index.running(address, directory, AGENT / "requirements.txt", python) as index:
        yield Box(site, path, host, index)


def test_a_host_without_docker_gets_the_playbook_that_installs_it(box: Box) -> None:
    run = box.launch({})
    assert "Docker does not respond on this host: run gpulab.kubernetes.docker first" in run.failures()
    assert not run.changed()
    assert play(box.path, playbook="playbooks/docker.yml").expect_success().changed()
    image = f"{str(box.host.variables['docker_check_image']).partition('/')[0]}/{IMAGE}"
    change = """--change 'ENTRYPOINT ["env"]'"""
    box.host.run(f"docker create --name base {image} && docker commit {change} base {DOCKER_IMAGE}")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"wandb_launch_queues": [{**DOCKER_QUEUE, "volumes": {"/cache": "a"}}]},
            "volumes has an effect only on a cluster",
        ),
        (
            {"wandb_launch_queues": [{**DOCKER_QUEUE, "variables": {}, "gpus": 5}]},
            "request 5 GPUs, but this host has 4",
        ),
        ({"wandb_launch_queues": [{**DOCKER_QUEUE, "resource_args": {"privileged": 1}}]}, "agent refuses privileged"),
        ({"wandb_launch_agent_config": {"builder": {"type": "podman"}}}, "builder.type: Input should be"),
    ],
)
def test_settings_that_docker_does_not_support_are_reported(box: Box, values: dict[str, Any], words: str) -> None:
    run = box.launch(values)
    assert words in run.failures()
    assert not run.changed()
    assert box.site.wandb.queues == {}


def test_check_mode_predicts_the_changes_and_a_second_run_changes_nothing_with_docker(box: Box) -> None:
    key = box.site.key.read_text()
    predicted = box.launch({}, "--check", "--diff").expect_success()
    run = box.launch({}, "--diff", "-vvv").expect_success()
    assert predicted.changed() == run.changed() != set()
    assert key not in predicted.output + run.output
    (agent,) = [agent for agent in box.site.wandb.agents.values() if agent["config"]["queues"] == ["box"]]
    assert (agent["config"]["max_jobs"], agent["config"]["builder"]) == (1, {"type": "noop"})
    started = box.started()
    box.launch({}).expect_unchanged()
    box.launch({}, "--check").expect_unchanged()
    assert box.started() == started


def test_the_agent_has_its_own_user_and_only_root_reads_the_key(box: Box) -> None:
    key = box.site.key.read_text()
    pid = box.host.run(f"systemctl show --value --property=MainPID {UNIT}").strip()
    assert box.host.run(f"ps -o user:32= -p {pid}").strip() == UNIT
    assert "docker" in box.host.run(f"for group in $(ps -o supgid= -p {pid} | tr , ' '); do getent group $group; done")
    assert box.host.run(f"stat -c '%a %U' /etc/{UNIT}/environment").strip() == "600 root"
    seen = box.host.run(f"systemctl cat {UNIT}; systemctl show {UNIT}; ps -eo args; journalctl --unit {UNIT}")
    assert key not in seen


def test_a_docker_job_runs_on_gpus_in_a_container(box: Box) -> None:
    hello = json.loads((ROOT / "examples" / "launch" / "hello-docker.json").read_text())
    item = box.site.push(2, DOCKER_IMAGE, "box", config=hello)
    wait_for(lambda: item["state"] not in ("PENDING", "LEASED", "CLAIMED"), 180)
    assert (item["state"], item["message"]) == ("FINISHED", "")
    assert box.site.wandb.runs[item["associatedRunId"]]["summary"]["gpus"] == 2
    log = box.host.run(f"journalctl --unit {UNIT}")
    assert "Launching run in docker" in log and box.site.key.read_text() not in log


def test_a_changed_configuration_restarts_the_agent_and_its_job_continues(box: Box) -> None:
    item = box.site.push(1, DOCKER_IMAGE, "box", config={"overrides": {"args": ["python3", "-c", LONG_JOB]}})
    wait_for(lambda: item["associatedRunId"] in box.site.wandb.runs, 90)
    started = box.started()
    run = box.launch({"wandb_launch_max_jobs": 2}).expect_success()
    assert {task.rpartition(" : ")[2] for task in run.changed_tasks()} == {
        "Configure the launch agent",
        "Run the launch agent with this configuration",
    }
    assert box.started() != started
    variables = box.site.variables({"wandb_launch_queues": [DOCKER_QUEUE]})
    play(box.path, *variables, playbook="playbooks/report.yml").expect_success()
    launch = json.loads((box.path.parent / "gpulab-report.json").read_text())["launch"]
    assert launch["words"][-2:] == ["agents: 1 of 1 alive", "jobs: 1 running on 1 GPUs, 0 not running yet"]
    container = box.host.run(f"docker ps --quiet --filter ancestor={DOCKER_IMAGE}").strip()
    box.host.run(f"docker exec {container} touch /tmp/end")
    wait_for(lambda: bool(item["state"] == "FINISHED"), 60)


def test_a_stopped_agent_is_an_action_in_the_report(box: Box) -> None:
    box.host.run(f"systemctl stop {UNIT}")
    variables = box.site.variables({"wandb_launch_queues": [DOCKER_QUEUE]})
    play(box.path, *variables, playbook="playbooks/report.yml").expect_success()
    report = json.loads((box.path.parent / "gpulab-report.json").read_text())
    (action,) = [each for each in report["actions"] if each["problem"] == "launch_agent_down"]
    assert f"the launch agent cp1/{UNIT} is not alive: its unit is inactive" in action["what"]


def test_an_agent_that_w_and_b_refuses_is_an_error_with_the_reason(box: Box) -> None:
    queues, box.site.wandb.queues = box.site.wandb.queues, {}
    box.site.wandb.unsupported = {"createLaunchAgent"}
    run = box.launch({"wandb_launch_queues": [{**DOCKER_QUEUE, "name": "other"}]})
    box.site.wandb.unsupported, box.site.wandb.queues = set(), queues
    assert "it keeps exiting" in run.failures() and "createLaunchAgent" in run.failures()


def test_the_docker_agent_is_removed(box: Box) -> None:
    gone = {"wandb_launch_state": "absent", "wandb_launch_queues_absent": ["box"]}
    assert box.launch(gone, "--check").expect_success().changed()
    box.launch(gone).expect_success()
    box.launch(gone).expect_unchanged()
    assert box.site.wandb.queues == {}
    left = box.host.run(
        f"ls -d /etc/{UNIT} /opt/{UNIT} /var/lib/{UNIT} /etc/systemd/system/*/{UNIT}* 2>/dev/null || true"
    )
    assert left == "" and box.host.run(f"id {UNIT} 2>&1 || true").startswith("id:")


PLUGINS = "/usr/local/lib/docker/cli-plugins"
BUILDX = """#!/bin/sh
echo '{"SchemaVersion": "0.1.0", "Vendor": "a test", "Version": "0.0.0", "ShortDescription": "Nothing"}'
"""


@pytest.fixture(scope="module")
def on_host(box: Box) -> dict[str, Any]:
    # The group `tutorial` builds images. Here, Docker only needs the plugin.
    install = f"mkdir -p {PLUGINS} && printf %s {shlex.quote(BUILDX)} | install /dev/stdin {PLUGINS}/docker-buildx"
    box.host.run(f"docker buildx version || {{ {install}; }}")
    return {
        "wandb_launch_agent_place": "host",
        "wandb_launch_index_url": box.index,
        "wandb_launch_agent_config": {"builder": {"type": "noop"}, **STOPS},
    }


CLUSTER_UNIT = "wandb-launch-agent-cluster"


def test_a_registry_that_wandb_cannot_push_to_is_refused(box: Box, on_host: dict[str, Any]) -> None:
    builder = {"builder": {"type": "docker", "destination": "localhost:5000/jobs"}}
    run = box.site.launch({**on_host, "wandb_launch_agent_config": builder})
    assert "it takes no registry with a port" in run.failures()
    assert not run.changed()


def test_the_agent_for_the_cluster_runs_on_its_host(box: Box, on_host: dict[str, Any]) -> None:
    predicted = box.site.launch(on_host, "--check", "--diff").expect_success()
    run = box.site.launch(on_host, "--diff", "-vvv").expect_success()
    assert predicted.changed() == run.changed() != set()
    token = box.host.run(
        "kubectl --kubeconfig /etc/kubernetes/admin.conf get secret wandb-launch-agent-token --namespace=wandb "
        "--output=jsonpath={.data.token} | base64 --decode"
    )
    assert token and token not in predicted.output + run.output
    assert box.site.agents() == []
    started = box.host.run(f"systemctl show --value --property=InvocationID {CLUSTER_UNIT}")
    box.site.launch(on_host).expect_unchanged()
    box.site.launch(on_host, "--check").expect_unchanged()
    assert box.host.run(f"systemctl show --value --property=InvocationID {CLUSTER_UNIT}") == started


def test_the_agent_on_the_host_has_the_permissions_of_an_agent_in_the_cluster(
    box: Box, on_host: dict[str, Any]
) -> None:
    kubeconfig = f"/etc/{CLUSTER_UNIT}/kubeconfig"
    assert box.host.run(f"stat -c '%a %U' {kubeconfig} /etc/{CLUSTER_UNIT}/environment") == "600 root\n600 root\n"
    pid = box.host.run(f"systemctl show --value --property=MainPID {CLUSTER_UNIT}").strip()
    assert box.host.run(f"ps -o user:32= -p {pid}").strip() == CLUSTER_UNIT
    for verb, resource, answer in (
        ("create", "jobs.batch", "yes"),
        ("create", "pods", "no"),
        ("list", "secrets", "no"),
    ):
        argv = f"kubectl --kubeconfig {kubeconfig} auth can-i {verb} {resource} --namespace=default"
        assert box.host.attempt(argv).stdout == f"{answer}\n"


def test_a_job_of_the_agent_on_the_host_runs_on_gpus(box: Box, on_host: dict[str, Any]) -> None:
    item = box.site.push(2)
    wait_for(lambda: item["state"] not in ("PENDING", "LEASED", "CLAIMED"), 120)
    assert (item["state"], item["message"]) == ("FINISHED", "")
    assert box.site.wandb.runs[item["associatedRunId"]]["summary"]["gpus"] == 2


def test_a_stopped_run_of_the_agent_on_the_host_releases_its_gpus(box: Box, on_host: dict[str, Any]) -> None:
    stop_a_run(box.site, STOPS)


def test_an_image_built_with_docker_reaches_the_node(box: Box, on_host: dict[str, Any]) -> None:
    program = f"/usr/local/lib/{CLUSTER_UNIT}"
    socket = f"/run/{CLUSTER_UNIT}-images.sock"
    box.site.launch({**on_host, "wandb_launch_agent_config": STOPS}).expect_success()
    script = f"import launch_agent; launch_agent.load_image({socket!r}, {DOCKER_IMAGE!r})"
    said = box.host.run(
        f"cd / && runuser -u {CLUSTER_UNIT} -g {CLUSTER_UNIT} -G docker -- env PYTHONPATH={program} "
        f'/opt/{CLUSTER_UNIT}/bin/python -c "{script}"'
    )
    assert said == f"launch: loaded {DOCKER_IMAGE} into the cluster\n"
    assert f"docker.io/library/{DOCKER_IMAGE}" in box.host.run("crictl images --output json")
    item = box.site.push(1, DOCKER_IMAGE, entry_point=["python3", "-c", JOB])
    wait_for(lambda: bool(item["state"] == "FINISHED"), 120)


def test_the_agent_must_be_removed_before_it_moves_to_the_cluster(box: Box, on_host: dict[str, Any]) -> None:
    run = box.site.launch({})
    assert "already runs on cp1: remove it there first" in run.failures()
    assert not run.changed()


def test_the_report_includes_the_agent_on_the_host(box: Box, on_host: dict[str, Any]) -> None:
    box.host.run(f"systemctl stop {CLUSTER_UNIT}")
    variables = box.site.variables(on_host)
    play(box.path, *variables, playbook="playbooks/report.yml").expect_success()
    report = json.loads((box.path.parent / "gpulab-report.json").read_text())
    (action,) = [each for each in report["actions"] if each["problem"] == "launch_agent_down"]
    assert f"the launch agent cp1/{CLUSTER_UNIT} is not alive: its unit is inactive" in action["what"]


def test_the_agent_on_the_host_is_removed(box: Box, on_host: dict[str, Any]) -> None:
    gone = {**on_host, "wandb_launch_state": "absent"}
    box.site.launch(gone).expect_success()
    box.site.launch(gone).expect_unchanged()
    left = box.host.run(
        f"ls -d /etc/{CLUSTER_UNIT} /opt/{CLUSTER_UNIT} /var/lib/{CLUSTER_UNIT} /usr/local/lib/{CLUSTER_UNIT} "
        f"/etc/systemd/system/{CLUSTER_UNIT}* 2>/dev/null || true"
    )
    assert left == "" and box.host.run(f"id {CLUSTER_UNIT} 2>&1 || true").startswith("id:")
    kinds = "serviceaccounts,secrets,roles,rolebindings"
    assert "launch-agent" not in box.site.cluster.kubectl("get", kinds, "--all-namespaces", "--output=name")
