"""Where passwords of a proxy, package repositories and registries, and bootstrap tokens are stored.

Only the servers that would ask for the passwords are missing: the lab's depot ignores passwords, and nothing uses the
proxy, which does not exist, because everything that the nodes reach is exempt.
"""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.cluster import Cluster
from support.hosts import ROOT, Host
from support.lab import Lab, running
from support.play import Run, play
from support.secret_scan import files, recent, tokens

SPEC = ROOT / "tests" / "integration" / "specs" / "one-worker.yml"
PASSWORDS = [f"S3CRET-{name}-7c41e0" for name in ("proxy", "apt", "registry")]
UNITS = ("containerd", "kubelet")
PROXIES = {f"etc/systemd/system/{unit}.service.d/50-gpulab-proxy.env" for unit in UNITS}
APT = "etc/apt/auth.conf.d/90gpulab.conf"
CERTS = "etc/containerd/certs.d/"


def settings(lab: Lab) -> dict[str, Any]:
    variables = lab.inventory().control_plane.variables
    mirrors = variables["containerd_registry_mirrors"]
    addresses = [variables["kubeadm_repository_url"], *(mirror["endpoint"] for mirror in mirrors)]
    hosts = sorted({str(urlsplit(address).hostname) for address in addresses})
    registries = sorted({urlsplit(mirror["endpoint"]).netloc for mirror in mirrors})
    proxy, apt, registry = PASSWORDS
    # Mirrors of the distribution's own packages.
    archives = "grep -rhoE 'https?://[^/: ]+' /etc/apt/sources.list /etc/apt/sources.list.d | cut -d/ -f3 | sort -u"
    reached = {name for host in lab.inventory().hosts.values() for name in host.run(archives).split()}
    return {
        "cluster_http_proxy": f"http://ci:{proxy}@192.0.2.1:3128",
        "cluster_no_proxy": sorted({*hosts, *reached}),
        "cluster_apt_credentials": [{"machine": f"http://{h}", "username": "ci", "password": apt} for h in hosts],
        "containerd_registry_credentials": [
            {"registry": name, "username": "ci", "password": registry} for name in registries
        ],
    }


@dataclass(frozen=True)
class Secured:
    """A cluster whose settings contain passwords, after its first site.yml. ``begun`` is in seconds since 1970."""

    lab: Lab
    run: Run
    arguments: list[str]
    begun: float
    secrets: list[bytes]

    def found(self, text: str | bytes) -> list[bytes]:
        data = text if isinstance(text, bytes) else text.encode()
        return [secret for secret in self.secrets if secret in data]

    def holders(self, host: Host) -> dict[str, int]:
        """Return the files of a host that contain a secret, in any encoding, as a mapping of path to mode."""
        return {name: mode for name, (mode, data) in files(host).items() if self.found(data)}


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    with running("secrets", SPEC) as lab:
        variables = lab.directory.parent / f"{lab.name}-passwords.json"
        variables.write_text(json.dumps(settings(lab)))
        arguments = ["-vvv", "--diff", "-e", f"@{variables}"]
        begun = time.time()
        run = play(lab.path, *arguments).expect_success()
        known = tokens(Cluster.of(lab.inventory()))
        assert known, "the token with which the worker joined is still there"
        passwords = [password.encode() for password in PASSWORDS]
        # Encoded as in an HTTP header.
        encoded = [base64.b64encode(b"ci:" + password).rstrip(b"=")[:-1] for password in passwords]
        yield Secured(lab, run, arguments, begun, [*passwords, *encoded, *known])
        variables.unlink()


def test_the_output_of_a_run_shows_no_secret(secured: Secured) -> None:
    assert secured.found(secured.run.output) == []
    assert secured.found(json.dumps(secured.run.events)) == []


def test_files_of_the_run_on_the_controller_hold_no_secret(secured: Secured) -> None:
    places = [secured.lab.directory, Path(tempfile.gettempdir()), Path("~/.ansible").expanduser()]
    left = [found for place in places for found in recent(place, secured.begun)]
    assert [str(path) for path, data in left if secured.found(data)] == []


def test_secrets_on_nodes_are_only_in_private_files(secured: Secured) -> None:
    for host in secured.lab.inventory().hosts.values():
        holders = secured.holders(host)
        registries = {name for name in holders if name.startswith(CERTS) and name.endswith("/hosts.toml")}
        assert registries and set(holders) == {*PROXIES, APT, *registries}, host.name
        assert set(holders.values()) == {0o600}, holders


def test_units_and_the_journal_show_no_secret(secured: Secured) -> None:
    for host in secured.lab.inventory().hosts.values():
        assert secured.found(host.run(f"systemctl show {' '.join(UNITS)}")) == [], host.name
        journal = gzip.decompress(base64.b64decode(host.run("journalctl --no-pager -o export | gzip | base64 -w0")))
        assert len(journal) > 1000 and secured.found(journal) == [], host.name
        for unit in UNITS:
            environment = host.run(f"tr '\\0' '\\n' </proc/$(systemctl show --property=MainPID --value {unit})/environ")
            assert f"HTTP_PROXY=http://ci:{PASSWORDS[0]}@192.0.2.1:3128\n" in environment, f"{host.name}: {unit}"


def test_the_api_holds_no_secret_but_the_bootstrap_tokens(secured: Secured) -> None:
    cluster = Cluster.of(secured.lab.inventory())
    kinds = "configmaps,pods,daemonsets,deployments,events,nodes"
    assert secured.found(json.dumps(cluster.get(kinds, "--all-namespaces"))) == []


def node_feature(namespace: str) -> dict[str, Any]:
    labels = {"nfd.node.kubernetes.io/node-name": "gpu1"}
    return {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": "test", "namespace": namespace, "labels": labels},
        "spec": {"labels": {f"feature.node.kubernetes.io/of-{namespace}": "true"}, "features": {}},
    }


def test_only_gpu_feature_discovery_can_label_nodes(secured: Secured) -> None:
    cluster = Cluster.of(secured.lab.inventory())
    own = "nvidia-device-plugin"
    cluster.apply(node_feature("default"), node_feature(own))
    label = rf"{{.metadata.labels.feature\.node\.kubernetes\.io/of-{own}}}"
    cluster.kubectl("wait", "node/gpu1", "--timeout=60s", f"--for=jsonpath={label}=true")
    assert "feature.node.kubernetes.io/of-default" not in cluster.get("node", "gpu1")["metadata"]["labels"]
    for namespace in ("default", own):
        cluster.kubectl("delete", "nodefeature", "test", "--namespace", namespace)


def test_a_second_run_changes_nothing(secured: Secured) -> None:
    run = play(secured.lab.path, *secured.arguments).expect_unchanged()
    assert secured.found(run.output) == []


def test_check_mode_predicts_that_passwords_are_removed_and_a_run_removes_them(secured: Secured) -> None:
    predicted = play(secured.lab.path, "-vvv", "--diff", "--check").expect_success()
    run = play(secured.lab.path, "-vvv", "--diff").expect_success()
    assert predicted.changed() and secured.found(predicted.output + run.output) == []
    for host in secured.lab.inventory().hosts.values():
        assert secured.holders(host) == {}, host.name
    play(secured.lab.path).expect_unchanged()
