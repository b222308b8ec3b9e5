"""A running control plane gets new settings and certificates, and a cluster that was off for too long returns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.api_prober import KINDS, ApiProber, admin_access
from support.cluster import Cluster
from support.hosts import Host, Inventory
from support.lab import Lab, lab_command, running
from support.play import play, variables

SPEC = Path(__file__).parent / "specs" / "one-worker.yml"
ALLOW = variables(cluster_control_plane_gap="allow")
# The most that still counts as done, in seconds.
GAP, OFF = 40, 300
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
PKI = "/etc/kubernetes/pki"
Figure = Callable[[str, float], None]
CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    lab_command("build", "--with", "etcd")
    with running("renewal", SPEC) as started:
        play(started.path).expect_success()
        yield started


@pytest.fixture(scope="module")
def inventory(lab: Lab) -> Inventory:
    return lab.inventory()


@pytest.fixture
def tenant(inventory: Inventory) -> Iterator[dict[str, Any]]:
    """A user's pod that holds one GPU, and must not restart."""
    cluster = Cluster.of(inventory)
    pod = cluster.start_gpu_pod("tenant", 1)
    yield pod
    now = cluster.get("pod", "tenant")
    cluster.delete_pod("tenant")
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert now["status"]["containerStatuses"] == pod["status"]["containerStatuses"]


@contextmanager
def short_gap(host: Host, log: Path, figure: Figure) -> Iterator[None]:
    with ApiProber(admin_access(host), log) as prober:
        prober.wait()
        yield
    gaps = {kind: prober.gap(kind) for kind in KINDS}
    for kind, gap in gaps.items():
        figure(f"gap ({kind})", gap.seconds)
    assert {kind: gap for kind, gap in gaps.items() if gap.seconds > GAP} == {}


def settings(**flags: str) -> list[str]:
    arguments = [{"name": name, "value": value} for name, value in flags.items()]
    return variables(kubeadm_cluster_configuration={"apiServer": {"extraArgs": arguments, "certSANs": ["k8s.lan"]}})


def test_a_change_is_only_shown_unless_the_gap_is_allowed(lab: Lab, inventory: Inventory) -> None:
    before = inventory.control_plane.run(f"cat {MANIFEST}")
    run = play(lab.path, *settings(**{"event-ttl": "2h"})).expect_unchanged()
    assert "kube-apiserver: --event-ttl (not set) -> 2h" in run.output
    assert "run this again with -e cluster_control_plane_gap=allow" in run.output
    assert inventory.control_plane.run(f"cat {MANIFEST}") == before
    plan = play(lab.path, *settings(**{"event-ttl": "2h"}), playbook="playbooks/plan.yml").expect_success()
    assert "apiServer.extraArgs" in plan.output


@pytest.mark.usefixtures("tenant")
def test_a_changed_flag_and_a_new_name_are_rolled_out(
    lab: Lab, inventory: Inventory, tmp_path: Path, figure: Figure
) -> None:
    host = inventory.control_plane
    with short_gap(host, tmp_path / "answers.jsonl", figure):
        play(lab.path, *settings(**{"event-ttl": "2h"}), *ALLOW).expect_success()
    assert "--event-ttl=2h" in host.run(f"cat {MANIFEST}")
    assert "DNS:k8s.lan" in host.run(f"openssl x509 -noout -ext subjectAltName -in {PKI}/apiserver.crt")
    stored = Cluster.of(inventory).get("configmap", "kubeadm-config", "-n", "kube-system")
    assert "event-ttl" in stored["data"]["ClusterConfiguration"]
    play(lab.path, *settings(**{"event-ttl": "2h"}), *ALLOW).expect_unchanged()
    # What the inventory no longer sets stays.
    play(lab.path, *ALLOW).expect_unchanged()


@pytest.mark.usefixtures("tenant")
def test_a_flag_with_which_the_api_server_does_not_start_is_undone(lab: Lab, inventory: Inventory) -> None:
    before = inventory.control_plane.run(f"cat {MANIFEST}")
    run = play(lab.path, *settings(nonsense="1"), *ALLOW)
    assert run.status
    assert "unknown flag: --nonsense" in run.failures()
    assert "The change was undone on this control plane, which is healthy again." in run.failures()
    assert inventory.control_plane.run(f"cat {MANIFEST}") == before
    play(lab.path, *ALLOW).expect_unchanged()


def test_a_flag_that_someone_added_stays(lab: Lab, inventory: Inventory) -> None:
    host = inventory.control_plane
    host.run(f"sed -i 's/^    - kube-apiserver$/&\\n    - --profiling=false/' {MANIFEST}")
    host.run(
        "for i in $(seq 120); do grep -qz -- --profiling=false /proc/$(pgrep -xo kube-apiserver)/cmdline && "
        "kubectl --kubeconfig /etc/kubernetes/admin.conf get --raw /readyz && exit; sleep 1; done; exit 1",
        180,
    )
    play(lab.path, *ALLOW).expect_unchanged()
    run = play(lab.path, *settings(**{"event-ttl": "3h"}), *ALLOW)
    assert "so the change would remove them: kube-apiserver: --profiling false" in run.failures()
    flags = settings(**{"event-ttl": "2h", "profiling": "false"})
    play(lab.path, *flags, *ALLOW).expect_success()
    play(lab.path, *flags, *ALLOW).expect_unchanged()


def test_a_setting_of_kubelets_reaches_all_nodes(lab: Lab, inventory: Inventory) -> None:
    given = inventory.control_plane.variables["kubeadm_kubelet_configuration"]
    wanted = variables(kubeadm_kubelet_configuration={**given, "maxPods": 77})
    resolver = {
        name: host.run("grep resolvConf /var/lib/kubelet/config.yaml") for name, host in inventory.hosts.items()
    }
    play(lab.path, *wanted).expect_success()
    cluster = Cluster.of(inventory)
    assert {node["status"]["capacity"]["pods"] for node in cluster.get("nodes")["items"]} == {"77"}
    assert "maxPods: 77" in cluster.get("configmap", "kubelet-config", "-n", "kube-system")["data"]["kubelet"]
    for name, host in inventory.hosts.items():
        assert host.run("grep resolvConf /var/lib/kubelet/config.yaml") == resolver[name]
    play(lab.path, *wanted).expect_unchanged()
    play(lab.path).expect_unchanged()


@pytest.mark.usefixtures("tenant")
def test_certificates_are_renewed(lab: Lab, inventory: Inventory, tmp_path: Path, figure: Figure) -> None:
    host = inventory.control_plane
    serials = f"for f in {PKI}/apiserver.crt {PKI}/etcd/server.crt; do openssl x509 -noout -serial -in $f; done"
    before = set(host.run(serials).split())
    with short_gap(host, tmp_path / "answers.jsonl", figure):
        play(lab.path, playbook="playbooks/renew_certificates.yml").expect_success()
    assert not before & set(host.run(serials).split())
    # The new kubeconfig next to the inventory is that of the host.
    kept = next(lab.directory.glob("*admin.conf")).read_text()
    certificate = host.run("grep client-certificate-data /etc/kubernetes/admin.conf").split()[-1]
    assert certificate in kept
    assert host.run("ls /var/lib/gpulab/control-plane").split() == []
    play(lab.path).expect_unchanged()


SHORT = """
set -e
cat > /run/short.yaml <<'END'
{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "VERSION",
 "certificateValidityPeriod": "2m0s"}
END
kubeadm certs renew all --config /run/short.yaml >/dev/null
rm /run/short.yaml
"""
# A certificate for a minute, in the file that the kubelet uses. The machine is off meanwhile.
KUBELET = """
kubeadm kubeconfig user --client-name system:node:NAME --org system:nodes --validity-period 1m --config /run/k.yaml |
    python3 -c '
import base64, re, sys
text = sys.stdin.read()
for name in ("client-certificate-data", "client-key-data"):
    print(base64.b64decode(re.search(name + ": (.*)", text)[1]).decode(), end="")'
"""


def test_a_cluster_that_was_off_for_too_long_returns_with_one_command(
    lab: Lab, inventory: Inventory, figure: Figure
) -> None:
    control_plane, (worker,) = inventory.control_plane, inventory.workers
    version = "v" + control_plane.run("kubelet --version").split("v")[-1].strip()
    tokens = ("secrets", "-n", "kube-system", "--field-selector=type=bootstrap.kubernetes.io/token")
    before = {token["metadata"]["name"] for token in Cluster.of(inventory).get(*tokens)["items"]}
    control_plane.run(SHORT.replace("VERSION", version))
    first = '{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration", "kubernetesVersion": "VERSION"}'
    control_plane.run(f"echo '{first.replace('VERSION', version)}' > /run/k.yaml")
    named = [(host, host.run("hostname").strip()) for host in (control_plane, worker)]
    for host, name in named:
        pem = control_plane.run(KUBELET.replace("NAME", name))
        host.run("systemctl stop kubelet; crictl ps -q | xargs -r crictl stop >/dev/null 2>&1; true", 180)
        host.run(
            f"umask 077; cat > /var/lib/kubelet/pki/short.pem <<'END'\n{pem}END\n"
            f"ln -sfn /var/lib/kubelet/pki/short.pem {CURRENT}"
        )
    control_plane.run("rm /run/k.yaml")
    time.sleep(125)
    for host, _name in named:
        host.run("systemctl start kubelet")
    assert control_plane.attempt("kubectl --kubeconfig /etc/kubernetes/admin.conf get nodes").returncode
    begun = time.monotonic()
    play(lab.path, playbook="playbooks/renew_certificates.yml").expect_success()
    cluster = Cluster.of(inventory)
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    took = time.monotonic() - begun
    figure("back", took)
    assert took <= OFF
    assert worker.attempt("ls /etc/kubernetes/bootstrap-kubelet.conf").returncode
    assert {token["metadata"]["name"] for token in cluster.get(*tokens)["items"]} <= before
    ready = {node["metadata"]["name"] for node in cluster.get("nodes")["items"]}
    assert ready == {name for _host, name in named}
    play(lab.path).expect_success()
    totals = json.loads(lab.report.read_text())["totals"]
    assert totals["proven"] == totals["gpus"]
