# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import json
import shutil
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._files import locked
from apiserver import Authority
from etcd_databases import database
from restore_host import CONFIG, IDENTITY, RestoreHost, archive, host, manifest, parts

__all__ = ["host"]

DONE = ["stop", "aside", "database", "keys", "configuration", "start", "node"]


def moved(host: RestoreHost) -> dict[str, str]:
    """Return the files that were moved aside, with their first bytes."""
    found = {}
    for aside in (host.root / "var/lib/gpulab").glob("aside-*"):
        for path in aside.rglob("*"):
            if path.is_file():
                found[str(path.relative_to(aside))] = path.read_bytes()[:3].decode("latin-1")
    return found


def test_new_machine_is_restored(host: RestoreHost) -> None:
    result = host.run()
    assert not result["failed"], result
    assert result["changed"] and result["restored"] and result["source"] == "unknown" and result["moved_aside"] == []
    assert host.data.read_bytes() == database("snapshot")
    assert not (host.root / "var/lib/etcd/restored").exists()
    assert (host.etc / "pki/sa.key").read_text() == "key of tokens"
    assert (host.etc / "pki/sa.key").stat().st_mode & 0o777 == 0o600
    assert (host.etc / "pki/oidc.crt").read_text() == "a file of the administrator"
    # kubeadm creates the certificates of this host.
    assert (host.etc / "pki/apiserver.crt").read_text() == "new"
    assert (host.etc / "kubelet.conf").read_text() == "new"
    assert json.loads((host.root / "var/lib/gpulab/cluster.json").read_text()) == {"name": "lab"}
    # The archive's version differs from that of the packages.
    assert "kubernetesVersion: v1.36.5" in (host.root / "config").read_text()
    (restored,) = [line for line in host.log if line.startswith("etcdutl")]
    for words in ("--name cp1", "--initial-cluster cp1=https://192.0.2.11:2380", "--bump-revision 1000000000"):
        assert words in restored
    assert "--mark-compacted" in restored and "--initial-cluster-token restored-" in restored
    phases = [line.partition("phase ")[2] for line in host.log if line.startswith("kubeadm")]
    confs = [f"kubeconfig {name}" for name in ("admin", "super-admin", "controller-manager", "scheduler", "kubelet")]
    last = ["kubelet-finalize all", "mark-control-plane"]
    assert phases == ["certs all", *confs, "etcd local", "control-plane all", "kubelet-start", *last]
    assert json.loads(host.record.read_text())["step"] == "done"
    # Nothing of the archive stays.
    assert not (host.root / "var/lib/gpulab/restore/work").exists()


@pytest.mark.parametrize(
    ("there", "after"), [("", '{"name": "lab"}'), ('{"name": "own"}', '{"name": "own"}'), ("{", '{"name": "lab"}')]
)
def test_record_of_the_names_is_replaced_only_if_it_is_damaged(host: RestoreHost, there: str, after: str) -> None:
    host.put("var/lib/gpulab/cluster.json", there)
    assert not host.run()["failed"]
    assert (host.root / "var/lib/gpulab/cluster.json").read_text() == after


def test_second_run_does_not_restore_again(host: RestoreHost) -> None:
    host.run()
    before = host.files()
    again = host.run()
    assert not again["changed"] and again["restored"]
    assert "add -e restore_again=true" in again["lines"][0]
    assert host.files() == before
    assert host.run(again=True)["changed"]


@pytest.mark.parametrize("lost", ["etc/kubernetes", "var/lib/etcd"])
def test_host_that_was_restored_and_has_lost_its_data_again_is_restored_again(host: RestoreHost, lost: str) -> None:
    """The disk with /var/lib/gpulab has survived."""
    assert host.run()["changed"]
    shutil.rmtree(host.root / lost)
    result = host.run()
    assert result["changed"] and not result["failed"], result
    assert host.data.read_bytes() == database("snapshot")


def test_what_a_broken_control_plane_had_is_moved_aside(host: RestoreHost) -> None:
    host.make_old()
    # A user's pod has an etcd of its own.
    (host.root / "running").write_text("etcd kube-apiserver workload research/etcd")
    result = host.run()
    assert not result["failed"], result
    assert moved(host).keys() == {
        "etc/kubernetes/admin.conf",
        "etc/kubernetes/manifests/etcd.yaml",
        "etc/kubernetes/pki/ca.crt",
        "etc/kubernetes/pki/old.crt",
        "var/lib/etcd/member/snap/db",
    }
    assert (host.etc / "manifests/own.yaml").read_text() == "old"
    # The kubelet is of the cluster in the archive, so it keeps its certificate and its configuration.
    assert (host.root / "var/lib/kubelet/config.yaml").read_text() == "old"
    assert not any("kubelet-start" in line or "kubeconfig kubelet" in line for line in host.log)
    stops = [line for line in host.log if line == "systemctl stop kubelet" or line.startswith("crictl stop")]
    # Those that write to etcd come first, and the API server does not wait for clients that watch.
    assert stops == [
        "systemctl stop kubelet",
        "crictl stop --timeout 3 kube-apiserver",
        "crictl stop --timeout 30 etcd",
    ]


def test_an_interrupted_change_is_not_continued_in_what_was_restored(host: RestoreHost) -> None:
    host.make_old()
    record = host.root / "var/lib/gpulab/control-plane/change.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    assert not host.run()["failed"]
    assert not record.exists()


def test_kubelet_of_another_cluster_is_set_up_again(host: RestoreHost, other_authority: Authority) -> None:
    host.make_old(ca=other_authority.pem)
    result = host.run()
    assert not result["failed"], result
    assert {"etc/kubernetes/kubelet.conf", "var/lib/kubelet/pki/kubelet-client-current.pem"} <= moved(host).keys()
    assert (host.root / "var/lib/kubelet/config.yaml").read_text() == "new"


@pytest.mark.parametrize("damage", ["expired", "certificate", "config.yaml", "kubelet.conf"])
def test_kubelet_that_can_not_start_is_set_up_again(host: RestoreHost, damage: str) -> None:
    """After a long time without power, or a power failure; without a kubelet, there is no API server to help it."""
    host.make_old()
    certificate = "var/lib/kubelet/pki/kubelet-client-current.pem"
    expired = "".join(host.authority.issue("system:node:cp1", days=-1))
    name = {"config.yaml": "var/lib/kubelet/config.yaml", "kubelet.conf": "etc/kubernetes/kubelet.conf"}
    host.put(name.get(damage, certificate), expired if damage == "expired" else "")
    result = host.run()
    assert not result["failed"], result
    assert {"etc/kubernetes/kubelet.conf", certificate} <= moved(host).keys()
    assert (host.etc / "kubelet.conf").read_text() == "new"
    assert (host.root / "var/lib/kubelet/config.yaml").read_text() == "new"


def test_check_mode_is_the_preview_and_changes_nothing(host: RestoreHost) -> None:
    host.make_old()
    before = host.files()
    running = {"uid": "uid-train", "namespace": "research", "name": "train-x7k2p", "gpus": 2}
    result = host.run(check=True, pods={"gpu1": [running], "gpu2": None})
    assert result["changed"] and not result["restored"]
    assert host.files() == before
    assert result["source"] == "files"
    assert {"kind": "configmaps", "namespace": "research", "name": "new"} in result["lost"]
    assert [(each["name"], each["gpus"], each["owner"]) for each in result["ending"]] == [
        ("train-x7k2p", 2, "Job/train")
    ]
    assert "The pods of gpu2 are unknown: they could not be read." in result["lines"]
    assert not any(line.startswith(("kubeadm", "etcdutl", "systemctl")) for line in host.log)


STOPS = {
    "database": "etcdutl",
    "configuration": "control-plane",
    "node": "mark-control-plane",
}


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("stop", STOPS.values())
def test_next_run_continues_after_an_interruption(host: RestoreHost, stop: str, old: bool) -> None:
    if old:
        host.make_old()
    (host.root / "stop").write_text(stop)
    assert host.run()["failed"]
    aside = moved(host)
    (host.root / "stop").unlink()
    # A power failure has emptied what no one had synced.
    for path in host.etc.rglob("*"):
        if path.is_file() and path.read_text() == "new" and stop == "control-plane":
            path.write_text("")
    result = host.run()
    assert not result["failed"], result
    assert "Its restore was interrupted, and continues." in result["lines"]
    # The data of before are still there, and were moved once.
    assert moved(host) == aside
    assert host.data.read_bytes() == database("snapshot")
    assert json.loads(host.record.read_text())["step"] == "done"


def test_run_waits_for_one_that_is_still_active(host: RestoreHost) -> None:
    """The controller of the other one was killed, and its module goes on."""
    directory = host.root / "var/lib/gpulab/restore"
    directory.mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool, locked(directory):
        found = pool.submit(host.run)
        time.sleep(2)
        assert not found.done() and not host.record.exists()
    assert found.result()["changed"]


@pytest.mark.parametrize("step", ["", *DONE[:-1]])
def test_each_step_can_be_repeated(host: RestoreHost, step: str) -> None:
    """A run that was killed between a step and its record repeats this step."""
    host.make_old()
    assert not host.run()["failed"]
    aside = {*(host.root / "var/lib/gpulab").glob("aside-*/**/*")}
    found = json.loads(host.record.read_text())
    host.record.write_text(json.dumps({**found, "step": step}))
    result = host.run()
    assert not result["failed"], result
    assert host.data.read_bytes() == database("snapshot")
    assert aside and all(path.exists() for path in aside)


def test_restore_of_another_archive_that_was_interrupted_is_finished_first(
    host: RestoreHost, authority: Authority
) -> None:
    (host.root / "stop").write_text("certs")
    host.run()
    content = {**parts(authority), "record/other.json": b"{}"}
    archive(host.archive, manifest(authority, content), content)
    result = host.run()
    assert result["failed"] and "the restore of another archive" in result["msg"]


def test_host_is_not_initialized_before_its_restore_is_finished(host: RestoreHost, run_module: Any) -> None:
    host.make_old()
    (host.root / "stop").write_text("etcdutl")
    assert host.run()["failed"]
    args = {"config": "kind: InitConfiguration\n", "root": str(host.root), "api_timeout": 0}
    result = run_module("kubeadm_init", args, check=True)
    assert result["failed"] and "a restore of a backup was interrupted on this host" in result["msg"]


@pytest.mark.parametrize(
    "arguments",
    [
        "- name: encryption-provider-config\n    value: /etc/kubernetes/enc/keys.yaml",
        "  encryption-provider-config: /etc/kubernetes/enc/keys.yaml",
        "- name: v\n    value: '2'",
    ],
)
def test_key_of_encrypted_secrets_is_where_the_api_server_reads_it(
    host: RestoreHost, authority: Authority, arguments: str
) -> None:
    config = f"{CONFIG}apiServer:\n  extraArgs:\n  {arguments}\n"
    content = {**parts(authority), "kubernetes/kubeadm-config.yaml": config.encode()}
    content["kubernetes/encryption-config.yaml"] = b"the key"
    archive(host.archive, manifest(authority, content), content)
    result = host.run()
    assert not result["failed"], result
    path, is_named = host.etc / "enc/keys.yaml", "encryption" in arguments
    assert path.exists() == is_named
    assert ("does not name the file with its key" in str(result["lines"])) != is_named
    assert not is_named or (path.read_bytes(), path.stat().st_mode & 0o777) == (b"the key", 0o600)


def test_restore_to_another_directory_of_etcd_continues(host: RestoreHost, authority: Authority) -> None:
    config = f"{CONFIG}etcd:\n  local:\n    dataDir: /mnt/fast disk+1/etcd\n"
    content = {**parts(authority), "kubernetes/kubeadm-config.yaml": config.encode()}
    archive(host.archive, manifest(authority, content), content)
    (host.root / "stop").write_text("certs")
    assert "interrupted" in host.run()["msg"]
    (host.root / "stop").unlink()
    result = host.run()
    assert not result["failed"], result
    assert (host.root / "mnt/fast disk+1/etcd/member/snap/db").read_bytes() == database("snapshot")


def test_damaged_record_is_reported(host: RestoreHost) -> None:
    host.record.parent.mkdir(parents=True)
    host.record.write_text('{"schema": 1, "aside": ["/etc/../.."]}')
    result = host.run()
    assert result["failed"] and "it is damaged" in result["msg"]


def refused(host: RestoreHost, words: str, **args: Any) -> None:
    """Assert that the archive is refused in a real run and in check mode, before anything changes."""
    host.make_old()
    before = host.files()
    for check in (True, False):
        result = host.run(check=check, **args)
        assert result["failed"] and words in result["msg"], result
        assert IDENTITY not in json.dumps(result)
    assert host.files() == before
    assert not any(line.startswith(("kubeadm", "etcdutl", "systemctl")) for line in host.log)


@pytest.mark.parametrize("size", [0, 300, 1024, 2048, 30000, -1024 * 12])
def test_truncated_archive_is_refused(host: RestoreHost, size: int) -> None:
    host.archive.write_bytes(host.archive.read_bytes()[:size])
    refused(host, "The archive is truncated")


def test_changed_part_is_refused(host: RestoreHost) -> None:
    host.archive.write_bytes(host.archive.read_bytes().replace(b"key of tokens", b"key of others", 1))
    refused(host, "The archive was changed: Error while reading pki/sa.key")


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.size = kind, link, 3 if kind == tarfile.REGTYPE else 0
    return made


@pytest.mark.parametrize(
    ("added", "words"),
    [
        (member("../../etc/cron.d/x"), "its manifest does not list"),
        (member("/etc/cron.d/x"), "its manifest does not list"),
        (member("pki/sa.key", tarfile.SYMTYPE, "/etc/shadow"), "is not a regular file"),
        (member("pki/sa.key", tarfile.LNKTYPE, "etcd.db"), "is not a regular file"),
        (member("pki", tarfile.DIRTYPE), "is not a regular file"),
        (member("pki/device", tarfile.CHRTYPE), "is not a regular file"),
        (member("pki/sa.pub"), "it has pki/sa.pub twice"),
    ],
)
def test_other_member_is_refused(host: RestoreHost, added: tarfile.TarInfo, words: str) -> None:
    with tarfile.open(host.archive, "a") as tar:
        tar.addfile(added, io.BytesIO(b"abc"))
    refused(host, words)


def test_archive_without_a_manifest_is_refused(host: RestoreHost) -> None:
    with tarfile.open(host.archive, "w") as tar:
        tar.addfile(member("etcd.db"), io.BytesIO(b"abc"))
    refused(host, "it does not begin with manifest.json")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"cluster_name": "other"}, "of the cluster lab, and this one is other"),
        ({"kubernetes_version": "1.37.1"}, "of Kubernetes 1.36.4, and 1.37.1 would be installed"),
        ({"trusted": {"gpu1": ["sha256:" + "0" * 64]}}, "another CA than gpu1"),
        ({"api_names": []}, "The nodes reach the API at api.lab.internal"),
        ({"endpoints": {"gpu1": "192.0.2.99:6443"}}, "The nodes reach the API at 192.0.2.99"),
        ({"control_planes": ["cp1", "cp2"]}, "several control planes (cp1, cp2)"),
    ],
)
def test_archive_that_does_not_fit_is_refused(host: RestoreHost, args: dict[str, Any], words: str) -> None:
    refused(host, words, **args)


def test_control_plane_of_another_cluster_is_not_replaced(host: RestoreHost, other_authority: Authority) -> None:
    """The inventory has the wrong machine."""
    host.make_old(ca=other_authority.pem)
    (host.etc / "pki/ca.crt").write_text(other_authority.pem)
    before = host.files()
    for check in (True, False):
        result = host.run(check=check)
        assert result["failed"] and "another CA than this host, whose cluster would end" in result["msg"], result
    assert host.files() == before
    (host.root / "stop").write_text("certs")
    assert "interrupted" in host.run(accept=["ca"])["msg"]
    (host.root / "stop").unlink()
    # What was accepted is replaced, so it is not asked again.
    assert not host.run()["failed"]


@pytest.mark.parametrize("key", ["pki/ca.key", "pki/front-proxy-ca.key", "pki/etcd/ca.key"])
def test_archive_without_a_key_that_signs_certificates_is_refused(
    host: RestoreHost, authority: Authority, key: str
) -> None:
    content = parts(authority)
    del content[key]
    archive(host.archive, manifest(authority, content), content)
    refused(host, f"The archive lacks {key}")


@pytest.mark.parametrize(
    ("server", "sans"),
    [
        ("", ["api.lab.internal"]),
        ("apiServer: {}\n", ["api.lab.internal"]),
        ('apiServer:\n  extraArgs:\n  - name: v\n    value: "4"\n', ["api.lab.internal"]),
        ("apiServer:\n  certSANs:\n  - own.example\n", ["api.lab.internal", "own.example"]),
    ],
)
def test_archive_from_before_a_migration_of_the_endpoint_serves_the_name_that_the_nodes_use(
    host: RestoreHost, authority: Authority, server: str, sans: list[str]
) -> None:
    config = CONFIG.replace("api.lab.internal", "192.0.2.11").replace("networking", f"{server}networking")
    content = {**parts(authority), "kubernetes/kubeadm-config.yaml": config.encode()}
    archive(host.archive, manifest(authority, content), content)
    result = host.run(endpoints={"gpu1": "api.lab.internal:6443", "gpu2": "192.0.2.11:6443"})
    assert not result["failed"], result
    (used,) = [
        each for each in yaml.safe_load_all((host.root / "config").read_text()) if "controlPlaneEndpoint" in each
    ]
    assert used["apiServer"]["certSANs"] == sans
    assert used["controlPlaneEndpoint"] == result["endpoint"] == "192.0.2.11:6443"


def test_missing_archive_is_refused(host: RestoreHost) -> None:
    host.archive.unlink()
    refused(host, "there is no such file on this host")


def encrypt(host: RestoreHost, data: bytes | None = None) -> None:
    target = host.archive.with_suffix(".tar.age")
    target.write_bytes(b"age" + (host.archive.read_bytes() if data is None else data))
    host.archive.unlink()
    host.archive = target


def test_encrypted_archive_is_decrypted_with_the_identity_from_standard_input(host: RestoreHost) -> None:
    encrypt(host)
    result = host.run(identity=f"# created\n{IDENTITY}\n")
    assert not result["failed"], result
    assert IDENTITY not in (host.root / "age-arguments").read_text()
    assert not any(IDENTITY.encode() in data for data in host.files().values())
    assert host.data.read_bytes() == database("snapshot")


@pytest.mark.parametrize(
    ("identity", "words"),
    [
        ("", "no identity of age was given"),
        ("nonsense", "is not an identity of age"),
        ("AGE-SECRET-KEY-1OTHER", "encrypted for other recipients than the identity"),
    ],
)
def test_wrong_identity_is_refused(host: RestoreHost, identity: str, words: str) -> None:
    encrypt(host)
    refused(host, words, identity=identity)


@pytest.mark.parametrize("start", [b"xxx", None])
def test_encrypted_archive_that_was_changed_or_is_empty_is_refused(host: RestoreHost, start: bytes | None) -> None:
    encrypt(host)
    host.archive.write_bytes(start + host.archive.read_bytes()[3:] if start else b"")
    refused(host, "it is truncated or was changed", identity=IDENTITY)
