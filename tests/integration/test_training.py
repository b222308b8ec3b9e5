"""A training over two nodes with two processes each, on PyTorch and gloo: its result, and its failures."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster
from support.hosts import ROOT, Inventory
from support.lab import Lab, lab_command, running
from support.play import Run, environment, execute, play

SPEC = ROOT / "tests" / "integration" / "specs" / "training.yml"
EXAMPLES = ROOT / "examples" / "training"
KEPT = "/var/lib/torch-ddp"
# Long enough to be interrupted: 96 steps of a third of a second.
SLOW = ["--epochs", "3", "--step-delay", "0.3", "--checkpoint-every", "4"]
STEPS = 96


@dataclass(frozen=True)
class Site:
    """A cluster that can run trainings."""

    lab: Lab
    inventory: Inventory
    cluster: Cluster
    built: Run

    def train(self, name: str, **settings: Any) -> Run:
        return play(self.lab.path, "-e", self.variables(name, settings), playbook="playbooks/train.yml")

    def variables(self, name: str, settings: dict[str, Any]) -> str:
        own = {key if key == "cluster_kubeconfig" else f"torch_ddp_{key}": value for key, value in settings.items()}
        return json.dumps({"torch_ddp_name": name, "torch_ddp_summary": str(self.file(name)), **own})

    def file(self, name: str) -> Path:
        return self.lab.directory / f"{name}.json"

    def summary(self, name: str) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.file(name).read_text())
        return read

    def left(self, name: str = "") -> list[str]:
        """Return the objects of any training, or of one, that are in the cluster."""
        kinds = "jobs,pods,services,configmaps"
        selector = "app.kubernetes.io/part-of=training" + (f",app.kubernetes.io/instance={name}" if name else "")
        return self.cluster.kubectl("get", kinds, "--selector", selector, "--output", "name").split()

    def step(self, name: str) -> int:
        """Return the newest step for which every node has a checkpoint."""
        steps = []
        for host in self.inventory.workers:
            names = host.run(f"ls {KEPT}/{name} 2>/dev/null || true").split()
            steps.append({int(file.split(".")[0].removeprefix("step-")) for file in names if file.startswith("step-")})
        return max(set.intersection(*steps), default=0)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    lab_command("build", "--with", "torch")
    with running("training", SPEC) as lab:
        built = play(lab.path).expect_success()
        inventory = lab.inventory()
        yield Site(lab, inventory, Cluster.of(inventory), built)


@pytest.fixture(autouse=True)
def nothing_left(site: Site) -> Iterator[None]:
    """Assert after each test that the play has cleaned up."""
    yield
    assert site.left() == []


def until(good: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(1)


def next_commands(run: Run) -> list[str]:
    """Return the commands after "Next:" with their comments, the last lines of the run."""
    _before, heading, after = run.output.rpartition("\nNext:\n")
    assert heading, run.tail()
    return [line.strip() for line in after.splitlines() if line.startswith("  ")]


def run_as_printed(site: Site, command: str, events: Path) -> Run:
    """Run a command with a shell: kubectl where the line says that it works, playbooks in the checkout."""
    if command.startswith("sudo kubectl"):
        return Run(0, site.inventory.control_plane.run(command))
    return execute(["bash", "-c", command], ROOT, {**os.environ, **environment(events)}, events, 1500)


@pytest.mark.parametrize(("held", "nodes", "gpus"), [(0, 2, 2), (2, 1, 2)])
def test_each_next_command_succeeds_as_printed(site: Site, tmp_path: Path, held: int, nodes: int, gpus: int) -> None:
    """With two nodes of two GPUs each, and with free GPUs on only one node."""
    for host in site.inventory.workers:
        host.run(f"rm -rf {KEPT}/torch-ddp")
    if held:
        site.cluster.start_gpu_pod("notebook", held, "gpu1")
    try:
        run = play(site.lab.path, "-e", "acceptance_force=true").expect_success() if held else site.built
        kubectl, train, verify = next_commands(run)
        given = f"-i {site.lab.path.relative_to(ROOT)}"
        assert train == (
            f"ansible-playbook gpulab.kubernetes.train {given} -e torch_ddp_nodes={nodes} "
            f"-e torch_ddp_gpus_per_node={gpus}   # train on {nodes * gpus} GPUs, see docs/training.md"
        )
        assert verify.startswith(f"ansible-playbook gpulab.kubernetes.verify {given}   #")
        assert "gpu1" in run_as_printed(site, kubectl, tmp_path / "kubectl.jsonl").expect_success().output
        trained = run_as_printed(site, train, tmp_path / "train.jsonl").expect_success()
        assert f"{nodes * gpus} processes on {nodes} nodes" in trained.output
        run_as_printed(site, verify, tmp_path / "verify.jsonl").expect_success()
    finally:
        if held:
            site.cluster.delete_pod("notebook")


def test_two_nodes_get_the_result_of_one_process_and_a_second_run_resumes(site: Site) -> None:
    first = site.train("both", args=["--epochs", "3"]).expect_success()
    both = site.summary("both")
    assert (both["nodes"], both["processes"], both["backend"]) == (2, 4, "gloo")
    assert both["loss"][0] > both["loss"][1] > both["loss"][2]
    assert both["ranks_equal"] and len(set(both["rank_losses"])) == 1 and len(both["rank_losses"]) == 4
    assert all(each["bus_gb_per_s"] > 0 for each in both["all_reduce"])
    assert both["samples_per_s"] > 0
    # The log was printed during the training, the summary at the end.
    assert "both-0 | epoch 1/3 step 32 loss" in first.output
    assert str(both["rank_losses"][0]) in first.output

    site.train("single", args=["--epochs", "3"], nodes=1, gpus_per_node=1).expect_success()
    single = site.summary("single")
    assert single["processes"] == 1
    assert both["loss"] == pytest.approx(single["loss"], rel=1e-5)

    site.train("both", args=["--epochs", "4"]).expect_success()
    longer = site.summary("both")
    assert (longer["resumed_from"], longer["steps"]) == (STEPS, 128)
    assert longer["loss"][:3] == both["loss"]


@pytest.mark.parametrize("index", [0, 1])
def test_a_training_with_a_killed_pod_resumes_and_completes(site: Site, index: int) -> None:
    name = f"kill-{index}"
    with ThreadPoolExecutor() as pool:
        job: Future[Run] = pool.submit(site.train, name, args=SLOW)
        until(lambda: job.done() or site.step(name) >= 8)
        selector = f"batch.kubernetes.io/job-name={name},batch.kubernetes.io/job-completion-index={index}"
        site.cluster.kubectl("delete", "pod", "--selector", selector, "--force", "--grace-period=0")
        killed_at = site.step(name)
        job.result().expect_success()
    summary = site.summary(name)
    assert 8 <= summary["resumed_from"] < STEPS
    assert summary["resumed_from"] >= killed_at - 4
    assert summary["steps"] == STEPS
    assert summary["ranks_equal"] and summary["loss"][0] > summary["loss"][-1]


def test_a_broken_script_is_reported_with_its_last_lines(site: Site, tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text('print("loading the data", flush=True)\nraise ValueError("no data at /data")\n')
    run = site.train("broken", script=str(script), restarts=1)
    assert run.status != 0
    assert "the training failed: ValueError: no data at /data" in run.failures()
    assert "loading the data" in run.failures()
    assert run.output.count("attempt 2") == 1 and "attempt 3" not in run.output


def test_too_little_memory_is_reported(site: Site, tmp_path: Path) -> None:
    script = tmp_path / "hungry.py"
    script.write_text("kept = []\nwhile True:\n    kept.append(bytearray(32 * 2**20))\n")
    limits = {"limits": {"memory": "256Mi"}}
    run = site.train("hungry", script=str(script), resources=limits)
    assert run.status != 0
    assert "out of memory (OOMKilled), its limit is 256Mi (torch_ddp_resources)" in run.failures()


def test_a_missing_image_is_reported(site: Site) -> None:
    run = site.train("imageless", image="ghcr.io/gpulab/nothing:1")
    assert run.status != 0
    assert "image ghcr.io/gpulab/nothing:1 can't be pulled" in run.failures()


def test_more_gpus_than_exist_are_reported_before_anything_changes(site: Site) -> None:
    run = site.train("greedy", gpus_per_node=4)
    assert run.status != 0
    assert "0 of 2 nodes offer 4 GPUs (cp1 2 of 2; gpu1 2 of 2)" in run.failures()
    assert not run.changed()


def test_gpus_held_by_other_pods_are_reported(site: Site) -> None:
    site.cluster.start_gpu_pod("notebook", 1, "gpu1")
    try:
        run = site.train("queued", schedule_timeout=5)
    finally:
        site.cluster.delete_pod("notebook")
    assert run.status != 0
    assert "1 of 2 nodes have 2 GPUs free (cp1 2 of 2; gpu1 1 of 2, held by default/notebook)" in run.failures()


def test_nodes_have_the_labels_that_select_an_image(site: Site) -> None:
    labels = [node["metadata"]["labels"] for node in site.cluster.get("nodes")["items"]]
    assert {tuple(each[f"nvidia.com/gpu.compute.{part}"] for part in ("major", "minor")) for each in labels} == {
        ("7", "5"),
        ("8", "0"),
    }


def test_a_users_own_manifest_trains_with_torchrun_alone(site: Site) -> None:
    """A headless Service and an Indexed Job, applied with kubectl as in many tutorials."""
    lab_image = next(line for line in site.lab.path.read_text().splitlines() if line.startswith("torch_ddp_image="))
    service, job = yaml.safe_load((EXAMPLES / "job.yml").read_text())["items"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["image"] = lab_image.split("=", 1)[1].strip("'")
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "minimal-ddp"}}
    # Options from the lab's inventory: PyTorch 1.13 on Python 3.11 fails without them.
    container["command"][-1] = container["command"][-1].replace("torchrun ", "torchrun --redirects=9:1 --tee=9:1 ", 1)
    try:
        site.cluster.apply({**config, "data": {"minimal_ddp.py": (EXAMPLES / "minimal_ddp.py").read_text()}})
        site.cluster.apply(service, job)
        site.cluster.kubectl("wait", "job/minimal-ddp", "--for=condition=Complete", "--timeout=170s")
        selector = "batch.kubernetes.io/job-name=minimal-ddp"
        pods = site.cluster.get("pods", "--selector", selector, "--field-selector", "status.phase=Succeeded")["items"]
        logs = [site.cluster.kubectl("logs", pod["metadata"]["name"]) for pod in pods]
        assert sorted(line for log in logs for line in log.splitlines() if line.startswith("rank ")) == [
            f"rank {rank} of 2: gloo, cpu, all processes have the same parameters" for rank in (0, 1)
        ]
    finally:
        site.cluster.kubectl("delete", "--ignore-not-found", "service/minimal-ddp", "job/minimal-ddp", "cm/minimal-ddp")


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"requests": {"nvidia.com/gpu": 1}}, "Required value: Limit must be set for non overcommitable resources"),
        (
            {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
            'requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
        ),
        ({"limits": {"nvidia.com/gpu": "500m"}}, 'limits[nvidia.com/gpu]: Invalid value: "500m": must be an integer'),
    ],
    ids=["a request without a limit", "another limit than the request", "half a GPU"],
)
def test_the_api_rejects_gpu_requests_with_the_messages_of_the_guide(
    site: Site, resources: dict[str, Any], words: str
) -> None:
    container = {"name": "main", "image": "example.org/none", "resources": resources}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "odd"}, "spec": {"containers": [container]}}
    kubectl = "kubectl --kubeconfig /etc/kubernetes/admin.conf apply --filename -"
    refused = site.cluster.control_plane.attempt(f"printf %s {shlex.quote(json.dumps(pod))} | {kubectl}")
    assert refused.returncode != 0 and words in refused.stderr
    assert words in (ROOT / "docs" / "users.md").read_text()


def test_bad_input_is_one_clear_error(site: Site) -> None:
    for settings, words in (
        ({"script": "/nowhere/train.py"}, "/nowhere/train.py on the controller: it must be a file"),
        ({"checkpoints": {"hostPath": {"type": "Directory"}}}, "hostPath.path"),
        ({"namespace": "nowhere"}, 'namespaces "nowhere" not found'),
    ):
        run = site.train("wrong", **settings)
        assert run.status != 0
        assert words in run.failures()
        assert not run.changed()
        assert "Traceback" not in run.output


def test_an_interrupted_run_deletes_its_job(site: Site, tmp_path: Path) -> None:
    variables = site.variables("interrupted", {"args": SLOW})
    command = ["ansible-playbook", "playbooks/train.yml", "-i", str(site.lab.path), "-e", variables]
    environ = {**os.environ, **environment(tmp_path / "events")}
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=output, stderr=output, start_new_session=True)
    until(lambda: process.poll() is not None or bool(site.left("interrupted")))
    os.killpg(process.pid, signal.SIGINT)
    process.wait(180)
    until(lambda: not site.left("interrupted"), 60)
    assert "interrupted" in (tmp_path / "output").read_text()
