# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver import ApiServer, Authority, rotated_kubeconfig
from fake_host import FakeHost

TOKEN = "abcdef.0123456789abcdef"
NODE = "/api/v1/nodes/gpu1"

# Changes the files of a host like kubeadm join; at the point named in the file "stop" it hangs.
KUBEADM = """
import pathlib, sys, time

root = pathlib.Path({root!r})
etc, kubelet = root / "etc/kubernetes", root / "var/lib/kubelet"
with (root / "log").open("a") as log:
    log.write(" ".join(["kubeadm", *sys.argv[1:]]) + "\\n")
config = pathlib.Path(sys.argv[sys.argv.index("--config") + 1])
(root / "mode").write_text(oct(config.stat().st_mode & 0o777))
(root / "config").write_text(config.read_text())
discovery = root / "run/gpulab/kubeadm-discovery.yaml"
if discovery.exists():
    (root / "discovery").write_text(discovery.read_text())

def hang(point):
    stop = root / "stop"
    if stop.exists() and stop.read_text() == point:
        (root / "stopped").touch()
        while stop.exists():
            time.sleep(0.05)

def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

for name in ("kubelet.conf", "bootstrap-kubelet.conf", "pki/ca.crt"):
    if (etc / name).exists():
        print("error: error execution phase preflight: [preflight] Some fatal errors occurred:", file=sys.stderr)
        print("\\t[ERROR FileAvailable]: " + name + " already exists", file=sys.stderr)
        sys.exit(1)
hang("preflight")
ready = root / "ready"
if ready.exists():
    put(etc / "bootstrap-kubelet.conf", "token: {token}")
    ready.unlink()
    sys.exit('error: a Node with name "gpu1" and status "Ready" already exists in the cluster. You must delete it')
put(etc / "bootstrap-kubelet.conf", "token: {token}")
hang("bootstrap")
put(etc / "pki/ca.crt", (root / "seed/ca.crt").read_text())
put(kubelet / "config.yaml", "kind: KubeletConfiguration")
hang("waiting")
put(kubelet / "pki/kubelet-client-current.pem", (root / "seed/client.pem").read_text())
put(etc / "kubelet.conf", (root / "seed/kubelet.conf").read_text())
hang("registered")
(etc / "bootstrap-kubelet.conf").unlink()
"""


class Host(FakeHost):  # type: ignore[misc]
    def __init__(self, root: Path, programs: Any, run: Any, api: ApiServer, authority: Authority) -> None:
        super().__init__(root, programs, run)
        self.api = api
        self.authority = authority
        self.etc = root / "etc/kubernetes"
        seed = root / "seed"
        seed.mkdir(parents=True)
        (seed / "ca.crt").write_text(authority.pem)
        (seed / "client.pem").write_text("".join(authority.issue("system:node:gpu1")))
        (seed / "kubelet.conf").write_text(rotated_kubeconfig(api.url, authority.pem))
        body = KUBEADM.replace("{root!r}", repr(str(root))).replace("{token}", TOKEN)
        self.kubeadm = programs.python("kubeadm", body)
        programs.add("systemctl", f'echo "systemctl $*" >> {root}/log')
        # Only join is expected to sync.
        programs.add("sync", f'echo "sync $*" >> {root}/synced')
        api.answers[NODE] = (200, {"kind": "Node"})

    def args(self, **changes: Any) -> dict[str, Any]:
        args = {
            "api_endpoint": {"host": "10.0.0.10", "port": 6443},
            "token": TOKEN,
            "ca_cert_hashes": [self.authority.hash],
            "node_name": "gpu1",
            "api_timeout": 0,
            "timeout": 30,
            "root": str(self.root),
            **changes,
        }
        return {key: value for key, value in args.items() if value is not None}

    def run(self, check: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("kubeadm_join", self.args(**changes), check=check)
        assert TOKEN not in json.dumps(result)
        return result

    def interrupt(self, point: str, kill_kubeadm: bool = True) -> None:
        self._interrupt("kubeadm_join", self.args(), self.kubeadm, point, kill_kubeadm)

    def files(self) -> dict[str, str]:
        roots = (self.root / "etc", self.root / "var")
        paths = (path for root in roots for path in root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_text() for path in paths if path != self.record}

    @property
    def record(self) -> Path:
        path: Path = self.root / "var/lib/gpulab/kubeadm-join.json"
        return path


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority) -> Host:
    return Host(tmp_path / "root", programs, run_module, api, authority)


def test_a_host_joins_once(host: Host) -> None:
    predicted = host.run(check=True, token=None, api_endpoint=None)
    assert (predicted["changed"], predicted["joined"], predicted["node_name"]) == (True, False, None)
    assert host.log == []
    result = host.run(ignore_preflight_errors=["SystemVerification"])
    assert (result["changed"], result["joined"], result["node_name"]) == (True, True, "gpu1")
    path = host.root / "run/gpulab/kubeadm-join.yaml"
    assert host.log == [f"kubeadm join --config {path} --ignore-preflight-errors=SystemVerification"]
    assert (host.root / "mode").read_text() == "0o600"
    assert not path.exists()
    assert (host.root / "synced").read_text() == f"sync --file-system {host.etc} {host.root}/var/lib/kubelet\n"
    assert yaml.safe_load((host.root / "config").read_text()) == {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "token": TOKEN,
                "apiServerEndpoint": "10.0.0.10:6443",
                "caCertHashes": [host.authority.hash],
            }
        },
        "nodeRegistration": {"name": "gpu1"},
    }
    for check in (True, False):
        again = host.run(check=check, token=None, api_endpoint=None)
        assert (again["changed"], again["joined"], again["node_name"]) == (False, True, "gpu1")
    assert host.api.asked[-1] == ("system:node:gpu1", NODE)
    assert len(host.log) == 1


@pytest.mark.parametrize(
    ("cgroup", "ports", "removed"),
    [
        ("/system.slice/containerd.service", [], True),
        ("/system.slice/containerd.service", ["veth1"], False),
        ("/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope", [], False),
    ],
)
def test_what_a_former_pod_network_has_left_is_removed_unless_it_is_in_use(
    host: Host, programs: Any, cgroup: str, ports: list[str], removed: bool
) -> None:
    programs.add("ip", f'echo "ip $*" >> {host.root}/log')
    process, subnet = host.root / "proc/71", host.root / "run/flannel/subnet.env"
    bridge = host.root / "sys/class/net/cni0/brif"
    for directory in (process, subnet.parent, bridge):
        directory.mkdir(parents=True)
    for name in ports:
        (bridge / name).touch()
    (process / "cgroup").write_text(f"0::{cgroup}\n")
    (process / "cmdline").write_text("/usr/bin/containerd\0")
    subnet.write_text("FLANNEL_SUBNET=10.244.3.1/24\n")
    assert not host.run(check=True)["failed"] and host.log == [] and subnet.exists()
    assert host.run()["joined"]
    assert (host.log[0] == "ip link delete cni0") is removed and len(host.log) == 1 + removed
    assert subnet.exists() is not removed


def test_a_node_that_is_registered_late_is_waited_for(host: Host) -> None:
    del host.api.answers[NODE]
    result = host._run("kubeadm_join", host.args())
    assert result["failed"] and "has not registered the node gpu1 within 0 s" in result["msg"]
    # For the next run, this is an interrupted join whose kubelet has its certificate.
    asked = len(host.api.asked)

    def register() -> None:
        if len(host.api.asked) > asked + 1:
            host.api.answers[NODE] = (200, {})

    host.api.before_answer = register
    result = host.run(api_timeout=30)
    assert (result["joined"], result["node_name"]) == (True, "gpu1")


def test_a_complete_configuration_is_used_unchanged(host: Host) -> None:
    config = f"# mine\nkind: JoinConfiguration\ntoken: {TOKEN}\n"
    host.run(config=config, token=None, api_endpoint=None)
    assert (host.root / "config").read_text() == config


def test_the_discovery_file_only_exists_while_kubeadm_runs(host: Host) -> None:
    host.run(config="kind: JoinConfiguration", discovery="kind: Config", token=None, api_endpoint=None)
    assert (host.root / "discovery").read_text() == "kind: Config"
    assert list((host.root / "run/gpulab").iterdir()) == []


def test_an_ipv6_endpoint_is_written_in_brackets(host: Host) -> None:
    host.run(api_endpoint={"host": "fd00::1", "port": 6443})
    found = yaml.safe_load((host.root / "config").read_text())
    assert found["discovery"]["bootstrapToken"]["apiServerEndpoint"] == "[fd00::1]:6443"


@pytest.mark.parametrize("missing", ["token", "api_endpoint", "ca_cert_hashes"])
def test_missing_join_data_is_an_error(host: Host, missing: str) -> None:
    result = host._run("kubeadm_join", host.args(**{missing: None}))
    assert result["failed"]
    assert "the data for joining one is missing" in result["msg"]
    assert host.log == []


@pytest.mark.parametrize("point", ["preflight", "bootstrap", "waiting"])
def test_an_interrupted_join_is_completed(host: Host, point: str) -> None:
    host.interrupt(point)
    left = host.files()
    predicted = host.run(check=True)
    assert (predicted["changed"], predicted["joined"]) == (True, False)
    assert host.files() == left
    result = host.run()
    assert (result["changed"], result["joined"], result["node_name"]) == (True, True, "gpu1")
    aside = [name.split("/", 4)[4] for name in host.files() if name.startswith("var/lib/gpulab/aside-")]
    assert sorted(aside) == sorted(left)
    assert len(result["moved_aside"]) == len(left)
    assert not host.run()["changed"]


def test_a_join_interrupted_after_the_kubelet_got_its_certificate_is_completed(host: Host) -> None:
    host.interrupt("registered")
    assert host.run(check=True)["changed"]
    result = host.run()
    assert (result["changed"], result["joined"], result["moved_aside"]) == (True, True, [])
    assert not (host.etc / "bootstrap-kubelet.conf").exists(), "it holds the token"
    assert not host.run()["changed"]
    assert len(host.log) == 1


def test_a_join_that_the_kubelet_has_completed_meanwhile_is_recognized(host: Host) -> None:
    host.interrupt("waiting")
    finish = (
        f'echo "systemctl $*" >> {host.root}/log\n'
        f"mkdir -p {host.root}/var/lib/kubelet/pki\n"
        f"cp {host.root}/seed/client.pem {host.root}/var/lib/kubelet/pki/kubelet-client-current.pem\n"
        f"cp {host.root}/seed/kubelet.conf {host.etc}/kubelet.conf"
    )
    host.programs.add("systemctl", finish)
    result = host.run()
    assert (result["changed"], result["joined"], result["moved_aside"]) == (True, True, [])
    assert host.log[1:] == ["systemctl stop kubelet", "systemctl start kubelet"]


JOINED = ("etc/kubernetes/kubelet.conf", "etc/kubernetes/pki/ca.crt", "var/lib/kubelet/config.yaml")
CERTIFICATE = "var/lib/kubelet/pki/kubelet-client-current.pem"


@pytest.mark.parametrize("point", ["bootstrap", "waiting", "registered"])
def test_a_host_joins_again_after_a_power_failure(host: Host, point: str) -> None:
    host.interrupt(point)
    left = host.files()
    for name in left:
        (host.root / name).write_text("")
    assert host.run(check=True)["changed"]
    result = host.run()
    assert (result["changed"], result["joined"], result["node_name"]) == (True, True, "gpu1")
    assert len(result["moved_aside"]) == len(left)
    assert not host.run()["changed"]
    assert not host.record.exists()


def test_a_host_whose_cluster_is_unknown_does_not_join(host: Host) -> None:
    """It may belong to another cluster: no join that began here explains the empty files."""
    host.run()
    for name in JOINED[:2]:
        (host.root / name).write_text("")
    before = host.files()
    result = host.run()
    assert "nothing shows which cluster this host belongs to" in result["msg"]
    assert "Restore /etc/kubernetes/pki/ca.crt from another node" in result["msg"]
    assert host.files() == before


@pytest.mark.parametrize("record", ["", "{}", '["sha256:' + "0" * 64 + '"]'])
def test_an_interrupted_join_to_another_cluster_is_not_continued(host: Host, record: str) -> None:
    host.interrupt("registered")
    for name in host.files():
        (host.root / name).write_text("")
    host.record.write_text(record)
    before = host.files()
    assert host.run()["failed"] and host.files() == before


def test_what_could_not_be_synced_is_synced_by_the_next_run(host: Host) -> None:
    host.programs.add("sync", "exit 1")
    result = host.run()
    assert result["joined"] and "power failure" in str(result["warnings"]) and host.record.exists()
    assert host.run()["joined"] and host.record.exists()
    host.programs.add("sync", "exit 0")
    assert not host.run()["changed"] and not host.record.exists()


@pytest.mark.parametrize("missing", [JOINED[2], CERTIFICATE])
def test_a_file_whose_name_was_lost_is_enough_to_join_again(host: Host, missing: str) -> None:
    host.run()
    (host.root / missing).unlink()
    assert f"(/{missing})" in host.run(check=True)["reason"]
    assert host.run()["joined"] and not host.run()["changed"]


def test_a_kubelet_is_started_again_if_the_second_look_refuses(host: Host) -> None:
    """The API answers once, and not after the kubelet was stopped."""
    host.run()
    (host.root / JOINED[2]).write_text("")
    asked = iter([(200, {}), (500, {"message": "etcdserver: request timed out"})])

    def answer() -> None:
        host.api.answers[NODE] = next(asked)

    host.api.before_answer = answer
    before = host.files()
    result = host.run()
    assert "Nothing was changed" in result["msg"]
    assert host.log[-2:] == ["systemctl stop kubelet", "systemctl start kubelet"]
    assert host.files() == before


def test_a_copied_admin_conf_does_not_change_how_damage_is_judged(host: Host) -> None:
    host.run()
    (host.etc / "admin.conf").write_text("kind: Config\n")
    (host.etc / "kubelet.conf").write_text("")
    assert host.run()["joined"] and not host.run()["changed"]


@pytest.mark.parametrize("name", [*JOINED, CERTIFICATE])
def test_one_empty_file_is_enough_to_join_again(host: Host, name: str) -> None:
    host.run()
    (host.root / name).write_text("")
    result = host.run(check=True)
    assert (result["changed"], result["joined"]) == (True, False)
    assert f"files are empty, cut off or missing, as after a power failure (/{name})" in result["reason"]
    assert host.run()["joined"] and not host.run()["changed"]


@pytest.mark.parametrize("answer", ["deleted", "silent"])
def test_the_api_is_asked_before_the_files_of_a_node_are_moved(host: Host, answer: str) -> None:
    """The files with which the kubelet connects are whole, only its configuration is empty."""
    host.run()
    (host.root / JOINED[2]).write_text("")
    old = time.time() - 3600
    os.utime(host.etc / "kubelet.conf", (old, old))
    host.api.answers[NODE] = (404, {}) if answer == "deleted" else (500, {"message": "etcdserver: request timed out"})
    before = host.files()
    result = host.run()
    assert result["failed"] and host.files() == before
    said = {"deleted": "has no node gpu1", "silent": "Nothing was changed. When the API server answers, run"}
    assert said[answer] in result["msg"]


@pytest.mark.parametrize("block", [False, True])
def test_check_mode_does_not_wait_for_a_name_that_the_run_writes_before(host: Host, block: bool) -> None:
    host.run()
    (host.root / JOINED[2]).write_text("")
    path = host.etc / "kubelet.conf"
    path.write_text(path.read_text().replace(host.api.url, "https://api.lab.invalid:6443"))
    assert "could not be determined" in host.run(check=True)["msg"]
    (host.root / "var/lib/gpulab/cluster.json").write_text('{"api_name": "api.lab.invalid"}')
    lines = "# BEGIN gpulab.kubernetes\n127.0.0.1 api.lab.invalid\n# END gpulab.kubernetes\n"
    (host.root / "etc/hosts").write_text(lines if block else "127.0.0.1 localhost\n")
    assert ("msg" in host.run(check=True)) == block
    assert "could not be determined" in host.run()["msg"]


@pytest.mark.parametrize("name", ["admin.conf", "pki/mine.crt", "manifests/mine.yaml"])
def test_other_files_of_a_worker_do_not_matter(host: Host, name: str) -> None:
    host.run()
    path = host.etc / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    result = host.run()
    assert (result["changed"], result["joined"]) == (False, True)


def test_a_node_that_is_still_ready_joins_later(host: Host) -> None:
    host.run()
    (host.etc / "kubelet.conf").write_text("")
    (host.root / "ready").touch()
    result = host.run()
    assert (result["joined"], sum("kubeadm join" in line for line in host.log)) == (True, 3)
    assert len([*(host.root / "var/lib/gpulab").glob("aside-*")]) == 1
    assert len(result["moved_aside"]) == len({*result["moved_aside"]})


def test_a_node_that_is_still_ready_joins_later_if_its_cleanup_was_interrupted(host: Host) -> None:
    host.interrupt("waiting")
    (host.root / "ready").touch()
    assert host.run()["joined"]


def test_a_ready_node_is_an_error_for_a_host_without_a_power_failure(host: Host) -> None:
    (host.root / "ready").touch()
    assert 'status "Ready" already exists' in host.run()["msg"]
    assert len(host.log) == 1


def test_a_running_kubelet_is_left_as_it_is(host: Host) -> None:
    host.run()
    (host.root / JOINED[2]).write_text("")
    table = host.root / "proc/net/tcp"
    table.parent.mkdir(parents=True)
    table.write_text(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
        "   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
    )
    result = host.run()
    assert (result["changed"], result["joined"]) == (False, True)
    assert f"it can't start again: files are empty, cut off or missing, as after a power failure (/{JOINED[2]})" in str(
        result
    )


def test_a_host_of_another_cluster_does_not_join_after_a_power_failure(host: Host, other_authority: Authority) -> None:
    host.run()
    (host.etc / "kubelet.conf").write_text("")
    before = host.files()
    result = host.run(ca_cert_hashes=[other_authority.hash])
    assert "this host belongs to another cluster than the wanted one" in result["msg"]
    assert host.files() == before


def test_a_control_plane_is_not_joined_after_a_power_failure(host: Host) -> None:
    host.run()
    (host.etc / "kubelet.conf").write_text("")
    (host.etc / "pki/ca.key").write_text("")
    assert "there are parts of a control plane on this host" in host.run()["msg"]


def test_a_kubeadm_that_outlived_its_controller_is_waited_for(host: Host) -> None:
    host.interrupt("waiting", kill_kubeadm=False)
    process = host._run.start("kubeadm_join", host.args())
    time.sleep(1.5)
    assert process.poll() is None
    (host.root / "stop").unlink()
    result = json.loads(process.communicate(timeout=30)[0])
    assert (result["changed"], result["joined"]) == (False, True)
    assert len(host.log) == 1


@pytest.mark.parametrize("check", [False, True])
def test_a_worker_of_another_cluster_is_refused(host: Host, other_authority: Authority, check: bool) -> None:
    host.run()
    before = host.files()
    result = host.run(check=check, ca_cert_hashes=[other_authority.hash])
    assert result["failed"]
    for part in (host.authority.hash, other_authority.hash, host.api.url, "kubeadm reset"):
        assert part in result["msg"]
    assert host.files() == before
    assert len(host.log) == 1


@pytest.mark.parametrize("check", [False, True])
def test_a_worker_whose_node_was_deleted_is_refused(host: Host, check: bool) -> None:
    host.run()
    del host.api.answers[NODE]
    result = host.run(check=check)
    assert result["failed"]
    assert f"once joined the cluster at {host.api.url} as node gpu1, and the node was deleted there" in result["msg"]
    assert "systemctl restart kubelet" in result["msg"]


def test_a_worker_that_has_just_joined_gets_time_to_register(host: Host) -> None:
    host.run()
    del host.api.answers[NODE]
    seen = len(host.api.asked)

    def register() -> None:
        if len(host.api.asked) > seen + 1:
            host.api.answers[NODE] = (200, {})

    host.api.before_answer = register
    assert host.run(api_timeout=30)["joined"]
    old = time.time() - 3600
    os.utime(host.etc / "kubelet.conf", (old, old))
    host.api.before_answer = lambda: None
    del host.api.answers[NODE]
    begun = time.monotonic()
    assert host.run(api_timeout=30)["failed"]
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("status", [401, 403])
def test_a_worker_that_the_api_refuses_is_reported(host: Host, status: int) -> None:
    host.run()
    host.api.answers[NODE] = (status, {"message": "who are you?"})
    result = host.run()
    assert result["failed"]
    assert f"answers {status} to {NODE}: who are you?" in result["msg"]


def test_with_an_unreachable_api_a_worker_counts_as_joined(host: Host) -> None:
    host.run()
    host.api.stop()
    result = host.run()
    assert (result["changed"], result["joined"]) == (False, True)
    assert "could not be determined" in str(result["warnings"])


def test_a_control_plane_that_is_also_a_worker_counts_as_joined(host: Host) -> None:
    host.run()
    (host.etc / "manifests").mkdir()
    (host.etc / "manifests/kube-apiserver.yaml").touch()
    assert not host.run()["changed"]


def test_an_unfinished_control_plane_cannot_join_as_a_worker(host: Host) -> None:
    (host.etc / "pki").mkdir(parents=True)
    (host.etc / "pki/ca.key").touch()
    result = host.run()
    assert result["failed"]
    assert "there are parts of a control plane on this host" in result["msg"]


@pytest.mark.parametrize("wrong", ["[]", "sha256:00", "md5:" + "0" * 64])
def test_an_invalid_hash_is_an_error(host: Host, wrong: str) -> None:
    assert f"{wrong!r} is not a CA hash" in host.run(ca_cert_hashes=[host.authority.hash, wrong])["msg"]
    assert host.log == []


def test_without_hashes_any_cluster_is_accepted(host: Host) -> None:
    host.run()
    assert not host.run(ca_cert_hashes=[])["changed"]


def test_an_error_of_kubeadm_is_reported(host: Host) -> None:
    host.programs.add("kubeadm", f'echo "error: could not find token {TOKEN}" >&2; exit 1')
    result = host.run()
    assert result["failed"]
    assert result["msg"].startswith("Error while joining the cluster: error: could not find token ***")
    assert not (host.root / "run/gpulab/kubeadm-join.yaml").exists()


def test_an_unreadable_kubelet_conf_is_an_error(host: Host) -> None:
    host.etc.mkdir(parents=True)
    (host.etc / "kubelet.conf").write_text("rubbish")
    assert host.run()["msg"].startswith("Error while reading a kubeconfig")
