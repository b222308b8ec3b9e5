"""A controller like a person's laptop: an ordinary user without sudo rights, a copy of the checkout, and SSH.

The user only exists for the programs that are started here. They run in their own mount namespace, in which /etc/passwd
has the user, and in which the directories above Python can be entered, even if root owns it.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from support.hosts import ROOT, Inventory
from support.lab import Lab
from support.play import Run, environment, execute

USER = "gpulab-laptop"
# Variables that the user's own inventory sets, or that the laptop's SSH configuration replaces.
_OWN = ("ansible_host", "ansible_user", "ansible_ssh_", "ansible_become", "cluster_expected_gpus")
_ENTER = """
set -eu
passwd=$1; uid=$2; gid=$3; work=$4; blocked=$5; shift 5
mount --bind "$passwd" /etc/passwd
number=0
for place in $PLACES; do
    number=$((number + 1))
    mkdir -p "$work/$number"
    mount --bind "$place" "$work/$number"
done
for directory in $blocked; do
    mount -t tmpfs -o mode=755 tmpfs "$directory"
done
number=0
for place in $PLACES; do
    number=$((number + 1))
    [ -d "$place" ] || mkdir -p "$place"
    mountpoint -q "$place" || mount --bind "$work/$number" "$place"
done
unset PLACES
exec setpriv --reuid "$uid" --regid "$gid" --clear-groups --inh-caps=-all "$@"
"""


@dataclass(frozen=True)
class Laptop:
    """The user's ID and home, which contains the checkout, and the directory `cluster` with the inventory."""

    uid: int
    home: Path
    work: Path

    @property
    def checkout(self) -> Path:
        return self.home / "gpulab-kubernetes"

    @property
    def cluster(self) -> Path:
        return self.home / "cluster"

    @property
    def report(self) -> Path:
        return self.cluster / "gpulab-report.json"

    def command(self, *argv: str) -> list[str]:
        """Return the command that runs a program as the user."""
        places = _python()
        script = f"PLACES='{' '.join(str(place) for place in places)}'\n{_ENTER}"
        blocked = " ".join(sorted({str(directory) for place in places for directory in _closed(place)}))
        enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "enter"]
        return [*enter, str(self.work / "passwd"), str(self.uid), str(self.uid), str(self.work), blocked, *argv]

    def environment(self) -> dict[str, str]:
        programs = Path(sys.prefix).resolve() / "bin"
        return {
            "HOME": str(self.home),
            "USER": USER,
            "LOGNAME": USER,
            "LANG": "C.UTF-8",
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        }

    def play(self, inventory: Path, *arguments: str, playbook: str = "site.yml", timeout: float = 1500) -> Run:
        """Run ansible-playbook as the user in the user's checkout, with the machines' sudo password."""
        events = self.home / "events.jsonl"
        events.unlink(missing_ok=True)
        password = [f"--become-password-file={self.home / 'sudo-password'}"]
        argv = self.command("ansible-playbook", playbook, "-i", str(inventory), *password, *arguments)
        env = {**self.environment(), **environment(events, self.checkout)}
        return execute(argv, self.checkout, env, events, timeout)

    def inventory(self, lab: Lab, shipped: str) -> Path:
        """Copy a shipped inventory with a lab's addresses, and return the argument for -i.

        Variables that only the lab's machines need are in host_vars next to it, unless the inventory sets them.
        """
        source = self.checkout / "inventories" / shipped
        shutil.rmtree(self.cluster, ignore_errors=True)
        if source.is_dir():
            shutil.copytree(source, self.cluster)
        else:
            self.cluster.mkdir()
            shutil.copy(source, self.cluster)
        found = lab.inventory()
        (path,) = self.cluster.glob("*.ini")
        files = [path, *self.cluster.glob("group_vars/*.yml")]
        given: set[str] = set()
        for file in files:
            text = file.read_text()
            file.write_text(_addressed(text, found))
            given |= set(yaml.safe_load(text)) if file.suffix == ".yml" else set()
        (self.cluster / "host_vars").mkdir()
        for name, host in found.hosts.items():
            own = {key: value for key, value in host.variables.items() if key not in given and not key.startswith(_OWN)}
            (self.cluster / "host_vars" / f"{name}.json").write_text(json.dumps(own, indent=1))
        self._take_keys(lab, found)
        _give(self.home, self.uid)
        return path

    def _take_keys(self, lab: Lab, found: Inventory) -> None:
        """Put the lab's key and known hosts where SSH looks for them by default."""
        ssh = self.home / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)
        variables = found.control_plane.variables
        key = Path(variables["ansible_ssh_private_key_file"])
        shutil.copy(key, ssh / "id_ed25519")
        shutil.copy(key.parent / "known_hosts", ssh / "known_hosts")
        (self.home / "sudo-password").write_text(f"{variables['ansible_become_password']}\n")
        (self.home / "sudo-password").chmod(0o600)

    def files_of_others(self) -> list[Path]:
        """Return the files in the user's home that the user does not own."""
        return [path for path in self.home.rglob("*") if path.lstat().st_uid != self.uid]


@contextmanager
def laptop() -> Iterator[Laptop]:
    """Create a laptop for the duration of the block."""
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    uid = next(uid for uid in range(64100, 65000) if uid not in taken)
    with (
        tempfile.TemporaryDirectory(prefix="laptop-home-") as home,
        tempfile.TemporaryDirectory(prefix="laptop-") as work,
    ):
        user = f"{USER}:x:{uid}:{uid}::{home}:/bin/sh\n"
        (Path(work) / "passwd").write_text(Path("/etc/passwd").read_text() + user)
        (Path(work) / "passwd").chmod(0o644)
        Path(work).chmod(0o755)
        made = Laptop(uid, Path(home), Path(work))
        _copy_checkout(made.checkout)
        _give(made.home, uid)
        try:
            yield made
        finally:
            _end_processes(uid)


@contextmanager
def only_ssh(user: Laptop, lab: Lab) -> Iterator[None]:
    """Let the user's programs reach a lab's machines only by SSH, as through a firewall."""
    address = lab.inventory().control_plane.variables["ansible_host"]
    subnet = f"{address.rpartition('.')[0]}.0/24"
    mark = ["-m", "owner", "--uid-owner", str(user.uid), "-m", "comment", "--comment", USER]
    rule = ["OUTPUT", "-d", subnet, *mark]
    rules = [[*rule, "-j", "DROP"], [*rule, "-p", "tcp", "--dport", "22", "-j", "ACCEPT"]]
    _forget_rules()
    try:
        for each in rules:
            subprocess.run(["iptables", "--wait", "-I", *each], check=True)
        yield
    finally:
        _forget_rules()


def _forget_rules() -> None:
    """Remove the rules, including those of a test that was killed."""
    listed = subprocess.run(["iptables", "--wait", "-S", "OUTPUT"], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        if f"--comment {USER} " in line:
            subprocess.run(["iptables", "--wait", "-D", *line.split()[1:]], check=True)


def _addressed(text: str, found: Inventory) -> str:
    """Replace the addresses and the user of an example with a lab's."""
    variables = found.control_plane.variables
    depot = str(variables["kubeadm_repository_url"]).split("/pkgs.k8s.io")[0]
    registry = str(variables["containerd_registry_mirrors"][0]["endpoint"]).split("/v2/")[0]
    for name, host in found.hosts.items():
        address = host.variables["ansible_host"]
        text = re.sub(rf"^({name} +.*\bansible_host=)\S+", rf"\g<1>{address}", text, flags=re.MULTILINE)
    text = re.sub(r"(ansible_user *[=:] *)admin", rf"\g<1>{variables['ansible_user']}", text)
    text = text.replace("https://mirror.example.org", depot).replace("https://registry.example.org", registry)
    assert "192.0.2." not in text and "example.org" not in text, text
    return text


def _copy_checkout(target: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_symlink() or source.exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


def _python() -> list[Path]:
    """Return the directories of the running Python: its environment and its base installation."""
    return sorted({Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)})


def _closed(path: Path) -> list[Path]:
    """Return the topmost directory above a path that other users may not enter, or None."""
    above = [parent for parent in reversed(path.parents) if not parent.stat().st_mode & stat.S_IXOTH]
    return above[:1]


def _give(home: Path, uid: int) -> None:
    for path in (home, *home.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


def _end_processes(uid: int) -> None:
    """Terminate the user's remaining processes, such as SSH's shared connections."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.stat().st_uid == uid:
                os.kill(int(process.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
