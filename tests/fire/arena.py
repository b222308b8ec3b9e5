"""A lab that every point starts from in the same state, and a controller with files of its own."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from support.api_prober import ApiProber, admin_access
from support.backups import destroy, fetch
from support.cluster import Cluster
from support.hosts import ROOT, Inventory
from support.lab import PREFIX, lab_command
from support.play import Run, environment, execute
from support.secret_scan import files, recent, tokens

from fire import checks, faults
from fire.points import CONTROLLER, POWER, RUN, Point, Step, steps
from lab.nodes import disk, saved, spec

COPY = "fire"
_SETTLE_SECONDS = 180
# What no temporary file may contain after a run.
_PRIVATE = (b"PRIVATE KEY-----", b"client-key-data")
_TEMPORARY = "/tmp /var/tmp /root/.ansible /home"


# Stands for the controller's directory in the arguments of a play.
_CONTROLLER = "CONTROLLER"
_BACKUPS = ("-e", "backup_enabled=true")
_SPECS = ROOT / "tests" / "integration" / "specs"
# Control planes in the inventory besides those of the lab's own.
_THREE = "[control_plane]\ncp1\ncp2\ncp3\n"


@dataclass(frozen=True)
class Setup:
    """What a play needs: the plays before it, then `prepare`, its arguments, and a spec if that of `fire` doesn't do.

    `after` are the plays that follow it when it has succeeded. A play that `repeats` has changes in each run, and one
    that `ends` the cluster leaves none. `joins` and `leaves` are hosts that are no nodes before it, and afterwards.
    """

    before: tuple[tuple[str, ...], ...] = (("site.yml",),)
    prepare: Callable[[Inventory, Path], None] = lambda _hosts, _directory: None
    arguments: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    repeats: bool = False
    ends: bool = False
    joins: frozenset[str] = frozenset()
    leaves: frozenset[str] = frozenset()
    spec: Path = _SPECS / "fire.yml"
    # If the name of the setup is not that of its play.
    play: str = ""


def _lose_control_plane(hosts: Inventory, directory: Path) -> None:
    fetch(hosts.control_plane, directory, "backup.tar")
    destroy(hosts.control_plane)


def _lose_second_of_three(hosts: Inventory, directory: Path) -> None:
    """Stop all of cp2 for good, wait until its node is lost, and let the machine `spare` be the host cp2."""
    hosts.hosts["cp2"].run("systemctl disable --now kubelet && crictl ps -q | xargs -r crictl stop && sync")
    end = time.monotonic() + _SETTLE_SECONDS
    while "cp2" in Cluster.of(hosts).ready_nodes():
        assert time.monotonic() < end, "cp2 is still ready"
        time.sleep(2)
    lines = (directory / "lab.ini").read_text().splitlines()
    (spare,) = [line for line in lines if line.startswith("spare ")]
    new = {"cp2": f"{spare.replace('spare', 'cp2', 1)} cluster_node_name=cp2"}
    kept = [new.get(line.split(" ")[0], line) if " " in line else line for line in lines]
    text = "\n".join(line for line in kept if line.split(" ")[0] not in ("spare", "[spare]"))
    (directory / "lab.ini").write_text(f"{text}\n")


def _three(_hosts: Inventory, directory: Path) -> None:
    (directory / "three.ini").write_text(_THREE)


# Plays that need something else than a cluster that site.yml has made.
SETUPS: Mapping[str, Setup] = {
    "site.yml": Setup(before=()),
    "playbooks/renew_certificates.yml": Setup(repeats=True),
    "playbooks/backup.yml": Setup(arguments=_BACKUPS, repeats=True),
    "playbooks/restore.yml": Setup(
        before=(("site.yml", *_BACKUPS), ("playbooks/backup.yml", *_BACKUPS)),
        prepare=_lose_control_plane,
        arguments=("-e", f"restore_archive={_CONTROLLER}/backup.tar", "-e", "restore_confirm=lab"),
        after=("site.yml",),
    ),
    "one-to-three": Setup(
        prepare=_three,
        arguments=("-i", f"{_CONTROLLER}/three.ini"),
        joins=frozenset({"cp2", "cp3"}),
        spec=_SPECS / "fire-three.yml",
        play="site.yml",
    ),
    "playbooks/replace_node.yml": Setup(
        prepare=_lose_second_of_three,
        arguments=("-e", "node=cp2"),
        joins=frozenset({"cp2"}),
        spec=_SPECS / "fire-replace.yml",
    ),
    "playbooks/upgrade_cluster.yml": Setup(
        before=(("site.yml", *_BACKUPS, "-e", "cluster_kubernetes_version=1.36.5"),),
        arguments=(*_BACKUPS, "-e", "cluster_kubernetes_version=1.37.2", "-e", "cluster_disruption_policy=drain"),
    ),
    "playbooks/remove_node.yml": Setup(arguments=("-e", "node=gpu1"), leaves=frozenset({"gpu1"})),
    "playbooks/reset.yml": Setup(arguments=("-e", "reset_confirm=lab", "-e", "reset_last_etcd_copy=lose"), ends=True),
}


def head() -> str:
    argv = ["git", "rev-parse", "HEAD"]
    return subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


class Arena:
    """The lab of a play. Its inventory is in `controller`, of which `kept` is the saved copy that belongs to the lab's.

    `place` is the name of the lab and a directory, by default one for each play, which stays for later calls.
    """

    def __init__(self, play: str, arguments: Sequence[str] = (), place: tuple[str, Path] | None = None) -> None:
        # One name for one playbook, however it was given.
        name = os.path.relpath(ROOT / play, ROOT)
        self.setup = SETUPS.get(name, Setup())
        self.play = self.setup.play or name
        self._arguments = [*self.setup.arguments, *arguments]
        slug = Path(play).stem.replace("_", "-")
        self.lab, self.directory = place or (f"{PREFIX}-fire-{slug}", ROOT / ".cache" / "fire" / slug)
        self.controller, self.kept = self.directory / "controller", self.directory / "kept"
        self.restored = 0.0
        # The task that the last fault interrupted.
        self.during = ""

    @property
    def title(self) -> str:
        return shlex.join([self.play, *self._arguments])

    def key(self) -> dict[str, str]:
        """Return what a saved lab and its results depend on; those of another key are not used."""
        digest = hashlib.sha256(self.setup.spec.read_bytes()).hexdigest()
        before = "; ".join(map(shlex.join, self.setup.before))
        return {"play": self.title, "commit": head(), "spec": digest, "before": before}

    @property
    def arguments(self) -> list[str]:
        return [argument.replace(_CONTROLLER, str(self.controller)) for argument in self._arguments]

    @property
    def inventory(self) -> Path:
        return self.controller / "lab.ini"

    def prepare(self) -> None:
        """Make the lab and save it, unless an earlier call has done so."""
        if self._prepared():
            return
        lab_command("down", "--name", self.lab)
        for former in (self.kept, self.controller):
            shutil.rmtree(former, ignore_errors=True)
        self.controller.mkdir(parents=True)
        arguments = ["--name", self.lab, "--spec", str(self.setup.spec), "--inventory", str(self.inventory)]
        lab_command("up", *arguments)
        with Controller(self) as controller:
            for play, *arguments in self.setup.before:
                controller.run(play, "before", *arguments).expect_success()
        self.setup.prepare(Inventory.read(self.inventory), self.controller)
        lab_command("save", COPY, "--name", self.lab)
        work = self.directory / "kept.new"
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(self.controller, work)
        self._key_file.write_text(json.dumps(self.key()))
        work.rename(self.kept)

    @property
    def _key_file(self) -> Path:
        return self.directory / "kept.json"

    def _prepared(self) -> bool:
        if not (self.kept.is_dir() and self._key_file.is_file() and COPY in saved.names(self.lab)):
            return False
        return bool(self.key() == json.loads(self._key_file.read_text()))

    def restore(self) -> None:
        self.restored = time.time()
        lab_command("restore", COPY, "--name", self.lab)
        shutil.rmtree(self.controller, ignore_errors=True)
        shutil.copytree(self.kept, self.controller)

    def remove(self) -> None:
        lab_command("down", "--name", self.lab)
        shutil.rmtree(self.kept, ignore_errors=True)

    def nodes_with_disk(self) -> list[str]:
        """Return the nodes that can lose power."""
        return sorted(node.name for node in spec.load(self.setup.spec).nodes if node.power_cuts)

    def settle(self) -> None:
        """Wait until a cluster that has just been started works as before; bare machines need not be waited for.

        What the API says about a node counts once its kubelet has renewed its lease: before, it is from the saved copy.
        """
        hosts = Inventory.read(self.inventory)
        if not checks.has_cluster(hosts):
            return
        end = time.monotonic() + _SETTLE_SECONDS
        problems = ["the API does not answer"]
        while problems:
            assert time.monotonic() < end, f"the restored cluster does not work: {problems}"
            time.sleep(1)
            with suppress(AssertionError):
                nodes = checks.cluster_problems(hosts, self.setup.joins)
                problems = [*checks.not_renewed(hosts, self.restored, self.setup.joins), *nodes]

    def record(self) -> tuple[list[Step], float]:
        """Return the steps of an uninterrupted run, and its seconds. Raises AssertionError if it fails."""
        self.restore()
        self.settle()
        with Controller(self) as controller:
            began = time.monotonic()
            run = controller.run(self.play, "recorded", *self.arguments).expect_success()
            end = time.monotonic()
        return steps(run.events, end), end - began

    def attempt(self, point: Point, log: Path) -> tuple[str, str]:
        """Interrupt a run at a point and run it again; return the outcome, and what was wrong."""
        hosts = Inventory.read(self.inventory)
        with Controller(self) as controller, ExitStack() as probing:
            probes = checks.has_cluster(hosts) and not self.setup.ends
            prober = ApiProber(admin_access(hosts.control_plane), log) if probes else None
            if prober:
                probing.enter_context(prober)
                prober.wait()
            fired, run = controller.interrupted(self.play, point, *self.arguments)
            if ended := checks.not_interrupted(point, run, fired=fired):
                return ended
            # A person starts the next run when the machines are back.
            checks.await_answers(hosts)
            before = checks.identity(hosts) if prober or checks.initialized(run) else ""
            again = controller.run(self.play, "again", *self.arguments)
            probing.close()
            if again.status:
                return "failed", f"the next run ended with {again.status}:\n{again.failures() or again.tail(20)}"
            for play in self.setup.after:
                after = controller.run(play, "after")
                if after.status:
                    return "failed", f"{play} ended with {after.status}:\n{after.failures() or after.tail(20)}"
            third = controller.run(self.play, "third", *self.arguments)
            problems = [
                *checks.unfinished(third, self.setup.repeats),
                *controller.secrets_left(hosts),
                *(checks.remains(hosts) if self.setup.ends else checks.cluster_problems(hosts, self.setup.leaves)),
            ]
            if before and checks.identity(hosts) != before:
                problems.append(f"the cluster is another one: {before} => {checks.identity(hosts)}")
            if prober:
                problems += checks.lost(hosts, prober)
        return ("failed", "\n".join(problems)) if problems else ("passed", "")


class Controller:
    """The controller of one point. Its temporary files and connections are apart from those of other processes."""

    def __init__(self, arena: Arena) -> None:
        self.arena, self.begun = arena, time.time()
        self.scratch = Path(tempfile.mkdtemp(prefix="fire-"))
        self.sockets = self.scratch / "cp"

    def __enter__(self) -> Controller:
        for name in ("tmp", "ansible", "events", "cp"):
            (self.scratch / name).mkdir()
        return self

    def __exit__(self, *_error: object) -> None:
        faults.kill_controller(f"{self.scratch}/events/", self.sockets)
        shutil.rmtree(self.scratch)

    def run(self, play: str, name: str, *arguments: str, timeout: float = 1500) -> Run:
        events = self._events(name)
        command = ["ansible-playbook", play, "-i", str(self.arena.inventory), *arguments]
        own = {
            "TMPDIR": str(self.scratch / "tmp"),
            "ANSIBLE_HOME": str(self.scratch / "ansible"),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.sockets),
        }
        self.sockets.mkdir(exist_ok=True)
        return execute(command, ROOT, {**os.environ, **environment(events), **own}, events, timeout)

    def interrupted(self, play: str, point: Point, *arguments: str) -> tuple[bool, Run]:
        """Run a play with a fault; return whether its moment came, and the run."""
        events = self._events("interrupted")
        lab = self.arena.lab
        actions = {
            RUN: lambda: faults.kill_run(str(events)),
            CONTROLLER: lambda: faults.kill_controller(str(events), self.sockets),
            POWER: lambda: power_cut(lab, point.node),
        }
        trigger = faults.Trigger(events, point, actions[point.kind])
        trigger.start()
        try:
            run = self.run(play, "interrupted", *arguments)
        finally:
            trigger.stop()
            self.arena.during = trigger.during if trigger.fired else ""
        return trigger.fired, run

    def _events(self, name: str) -> Path:
        return self.scratch / "events" / f"{name}.jsonl"

    def secrets_left(self, hosts: Inventory) -> list[str]:
        """Return the files that contain a secret which a run should have removed, on this machine and on the hosts."""
        known = [] if self.arena.setup.ends else tokens(Cluster.of(hosts))
        own = [self.scratch / "tmp", self.scratch / "ansible"]
        found = [str(path) for place in own for path, data in recent(place, self.begun) if _any(data, known, _PRIVATE)]
        found += [str(path) for path, data in recent(self.arena.controller, self.begun) if _any(data, known)]
        for host in hosts.hosts.values():
            temporary = files(host, _TEMPORARY)
            found += [f"{host.name}:/{path}" for path, (_, data) in temporary.items() if _any(data, known, _PRIVATE)]
        return [f"a secret is left in {path}" for path in found]


def power_cut(lab: str, node: str) -> None:
    """Shut a node's disk down at this moment, not when the lab's command has started, and then its power."""
    disk.cut(lab, node)
    lab_command("power-cut", node, "--name", lab)


def _any(data: bytes, *secrets: Sequence[bytes]) -> bool:
    return any(secret in data for group in secrets for secret in group)
