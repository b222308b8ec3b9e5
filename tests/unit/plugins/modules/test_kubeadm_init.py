# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.damage import FILES
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.leftovers import CONFS
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.use import OBJECTS
from apiserver import ApiServer, Authority, rotated_kubeconfig
from fake_host import FakeHost

SECRET = "abcdef.0123456789abcdef"
CONFIG = f"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nbootstrapTokens:\n- token: {SECRET}\n"
UP, DOWN = True, False
PKI = [path for path in FILES if path.startswith("/etc/kubernetes/pki/") and path != "/etc/kubernetes/pki/ca.crt"]

# Changes the files of a host like kubeadm, in the same order; after the phase named in the file "stop" it hangs.
KUBEADM = """
import json, pathlib, shutil, sys, time

root = pathlib.Path({root!r})
etc, kubelet, data = root / "etc/kubernetes", root / "var/lib/kubelet", root / "var/lib/etcd/member/snap/db"
if sys.argv[1:3] == ["config", "validate"]:
    sys.exit('error: strict decoding error: unknown field "podz"' if "podz" in open(sys.argv[4]).read() else 0)
with (root / "log").open("a") as log:
    log.write(" ".join(["kubeadm", *sys.argv[1:]]) + "\\n")

def hang(phase):
    stop = root / "stop"
    if stop.exists() and stop.read_text() == phase:
        (root / "stopped").touch()
        while stop.exists():
            time.sleep(0.05)

if sys.argv[1:4] == ["reset", "phase", "cleanup-node"]:
    hang("reset")
    with (root / "cleanups").open("a") as cleanups:
        cleanups.write("data\\n" if data.exists() else "no data\\n")
    for directory in (etc / "manifests", etc / "pki", kubelet):
        if directory.exists():
            shutil.rmtree(directory)
    for path in etc.glob("*.conf"):
        path.unlink()
    sys.exit(0)

config = pathlib.Path(sys.argv[sys.argv.index("--config") + 1])
with (root / "log").open("a") as log:
    log.write("mode " + oct(config.stat().st_mode & 0o777) + "\\n")
(root / "config").write_text(config.read_text())
ignored = [name for word in sys.argv if word.startswith("--ignore-pre") for name in word.split("=")[1].split(",")]
if "all" in ignored and len(ignored) > 1:
    sys.exit("error: ignore-preflight-errors: don't specify individual checks if 'all' is used")

def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text(text)

def append(text):
    data.parent.mkdir(parents=True, exist_ok=True)
    with data.open("a") as file:
        # As etcd stores a key in protobuf.
        file.write("\\n" + chr(len(text)) + text + "\\0")

def preflight():
    wrong = []
    for path in (*(etc / "manifests").glob("[ek]*[dr].yaml"), *root.glob("var/lib/etcd")):
        kind = "Dir" if path.is_dir() else "File"
        name = kind + "Available--" + str(path.relative_to(root)).replace("/", "-")
        if name not in ignored and any(path.parent.glob(path.name + "/*") if path.is_dir() else [path]):
            wrong.append("[ERROR " + name + "]: " + str(path) + " already exists")
    if wrong:
        print("error: error execution phase preflight: [preflight] Some fatal errors occurred:", file=sys.stderr)
        print("\\n".join(wrong), file=sys.stderr)
        sys.exit(1)

def certs():
    put(etc / "pki/ca.crt", (root / "seed/ca.crt").read_text())
    for path in {pki!r}:
        put(root / path[1:], "pem")

def kubeconfig():
    for name in ("admin", "super-admin", "controller-manager", "scheduler", "kubelet"):
        put(etc / (name + ".conf"), (root / "seed/admin.conf").read_text())

def manifests():
    for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        put(etc / "manifests" / (name + ".yaml"), "kind: Pod")

def kubelet_start():
    put(kubelet / "pki/kubelet-client-current.pem", "certificate")
    put(kubelet / "config.yaml", "kind: KubeletConfiguration")

def wait_control_plane():
    append("/registry/namespaces/default")

def bootstrap_token():
    append("/registry/configmaps/kube-public/cluster-info")

def kubelet_finalize():
    (etc / "kubelet.conf").write_text((root / "seed/kubelet.conf").read_text())

def addon():
    append("/registry/daemonsets/kube-system/kube-proxy")

for phase in (preflight, certs, kubeconfig, manifests, kubelet_start, wait_control_plane, bootstrap_token,
              kubelet_finalize, addon):
    phase()
    hang(phase.__name__)
print("kubeadm join 127.0.0.1:6443 --token {secret} --discovery-token-ca-cert-hash sha256:0")
"""

PHASES = ["preflight", "certs", "kubeconfig", "manifests", "kubelet_start", "wait_control_plane"]


class Host(FakeHost):  # type: ignore[misc]
    def __init__(self, root: Path, programs: Any, run: Any, api: ApiServer, authority: Authority) -> None:
        super().__init__(root, programs, run)
        self.api = api
        self.etc = root / "etc/kubernetes"
        self.data = root / "var/lib/etcd/member/snap/db"
        seed = root / "seed"
        seed.mkdir(parents=True)
        (seed / "ca.crt").write_text(authority.pem)
        (seed / "admin.conf").write_text(authority.kubeconfig(api.url))
        (seed / "kubelet.conf").write_text(rotated_kubeconfig(api.url, authority.pem))
        body = KUBEADM.replace("{root!r}", repr(str(root))).replace("{secret}", SECRET).replace("{pki!r}", repr(PKI))
        self.kubeadm = programs.python("kubeadm", body)
        programs.add("systemctl", f'echo "systemctl $*" >> {root}/log\n[ "$1" != is-active ]')
        programs.add("sync", f'echo "sync $*" >> {root}/log; exit "$(cat {root}/full 2>/dev/null || echo 0)"')
        self.up = UP
        self.nodes: tuple[str, ...] = ("cp1",)
        api.before_answer = self._follow

    def _follow(self) -> None:
        """Let the API server answer according to the simulated etcd's data."""
        text = self.data.read_text() if self.data.exists() else ""
        if not self.up or not text:
            self.api.down()
        elif "daemonsets" in text:
            self.api.finished(*self.nodes)
        elif "cluster-info" in text:
            self.api.published()
        else:
            self.api.barren()

    def list_objects(self) -> None:
        """Let the API server answer with empty lists of what users would have made."""
        for path in OBJECTS.values():
            self.api.answers.setdefault(path, (200, {"items": []}))

    def args(self, **changes: Any) -> dict[str, Any]:
        return {"config": CONFIG, "root": str(self.root), "api_timeout": 0, "timeout": 30, **changes}

    def run(self, check: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("kubeadm_init", self.args(**changes), check=check)
        assert SECRET not in json.dumps(result)
        return result

    def interrupt(self, phase: str, kill_kubeadm: bool = True) -> None:
        """Start an init and kill the module, and optionally kubeadm, in the middle of a phase."""
        self._interrupt("kubeadm_init", self.args(), self.kubeadm, phase, kill_kubeadm)

    def files(self) -> dict[str, str]:
        skipped = ("log", "config", "stop", "cleanups")
        paths = (path for path in self.root.rglob("*") if path.is_file() and path.name not in skipped)
        return {str(path.relative_to(self.root)): path.read_text() for path in paths}

    @property
    def record(self) -> Path:
        path: Path = self.root / "var/lib/gpulab/kubeadm-init.json"
        return path

    def lose_power(self) -> None:
        """Leave new files of kubeadm and the kubelet empty. etcd syncs its data, and this collection its record."""
        self.up = DOWN
        # It replaces an existing file, which ext4 writes to the disk.
        final = (self.root / "seed/kubelet.conf").read_text()
        for directory in (self.etc, self.root / "var/lib/kubelet"):
            for path in directory.rglob("*"):
                if path.is_file() and path.read_text() != final:
                    path.write_text("")

    @property
    def inits(self) -> int:
        return sum(line.startswith("kubeadm init") for line in self.log)


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any, api: ApiServer, authority: Authority) -> Host:
    return Host(tmp_path / "root", programs, run_module, api, authority)


def test_a_bare_host_is_initialized(host: Host) -> None:
    predicted = host.run(check=True)
    assert (predicted["changed"], predicted["initialized"]) == (True, False)
    assert host.log == []
    assert not (host.root / "var").exists()
    result = host.run(ignore_preflight_errors=["SystemVerification", "Swap"])
    assert (result["changed"], result["initialized"], result["moved_aside"]) == (True, True, [])
    config = host.root / "run/gpulab/kubeadm-init.yaml"
    assert host.log == [
        f"kubeadm init --config {config} --ignore-preflight-errors=SystemVerification,Swap",
        "mode 0o600",
        f"sync --file-system {host.etc} {host.root}/var/lib/kubelet {host.root}/var/lib/etcd",
    ]
    assert (host.root / "config").read_text() == CONFIG
    assert not config.exists()
    assert not list((host.root / "var/lib/gpulab").iterdir())


@pytest.mark.parametrize("check", [False, True])
def test_a_finished_host_is_not_changed(host: Host, check: bool) -> None:
    host.run()
    before = host.files()
    result = host.run(check=check)
    assert (result["changed"], result["initialized"]) == (False, True)
    assert result["evidence"]["api"] == "alive"
    assert host.inits == 1
    assert host.files() == before


@pytest.mark.parametrize("api_afterwards", [UP, DOWN])
@pytest.mark.parametrize("phase", PHASES)
def test_an_init_that_never_finished_starts_again(host: Host, phase: str, api_afterwards: bool) -> None:
    host.interrupt(phase)
    host.up = api_afterwards
    found = sorted(name for name in host.files() if name.startswith(("etc/", "var/lib/etcd")))
    predicted = host.run(check=True)
    assert (predicted["changed"], predicted["initialized"]) == (True, False)
    assert sorted(name for name in host.files() if name.startswith(("etc/", "var/lib/etcd"))) == found
    result = host.run()
    assert (result["changed"], result["initialized"]) == (True, True)
    assert host.inits == 2
    aside = sorted(name.split("/", 4)[4] for name in host.files() if name.startswith("var/lib/gpulab/aside-"))
    assert aside == found
    assert not (host.root / "var/lib/gpulab/kubeadm-init.json").exists()
    host.up = UP
    assert not host.run()["changed"]


HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
ETCD_LISTENS = (
    HEAD + "   0: 0100007F:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1\n"
)
RUNNING = json.dumps({"containers": [{"metadata": {"name": "kube-scheduler"}}, {"metadata": {"name": "coredns"}}]})


@pytest.mark.parametrize("stays", ["listener", "container"])
def test_etcd_data_is_only_moved_after_the_former_attempt_has_ended(host: Host, stays: str) -> None:
    host.interrupt("wait_control_plane")
    host.up = DOWN
    table = host.root / "proc/net/tcp"
    table.parent.mkdir(parents=True)
    table.write_text(ETCD_LISTENS if stays == "listener" else HEAD)
    # From the third check on, or the first one after a second reset, the listener and the container are gone.
    body = f"""echo look >> {host.root}/looks
if [ "$(wc -l < {host.root}/looks)" -ge 3 ]; then echo '{HEAD.strip()}' > {table}; echo '{{"containers": []}}'
else echo '{RUNNING if stays == "container" else "{}"}'; fi"""
    host.programs.add("crictl", body)
    result = host.run(cleanup_timeout=10)
    assert result["initialized"], result
    assert (host.root / "cleanups").read_text() == "data\n"
    assert len((host.root / "looks").read_text().splitlines()) == 3


def test_containers_that_do_not_end_leave_the_etcd_data_untouched(host: Host) -> None:
    host.interrupt("wait_control_plane")
    host.up = DOWN
    data = host.data.read_text()
    table = host.root / "proc/net/tcp"
    table.parent.mkdir(parents=True)
    table.write_text(ETCD_LISTENS)
    host.programs.add("crictl", f"echo '{RUNNING}'")
    result = host.run(cleanup_timeout=0)
    assert result["failed"]
    assert "containers from the previous attempt did not stop: container kube-scheduler, port 2379 " in result["msg"]
    assert "coredns" not in result["msg"]
    assert host.data.read_text() == data and host.inits == 1
    assert (host.root / "cleanups").read_text() == "data\ndata\n", "cleaned up once more"
    # Once they have ended, the next run succeeds.
    table.write_text(HEAD)
    host.programs.add("crictl", """echo '{"containers": null}'""")
    assert host.run(cleanup_timeout=0)["initialized"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_change_of_the_former_cluster_is_not_undone_in_the_new_one(host: Host, clean: bool) -> None:
    if clean:
        host.interrupt("wait_control_plane")
    record = host.root / "var/lib/gpulab/control-plane/change.json"
    copy = record.parent / "before/etc/kubernetes/admin.conf"
    copy.parent.mkdir(parents=True)
    for path in (record, copy):
        path.write_text("damaged")
    host.run(check=True)
    assert record.exists()
    assert host.run()["initialized"]
    assert not list(record.parent.iterdir())


def test_files_that_were_moved_aside_are_private(host: Host) -> None:
    host.interrupt("wait_control_plane")
    host.run()
    (aside,) = (host.root / "var/lib/gpulab").glob("aside-*")
    assert aside.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("phase", ["bootstrap_token", "kubelet_finalize"])
def test_a_published_cluster_without_addons_is_completed_without_deleting_anything(host: Host, phase: str) -> None:
    host.interrupt(phase)
    data = host.data.read_text()
    result = host.run(ignore_preflight_errors=["SystemVerification"])
    assert (result["changed"], result["initialized"], result["moved_aside"]) == (True, True, [])
    ignored = host.log[-3].split("--ignore-preflight-errors=")[1].split(",")
    assert {"SystemVerification", "Port-6443", "Port-10250", "Port-2379", "DirAvailable--var-lib-etcd"} <= set(ignored)
    assert not any("reset" in line for line in host.log)
    assert host.data.read_text().startswith(data), "nothing was taken away"
    assert not host.run()["changed"]


@pytest.mark.parametrize("phase", ["bootstrap_token", "kubelet_finalize", "addon"])
@pytest.mark.parametrize("check", [False, True])
def test_an_unhealthy_published_cluster_is_never_changed(host: Host, phase: str, check: bool) -> None:
    host.interrupt(phase)
    host.up = DOWN
    before = host.files()
    result = host.run(check=check)
    assert result["failed"]
    assert result["msg"].startswith("Error while initializing the control plane: https://127.0.0.1:")
    assert "etcdserver: request timed out" in result["msg"]
    assert "never initialized again or reset" in result["msg"]
    assert result["evidence"]["etcd"] == "unused"
    assert host.files() == before
    assert host.inits == 1


@pytest.mark.parametrize("phase", [*PHASES, "bootstrap_token", "kubelet_finalize", "addon"])
def test_an_init_starts_again_after_a_power_failure(host: Host, phase: str) -> None:
    host.interrupt(phase)
    host.lose_power()
    before = host.files()
    assert host.run(check=True)["changed"] and host.files() == before
    result = host.run()
    assert (result["changed"], result["initialized"]) == (True, True)
    assert host.inits == 2
    assert not any(path.stat().st_size == 0 for path in (*host.etc.rglob("*"), *host.root.glob("var/lib/kubelet/*")))
    host.up = UP
    assert not host.run()["changed"]


@pytest.mark.parametrize(
    "key",
    [
        "/registry/minions/gpu1",
        "/registry/daemonsets/kube-flannel/kube-flannel-ds",
        "/registry/statefulsets/a/b",
        "/registry/jobs/default/train",
        "/registry/persistentvolumes/data",
        "/registry/namespaces/team",
        "/registry/secrets/default/model-key",
    ],
)
def test_a_cluster_that_was_used_is_not_initialized_again_after_a_power_failure(host: Host, key: str) -> None:
    host.interrupt("addon")
    with host.data.open("a") as data:
        data.write("".join(f"\n{chr(len(each))}{each}\0" for each in ("/registry/minions/cp1", key)))
    host.lose_power()
    before = host.files()
    result = host.run()
    assert result["failed"] and host.files() == before and host.inits == 1
    assert result["evidence"]["etcd"] == "alive"
    for part in (
        "files are empty or cut off",
        "/etc/kubernetes/admin.conf",
        "contains a published cluster",
        "a backup",
    ):
        assert part in result["msg"]


def test_a_finished_cluster_is_not_initialized_again_after_a_power_failure(host: Host) -> None:
    host.run()
    host.lose_power()
    before = host.files()
    result = host.run()
    # The manifest that names its directory is empty.
    assert result["failed"] and result["evidence"]["etcd"] == "unreadable"
    assert host.files() == before and host.inits == 1


@pytest.mark.parametrize("used", ["nodes", "jobs", "unknown"])
def test_damaged_files_of_a_cluster_in_use_are_left_as_they_are(host: Host, used: str) -> None:
    host.interrupt("addon")
    host.list_objects()
    if used == "jobs":
        host.api.answers[OBJECTS["jobs"]] = (200, {"items": [{"metadata": {"namespace": "a", "name": "train"}}]})
    elif used == "nodes":
        host.nodes = ("cp1", "gpu1")
    else:
        del host.api.answers[OBJECTS["jobs"]]
    scheduler = host.etc / "scheduler.conf"
    scheduler.write_text("")
    result = host.run()
    assert (result["initialized"], result["moved_aside"], host.inits) == (True, [], 1)
    assert scheduler.stat().st_size == 0


def test_damaged_files_of_an_unfinished_init_whose_api_answers_are_made_again(host: Host) -> None:
    host.interrupt("addon")
    host.list_objects()
    scheduler = host.etc / "scheduler.conf"
    scheduler.write_text("")
    result = host.run()
    assert (result["initialized"], len(result["moved_aside"])) == (True, 1)
    assert result["moved_aside"][0].endswith("/etc/kubernetes/scheduler.conf") and scheduler.stat().st_size
    assert not any("reset" in line for line in host.log)


def test_an_empty_ca_of_its_owner_is_an_error(host: Host) -> None:
    (host.etc / "pki").mkdir(parents=True)
    (host.etc / "pki/ca.key").write_text("")
    result = host.run()
    assert "files are empty or cut off, as after a power failure (/etc/kubernetes/pki/ca.key)" in result["msg"]
    assert host.inits == 0


def test_a_damaged_record_restores_nothing(host: Host) -> None:
    host.interrupt("certs")
    host.record.write_text("")
    assert host.run()["initialized"]
    assert not host.record.exists()


MOVES = [f"etc/kubernetes/{name}.conf" for name in CONFS if name != "bootstrap-kubelet"]
MOVES += ["etc/kubernetes/manifests", "etc/kubernetes/pki", "var/lib/kubelet"]


@pytest.mark.parametrize("moved", range(len(MOVES) + 1))
@pytest.mark.parametrize("phase", ["bootstrap_token", "addon"])
def test_an_interrupted_cleanup_of_an_unused_cluster_is_completed(host: Host, phase: str, moved: int) -> None:
    host.interrupt(phase)
    host.up = DOWN
    # This damage ends with the first move or the last one.
    (host.etc / "admin.conf").write_text("")
    if phase == "addon":
        (host.root / "var/lib/kubelet/pki/kubelet-client-current.pem").write_text("")
    aside = host.root / "var/lib/gpulab/aside-20991127T010203.000000Z"
    for name in MOVES[:moved]:
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        (host.root / name).rename(aside / name)
    result = host.run()
    assert (result.get("initialized"), host.inits) == (True, 2), result
    host.up = UP
    assert not host.run()["changed"]


def test_files_that_were_moved_aside_before_kubeadm_was_killed_are_made_again(host: Host) -> None:
    host.interrupt("addon")
    host.list_objects()
    for kind in ("crt", "key"):
        (host.etc / f"pki/apiserver.{kind}").unlink()
    assert host.run()["initialized"]
    assert (host.etc / "pki/apiserver.key").read_text() == "pem" and host.inits == 2


def test_an_empty_admin_conf_of_an_unfinished_init_is_made_again(host: Host) -> None:
    host.interrupt("addon")
    host.list_objects()
    (host.etc / "admin.conf").write_text("")
    assert host.run()["initialized"]
    assert (host.etc / "admin.conf").stat().st_size and host.inits == 2


def test_an_empty_key_of_the_ca_is_an_error_before_kubeadm_runs_again(host: Host) -> None:
    host.interrupt("bootstrap_token")
    host.list_objects()
    (host.etc / "pki/ca.key").write_text("")
    before = host.files()
    result = host.run()
    assert "never installed its addons, and files are empty or cut off" in result["msg"]
    assert "Restore /etc/kubernetes/pki/ca.key from a backup" in result["msg"]
    assert host.files() == before and host.inits == 1


def test_the_lease_of_the_run_that_completes_an_init_is_not_use(host: Host) -> None:
    host.interrupt("addon")
    host.list_objects()
    lease = {"metadata": {"namespace": "kube-system", "name": "gpulab-kubernetes"}}
    host.api.answers[OBJECTS["leases"]] = (200, {"items": [lease]})
    (host.etc / "scheduler.conf").write_text("")
    assert host.run()["initialized"]
    assert (host.etc / "scheduler.conf").stat().st_size


@pytest.mark.parametrize("missing", ["cluster-info", "database"])
def test_a_finished_cluster_is_not_initialized_again_if_etcd_lost_data(host: Host, missing: str) -> None:
    """Neither a record nor the API shows that it was finished."""
    host.run()
    host.up = DOWN
    text = host.data.read_text()
    if missing == "database":
        log = host.root / "var/lib/etcd/member/wal/0000000000000005-0000000000061a80.wal"
        log.parent.mkdir()
        log.write_text("\n\x15/registry/minions/cp1\0")
        host.data.write_text("")
    else:
        host.data.write_text(text.replace("/registry/configmaps/kube-public/cluster-info", "-"))
    before = host.files()
    result = host.run()
    assert result["failed"] and host.files() == before and host.inits == 1
    assert result["evidence"]["etcd"] == ("unreadable" if missing == "database" else "alive")


LOCAL = [
    "etcd:\n  local:\n    dataDir: /data/etcd\n",
    "etcd: {local: {dataDir: /data/etcd}}\n",
    '{"dataDir": "/data/etcd"}',
]


@pytest.mark.parametrize("local", LOCAL)
def test_the_directory_of_etcd_is_recorded(host: Host, local: str) -> None:
    host.programs.add("sync", f"cat {host.record} >> {host.root}/recorded")
    host.run(config=CONFIG + local)
    assert json.loads((host.root / "recorded").read_text())["etcd"] == "/data/etcd"


def test_an_empty_manifest_of_etcd_is_an_error_if_its_directory_is_not_recorded(host: Host) -> None:
    """Preflight decides without the configuration, and the module decides the same."""
    host.interrupt("wait_control_plane")
    host.lose_power()
    host.record.write_text('{"began": "", "before": []}')
    result = host.run()
    assert result["failed"] and result["evidence"]["etcd"] == "unreadable" and host.inits == 1


def test_what_kubeadm_wrote_is_synced_before_the_record_goes(host: Host) -> None:
    host.programs.add("sync", f"ls {host.root}/var/lib/gpulab >> {host.root}/log")
    assert host.run()["initialized"]
    assert host.log[-1] == "kubeadm-init.json"
    assert not (host.root / "var/lib/gpulab/kubeadm-init.json").exists()


def test_a_disk_that_cannot_be_written_in_time_is_a_warning(host: Host) -> None:
    (host.root / "full").write_text("1")
    result = host.run()
    assert result["initialized"]
    assert "Error while writing what kubeadm has changed to the disk: " in str(result["warnings"])
    assert host.record.exists()
    result = host.run()
    assert (result["initialized"], result["changed"], host.record.exists()) == (True, False, True)
    (host.root / "full").write_text("0")
    assert host.run()["changed"] and not host.record.exists()
    assert not host.run()["changed"]


@pytest.mark.parametrize("full", ["0", "1"])
def test_a_failed_init_is_synced_and_its_own_error_is_reported(host: Host, full: str) -> None:
    (host.root / "full").write_text(full)
    host.etc.mkdir(parents=True)
    host.programs.add("kubeadm", f'echo "kubeadm $1" >> {host.root}/log; [ "$1" = config ] || exit 7')
    result = host.run()
    assert result["rc"] == 7 and result["msg"].startswith("Error while initializing the control plane: ")
    assert host.log == ["kubeadm config", "kubeadm init", f"sync --file-system {host.etc}"]


def test_a_finished_cluster_without_its_etcd_data_is_an_error(host: Host) -> None:
    host.run()
    host.data.unlink()
    before = host.files()
    assert host.run()["failed"]
    assert host.files() == before


def test_a_finished_cluster_with_a_stale_record_is_not_changed(host: Host) -> None:
    host.run()
    record = host.root / "var/lib/gpulab/kubeadm-init.json"
    record.write_text("{}")
    host.up = DOWN
    assert host.run()["failed"]
    host.up = UP
    predicted = host.run(check=True)
    assert (predicted["changed"], predicted["initialized"]) == (True, True)
    assert record.exists()
    assert host.run()["changed"], "the record was removed"
    assert not record.exists()
    assert not host.run()["changed"]
    assert host.inits == 1


def test_certificates_of_another_installation_are_an_error(host: Host, other_authority: Authority) -> None:
    host.run()
    (host.etc / "admin.conf").write_text(other_authority.kubeconfig(host.api.url))
    (host.etc / "super-admin.conf").unlink()
    result = host.run()
    assert result["failed"]
    assert "presents a certificate that is not valid for this cluster" in result["msg"]


def test_a_truncated_admin_conf_of_a_finished_cluster_is_an_error(host: Host) -> None:
    host.run()
    for name in ("admin.conf", "super-admin.conf"):
        (host.etc / name).write_text("apiVersion: v1\nclus")
    assert host.run()["failed"]
    assert host.inits == 1


def test_the_host_itself_may_respond_while_the_clusters_address_is_down(host: Host, authority: Authority) -> None:
    host.run()
    for name in ("admin.conf", "super-admin.conf"):
        (host.etc / name).write_text(authority.kubeconfig("https://127.0.0.1:1"))
    assert host.run()["initialized"]


def test_a_worker_is_not_initialized(host: Host) -> None:
    host.etc.mkdir(parents=True)
    (host.etc / "kubelet.conf").write_text((host.root / "seed/kubelet.conf").read_text())
    for check in (True, False):
        result = host.run(check=check)
        assert result["failed"]
        assert "this host is a worker of a cluster" in result["msg"]
        assert "kubeadm reset" in result["msg"]
    assert host.log == []


def test_the_administrators_own_files_are_kept(host: Host) -> None:
    for name, text in (("pki/ca.crt", "own ca"), ("pki/ca.key", "own key"), ("manifests/kube-vip.yaml", "vip")):
        (host.etc / name).parent.mkdir(parents=True, exist_ok=True)
        (host.etc / name).write_text(text)
    (host.etc / "pki/ca.key").chmod(0o600)
    host.up = DOWN
    host.interrupt("wait_control_plane")
    host.interrupt("reset")
    assert not (host.etc / "pki").exists()
    assert host.run()["initialized"]
    assert (host.etc / "pki/ca.crt").read_text() == "own ca"
    assert (host.etc / "pki/ca.key").read_text() == "own key"
    assert (host.etc / "pki/ca.key").stat().st_mode & 0o777 == 0o600
    assert (host.etc / "manifests/kube-vip.yaml").read_text() == "vip"


def test_a_kubeadm_that_outlived_its_controller_is_waited_for(host: Host) -> None:
    host.interrupt("certs", kill_kubeadm=False)
    process = host._run.start("kubeadm_init", host.args())
    time.sleep(1.5)
    assert process.poll() is None
    (host.root / "stop").unlink()
    result = json.loads(process.communicate(timeout=30)[0])
    assert (result["changed"], result["initialized"]) == (True, True), "the record was removed"
    assert not host.run()["changed"]
    assert host.inits == 1


def test_a_kubeadm_that_never_ends_is_named(host: Host) -> None:
    host.interrupt("certs", kill_kubeadm=False)
    result = host.run(timeout=1)
    (host.root / "stop").unlink()
    assert result["failed"]
    assert "Error while waiting for another kubeadm (process " in result["msg"]


def test_a_hung_kubeadm_is_killed_and_the_next_run_cleans_up(host: Host) -> None:
    (host.root / "stop").write_text("manifests")
    result = host.run(timeout=2)
    assert result["failed"]
    assert (
        result["msg"] == "Error while initializing the control plane: kubeadm: no response within 2 s, so it was killed"
    )
    (host.root / "stop").unlink()
    assert host.run()["initialized"]


def test_an_error_of_kubeadm_is_reported(host: Host) -> None:
    host.programs.add(
        "kubeadm",
        '[ "$1" = config ] && exit 0\n'
        'echo "W1120 10:00:00.000000 1 x.go:1] noise" >&2\n'
        f'echo "error: error execution phase preflight: token {SECRET}" >&2\nexit 1',
    )
    result = host.run()
    assert result["failed"]
    said = "Error while initializing the control plane: error: error execution phase preflight: token ********"
    assert result["msg"] == said
    assert result["rc"] == 1
    assert not (host.root / "run/gpulab/kubeadm-init.yaml").exists()


def test_a_field_that_kubeadm_does_not_know_is_an_error_before_anything_changes(host: Host) -> None:
    result = host.run(config=CONFIG + "podz: 1\n")
    assert result["failed"]
    assert result["msg"] == (
        'Error while checking the configuration for kubeadm: error: strict decoding error: unknown field "podz"'
    )
    assert host.log == [] and not (host.root / "var").exists()


def test_a_missing_kubeadm_is_an_error(host: Host) -> None:
    assert host.run(check=True, executable="kubeadm-is-not-here")["changed"]
    result = host.run(executable="kubeadm-is-not-here")
    assert "kubeadm-is-not-here: there is no such program on this host" in result["msg"]


@pytest.mark.parametrize("manifest", [True, False])
def test_an_api_server_that_is_still_starting_is_waited_for(host: Host, manifest: bool) -> None:
    host.run()
    if not manifest:
        (host.etc / "manifests/kube-apiserver.yaml").unlink()
    host.programs.add("systemctl", "exit 0")
    answers = iter([DOWN, DOWN, UP, UP])

    def follow() -> None:
        host.up = next(answers)
        host._follow()

    host.api.before_answer = follow
    assert host.run(api_timeout=30)["initialized"]
