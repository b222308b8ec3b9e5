"""What counts as a repaired interruption, without a lab."""

from __future__ import annotations

import shutil
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fire import __main__ as program
from fire import arena, checks
from fire.points import CONTROLLER, POWER, RUN, Point, Progress, Step
from support.hosts import ROOT, Inventory
from support.play import Run

from lab.nodes import disk, saved

POINT = Point(RUN, "host : Write", 0, 0.5)
FAILED = {"event": "result", "host": "cp1", "task": "kubeadm : Join", "status": "failed", "message": "it is held"}
CHANGED = {"event": "result", "host": "gpu1", "task": "host : Write", "status": "changed", "message": ""}
SECRET = b"0123456789abcdef"


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Return what the simulated runs and the cluster do; a test changes it."""
    found: dict[str, Any] = {
        "fired": True,
        "interrupted": Run(-9, ""),
        "again": Run(0, ""),
        "third": Run(0, ""),
        "problems": [],
        "files": {},
        # The answers to the question whether the machine is back, the last one first.
        "down": [0, 255, 255],
    }
    host = SimpleNamespace(name="gpu1", attempt=lambda _script: SimpleNamespace(returncode=found["down"].pop()))
    hosts = SimpleNamespace(hosts={"gpu1": host}, control_plane=None)
    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: None))
    monkeypatch.setattr(Inventory, "read", lambda _path: hosts)
    monkeypatch.setattr(checks, "has_cluster", lambda _hosts: False)
    monkeypatch.setattr(checks, "cluster_problems", lambda _hosts, _outside: found["problems"])
    for module in (arena, checks):
        monkeypatch.setattr(module, "Cluster", SimpleNamespace(of=lambda _hosts: None))
    monkeypatch.setattr(checks, "identity", lambda _hosts: "1")
    monkeypatch.setattr(arena, "tokens", lambda _cluster: [SECRET])
    monkeypatch.setattr(arena, "files", lambda _host, _places: found["files"])
    monkeypatch.setattr(arena.Controller, "interrupted", lambda *_: (found["fired"], found["interrupted"]))
    monkeypatch.setattr(arena.Controller, "run", lambda self, play, name, *_: found[name])
    return found


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({}, "passed", ""),
        ({"fired": False, "interrupted": Run(0, "")}, "missed", "before its moment came"),
        ({"again": Run(2, "", [FAILED])}, "failed", "the next run ended with 2:\ncp1: kubeadm : Join: it is held"),
        ({"again": Run(1, "Traceback")}, "failed", "the next run ended with 1:\nTraceback"),
        ({"third": Run(0, "", [CHANGED])}, "failed", "the run after that changed gpu1: host : Write"),
        ({"third": Run(4, "", [FAILED])}, "failed", "the run after that ended with 4"),
        ({"problems": ["node gpu1 is not ready"]}, "failed", "node gpu1 is not ready"),
        ({"files": {"tmp/x": (0o600, b"t: " + SECRET)}}, "failed", "a secret is left in gpu1:/tmp/x"),
        ({"files": {"tmp/x": (0o600, b"-----BEGIN EC PRIVATE KEY-----")}}, "failed", "a secret is left in gpu1:/tmp/x"),
        ({"files": {"tmp/x": (0o600, b"text")}}, "passed", ""),
    ],
)
def test_each_outcome_of_a_point(plan: dict[str, Any], change: dict[str, Any], outcome: str, words: str) -> None:
    plan.update(change)
    found, why = arena.Arena("site.yml").attempt(POINT, Path("unused"))
    # Only after an interruption is the next run started, when the machine is back.
    assert plan["down"] == ([] if plan["fired"] else [0, 255, 255])
    assert found == outcome and words in why
    assert bool(words) == bool(why)


@pytest.mark.parametrize(
    ("kind", "fired", "status", "outcome"),
    [
        *((kind, True, -9, None) for kind in (RUN, CONTROLLER, POWER)),
        # The fault came, but the run had ended.
        (RUN, True, 0, "missed"),
        (CONTROLLER, True, 0, "missed"),
        (POWER, True, 0, None),
        (POWER, True, 4, None),
        (RUN, False, 0, "missed"),
        (POWER, False, 0, "missed"),
        # The run failed without its fault.
        (RUN, True, 2, "failed"),
        (RUN, False, 2, "failed"),
        (POWER, False, 4, "failed"),
    ],
)
def test_only_a_run_that_its_fault_ended_was_interrupted(
    kind: str, fired: bool, status: int, outcome: str | None
) -> None:
    found = checks.not_interrupted(Point(kind, "host : Write", 0, 0.5), Run(status, "", [FAILED]), fired=fired)
    assert (found and found[0]) == outcome
    assert outcome != "failed" or (found and "it is held" in found[1])


def test_a_removed_cluster_leaves_no_files(plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    monkeypatch.setattr(checks, "remains", lambda _hosts: left)
    plan["problems"] = ["there is no API"]
    reset = arena.Arena("playbooks/reset.yml")
    assert reset.attempt(POINT, Path("unused")) == ("passed", "")
    left.append("/etc/kubernetes is left on gpu1")
    plan["down"] = [0]
    assert reset.attempt(POINT, Path("unused")) == ("failed", left[0])


def test_a_setup_may_have_another_name_than_its_play() -> None:
    grown = arena.Arena("one-to-three")
    assert grown.play == "site.yml" and grown.arguments == ["-i", f"{grown.controller}/three.ini"]
    assert grown.nodes_with_disk() == ["cp1", "cp2", "cp3"]


def test_a_replacement_takes_the_place_of_the_lost_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = [{"cp2"}, {"cp1"}]
    commands: list[str] = []
    hosts: Any = SimpleNamespace(hosts={"cp2": SimpleNamespace(run=commands.append)})
    cluster = SimpleNamespace(ready_nodes=lambda: ready.pop(0))
    monkeypatch.setattr(arena, "Cluster", SimpleNamespace(of=lambda _hosts: cluster))
    monkeypatch.setattr(arena, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _seconds: None))
    lines = ["cp2 ansible_host=10.0.0.2", "spare ansible_host=10.0.0.4", "", "[control_plane]", "cp2"]
    (tmp_path / "lab.ini").write_text("\n".join([*lines, "", "[spare]", "spare", ""]))
    arena.SETUPS["playbooks/replace_node.yml"].prepare(hosts, tmp_path)
    text = (tmp_path / "lab.ini").read_text()
    assert "cp2 ansible_host=10.0.0.4 cluster_node_name=cp2\n\n[control_plane]\ncp2\n" in text
    assert "spare" not in text and "10.0.0.2" not in text
    assert "disable --now kubelet" in commands[0] and not ready


def test_steps_are_recorded_on_the_restored_lab_and_a_former_lab_is_removed_first(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[str] = []
    monkeypatch.setattr(arena, "lab_command", lambda *words: commands.append(words[0]))
    plan["recorded"] = Run(0, "", [{"event": "task", "task": "host : Write", "at": 1.0}])
    found = arena.Arena("site.yml", place=("t", tmp_path))
    monkeypatch.setattr(found, "_prepared", lambda: False)
    (tmp_path / "controller").mkdir()
    (tmp_path / "controller" / "stale").touch()
    found.prepare()
    assert commands == ["down", "up", "save"] and not list(found.kept.iterdir())
    shutil.rmtree(found.controller)
    steps, _seconds = found.record()
    assert commands[3:] == ["restore"] and [step.task for step in steps] == ["host : Write"]
    assert found.controller.is_dir()


def test_a_lost_control_plane_is_restored_and_site_yml_completes_it(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(arena, "lab_command", lambda *_words: None)
    for name in ("fetch", "destroy"):
        monkeypatch.setattr(arena, name, lambda *_, name=name: calls.append(name))

    def run(_self: Any, play: str, name: str, *arguments: str) -> Run:
        calls.append(f"{name}: {play} {' '.join(arguments)}")
        return plan.get(name, Run(0, ""))  # type: ignore[no-any-return]

    monkeypatch.setattr(arena.Controller, "run", run)
    found = arena.Arena("playbooks/restore.yml", place=("t", tmp_path))
    monkeypatch.setattr(found, "_prepared", lambda: False)
    found.prepare()
    on = "-e backup_enabled=true"
    assert calls == [f"before: site.yml {on}", f"before: playbooks/backup.yml {on}", "fetch", "destroy"]
    calls.clear()
    assert found.attempt(POINT, Path("unused")) == ("passed", "")
    given = f"playbooks/restore.yml -e restore_archive={tmp_path}/controller/backup.tar -e restore_confirm=lab"
    assert calls == [f"again: {given}", "after: site.yml ", f"third: {given}"]
    plan["after"] = Run(2, "", [FAILED])
    plan["down"] = [0]
    assert found.attempt(POINT, Path("unused"))[0] == "failed"


def test_a_saved_lab_is_used_again_only_for_the_same_commit_spec_and_arguments(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[str] = []
    copies = [arena.COPY]
    monkeypatch.setattr(arena, "lab_command", lambda *words: commands.append(words[0]))
    monkeypatch.setattr(saved, "names", lambda _lab: copies)
    monkeypatch.setattr(arena, "head", lambda: "1")

    def prepare(play: str = "site.yml", *arguments: str) -> list[str]:
        commands.clear()
        arena.Arena(play, arguments, ("t", tmp_path)).prepare()
        return list(commands)

    made = ["down", "up", "save"]
    assert (prepare(), prepare(), prepare("./site.yml"), prepare(str(ROOT / "site.yml"))) == (made, [], [], [])
    assert prepare("site.yml", "--tags=gpu") == made
    spec = tmp_path / "spec.yml"
    spec.write_text("nodes: []")
    with monkeypatch.context() as changed:
        changed.setattr(arena, "SETUPS", {"site.yml": arena.Setup(before=(), spec=spec)})
        assert (prepare(), prepare()) == (made, [])
        spec.write_text("nodes: [] # changed")
        assert prepare() == made
    monkeypatch.setattr(arena, "head", lambda: "2")
    assert (prepare(), prepare()) == (made, [])
    copies.clear()
    assert prepare() == made


@pytest.mark.parametrize(
    ("status", "after", "words"),
    [
        ("changed", "1", ""),
        ("changed", "2", "the cluster is another one: 1 => 2"),
        # Before that, nothing that counts is lost.
        ("failed", "2", ""),
    ],
)
def test_a_cluster_that_was_initialized_is_not_made_again(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, status: str, after: str, words: str
) -> None:
    answers = iter(["1", *[after] * 9] if status == "changed" else [after] * 9)
    monkeypatch.setattr(checks, "identity", lambda _hosts: next(answers))
    plan["interrupted"] = Run(-9, "", [FAILED | {"task": checks.INITIALIZE, "status": status}])
    found, why = arena.Arena("site.yml").attempt(POINT, Path("unused"))
    assert (found, why) == ("failed" if words else "passed", words)


def test_the_task_that_initializes_the_cluster_has_this_name() -> None:
    role, _colon, name = checks.INITIALIZE.partition(" : ")
    assert f"- name: {name}\n" in (ROOT / "roles" / role / "tasks" / "init.yml").read_text()


def test_a_restored_cluster_works_only_when_its_kubelets_have_reported_since(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = arena.Arena("site.yml", place=("t", tmp_path))
    found.restored = datetime(2026, 3, 1, 12, tzinfo=timezone.utc).timestamp()
    times = ["2026-03-01T11:59:59.000000Z", "2026-03-01T12:00:05.250000Z"]

    def get(*_arguments: str) -> dict[str, Any]:
        return {"items": [{"metadata": {"name": "gpu1"}, "spec": {"renewTime": times[0]}}]}

    monkeypatch.setattr(checks, "has_cluster", lambda _hosts: True)
    for module in (arena, checks):
        monkeypatch.setattr(module, "Cluster", SimpleNamespace(of=lambda _hosts: SimpleNamespace(get=get)))
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(arena, "_SETTLE_SECONDS", 0.2)
    with pytest.raises(AssertionError, match="the kubelet of gpu1 has not reported yet"):
        found.settle()
    times.pop(0)
    found.settle()


def test_a_temporary_file_of_the_controller_with_a_key_is_a_secret_that_is_left(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: arena.Controller, play: str, name: str, *_arguments: str) -> Run:
        (self.scratch / "tmp" / "kubeconfig").write_text("client-key-data: x")
        return Run(0, "")

    monkeypatch.setattr(arena.Controller, "run", run)
    outcome, why = arena.Arena("site.yml").attempt(POINT, Path("unused"))
    assert outcome == "failed" and why.endswith("/tmp/kubeconfig")


@pytest.mark.parametrize(("there", "outcome"), [(["probe-1", "probe-2"], "passed"), (["probe-2"], "failed")])
def test_objects_that_the_api_acknowledged_during_the_runs_must_be_there(
    plan: dict[str, Any], monkeypatch: pytest.MonkeyPatch, there: list[str], outcome: str
) -> None:
    class Prober:
        probing = False

        def __init__(self, *_given: object) -> None: ...

        def __enter__(self) -> None:
            Prober.probing = True

        def __exit__(self, *_error: object) -> None:
            Prober.probing = False

        def wait(self) -> None: ...

        def acknowledged(self) -> set[str]:
            return {"probe-1", "probe-2"}

    def run(self: arena.Controller, play: str, name: str, *_arguments: str) -> Run:
        # A third run that changes nothing is one without writes of others.
        assert Prober.probing == (name == "again")
        return Run(0, "")

    items = {"items": [{"metadata": {"name": name}} for name in there]}
    monkeypatch.setattr(checks, "has_cluster", lambda _hosts: True)
    monkeypatch.setattr(arena, "admin_access", lambda _host: None)
    monkeypatch.setattr(arena, "ApiProber", Prober)
    monkeypatch.setattr(arena.Controller, "run", run)
    for module in (arena, checks):
        monkeypatch.setattr(module, "Cluster", SimpleNamespace(of=lambda _hosts: SimpleNamespace(get=lambda *_: items)))
    found, why = arena.Arena("site.yml").attempt(POINT, Path("unused"))
    assert found == outcome and ("1 acknowledged objects are lost, the first is probe-1" in why) == (
        outcome == "failed"
    )


def test_a_power_cut_shuts_the_disk_down_before_anything_else_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(disk, "cut", lambda *names: calls.append(("cut", *names)))
    monkeypatch.setattr(arena, "lab_command", lambda *words: calls.append(words))
    arena.power_cut("t", "cp1")
    assert calls == [("cut", "t", "cp1"), ("power-cut", "cp1", "--name", "t")]


@pytest.fixture
def fake_arena(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Replace the arena by one whose points fail every second time; return what was called."""
    called: list[str] = []

    class Fake(arena.Arena):
        def __init__(self, play: str, arguments: Any = (), place: Any = None) -> None:
            super().__init__(play, arguments, ("t", tmp_path))

        def prepare(self) -> None:
            called.append("prepare")

        def restore(self) -> None:
            called.append("restore")
            if called.count("restore") == 4:
                raise AssertionError("a process keeps the disk mounted")

        def settle(self) -> None:
            called.append("settle")

        def remove(self) -> None:
            called.append("remove")

        def record(self) -> tuple[list[Step], float]:
            called.append("record")
            return [Step(f"role : {number}", 0, number, 1.0, changes=True) for number in range(9)], 9.0

        def attempt(self, point: Point, log: Path) -> tuple[str, str]:
            called.append("attempt")
            if called.count("attempt") % 2 == 0:
                raise AssertionError("the node did not boot")
            return "passed", ""

    monkeypatch.setattr(program, "Arena", Fake)
    monkeypatch.delenv("KEEP_LAB", raising=False)
    return called


def test_every_point_starts_from_the_saved_lab_and_a_failure_does_not_end_the_rest(fake_arena: list[str]) -> None:
    progress = program.fire("site.yml", 3, 60, seed="a")
    assert fake_arena == ["prepare", "record", *["restore", "settle", "attempt"] * 3, "remove"]
    assert [result["outcome"] for result in progress.results] == ["passed", "failed", "passed"]
    assert progress.results[1]["why"] == "the node did not boot"


def test_a_restore_that_fails_is_a_failed_point(fake_arena: list[str]) -> None:
    progress = program.fire("site.yml", 5, 60, seed="a")
    assert [result["outcome"] for result in progress.results] == ["passed", "failed", "passed", "failed", "failed"]
    assert progress.results[3]["why"] == "a process keeps the disk mounted"


def test_at_least_one_point_is_run_and_the_next_call_goes_on(
    fake_arena: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(program.fire("site.yml", 3, 0, seed="a").results) == 1
    assert "1 passed, 0 failed, 0 missed; 2 of 3 left" in capsys.readouterr().out
    assert len(program.fire("site.yml", 3, 60, seed="a").results) == 3
    assert fake_arena.count("record") == 1


@pytest.mark.parametrize(
    ("outcomes", "status"), [(["passed", "missed"], 0), (["passed", "failed"], 1), (["missed"], 1), ([], 1)]
)
def test_the_program_succeeds_only_if_a_point_passed_and_none_failed(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[str], status: int
) -> None:
    done = Progress(Path("unused"), {"play": "site.yml", "seed": "a"}, [], [{"outcome": each} for each in outcomes])
    monkeypatch.setattr(program, "fire", lambda *_: done)
    monkeypatch.setattr(sys, "argv", ["fire", "site.yml"])
    assert program.main() == status
