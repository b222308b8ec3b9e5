"""CPU seconds of a second run, apart for the controller and for the modules of each host.

In a lab all of them share the cores, so that the duration of a run does not say where its work is done. The unit is
``ansible all -m ping``: what any task costs that is executed on the hosts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.hosts import ROOT, Inventory

PYTHON = "/usr/local/bin/python3-timed"
TIMES = "/tmp/python3-timed"
# sudo and sshd are not counted.
WRAPPER = f"""#!/bin/bash
TIMEFORMAT='%U %S'
{{ time /usr/bin/python3 "$@" 2>&3; }} 3>&2 2>> {TIMES}
"""
COMMANDS = {"second_run": ["ansible-playbook", "site.yml"], "ping": ["ansible", "all", "-m", "ping"]}


def measure(inventory: Path) -> dict[str, object]:
    """Return the CPU seconds of each command; the inventory's cluster must be finished."""
    hosts = Inventory.read(inventory).hosts.values()
    for host in hosts:
        host.run(f"cat > {PYTHON} <<'END'\n{WRAPPER}END\nchmod 755 {PYTHON}\ntouch {TIMES}; chmod 666 {TIMES}")
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory(prefix="cpu-") as scratch:
        timed = Path(scratch) / inventory.name
        timed.write_text(inventory.read_text().replace("'/usr/bin/python3'", f"'{PYTHON}'"))
        timed.chmod(0o600)
        # The copy of the kubeconfig lies next to the inventory, so that the first run writes it.
        run(COMMANDS["second_run"], timed)
        for name, command in COMMANDS.items():
            for host in hosts:
                host.run(f": > {TIMES}")
            controller = run(command, timed)
            modules = {host.name: host.run(f"cat {TIMES}").splitlines() for host in hosts}
            figures[name] = {
                "controller_s": controller,
                "hosts_s": {host: spent(times) for host, times in modules.items()},
                "modules": {host: len(times) for host, times in modules.items()},
            }
    return figures


def spent(times: list[str]) -> float:
    return round(sum(float(each) for line in times for each in line.split()), 2)


def run(command: list[str], inventory: Path) -> float:
    """Run a command, and return the CPU seconds of its processes."""
    before = os.times()
    done = subprocess.run(
        [*command, "-i", str(inventory)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    after = os.times()
    return round(after.children_user + after.children_system - before.children_user - before.children_system, 2)


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]).resolve()), indent=2))
