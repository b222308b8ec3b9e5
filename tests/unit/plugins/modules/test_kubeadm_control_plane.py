# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.undo import RENEWAL, Undo, interruption
from apiserver import ApiServer, Authority, kubeconfig
from control_plane_host import COMPONENTS, ControlPlaneHost, cluster, healthy_port


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with healthy_port() as found:
        yield found


@pytest.fixture
def host(
    tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority, port: int
) -> ControlPlaneHost:
    made = ControlPlaneHost(tmp_path / "host", programs, run_module, api, authority, port)
    made.install()
    return made


def test_what_runs_as_configured_is_not_touched(host: ControlPlaneHost) -> None:
    result = host.run()
    assert (result["changed"], result["changes"], host.started) == (False, [], [])
    assert not host.record.exists()


def test_a_directory_of_patches_that_does_not_exist_is_left_out(host: ControlPlaneHost) -> None:
    node = {"kind": "InitConfiguration", "patches": {"directory": "/etc/kubernetes/patches"}}
    assert not host.run(node=node)["failed"]
    (host.etc / "patches").mkdir()
    assert not host.run(node=node)["failed"]


def test_an_address_that_the_inventory_has_for_another_purpose_is_no_difference(host: ControlPlaneHost) -> None:
    node = {"kind": "InitConfiguration", "localAPIEndpoint": {"advertiseAddress": "198.51.100.7", "bindPort": 6443}}
    assert (host.run(node=node)["changes"], host.started) == ([], [])


def test_a_changed_flag_restarts_its_component_alone(host: ControlPlaneHost) -> None:
    wanted = cluster(apiServer={"v": "4", "event-ttl": "2h"})
    before = host.manifest()
    changes = ["kube-apiserver: --event-ttl (not set) -> 2h", "kube-apiserver: --v 2 -> 4"]
    preview = host.run(check=True, cluster=wanted)
    assert (preview["changed"], preview["changes"], preview["restarted"]) == (True, changes, ["kube-apiserver"])
    assert (host.manifest(), host.started) == (before, [])
    result = host.run(cluster=wanted)
    assert (result["changed"], result["changes"], host.started) == (True, changes, ["kube-apiserver"])
    assert "--event-ttl=2h" in host.manifest()
    assert not host.record.exists()
    assert not host.run(cluster=wanted)["changed"]


def test_the_api_server_comes_first_and_etcd_last(host: ControlPlaneHost) -> None:
    parts = {"etcd": {"v": "4"}, "scheduler": {"v": "4"}, "controllerManager": {"v": "4"}, "apiServer": {"v": "4"}}
    host.run(cluster=cluster(**parts))
    assert host.started == list(COMPONENTS)


def test_the_api_server_is_not_given_the_time_that_it_would_wait_for_watching_clients(host: ControlPlaneHost) -> None:
    host.run(certificates="all")
    stopped = dict(line.split()[:2:-1] for line in host.log if line.startswith("crictl stop --timeout"))
    assert int(stopped["kube-apiserver"]) <= 5 < int(stopped["etcd"])


def test_an_api_server_that_the_kubelet_stops_is_not_given_that_time_either(host: ControlPlaneHost) -> None:
    path = host.root / "containers"
    state = json.loads(path.read_text())
    state["kube-apiserver"]["ending"] = True
    path.write_text(json.dumps(state))
    host.api.before_answer = lambda: host.api.answers.update(
        {"/healthz": (500, "") if "ending" in path.read_text() and "--v=4" in host.manifest() else (200, "ok")}
    )
    assert not host.run(cluster=cluster(apiServer={"v": "4"}))["failed"]
    assert "crictl stop --timeout 3 kube-apiserver" in host.log


@pytest.mark.parametrize("part", ["apiServer", "scheduler", "etcd"])
def test_what_does_not_start_is_undone_with_its_last_lines(host: ControlPlaneHost, part: str) -> None:
    before = {name: host.manifest(name) for name in COMPONENTS}
    parts = {"apiServer": {"v": "4"}, "controllerManager": {"v": "4"}}
    parts[part] = {"broken": "true"}
    result = host.run(cluster=cluster(**parts), upload=True)
    assert result["failed"]
    assert result["undone"]
    assert "its container ends as soon as it has started" in result["msg"]
    assert "Error: unknown flag: --broken, token=********" in result["msg"]
    assert "The change was undone on this control plane, which is healthy again." in result["msg"]
    assert {name: host.manifest(name) for name in COMPONENTS} == before
    assert not host.record.exists()
    assert not any("upload-config" in line for line in host.log)
    assert not host.run()["changed"]


def test_a_component_that_runs_but_is_not_healthy_is_undone(host: ControlPlaneHost) -> None:
    # The API server answers again when its old manifest is back.
    host.api.before_answer = lambda: host.api.answers.update(
        {"/healthz": (500, {"message": "no"}) if "--v=4" in host.manifest() else (200, "ok")}
    )
    result = host.run(cluster=cluster(apiServer={"v": "4"}), health_timeout=3)
    assert "kube-apiserver is not healthy: it was not healthy within 3 s" in result["msg"]
    assert "answers 500 to /healthz: no" in result["msg"]
    assert "--v=2" in host.manifest()


def test_a_failure_that_can_not_be_undone_is_continued_by_the_next_run(host: ControlPlaneHost) -> None:
    before = host.manifest()
    (host.root / "broken").write_text("kube-apiserver")
    result = host.run(cluster=cluster(apiServer={"v": "4"}))
    assert "It could not be undone: kube-apiserver is not healthy" in result["msg"]
    assert json.loads(host.record.read_text())["state"] == "undoing"
    (host.root / "broken").unlink()
    (host.root / "containers").unlink()
    result = host.run()
    assert (result["changed"], result["interrupted"], result["changes"]) == (True, True, [])
    assert (host.manifest(), host.record.exists()) == (before, False)


@pytest.mark.parametrize("held", [False, True])
def test_a_component_that_ended_meanwhile_and_is_back_soon_is_no_reason_to_undo(
    host: ControlPlaneHost, held: bool
) -> None:
    path = host.root / "containers"
    state = json.loads(path.read_text())
    # The kubelet holds back one that has ended often until its container is removed.
    state["kube-controller-manager"].update(attempt=5, running=False, held=held)
    path.write_text(json.dumps(state))
    assert not host.run(cluster=cluster(apiServer={"v": "4"}))["failed"]
    assert "--v=4" in host.manifest()


@pytest.mark.parametrize("point", COMPONENTS)
def test_an_interrupted_change_is_completed(host: ControlPlaneHost, point: str) -> None:
    parts = {name: {"v": "4"} for name in ("apiServer", "controllerManager", "scheduler", "etcd")}
    host.interrupt(host.crictl, point, cluster=cluster(**parts))
    assert host.record.exists()
    result = host.run(cluster=cluster(**parts))
    assert (result["changed"], result["interrupted"]) == (True, True)
    assert all("--v=4" in host.manifest(name) for name in COMPONENTS)
    assert not host.record.exists()
    assert not host.run(cluster=cluster(**parts))["changed"]


def test_a_file_from_the_future_is_waited_for_no_longer_than_others(host: ControlPlaneHost) -> None:
    host.interrupt(host.crictl, "kube-apiserver", certificates="all", compare=False)
    later = time.time() + 400 * 86400
    # A renewal of this test does not write them.
    for name in ("pki/apiserver.key", "pki/etcd/server.key"):
        os.utime(host.etc / name, (later, later))
    assert not host.run(certificates="all", compare=False)["failed"]
    assert host.started == list(COMPONENTS)


def test_an_interrupted_change_that_is_no_longer_wanted_is_taken_back(host: ControlPlaneHost) -> None:
    before = host.manifest()
    host.interrupt(host.crictl, "kube-apiserver", cluster=cluster(apiServer={"v": "4"}))
    # The cluster's configuration has never been changed, but this is no edit of the manifest.
    result = host.run(recorded=cluster())
    assert result["changes"] == ["undone: kube-apiserver: --v 4 -> 2"]
    assert host.manifest() == before


def test_a_change_that_fails_after_an_interruption_returns_to_what_was_healthy(host: ControlPlaneHost) -> None:
    before = host.manifest()
    host.interrupt(host.crictl, "kube-apiserver", cluster=cluster(apiServer={"v": "4"}))
    assert host.run(cluster=cluster(apiServer={"broken": "true"}))["undone"]
    assert host.manifest() == before


def test_an_interrupted_change_is_repaired_without_the_configuration(host: ControlPlaneHost) -> None:
    before = host.manifest()
    host.interrupt(host.crictl, "kube-apiserver", cluster=cluster(apiServer={"broken": "true"}))
    result = host.run(cluster={}, compare=False)
    assert (result["failed"], result["changed"], result["interrupted"]) == (False, True, True)
    assert "The change was undone on this control plane" in str(result["warnings"])
    assert (host.manifest(), host.record.exists()) == (before, False)


def test_a_change_of_another_cluster_is_forgotten(host: ControlPlaneHost) -> None:
    wanted = cluster(apiServer={"v": "4"})
    host.interrupt(host.crictl, "kube-apiserver", cluster=wanted)
    assert interruption(str(host.root))["interrupted"]
    (host.etc / "pki/ca.crt").write_text(Authority().pem)
    assert not interruption(str(host.root))["interrupted"]
    assert not host.run(check=True, cluster=wanted)["interrupted"]
    assert host.record.exists()
    result = host.run(cluster=wanted)
    assert (result["changed"], result["interrupted"], "--v=4" in host.manifest()) == (False, False, True)
    assert not list(host.record.parent.iterdir())


def test_a_change_belongs_to_its_cluster_while_the_ca_can_not_be_read(host: ControlPlaneHost) -> None:
    before, authority = host.manifest(), (host.etc / "pki/ca.crt").read_text()
    host.interrupt(host.crictl, "kube-apiserver", cluster=cluster(apiServer={"v": "4"}))
    (host.etc / "pki/ca.crt").write_text("")
    assert interruption(str(host.root))["interrupted"]
    (host.etc / "pki/ca.crt").write_text(authority)
    host.run()
    assert host.manifest() == before


def test_edits_of_a_manifest_are_kept_and_never_removed_by_accident(host: ControlPlaneHost) -> None:
    host.edit("kube-apiserver", "--profiling=false")
    recorded = cluster()
    result = host.run(recorded=recorded)
    edit = "kube-apiserver: --profiling false -> (not set)"
    assert (result["changed"], result["edits"]) == (False, [edit])
    # Other components change.
    result = host.run(recorded=recorded, cluster=cluster(scheduler={"v": "4"}))
    assert host.started == ["kube-scheduler"]
    result = host.run(recorded=recorded, cluster=cluster(apiServer={"v": "4"}))
    assert f"so the change would remove them: {edit}." in result["msg"]
    assert "--profiling=false" in host.manifest()
    # The inventory decides about what it names.
    flags = {"v": "4", "profiling": "true"}
    host.run(recorded=recorded, cluster=cluster(apiServer=flags))
    assert "--profiling=true" in host.manifest()


def test_what_the_running_manifest_lacks_comes_with_the_next_change(host: ControlPlaneHost) -> None:
    path = host.manifests / "kube-apiserver.yaml"
    path.write_text(path.read_text().replace("    - --v=2\n", ""))
    host.settle()
    result = host.run(recorded=cluster())
    assert (result["changed"], result["edits"]) == (False, ["kube-apiserver: --v (not set) -> 2"])
    result = host.run(recorded=cluster(), cluster=cluster(apiServer={"event-ttl": "2h"}))
    assert (result["changed"], result["edits"]) == (True, [])
    assert result["changes"] == ["kube-apiserver: --v (not set) -> 2", "kube-apiserver: --event-ttl (not set) -> 2h"]


@pytest.mark.parametrize(
    "members, down, parts, said",
    [
        ("cp1 cp2 cp3", "cp2 cp3", {"apiServer": {"v": "4"}}, "etcd has no quorum"),
        ("cp1 cp2 cp3", "cp2", {"etcd": {"v": "4"}}, "etcd would lose its quorum"),
        ("cp1 cp2", "", {"etcd": {"v": "4"}}, "A cluster of two members stops when either of them stops"),
        ("cp1 cp2 cp3", "cp2", {"apiServer": {"v": "4"}}, ""),
        ("cp1 cp2 cp3", "", {"etcd": {"v": "4"}}, ""),
        ("cp1", "", {"etcd": {"v": "4"}}, ""),
    ],
)
def test_etcd_is_asked_before_anything_changes(
    host: ControlPlaneHost, members: str, down: str, parts: dict[str, Any], said: str
) -> None:
    (host.root / "members").write_text(members)
    (host.root / "members-down").write_text(down)
    preview = host.run(check=True, cluster=cluster(**parts))
    result = host.run(cluster=cluster(**parts))
    assert result["failed"] == preview["failed"] == bool(said)
    assert preview.get("msg", "") == result.get("msg", "")
    assert said in result.get("msg", "")
    assert bool(host.started) != bool(said)


def test_a_preview_does_not_need_etcdctl(host: ControlPlaneHost) -> None:
    missing = {"etcdctl": "/nowhere/etcdctl", "cluster": cluster(etcd={"v": "4"})}
    assert host.run(check=True, **missing)["changes"] == ["etcd: --v (not set) -> 4"]
    assert host.run(**missing)["failed"]


def test_without_permission_to_restart_only_the_stored_configuration_changes(host: ControlPlaneHost) -> None:
    wanted, asked = cluster(apiServer={"v": "4"}), {"restart": False, "upload": True}
    result = host.run(cluster=wanted, **asked)
    assert (result["changed"], result["pending"], result["uploaded"]) == (False, True, False)
    assert (result["changes"], result["restarted"]) == (["kube-apiserver: --v 2 -> 4"], ["kube-apiserver"])
    assert (host.started, host.record.exists(), "--v=2" in host.manifest()) == ([], False, True)
    assert not any("upload-config" in line for line in host.log)
    result = host.run(cluster=cluster(certificateValidityPeriod="720h"), **asked)
    assert (result["changed"], result["pending"], result["uploaded"]) == (True, False, True)
    assert (host.started, host.log[-1]) == ([], "kubeadm init phase upload-config kubeadm")
    host.interrupt(host.crictl, "kube-apiserver", cluster=wanted)
    assert host.run(**asked)["pending"]
    assert (host.record.exists(), "--v=4" in host.manifest()) == (True, True)


def test_a_long_edit_is_shown_in_part(host: ControlPlaneHost) -> None:
    host.edit("kube-apiserver", f"--{'x' * 9000}=1")
    assert [len(line) for line in host.run(recorded=cluster())["edits"]] == [503]
    assert len(host.run(recorded=cluster(), cluster=cluster(apiServer={"v": "4"}))["msg"]) < 1000


def test_the_flags_with_which_a_member_was_added_stay(host: ControlPlaneHost) -> None:
    text = host.manifest("etcd").replace(
        "--initial-cluster=cp1=https://127.0.0.1:2380\n",
        "--initial-cluster=cp0=https://10.0.0.1:2380,cp1=https://127.0.0.1:2380\n"
        "    - --initial-cluster-state=existing\n",
    )
    (host.manifests / "etcd.yaml").write_text(text)
    host.settle()
    assert not host.run()["changed"]
    host.run(cluster=cluster(etcd={"v": "4"}))
    assert host.manifest("etcd") == text.replace("    - --name=cp1\n", "    - --name=cp1\n    - --v=4\n")


def test_an_image_that_is_missing_is_noticed_before_anything_changes(host: ControlPlaneHost) -> None:
    (host.root / "images").touch()
    result = host.run(cluster=cluster(apiServer={"v": "4"}))
    assert "Error while pulling the image registry.example/kube-apiserver:v1.36.5" in result["msg"]
    assert not host.record.exists()


def test_a_configuration_that_kubeadm_rejects_changes_nothing(host: ControlPlaneHost) -> None:
    assert "unknown field" in host.run(cluster=cluster(apiServer={"v": "nonsense"}))["msg"]
    assert host.started == []


@pytest.mark.parametrize("compare", [True, False])
def test_certificates_in_another_directory_are_refused(host: ControlPlaneHost, compare: bool) -> None:
    wanted = cluster(certificatesDir="/etc/pki/kubernetes")
    if not compare:
        path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
        text = "certificatesDir: /etc/pki/kubernetes\nkind: ClusterConfiguration\n"
        host.api.answers[path] = (200, {"data": {"ClusterConfiguration": text}})
        wanted = cluster()
    result = host.run(cluster=wanted, recorded=wanted, compare=compare, certificates="all")
    assert "its certificates are in /etc/pki/kubernetes (certificatesDir), but only" in result["msg"]
    assert (host.started, host.record.exists()) == ([], False)


def test_a_new_name_gets_a_new_certificate(host: ControlPlaneHost) -> None:
    host.seed(host.root / "seed", "apiserver", "api.example")
    wanted = cluster(apiServer={"certSANs": ["api.example"]})
    preview = host.run(check=True, cluster=wanted, recorded=cluster())
    assert preview["changes"] == ["kube-apiserver: names in its certificate +api.example"]
    result = host.run(cluster=wanted, recorded=cluster())
    assert (result["restarted"], host.started) == (["kube-apiserver"], ["kube-apiserver"])
    for end in ("crt", "key"):
        made = (host.root / f"seed/apiserver-api.example.{end}").read_text()
        assert (host.etc / f"pki/apiserver.{end}").read_text() == made
    assert (host.etc / "pki/apiserver.key").stat().st_mode & 0o777 == 0o600
    assert not host.run(cluster=wanted)["changed"]
    # A name that the inventory no longer has is removed, because the cluster's configuration has it.
    result = host.run(recorded=wanted)
    assert result["changes"] == ["kube-apiserver: names in its certificate -api.example"]


def test_links_and_owners_stay(host: ControlPlaneHost) -> None:
    path, real = host.etc / "pki/apiserver.crt", host.root / "real.crt"
    path.rename(real)
    path.symlink_to(real)
    real.chmod(0o640)
    before = real.read_text()
    host.seed(host.root / "seed", "apiserver", "api.example")
    wanted = cluster(apiServer={"certSANs": ["api.example"]})
    host.interrupt(host.crictl, "kube-apiserver", cluster=wanted, recorded=cluster())
    assert (path.is_symlink(), real.read_text() != before) == (True, True)
    assert not host.run(recorded=cluster())["failed"]
    assert (path.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, before, 0o640)


def test_a_new_name_needs_the_key_of_the_ca(host: ControlPlaneHost) -> None:
    (host.etc / "pki/ca.key").unlink()
    assert not host.run(cluster=cluster(apiServer={"certSANs": ["LocalHost"]}))["changed"]
    result = host.run(cluster=cluster(apiServer={"certSANs": ["api.example"]}))
    assert "it lacks api.example, and the CA's key is not on this host" in result["msg"]


def test_names_that_only_the_certificate_has_are_kept(host: ControlPlaneHost) -> None:
    host.seed(host.root / "seed", "apiserver", "api.example")
    for end in ("crt", "key"):
        (host.etc / f"pki/apiserver.{end}").write_text((host.root / f"seed/apiserver-api.example.{end}").read_text())
    result = host.run(recorded=cluster())
    assert (result["changed"], result["edits"]) == (False, ["kube-apiserver: name api.example in its certificate"])
    host.seed(host.root / "seed", "apiserver", "other.example")
    result = host.run(recorded=cluster(), cluster=cluster(apiServer={"certSANs": ["other.example"]}))
    assert "its certificate has names that are neither in" in result["msg"]
    assert "Add them to kubeadm_cluster_configuration and run gpulab.kubernetes.site to keep them" in result["msg"]


def test_name_that_an_interrupted_change_of_the_endpoint_has_added_is_kept(host: ControlPlaneHost) -> None:
    host.seed(host.root / "seed", "apiserver", "api.example")
    for end in ("crt", "key"):
        (host.etc / f"pki/apiserver.{end}").write_text((host.root / f"seed/apiserver-api.example.{end}").read_text())
    kept = {"keep_names": ["api.example", "api.other"]}
    result = host.run(recorded=cluster(), **kept)
    assert (result["changed"], result["edits"]) == (False, [])
    host.seed(host.root / "seed", "apiserver", "other.example", "api.example")
    result = host.run(recorded=cluster(), cluster=cluster(apiServer={"certSANs": ["other.example"]}), **kept)
    assert result["changes"] == ["kube-apiserver: names in its certificate +other.example"]


def test_renewed_certificates_restart_what_reads_them(host: ControlPlaneHost) -> None:
    result = host.run(certificates="all", compare=False)
    assert (result["changed"], host.started) == (True, list(COMPONENTS))
    assert (host.etc / "scheduler.conf").read_text().endswith("# renewed\n")
    assert not host.record.parent.joinpath("before").exists()


def test_the_lifetime_is_that_of_the_configuration_in_the_cluster(host: ControlPlaneHost) -> None:
    document = "apiVersion: kubeadm.k8s.io/v1beta4\ncertificateValidityPeriod: 720h0m0s\nkind: ClusterConfiguration\n"
    path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config"
    host.api.answers[path] = (200, {"data": {"ClusterConfiguration": document}})
    host.run(certificates="all", compare=False)
    assert (host.root / "lifetime").read_text() == "720h0m0s"


def test_a_renewal_after_which_a_component_is_unhealthy_is_undone(host: ControlPlaneHost) -> None:
    before = (host.etc / "scheduler.conf").read_text()
    (host.root / "broken").write_text("kube-scheduler")
    result = host.run(certificates="all", compare=False)
    # The old one can't start either, because this test breaks both.
    assert "kube-scheduler is not healthy" in result["msg"]
    assert (host.etc / "scheduler.conf").read_text() == before


@pytest.mark.parametrize("point", ["controller-manager.conf", "server.crt"])
def test_an_interrupted_renewal_is_repeated_with_the_former_certificates(host: ControlPlaneHost, point: str) -> None:
    host.interrupt(host.kubeadm, point, certificates="all", compare=False)
    host.run(certificates="all", compare=False)
    for name in ("controller-manager.conf", "scheduler.conf", "pki/etcd/server.crt"):
        assert (host.etc / name).read_text().count("# renewed") == 1
    assert host.started == list(COMPONENTS)


def test_a_renewal_that_still_runs_is_awaited(host: ControlPlaneHost) -> None:
    args = host.args(certificates="all", compare=False)
    host._interrupt("kubeadm_control_plane", args, host.kubeadm, "scheduler.conf", False)
    assert "Error while waiting for another kubeadm" in host.run(timeout=1)["msg"]
    (host.root / "stop").unlink()
    assert not host.run()["failed"]


def test_an_interrupted_renewal_is_finished_by_a_run_that_does_not_renew(host: ControlPlaneHost) -> None:
    host.interrupt(host.crictl, "kube-apiserver", certificates="all", compare=False)
    host.run()
    assert host.started == list(COMPONENTS)
    assert not host.record.exists()


@pytest.mark.parametrize("changes", [{"cluster": {}, "compare": False}, {}])
def test_what_an_interrupted_renewal_has_damaged_is_renewed_from_the_copies(
    host: ControlPlaneHost, changes: dict[str, Any]
) -> None:
    host.interrupt(host.crictl, "kube-apiserver", certificates="all", compare=False)
    names = ("admin.conf", "pki/apiserver.crt", "pki/apiserver.key", "pki/etcd/healthcheck-client.key")
    for name in names:
        (host.etc / name).write_text("")
    preview = host.run(check=True, **changes)
    assert preview["changes"] == ["certificates: renewed again, because their renewal was interrupted"]
    assert preview["restarted"] == list(COMPONENTS)
    assert host.run(**changes)["interrupted"]
    assert (host.etc / "admin.conf").read_text().count("# renewed") == 1
    assert all((host.etc / name).read_text() for name in names)
    assert not host.record.exists()


def test_files_are_restorable_if_their_copies_are_whole(host: ControlPlaneHost) -> None:
    (host.etc / "scheduler.conf").write_text("")
    host.interrupt(host.kubeadm, "apiserver.crt", certificates="all", compare=False)
    (host.etc / "pki/sa.key").write_text("")
    assert interruption(str(host.root)) == {"interrupted": True, "restorable": ["/etc/kubernetes/pki/apiserver.crt"]}
    host.record.write_text("{")
    assert interruption(str(host.root)) == {"interrupted": True, "restorable": []}
    host.record.unlink()
    assert interruption(str(host.root)) == {"interrupted": False, "restorable": []}


def test_a_damaged_admin_conf_is_restored_before_the_renewal_is_repeated(host: ControlPlaneHost) -> None:
    before = (host.etc / "admin.conf").read_text()
    host.interrupt(host.kubeadm, "admin.conf", certificates="all", compare=False)
    preview = host.run(check=True, certificates="expired", compare=False)
    assert (host.etc / "admin.conf").read_text() == ""
    result = host.run(certificates="expired", compare=False)
    assert result["changes"] == preview["changes"] == ["certificates: restored /etc/kubernetes/admin.conf (damaged)"]
    assert (result["restarted"], host.started) == ([], [])
    assert ((host.etc / "admin.conf").read_text(), host.record.exists()) == (before, True)
    assert not host.run(certificates="expired", compare=False)["changed"]
    assert host.run(certificates="all", compare=False)["interrupted"]
    assert (host.etc / "admin.conf").read_text() == f"{before}# renewed\n"


def test_an_expired_admin_conf_is_renewed_although_its_renewal_was_interrupted(host: ControlPlaneHost) -> None:
    (host.root / "seed/renewed/admin.conf").write_text((host.etc / "admin.conf").read_text())
    pair = host.authority.issue("kubernetes-admin", days=-1)
    (host.etc / "admin.conf").write_text(kubeconfig(host.api.url, host.authority.pem, *pair))
    Undo(str(host.root)).begin(["/etc/kubernetes/admin.conf"], RENEWAL, cluster())
    (host.etc / "admin.conf").write_text("")
    assert host.run(certificates="expired", compare=False)["changes"] == [
        "certificates: restored /etc/kubernetes/admin.conf (damaged)",
        "certificates: renewed /etc/kubernetes/admin.conf (expired)",
    ]
    assert host.started == []
    assert not host.run(certificates="expired", compare=False)["failed"]


def test_copies_stay_while_a_certificate_is_damaged(host: ControlPlaneHost) -> None:
    (host.root / "seed/renewed/admin.conf").write_text("")
    before = (host.etc / "admin.conf").read_text()
    result = host.run(certificates="all", compare=False)
    assert "admin.conf: it is damaged" in result["msg"]
    assert result["undone"]
    assert (host.etc / "admin.conf").read_text() == before


def test_a_renewal_of_expired_certificates_is_repeated_from_the_copies(host: ControlPlaneHost) -> None:
    host.seed(host.root / "seed", "apiserver", "expired", days=-1)
    for end in ("crt", "key"):
        (host.etc / f"pki/apiserver.{end}").write_text((host.root / f"seed/apiserver-expired.{end}").read_text())
    (host.root / "seed/renewed/apiserver.crt").write_text((host.root / "seed/apiserver-expired.crt").read_text())
    host.interrupt(host.crictl, "kube-apiserver", certificates="expired", compare=False)
    names = ("pki/apiserver.crt", "pki/apiserver.key", "admin.conf")
    for name in names:
        (host.etc / name).write_text("")
    assert host.run(certificates="expired", compare=False)["changes"]
    assert all((host.etc / name).read_text() for name in names)
    assert host.copy("admin.conf").exists()


@pytest.mark.parametrize("state", ["changing", "undoing"])
def test_expired_certificates_are_renewed_although_a_change_was_interrupted(host: ControlPlaneHost, state: str) -> None:
    before, valid = host.manifest(), (host.etc / "pki/apiserver.crt").read_text()
    (host.root / "seed/renewed/apiserver.crt").write_text(valid)
    host.interrupt(host.crictl, "kube-apiserver", cluster=cluster(apiServer={"v": "4"}))
    host.record.write_text(host.record.read_text().replace("changing", state))
    host.expire("pki/apiserver.crt")
    # Nothing can become healthy.
    (host.root / "members-down").write_text("cp1")
    host.api.answers["/healthz"] = (500, {"message": "no"})
    preview = host.run(check=True, certificates="expired", compare=False)
    result = host.run(certificates="expired", compare=False)
    renewed = "certificates: renewed (expired: /etc/kubernetes/pki/apiserver.crt)"
    assert result["changes"] == preview["changes"] == ["undone: kube-apiserver: --v 4 -> 2", renewed]
    assert (result["failed"], host.manifest()) == (False, before)
    assert host.copy("admin.conf").exists()
    (host.root / "members-down").unlink()
    host.api.answers["/healthz"] = (200, "ok")
    assert not host.run(verify=True, compare=False)["failed"]
    assert not host.record.exists()


def test_a_renewal_that_was_undone_halfway_is_repeated_if_the_copies_have_expired(host: ControlPlaneHost) -> None:
    host.interrupt(host.crictl, "kube-apiserver", certificates="all", compare=False)
    host.record.write_text(host.record.read_text().replace("changing", "undoing"))
    valid = (host.etc / "admin.conf").read_text()
    (host.root / "seed/renewed/admin.conf").write_text(valid)
    pair = host.authority.issue("kubernetes-admin", days=-1)
    expired = kubeconfig(host.api.url, host.authority.pem, *pair)
    for path in (host.etc / "admin.conf", host.copy("admin.conf")):
        path.write_text(expired)
    assert not host.run(certificates="expired", compare=False)["failed"]
    result = host.run(certificates="all", compare=False)
    assert result["changes"] == ["certificates: renewed again, because their renewal was interrupted"]
    assert ((host.etc / "admin.conf").read_text(), host.record.exists()) == (valid, False)


def test_half_a_change_is_not_forgotten_by_a_repair(host: ControlPlaneHost) -> None:
    wanted = cluster(apiServer={"v": "4"}, scheduler={"v": "4"})
    host.interrupt(host.crictl, "kube-apiserver", cluster=wanted)
    host.run(cluster={}, compare=False)
    assert "--v=2" in host.manifest()
    result = host.run(recorded=cluster())
    assert (result["changed"], result["edits"]) == (False, [])


def test_only_expired_certificates_are_renewed_if_that_is_wanted(host: ControlPlaneHost) -> None:
    # A run that was interrupted while it removed the copies has left them.
    host.copy("pki").mkdir(parents=True)
    host.copy("pki/apiserver.crt").write_text(host.authority.issue("kubernetes", days=-1)[0])
    assert not host.run(certificates="expired", compare=False)["changed"]
    host.seed(host.root / "seed", "apiserver", "expired", days=-1)
    pair = (host.root / "seed/apiserver-expired.crt").read_text()
    for end in ("crt", "key"):
        (host.etc / f"pki/apiserver.{end}").write_text((host.root / f"seed/apiserver-expired.{end}").read_text())
    # Nothing answers while other control planes have expired certificates, too.
    (host.root / "members-down").write_text("cp1")
    host.api.answers["/healthz"] = (500, {"message": "no"})
    result = host.run(certificates="expired", compare=False)
    assert result["changes"] == ["certificates: renewed (expired: /etc/kubernetes/pki/apiserver.crt)"]
    assert host.started == list(COMPONENTS)
    # The copies stay until it is verified that everything is healthy.
    assert host.copy("pki/apiserver.crt").read_text() == pair
    assert "not healthy" in host.run(verify=True, compare=False, health_timeout=1)["msg"]
    assert host.copy("pki/apiserver.crt").read_text() == pair
    (host.root / "members-down").unlink()
    host.api.answers["/healthz"] = (200, "ok")
    assert not host.run(verify=True, compare=False)["failed"]
    assert host.started == list(COMPONENTS)
    assert not host.record.parent.joinpath("before").exists()
    assert not host.record.exists()


def test_an_expired_certificate_that_no_component_reads_restarts_nothing(host: ControlPlaneHost) -> None:
    healthy = (host.etc / "pki/etcd/healthcheck-client.crt").read_text()
    (host.root / "seed/renewed/healthcheck-client.crt").write_text(healthy)
    host.expire("pki/etcd/healthcheck-client.crt")
    (host.root / "members").write_text("cp1 cp2 cp3")
    (host.root / "members-down").write_text("cp2")
    result = host.run(certificates="expired", compare=False)
    name = "/etc/kubernetes/pki/etcd/healthcheck-client.crt"
    assert result["changes"] == [f"certificates: renewed {name} (expired)"]
    assert (result["changed"], result["restarted"], host.started) == (True, [], [])
    assert (host.etc / "pki/etcd/healthcheck-client.crt").read_text() == healthy
    assert not host.record.exists()
    assert not host.run(certificates="expired", compare=False)["changed"]


@pytest.mark.parametrize("certificates", ["all", "expired"])
@pytest.mark.parametrize(
    "prevents, said",
    [
        ("clock", "s behind the controller's"),
        ("key", "pki/ca.key) is not on this host. Renew them where the key is, and copy them to this host."),
        ("ca", "pki/ca.crt is valid from"),
        ("etcd/ca", "pki/etcd/ca.crt is valid from"),
        ("damaged", "pki/ca.crt is damaged"),
        ("future", "a renewal does not help. CAs are not replaced by this collection"),
    ],
)
def test_a_renewal_that_can_not_help_changes_nothing(
    host: ControlPlaneHost, certificates: str, prevents: str, said: str
) -> None:
    host.expire("pki/apiserver.crt")
    before = (host.etc / "pki/apiserver.crt").read_text()
    wanted: dict[str, Any] = {"certificates": certificates, "compare": False}
    if prevents == "clock":
        wanted["controller_time"] = time.time() + 400
    elif prevents == "key":
        (host.etc / "pki/ca.key").unlink()
    elif prevents == "damaged":
        (host.etc / "pki/ca.crt").write_text("")
    elif prevents == "future":
        (host.etc / "pki/ca.crt").write_text(host.authority.issue("kubernetes", days=3, since=2)[0])
    else:
        host.expire(f"pki/{prevents}.crt")
    for check in (True, False):
        assert said in host.run(check=check, **wanted)["msg"]
    assert (host.started, host.record.exists()) == ([], False)
    assert (host.etc / "pki/apiserver.crt").read_text() == before
    # Nothing else is refused for this reason.
    assert not host.run(**{**wanted, "certificates": "keep"})["failed"]


def test_a_ca_that_ends_soon_is_a_warning(host: ControlPlaneHost) -> None:
    result = host.run(certificates="all", compare=False, controller_time=time.time() - 200)
    assert not result["failed"]
    assert "pki/ca.crt ends on" in str(result["warnings"])
    (host.etc / "pki/ca.crt").write_text(host.authority.issue("kubernetes", days=400)[0])
    (host.etc / "pki/etcd/ca.crt").unlink()
    assert "ends on" not in str(host.run(check=True, certificates="all", compare=False).get("warnings"))


def test_a_certificate_that_is_not_valid_yet_is_renewed_like_an_expired_one(host: ControlPlaneHost) -> None:
    (host.etc / "pki/apiserver.crt").write_text(host.authority.issue("kubernetes", days=3, since=2)[0])
    result = host.run(check=True, certificates="expired", compare=False)
    assert result["changes"] == ["certificates: renewed (expired: /etc/kubernetes/pki/apiserver.crt)"]


def test_health_is_verified_on_demand(host: ControlPlaneHost) -> None:
    host.api.answers["/healthz"] = (500, {"message": "no"})
    assert not host.run()["failed"]
    result = host.run(verify=True, health_timeout=1)
    assert "kube-apiserver is not healthy" in result["msg"]
    assert "undone" not in result


def test_the_configuration_is_stored_after_the_change(host: ControlPlaneHost) -> None:
    host.run(cluster=cluster(apiServer={"v": "4"}), upload=True)
    assert host.log[-1] == "kubeadm init phase upload-config kubeadm"
    assert not any("upload-config" in line for line in host.log[:-1])
    assert host.run(cluster=cluster(apiServer={"v": "4"}), upload=True, check=True)["uploaded"]
    assert sum("upload-config" in line for line in host.log) == 1


def test_without_a_kubelet_nothing_changes(host: ControlPlaneHost, programs: Any) -> None:
    programs.add("systemctl", "exit 3")
    result = host.run(cluster=cluster(apiServer={"v": "4"}))
    assert "the kubelet, which starts its static pods, is not running" in result["msg"]
    assert "--v=2" in host.manifest()


def test_a_damaged_record_is_explained(host: ControlPlaneHost) -> None:
    host.record.parent.mkdir(parents=True)
    host.record.write_text('{"schema": 1, "state": "changing", "since": 0, "files": {"/etc/shadow": 384}}')
    assert "the record of a change that was interrupted: it is damaged" in host.run()["msg"]
