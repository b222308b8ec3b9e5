"""A machine with existing packages, apt sources and containers: refused with possible answers, then kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.cluster import Cluster, gpu_deployment
from support.hosts import Host
from support.lab import Lab, running
from support.play import play, refused, variables
from support.state import differences, snapshots

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
NEWER = "9:2.9.0-1"
# The real containerd with a newer version number, as in a later release of Docker's repository, and a placeholder
# package for Docker CE, which is not available here.
INSTALL = f"""
set -e
mkdir -p /etc/apt/keyrings
apt-get -q update -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/docker.list -o Dir::Etc::sourceparts=- >/dev/null
cd "$(mktemp -d)"
apt-get -q download containerd.io >/dev/null
dpkg-deb -R containerd.io_*.deb tree
sed -i 's/^Version: .*/Version: {NEWER}/' tree/DEBIAN/control
dpkg-deb -b tree containerd.deb >/dev/null
mkdir -p docker/DEBIAN
printf 'Package: docker-ce\\nVersion: 5:28.1.1-1\\nArchitecture: amd64\\nMaintainer: nobody <n@example.com>\\n' \
    > docker/DEBIAN/control
echo 'Description: stands in for Docker CE' >> docker/DEBIAN/control
dpkg-deb -b docker docker.deb >/dev/null
apt-get -q -y install ./containerd.deb ./docker.deb >/dev/null
systemctl start containerd
"""
# A container in its own namespace, like Docker's. It prints the time each second.
COUNT = """
set -e
root=/srv/counter
mkdir -p $root/bin $root/tmp
for program in bash sleep; do
    cp -L "$(command -v $program)" $root/bin/
    ldd "$(command -v $program)" | grep -o '/[^ ]*' | while read -r library; do cp -L --parents "$library" $root/; done
done
ctr -n moby run --detach --rootfs $root counter \
    /bin/bash -c 'while printf "%(%s)T\\n" -1 >> /tmp/seconds; do /bin/sleep 1; done'
"""


def source(host: Host) -> str:
    """Return the files that Docker's own instructions for apt create on a host."""
    url = host.variables["containerd_repository_url"]
    return f"""
    set -e
    . /etc/os-release
    mkdir -p /etc/apt/keyrings
    python3 -c "import urllib.request as r; print(r.urlopen('{url}/$ID/gpg').read().decode())" \
        > /etc/apt/keyrings/docker.asc
    echo "deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] {url}/$ID $VERSION_CODENAME stable" \
        > /etc/apt/sources.list.d/docker.list
    """


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with running("in-use", SPEC) as started:
        gpu1 = started.inventory().hosts["gpu1"]
        for script in (source(gpu1), INSTALL, COUNT):
            gpu1.run(script, timeout=600)
        yield started


@pytest.fixture
def unchanged(lab: Lab) -> Iterator[None]:
    before = snapshots(lab.inventory())
    yield
    assert differences(before, snapshots(lab.inventory())) == {}


@pytest.mark.usefixtures("unchanged")
def test_another_distribution_of_kubernetes_is_refused(lab: Lab) -> None:
    cp1 = lab.inventory().hosts["cp1"]
    units = "/etc/systemd/system"
    then = cp1.run(f"stat -c %y {units} && touch {units}/k3s.service").strip()
    try:
        assert "k3s is installed on this host" in refused(lab.path)
    finally:
        cp1.run(f"rm {units}/k3s.service && touch -d '{then}' {units}")


@pytest.mark.usefixtures("unchanged")
def test_existing_installations_are_refused_with_all_answers_together(lab: Lab) -> None:
    answers = lab.directory / "answers.yml"
    words = refused(lab.path, *variables(preflight_answers=str(answers)))
    assert f"containerd.io {NEWER} is installed" in words and "docker-ce" in words
    assert "/etc/apt/sources.list.d/docker.list line 1" in words
    assert f"run this again with -e @{answers}" in words
    kept = "{{ {'gpu1': '%s'}.get(inventory_hostname, 'refuse') }}"
    assert yaml.safe_load(answers.read_text()) == {
        "cluster_existing_packages": kept % "keep",
        "cluster_existing_sources": kept % "take_over",
    }
    answers.write_text(f"# mine\n{answers.read_text()}")
    assert "already exists and was not changed" in refused(lab.path, *variables(preflight_answers=str(answers)))
    assert answers.read_text().startswith("# mine\n")


def test_with_the_answers_gpus_are_verified_and_the_containers_keep_running(lab: Lab) -> None:
    gpu1 = lab.inventory().hosts["gpu1"]
    play(lab.path, "-e", f"@{lab.directory / 'answers.yml'}").expect_success()
    assert json.loads(lab.report.read_text())["totals"]["proven"] == 2
    assert gpu1.run("dpkg-query -W -f '${Version}' containerd.io") == NEWER
    assert [line for line in gpu1.run("cat /etc/apt/sources.list.d/docker.list").splitlines() if line[:1] != "#"] == []
    assert gpu1.run("ctr -n moby tasks list -q").split() == ["counter"]
    seconds = [int(line) for line in gpu1.run("cat /srv/counter/tmp/seconds").split()]
    gaps = [later - earlier for earlier, later in zip(seconds, seconds[1:])]
    assert len(seconds) > 30 and max(gaps) <= 3


def test_a_second_run_needs_the_same_answers_and_changes_nothing(lab: Lab) -> None:
    play(lab.path, "-e", f"@{lab.directory / 'answers.yml'}").expect_unchanged()
    words = refused(lab.path)
    assert f"containerd.io {NEWER} is installed" in words and "docker.list" not in words


# containerd restarts for another limit of its logs.
RESTART = {"containerd_cri_settings": {"max_container_log_line_size": 32768}}


def training() -> dict[str, Any]:
    """Return a Deployment with a GPU whose pods ask for 5 seconds to end, and leave their deadline on the host."""
    (deployment,) = gpu_deployment("saving")
    spec = deployment["spec"]["template"]["spec"]
    field = {"fieldPath": "metadata.annotations['gpulab.io/disruption-deadline']"}
    spec["terminationGracePeriodSeconds"] = 5
    spec["volumes"] = [
        *spec.get("volumes", []),
        {"name": "saved", "hostPath": {"path": "/srv/saved", "type": "DirectoryOrCreate"}},
        {"name": "podinfo", "downwardAPI": {"items": [{"path": "deadline", "fieldRef": field}]}},
    ]
    container = spec["containers"][0]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("saved", "podinfo")]
    container["volumeMounts"] = [*container.get("volumeMounts", []), *mounts]
    save = 'sleep 20; read -r deadline < /podinfo/deadline; echo "$deadline" > /saved/deadline; exit'
    container["command"] = ["/bin/sh", "-c", f"trap '{save}' TERM; while :; do sleep 0.2; done"]
    return deployment


def test_a_restart_is_deferred_while_a_job_runs(lab: Lab) -> None:
    cluster = Cluster.of(lab.inventory())
    gpu1 = lab.inventory().hosts["gpu1"]
    cluster.apply(training())
    pod = cluster.pod_of("saving")
    began = gpu1.run("systemctl show -p ActiveEnterTimestamp containerd")
    arguments = ("-e", f"@{lab.directory / 'answers.yml'}", *variables(**RESTART))
    run = play(lab.path, *arguments, *variables(cluster_disruption_policy="defer")).expect_success()
    assert f"default/{pod['metadata']['name']} (ReplicaSet " in run.words
    assert gpu1.run("systemctl show -p ActiveEnterTimestamp containerd") == began
    (entry,) = json.loads(lab.report.read_text())["hosts"]["gpu1"]["deferred"]
    assert entry["users"][0].startswith(f"default/{pod['metadata']['name']} ")


def test_a_signalled_job_saves_its_work_before_the_restart(lab: Lab) -> None:
    cluster = Cluster.of(lab.inventory())
    gpu1 = lab.inventory().hosts["gpu1"]
    arguments = ("-e", f"@{lab.directory / 'answers.yml'}", *variables(**RESTART))
    policy = variables(cluster_disruption_policy="signal", cluster_disruption_wait=90)
    play(lab.path, *arguments, *policy).expect_success()
    # The pod has had more than the 5 seconds of its own grace period.
    assert gpu1.run("test -e /srv/saved/deadline && echo saved").strip() == "saved"
    assert gpu1.run("cat /var/lib/gpulab/deferred.json 2>/dev/null || true") == ""
    assert json.loads(lab.report.read_text())["hosts"]["gpu1"]["deferred"] == []
    assert not cluster.get("node", "gpu1")["spec"].get("unschedulable")
    cluster.kubectl("delete", "deployment", "saving", "--wait")
    play(lab.path, *arguments).expect_unchanged()
