"""A GPU pod keeps its GPU whatever changes on its node, and drift is found and fixed."""

from __future__ import annotations

import json
import time

from conftest import Built
from support.cluster import gpu_deployment, gpu_pod
from support.play import play

# Error codes when a pod opens its device node: ENXIO if allowed, because no driver here serves major number 195; EPERM
# if the device was taken away.
OPEN = 'set -- /dev/nvidia[0-9]*; (exec 3<"$1") 2>&1 || true'
DROP_IN = "/etc/containerd/conf.d/50-nvidia.toml"


def opened(built: Built, pod: str) -> str:
    """Return the error that a pod gets when it opens the device node of its first GPU."""
    said: str = built.cluster.kubectl("exec", pod, "--", "/bin/sh", "-c", OPEN)
    return said


def test_a_pod_without_a_gpu_cannot_open_gpu_devices(built: Built) -> None:
    stranger = gpu_pod("stranger", 0, "gpu2")
    (container,) = stranger["spec"]["containers"]
    del container["env"]
    container["volumeMounts"] = [{"name": "device", "mountPath": "/dev/nvidia0"}]
    stranger["spec"]["volumes"] = [{"name": "device", "hostPath": {"path": "/dev/nvidia0"}}]
    built.cluster.apply(stranger)
    built.cluster.kubectl("wait", "pod/stranger", "--for=condition=Ready", "--timeout=120s")
    said = opened(built, "stranger")
    built.cluster.delete_pod("stranger")
    assert "Operation not permitted" in said


def test_a_pod_keeps_its_gpu_through_everything_but_a_containerd_change(built: Built) -> None:
    pod = built.cluster.start_gpu_pod("keeper", 1, "gpu2")
    try:
        before = opened(built, "keeper")
        assert "No such device" in before, before
        play(built.lab.path).expect_unchanged()
        host = built.inventory.hosts["gpu2"]
        host.run("apt-get install -q -y --reinstall --allow-change-held-packages kubelet", timeout=300)
        host.run("systemctl daemon-reload")
        time.sleep(5)
        assert opened(built, "keeper") == before
        now = built.cluster.get("pod", "keeper")
        assert now["metadata"]["uid"] == pod["metadata"]["uid"]
        assert now["status"]["containerStatuses"][0]["restartCount"] == 0
        host.run(f"echo '# by hand' >>{DROP_IN}")
        run = play(built.lab.path)
        assert run.status != 0 and "default/keeper" in run.failures()
        assert opened(built, "keeper") == before
    finally:
        built.cluster.delete_pod("keeper")


def test_a_drained_pod_ends_and_its_replacement_runs(built: Built) -> None:
    built.cluster.apply(*gpu_deployment("train"))
    before = built.cluster.pod_of("train")
    node = before["spec"]["nodeName"]
    built.inventory.hosts[node].run(f"echo '# by hand' >>{DROP_IN}")
    play(built.lab.path, "-e", "cluster_disruption_policy=drain").expect_success()
    after = built.cluster.pod_of("train")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert "No such device" in opened(built, after["metadata"]["name"])
    assert not built.cluster.get("node", node)["spec"].get("unschedulable")
    play(built.lab.path).expect_success()
    assert built.cluster.pod_of("train")["metadata"]["uid"] == after["metadata"]["uid"]
    built.cluster.kubectl("delete", "deployment", "train", "--wait")
    # The GPU that it held can be verified now.
    play(built.lab.path).expect_success()


def test_drift_is_reported_with_hosts_and_an_exit_status(built: Built) -> None:
    host = built.inventory.hosts["gpu1"]
    verify = "playbooks/verify.yml"
    play(built.lab.path, playbook=verify).expect_success()
    report = built.lab.report.with_name("gpulab-drift-report.json")
    assert json.loads(report.read_text())["drift"] == []
    host.run(f"echo '# by hand' >>{DROP_IN}; apt-mark unhold nvidia-container-toolkit")
    run = play(built.lab.path, playbook=verify)
    assert run.status != 0
    rows = json.loads(report.read_text())["drift"]
    assert {(row["host"], row["component"]) for row in rows} == {
        ("gpu1", DROP_IN),
        ("gpu1", "nvidia-container-toolkit"),
    }
    play(built.lab.path).expect_success()
    assert "# by hand" in host.run(f"cat {DROP_IN}.replaced-gpulab")
    play(built.lab.path, playbook=verify).expect_success()
