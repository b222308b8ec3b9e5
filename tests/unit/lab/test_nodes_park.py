"""`up` and `down` with a fake podman that remembers what was created and fails on request."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer.main
from fake_podman import SPEC, Podman

from lab import cli
from lab.depot.cache import DepotError
from lab.nodes import machine, network, park, state, system
from lab.nodes.errors import LabError


def test_up_creates_labelled_nodes_and_an_inventory_that_only_its_owner_can_read(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    known = up()
    assert set(podman.containers) == {"gpulab-t-cp1", "gpulab-t-w1"}
    assert {entry["lab"] for entry in podman.containers.values()} == {"t"}
    assert {entry["lab"] for entry in podman.made["volume"].values()} == {"t"}
    assert len(podman.made["volume"]) == 8
    assert (known.nodes["cp1"].address, known.nodes["w1"].address) == ("10.198.0.11", "10.198.0.12")
    assert (tmp_path / "t.ini").stat().st_mode & 0o777 == 0o600
    hosts = (tmp_path / "cache/labs/t/known_hosts").read_text().splitlines()
    assert [line.split()[:2] for line in hosts] == [
        ["10.198.0.11,cp1", "ssh-ed25519"],
        ["10.198.0.12,w1", "ssh-ed25519"],
    ]


def test_a_node_with_two_networks_has_the_isolated_one_first(up: Callable[..., state.State], podman: Podman) -> None:
    up()
    argv = podman.containers["gpulab-t-w1"]["argv"]
    assert [a for a in argv if a.startswith("--network=")] == [
        "--network=gpulab-t-extra:ip=10.198.1.12,interface_name=eth0",
        "--network=gpulab-t:ip=10.198.0.12,alias=w1,interface_name=eth1",
    ]
    created = next(c for c in podman.calls if c[:2] == ["network", "create"] and c[-1] == "gpulab-t-extra")
    assert "--internal" in created


def test_nodes_get_no_capability_that_affects_the_machine(up: Callable[..., state.State], podman: Podman) -> None:
    up()
    for entry in podman.containers.values():
        assert "--privileged" not in entry["argv"]
        assert {"--cap-drop=SYS_MODULE", "--cap-drop=SYS_TIME", "--cap-drop=SYS_RAWIO"} <= set(entry["argv"])
        profile = next(a.partition("seccomp=")[2] for a in entry["argv"] if "seccomp=" in a)
        shut = json.loads(Path(profile).read_text())["syscalls"][0]["names"]
        assert {"swapon", "swapoff", "init_module", "finit_module", "delete_module", "clock_settime"} <= set(shut)


def test_up_on_a_running_lab_changes_nothing(up: Callable[..., state.State], podman: Podman, tmp_path: Path) -> None:
    up()
    podman.calls.clear()
    before = (tmp_path / "t.ini").stat()
    up()
    up(spec=None)
    assert podman.changes() == []
    after = (tmp_path / "t.ini").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("broken", ["network create", "volume create", "create", "cp", "start gpulab-t-w1"])
def test_up_completes_an_interrupted_up(up: Callable[..., state.State], podman: Podman, broken: str) -> None:
    podman.fail = broken
    with pytest.raises(DepotError, match="told to fail"):
        up()
    podman.fail = ""
    known = up()
    assert all(member.ready for member in known.nodes.values())
    assert {entry["state"] for entry in podman.containers.values()} == {"running"}
    assert len(podman.made["volume"]) == 8


def test_a_ready_node_is_kept_if_another_one_fails(up: Callable[..., state.State], podman: Podman) -> None:
    podman.fail = "start gpulab-t-w1"
    with pytest.raises(DepotError):
        up()
    podman.fail = ""
    podman.calls.clear()
    up()
    assert [argv[1] for argv in podman.calls if argv[0] == "start"] == ["gpulab-t-w1"]


def test_a_stopped_node_is_started_and_a_missing_one_is_created_again(
    up: Callable[..., state.State], podman: Podman
) -> None:
    up()
    podman.containers["gpulab-t-cp1"]["state"] = "exited"
    del podman.containers["gpulab-t-w1"]
    podman.calls.clear()
    up(spec=None)
    assert [argv[0] for argv in podman.changes() if argv[0] in ("create", "start")] == ["create", "start", "start"]
    assert {entry["state"] for entry in podman.containers.values()} == {"running"}


def test_a_spec_with_another_node_only_adds_that_node(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up()
    podman.calls.clear()
    up(spec=SPEC + "  - {name: w2, os: debian13, groups: [workers]}\n")
    assert [argv[1] for argv in podman.calls if argv[0] == "start"] == ["gpulab-t-w2"]
    assert "\nw2 ansible_host=10.198.0.13\n" in (tmp_path / "t.ini").read_text()


def test_a_node_whose_processes_were_killed_is_named_and_kept(up: Callable[..., state.State], podman: Podman) -> None:
    up()
    podman.containers["gpulab-t-w1"]["killed"] = True
    podman.calls.clear()

    with pytest.raises(LabError, match=r"(?s)w1 again: all processes there were killed.*lab down --name t"):
        up()

    assert podman.changes() == []


def test_a_spec_that_contradicts_the_running_lab_is_refused(up: Callable[..., state.State], podman: Podman) -> None:
    up()
    podman.calls.clear()
    with pytest.raises(LabError) as caught:
        up(spec="nodes: [{name: w1, os: debian12, groups: [workers]}]")
    assert "the node cp1 is no longer in the spec" in str(caught.value)
    assert "the node w1 was made as os debian13" in str(caught.value)
    assert podman.changes() == []


def test_down_removes_everything_of_the_lab_and_nothing_else(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up("t-w1")
    up("t")
    for things in podman.made.values():
        things["mine"] = {"lab": "", "state": "running", "subnet": "10.0.0.0/24"}
    others = {
        kind: {name: about for name, about in things.items() if about["lab"] != "t"}
        for kind, things in podman.made.items()
    }
    for name in ("t", "t-w1"):
        (tmp_path / f"{name}-admin.conf").write_text("kubeconfig")
    assert park.down("t") is True
    assert podman.made == others
    assert not (tmp_path / "t.ini").exists() and not (tmp_path / "t-admin.conf").exists()
    assert (tmp_path / "t-w1-admin.conf").exists()
    assert not (tmp_path / "cache/labs/t").exists()
    assert (tmp_path / "t-w1.ini").exists()
    assert state.names() == ["t-w1"]


def test_down_works_without_the_state_file_and_repeatedly(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up()
    (tmp_path / "cache/labs/t/state.json").write_text("{half")
    assert park.down("t") is True
    assert podman.made == {"network": {}, "volume": {}, "container": {}}
    assert park.down("t") is False


def test_down_keeps_an_inventory_that_it_did_not_generate(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    up()
    (tmp_path / "t.ini").write_text("[workers]\nmine\n")
    park.down("t")
    assert (tmp_path / "t.ini").exists()


def test_up_never_replaces_a_file_that_it_did_not_generate(
    up: Callable[..., state.State], podman: Podman, tmp_path: Path
) -> None:
    (tmp_path / "t.ini").write_text("[workers]\nmine\n")
    with pytest.raises(LabError, match=r"t\.ini: it is there and not the inventory of the lab t"):
        up()
    assert (tmp_path / "t.ini").read_text() == "[workers]\nmine\n"
    assert podman.made == {"network": {}, "volume": {}, "container": {}} and state.names() == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--spec", "missing.yml"], "reading the spec missing.yml: [Errno 2]"),
        (["--spec", "spec.yml", "--inventory", "notes.ini"], "notes.ini: it is there and not the inventory of the lab"),
        (["--spec", "spec.yml", "--name", "A"], "--name"),
    ],
)
def test_build_fails_before_building_for_what_up_would_refuse(
    options: list[str], words: str, lab_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(system, "require", lambda: pytest.fail("it began to build"))
    (tmp_path / "spec.yml").write_text(SPEC)
    (tmp_path / "notes.ini").write_text("mine")
    with pytest.raises(LabError) as caught:
        typer.main.get_command(cli.app)(["build", *options], standalone_mode=False)
    assert words in str(caught.value)
    assert state.names() == []


@pytest.mark.parametrize("name", ["", "Upper", "a/b", "-a", "depot", "x" * 40])
def test_invalid_names_are_refused(up: Callable[..., state.State], name: str) -> None:
    with pytest.raises(LabError, match="--name"):
        up(name)


def test_two_labs_have_different_subnets(up: Callable[..., state.State]) -> None:
    assert up("a").subnets["main"] != up("b").subnets["main"]


def test_labs_with_similar_names_never_remove_each_other(podman: Podman, lab_cache: Path) -> None:
    podman.containers["gpulab-a-b-c"] = {"lab": "a-b", "state": "running"}
    podman.made["volume"]["gpulab-a-b-c-etcd"] = {"lab": "a-b"}
    machine.remove("a", "b-c")
    assert "gpulab-a-b-c" in podman.containers
    assert "gpulab-a-b-c-etcd" in podman.made["volume"]


def test_addresses_of_nodes_start_after_those_of_the_depot() -> None:
    assert (network.DEPOT_HOST, network.FIRST_NODE) == (2, 11)
