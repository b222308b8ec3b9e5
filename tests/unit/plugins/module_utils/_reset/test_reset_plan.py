# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reset of a host removes, restores and keeps."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.dpkg import Package
from ansible_collections.gpulab.kubernetes.plugins.module_utils._first_run import DIRECTORY, Entry, Record
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.hosts_file import with_block
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.swap_state import without_swap
from ansible_collections.gpulab.kubernetes.plugins.module_utils._reset import known
from ansible_collections.gpulab.kubernetes.plugins.module_utils._reset.known import EMPTY, GENERATED
from ansible_collections.gpulab.kubernetes.plugins.module_utils._reset.model import KEEP, ORDER, Action, Readings
from ansible_collections.gpulab.kubernetes.plugins.module_utils._reset.plan import plan
from ansible_collections.gpulab.kubernetes.plugins.module_utils._reset.shared_files import File
from ansible_collections.gpulab.kubernetes.plugins.module_utils._systemd import Unit
from hypothesis import given
from hypothesis import strategies as st

OURS = File(b"# Managed by gpulab.kubernetes\n")
THEIRS = File(b"[plugins]\n", 0o600)
MASK = "/etc/systemd/system/dev-zram0.swap"
FSTAB = b"/dev/vda1 / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n"
NAMES = {"api.lab.internal": "127.0.0.1"}
CONFIG = "/etc/containerd/config.toml"
LIST = "/etc/apt/sources.list.d/docker.list"
DEB = b"deb https://download.docker.com/linux/debian bookworm stable\n"
DISABLED = b"# Disabled by gpulab.kubernetes.apt_source in favor of gpulab-containerd.sources\n# " + DEB


def record(**entries: Any) -> Record:
    """Return a record of entries by kind, each a mapping of names to their state before."""
    found = [(kind, name, before) for kind, each in entries.items() for name, before in each.items()]
    stamp = "2026-11-27T23:00:00Z"
    return Record({(kind, name): Entry(kind, name, before, stamp, "0.3.0") for kind, name, before in found})


def regular(file: File) -> dict[str, Any]:
    digest = hashlib.sha256(file.data).hexdigest()
    return {"mode": f"{file.mode:04o}", "uid": file.uid, "gid": file.gid, "sha256": digest}


def package(name: str, version: str = "1.0-1", *depends: str, held: bool = False) -> Package:
    want = "hold" if held else "install"
    return Package(name, version, "amd64", want, "installed", relations=", ".join(depends))


def packages(*found: Package) -> dict[str, Package]:
    return {each.name: each for each in found}


def lines(now: Readings, lose_data: bool = False) -> list[str]:
    return [str(action) for action in plan(now, lose_data)]


def file_lines(name: str, before: Any, now: File | None, copy: File | None = None) -> list[str]:
    files, copies = ({name: each} if each else {} for each in (now, copy))
    return lines(Readings(record=record(file={name: before}), files=files, copies=copies))


@pytest.mark.parametrize(
    ("name", "before", "now", "copy", "wanted"),
    [
        pytest.param(CONFIG, None, OURS, None, [f"remove file {CONFIG}"], id="new"),
        pytest.param(CONFIG, None, None, None, [], id="new-and-gone"),
        pytest.param("/etc/modprobe.d/gpulab-x.conf", None, File(b"x"), None, ["remove file "], id="new-by-its-name"),
        pytest.param(CONFIG, None, THEIRS, None, ["keep file .*: it was replaced by content that is"], id="replaced"),
        pytest.param(MASK, None, File(link="/dev/null"), None, ["remove file "], id="mask"),
        pytest.param(CONFIG, regular(THEIRS), OURS, THEIRS, [f"restore file {CONFIG}: as it was"], id="changed"),
        pytest.param(CONFIG, regular(THEIRS), None, THEIRS, [f"restore file {CONFIG}: as it was"], id="removed"),
        pytest.param(CONFIG, regular(THEIRS), THEIRS, THEIRS, [], id="as-before"),
        pytest.param(CONFIG, regular(THEIRS), THEIRS, None, [], id="as-before-without-copy"),
        pytest.param(
            CONFIG, regular(THEIRS), OURS, None, ["remove file .*: its copy .* is missing or damaged"], id="lost"
        ),
        pytest.param(
            CONFIG, regular(THEIRS), File(b"y"), File(b"x"), ["keep .*: its copy .* damaged"], id="damaged-copy"
        ),
        pytest.param(
            CONFIG, regular(THEIRS), File(b"x"), THEIRS, ["keep .*: it was changed later; .*before-gpulab"], id="edited"
        ),
        pytest.param(
            MASK, {"link": "/lib/x"}, File(link="/dev/null"), File(link="/lib/x"), ["restore file "], id="link"
        ),
    ],
)
def test_files(name: str, before: Any, now: File | None, copy: File | None, wanted: list[str]) -> None:
    found = file_lines(name, before, now, copy)
    assert len(found) == len(wanted)
    for line, pattern in zip(found, wanted):
        assert re.match(pattern, line), line


@pytest.mark.parametrize(
    ("before", "installed", "wanted"),
    [
        pytest.param(None, True, "remove", id="goes"),
        pytest.param(None, False, "remove", id="gone-in-an-interrupted-reset"),
        pytest.param({"version": "1.0-1", "held": False}, True, "restore", id="stays"),
    ],
)
def test_file_that_a_package_has_generated_goes_with_it(before: Any, installed: bool, wanted: str) -> None:
    ((path, name),) = GENERATED.items()
    now = Readings(
        record=record(file={path: regular(THEIRS)}, package={name: before}),
        files={path: OURS},
        copies={path: THEIRS},
        packages=packages(package(name)) if installed else {},
    )
    assert [line for line in lines(now) if "file" in line and line.startswith(f"{wanted} file {path}")], lines(now)
    replaced = f"{path}.replaced-gpulab"
    found = lines(replace(now, files={replaced: THEIRS}))
    assert any(line.startswith(f"remove file {replaced}") for line in found) is (wanted == "remove")


def test_copy_of_a_managed_file_goes_and_that_of_a_foreign_one_stays() -> None:
    files = {f"/etc/x/{name}.replaced-gpulab": file for name, file in (("ours", OURS), ("theirs", THEIRS))}
    assert lines(Readings(files=files)) == ["remove file /etc/x/ours.replaced-gpulab"]


@pytest.mark.parametrize("name", ["containerd.io", "haproxy"])
@pytest.mark.parametrize(("before", "installed", "goes"), [(None, True, True), (None, False, True), ("", True, False)])
def test_empty_directory_of_a_package_goes_with_it(name: str, before: Any, installed: bool, goes: bool) -> None:
    (path,) = [path for path, each in EMPTY.items() if each == name]
    was = None if before is None else {"version": "1.0-1", "held": False}
    now = Readings(
        record=record(package={name: was}),
        directories=(path,),
        packages=packages(package(name)) if installed else {},
    )
    assert (f"remove directory {path}" in lines(now)) is goes


SHARED = [
    pytest.param("/etc/fstab", FSTAB, without_swap(FSTAB.decode()).encode(), id="fstab"),
    pytest.param(LIST, DEB, DISABLED, id="apt-source"),
    pytest.param(
        "/etc/hosts", b"127.0.0.1 localhost\n", with_block("127.0.0.1 localhost\n", NAMES).encode(), id="hosts"
    ),
    pytest.param(
        "/etc/hosts", b"127.0.0.1 localhost", with_block("127.0.0.1 localhost", NAMES).encode(), id="no-newline"
    ),
]


@pytest.mark.parametrize(("name", "before", "now"), SHARED)
def test_shared_files_are_as_before_if_no_one_else_changed_them(name: str, before: bytes, now: bytes) -> None:
    copy = File(before, 0o644, 0, 4)
    readings = Readings(record=record(file={name: regular(copy)}), files={name: File(now)}, copies={name: copy})
    (action,) = plan(readings, False)
    assert (action.do, action.name, action.value) == ("restore", name, copy)


@pytest.mark.parametrize(("name", "before", "now"), SHARED)
def test_later_changes_of_shared_files_stay(name: str, before: bytes, now: bytes) -> None:
    # A comment of the user's own that looks like one of this collection.
    later = b"# 192.0.2.7 nas\n192.0.2.7 nas\n"
    copy = File(before)
    readings = Readings(record=record(file={name: regular(copy)}), files={name: File(now + later)}, copies={name: copy})
    (action,) = plan(readings, False)
    assert action.value.data == before.rstrip(b"\n") + b"\n" + later
    assert "changed later" in action.why


@given(st.lists(st.sampled_from([b"/a /b ext4", b"# /s none swap sw", b"/s none swap sw", b"# x", b""])), st.booleans())
def test_turning_swap_off_in_any_fstab_is_undone(entries: list[bytes], ends: bool) -> None:
    before = b"\n".join(entries) + b"\n" * ends
    copy = File(before)
    now = File(without_swap(before.decode()).encode(), 0o600)
    found = plan(
        Readings(
            record=record(file={"/etc/fstab": regular(copy)}), files={"/etc/fstab": now}, copies={"/etc/fstab": copy}
        ),
        False,
    )
    assert [action.value for action in found if action.kind == "file"] == [copy]


def test_block_of_names_is_removed_without_a_record_too() -> None:
    now = File(with_block("127.0.0.1 localhost\n", NAMES).encode())
    (action,) = plan(Readings(files={"/etc/hosts": now}), False)
    assert action.value.data == b"127.0.0.1 localhost\n"


PURGED = {"kubelet": None, "containerd.io": None, "libx": None}


@pytest.mark.parametrize(
    ("before", "installed", "wanted"),
    [
        pytest.param(PURGED, [package("kubelet")], ["remove package kubelet: 1.0-1"], id="new"),
        pytest.param(
            {"containerd.io": {"version": "1.0-1", "held": False}},
            [package("containerd.io", held=True)],
            ["restore hold containerd.io: not on hold"],
            id="existing-was-not-held",
        ),
        pytest.param(
            {"containerd.io": {"version": "0.9", "held": True}},
            [package("containerd.io")],
            ["keep package containerd.io: it was 0.9, and stays 1.0-1", "restore hold containerd.io: on hold"],
            id="upgraded",
        ),
        pytest.param(
            {"old": {"version": "0.9", "held": True}},
            [],
            ["keep package old: it was 0.9 and is removed, which can't be undone"],
            id="removed",
        ),
        pytest.param(
            PURGED,
            [package("libx"), package("mine", "1", "libx (>= 1) | liby", "libc6")],
            ["keep package libx: mine depends on it"],
            id="needed-by-what-stays",
        ),
        pytest.param(
            PURGED,
            [package("libx"), package("kubelet", "1", "libx"), package("containerd.io", "1", "libx")],
            ["remove package containerd.io: 1", "remove package kubelet: 1", "remove package libx: 1.0-1"],
            id="needed-by-what-goes",
        ),
        pytest.param(
            PURGED,
            [package("libx"), package("kubelet", "1", "libx"), package("mine", "1", "kubelet")],
            ["keep package kubelet: mine depends on it", "keep package libx: kubelet depends on it"],
            id="chain-of-needs",
        ),
        pytest.param(
            {},
            [package("kubelet"), package("bash")],
            ["keep package kubelet: no record shows whether it was here before; remove it with apt-get purge kubelet"],
            id="earlier-release",
        ),
    ],
)
def test_packages(before: dict[str, Any], installed: list[Package], wanted: list[str]) -> None:
    assert lines(Readings(record=record(package=before), packages=packages(*installed))) == wanted


def test_docker_of_this_collection_stays_with_what_it_needs() -> None:
    found = lines(
        Readings(
            record=record(
                package={"docker-ce": None, "containerd.io": None, "nvidia-container-toolkit": None, "kubelet": None},
                file={"/etc/docker/daemon.json": None, CONFIG: None, "/etc/crictl.yaml": None},
                unit={"docker.service": {"enabled": "disabled", "active": "inactive"}},
            ),
            files={"/etc/docker/daemon.json": File(b"{}"), CONFIG: OURS, "/etc/crictl.yaml": OURS},
            packages=packages(
                package("docker-ce", "1", "containerd.io"),
                *map(package, ("containerd.io", "nvidia-container-toolkit", "kubelet")),
            ),
            units={"docker.service": Unit("docker.service", "loaded", "active", "enabled")},
            directories=known.CONTAINERD,
            state=(DIRECTORY, known.STATE),
        )
    )
    assert [line for line in found if not line.startswith("keep")] == [
        "remove package kubelet: 1.0-1",
        "remove file /etc/crictl.yaml",
        f"remove record {known.STATE}",
    ]
    kept = {line.split(":")[0] for line in found} - {line for line in found if not line.startswith("keep")}
    assert {"keep package containerd.io", f"keep file {CONFIG}", f"keep record {DIRECTORY}"} <= kept


UNIT = {"enabled": "enabled", "active": "active"}
OFF = {"enabled": "disabled", "active": "inactive"}


@pytest.mark.parametrize(
    ("name", "before", "now", "wanted"),
    [
        ("kubelet.service", None, ("active", "enabled"), ["remove unit kubelet.service: stop and disable"]),
        ("kubelet.service", None, ("inactive", "disabled"), []),
        ("gpulab-backup.timer", None, ("inactive", "enabled"), ["remove unit gpulab-backup.timer: stop and disable"]),
        ("containerd.service", UNIT, ("active", "enabled"), []),
        ("containerd.service", OFF, ("active", "enabled"), ["restore service containerd.service: disable and stop"]),
        (
            "nfs-server.service",
            UNIT,
            ("inactive", "disabled"),
            ["restore service nfs-server.service: enable and start"],
        ),
        ("x.service", OFF, ("active", "masked"), []),
        ("ssh.service", OFF, ("active", "enabled"), []),
    ],
)
def test_units(name: str, before: Any, now: tuple[str, str], wanted: list[str]) -> None:
    units = {name: Unit(name, "loaded", *now)}
    found = lines(Readings(record=record(unit={name: before} if before else {}), units=units, state=(DIRECTORY,)))
    assert found == [*wanted, f"remove record {DIRECTORY}"]


def test_kubelet_of_the_user_runs_again() -> None:
    units = {"kubelet.service": Unit("kubelet.service", "loaded", "active", "enabled")}
    now = Readings(record=record(unit={"kubelet.service": UNIT}), units=units, directories=(known.KUBELET,))
    assert lines(now) == [
        "remove unit kubelet.service: stop and disable",
        "restore service kubelet.service: enable and start",
        f"remove directory {known.KUBELET}",
    ]
    assert lines(Readings(record=record(unit={"kubelet.service": UNIT}), units=units)) == []


def test_data_of_users_are_named_unless_they_are_to_be_lost() -> None:
    now = Readings(data={"/srv/gpulab": "files of the NFS export"})
    assert lines(now) == ["keep data /srv/gpulab: files of the NFS export"]
    assert lines(now, lose_data=True) == ["remove data /srv/gpulab: files of the NFS export"]


def test_links_are_removed_by_name_and_kind() -> None:
    links = {"cni0": "bridge", "flannel.1": "vxlan", "kube-ipvs0": "bridge", "eth0": "", "docker0": "bridge"}
    assert lines(Readings(links=links)) == ["remove link cni0", "remove link flannel.1"]


@pytest.mark.parametrize(
    ("name", "before", "driver", "unloads"),
    [
        ("nvidia-kernel-open-dkms", None, "580.1", True),
        ("nvidia-kernel-open-dkms", None, "", False),
        ("nvidia-kernel-open-dkms", {"version": "1.0-1", "held": False}, "580.1", False),
        ("nvidia-container-toolkit", None, "580.1", False),
    ],
)
def test_modules_are_unloaded_with_the_packages_of_the_driver(
    name: str, before: Any, driver: str, unloads: bool
) -> None:
    now = Readings(record=record(package={name: before}), packages=packages(package(name)), driver=driver)
    assert ("remove kernel module nvidia: 580.1" in lines(now)) is unloads


def test_images_go_with_containerd_and_stay_with_it() -> None:
    stays = Readings(directories=known.CONTAINERD)
    assert lines(stays) == ["keep directory /var/lib/containerd: images of containerd, which stays"]
    # The directory of the kubelet is a link.
    mounts = (("/data/kubelet/pods/x", "/var/lib/kubelet"), ("/run/containerd/y", "/run/containerd"))
    assert lines(Readings(mounts=mounts)) == ["remove mount /data/kubelet/pods/x"]
    goes = Readings(
        record=record(package=PURGED),
        packages=packages(package("containerd.io")),
        directories=known.CONTAINERD,
        mounts=mounts,
    )
    assert lines(goes)[:2] == [f"remove mount {path}" for path, _top in mounts]


def test_kernel_parameters_are_restored() -> None:
    before = {"net/ipv4/ip_forward": {"value": "0"}, "vm/panic_on_oom": {"value": "0"}, "kernel/panic": None}
    now = {"net/ipv4/ip_forward": "1", "vm/panic_on_oom": "0", "kernel/panic": "10"}
    assert lines(Readings(record=record(sysctl=before), sysctls=now)) == ["restore sysctl net/ipv4/ip_forward: 1 => 0"]


def test_a_host_that_has_nothing_of_this_collection_has_nothing_to_do() -> None:
    assert (
        plan(Readings(packages=packages(package("bash")), files={"/etc/hosts": File(b"127.0.0.1 localhost\n")}), True)
        == []
    )


NAMES_OF_FILES = st.sampled_from(["/etc/hosts", "/etc/fstab", CONFIG, LIST, "/etc/crictl.yaml", MASK, "/etc/gpulab-x"])
CONTENTS = [b"", FSTAB, DEB, THEIRS.data]
LINKS = st.just(File(link="/x"))
FILES = st.builds(File, st.sampled_from([*CONTENTS, DISABLED, OURS.data])) | LINKS
UNITS = st.sampled_from(
    ["ssh.service", "sshd.service", "ssh.socket", "NetworkManager.service", "kubelet.service", "x.service"]
)
STATES = st.tuples(
    st.sampled_from(["active", "inactive", "failed"]), st.sampled_from(["enabled", "disabled", "masked"])
)
BEFORE_UNIT = st.none() | st.sampled_from([UNIT, OFF])
# What this collection has written counts as absent.
ORIGINALS = st.builds(File, st.sampled_from(CONTENTS)) | LINKS
BEFORE_FILE = st.none() | ORIGINALS.map(lambda file: {"link": file.link} if file.link else regular(file))
PACKAGE_NAMES = st.sampled_from(["kubelet", "containerd.io", "docker-ce", "libx", "bash"])
PACKAGES = st.dictionaries(PACKAGE_NAMES, st.lists(PACKAGE_NAMES, max_size=2)).map(
    lambda found: packages(*(package(name, "1", *depends) for name, depends in found.items()))
)


@st.composite
def hosts(draw: Any) -> Readings:
    entries = record(
        file=draw(st.dictionaries(NAMES_OF_FILES, BEFORE_FILE)) | {"/etc/gpulab-x": None},
        unit=draw(st.dictionaries(UNITS, BEFORE_UNIT)),
        package=draw(st.dictionaries(PACKAGE_NAMES, st.none() | st.just({"version": "1", "held": False}))),
    )
    units = draw(st.dictionaries(UNITS, STATES))
    return Readings(
        record=entries,
        files=draw(st.dictionaries(NAMES_OF_FILES, FILES)),
        copies=draw(st.dictionaries(NAMES_OF_FILES, FILES)),
        packages=draw(PACKAGES),
        units={name: Unit(name, "loaded", *state) for name, state in units.items()},
        data={"/srv/gpulab": "files"},
        state=(DIRECTORY,),
    )


@given(hosts())
def test_whatever_a_host_has_its_own_things_stay(now: Readings) -> None:
    found = plan(now, False)
    assert [ORDER.index(each.kind) for each in found] == sorted(ORDER.index(each.kind) for each in found)
    doing = [each for each in found if each.do != KEEP]
    assert not [each for each in doing if each.kind in ("unit", "service") and known.CONNECTION.fullmatch(each.name)]
    assert not [each for each in doing if each.kind == "data"]
    for each in doing:
        if (each.do, each.kind) == ("remove", "package"):
            assert now.record.entries["package", each.name].before is None
        if (each.do, each.kind) == ("remove", "file"):
            assert each.name not in ("/etc/hosts", "/etc/fstab", LIST)
    gone = {each.name for each in doing if each.kind == "package"}
    assert not [p for p in now.packages.values() if p.name not in gone and gone & {*p.depends}]


@given(hosts())
def test_a_second_reset_of_any_host_finds_only_what_stays(now: Readings) -> None:
    after = _after(now, plan(now, False))
    assert [each for each in plan(after, False) if each.do != KEEP] == []


def _after(now: Readings, actions: list[Action]) -> Readings:
    """Return what a host has after these actions."""
    files, units, found = dict(now.files), dict(now.units), dict(now.packages)
    for each in actions:
        if each.do != KEEP and each.kind == "file":
            files.pop(each.name, None)
            files |= {each.name: each.value} if each.value else {}
        if each.do == "remove" and each.kind == "package":
            found.pop(each.name)
        if each.kind in ("unit", "service") and each.do != KEEP:
            verbs = ["stop", "disable"] if each.kind == "unit" else each.value
            units[each.name] = _changed(units[each.name], verbs)
        if each.kind == "hold":
            old = found[each.name]
            found[each.name] = package(old.name, old.version, *old.depends, held=each.value == "hold")
    ended = any(each.kind == "record" and each.do != KEEP for each in actions)
    return Readings(
        record=Record({}) if ended else now.record,
        files=files,
        copies={} if ended else now.copies,
        packages=found,
        units=units,
        data=now.data,
    )


def _changed(unit: Unit, verbs: list[str]) -> Unit:
    active = "active" if "start" in verbs else "inactive" if "stop" in verbs else unit.active
    state = "enabled" if "enable" in verbs else "disabled" if "disable" in verbs else unit.file_state
    return Unit(unit.name, unit.load, active, state)
