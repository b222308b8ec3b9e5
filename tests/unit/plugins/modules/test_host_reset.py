# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reset of a simulated host: a directory with its files, and programs that change it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.hosts_file import with_block
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.swap_state import without_swap

FSTAB = b"/dev/vda1 / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n"
NAMES = {"api.lab.internal": "127.0.0.1"}
OURS = "# Managed by gpulab.kubernetes\n"
RECORD = "var/lib/gpulab/first-run"
STATE = "var/lib/gpulab/reset.json"
STATUS = "Package: {}\nStatus: {} ok installed\nVersion: 1.0-1\nArchitecture: amd64\n\n"
ADMIN = "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: Q0E=\n"
# Each program logs how it was called. State that it changes is in files of the host.
SYSTEMCTL = """
echo systemctl "$@" >> {root}/log
case "$1" in
  show)
    for last; do :; done
    echo LoadState=$(test -e {root}/units/$last && echo loaded || echo not-found)
    cat {root}/units/$last 2>/dev/null;;
  stop) test -d {root}/units && printf 'ActiveState=inactive\\nUnitFileState=enabled\\n' > {root}/units/$2;;
  disable) printf 'ActiveState=inactive\\nUnitFileState=disabled\\n' > {root}/units/$2;;
esac
exit 0
"""
APT = """
echo apt-get "$@" >> {root}/log
case "$*" in
  *" -s "*) echo "Purg kubelet [1.0-1]"; cat {root}/more 2>/dev/null;;
  *) test -e {root}/fails && echo "E: it fails" >&2 && exit 100
     printf '%s' "$(cat {root}/after)" > {root}/var/lib/dpkg/status;;
esac
exit 0
"""
IPTABLES = (
    "test -e {root}/cleaned || printf '*nat\\n:KUBE-SERVICES - [0:0]\\n-A PREROUTING -j KUBE-SERVICES\\nCOMMIT\\n'"
)


class Host:
    """A worker of a cluster as this collection has made it."""

    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        self.root, self.programs, self._run = root, programs, run
        self.entries: list[dict[str, Any]] = []
        root.mkdir()
        self.add("systemctl", SYSTEMCTL)
        self.add("apt-get", APT)
        self.add("dpkg", "echo dpkg $* >> {root}/log; cat >> {root}/log")
        self.add("dpkg-query", 'test "$2" = /etc/modprobe.d')
        self.add(
            "ip", 'echo ip "$@" >> {root}/log; if [ "$2" = delete ]; then rm {root}/links; else cat {root}/links; fi'
        )
        self.add("umount", 'echo umount "$@" >> {root}/log; sed -i "s, $1 , /gone ," {root}/proc/self/mountinfo')
        for name in ("iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy"):
            self.add(f"{name}-save", IPTABLES if name == "iptables-nft" else "exit 1")
            self.add(f"{name}-restore", f"echo {name}-restore >> {{root}}/log; cat > {{root}}/cleaned")
        self.add("nft", "exit 1")
        for name in ("crictl", "swapon", "update-initramfs"):
            self.add(name, f"echo {name} $* >> {{root}}/log")
        self.write("links", '[{"ifname": "cni0", "linkinfo": {"info_kind": "bridge"}}, {"ifname": "eth0"}]')
        self.write("units/kubelet.service", "ActiveState=active\nUnitFileState=enabled\n")
        self.write("var/lib/dpkg/status", STATUS.format("kubelet", "hold") + STATUS.format("bash", "install"))
        self.write("after", STATUS.format("bash", "install"))
        self.write(
            "proc/self/mountinfo",
            "22 1 0:2 / / rw - ext4 /dev/vda rw\n23 22 0:3 / /var/lib/kubelet/pods/a rw - tmpfs t rw\n",
        )
        self.write("proc/sys/net/ipv4/ip_forward", "1\n")
        self.write("var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\n")
        self.write("etc/kubernetes/admin.conf", ADMIN)
        self.write("root/.kube/config", ADMIN)
        self.write("home/ada/.kube/config", f"{ADMIN}# and another one\n")
        self.write("var/lib/gpulab/cluster.json", json.dumps({"name": "lab", "api_name": "api.lab.internal"}))
        self.write("var/lib/gpulab/local-path/pvc/file", "data of a user")
        self.write("etc/cni/net.d/10-flannel.conflist", "{}")
        self.write("etc/ssh/sshd_config", "Port 22\n")
        self.keep("file", "/etc/modprobe.d/gpulab-nouveau.conf", None, OURS)
        self.keep("file", "/etc/containerd/config.toml", None, OURS)
        self.keep("file", "/etc/fstab", FSTAB.decode(), without_swap(FSTAB.decode()))
        self.keep("file", "/etc/hosts", "127.0.0.1 localhost\n", with_block("127.0.0.1 localhost\n", NAMES))
        self.keep("package", "kubelet", None)
        self.keep("sysctl", "net/ipv4/ip_forward", {"value": "0"})
        self.write(f"{RECORD}/record.jsonl", "".join(f"{json.dumps(each)}\n" for each in self.entries))

    def add(self, name: str, body: str) -> None:
        self.programs.add(name, body.replace("{root}", str(self.root)))

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def keep(self, kind: str, name: str, before: Any, now: str | None = None) -> None:
        if isinstance(before, str):
            self.write(f"{RECORD}/files{name}", before)
            state = (self.root / f"{RECORD}/files{name}").stat()
            digest = hashlib.sha256(before.encode()).hexdigest()
            before = {"mode": "0644", "uid": state.st_uid, "gid": state.st_gid, "sha256": digest}
        if now is not None:
            self.write(name.lstrip("/"), now)
        stamp = {"schema": 1, "when": "2026-11-27T23:00:00Z", "by": "0.3.0"}
        self.entries.append({**stamp, "kind": kind, "name": name, "before": before})

    def reset(self, check: bool = False, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("host_reset", {"root": str(self.root), **options}, check=check)
        return result

    def files(self) -> dict[str, str]:
        """Return the files without those of the simulation, and directories that are empty."""
        own = {"log", "links", "after", "cleaned", "more", "fails"}
        paths = [path for path in self.root.rglob("*") if path.is_file() or (path.is_dir() and not any(path.iterdir()))]
        names = {str(path.relative_to(self.root)): path for path in paths}
        return {
            name: path.read_text() if path.is_file() else "directory"
            for name, path in names.items()
            if name not in own and not name.startswith(("units/", "proc/self", "var/lib/dpkg"))
        }

    @property
    def log(self) -> list[str]:
        lines = (self.root / "log").read_text().splitlines() if (self.root / "log").exists() else []
        return [line for line in lines if not line.startswith(("systemctl show", "ip -details"))]


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path / "host", programs, run_module)


LEFT = {
    "etc/fstab": FSTAB.decode(),
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/modprobe.d": "directory",
    "etc/ssh/sshd_config": "Port 22\n",
    "home/ada/.kube/config": f"{ADMIN}# and another one\n",
    "proc/sys/net/ipv4/ip_forward": "0\n",
    "var/lib/gpulab/local-path/pvc/file": "data of a user",
}


def test_host_is_as_it_was_before_the_first_run(host: Host) -> None:
    result = host.reset()
    assert result["changed"] and host.files() == LEFT
    assert result["kept"] == [
        "kubeconfig /home/ada/.kube/config: it names this cluster, but is not a copy of admin.conf",
        "data /var/lib/gpulab/local-path: data of users",
    ]
    assert result["cluster"]["name"] == "lab"
    # Rules are removed before their program, and packages before the files that they would otherwise write again.
    order = [
        "systemctl stop kubelet",
        "umount",
        "ip link",
        "iptables-nft-restore",
        "apt-get purge",
        "systemctl daemon-",
    ]
    found = [
        next(place for place, line in enumerate(host.log) if line.startswith(word) and " -s " not in line)
        for word in order
    ]
    assert found == sorted(found)
    assert not [line for line in host.log if "ssh" in line or "eth0" in line]


def test_second_run_changes_nothing(host: Host) -> None:
    host.reset()
    before, log = host.files(), host.log
    result = host.reset()
    assert (result["changed"], result["diff"]["before"], result["begun"]) == (False, "", False)
    assert (host.files(), host.log) == (before, log)


def test_check_mode_shows_what_a_run_does_and_changes_nothing(host: Host) -> None:
    before = host.files()
    predicted = host.reset(check=True)
    assert host.files() == before and not [line for line in host.log if " -s " not in line]
    assert "remove package kubelet: 1.0-1\n" in predicted["diff"]["before"]
    assert predicted["actions"] == host.reset()["actions"]


def test_what_prevents_a_reset_is_shown_in_check_mode(host: Host) -> None:
    host.write("more", "Remv ada-tool [1.0-1]\n")
    result = host.reset(check=True)
    assert result["failed"] and "apt would also remove ada-tool" in result["msg"]
    host.write("more", "")
    mounts = (host.root / "proc/self/mountinfo").read_text()
    host.write("proc/self/mountinfo", f"{mounts}24 22 0:4 / /etc/kubernetes/mine rw - tmpfs t rw\n")
    result = host.reset(check=True)
    assert result["failed"] and "something is mounted there" in result["msg"]


def test_directories_that_contain_data_of_users_stay(host: Host) -> None:
    host.write("var/lib/gpulab/storage/local/pvc/file", "data of a user")
    # The database of another program; etcd's own is in `member`.
    host.write("var/lib/etcd/default/member/snap/db", "data of a user")
    assert not host.reset(data={"/var/lib/gpulab/storage/local": "volumes"})["failed"]
    assert (host.root / "var/lib/gpulab/storage/local/pvc/file").exists()
    assert (host.root / "var/lib/etcd/default/member/snap/db").exists()


def test_directories_that_purged_packages_leave_go_if_they_are_empty(host: Host) -> None:
    for name in ("usr/libexec/kubernetes/kubelet-plugins/volume/exec", "opt/containerd/bin"):
        (host.root / name).mkdir(parents=True)
    host.reset()
    assert not (host.root / "usr/libexec/kubernetes").exists()
    # The package of containerd stays here, and may need its directory.
    assert (host.root / "opt/containerd/bin").exists()
    host.write("usr/libexec/kubernetes/kubelet-plugins/volume/exec/mine", "a plugin of a user")
    host.reset()
    assert (host.root / "usr/libexec/kubernetes/kubelet-plugins/volume/exec/mine").exists()


def test_run_after_an_interruption_continues(host: Host) -> None:
    host.write("fails", "")
    failed = host.reset()
    assert failed["failed"] and "it fails" in failed["msg"]
    assert json.loads((host.root / STATE).read_text())["name"] == "lab"
    # What the host was is still known, and the record of the first run too.
    (host.root / "var/lib/gpulab/cluster.json").unlink()
    (host.root / "fails").unlink()
    preview = host.reset(check=True)
    assert preview["begun"] and preview["cluster"]["name"] == "lab"
    host.reset()
    assert not (host.root / STATE).exists() and not (host.root / RECORD).exists()
    assert (host.root / "etc/hosts").read_text() == "127.0.0.1 localhost\n"


def test_packages_of_others_are_not_removed(host: Host) -> None:
    host.write("more", "Remv theirs:amd64 [2.0]\n")
    before = host.files()
    failed = host.reset()
    assert "apt would also remove theirs, which this collection did not install. Nothing was changed." in failed["msg"]
    assert host.files() == before


def test_last_copy_of_etcd_stays_unless_it_is_to_be_lost(host: Host) -> None:
    host.write("var/lib/etcd/member/snap/db", "data")
    before = host.files()
    assert host.reset(check=True)["etcd"] == "/var/lib/etcd"
    failed = host.reset()
    assert "/var/lib/etcd may be the last copy of etcd's data" in failed["msg"] and host.files() == before
    host.write("fails", "")
    assert host.reset(lose_etcd=True)["failed"]
    (host.root / "fails").unlink()
    # It was agreed to in the run that was interrupted.
    assert not host.reset()["failed"] and not (host.root / "var/lib/etcd").exists()


def test_of_another_directory_of_etcd_only_its_data_go(host: Host) -> None:
    host.write("etc/kubernetes/manifests/etcd.yaml", "    - --data-dir=/data\n")
    host.write("data/member/snap/db", "data")
    host.write("data/photos", "of a user")
    host.reset(lose_etcd=True)
    assert {name for name in host.files() if name.startswith("data")} == {"data/photos"}


def test_nothing_is_removed_through_a_mount(host: Host) -> None:
    host.add("umount", "exit 0")
    failed = host.reset()
    assert "something is mounted there, so that its data would be lost: /var/lib/kubelet/pods/a" in failed["msg"]
    assert (host.root / "var/lib/kubelet/config.yaml").exists()


def test_linked_directory_is_emptied_and_stays(host: Host) -> None:
    (host.root / "var/lib/kubelet/config.yaml").rename(host.root / "config.yaml")
    (host.root / "var/lib/kubelet").rmdir()
    (host.root / "big/kubelet").mkdir(parents=True)
    (host.root / "config.yaml").rename(host.root / "big/kubelet/config.yaml")
    (host.root / "var/lib/kubelet").symlink_to(host.root / "big/kubelet")
    host.reset()
    assert (host.root / "var/lib/kubelet").is_symlink() and not list((host.root / "big/kubelet").iterdir())
    assert not host.reset()["changed"]


def test_data_of_users_go_if_they_are_to_be_lost(host: Host) -> None:
    host.write("srv/gpulab/model", "weights")
    data = {"/srv/gpulab": "files of the NFS export"}
    assert "data /srv/gpulab: files of the NFS export" in host.reset(data=data)["kept"]
    host.reset(data=data, lose_data=True)
    assert not (host.root / "srv/gpulab").exists() and not (host.root / "var/lib/gpulab").exists()


def test_containers_end_without_containerd(host: Host) -> None:
    host.add("crictl", "exit 1")
    host.write("proc/1/cgroup", "0::/init.scope\n")
    with subprocess.Popen(["sleep", "600"]) as process:
        proc = host.root / f"proc/{process.pid}"
        host.write(f"proc/{process.pid}/cgroup", "0::/system.slice/containerd.service\n")
        host.write(f"proc/{process.pid}/cmdline", "/usr/bin/containerd-shim-runc-v2\0-namespace\0k8s.io\0")
        gone = f"while ! grep -q ') Z ' /proc/{process.pid}/stat; do sleep 0.1; done; rm -r {proc}"
        with subprocess.Popen(["sh", "-c", gone]):
            result = host.reset()
    assert not result["failed"] and "systemctl stop kubepods.slice" in host.log
    assert {"do": "remove", "kind": "containers", "name": "of pods", "why": ""} in result["actions"]


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/docker-1.scope/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope",
        "0::/system.slice/docker-1.scope/system.slice/containerd.service",
        "0::/user.slice/user-1000.slice/kubepods.scope",
    ],
)
def test_pods_of_clusters_in_docker_are_not_touched(host: Host, cgroup: str) -> None:
    host.write("proc/1/cgroup", "0::/init.scope\n")
    with subprocess.Popen(["sleep", "600"]) as process:
        host.write(f"proc/{process.pid}/cgroup", f"{cgroup}\n")
        host.write(f"proc/{process.pid}/cmdline", "/usr/bin/containerd-shim-runc-v2\0-namespace\0k8s.io\0")
        result = host.reset()
        assert process.poll() is None
        process.kill()
    assert not result["failed"] and "systemctl stop kubepods.slice" not in host.log


def test_swap_that_can_not_be_turned_on_is_named(host: Host) -> None:
    host.add("swapon", "echo not permitted >&2; exit 255")
    result = host.reset()
    assert result["kept"][-1] == "swap could not be turned on: not permitted"
