"""Root on a worker, users and a manipulated control plane can't reach other hosts' resources through the playbooks."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from conftest import Built
from support.cluster import gpu_pod
from support.hosts import Host
from support.play import Run, play

VICTIM, ATTACKER = "gpu2", "gpu1"
POOLS, ISOLATE, SHARE = "playbooks/node_pools.yml", "playbooks/isolate_gpu.yml", "playbooks/share_gpus.yml"
IDENTITY = "/etc/kubernetes/kubelet.conf /var/lib/kubelet/pki/kubelet-client-current.pem"
ADMIN = "/etc/kubernetes/admin.conf"


def run(built: Built, playbook: str, **variables: Any) -> Run:
    return play(built.lab.path, "-e", json.dumps(variables), playbook=playbook)


def node(built: Built, name: str) -> dict[str, Any]:
    """The parts of a node that a run could change."""
    found = built.cluster.get("node", name)
    metadata = {part: found["metadata"].get(part) for part in ("labels", "annotations")}
    return {**metadata, "spec": found["spec"]}


@contextmanager
def named(host: Host, name: str) -> Iterator[None]:
    """Change the hostname of the running host."""
    before = host.run("uname -n").strip()
    host.run(f"hostname {name}")
    try:
        yield
    finally:
        host.run(f"hostname {before}")


@contextmanager
def with_identity_of(host: Host, other: Host) -> Iterator[None]:
    """Replace the host's kubelet kubeconfig and certificate with those of another node."""
    archive = other.run(f"tar -ch {IDENTITY} 2>/dev/null | base64 -w0")
    host.run(f"tar -c {IDENTITY} 2>/dev/null > /root/own.tar; rm {IDENTITY}; base64 -d <<< {archive} | tar -x -C /")
    try:
        yield
    finally:
        host.run(f"rm -f {IDENTITY}; tar -x -C / -f /root/own.tar")


def expect_refused(built: Built, playbook: str) -> None:
    before = node(built, VICTIM)
    done = run(built, playbook)
    assert done.status != 0, playbook
    words = " ".join(done.failures().split())
    assert ATTACKER in words and VICTIM in words, words
    assert "Traceback" not in done.output
    assert node(built, VICTIM) == before


@pytest.mark.parametrize("playbook", [POOLS, ISOLATE, SHARE, "playbooks/verify.yml"])
def test_a_host_with_the_name_of_another_node_is_refused(built: Built, playbook: str) -> None:
    with named(built.inventory.hosts[ATTACKER], VICTIM):
        expect_refused(built, playbook)


def test_the_certificate_and_kubeconfig_of_another_node_do_not_change_the_refusal(built: Built) -> None:
    hosts = built.inventory.hosts
    with named(hosts[ATTACKER], VICTIM), with_identity_of(hosts[ATTACKER], hosts[VICTIM]):
        expect_refused(built, ISOLATE)
        expect_refused(built, "site.yml")


def test_the_name_of_another_api_object_is_refused(built: Built) -> None:
    done = run(built, POOLS, cluster_node_name="../namespaces/kube-system")
    assert done.status != 0 and done.changed() == set()
    namespace = built.cluster.get("namespace", "kube-system")
    assert "gpulab" not in json.dumps(namespace)


def test_a_forged_record_does_not_remove_labels_that_only_others_set(built: Built) -> None:
    label = "node-restriction.kubernetes.io/tenant"
    record = json.dumps({"labels": {label: "a"}, "taints": []})
    own = built.cluster.get("node", ATTACKER)["metadata"]["annotations"].get("gpulab.io/node-pool")
    built.cluster.kubectl("label", "node", ATTACKER, f"{label}=a")
    built.cluster.kubectl("annotate", "--overwrite", "node", ATTACKER, f"gpulab.io/node-pool={record}")
    run(built, POOLS).expect_success()
    assert node(built, ATTACKER)["labels"][label] == "a"
    built.cluster.kubectl("label", "node", ATTACKER, f"{label}-")
    annotations = built.cluster.get("node", ATTACKER)["metadata"]["annotations"]
    assert label not in annotations.get("gpulab.io/node-pool", "")
    # After the forgery, the labels set before count as unmanaged. Restore the record.
    built.cluster.kubectl("annotate", "--overwrite", "node", ATTACKER, f"gpulab.io/node-pool={own}")


def test_a_damaged_record_is_reported_in_one_sentence(built: Built) -> None:
    built.cluster.kubectl("annotate", "--overwrite", "node", ATTACKER, "gpulab.io/gpu-isolation=[1")
    done = run(built, ISOLATE, gpu_isolation_state="returned")
    built.cluster.kubectl("annotate", "node", ATTACKER, "gpulab.io/gpu-isolation-")
    words = " ".join(done.failures().split())
    assert done.status != 0 and "gpulab.io/gpu-isolation" in words and ATTACKER in words
    assert "Traceback" not in done.output


def test_a_users_pod_with_the_label_of_the_device_plugin_is_not_changed(built: Built) -> None:
    (plugin,) = [
        pod
        for pod in built.cluster.get("pods", "--all-namespaces")["items"]
        if pod["metadata"]["namespace"] == "nvidia-device-plugin"
        and pod["metadata"]["labels"].get("app", "").startswith("nvidia-device-plugin")
        and pod["spec"]["nodeName"] == ATTACKER
    ]
    stranger = gpu_pod("stranger", 0, ATTACKER)
    stranger["metadata"]["labels"] = plugin["metadata"]["labels"]
    built.cluster.apply(stranger)
    built.cluster.kubectl("wait", "pod/stranger", "--for=condition=Ready", "--timeout=120s")
    uid = built.cluster.get("pod", "stranger")["metadata"]["uid"]
    built.lab.fault(ATTACKER, "xid:48", "--gpu", "0")
    run(built, ISOLATE).expect_success()
    built.lab.fault(ATTACKER, "clear")
    run(built, ISOLATE, gpu_isolation_state="returned").expect_success()
    assert built.cluster.get("pod", "stranger")["metadata"]["uid"] == uid
    built.cluster.delete_pod("stranger")


@pytest.mark.parametrize("playbook", ["playbooks/verify.yml", POOLS, "site.yml"])
def test_a_kubeconfig_that_runs_a_program_is_refused(built: Built, tmp_path: Path, playbook: str) -> None:
    proof = tmp_path / "executed"
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(proof)]}}
    host = built.inventory.control_plane
    config = json.loads(host.run(f"kubectl --kubeconfig {ADMIN} config view --raw --output json"))
    config["users"][0]["user"] = user
    host.run(f"cp --preserve=mode {ADMIN} {ADMIN}.own; cat > {ADMIN} <<'END'\n{json.dumps(config)}\nEND")
    try:
        done = run(built, playbook)
    finally:
        host.run(f"cp --preserve=mode {ADMIN}.own {ADMIN} && rm {ADMIN}.own")
    assert done.status != 0 and "exec" in done.failures() and ADMIN in done.failures(), done.failures()
    assert not proof.exists()


class Page(BaseHTTPRequestHandler):
    """Answers like a captive portal."""

    def do_GET(self) -> None:
        text = b"<html><body>Please sign in</body></html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_web_page_in_place_of_the_api_is_a_clear_error(built: Built, tmp_path: Path) -> None:
    """The page is served with the API server's certificate, so it runs on the control plane's host."""
    host = built.inventory.control_plane
    pair = host.run("cat /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key")
    (tmp_path / "pair.pem").write_text(pair)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = json.loads(host.run(f"kubectl --kubeconfig {ADMIN} config view --raw --output json"))
        cluster = config["clusters"][0]["cluster"]
        cluster |= {"server": f"https://127.0.0.1:{server.server_port}", "tls-server-name": "kubernetes"}
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        playbook = tmp_path / "ask.yml"
        task = {
            "name": "Ask",
            "gpulab.kubernetes.wait_for_rollout": {
                "kubeconfig": str(tmp_path / "kubeconfig"),
                "namespace": "kube-system",
                "daemonsets": ["kube-proxy"],
            },
        }
        playbook.write_text(json.dumps([{"name": "Ask", "hosts": "localhost", "gather_facts": False, "tasks": [task]}]))
        done = play(built.lab.path, playbook=str(playbook))
        server.shutdown()
    assert done.status != 0 and "captive portal" in done.failures()
    assert "Traceback" not in done.output


def test_after_the_attacks_a_run_changes_nothing(built: Built) -> None:
    play(built.lab.path).expect_success()
    play(built.lab.path).expect_unchanged()
