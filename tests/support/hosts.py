"""The hosts of an inventory, reached by SSH as Ansible reaches them."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Host:
    """One host of an inventory with its variables."""

    name: str
    variables: dict[str, Any]

    def ssh(self) -> list[str]:
        """Return the command that runs the arguments after it on this host."""
        v = self.variables
        options = shlex.split(v.get("ansible_ssh_common_args", ""))
        if "ansible_ssh_private_key_file" in v:
            options += ["-i", v["ansible_ssh_private_key_file"]]
        options += ["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-p", str(v.get("ansible_port", 22))]
        return ["ssh", *options, f"{v['ansible_user']}@{v['ansible_host']}"]

    def attempt(self, script: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a shell script as root on the host and return the result."""
        password = self.variables.get("ansible_become_password")
        how = "-n" if password is None else "-S -p ''"
        # sudo reads one line; the script's standard input is then empty.
        said = "" if password is None else f"{password}\n"
        command = [*self.ssh(), f"sudo {how} bash -c {shlex.quote(script)}"]
        return subprocess.run(command, input=said, capture_output=True, text=True, timeout=timeout)

    def run(self, script: str, timeout: float = 120) -> str:
        """Run a shell script as root on the host and return its standard output."""
        done = self.attempt(script, timeout)
        assert done.returncode == 0, f"{self.name}: {script}\nended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def install(self, program: Path) -> None:
        """Copy a program of this machine to /usr/local/bin."""
        with program.open("rb") as file:
            subprocess.run([*self.ssh(), f"cat > /tmp/{program.name}"], stdin=file, check=True, timeout=300)
        self.run(f"install -m 755 /tmp/{program.name} /usr/local/bin/{program.name}")


@dataclass(frozen=True)
class Inventory:
    """The hosts of an inventory file, as `ansible-inventory --list` prints them."""

    path: Path
    hosts: dict[str, Host]
    groups: dict[str, list[str]]

    @classmethod
    def read(cls, path: Path, *further: Path) -> Inventory:
        given = [word for each in (path, *further) for word in ("-i", str(each))]
        command = ["ansible-inventory", *given, "--list"]
        listed = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
        variables = listed["_meta"]["hostvars"]
        groups = {name: entry.get("hosts", []) for name, entry in listed.items() if name != "_meta"}
        return cls(path, {name: Host(name, values) for name, values in variables.items()}, groups)

    @property
    def control_plane(self) -> Host:
        return self.hosts[self.groups["control_plane"][0]]

    @property
    def workers(self) -> list[Host]:
        return [self.hosts[name] for name in self.groups["workers"]]

    def expected_gpus(self) -> dict[str, int]:
        """Return the expected number of GPUs of each host that has any."""
        counts = {name: int(host.variables.get("cluster_expected_gpus", 0)) for name, host in self.hosts.items()}
        return {name: count for name, count in counts.items() if count}
