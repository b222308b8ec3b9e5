# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.differences import node_of
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.etcd_gate import endpoint_of
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.leaves import check_without_key, compare_names
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.manifests import (
    Probe,
    compare,
    flag,
    image,
    probe,
    settings,
    with_membership,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.static_pods import (
    Container,
    RestartCounter,
    read_containers,
    started,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.undo import (
    CHANGING,
    CONFIGURATION,
    NONE,
    NOTHING,
    RENEWAL,
    REPEAT,
    UNDO,
    UNDOING,
    Undo,
    next_step,
)

# From kubeadm 1.36, shortened.
MANIFEST = """apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint: 10.88.0.10:6443
  creationTimestamp: null
  labels:
    component: kube-apiserver
    tier: control-plane
  name: kube-apiserver
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=10.88.0.10
    - --enable-bootstrap-token-auth=true
    - --service-account-issuer=https://kubernetes.default.svc.cluster.local
    - --tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384
    - --v
    env:
    - name: HTTPS_PROXY
      value: http://user:password@proxy:3128
    image: registry.k8s.io/kube-apiserver:v1.36.5
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 10.88.0.10
        path: /livez
        port: probe-port
        scheme: HTTPS
    name: kube-apiserver
    ports:
    - containerPort: 6443
      name: probe-port
      protocol: TCP
    readinessProbe:
      failureThreshold: 3
      httpGet:
        host: 10.88.0.10
        path: /readyz
        port: probe-port
        scheme: HTTPS
    resources:
      requests:
        cpu: 250m
    startupProbe:
      failureThreshold: 24
      httpGet:
        path: /livez
    volumeMounts:
    - mountPath: /etc/ssl/certs
      name: ca-certs
      readOnly: true
    - mountPath: /usr/share/ca-certificates
      name: ca-certs
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
  - hostPath:
      path: /etc/ssl/certs
      type: DirectoryOrCreate
    name: ca-certs
status: {}
"""
SERVER = "kube-apiserver"


def test_settings_have_the_names_that_people_know() -> None:
    found = settings(MANIFEST, SERVER)
    assert found["--service-account-issuer"] == "https://kubernetes.default.svc.cluster.local"
    assert found["--v"] == "true"
    assert found["image"] == "registry.k8s.io/kube-apiserver:v1.36.5"
    assert found["env[HTTPS_PROXY].value"] == "http://user:password@proxy:3128"
    assert found["volumeMounts[1].mountPath"] == "/usr/share/ca-certificates"
    assert found["spec.volumes[ca-certs].hostPath.path"] == "/etc/ssl/certs"
    assert not [name for name in found if name.startswith(("startupProbe", "status", "metadata.creation"))]


def test_a_repeated_flag_keeps_all_values() -> None:
    text = MANIFEST.replace("    - --v\n", "    - --v=1\n    - --v=2\n")
    assert settings(text, SERVER)["--v"] == "1 2"


def test_a_component_is_asked_as_the_kubelet_does() -> None:
    assert probe(MANIFEST, SERVER) == Probe("https", "10.88.0.10", 6443, "/readyz")
    numbered = MANIFEST.replace("port: probe-port", "port: 10257").replace("readinessProbe", "otherProbe")
    assert probe(numbered, SERVER) == Probe("https", "10.88.0.10", 10257, "/livez")
    with pytest.raises(DomainError, match="no probe"):
        probe(MANIFEST.replace("Probe:", "Other:"), SERVER)


def test_image_and_flags_are_found() -> None:
    assert (image(MANIFEST, SERVER), flag(MANIFEST, SERVER, "advertise-address"), flag(MANIFEST, SERVER, "x")) == (
        "registry.k8s.io/kube-apiserver:v1.36.5",
        "10.88.0.10",
        "",
    )


@pytest.mark.parametrize("text", ["", "kind: Pod\n", "a: &b 1\n", "spec:\n  containers:\n  - name: kube-apiserver\n"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(DomainError, match="Error while reading the manifest of kube-apiserver"):
        settings(text, SERVER)


@pytest.mark.parametrize(
    "running, wanted, recorded, changes, edits",
    [
        ("a", "a", "a", False, False),
        ("a", "b", "a", True, False),
        ("a", "b", None, True, False),
        # Somebody has edited the manifest.
        ("edited", "a", "a", False, True),
        (None, "a", "a", False, True),
        # The inventory names it: it decides.
        ("edited", "b", "a", True, False),
    ],
)
def test_changes_and_edits(running: str | None, wanted: str, recorded: str | None, changes: bool, edits: bool) -> None:
    def flags(value: str | None) -> dict[str, str]:
        return {} if value is None else {"--x": value}

    found = compare(SERVER, flags(running), flags(wanted), None if recorded is None else flags(recorded))
    assert (bool(found.changes), bool(found.edits)) == (changes, edits)


@pytest.mark.parametrize("name", ["etc-ca-certificates", "usr-share-ca-certificates", "etc-pki", "etc-pki-ca-trust"])
def test_directories_of_cas_that_appeared_later_are_no_difference(name: str) -> None:
    mount = f"    - mountPath: /x\n      name: {name}\n      readOnly: true\n"
    volume = f"  - hostPath:\n      path: /x\n      type: DirectoryOrCreate\n    name: {name}\n"
    before = MANIFEST.replace("    - mountPath: /usr/share/ca-certificates\n      name: ca-certs\n", "")
    text = before.replace("    volumeMounts:\n", f"    volumeMounts:\n{mount}")
    text = text.replace("  volumes:\n", f"  volumes:\n{volume}")
    assert settings(text, SERVER) == settings(before, SERVER)
    assert settings(text.replace(name, "my-volume"), SERVER) != settings(before, SERVER)


@pytest.mark.parametrize(
    "setting, value, expected",
    [
        ("env[HTTPS_PROXY].value", "http://user:password@proxy:3128", "********"),
        ("env[ANYTHING].value", "hunter2", "********"),
        ("env[ANYTHING].name", "ANYTHING", "ANYTHING"),
        ("--oidc-client-secret", "hunter two", "********"),
        ("--kms-token", "hunter2", "********"),
        ("--audit-webhook", "http://user:password@proxy:3128", "http://********@proxy:3128"),
        ("--token-auth-file", "/etc/tokens.csv", "/etc/tokens.csv"),
        ("--event-ttl", "2h", "2h"),
    ],
)
def test_secrets_of_settings_are_masked(setting: str, value: str, expected: str) -> None:
    found = compare(SERVER, {}, {setting: value})
    assert str(found.changes[0]) == f"kube-apiserver: {setting} (not set) -> {expected}"


def test_flags_of_the_first_start_of_etcd_stay() -> None:
    running = "    - --initial-cluster=a=1,b=2\n    - --initial-cluster-state=existing\n    - --v=1\n"
    rendered = "    - etcd\n    - --initial-cluster=b=2\n    - --v=2\n"
    expected = "    - etcd\n    - --initial-cluster=a=1,b=2\n    - --initial-cluster-state=existing\n    - --v=2\n"
    assert with_membership(rendered, running) == expected
    assert with_membership(rendered, "    - etcd\n") == rendered


CONTAINERS = {
    "containers": [
        {
            "id": "old",
            "metadata": {"name": SERVER, "attempt": 1},
            "state": "CONTAINER_EXITED",
            "createdAt": "1764313200000000000",
        },
        {
            "id": "new",
            "metadata": {"name": SERVER},
            "state": "CONTAINER_RUNNING",
            "createdAt": "1764313300000000000",
        },
    ]
}


@pytest.mark.parametrize(
    "since, before, attempt, state, expected",
    [
        (1764313250, 0, 0, "CONTAINER_RUNNING", True),
        (1764313350, 0, 0, "CONTAINER_RUNNING", False),
        # A container from before a change that was undone.
        (1764313350, 1764313310, 0, "CONTAINER_RUNNING", True),
        (1764313250, 0, 1, "CONTAINER_EXITED", False),
        (1764313250, 0, 2, "CONTAINER_EXITED", False),
        (1764313350, 0, 2, "CONTAINER_EXITED", False),
    ],
)
def test_a_new_container(since: float, before: float, attempt: int, state: str, expected: bool) -> None:
    listed = json.loads(json.dumps(CONTAINERS))
    listed["containers"][1].update(state=state, metadata={"name": SERVER, "attempt": attempt})
    found = read_containers(json.dumps(listed))
    assert [each.id for each in found] == ["new", "old"]
    assert started(found, since, before) is expected


INVENTORY = {
    "kind": "InitConfiguration",
    "localAPIEndpoint": {"advertiseAddress": "192.0.2.1", "bindPort": 6443},
    "nodeRegistration": {"name": "inventory", "criSocket": "x"},
}


@pytest.mark.parametrize(
    "endpoint, port, name, expected",
    [
        ("10.88.0.10:6443", "", "cp1", ("10.88.0.10", 6443, "cp1")),
        ("10.88.0.10:6443", "8443", "cp1", ("10.88.0.10", 8443, "cp1")),
        ("[2001:db8::1]:6443", "", "", ("2001:db8::1", 6443, "inventory")),
        ("", "", "", ("192.0.2.1", 6443, "inventory")),
    ],
)
def test_a_control_plane_is_compared_with_its_own_name_and_addresses(
    endpoint: str, port: str, name: str, expected: tuple[str, int, str]
) -> None:
    text = MANIFEST.replace("10.88.0.10:6443", f'"{endpoint}"')
    text = text.replace("    - --v\n", f"    - --secure-port={port}\n") if port else text
    found = node_of(INVENTORY, settings(text, SERVER), {"--name": name} if name else {})
    local, node = found["localAPIEndpoint"], found["nodeRegistration"]
    assert (local["advertiseAddress"], local["bindPort"], node["name"]) == expected
    assert (found["kind"], node["criSocket"]) == ("InitConfiguration", "x")


def test_an_address_may_be_written_in_several_forms() -> None:
    found = compare_names(["2001:db8::1", "cp1"], ["CP1", "2001:DB8:0::1"], ["2001:db8:0:0::1"])
    assert not found.differ
    assert compare_names(["2001:db8::1", "cp1"], ["cp1"], ["2001:DB8:0::1"]).removed == ("2001:db8::1",)
    check_without_key(["2001:db8::1"], ["2001:db8:0::1"])


@pytest.mark.parametrize(
    "urls, expected",
    [
        ("https://127.0.0.1:2379,https://10.0.0.1:2379", "https://127.0.0.1:2379"),
        ("https://10.0.0.1:2379", "https://10.0.0.1:2379"),
        ("https://[::1]:2379,https://[2001:db8::1]:2379", "https://[::1]:2379"),
        ("", "https://127.0.0.1:2379"),
    ],
)
def test_etcd_is_asked_where_it_listens(urls: str, expected: str) -> None:
    text = MANIFEST.replace("kube-apiserver", "etcd").replace("    - --v\n", f"    - --listen-client-urls={urls}\n")
    assert endpoint_of(text, "https://127.0.0.1:2379") == expected


def container(attempt: int, created: float, exited: bool = True) -> Container:
    return Container(str(attempt), SERVER, not exited, exited, attempt, created)


@pytest.mark.parametrize(
    "seen, expected",
    [
        # Restarts of the pod's whole life do not count.
        ([[container(5, 11)]], False),
        ([[container(5, 11)], [container(8, 12)]], True),
        ([[container(5, 11)], [], [container(7, 12), container(6, 11)]], False),
        ([[container(0, 11)], [container(3, 12)]], True),
        ([[container(0, 11)], [container(3, 12, exited=False)]], False),
        # From before the change.
        ([[container(0, 9)], [container(3, 11)]], False),
        ([[]], False),
    ],
)
def test_only_restarts_since_the_change_count(seen: list[list[Container]], expected: bool) -> None:
    restarts = RestartCounter(10, patience=10)
    assert [restarts.are_too_many(each) for each in seen][-1] == expected


def test_the_kubelet_restarts_once_for_a_component_that_it_holds_back() -> None:
    restarts = RestartCounter(0, patience=10)
    exited, running = (Container("c", "etcd", not ended, ended, 5, 1) for ended in (True, False))
    asked = [([], 0), ([exited], 1), ([exited], 10), ([running], 11), ([exited], 12), ([exited], 22), ([exited], 99)]
    assert [now for containers, now in asked if restarts.are_held_back(containers, now)] == [22]


@pytest.mark.parametrize(
    "state, kind, expected, if_expired",
    [
        (NONE, CONFIGURATION, NOTHING, NOTHING),
        (NONE, RENEWAL, NOTHING, NOTHING),
        (CHANGING, CONFIGURATION, UNDO, UNDO),
        (CHANGING, RENEWAL, REPEAT, REPEAT),
        (UNDOING, CONFIGURATION, UNDO, UNDO),
        (UNDOING, RENEWAL, UNDO, REPEAT),
    ],
)
def test_what_the_run_after_an_interruption_does_first(state: str, kind: str, expected: str, if_expired: str) -> None:
    assert [next_step(state, kind, expired) for expired in (False, True)] == [expected, if_expired]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change owners")
def test_files_return_with_their_owners(tmp_path: Path) -> None:
    path = tmp_path / "etc/kubernetes/file"
    path.parent.mkdir(parents=True)
    path.write_text("before")
    os.chown(path, 1234, 5678)
    Undo(str(tmp_path)).begin(["/etc/kubernetes/file"], CONFIGURATION)
    path.unlink()
    Undo(str(tmp_path)).restore()
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 5678)


def test_files_return_with_their_modes_and_new_ones_are_removed(tmp_path: Path) -> None:
    etc = tmp_path / "etc/kubernetes"
    etc.mkdir(parents=True)
    (etc / "old").write_text("before")
    (etc / "old").chmod(0o640)
    Undo(str(tmp_path)).begin(["/etc/kubernetes/old", "/etc/kubernetes/new"], CONFIGURATION)
    (etc / "old").write_text("after")
    (etc / "new").write_text("after")
    # Another run continues, with one more file.
    again = Undo(str(tmp_path))
    assert (again.state, again.original("/etc/kubernetes/old")) == (CHANGING, "before")
    again.begin(["/etc/kubernetes/old"], CONFIGURATION)
    assert sorted(Undo(str(tmp_path)).restore()) == ["/etc/kubernetes/new", "/etc/kubernetes/old"]
    assert ((etc / "old").read_text(), (etc / "old").stat().st_mode & 0o777) == ("before", 0o640)
    assert not (etc / "new").exists()
    last = Undo(str(tmp_path))
    assert (last.state, last.restore()) == (UNDOING, [])
    last.end()
    assert Undo(str(tmp_path)).state == NONE
    assert not list((tmp_path / "var/lib/gpulab/control-plane").iterdir())
