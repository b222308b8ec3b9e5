"""Docker Engine on a machine without a cluster: predicted, installed, changed with a running container, removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.hosts import ROOT, Host
from support.lab import Lab, lab_command, running
from support.play import Run, play

PLAYBOOK = "playbooks/docker.yml"
VERSION = "29.8.2"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--with", "docker")
    with running("docker", ROOT / "lab" / "specs" / "single.yml") as lab:
        yield lab


@pytest.fixture(scope="module")
def inventory(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's host in the group docker only."""
    text = lab.path.read_text()
    host = next(line for line in text.splitlines() if line.startswith("solo "))
    path = tmp_path_factory.mktemp("docker") / "docker.ini"
    path.write_text(f"[docker]\n{host}\n\n{text[text.index('[all:vars]') :]}")
    return path


@pytest.fixture(scope="module")
def host(lab: Lab) -> Host:
    return next(iter(lab.inventory().hosts.values()))


@pytest.fixture(scope="module")
def image(lab: Lab) -> str:
    line = next(line for line in lab.path.read_text().splitlines() if line.startswith("docker_check_image="))
    return line.split("=", 1)[1].strip("'")


def docker(inventory: Path, *arguments: str, **settings: object) -> Run:
    extra = json.dumps({f"docker_{name}": value for name, value in settings.items()})
    return play(inventory, "--extra-vars", extra, *arguments, playbook=PLAYBOOK)


def since(host: Host) -> str:
    return host.run("systemctl show --value --property=InvocationID docker").strip()


def test_check_mode_predicts_docker_and_changes_nothing(inventory: Path, host: Host) -> None:
    run = docker(inventory, "--check", "--diff").expect_success()
    assert "Configure and install Docker" in {task.rpartition(" : ")[2] for task in run.changed_tasks()}
    assert host.run("command -v docker || true").strip() == ""
    assert host.run("ls /etc/docker 2>/dev/null || true").strip() == ""


def test_a_rootless_docker_is_refused(inventory: Path, host: Host) -> None:
    unit = ".config/systemd/user/docker.service"
    host.run(f"mkdir -p ~/{unit.rpartition('/')[0]} && touch ~/{unit}")
    run = docker(inventory)
    assert run.status != 0 and run.changed() == set()
    assert "has a rootless Docker" in run.failures() and "dockerd-rootless-setuptool.sh uninstall" in run.failures()
    host.run(f"rm ~/{unit}")


def test_docker_gives_containers_every_gpu(inventory: Path, host: Host, image: str) -> None:
    run = docker(inventory).expect_success()
    assert "Docker hands out 2 of 2 GPUs" in run.output and "simulated" in run.output
    assert host.run("sudo docker version --format '{{.Server.Version}}'").strip() == VERSION
    assert {"docker-ce", "docker-ce-cli"} <= set(host.run("apt-mark showhold").split())
    uuid = host.run("nvidia-smi -L").split("UUID: ")[2].split(")")[0]
    for request in (f"--gpus device={uuid}", f"--device nvidia.com/gpu={uuid}"):
        seen = host.run(f"sudo docker run --rm {request} --entrypoint nvidia-smi {image} -L")
        assert uuid in seen and len(seen.splitlines()) == 1, request


def test_a_second_run_changes_and_restarts_nothing(inventory: Path, host: Host) -> None:
    before = since(host)
    docker(inventory).expect_unchanged()
    docker(inventory, "--check", "--diff").expect_unchanged()
    assert since(host) == before


def test_a_user_of_the_group_docker_builds_images_without_sudo(inventory: Path, host: Host, image: str) -> None:
    user = host.variables["ansible_user"]
    docker(inventory, users=[user], verify=False).expect_success()
    docker(inventory, users=[user], verify=False).expect_unchanged()
    host.run(f"mkdir -p /tmp/own && printf 'FROM {image}\\nRUN echo built >/built\\n' >/tmp/own/Dockerfile")
    mine = f"runuser --user={user} -- docker"
    host.run(f"{mine} build --network=none --tag=own /tmp/own")
    assert host.run(f"{mine} run --rm --network=none --entrypoint=/bin/cat own /built").strip() == "built"
    assert "v0.37.1" in host.run(f"{mine} buildx version") and "v5.6.0" in host.run(f"{mine} compose version")


def test_nvidia_visible_devices_is_honored_only_on_request(inventory: Path, host: Host, image: str) -> None:
    asked = "--runtime=nvidia --env=NVIDIA_VISIBLE_DEVICES=1"
    listed = f"sudo docker run --rm {asked} --network=none --entrypoint=/bin/sh {image} -c 'nvidia-smi -L || true'"
    docker(inventory, gpus="runtime", verify=False).expect_success()
    assert "UUID" not in host.run(listed)
    docker(inventory, gpus="runtime", honor_visible_devices=True).expect_success()
    assert host.run(listed).count("UUID") == 1
    docker(inventory, gpus="runtime", honor_visible_devices=True, verify=False).expect_unchanged()
    docker(inventory, gpus="runtime", verify=False).expect_success()
    assert "UUID" not in host.run(listed)


def test_settings_that_a_reload_applies_cause_no_restart(inventory: Path, host: Host) -> None:
    before = since(host)
    mirror = {"registry_mirrors": ["https://mirror.example"], "gpus": "runtime", "verify": False}
    assert docker(inventory, **mirror).expect_success().changed()
    assert since(host) == before
    said = json.loads(host.run("sudo docker info --format '{{json .}}'"))
    assert said["RegistryConfig"]["Mirrors"] == ["https://mirror.example/"]
    assert "nvidia" in said["Runtimes"]


def test_a_restart_that_would_end_containers_is_refused_with_their_names(
    inventory: Path, host: Host, image: str
) -> None:
    host.run(f"sudo docker run --detach --name notebook --network none --entrypoint sleep {image} infinity")
    before = since(host)
    limits = {"log_options": {"max-size": "10m"}, "verify": False}
    run = docker(inventory, **limits)
    assert run.status != 0 and "running containers notebook (" in run.failures()
    assert since(host) == before and "10m" not in host.run("cat /etc/docker/daemon.json")
    docker(inventory, **limits, disruption_policy="restart").expect_success()
    # Settings that this collection wrote are changed, and removed when no longer requested (here mirrors and max-file).
    assert since(host) != before
    written = json.loads(host.run("cat /etc/docker/daemon.json"))
    assert written["log-opts"] == {"max-size": "10m"} and "registry-mirrors" not in written
    host.run("sudo docker rm --force notebook")


def test_unmanaged_settings_stay_and_conflicting_ones_are_named(inventory: Path, host: Host) -> None:
    host.run('echo \'{"log-opts": {"max-size": "1m"}, "bip": "10.77.0.1/24"}\' | sudo tee /etc/docker/daemon.json')
    run = docker(inventory, daemon_settings={"log-driver": "journald"}, replace_settings=True)
    assert run.status != 0 and "journald does not have the options max-size" in run.failures()
    run = docker(inventory)
    assert run.status != 0 and 'log-opts.max-size is "1m", not "100m"' in run.failures()
    run = docker(inventory, replace_settings=True).expect_success()
    assert "also holds bip" in run.output
    assert json.loads(host.run("cat /etc/docker/daemon.json"))["bip"] == "10.77.0.1/24"


def test_docker_starts_with_a_log_driver_that_has_no_limits(inventory: Path, host: Host) -> None:
    host.run('echo \'{"log-driver": "journald"}\' | sudo tee /etc/docker/daemon.json')
    docker(inventory, verify=False).expect_success()
    assert host.run("sudo docker info --format '{{.LoggingDriver}}'").strip() == "journald"
    assert "log-opts" not in host.run("cat /etc/docker/daemon.json")
    docker(inventory, verify=False).expect_unchanged()


def test_invalid_settings_are_one_error_before_anything_changes(inventory: Path) -> None:
    wrong: dict[str, object] = {
        "version": "1.2.3",
        "default_runtime": "nvidia",
        "users": ["nobody-here"],
        "log_options": {"gelf-address": "udp://10.0.0.9:12201"},
        "daemon_settings": {"hosts": ["tcp://0.0.0.0:2375"], "log-driver": "syslog"},
    }
    run = docker(inventory, **wrong)
    assert run.status != 0 and run.changed() == set()
    for words in ("Docker 1.2.3 is not in the table", "docker_gpus=runtime", "contains hosts", "Nothing was changed"):
        assert words in run.failures()
    for words in ("contains nobody-here, but", "syslog does not have the options gelf-address"):
        assert words in run.failures()


def test_removal_keeps_the_data_and_prints_its_location(inventory: Path, host: Host) -> None:
    drop_ins = "/etc/systemd/system/docker.service.d"
    host.run(f"sudo mkdir -p {drop_ins} && sudo touch {drop_ins}/50-gpulab-proxy.{{conf,env}} {drop_ins}/own.conf")
    run = docker(inventory, state="absent").expect_success()
    assert "stay in /var/lib/docker" in run.output
    assert host.run("command -v dockerd || true").strip() == ""
    assert host.run(f"ls {drop_ins}").split() == ["own.conf"]
    assert host.run("sudo ls /var/lib/docker").strip() != ""
    assert host.run("systemctl is-active containerd").strip() == "active"
    docker(inventory, state="absent").expect_unchanged()


def test_docker_can_be_installed_on_a_cluster_node_without_disturbing_it(lab: Lab, host: Host, tmp_path: Path) -> None:
    play(lab.path).expect_success()
    node = tmp_path / "node.ini"
    node.write_text(lab.path.read_text().replace("[all:vars]", "[docker]\nsolo\n\n[all:vars]"))
    before = host.run("systemctl show --value --property=InvocationID kubelet containerd")
    assert "Docker hands out 2 of 2 GPUs" in docker(node).expect_success().output
    docker(node).expect_unchanged()
    refused = docker(node, gpus="runtime", honor_visible_devices=True)
    assert refused.status != 0 and "this host runs Kubernetes" in refused.failures() and not refused.changed()
    play(lab.path).expect_unchanged()
    play(lab.path, playbook="playbooks/verify.yml").expect_success()
    assert host.run("systemctl show --value --property=InvocationID kubelet containerd") == before
    assert "-P FORWARD ACCEPT" in host.run("sudo iptables -S FORWARD")
