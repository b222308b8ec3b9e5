"""minikube in a Docker container that gets the GPUs by --gpus, for a user who is not root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster
from support.hosts import ROOT, Host
from support.lab import Lab, lab_command, running
from support.minikube import SHARED, in_docker, minikube, write_inventory

USER = "ada"
SERVER, EXPORT = "192.0.2.1", "/srv/gpulab"


class Minikube(Cluster):
    """The cluster in minikube's container, as the user who owns the profile reaches it."""

    def kubectl(self, *arguments: str, timeout: float = 180) -> str:
        return self.control_plane.run(f"sudo -iu {USER} kubectl {' '.join(arguments)}", timeout)

    def apply(self, *manifests: dict[str, object]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.control_plane.run(f"sudo -iu {USER} kubectl apply --filename - <<'END'\n{text}\nEND")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--with", "docker", "--with", "minikube", "--with", "kicbase")
    with running("minikube-docker", ROOT / "lab" / "specs" / "minikube.yml") as lab:
        yield lab


@pytest.fixture(scope="module")
def host(lab: Lab) -> Host:
    host = next(iter(lab.inventory().hosts.values()))
    host.run(f"id {USER} || useradd --create-home --shell /bin/bash {USER}")
    return host


@pytest.fixture(scope="module")
def inventory(lab: Lab, host: Host, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inventory(tmp_path_factory.mktemp("minikube"), lab, host, **in_docker(lab, USER))


@pytest.fixture(scope="module")
def cluster(host: Host) -> Cluster:
    return Minikube(host)


def test_check_mode_predicts_the_cluster_and_changes_nothing(inventory: Path, host: Host) -> None:
    run = minikube(inventory, "--check", "--diff").expect_success()
    changed = {task.rpartition(" : ")[2] for task in run.changed_tasks()}
    assert {"Install minikube", "Make the profile what is declared"} <= changed
    assert host.run("command -v minikube kubectl docker containerd || true").strip() == ""


@pytest.mark.parametrize("gpus", ["all", "nvidia.com"])
def test_gpus_with_another_runtime_are_refused_before_anything_changes(inventory: Path, gpus: str) -> None:
    run = minikube(inventory, container_runtime="containerd", gpus=gpus)
    assert run.status != 0 and run.changed() == set()
    assert f"minikube refuses --gpus={gpus} with the driver docker and the runtime containerd" in run.failures()
    assert "Nothing was changed" in run.failures()


def given(host: Host) -> str:
    """Docker's device requests for minikube's container."""
    return host.run("docker inspect --format '{{json .HostConfig.DeviceRequests}}' minikube")


def test_every_gpu_is_verified(inventory: Path, host: Host, cluster: Cluster) -> None:
    run = minikube(inventory).expect_success()
    assert "4 of 4 GPUs verified" in run.output
    assert "Service ok, DNS ok" in run.output and "a pod that requests no GPUs sees some on minikube" in run.output
    assert cluster.allocatable_gpus() == {"minikube": 4}
    totals = json.loads((inventory.parent / "gpulab-report.json").read_text())["totals"]
    assert (totals["gpus"], totals["proven"]) == (4, 4)
    assert json.loads(given(host))[0]["Count"] == -1
    assert cluster.get("pods", "--namespace=kube-system", "--selector=name=nvidia-device-plugin-ds")["items"]


def test_a_second_run_changes_nothing(inventory: Path) -> None:
    minikube(inventory).expect_unchanged()
    minikube(inventory, "--check", "--diff").expect_unchanged()


def test_the_other_name_for_all_gpus_is_not_a_change(inventory: Path) -> None:
    minikube(inventory, gpus="nvidia").expect_unchanged()


def test_an_image_of_the_host_can_be_loaded_into_minikube(inventory: Path, host: Host, cluster: Cluster) -> None:
    (known,) = {
        line for line in host.run("docker images --format '{{.Repository}}:{{.Tag}}'").split() if "cuda" in line
    }
    # A new image: the kubelet does not let pods use an image that it has pulled under another name.
    build = f'docker create --name built {known} && docker commit --change "LABEL built=here" built built/here:1'
    load = f"{build} && docker rm built && minikube image load built/here:1"
    host.run(f"sudo -iu {USER} bash -c '{load}'", timeout=300)
    pod = "kubectl run built --image=built/here:1 --image-pull-policy=Never --restart=Never --command -- sh -c exit"
    host.run(f"sudo -iu {USER} {pod}")
    cluster.kubectl("wait", "pod/built", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    cluster.delete_pod("built")


def volume_pod(name: str, command: str) -> dict[str, object]:
    """The kubelet in minikube's container mounts the NFS export for a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": name,
                    "image": "registry.k8s.io/e2e-test-images/agnhost:2.63.0",
                    "command": ["sh", "-c", command],
                    "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
                }
            ],
            "volumes": [{"name": "cache", "nfs": {"server": SERVER, "path": EXPORT}}],
        },
    }


def test_pods_use_volumes_of_an_nfs_server(host: Host, cluster: Cluster) -> None:
    host.run(f"mkdir -p {SHARED}/{SERVER}{EXPORT}")
    for name, command in (("writer", "echo written >/cache/file"), ("reader", "grep written /cache/file")):
        cluster.apply(volume_pod(name, command))
        cluster.kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
        cluster.delete_pod(name)
    assert host.run(f"cat {SHARED}/{SERVER}{EXPORT}/file").strip() == "written"


def test_a_change_of_gpus_is_refused_with_what_would_be_deleted(inventory: Path, cluster: Cluster) -> None:
    cluster.start_gpu_pod("notebook", 1)
    run = minikube(inventory, gpus="nvidia.com")
    assert run.status != 0 and run.changed() == set()
    for words in ("gpus from all to nvidia.com", "default/notebook", "Nothing was changed"):
        assert words in run.failures()
    cluster.delete_pod("notebook")


def test_the_unit_stops_and_starts_the_cluster(inventory: Path, host: Host, cluster: Cluster) -> None:
    assert minikube(inventory, state="stopped").expect_success().changed()
    assert host.run("docker inspect --format '{{.State.Status}}' minikube").strip() == "exited"
    minikube(inventory, state="stopped").expect_unchanged()
    host.run("systemctl restart minikube-minikube", timeout=300)
    cluster.kubectl("wait", "node/minikube", "--for=condition=Ready", "--timeout=60s")
    assert "4 of 4 GPUs verified" in minikube(inventory).expect_success().output


def test_the_cluster_is_only_deleted_by_its_name(inventory: Path, host: Host) -> None:
    run = minikube(inventory, state="absent")
    assert run.status != 0 and run.changed() == set() and "-e minikube_delete=minikube" in run.failures()
    minikube(inventory, state="absent", delete="minikube").expect_success()
    for kind in ("ps --all", "volume ls", "network ls"):
        assert "minikube" not in host.run(f"docker {kind}"), kind
    assert host.run("systemctl is-active docker").strip() == "active"
    minikube(inventory, state="absent", delete="minikube").expect_unchanged()
    # minikube leaves a kubeconfig without a context.
    minikube(inventory, "--check").expect_success()


def test_every_gpu_is_verified_in_the_other_gpu_mode(inventory: Path, host: Host) -> None:
    run = minikube(inventory, gpus="nvidia.com").expect_success()
    assert "4 of 4 GPUs verified" in run.output
    assert json.loads(given(host))[0]["Driver"] == "cdi"
