"""Measure runs with many hosts: the host part on 20 lab nodes, and a second run on 100 simulated hosts.

The 20 nodes are bare and only read by plan.yml, because that many kubelets would keep two cores busy. The 100 hosts
don't exist: a connection plugin (plugins/connection/recordings.py) answers each module with a recording from a small
lab, API results included. Their figure is therefore the controller's work alone.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.hosts import ROOT, Inventory
from support.lab import running

PLUGINS = Path(__file__).resolve().parent / "plugins"
NODES = int(os.environ.get("NODES", "20"))
HOSTS = int(os.environ.get("HOSTS", "100"))
LIMITS = {"bare_nodes_ratio": 3.0, "controller_mib": 600}


def few(small: Inventory) -> dict[str, object]:
    """Return seconds and MiB of a second run on a small, finished lab and on many copies of it."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as scratch:
        work = Path(scratch)
        seconds, _ = second_run(small.path)
        record(small.path, work / "recordings")
        simulated, simulated_mib = simulate(small, work)
    return {
        "few_nodes": len(small.hosts),
        "few_nodes_s": seconds,
        "simulated_hosts": HOSTS,
        "simulated_hosts_s": simulated,
        "simulated_hosts_controller_mib": simulated_mib,
    }


def many(few_nodes_s: float) -> dict[str, object]:
    """Return seconds and MiB of plan.yml on many bare nodes, and the ratio of its seconds to ``few_nodes_s``."""
    with (
        tempfile.TemporaryDirectory(prefix="fleet-") as scratch,
        running("bench-fleet", specification(Path(scratch) / "fleet.yml")) as lab,
    ):
        seconds, mib = run("playbooks/plan.yml", lab.path, "site.yml would change")
    return {
        "bare_nodes": NODES,
        "bare_nodes_plan_s": seconds,
        "bare_nodes_controller_mib": mib,
        "bare_nodes_ratio": round(seconds / few_nodes_s, 2),
        "limits": LIMITS,
    }


def specification(path: Path) -> Path:
    """Write a lab spec with a control plane and GPU hosts on both Debian releases."""
    nodes: list[dict[str, object]] = [{"name": "cp1", "os": "debian12", "groups": ["control_plane"]}]
    for number in range(1, NODES):
        system = ("debian12", "debian13")[number % 2]
        gpus = {"model": "t4", "count": 4}
        nodes.append({"name": f"gpu{number}", "os": system, "groups": ["workers"], "gpus": gpus})
    path.write_text(yaml.safe_dump({"nodes": nodes}))
    return path


def second_run(inventory: Path, **environment: str) -> tuple[float, int]:
    return run("site.yml", inventory, "nothing to change", **environment)


def run(playbook: str, inventory: Path, expected: str, **environment: str) -> tuple[float, int]:
    """Run a playbook and check its output for ``expected``; return seconds and the peak MiB of all its processes."""
    command = ["ansible-playbook", playbook, "-i", str(inventory)]
    started, peak = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process:
            while process.returncode is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(1)
                peak = max(peak, proportional(process.pid))
        seconds = round(time.monotonic() - started, 1)
        output.seek(0)
        said = output.read()
    if process.returncode or expected not in said:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said[-3000:]}")
    print(f"bench: {inventory.name}: {seconds} s, {peak} MiB", file=sys.stderr, flush=True)
    return seconds, peak


def proportional(leader: int) -> int:
    """Return the memory of a process and its descendants in MiB; shared pages count once."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    total = 0
    for process in parents:
        above = process
        while above not in (0, leader):
            above = parents.get(above, 0)
        if above == leader:
            with suppress(OSError):
                rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
    return total // 1024


def record(inventory: Path, recordings: Path) -> None:
    recordings.mkdir(mode=0o700)
    second_run(
        inventory,
        ANSIBLE_CALLBACK_PLUGINS=str(PLUGINS / "callback"),
        ANSIBLE_CALLBACKS_ENABLED="recorder",
        GPULAB_RECORDINGS=str(recordings),
    )


def simulate(lab: Inventory, work: Path) -> tuple[float, int]:
    """Run site.yml on many copies of the small lab's first worker."""
    control_plane, worker = lab.control_plane, lab.workers[0]
    recordings = work / "recordings"
    seen = json.loads((recordings / worker.name / "preflight_info.json").read_text())
    hosts: dict[str, dict[str, object]] = {
        control_plane.name: {**control_plane.variables, "bench_recorded": str(recordings / control_plane.name)},
        "localhost": {
            "bench_recorded": str(recordings / "localhost"),
            "ansible_python_interpreter": sys.executable,
        },
    }
    addresses = ipaddress.ip_network("198.18.0.0/16").hosts()
    for number, address in zip(range(1, HOSTS), map(str, addresses), strict=False):
        name = f"gpu{number:03}"
        own = {worker.name: name, worker.variables["ansible_host"]: address, seen["machine_id"]: f"{number:032x}"}
        recorded = {"bench_recorded": str(recordings / worker.name), "bench_replace": own}
        hosts[name] = {**worker.variables, "ansible_host": address, **recorded}
    groups = {
        "control_plane": {"hosts": {control_plane.name: None}},
        "workers": {"hosts": {name: None for name in hosts if name.startswith("gpu")}},
    }
    inventory = work / "simulated.yml"
    # No kubeconfig is written on the controller: a recording only has a module's last result, which may not fit.
    common = {"ansible_connection": "recordings", "cluster_kubeconfig": ""}
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": common, "children": groups}}))
    return second_run(inventory, ANSIBLE_CONNECTION_PLUGINS=str(PLUGINS / "connection"))


if __name__ == "__main__":
    figures = few(Inventory.read(Path(sys.argv[1]).resolve()))
    print(json.dumps(figures, indent=2))
