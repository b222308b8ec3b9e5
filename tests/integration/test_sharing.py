"""GPU sharing as declared: MIG mixed and single, back to whole GPUs, and refused declarations."""

from __future__ import annotations

import json
import time
from typing import Any

from conftest import Built
from support.cluster import gpu_pod
from support.hosts import Host
from support.play import Run, play

# The host with two A100, which support MIG.
NODE = "gpu2"
SMALL, LARGE, MIDDLE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb", "nvidia.com/mig-2g.10gb"
MIXED = {"mode": "mig", "layout": {"0": ["3g.20gb", "2g.10gb", "1g.5gb"], "1": "all-1g.5gb"}}


def share(built: Built, declared: dict[str, Any], *arguments: str, node: str = NODE) -> Run:
    """Run the playbook with a declaration for this host."""
    further = built.lab.directory / "sharing.yml"
    further.write_text(json.dumps({"all": {"hosts": {node: {"cluster_gpu_sharing": declared}}}}))
    return play(built.lab.path, "-i", str(further), *arguments, playbook="playbooks/share_gpus.yml")


def offered(built: Built, node: str = NODE) -> dict[str, int]:
    amounts = built.cluster.get("node", node)["status"]["allocatable"]
    return {name: int(amount) for name, amount in amounts.items() if name.startswith("nvidia.com/") and int(amount)}


def labels(built: Built) -> dict[str, str]:
    found: dict[str, str] = built.cluster.get("node", NODE)["metadata"]["labels"]
    return found


def proven(built: Built) -> dict[str, Any]:
    report = json.loads(built.lab.report.read_text())
    assert report["problems"] == []
    found: dict[str, Any] = report["hosts"][NODE]
    return found


def parts(built: Built) -> list[str]:
    listed = built.inventory.hosts[NODE].run("nvidia-smi -L").splitlines()
    return sorted(line.split()[1] for line in listed if line.startswith("  MIG "))


def wait_for_boot(host: Host, former: str) -> None:
    """Wait until the host has rebooted, which waits for its pods, and its unit has partitioned the GPUs."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        now = host.attempt("cat /proc/sys/kernel/random/boot_id && systemctl is-active gpulab-mig", timeout=30)
        if now.returncode == 0 and now.stdout.split()[0] != former:
            return
        time.sleep(1)
    raise AssertionError(f"{host.name} is not back, or its GPUs are not cut: {now.stdout}{now.stderr}")


def test_impossible_declarations_are_refused_before_anything_changes(built: Built) -> None:
    before = offered(built)
    for declared, words in (
        ({"mode": "mps", "replicas": 2, "layout": "all-1g.5gb"}, "MPS shares whole GPUs only"),
        ({"mode": "time_slicing", "replicas": 1}, "needs a number of at least 2"),
        ({"mode": "mig", "layout": "all-9g.5gb"}, "it has no profile 9g.5gb"),
        ({"mode": "mig", "layout": ["4g.20gb", "4g.20gb"]}, "do not fit on it together"),
    ):
        run = share(built, declared)
        assert run.status != 0
        assert words in run.failures()
        assert not run.changed()
    run = share(built, {"mode": "mig", "layout": "all-1g.5gb"}, node="gpu1")
    assert run.status != 0
    assert "Turing GPUs can't be" in run.failures()
    assert offered(built) == before


def test_pods_with_gpus_are_not_interrupted(built: Built) -> None:
    built.cluster.start_gpu_pod("tenant", 1, NODE)
    run = share(built, MIXED)
    assert run.status != 0
    assert "default/tenant" in run.failures()
    assert offered(built) == {"nvidia.com/gpu": 2}
    assert parts(built) == []
    built.cluster.delete_pod("tenant")


def test_check_mode_shows_the_resources_before_and_after(built: Built) -> None:
    run = share(built, {"mode": "mig", "layout": "all-1g.5gb"}, "--check", "--diff").expect_success()
    assert f"{NODE} nvidia.com/gpu 2 -> {SMALL} 14" in run.output
    assert offered(built) == {"nvidia.com/gpu": 2}


def test_mig_with_the_mixed_strategy_works(built: Built) -> None:
    share(built, MIXED).expect_success()
    assert offered(built) == {SMALL: 8, MIDDLE: 1, LARGE: 1}
    assert parts(built) == ["1g.5gb"] * 8 + ["2g.10gb", "3g.20gb"]
    assert labels(built)["nvidia.com/mig.strategy"] == "mixed"
    assert labels(built)["nvidia.com/mig-1g.5gb.count"] == "8"
    found = proven(built)
    assert (found["gpus"]["proven"], found["gpus"]["nvidia_smi"]) == (10, 2)


def test_a_second_run_changes_nothing(built: Built) -> None:
    share(built, MIXED).expect_unchanged()


def test_a_pod_sees_only_its_mig_device(built: Built) -> None:
    pod = gpu_pod("part", 1, NODE)
    pod["spec"]["containers"][0]["resources"] = {"limits": {LARGE: 1}}
    built.cluster.apply(pod)
    built.cluster.kubectl("wait", "pod/part", "--for=condition=Ready", "--timeout=120s")
    listed = built.cluster.kubectl("exec", "part", "--", "nvidia-smi", "-L").splitlines()
    built.cluster.delete_pod("part")
    assert [line.split()[:2] for line in listed if line.startswith("  MIG ")] == [["MIG", "3g.20gb"]]
    assert len([line for line in listed if line.startswith("GPU ")]) == 1


def test_mig_devices_exist_again_after_a_reboot(built: Built) -> None:
    host = built.inventory.hosts[NODE]
    before = host.run("nvidia-smi -L | sort")
    boot = host.run("cat /proc/sys/kernel/random/boot_id")
    host.attempt("systemctl reboot")
    wait_for_boot(host, boot.strip())
    assert host.run("nvidia-smi -L | sort") == before
    share(built, MIXED).expect_success()
    assert proven(built)["gpus"]["proven"] == 10


def test_mig_with_the_single_strategy_works(built: Built) -> None:
    share(built, {"mode": "mig", "layout": "all-2g.10gb", "strategy": "single"}).expect_success()
    assert offered(built) == {"nvidia.com/gpu": 6}
    assert labels(built)["nvidia.com/gpu.product"].endswith("-MIG-2g.10gb")
    assert proven(built)["gpus"]["proven"] == 6


def test_partitions_are_removed_for_whole_gpus(built: Built) -> None:
    share(built, {"mode": "exclusive"}).expect_success()
    assert offered(built) == {"nvidia.com/gpu": 2}
    assert parts(built) == []
    assert proven(built)["gpus"]["proven"] == 2
    play(built.lab.path).expect_unchanged()
