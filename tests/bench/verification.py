"""Measure the verification of many GPUs on nodes that KWOK simulates, against a real API server, scheduler and etcd.

What pods would do is simulated: KWOK lets each pod run, its log names the GPU that the pod would have, and one program
answers the dials of all network pods. So the figures cover the module's requests and what the control plane needs for
them. Everything runs in a network namespace of its own. Run it as root: python tests/bench/verification.py
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from lab.depot import golang, recipes, versions

NODES = int(os.environ.get("NODES", "200"))
GPUS = int(os.environ.get("GPUS", "8"))
LIMITS = {"verification_s": 120, "requests_per_gpu_pod": 12}
STAGES = ("node/fast/node-*", "node/heartbeat-with-lease/node-*", "pod/fast/pod-*")
KWOK = golang.Recipe(
    "kwok",
    "sigs.k8s.io/kwok",
    "v0.8.0",
    {"kwok": "./cmd/kwok"},
    keep=tuple(f"kustomize/stage/{stage}.yaml" for stage in STAGES),
)
KUBERNETES = recipes.kubernetes(versions.DEFAULT_KUBERNETES)
ETCD = recipes.etcd("v3.6.8")
# Addresses that documentation and tests may use, known in this network namespace alone.
API, PODS, SERVICES = "192.0.2.1", "10.244.0.0/16", "10.96.0.0/16"
DRIVER, MODEL = "595.91.07", "Tesla T4"
NAMESPACE = "gpulab-acceptance"
PLAY = """
- hosts: localhost
  gather_facts: false
  tasks:
    - gpulab.kubernetes.gpu_acceptance:
        kubeconfig: "{{ work }}/admin.conf"
        nodes: "{{ lookup('file', work ~ '/nodes.json') | from_json }}"
        image: example.org/check:1
        network_image: example.org/agnhost:1
      register: seen
    - copy:
        content: "{{ seen | to_json }}"
        dest: "{{ work }}/result.json"
        mode: "0600"
"""


def uuid(node: int, gpu: int) -> str:
    return f"GPU-00000000-0000-0000-{node:04d}-{gpu:012d}"


def nodes() -> list[dict[str, Any]]:
    labels = {
        "nvidia.com/gpu.product": MODEL.replace(" ", "-"),
        "nvidia.com/gpu.count": str(GPUS),
        "nvidia.com/cuda.driver-version.full": DRIVER,
        "type": "kwok",
    }
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node{number}", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        for number in range(NODES)
    ]


def hosts() -> list[dict[str, Any]]:
    """Return what the module is told about each host."""
    return [
        {
            "name": f"node{node}",
            "gpus": [{"uuid": uuid(node, gpu), "name": MODEL} for gpu in range(GPUS)],
            "pci": GPUS,
            "driver": DRIVER,
        }
        for node in range(NODES)
    ]


def logs(work: Path) -> list[dict[str, Any]]:
    """Return KWOK's configuration: the log of each pod of the verification."""
    end = "acceptance: end of list"
    check = _log(work / "check", "Test PASSED [simulated]", end)
    nothing = _log(work / "nothing", end)
    found = []
    for node in range(NODES):
        for gpu in range(GPUS):
            hold = _log(work / f"hold-{node}-{gpu}", f"{uuid(node, gpu)}, {MODEL}", end)
            found.append(_logs(f"gpu-{gpu}-node{node}", {"check": check, "hold": hold}))
        found.append(_logs(f"isolation-node{node}", {"check": nothing}))
    return found


def _log(file: Path, *lines: str) -> Path:
    """Write a log as container runtimes do."""
    return _written(file, "".join(f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in lines))


def _logs(pod: str, files: dict[str, Path]) -> dict[str, Any]:
    listed = [{"containers": [container], "logsFile": str(file)} for container, file in files.items()]
    metadata = {"name": pod, "namespace": NAMESPACE}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Logs", "metadata": metadata, "spec": {"logs": listed}}


def _written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


class Dialers:
    """Answer as agnhost netexec does, at the address of every network pod."""

    def __init__(self, names: Callable[[], dict[str, str]]) -> None:
        self._names = names
        self._known: dict[str, str] = {}

    async def serve(self) -> None:
        server = await asyncio.start_server(self._answer, "0.0.0.0", 8080)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        here = writer.get_extra_info("sockname")[0]
        body = await self._dial(target) if target.startswith("/dial?") else self._name(here)
        writer.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    async def _dial(self, target: str) -> str:
        asked = dict(pair.split("=", 1) for pair in target.partition("?")[2].split("&"))
        name = "a pod of the Service"
        if asked["port"] == "8080":
            reader, writer = await asyncio.open_connection(asked["host"], 8080)
            writer.write(b"GET /hostname HTTP/1.1\r\n\r\n")
            name = (await reader.read()).partition(b"\r\n\r\n")[2].decode()
            writer.close()
        return json.dumps({"responses": [name]})

    def _name(self, address: str) -> str:
        if address not in self._known:
            self._known = self._names()
        return self._known.get(address, "")


class ControlPlane:
    """etcd, the API server, the controller manager, the scheduler and KWOK, as processes of this machine."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def kubectl(self, *words: str, text: str = "") -> str:
        argv = [str(KUBERNETES.program("kubectl")), f"--kubeconfig={self.work}/super-admin.conf", *words]
        done = subprocess.run(argv, input=text, check=True, capture_output=True, text=True)
        return done.stdout

    def start(self) -> None:
        work, pki = self.work, self.work / "pki"
        common = ["--kubernetes-version", f"v{versions.DEFAULT_KUBERNETES}", "--apiserver-advertise-address", API]
        kubeadm = [str(KUBERNETES.program("kubeadm")), "init", "phase"]
        services = ["--service-cidr", SERVICES]
        subprocess.run([*kubeadm, "certs", "all", *common, *services, "--cert-dir", str(pki)], check=True, stdout=2)
        for name in ("admin", "super-admin", "controller-manager", "scheduler"):
            directories = ["--cert-dir", str(pki), "--kubeconfig-dir", str(work)]
            subprocess.run([*kubeadm, "kubeconfig", name, *common, *directories], check=True, stdout=2)
        self._start(ETCD.program("etcd"), "--data-dir", work / "etcd", "--listen-peer-urls", "http://127.0.0.1:2380")
        # Only the module uses this identity.
        rules = [{"level": "Metadata", "users": ["kubernetes-admin"], "omitStages": ["RequestReceived"]}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [*rules, {"level": "None"}]}
        _written(work / "audit.yml", yaml.safe_dump(policy))
        self._start(
            KUBERNETES.program("kube-apiserver"),
            *("--advertise-address", API, "--etcd-servers", "http://127.0.0.1:2379", "--allow-privileged"),
            *("--service-cluster-ip-range", SERVICES, "--authorization-mode", "Node,RBAC"),
            *("--client-ca-file", pki / "ca.crt", "--tls-cert-file", pki / "apiserver.crt"),
            *("--tls-private-key-file", pki / "apiserver.key", "--service-account-key-file", pki / "sa.pub"),
            *("--service-account-signing-key-file", pki / "sa.key"),
            *("--service-account-issuer", "https://kubernetes.default.svc"),
            *("--kubelet-client-certificate", pki / "apiserver-kubelet-client.crt"),
            *("--kubelet-client-key", pki / "apiserver-kubelet-client.key"),
            *("--kubelet-preferred-address-types", "InternalIP"),
            *("--audit-policy-file", work / "audit.yml", "--audit-log-path", work / "audit.log"),
        )
        self.await_(lambda: self.kubectl("get", "--raw", "/readyz") == "ok")
        self.kubectl("create", "clusterrolebinding", "admins", "--clusterrole=cluster-admin", "--user=kubernetes-admin")
        configuration = ["--kubeconfig", work / "controller-manager.conf", "--root-ca-file", pki / "ca.crt"]
        key = ["--service-account-private-key-file", pki / "sa.key", "--use-service-account-credentials"]
        self._start(KUBERNETES.program("kube-controller-manager"), *configuration, *key)
        self._start(KUBERNETES.program("kube-scheduler"), "--kubeconfig", work / "scheduler.conf")
        stages = [file.read_text() for file in sorted(KWOK.source("kustomize/stage").rglob("*.yaml"))]
        _written(work / "kwok.yml", "\n---\n".join([*stages, yaml.safe_dump_all(logs(work))]))
        self._start(
            KWOK.program("kwok"),
            *("--kubeconfig", work / "super-admin.conf", "--config", work / "kwok.yml", "--manage-all-nodes"),
            *("--cidr", PODS, "--node-ip", API, "--node-port", 10247, "--server-address", "0.0.0.0:10247"),
            *("--tls-cert-file", pki / "apiserver.crt", "--tls-private-key-file", pki / "apiserver.key"),
        )
        self.kubectl("create", "--filename=-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes()}))
        self.await_(lambda: self.kubectl("get", "nodes").count(" Ready ") == NODES, 180)

    def network_pods(self) -> dict[str, str]:
        """Return the name of each network pod by its address."""
        selected = ["--namespace", NAMESPACE, "--selector=acceptance=network", "--output=json"]
        pods = json.loads(self.kubectl("get", "pods", *selected))["items"]
        return {pod["status"].get("podIP", ""): pod["metadata"]["name"] for pod in pods}

    def requests(self) -> int:
        log = self.work / "audit.log"
        return sum(1 for _line in log.open()) if log.exists() else 0

    def stop(self) -> None:
        for process in reversed(self._running.values()):
            process.terminate()
            process.wait()

    def await_(self, good: Callable[[], bool], seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                if good():
                    return
            except subprocess.CalledProcessError:
                pass
            for name, process in self._running.items():
                if process.poll() is not None:
                    raise SystemExit(
                        f"{(self.work / f'{name}.log').read_text()[-2000:]}\nThis program has ended: {name}"
                    )
            if time.monotonic() > end:
                raise SystemExit(f"The simulated cluster is not ready after {seconds} s.")
            time.sleep(0.5)

    def _start(self, program: Path, *arguments: object) -> None:
        with (self.work / f"{program.name}.log").open("wb") as log:
            argv = [str(program), *map(str, arguments)]
            self._running[program.name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


@contextmanager
def cluster(work: Path) -> Iterator[ControlPlane]:
    for words in (
        "link set lo up",
        f"address add {API}/32 dev lo",
        f"route add local {PODS} dev lo",
        "route add default dev lo",
    ):
        subprocess.run(["ip", *words.split()], check=True)
    plane = ControlPlane(work)
    try:
        plane.start()
        child = os.fork()
        if child == 0:
            asyncio.run(Dialers(plane.network_pods).serve())
        yield plane
        os.kill(child, 15)
        os.waitpid(child, 0)
    finally:
        plane.stop()


def measure() -> dict[str, object]:
    for recipe in (KUBERNETES, ETCD, KWOK):
        golang.provide(recipe)
    with tempfile.TemporaryDirectory(prefix="verification-") as scratch, cluster(Path(scratch)) as plane:
        work = Path(scratch)
        _written(work / "nodes.json", json.dumps(hosts()))
        _written(work / "play.yml", PLAY)
        first, seconds, requests = verify(plane)
        totals = first["report"]["totals"]
        again, seconds_again, requests_again = verify(plane)
        return {
            "nodes": NODES,
            "gpus": NODES * GPUS,
            "totals": totals,
            "problems": [problem["cause"] for problem in first["report"]["problems"]][:5],
            "verification_s": seconds,
            "requests_per_gpu_pod": round(requests / (NODES * GPUS), 2),
            "second_verification_s": seconds_again,
            "second_verification_requests": requests_again,
            "second_verification_changed": again["changed"],
            "limits": LIMITS,
        }


def verify(plane: ControlPlane) -> tuple[dict[str, Any], float, int]:
    """Return the module's result, its seconds with Ansible's own, and its requests."""
    before, started = plane.requests(), time.monotonic()
    argv = ["ansible-playbook", "-i", "localhost,", "-c", "local", "-e", f"work={plane.work}"]
    argv += ["-e", f"ansible_python_interpreter={sys.executable}", str(plane.work / "play.yml")]
    subprocess.run(argv, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    seconds = round(time.monotonic() - started, 1)
    return json.loads((plane.work / "result.json").read_text()), seconds, plane.requests() - before


if __name__ == "__main__":
    # The address of the API must not be that of anything else on this machine.
    if os.environ.get("GPULAB_VERIFICATION_NAMESPACE") != "own":
        os.environ["GPULAB_VERIFICATION_NAMESPACE"] = "own"
        for needed in (KUBERNETES, ETCD, KWOK):
            golang.provide(needed)
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    print(json.dumps(measure(), indent=2))
