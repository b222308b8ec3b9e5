"""minikube on a machine with GPUs: predicted, verified, changed, rebooted, stopped, deleted.

Most steps are the commands of docs/one-machine.md, in the page's order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cluster import Cluster, gpu_deployment
from support.guides import Checkout, Guide
from support.hosts import ROOT, Host
from support.lab import Lab, lab_command, running
from support.minikube import minikube, write_inventory
from support.play import play

EXAMPLES = ROOT / "examples" / "one-machine"
# Replaces the lab's containerd_cri_settings: minikube writes its own value into config.toml instead of a drop-in.
DROP_IN = 'version = 3\n[plugins."io.containerd.cri.v1.runtime"]\nrestrict_oom_score_adj = true\n'
PASSWORD = "S3CRET-proxy-7c41e0"
PROXY = """
import http.server, shutil, sys, urllib.error, urllib.request

class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        request = urllib.request.Request(self.path, headers=headers, method=self.command)
        try:
            answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
        except urllib.error.HTTPError as error:
            answer = error
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        self.end_headers()
        shutil.copyfileobj(answer, self.wfile)

    do_HEAD = do_GET

http.server.ThreadingHTTPServer(("127.0.0.1", 3128), Proxy).serve_forever()
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--with", "minikube")
    with running("minikube", ROOT / "lab" / "specs" / "minikube.yml") as lab:
        yield lab


@pytest.fixture(scope="module")
def host(lab: Lab) -> Host:
    host = next(iter(lab.inventory().hosts.values()))
    host.run(f"mkdir -p /etc/containerd/conf.d && printf %s '{DROP_IN}' > /etc/containerd/conf.d/10-lab.toml")
    return host


@pytest.fixture(scope="module")
def guide(lab: Lab, host: Host) -> Guide:
    checkout = Checkout(lab.directory / "checkout", host=host)
    checkout.fill()
    return Guide("one-machine.md", checkout)


@pytest.fixture(scope="module")
def inventory(lab: Lab, host: Host, guide: Guide) -> Path:
    """The lab's host in the group minikube, and what the reader of the guide has."""
    return write_inventory(guide.checkout.path, lab, host, without="containerd_cri_settings")


@pytest.fixture(scope="module")
def cluster(host: Host) -> Cluster:
    return Cluster(host)


def wait_for_profile(host: Host, former: str) -> None:
    """Wait until the host has rebooted and its unit has started the profile."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        now = host.attempt("cat /proc/sys/kernel/random/boot_id && systemctl is-active minikube-minikube", timeout=30)
        if now.returncode == 0 and now.stdout.split()[0] != former.strip():
            return
        time.sleep(1)
    raise AssertionError(f"{host.name} is not back, or its profile is not: {now.stdout}{now.stderr}")


@pytest.mark.usefixtures("inventory")
def test_check_mode_predicts_the_cluster_and_changes_nothing(guide: Guide, host: Host) -> None:
    run = guide.through("--check --diff")
    changed = {task.rpartition(" : ")[2] for task in run.changed_tasks()}
    assert {"Install minikube", "Make the profile what is declared"} <= changed
    assert host.run("command -v minikube kubectl containerd || true").strip() == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gpus": "all"}, "minikube refuses --gpus=all with the driver none and the runtime containerd"),
        ({"gpus": "nvidia.com"}, "minikube refuses --gpus=nvidia.com"),
        ({"driver": "docker", "user": "root"}, "driver docker refuses root"),
        (
            {"driver": "docker", "container_runtime": "containerd", "gpus": "all"},
            "minikube refuses --gpus=all with the driver docker",
        ),
        ({"profile": "lab"}, "supports only the profile minikube"),
    ],
)
def test_settings_that_minikube_refuses_are_refused_before_anything_changes(
    inventory: Path, settings: dict[str, str], words: str
) -> None:
    run = minikube(inventory, **settings)
    assert run.status != 0 and run.changed() == set()
    assert words in run.failures() and "Nothing was changed" in run.failures()


def test_every_gpu_is_verified(inventory: Path, guide: Guide, host: Host, cluster: Cluster) -> None:
    run = guide.through("minikube -i my.ini")
    assert "4 of 4 GPUs verified" in run.output
    assert "Service ok, DNS ok" in run.output and "a pod that requests no GPUs sees none" in run.output
    assert cluster.allocatable_gpus() == {host.name: 4}
    totals = json.loads((inventory.parent / "gpulab-report.json").read_text())["totals"]
    assert (totals["gpus"], totals["proven"]) == (4, 4)
    assert "v1.38.1" in host.run("minikube version")
    assert cluster.get("node", host.name)["status"]["nodeInfo"]["kubeletVersion"] == "v1.35.1"


def test_minikube_uses_the_name_servers_of_systemd_resolved(host: Host) -> None:
    config = json.loads(host.run("cat /root/.minikube/profiles/minikube/config.json"))["KubernetesConfig"]
    found = {one["Key"]: one["Value"] for one in config["ExtraOptions"]}
    assert found["resolv-conf"] == "/run/systemd/resolve/resolv.conf"


def test_a_second_run_changes_nothing(inventory: Path) -> None:
    minikube(inventory).expect_unchanged()
    minikube(inventory, "--check", "--diff").expect_unchanged()


def test_a_kubernetes_version_unknown_to_minikube_is_a_warning(inventory: Path) -> None:
    run = minikube(inventory, "--check", "--diff", kubernetes_version="1.36.4").expect_success()
    assert "minikube 1.38.1 knows Kubernetes up to 1.35.1, not 1.36.4" in run.output
    assert "kubernetes_version from 1.35.1 to 1.36.4" in run.output


def test_the_manifests_of_the_guide_are_accepted(host: Host, guide: Guide, cluster: Cluster) -> None:
    home = host.run(f"echo ~{host.variables['ansible_user']}").strip()
    for name in ("gpu-pod.yml", "notebook.yml"):
        host.run(f"cat > {home}/{name} <<'END'\n{(EXAMPLES / name).read_text()}\nEND")
    guide.through("gpu-pod.yml")
    cluster.delete_pod("vectoradd")
    host.run(f"kubectl apply --dry-run=server -f {home}/notebook.yml")


def test_settings_that_cannot_be_changed_are_refused_with_what_would_be_deleted(
    inventory: Path, cluster: Cluster
) -> None:
    cluster.start_gpu_pod("notebook", 1)
    run = minikube(inventory, image_repository="mirror.example")
    assert run.status != 0 and run.changed() == set()
    for words in ("image_repository from nothing to mirror.example", "default/notebook", "Nothing was changed"):
        assert words in run.failures()
    assert cluster.get("pod", "notebook")["status"]["phase"] == "Running"


def test_settings_that_can_be_changed_are_changed_and_the_pod_keeps_running(inventory: Path, cluster: Cluster) -> None:
    before = cluster.get("pod", "notebook")["metadata"]["uid"]
    assert minikube(inventory, addons=[]).expect_success().changed()
    assert cluster.get("storageclasses")["items"] == []
    run = minikube(inventory).expect_success()
    assert {task.rpartition(" : ")[2] for task in run.changed_tasks()} == {"Make the profile what is declared"}
    assert cluster.get("pod", "notebook")["metadata"]["uid"] == before


def test_playbooks_for_clusters_work_with_minikube(inventory: Path, host: Host, cluster: Cluster) -> None:
    """Sharing needs the lease and the API; report and verify read the result."""
    cluster.delete_pod("notebook")
    for sharing, offered in (({"mode": "time_slicing", "replicas": 2}, 8), ({"mode": "exclusive"}, 4)):
        values = ("-e", json.dumps({"cluster_gpu_sharing": sharing}))
        run = play(inventory, *values, playbook="playbooks/share_gpus.yml").expect_success()
        assert run.changed() and "4 of 4 GPUs verified" in run.output
        assert cluster.allocatable_gpus() == {host.name: offered}
        play(inventory, *values, playbook="playbooks/share_gpus.yml").expect_unchanged()
    assert "4 of 4 GPUs verified" in play(inventory, playbook="playbooks/verify.yml").expect_success().output
    play(inventory, playbook="playbooks/report.yml").expect_success()
    totals = json.loads((inventory.parent / "gpulab-report.json").read_text())["totals"]
    assert (totals["gpus"], totals["proven"]) == (4, 4)


def test_the_cluster_runs_again_after_a_reboot(inventory: Path, host: Host, cluster: Cluster) -> None:
    # A plain GPU pod is rejected while the device plugin is still starting, and nothing re-creates it.
    cluster.delete_pod("notebook")
    cluster.apply(*gpu_deployment("notebook"))
    cluster.kubectl("rollout", "status", "deployment/notebook", "--timeout=60s")
    boot = host.run("cat /proc/sys/kernel/random/boot_id")
    host.attempt("systemctl reboot")
    wait_for_profile(host, boot)
    cluster.kubectl("rollout", "status", "deployment/notebook", "--timeout=120s")
    cluster.kubectl("delete", "deployment/notebook", "--timeout=60s")
    run = minikube(inventory).expect_success()
    assert "4 of 4 GPUs verified" in run.output


def test_the_cluster_is_stopped_and_started(inventory: Path, guide: Guide, host: Host) -> None:
    assert guide.through("minikube_state=stopped").changed()
    assert host.run("systemctl is-active kubelet || true").strip() == "inactive"
    minikube(inventory, state="stopped").expect_unchanged()
    assert "4 of 4 GPUs verified" in guide.through("minikube -i my.ini").output


def test_the_cluster_is_only_deleted_by_its_name(inventory: Path, guide: Guide, host: Host) -> None:
    run = minikube(inventory, state="absent")
    assert run.status != 0 and run.changed() == set() and "-e minikube_delete=minikube" in run.failures()
    run = guide.through("minikube_delete=minikube")
    assert "nvidia-device-plugin/nvidia-device-plugin-" in run.output
    for path in (
        "usr/local/bin/minikube",
        "etc/kubernetes/manifests",
        "var/lib/minikube",
        "etc/cni/net.d/1-k8s.conflist",
        "etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
        "sys/class/net/bridge",
    ):
        host.run(f"test ! -e /{path}")
    assert host.run("systemctl is-active containerd").strip() == "active"
    minikube(inventory, state="absent", delete="minikube").expect_unchanged()
    assert guide.left() == []


def test_downloads_the_start_and_the_unit_use_the_proxy(inventory: Path, host: Host) -> None:
    host.run(f"cat > /root/proxy.py <<'END'\n{PROXY}\nEND")
    host.run("systemd-run --unit=lab-proxy --property=StandardError=file:/root/proxy.log python3 /root/proxy.py")
    host.run("rm -rf /root/.minikube/cache")
    proxied = ("--extra-vars", json.dumps({"cluster_http_proxy": f"http://ci:{PASSWORD}@127.0.0.1:3128"}))
    run = minikube(inventory, *proxied).expect_success()
    assert PASSWORD not in run.output
    log = host.run("cat /root/proxy.log")
    for name in ("minikube-linux-amd64", "kubeadm", "kubelet"):
        assert f"/{name} HTTP/1.1" in log, name
    file = "/etc/systemd/system/minikube-minikube.service.d/50-gpulab-proxy.env"
    assert host.run(f"stat --format='%a %U' {file}").strip() == "600 root"
    text = host.run(f"cat {file}")
    assert PASSWORD in text and "192.168.49.0/24" in text and "10.96.0.0/12" in text
    assert PASSWORD not in host.run("systemctl show minikube-minikube; systemctl cat minikube-minikube")
    minikube(inventory, *proxied).expect_unchanged()
    host.run("systemctl restart minikube-minikube", timeout=300)
    assert minikube(inventory).expect_success().changed()
    host.run(f"test ! -e {file}")
