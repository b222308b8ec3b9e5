"""up and down, driven through a podman that keeps what it made in a file and fails when it is told to."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.depot.cache import DepotError
from lab.nodes import image, machine, mirror, network, park, state, system
from lab.nodes.errors import LabError

PODMAN = """
import json, sys
from pathlib import Path
file = Path(__file__).with_name("podman.json")
made = json.loads(file.read_text())
argv = [a for a in sys.argv[1:] if not a.startswith("--runtime=")]
made["calls"].append(argv)
options = dict(a.split("=", 1) for a in argv if a.startswith("--") and "=" in a)
lab = options.get("--label", "").partition("=")[2]
wanted = options.get("--filter", "").removeprefix("label=gpulab.lab=") if "--filter" in options else None
code = 0
if made["fail"] and " ".join(argv).startswith(made["fail"]):
    print("Error: told to fail", file=sys.stderr)
    code = 125
elif argv[:2] == ["network", "ls"]:
    print(json.dumps([{"name": n, "subnets": [{"subnet": v["subnet"]}]} for n, v in made["networks"].items()
                      if wanted in (None, v["lab"])]))
elif argv[:2] == ["network", "create"]:
    made["networks"][argv[-1]] = {"lab": lab, "subnet": options["--subnet"]}
elif argv[:2] == ["volume", "ls"]:
    print("\\n".join(n for n, v in made["volumes"].items() if v == wanted))
elif argv[:2] == ["volume", "create"]:
    if argv[-1] in made["volumes"]:
        code = 125
    made["volumes"][argv[-1]] = lab
elif argv[:2] in (["network", "rm"], ["volume", "rm"]):
    for name in argv[2:]:
        del made[argv[0] + "s"][name]
elif argv[0] == "ps":
    mine = {n: v for n, v in made["containers"].items() if v["lab"] == wanted}
    print(json.dumps([{"Names": [n], "State": v["state"]} for n, v in mine.items()]))
elif argv[0] == "create":
    name = options["--name"]
    if name in made["containers"]:
        code = 125
    made["containers"][name] = {"lab": lab, "state": "created", "argv": argv}
elif argv[0] == "start":
    made["containers"][argv[1]]["state"] = "running"
elif argv[0] == "cp":
    sys.stdin.buffer.read()
elif argv[0] == "rm":
    for name in [a for a in argv[1:] if not a.startswith("-")]:
        del made["containers"][name]
elif argv[0] == "exec":
    print("running")
file.write_text(json.dumps(made))
sys.exit(code)
"""
SPEC = """
nodes:
  - {name: cp1, os: debian12, groups: [control_plane]}
  - {name: w1, os: debian13, groups: [workers], gpus: {model: t4, count: 1}, extra_networks: 1}
"""


class Podman:
    """The fake's memory."""

    def __init__(self, directory: Path) -> None:
        self.file = directory / "podman.json"
        self.write(calls=[], fail="", networks={}, volumes={}, containers={})

    def write(self, **changes: Any) -> None:
        before = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.file.write_text(json.dumps({**before, **changes}))

    def __getitem__(self, key: str) -> Any:
        return json.loads(self.file.read_text())[key]

    def changes(self) -> list[list[str]]:
        reading = (["ps"], ["network", "ls"], ["volume", "ls"], ["images"])
        return [argv for argv in self["calls"] if argv[:1] not in reading and argv[:2] not in reading]


@pytest.fixture
def podman(tmp_path: Path, lab_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Podman:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "fake.py").write_text(PODMAN)
    for name, text in {
        "podman": f'exec {sys.executable} -IS {programs}/fake.py "$@"',
        "ssh": "exit 0",
        "ip": "echo '[]'",
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    # What needs root or the network is tried on a real lab.
    monkeypatch.setattr(system, "require", lambda: None)
    monkeypatch.setattr(system, "require_podman", lambda: None)
    monkeypatch.setattr(image, "ensure", lambda name, _mirror: f"localhost/image:{name}")
    monkeypatch.setattr(park, "find", lambda _mirror: mirror.Mirror("http://mirror"))
    monkeypatch.setattr(park, "_AT_ONCE", 1)
    return Podman(programs)


@pytest.fixture
def up(podman: Podman, tmp_path: Path) -> Callable[..., state.State]:
    def bring(name: str = "t", spec: str | None = SPEC) -> state.State:
        file = tmp_path / "spec.yml"
        if spec:
            file.write_text(spec)
        return park.up(name, file if spec else None, tmp_path / f"{name}.ini", "", with_depot=False)

    return bring


def test_up_makes_labelled_nodes_and_an_inventory_that_only_its_owner_reads(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    known = up()
    assert set(podman["containers"]) == {"gpulab-t-cp1", "gpulab-t-w1"}
    assert {entry["lab"] for entry in podman["containers"].values()} == {"t"}
    assert set(podman["volumes"].values()) == {"t"}
    assert len(podman["volumes"]) == 6
    assert (known.nodes["cp1"].address, known.nodes["w1"].address) == ("10.198.0.11", "10.198.0.12")
    assert (tmp_path / "t.ini").stat().st_mode & 0o777 == 0o600
    hosts = (tmp_path / "cache/labs/t/known_hosts").read_text().splitlines()
    assert [line.split()[:2] for line in hosts] == [
        ["10.198.0.11,cp1", "ssh-ed25519"],
        ["10.198.0.12,w1", "ssh-ed25519"],
    ]


def test_a_multi_homed_node_has_the_network_that_leads_nowhere_first(
    up: Callable[..., state.State], podman: Podman
) -> None:
    up()
    argv = podman["containers"]["gpulab-t-w1"]["argv"]
    assert [a for a in argv if a.startswith("--network=")] == [
        "--network=gpulab-t-extra:ip=10.198.1.12,interface_name=eth0",
        "--network=gpulab-t:ip=10.198.0.12,alias=w1,interface_name=eth1",
    ]
    created = next(c for c in podman["calls"] if c[:2] == ["network", "create"] and c[-1] == "gpulab-t-extra")
    assert "--internal" in created


def test_nodes_get_no_capability_that_reaches_the_machine(up: Callable[..., state.State], podman: Podman) -> None:
    up()
    for entry in podman["containers"].values():
        assert "--privileged" not in entry["argv"]
        assert {"--cap-drop=SYS_MODULE", "--cap-drop=SYS_TIME", "--cap-drop=SYS_RAWIO"} <= set(entry["argv"])
        profile = next(a.partition("seccomp=")[2] for a in entry["argv"] if "seccomp=" in a)
        shut = json.loads(Path(profile).read_text())["syscalls"][0]["names"]
        assert {"swapon", "swapoff", "init_module", "finit_module", "delete_module", "clock_settime"} <= set(shut)


def test_up_on_a_running_lab_changes_nothing(up: Callable[..., state.State], podman: Podman, tmp_path: Path) -> None:
    up()
    podman.write(calls=[])
    before = (tmp_path / "t.ini").stat()
    up()
    up(spec=None)
    assert podman.changes() == []
    after = (tmp_path / "t.ini").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("broken", ["network create", "volume create", "create", "cp", "start gpulab-t-w1"])
def test_up_after_an_interrupted_up_completes(up: Callable[..., state.State], podman: Podman, broken: str) -> None:
    podman.write(fail=broken)
    with pytest.raises(DepotError, match="told to fail"):
        up()
    podman.write(fail="")
    known = up()
    assert all(member.ready for member in known.nodes.values())
    assert {entry["state"] for entry in podman["containers"].values()} == {"running"}
    assert len(podman["volumes"]) == 6


def test_a_node_that_was_ready_survives_the_failure_of_another(up: Callable[..., state.State], podman: Podman) -> None:
    podman.write(fail="start gpulab-t-w1")
    with pytest.raises(DepotError):
        up()
    podman.write(fail="", calls=[])
    up()
    assert [argv[1] for argv in podman["calls"] if argv[0] == "start"] == ["gpulab-t-w1"]


def test_a_node_that_stopped_is_started_and_one_that_vanished_is_made_again(
    up: Callable[..., state.State], podman: Podman
) -> None:
    up()
    containers = podman["containers"]
    containers["gpulab-t-cp1"]["state"] = "exited"
    del containers["gpulab-t-w1"]
    podman.write(containers=containers, calls=[])
    up(spec=None)
    assert [argv[0] for argv in podman.changes() if argv[0] in ("create", "start")] == ["create", "start", "start"]
    assert {entry["state"] for entry in podman["containers"].values()} == {"running"}


def test_a_spec_with_one_node_more_adds_that_node_only(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up()
    podman.write(calls=[])
    up(spec=SPEC + "  - {name: w2, os: debian13, groups: [workers]}\n")
    assert [argv[1] for argv in podman["calls"] if argv[0] == "start"] == ["gpulab-t-w2"]
    assert "\nw2 ansible_host=10.198.0.13\n" in (tmp_path / "t.ini").read_text()


def test_a_spec_that_contradicts_the_running_lab_is_refused(up: Callable[..., state.State], podman: Podman) -> None:
    up()
    podman.write(calls=[])
    with pytest.raises(LabError) as caught:
        up(spec="nodes: [{name: w1, os: debian12, groups: [workers]}]")
    assert "the node cp1 is no longer in the spec" in str(caught.value)
    assert "the node w1 was made as os debian13" in str(caught.value)
    assert podman.changes() == []


def test_down_removes_what_is_the_labs_and_nothing_else(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up("t-w1")
    up("t")
    others = {key: podman[key] for key in ("containers", "volumes", "networks")}
    for key, things in others.items():
        label = {name: about["lab"] if isinstance(about, dict) else about for name, about in things.items()}
        others[key] = {name: about for name, about in things.items() if label[name] != "t"}
        others[key]["mine"] = {"lab": "", "state": "running", "subnet": "10.0.0.0/24"} if key != "volumes" else ""
        podman.write(**{key: {**things, "mine": others[key]["mine"]}})
    assert park.down("t") is True
    assert {key: podman[key] for key in others} == others
    assert not (tmp_path / "t.ini").exists()
    assert not (tmp_path / "cache/labs/t").exists()
    assert (tmp_path / "t-w1.ini").exists()
    assert state.names() == ["t-w1"]


def test_down_works_without_the_state_and_twice(up: Callable[..., state.State], podman: Podman, tmp_path: Path) -> None:
    up()
    (tmp_path / "cache/labs/t/state.json").write_text("{half")
    assert park.down("t") is True
    assert (podman["containers"], podman["volumes"], podman["networks"]) == ({}, {}, {})
    assert park.down("t") is False


def test_down_leaves_an_inventory_that_somebody_else_wrote(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up()
    (tmp_path / "t.ini").write_text("[workers]\nmine\n")
    park.down("t")
    assert (tmp_path / "t.ini").exists()


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-a", "depot", "x" * 40])
def test_odd_names_are_refused(up: Callable[..., state.State], name: str) -> None:
    with pytest.raises(LabError, match="--name"):
        up(name)


def test_two_labs_have_different_subnets(up: Callable[..., state.State]) -> None:
    assert up("a").subnets["main"] != up("b").subnets["main"]


def test_names_of_two_labs_that_come_to_the_same_never_remove_each_other(podman: Podman, lab_cache: Path) -> None:
    podman.write(containers={"gpulab-a-b-c": {"lab": "a-b", "state": "running"}}, volumes={"gpulab-a-b-c-etcd": "a-b"})
    machine.remove("a", "b-c")
    assert "gpulab-a-b-c" in podman["containers"]
    assert "gpulab-a-b-c-etcd" in podman["volumes"]


def test_the_nodes_addresses_begin_where_the_contract_says() -> None:
    assert (network.DEPOT_HOST, network.FIRST_NODE) == (2, 11)
