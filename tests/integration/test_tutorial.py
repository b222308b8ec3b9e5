"""W&B's tutorial on one machine with 4 GPUs: Docker, minikube, an agent on the host, a cache, simultaneous jobs.

The commands are those of docs/launch-on-minikube.md, in the page's order. Simulated are the GPUs, W&B's cloud
(tests/support/wandb_stand_in.py), and NFS in minikube's container, whose image is the lab's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from support import wandb_index, wandb_jobs, wandb_stand_in
from support.cluster import IMAGE, Cluster
from support.guides import Checkout, Guide, blocks
from support.hosts import ROOT, Host
from support.lab import Lab, lab_command, running
from support.minikube import SHARED, in_docker, write_inventory
from support.play import Run, play
from support.wandb_jobs import wait_for
from support.wandb_stand_in import ENTITY, KEY, StandIn
from support.wandb_stand_in_artifacts import job as source_job

from lab.depot.launch_job_image import REFERENCE as JOB_IMAGE

USER, PROFILE = "ada", "minikube"
PAGE = "launch-on-minikube.md"
SETTINGS = yaml.safe_load(next(block.script for block in blocks(PAGE) if block.file == "group_vars/all.yml"))
QUEUE = SETTINGS["wandb_launch_queues"][0]["name"]
UNIT = "wandb-launch-agent-cluster"
# The page's image names. The lab can't pull these images, so it gives its own images these names.
HELLO, PICTURES = "wandb/job_hello_world:main", "registry.example.org/image-job:1"
EDITOR = f"#!/bin/sh\necho {KEY} >$1\n"


class Minikube(Cluster):
    """The cluster in minikube's container, as the user who owns the profile reaches it."""

    def kubectl(self, *arguments: str, timeout: float = 180) -> str:
        return self.control_plane.run(f"sudo -iu {USER} kubectl {' '.join(arguments)}", timeout)


@dataclass(frozen=True)
class Site:
    lab: Lab
    host: Host
    cluster: Cluster
    wandb: StandIn
    guide: Guide

    @property
    def inventory(self) -> Path:
        return self.guide.checkout.path / "my.ini"

    def play(self, playbook: str, *arguments: str) -> Run:
        """Run a playbook again with the guide's settings."""
        reader = self.guide.checkout.given
        return play(self.inventory, *arguments, playbook=f"playbooks/{playbook}.yml", env=reader)

    def push(self, **config: Any) -> dict[str, Any]:
        job = {"docker_image": PICTURES, "queue_name": QUEUE, "config": {"overrides": {"run_config": config}}}
        return wandb_jobs.push(self.wandb, KEY, **job)

    def runs(self, *items: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the pods of these items' Jobs."""
        pods = self.cluster.get("pods")["items"]
        names = [str(item["associatedRunId"]) for item in items]
        return [pod for pod in pods if any(name in json.dumps(pod["spec"]) for name in names)]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    subprocess.run(["make", "wandb-tools"], cwd=ROOT, check=True)
    lab_command("build", *(f"--with={part}" for part in ("docker", "minikube", "kicbase", "wandb-job")))
    with running("tutorial", ROOT / "lab" / "specs" / "minikube.yml") as lab:
        host = next(iter(lab.inventory().hosts.values()))
        host.run(f"id {USER} || useradd --create-home --shell /bin/bash {USER}")
        depot = urlsplit(str(host.variables["kubeadm_repository_url"])).hostname or ""
        address = depot.rpartition(".")[0] + ".1"
        home, editor, packages = (lab.directory / name for name in ("home", "editor", "packages"))
        home.mkdir()
        packages.mkdir()
        editor.write_text(EDITOR)
        editor.chmod(0o700)
        python = host.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
        requirements = ROOT / "roles" / "wandb_launch" / "files" / "agent" / "requirements.txt"
        with (
            wandb_stand_in.running(address) as wandb,
            wandb_index.running(address, packages, requirements, python) as index,
        ):
            reader = {"HOME": str(home), "EDITOR": str(editor), "WANDB_BASE_URL": wandb.url}
            checkout = Checkout(lab.directory / "checkout", {**reader, "WANDB_ERROR_REPORTING": "false"}, host)
            checkout.fill()
            write_inventory(checkout.path, lab, host, **in_docker(lab, USER))
            mine = {
                "wandb_launch_base_url": wandb.url,
                "wandb_launch_index_url": index,
                "wandb_launch_agent_config": {"stopped_run_timeout": 5},
            }
            with (checkout.path / "my.ini").open("a") as file:
                file.write("".join(f"{name}={json.dumps(value)}\n" for name, value in mine.items()))
                file.write(f"[docker]\n{host.name}\n")
            yield Site(lab, host, Minikube(host), wandb, Guide(PAGE, checkout))
        assert wandb.unknown == []


def test_docker_gives_containers_the_gpus(site: Site) -> None:
    site.guide.through("pip install")
    # The page's limits for four jobs don't fit this machine, but minikube's default memory does.
    settings = site.guide.checkout.path / "group_vars" / "all.yml"
    site.guide.through("wandb_launch_queues")
    text = settings.read_text()
    sizes = {"cpu: 3\n": "cpu: 100m\n", "memory: 12Gi\n": "memory: 512Mi\n", "memory: 57344\n": "memory: 0\n"}
    for shown, used in sizes.items():
        assert text.count(shown) == 1
        text = text.replace(shown, used)
    settings.write_text(text)
    site.guide.through("kubernetes.docker")
    registry = str(site.host.variables["docker_check_image"]).partition("/")[0]
    for image, name in ((IMAGE, "sample"), (JOB_IMAGE, HELLO), (JOB_IMAGE, PICTURES)):
        site.host.run(f"docker pull --quiet {registry}/{image} && docker tag {registry}/{image} {name}", timeout=300)
    # The entry point of Ubuntu's image runs its arguments.
    change = """--change 'ENTRYPOINT ["env"]'"""
    site.host.run(f"docker create --name base sample && docker commit {change} base ubuntu && docker rm base")
    assert site.guide.through("docker run").output.count("Tesla T4") == 4


def test_minikube_gives_pods_the_gpus(site: Site) -> None:
    run = site.guide.through("kubernetes.minikube")
    assert "4 of 4 GPUs verified" in run.output
    for image in (HELLO, PICTURES):
        site.host.run(f"sudo -iu {USER} minikube image load {image}", timeout=300)


def test_the_cache_is_a_claim_on_nfs(site: Site) -> None:
    site.host.run(f"mkdir -p -m 777 {SHARED}/{SETTINGS['nfs_cache_server']}{SETTINGS['nfs_cache_path']}")
    site.guide.through("kubernetes.storage")
    claim = site.cluster.get("pvc", SETTINGS["nfs_cache_claim"])
    assert (claim["status"]["phase"], claim["spec"]["accessModes"]) == ("Bound", ["ReadWriteMany"])
    site.play("storage").expect_unchanged()
    site.play("storage", "--check", "--diff").expect_unchanged()


def test_check_mode_predicts_the_changes_and_a_second_run_changes_nothing(site: Site) -> None:
    predicted = site.guide.through("--check --diff")
    run = site.guide.through("kubernetes.wandb_launch")
    assert predicted.changed() == run.changed() != set()
    assert KEY not in predicted.output + run.output
    site.play("wandb_launch").expect_unchanged()
    site.play("wandb_launch", "--check", "--diff").expect_unchanged()
    site.guide.through("polling on queues")
    (agent,) = site.wandb.agents.values()
    assert (agent["config"]["queues"], agent["config"]["max_jobs"]) == ([QUEUE], SETTINGS["wandb_launch_max_jobs"])
    assert agent["config"]["builder"]["type"] == "docker"
    unit, environment = f"/etc/systemd/system/{UNIT}.service", f"/etc/{UNIT}/environment"
    assert site.host.run(f"stat -c '%a %U' {environment}").strip() == "600 root"
    assert "Restart=" in site.host.run(f"cat {unit}") and KEY not in site.host.run(f"systemctl cat {UNIT}")


def test_the_hello_job_of_the_tutorial_runs(site: Site) -> None:
    before = set(site.wandb.items)
    site.guide.through(HELLO)
    (item,) = (site.wandb.items[identity] for identity in set(site.wandb.items) - before)
    wait_for(lambda: item["state"] not in ("PENDING", "LEASED", "CLAIMED"), 180)
    assert (item["state"], item["message"]) == ("FINISHED", "")
    summary = site.wandb.runs[item["associatedRunId"]]["summary"]
    assert len(summary["gpus"]) == 1 and summary["images"] == 2 and not summary["cached"]


def test_later_jobs_use_the_cache(site: Site) -> None:
    before = set(site.wandb.items)
    site.guide.through("for number in")
    items = [site.wandb.items[identity] for identity in set(site.wandb.items) - before]
    assert len(items) == 5
    wait_for(lambda: all(item["state"] not in ("PENDING", "LEASED", "CLAIMED") for item in items), 300)
    assert {item["state"] for item in items} == {"FINISHED"}
    assert all(site.wandb.runs[item["associatedRunId"]]["summary"]["cached"] for item in items)


def test_a_run_outside_the_limits_of_the_queue_is_refused(site: Site) -> None:
    before = set(site.wandb.items)
    site.guide.through("gpus=5")
    assert set(site.wandb.items) == before


def test_four_jobs_run_on_four_gpus_while_a_fifth_waits(site: Site) -> None:
    items = [site.push(seconds=900) for _ in range(5)]
    pods: list[dict[str, Any]] = []

    def four_run() -> bool:
        pods[:] = site.runs(*items)
        return [pod["status"]["phase"] for pod in pods].count("Running") == 4 and len(pods) == 5

    wait_for(four_run, 240)
    (waiting,) = [pod for pod in pods if pod["status"]["phase"] == "Pending"]
    assert "Insufficient nvidia.com/gpu" in json.dumps(waiting["status"])
    running = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]

    def gpus() -> list[list[str]]:
        logs = [site.cluster.kubectl("logs", name).splitlines() for name in running]
        return [line.split()[1:] for log in logs for line in log if line.startswith("GPUs:")]

    wait_for(lambda: len(gpus()) == 4, 60)
    assert all(len(used) == 1 for used in gpus()) and len({used[0] for used in gpus()}) == 4
    run = site.guide.through("kubernetes.report")
    assert "4 running on 4 GPUs, 1 not running yet" in run.output
    canceled = next(item for item in items if site.runs(item)[0]["metadata"]["name"] == running[0])
    site.wandb.runs[canceled["associatedRunId"]]["stopped"] = True
    name = waiting["metadata"]["name"]
    site.cluster.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Running", "--timeout=120s")

    def all_end() -> bool:
        # A run that starts after it was stopped continues, so stop it again.
        for item in items:
            if run := site.wandb.runs.get(item["associatedRunId"]):
                run["stopped"] = True
        return site.runs(*items) == []

    wait_for(all_end, 180)


def build_job(site: Site, name: str, *steps: str) -> dict[str, Any]:
    """Launch a job of source code, whose image the agent builds on the host."""
    program = 'import wandb\nwith wandb.init() as run:\n    run.summary["built"] = 1\n'
    dockerfile = "\n".join([f"FROM {PICTURES}", "COPY main.py /main.py", *steps, ""])
    files = {"Dockerfile": dockerfile, "main.py": program}
    site.wandb.artifacts += source_job(ENTITY, "p", name, files, ["python3", "/main.py"])
    return wandb_jobs.push(site.wandb, KEY, job=f"{ENTITY}/p/{name}:v0", queue_name=QUEUE)


def test_the_agent_builds_an_image_with_the_hosts_docker(site: Site) -> None:
    item = build_job(site, "code", 'ENTRYPOINT ["python3", "/main.py"]')
    wait_for(lambda: item["state"] not in ("PENDING", "LEASED", "CLAIMED"), 300)
    assert (item["state"], item["message"]) == ("FINISHED", "")
    assert site.wandb.runs[item["associatedRunId"]]["summary"]["built"] == 1


def test_a_failed_build_shows_its_last_lines(site: Site) -> None:
    item = build_job(site, "broken", "RUN echo that is broken && exit 7")
    wait_for(lambda: bool(item["state"] == "FAILED"), 120)
    assert "that is broken" in item["message"]
    assert "that is broken" in site.host.run(f"journalctl --unit {UNIT} | grep 'launch: build: '")


def test_verify_works_on_minikube(site: Site) -> None:
    assert "4 of 4 GPUs verified" in site.play("verify").expect_success().output


def test_gpus_of_minikubes_addon_are_not_shared(site: Site) -> None:
    run = site.play("share_gpus", "-e", '{"cluster_gpu_sharing": {"mode": "time_slicing", "replicas": 2}}')
    assert run.status != 0 and not run.changed()
    assert "minikube's addon offers them" in " ".join(run.failures().split())


def test_everything_runs_again_after_a_reboot(site: Site) -> None:
    boot = site.host.run("cat /proc/sys/kernel/random/boot_id")
    site.host.attempt("systemctl reboot")
    units = " && ".join(f"systemctl is-active --quiet {unit}" for unit in (f"minikube-{PROFILE}", UNIT))
    ready = f"cat /proc/sys/kernel/random/boot_id && {units} && sudo -iu {USER} kubectl get --raw=/readyz"

    def is_back() -> bool:
        now = site.host.attempt(ready, timeout=30)
        return now.returncode == 0 and now.stdout.split()[0] != boot.strip()

    wait_for(is_back, 400)
    item = site.push()
    wait_for(lambda: bool(item["state"] == "FINISHED"), 240)
    assert site.wandb.runs[item["associatedRunId"]]["summary"]["cached"]


def test_everything_is_removed(site: Site) -> None:
    site.guide.through("wandb_launch_state=absent")
    assert site.wandb.queues == {}
    left = site.host.run(f"ls -d /etc/{UNIT} /opt/{UNIT} /var/lib/{UNIT} 2>/dev/null || true; docker ps --all --quiet")
    assert left == ""
    assert site.guide.left() == []
