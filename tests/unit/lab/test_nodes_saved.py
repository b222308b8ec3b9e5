"""Copies of a lab and power cuts, with a fake podman whose layers and volumes are directories."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_podman import SPEC, Podman

from lab import paths
from lab.depot.cache import DepotError
from lab.nodes import disk, saved, state, trees, vm
from lab.nodes import podman as podman_module
from lab.nodes.errors import LabError
from lab.nodes.spec import Node

LAYER, ETCD = "gpulab-t-cp1-layer", "gpulab-t-cp1-etcd"


@pytest.fixture
def lab(up: Callable[..., state.State], podman: Podman) -> Callable[..., state.State]:
    """Return a function that brings up the lab t, with files on cp1 of the state that is saved."""
    up()
    write(podman, "saved")
    return up


def write(podman: Podman, text: str) -> None:
    for name in (LAYER, ETCD):
        (podman.place(name) / "file").write_text(text)


def read(podman: Podman) -> set[str]:
    return {(podman.place(name) / "file").read_text() for name in (LAYER, ETCD)}


def test_a_restored_lab_has_the_files_and_the_addresses_of_the_copy(
    lab: Callable[..., state.State], podman: Podman
) -> None:
    before = state.load("t")
    saved.save("t", "built")
    assert {entry["state"] for entry in podman.containers.values()} == {"running"}
    write(podman, "later on")
    (podman.place(LAYER) / "new").mkdir()
    podman.calls.clear()
    saved.restore("t", "built")
    assert read(podman) == {"saved"} and not (podman.place(LAYER) / "new").exists()
    assert state.load("t") == before
    assert {entry["state"] for entry in podman.containers.values()} == {"running"}
    assert [argv for argv in podman.calls if argv[0] in ("stop", "create", "rm", "start")] == [
        ["stop", "--time=0", "gpulab-t-cp1", "gpulab-t-w1"],
        ["start", "gpulab-t-cp1"],
        ["start", "gpulab-t-w1"],
    ]


def test_restored_lab_keeps_only_the_kubeconfig_that_was_there_when_it_was_saved(
    lab: Callable[..., state.State], podman: Podman
) -> None:
    kept = Path(known().inventory).with_name("t-admin.conf")
    kept.write_text("of the saved cluster")
    os.utime(kept, (1, 1))
    saved.save("t", "built")
    saved.restore("t", "built")
    assert kept.exists()
    kept.write_text("of a later cluster")
    os.utime(kept, (2**32, 2**32))
    saved.restore("t", "built")
    assert not kept.exists()


def test_a_node_is_shut_down_before_it_is_copied(
    lab: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    states: list[set[str]] = []
    copy = trees.copy

    def copied(*arguments: Any) -> int:
        states.append({entry["state"] for entry in podman.containers.values()})
        return copy(*arguments)

    monkeypatch.setattr(trees, "copy", copied)
    podman.calls.clear()
    saved.save("t", "built")
    (stop,) = [argv for argv in podman.calls if argv[0] == "stop"]
    assert stop == ["stop", "--time=20", "gpulab-t-cp1", "gpulab-t-w1"]
    assert states and all(each == {"exited"} for each in states)


def test_a_copy_that_does_not_fit_is_refused_while_the_nodes_run(
    lab: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    (podman.place(LAYER) / "large").write_bytes(bytes(5 << 20))
    (podman.place(LAYER) / "again").hardlink_to(podman.place(LAYER) / "large")
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=4 << 20))
    podman.calls.clear()
    with pytest.raises(LabError, match=r"it needs 5 MiB below .*, where 4 MiB are free"):
        saved.save("t", "built")
    assert [argv for argv in podman.calls if argv[0] in ("stop", "start")] == [] == saved.names("t")


def test_a_copy_that_is_not_complete_is_never_restored(
    lab: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save("t", "built")
    write(podman, "later on")
    with monkeypatch.context() as broken:
        broken.setattr(trees, "copy", lambda *_: (_ for _ in ()).throw(OSError("No space left on device")))
        for name in ("built", "other"):
            with pytest.raises(LabError, match=r"saving the lab t: .*No space left"):
                saved.save("t", name)
    assert saved.names("t") == ["built"]
    assert {entry["state"] for entry in podman.containers.values()} == {"running"}
    with pytest.raises(LabError, match=r"no such saved copy \(there are: built\)"):
        saved.restore("t", "other")
    saved.restore("t", "built")
    assert read(podman) == {"saved"}


def test_an_interrupted_restore_is_repeated_before_anything_starts(
    lab: Callable[..., state.State], podman: Podman
) -> None:
    saved.save("t", "built")
    write(podman, "later on")
    podman.fail = "start gpulab-t-w1"
    with pytest.raises(DepotError, match="told to fail"):
        saved.restore("t", "built")
    podman.fail = ""
    assert known().restoring == "built"
    for step in (lab, lambda: saved.save("t", "built"), lambda: saved.power_cut("t", "cp1", off=True)):
        with pytest.raises(LabError, match="the saved copy built is restored only in part"):
            step()
    saved.restore("t", "built")
    assert read(podman) == {"saved"}
    # Older checkouts don't know the field.
    assert "restoring" not in json.loads((paths.labs() / "t" / "state.json").read_text())
    lab()


def test_nodes_that_came_are_removed_and_nodes_that_went_are_created_from_the_same_image(
    lab: Callable[..., state.State], podman: Podman
) -> None:
    saved.save("t", "built")
    image = podman.containers["gpulab-t-cp1"]["argv"][-1]
    lab(spec=SPEC + "  - {name: w2, os: debian13, groups: [workers]}\n")
    podman.run("rm", "gpulab-t-cp1", doing="losing a node")
    (podman.place(LAYER) / "file").unlink()
    saved.restore("t", "built")
    assert set(podman.containers) == {"gpulab-t-cp1", "gpulab-t-w1"}
    assert podman.containers["gpulab-t-cp1"]["argv"][-1] == image
    assert {entry["state"] for entry in podman.containers.values()} == {"running"}
    assert read(podman) == {"saved"}
    assert set(known().nodes) == {"cp1", "w1"}


def known() -> state.State:
    found = state.load("t")
    assert found
    return found


@pytest.mark.parametrize("name", ["", "Upper", ".hidden", "a/b", "x" * 40])
def test_invalid_names_of_copies_are_refused(lab: Callable[..., state.State], name: str) -> None:
    with pytest.raises(LabError, match="name of the saved copy"):
        saved.save("t", name)


def test_a_lab_of_which_a_node_is_down_is_not_saved(lab: Callable[..., state.State], podman: Podman) -> None:
    podman.containers["gpulab-t-w1"]["state"] = "exited"
    podman.calls.clear()
    with pytest.raises(LabError, match="saving the lab t: w1 must run"):
        saved.save("t", "built")
    assert podman.changes() == []


def test_nodes_that_were_stopped_are_started_again_if_another_could_not_be_stopped(
    lab: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object, **given: Any) -> str:
        if arguments[0] == "stop":
            podman.containers["gpulab-t-cp1"]["state"] = "exited"
            raise DepotError("Error while stopping: told to fail")
        output: str = podman.run(*arguments, **given)
        return output

    monkeypatch.setattr(podman_module, "run", run)
    podman.calls.clear()
    with pytest.raises(DepotError, match="told to fail"):
        saved.save("t", "built")
    assert [argv for argv in podman.calls if argv[0] == "start"] == [["start", "gpulab-t-cp1"]]


def test_a_node_that_podman_starts_again_is_stopped_again(
    lab: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.save("t", "built")
    podman.calls.clear()
    podman.containers["gpulab-t-w1"]["state"] = "restarting"
    states = iter(["stopping", "running", "exited"])

    def run(*arguments: object, **given: Any) -> str:
        output: str = podman.run(*arguments, **given)
        if arguments[0] == "stop":
            podman.containers["gpulab-t-cp1"]["state"] = next(states)
        return output

    monkeypatch.setattr(podman_module, "run", run)
    saved.restore("t", "built")
    assert [argv[2:] for argv in podman.calls if argv[0] == "stop"] == [
        ["gpulab-t-cp1", "gpulab-t-w1"],
        ["gpulab-t-cp1"],
        ["gpulab-t-cp1"],
    ]
    states = iter(["running"] * 9)
    with pytest.raises(LabError, match="gpulab-t-cp1 start again each time"):
        saved.restore("t", "built")


def test_after_an_interruption_no_further_node_is_begun(
    lab: Callable[..., state.State], monkeypatch: pytest.MonkeyPatch
) -> None:
    began, going_on = [], threading.Event()

    def action(node: Node) -> None:
        began.append(node.name)
        going_on.wait(10)

    def interrupted(_jobs: object) -> None:
        threading.Timer(0.2, going_on.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(saved, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        saved._each(known().described().nodes, action)
    assert began == ["cp1"]


def test_a_lab_with_a_virtual_machine_or_a_common_directory_is_neither_saved_nor_restored(
    lab: Callable[..., state.State], podman: Podman
) -> None:
    saved.save("t", "built")
    podman.calls.clear()
    machine = paths.labs() / "t" / vm.NODE
    machine.mkdir()
    for command in (saved.save, saved.restore):
        with pytest.raises(LabError, match="it has the virtual machine"):
            command("t", "built")
    machine.rmdir()
    lab_with_nfs = known()
    lab_with_nfs.spec["nodes"][1]["nfs"] = "simulated"
    lab_with_nfs.save()
    for command in (saved.save, saved.restore):
        with pytest.raises(LabError, match="w1 have a directory in common"):
            command("t", "built")
    assert podman.changes() == []


def test_only_a_node_with_a_disk_of_its_own_can_lose_power(lab: Callable[..., state.State], podman: Podman) -> None:
    podman.calls.clear()
    with pytest.raises(LabError, match="`power_cuts: true`"):
        saved.power_cut("t", "w1", off=False)
    assert podman.changes() == []


class Disk:
    """Replaces lab.nodes.disk, which needs root and loop devices."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, podman: Podman) -> None:
        self.podman = podman
        for name in ("make", "mount", "remove", "cut"):
            monkeypatch.setattr(disk, name, lambda _lab, node, name=name: podman.calls.append([f"disk {name}", node]))
        monkeypatch.setattr(disk, "mount_point", lambda _lab, node: podman.place(f"disk-{node}"))

    def calls(self) -> list[list[str]]:
        wanted = ("create", "cp", "mount", "umount", "stop", "start")
        return [argv[:2] for argv in self.podman.calls if argv[0] in wanted or argv[0].startswith("disk")]


def test_the_disk_is_shut_down_before_the_node_is_killed_and_mounted_again_before_it_starts(
    up: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Disk(monkeypatch, podman)
    etc = podman.place("gpulab-t-cp1-root") / "etc"
    etc.mkdir()
    (etc / "machine-id").write_text("1")
    up(spec="nodes: [{name: cp1, os: debian12, groups: [control_plane], power_cuts: true}]")
    assert (podman.place("disk-cp1") / "etc" / "machine-id").read_text() == "1"
    assert list(podman.made["volume"]) == ["gpulab-t-cp1-docker"]
    mounted = [argv.split(":")[1] for argv in podman.containers["gpulab-t-cp1"]["argv"] if "/disk-cp1/" in argv]
    assert mounted == ["/etc", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/gpulab", "/var/lib/kubelet"]
    podman.calls.clear()
    saved.power_cut("t", "cp1", off=False)
    assert there.calls() == [
        ["disk cut", "cp1"],
        ["stop", "--time=0"],
        ["disk mount", "cp1"],
        ["start", "gpulab-t-cp1"],
    ]
    saved.power_cut("t", "cp1", off=True)
    assert podman.containers["gpulab-t-cp1"]["state"] == "exited"
    with pytest.raises(LabError, match="cp1: it does not run"):
        saved.power_cut("t", "cp1", off=True)


def test_a_container_is_unmounted_even_if_its_disk_could_not_be_filled(
    up: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Disk(monkeypatch, podman)
    (podman.place("gpulab-t-cp1-root") / "etc").mkdir()
    monkeypatch.setattr(trees, "copy", lambda *_: (_ for _ in ()).throw(OSError("No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        up(spec="nodes: [{name: cp1, os: debian12, groups: [control_plane], power_cuts: true}]")
    assert there.calls()[-1] == ["umount", "gpulab-t-cp1"]


@pytest.mark.parametrize(
    ("path", "differs", "after_a_cut"),
    [
        ("/etc/hosts", True, True),
        ("/etcd/member/snap/db", True, True),
        ("/containerd/io.containerd.metadata.v1.bolt/meta.db", True, True),
        ("/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs/etc/app.conf", False, True),
        ("/containerd/io.containerd.content.v1.content/blobs/sha256/abc", False, False),
    ],
)
def test_files_whose_times_may_lie_are_compared_by_content(path: str, differs: bool, after_a_cut: bool) -> None:
    assert saved.may_differ(path, cut=False) == differs
    assert saved.may_differ(path, cut=True) == after_a_cut


def test_a_snapshot_with_other_content_and_the_same_time_is_restored_after_a_power_cut(
    up: Callable[..., state.State], podman: Podman, monkeypatch: pytest.MonkeyPatch
) -> None:
    Disk(monkeypatch, podman)
    up(spec="nodes: [{name: cp1, os: debian12, groups: [control_plane], power_cuts: true}]")
    file = podman.place("disk-cp1") / "containerd" / "snapshots" / "file"
    file.parent.mkdir(parents=True)
    file.write_text("saved")
    saved.save("t", "built")
    was = file.stat().st_mtime_ns
    file.write_text("\0" * 5)
    os.utime(file, ns=(was, was))
    (paths.labs() / "t" / "disks").mkdir()
    disk._cut_mark("t", "cp1").touch()
    saved.restore("t", "built")
    assert file.read_text() == "saved" and not disk.was_cut("t", "cp1")
