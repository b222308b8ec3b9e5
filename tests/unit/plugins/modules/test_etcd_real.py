# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of etcd with three members of etcd itself, if the lab has built the programs."""

from __future__ import annotations

import contextlib
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import Authority
from backup_host import BackupHost
from restore_host import RestoreHost, host

from lab import paths

__all__ = ["host"]

NAMES = ("cp1", "cp2", "cp3")


def program(name: str, version: str) -> Path:
    return paths.cache_root() / "components" / name / version / name


class Cluster:
    def __init__(self, root: Path, authority: Authority, version: str, run: Any) -> None:
        self.root, self.version, self.run_module = root, version, run
        self.pki = root / "pki"
        self.pki.mkdir()
        (self.pki / "ca.crt").write_text(authority.pem)
        for name in ("server", "peer", "healthcheck-client"):
            certificate, key = authority.issue(name)
            (self.pki / f"{name}.crt").write_text(certificate)
            (self.pki / f"{name}.key").write_text(key)
        ports = iter(free_ports(2 * len(NAMES)))
        self.urls = {name: [f"https://127.0.0.1:{next(ports)}" for _side in range(2)] for name in NAMES}
        self.processes = {name: self._start(name) for name in NAMES}

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        client, peer = self.urls[name]
        files = {"cert-file": "server.crt", "key-file": "server.key", "trusted-ca-file": "ca.crt"}
        options = {
            "name": name,
            "data-dir": self.root / name,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": ",".join(f"{each}={urls[1]}" for each, urls in self.urls.items()),
            "client-cert-auth": "true",
            "unsafe-no-fsync": "true",
            **{f"{prefix}{option}": self.pki / file for prefix in ("", "peer-") for option, file in files.items()},
        }
        argv = [str(program("etcd", self.version)), *(f"--{key}={value}" for key, value in options.items())]
        log = (self.root / f"{name}.log").open("wb")
        return subprocess.Popen(argv, stdout=log, stderr=log)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def module(self, name: str, **options: Any) -> dict[str, Any]:
        given = {
            "endpoint": self.urls["cp1"][0],
            "pki": str(self.pki),
            "etcdctl": str(program("etcdctl", self.version)),
            **options,
        }
        result: dict[str, Any] = self.run_module(f"etcd_{name}", given)
        return result

    def put(self, key: str, value: str) -> None:
        files = {"cacert": "ca.crt", "cert": "server.crt", "key": "server.key"}
        options = [f"--{option}={self.pki / file}" for option, file in files.items()]
        argv = [str(program("etcdctl", self.version)), "put", key, value, f"--endpoints={self.urls['cp1'][0]}"]
        subprocess.run([*argv, *options], check=True, capture_output=True)

    def get(self, key: str, *further: str) -> str:
        files = {"cacert": "ca.crt", "cert": "server.crt", "key": "server.key"}
        options = [f"--{option}={self.pki / file}" for option, file in files.items()]
        argv = [str(program("etcdctl", self.version)), "get", key, "--print-value-only", *further]
        argv.append(f"--endpoints={self.urls['cp1'][0]}")
        return subprocess.run([*argv, *options], check=True, capture_output=True, text=True).stdout.strip()

    def wait_for(self, healthy: int) -> dict[str, Any]:
        """Wait until so many voters are healthy, as after an election."""
        deadline = time.monotonic() + 60
        while True:
            found = self.module("info", timeout=1)
            if found.get("healthy") == healthy:
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.2)


def free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _each in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@pytest.fixture(params=["v3.6.8", "v3.7.1"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, authority: Authority, run_module: Any) -> Iterator[Cluster]:
    missing = [name for name in ("etcd", "etcdctl", "etcdutl") if not program(name, request.param).is_file()]
    if missing:
        pytest.skip(f"the lab has not built {', '.join(missing)} {request.param}")
    made = Cluster(tmp_path, authority, request.param, run_module)
    yield made
    for name in NAMES:
        made.kill(name)


def test_a_cluster_loses_its_members_one_by_one(cluster: Cluster, tmp_path: Path) -> None:
    found = cluster.wait_for(3)
    cluster.put("key", "value")
    assert {each["name"]: each["status"]["version"] for each in found["members"]} == dict.fromkeys(
        NAMES, cluster.version[1:]
    )
    assert sum(each["leader"] for each in found["members"]) == 1
    assert (found["quorum"], found["may_fail"]) == (2, 1)

    saving = {"path": str(tmp_path / "snapshot.db"), "etcdutl": str(program("etcdutl", cluster.version))}
    saved = cluster.module("snapshot", **saving)
    assert saved["snapshot"]["size"] > 0 < saved["snapshot"]["revision"]
    assert stat.S_IMODE((tmp_path / "snapshot.db").stat().st_mode) == 0o600
    assert not list(tmp_path.glob(".snapshot*"))

    cluster.kill("cp3")
    cluster.wait_for(2)
    began = time.monotonic()
    found = cluster.module("info", timeout=2)
    assert time.monotonic() - began < 2 + 2
    assert [each["name"] for each in found["members"] if each["health"] == "unhealthy"] == ["cp3"]
    assert "cp3 is unhealthy" in cluster.module("member", member="cp2", timeout=1)["msg"]

    removed = cluster.module("member", member="cp3")
    assert (removed["changed"], removed["reason"]) == (True, "2 of 2 voters healthy; after this, 0 of 2 may fail")
    found = cluster.wait_for(2)
    assert (found["voters"], found["may_fail"]) == (2, 0)
    assert not cluster.module("member", member="cp3")["changed"]

    cluster.kill("cp2")
    found = cluster.module("info", timeout=1)
    assert (found["has_quorum"], found["voters"], found["may_fail"]) == (False, 2, 0)
    assert "etcd has no quorum" in cluster.module("member", member="cp2", timeout=1)["msg"]
    again = cluster.module("snapshot", **saving)
    assert again["snapshot"]["total_keys"] == saved["snapshot"]["total_keys"]


def test_the_second_member_goes_and_the_last_one_stays(cluster: Cluster) -> None:
    cluster.wait_for(3)
    for name, left in (("cp3", 2), ("cp2", 1)):
        assert cluster.module("member", member=name)["after"]["voters"] == left
        cluster.wait_for(left)
    assert "it is the last voter of etcd" in cluster.module("member", member="cp1")["msg"]


def test_a_backup_is_restored_on_trial_and_a_damaged_snapshot_is_rejected(cluster: Cluster, tmp_path: Path) -> None:
    cluster.wait_for(3)
    for number in range(20):
        cluster.put(f"/registry/{number}", "x" * 1000)
    programs = {name: str(program(name, cluster.version)) for name in ("etcd", "etcdctl", "etcdutl")}
    host = BackupHost(tmp_path / "host", endpoint=cluster.urls["cp1"][0], **programs)
    shutil.copytree(cluster.pki, host.root / "etc/kubernetes/pki/etcd", dirs_exist_ok=True)
    done = host.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert host.state["good"]["keys"] == 21
    before = host.archives
    damaging = tmp_path / "etcdctl"
    # In a page of the database, as a disk would do it.
    damage = 'dd if=/dev/zero of="$3" bs=1 seek=9000 count=4000 conv=notrunc status=none'
    damaging.write_text(
        f'#!/bin/sh\n{programs["etcdctl"]} "$@" || exit\ncase "$*" in "snapshot save"*) {damage};; esac\n'
    )
    damaging.chmod(0o755)
    host.settings["etcdctl"] = str(damaging)
    assert host.run().returncode == 1
    assert host.state["attempt"]["step"] in ("snapshot", "drill")
    assert host.archives == before


@contextlib.contextmanager
def restored_etcd(cluster: Cluster, data: Path) -> Iterator[str]:
    """Provide the URL of an etcd with the data of a restored control plane."""
    client, peer = (f"https://127.0.0.1:{port}" for port in free_ports(2))
    files = {"cert-file": "server.crt", "key-file": "server.key", "trusted-ca-file": "ca.crt"}
    options: dict[str, Any] = {
        "name": "cp1",
        "data-dir": data,
        "listen-client-urls": client,
        "advertise-client-urls": client,
    }
    options |= {f"{prefix}{option}": cluster.pki / file for prefix in ("", "peer-") for option, file in files.items()}
    argv = [str(program("etcd", cluster.version)), *(f"--{name}={value}" for name, value in options.items())]
    argv += [f"--listen-peer-urls={peer}", "--client-cert-auth=true"]
    with (cluster.root / "restored.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            yield client
        finally:
            process.kill()


def test_the_archive_of_a_backup_is_what_a_restore_reads(
    cluster: Cluster, host: RestoreHost, authority: Authority, tmp_path: Path
) -> None:
    cluster.wait_for(3)
    cluster.put("/registry/namespaces/kube-system", '{"metadata": {"uid": "of this cluster"}}')
    cluster.put("/registry/configmaps/default/kept", "before")
    programs = {name: str(program(name, cluster.version)) for name in ("etcd", "etcdctl", "etcdutl")}
    backed_up = BackupHost(tmp_path / "backed-up", endpoint=cluster.urls["cp1"][0], **programs)
    pki = backed_up.root / "etc/kubernetes/pki"
    shutil.copytree(cluster.pki, pki / "etcd", dirs_exist_ok=True)
    (pki / "ca.crt").write_text(authority.pem)
    (pki / "ca.key").write_text("key of the CA")
    done = backed_up.run()
    assert (done.returncode, done.stderr) == (0, "")
    taken = backed_up.state["good"]
    cluster.put("/registry/configmaps/default/kept", "after")
    cluster.put("/registry/configmaps/default/lost", "after")
    host.archive = Path(taken["archive"])
    host.make_old()
    shutil.copytree(cluster.pki, host.etc / "pki/etcd")
    command = f"    - etcd\n    - --listen-client-urls={cluster.urls['cp1'][0]}\n"
    host.put("etc/kubernetes/manifests/etcd.yaml", f"spec:\n  containers:\n  - name: etcd\n    command:\n{command}")
    given = {"etcdutl": programs["etcdutl"], "etcdctl": programs["etcdctl"]}
    previews = {"etcd": host.run(check=True, **given)}
    # etcd writes to its database every 100 ms.
    time.sleep(0.5)
    for name in NAMES:
        cluster.kill(name)
    shutil.rmtree(host.root / "var/lib/etcd")
    shutil.copytree(cluster.root / "cp1/member", host.root / "var/lib/etcd/member")
    previews["files"] = host.run(check=True, **given)
    for source, preview in previews.items():
        assert not preview["failed"], preview
        assert (preview["source"], preview["backup"]["revision"]) == (source, taken["revision"])
        assert preview["lost"] == [{"kind": "configmaps", "namespace": "default", "name": "lost"}]
        assert "1 configmaps in default: kept" in str(preview["lines"])

    result = host.run(**given)
    assert not result["failed"], result
    with restored_etcd(cluster, host.root / "var/lib/etcd") as url:
        cluster.urls["cp1"][0] = url
        found = cluster.wait_for(1)
        # Members and clients of before can't go on with it.
        assert [(each["name"], each["peer_urls"]) for each in found["members"]] == [
            ("cp1", ["https://192.0.2.11:2380"])
        ]
        with pytest.raises(subprocess.CalledProcessError) as refused:
            cluster.get("/registry/configmaps/default/kept", f"--rev={taken['revision']}")
        assert "has been compacted" in refused.value.stderr
        assert cluster.get("/registry/configmaps/default/kept") == "before"
        assert cluster.get("/registry/configmaps/default/lost") == ""
