# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from first_run_record import recorded

# A program that simulates apt-get, apt-cache and dpkg. state.json contains the packages {name: [want, flag, state,
# version]}, the versions in the index, and the versions on the servers.
PLAYER = r"""
import json, os, pathlib, sys
here = pathlib.Path("{directory}")
name, args = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
world = json.loads((here / "state.json").read_text())
with (here / "calls").open("a") as calls:
    calls.write(name + " " + " ".join(args) + "\n")
    for variable in ("DEBIAN_FRONTEND", "NEEDRESTART_SUSPEND"):
        assert variable in os.environ
def save():
    (here / "state.json").write_text(json.dumps(world))
    text = "".join(
        f"Package: {p}\nStatus: {w} {f} {s}\nArchitecture: amd64\nVersion: {v}\n\n"
        for p, (w, f, s, v) in world["packages"].items()
    )
    (here / "dpkg/status").write_text(text)
def fail(text):
    print(text, file=sys.stderr)
    sys.exit(100)
if world["locked"] and name != "apt-cache":
    world["locked"] -= 1
    save()
    fail("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)")
if name == "apt-cache":
    for package in args[1:]:
        for version in world["known"].get(package, []):
            print(f" {package} | {version} | http://depot / Packages")
elif args == ["--set-selections"]:
    for line in sys.stdin:
        with (here / "calls").open("a") as calls:
            calls.write(line)
        package, want = line.split()
        world["packages"][package.partition(":")[0]][0] = want
elif name == "dpkg":
    for journal in (here / "dpkg/updates").glob("[0-9]*"):
        journal.unlink()
    for package, entry in world["packages"].items():
        if package in world["scripts_fail"] and entry[2] in ("unpacked", "half-configured"):
            save()
            fail(f"dpkg: error processing package {package} (--configure):\n installed {package} package "
                 "post-installation script subprocess returned error exit status 10\n"
                 f"Errors were encountered while processing:\n {package}")
        if entry[2] == "unpacked":
            entry[2] = "installed"
            print(f"Setting up {package} ...")
elif args[0] == "update":
    if world["update_error"]:
        fail(world["update_error"])
    world["known"] = world["held_by_servers"]
    (here / "lists/depot.example_debian_dists_bookworm_InRelease").touch()
    (here / "refreshed").touch()
else:
    if world["stale"] and not (here / "refreshed").exists():
        fail("E: Unable to correct problems\nThe following packages have unmet dependencies:\n"
             " kubelet : Depends: iptables but it is not installable")
    if world["install_error"]:
        fail(world["install_error"])
    wanted = dict((word.split("=") + [""])[:2] for word in args[1:] if word[0] != "-" and "::" not in word
                  and ":" not in word.split("=")[0] and word[0].islower())
    for package in [word[:-1] for word in args[1:] if word[0].islower() and word.endswith("-") and "=" not in word]:
        del wanted[package + "-"]
        print(f"Remv {package} [{world['packages'][package][3]}]")
        if "-s" not in args:
            del world["packages"][package]
    for package, version in wanted.items():
        version = version or world["known"][package][0]
        old = world["packages"].get(package)
        if "-s" in args:
            print(f"Inst {package} " + (f"[{old[3]}] " if old else "") + f"({version} depot [all])")
            print(f"Inst dependency (1.0 depot [all])")
            print(f"Conf {package} ({version} depot [all])")
        else:
            world["packages"][package] = ["install", "ok", "installed", version]
            world["packages"]["dependency"] = ["install", "ok", "installed", "1.0"]
            if package in world.get("broken", []):
                world["packages"][package][2] = "half-configured"
                save()
                fail(f"dpkg: error processing package {package} (--configure)")
save()
"""
KUBELET = {"name": "kubelet", "version": "1.36.4-1.1"}
WANTED: list[dict[str, Any]] = [KUBELET, {"name": "kubectl", "version": "1.36.4-1.1"}]
Ensure = Callable[..., dict[str, Any]]


class World:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "dpkg/updates").mkdir(parents=True)
        self.index = directory / "lists/depot.example_debian_dists_bookworm_InRelease"
        self.stamp = directory / "periodic/update-success-stamp"
        self.index.parent.mkdir()
        self.index.touch()
        (directory / "etc").mkdir()
        (directory / "etc/sources.list").write_text("deb http://depot.example/debian bookworm main\n")
        self.set(
            packages={},
            known={},
            held_by_servers={"kubelet": ["1.37.1-1.1", "1.36.4-1.1"], "kubectl": ["1.36.4-1.1"]},
            locked=0,
            update_error="",
            install_error="",
            stale=False,
            scripts_fail=[],
        )

    def set(self, architecture: str = "amd64", **values: Any) -> None:
        path = self.directory / "state.json"
        state = {**(json.loads(path.read_text()) if path.exists() else {}), **values}
        path.write_text(json.dumps(state))
        text = "".join(
            f"Package: {name}\nStatus: {want} {flag} {now}\nArchitecture: {architecture}\nVersion: {version}\n\n"
            for name, (want, flag, now, version) in state["packages"].items()
        )
        (self.directory / "dpkg/status").write_text(text)

    def packages(self) -> dict[str, list[str]]:
        packages: dict[str, list[str]] = json.loads((self.directory / "state.json").read_text())["packages"]
        return packages

    def calls(self) -> list[str]:
        path = self.directory / "calls"
        calls = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return calls


@pytest.fixture
def world(tmp_path: Path, programs: Any) -> World:
    for name in ("apt-get", "apt-cache", "dpkg"):
        programs.python(name, PLAYER.replace("{directory}", str(tmp_path)))
    return World(tmp_path)


@pytest.fixture
def ensure(run_module: Any, world: World) -> Ensure:
    def call(packages: list[dict[str, Any]] | None = None, check: bool = False, **options: Any) -> dict[str, Any]:
        places = {f"{name}_dir": str(world.directory / name) for name in ("dpkg", "etc", "lists")}
        args = {"packages": packages or WANTED, **places, "lock_timeout": 0, **options}
        result: dict[str, Any] = run_module("apt_packages", args, check=check)
        return result

    return call


def installed(version: str, want: str = "hold") -> list[str]:
    return [want, "ok", "installed", version]


def test_packages_are_installed_on_a_bare_host_and_a_second_run_changes_nothing(ensure: Ensure, world: World) -> None:
    result = ensure()
    assert result["changed"] and result["before"] == {}
    assert result["installed"] == {"kubelet": "1.36.4-1.1", "kubectl": "1.36.4-1.1"}
    assert result["others"] == {"dependency": "1.0"}
    assert result["held"] == ["kubectl", "kubelet"]
    calls = world.calls()
    installs = [call for call in calls if call.startswith("apt-get install")]
    assert len(installs) == 1 and calls[1].startswith("apt-get update")
    for option in ("-y", "--no-install-recommends", "--no-remove", "--force-confold", "--force-confdef"):
        assert option in installs[0]
    assert "--allow-downgrades" not in installs[0]

    again = ensure()
    assert not again["changed"] and world.calls() == []
    assert again["installed"] == again["before"] == result["installed"]


def test_packages_are_recorded_as_they_were_before_the_first_change(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.35.9-1.1", "install"), "other": installed("1")})
    ensure(check=True)
    assert recorded(world.directory) == {}
    ensure()
    before = {"kubelet": {"version": "1.35.9-1.1", "held": False}, "kubectl": None, "dependency": None}
    assert recorded(world.directory) == before
    world.set(packages={"kubelet": installed("1.36.4-1.1", "install"), "kubectl": installed("1.36.4-1.1")})
    assert ensure()["changed"]
    assert recorded(world.directory) == before


def test_packages_added_before_a_failure_are_recorded(ensure: Ensure, world: World) -> None:
    world.set(broken=["kubelet"])
    assert ensure([KUBELET])["failed"]
    assert recorded(world.directory) == {"kubelet": None, "dependency": None}


def test_a_package_that_is_only_held_is_recorded_as_not_held(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.36.4-1.1", "install")})
    ensure([KUBELET])
    assert recorded(world.directory) == {"kubelet": {"version": "1.36.4-1.1", "held": False}}


def test_unchanged_packages_are_not_recorded(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.36.4-1.1")})
    assert not ensure([KUBELET])["changed"]
    assert recorded(world.directory) == {}


def test_the_index_is_not_refreshed_if_the_version_is_known(ensure: Ensure, world: World) -> None:
    world.set(known={"kubelet": ["1.36.4-1.1"], "kubectl": ["1.36.4-1.1"]})
    assert ensure()["changed"]
    assert not [call for call in world.calls() if " update" in call]


@pytest.mark.parametrize("known", [{}, {"kubelet": ["1.36.4-1.1"], "kubectl": ["1.36.4-1.1"]}])
def test_check_mode_predicts_the_changes(ensure: Ensure, world: World, known: dict[str, list[str]]) -> None:
    world.set(known=known)
    foretold = ensure(check=True)
    assert foretold["changed"] and world.packages() == {}
    assert not [call for call in world.calls() if "update" in call or ("-s" not in call and "install" in call)]
    assert ("dependency 1.0\n" in foretold["diff"]["after"]) == bool(known)
    real = ensure()
    assert foretold["installed"] == real["installed"] and foretold["held"] == real["held"]
    assert not ensure(check=True)["changed"]


@pytest.mark.parametrize(("architecture", "line"), [("amd64", "kubelet:amd64 hold"), ("all", "kubelet hold")])
def test_only_a_missing_hold_is_set(ensure: Ensure, world: World, architecture: str, line: str) -> None:
    world.set(packages={"kubelet": installed("1.36.4-1.1", "install")}, architecture=architecture)
    assert ensure([KUBELET], check=True)["changed"]
    result = ensure([KUBELET])
    assert result["changed"] and world.calls() == ["dpkg --set-selections", line]
    assert result["diff"] == {"before": "kubelet 1.36.4-1.1\n", "after": "kubelet 1.36.4-1.1 held\n"}
    assert not ensure([KUBELET], hold=False)["changed"]


def test_a_held_package_is_upgraded_and_held_again(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.35.8-1.1")})
    assert ensure([KUBELET], allow_change_held=False)["failed"]
    result = ensure([KUBELET])
    assert result["before"] == {"kubelet": "1.35.8-1.1"} and result["held"] == ["kubelet"]
    assert "--allow-change-held-packages" in "".join(world.calls())
    assert world.packages()["kubelet"] == installed("1.36.4-1.1")


def test_a_downgrade_is_refused_unless_allowed(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.37.1-1.1")})
    for check in (True, False):
        result = ensure([KUBELET], check=check)
        assert result["failed"] and "kubelet from 1.37.1-1.1 to 1.36.4-1.1" in result["msg"]
    assert world.packages()["kubelet"] == installed("1.37.1-1.1")
    assert ensure([KUBELET], allow_downgrade=True)["changed"]
    assert "--allow-downgrades" in "".join(world.calls())


def test_an_unknown_version_is_an_error_that_lists_the_available_ones(ensure: Ensure, world: World) -> None:
    result = ensure([{"name": "kubelet", "version": "1.36.9-1.1"}, {"name": "kubeadm", "version": "1.36.9-1.1"}])
    assert result["failed"]
    assert "kubelet 1.36.9-1.1, they hold 1.37.1-1.1, 1.36.4-1.1" in result["msg"]
    assert "kubeadm 1.36.9-1.1, nor any other version of it" in result["msg"]


def test_a_broken_unmanaged_source_only_matters_if_it_is_needed(ensure: Ensure, world: World) -> None:
    world.set(update_error="E: The repository 'http://foreign' does not have a Release file.")
    result = ensure()
    assert result["failed"] and "http://foreign" in result["msg"] and result["cmd"].startswith("apt-get update ")
    world.set(known={"kubelet": ["1.36.4-1.1"]})
    assert not ensure([KUBELET])["failed"]


def test_without_a_version_any_installed_version_is_accepted(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.2-3")})
    assert not ensure([{"name": "kubelet"}])["changed"]
    assert ensure([{"name": "kubectl"}])["installed"] == {"kubectl": "1.36.4-1.1"}


def test_packages_are_never_removed_without_permission(ensure: Ensure, world: World) -> None:
    world.set(install_error="E: Packages need to be removed but remove is disabled.")
    result = ensure()
    assert result["failed"] and "remove is disabled" in result["msg"] and "allow_removal" in result["msg"]
    world.calls()
    ensure(allow_removal=True)
    assert "--no-remove" not in "".join(world.calls())


def test_an_interrupted_dpkg_is_completed_first(ensure: Ensure, world: World) -> None:
    (world.directory / "dpkg/updates/0001").write_text("")
    world.set(packages={"kubelet": ["hold", "ok", "unpacked", "1.36.4-1.1"]})
    assert ensure([KUBELET], check=True)["changed"]
    world.calls()
    result = ensure([KUBELET])
    assert result["changed"] and world.calls() == ["dpkg --configure -a --force-confdef --force-confold"]
    assert not ensure([KUBELET])["changed"]


@pytest.mark.parametrize(
    ("failing", "asked"),
    [
        ("kubelet", [KUBELET]),
        ("kubelet", [{"name": "kubelet"}]),
        ("kubelet", WANTED),
        ("kubelet-dkms", [KUBELET]),
    ],
)
def test_a_maintainer_script_that_failed_twice_is_not_run_again(
    ensure: Ensure, world: World, failing: str, asked: list[dict[str, Any]]
) -> None:
    # A package that depends on the failing one stays unpacked.
    packages = {"kubelet-dkms": "half-configured", "kubelet": "unpacked" if failing != "kubelet" else "half-configured"}
    world.set(
        packages={
            name: ["install", "ok", now, "1.36.4-1.1"]
            for name, now in packages.items()
            if failing == "kubelet-dkms" or name == "kubelet"
        },
        known={"kubelet": ["1.36.4-1.1"]},
        scripts_fail=[failing],
    )
    result = ensure(asked)
    assert result["failed"] and result["msg"].startswith("Error while completing the interrupted work of dpkg: ")
    assert (
        "error processing package" in result["msg"] and f"\n{failing} 1.36.4-1.1 is already unpacked" in result["msg"]
    )
    assert [call.split()[0] for call in world.calls()] == ["dpkg"]


@pytest.mark.parametrize(
    ("failing", "version"),
    [
        pytest.param("kubelet", "1.37.1-1.1", id="of another version"),
        pytest.param("tzdata", "1.37.1-1.1", id="of another package, next to other work"),
    ],
)
def test_a_failed_package_that_will_be_replaced_is_not_an_error(
    ensure: Ensure, world: World, failing: str, version: str
) -> None:
    packages = {"kubelet": ["install", "ok", "half-configured", "1.36.4-1.1"]}
    world.set(packages={**packages, failing: ["install", "ok", "half-configured", "1"]}, scripts_fail=[failing])
    result = ensure([{"name": "kubelet", "version": version}])
    assert not result["failed"] and result["installed"] == {"kubelet": version}


def test_a_half_installed_package_is_installed_again(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": ["install", "reinstreq", "half-installed", "1.36.4-1.1"]})
    assert ensure([KUBELET])["changed"]
    assert world.packages()["kubelet"] == installed("1.36.4-1.1")
    assert any("--reinstall" in call and "--fix-broken" in call for call in world.calls())


def test_unmanaged_pending_packages_are_ignored_if_nothing_has_to_change(ensure: Ensure, world: World) -> None:
    world.set(packages={"kubelet": installed("1.36.4-1.1"), "else": ["install", "ok", "unpacked", "1"]})
    assert not ensure([KUBELET])["changed"] and world.calls() == []


def test_a_lock_is_waited_for(ensure: Ensure, world: World) -> None:
    world.set(locked=1)
    assert ensure([KUBELET], lock_timeout=20)["installed"] == {"kubelet": "1.36.4-1.1"}


def test_the_holder_of_the_lock_is_named(ensure: Ensure, world: World) -> None:
    world.set(locked=99)
    result = ensure([KUBELET])
    assert result["failed"] and "unattended-upgr, process 4711" in result["msg"] and "lock_timeout" in result["msg"]


def test_a_half_installed_dependency_is_repaired(ensure: Ensure, world: World) -> None:
    world.set(
        packages={
            "kubelet": ["hold", "ok", "unpacked", "1.36.4-1.1"],
            "cni": ["install", "reinstreq", "half-installed", "1.9"],
        },
        known={"cni": ["1.9"]},
    )
    assert ensure([KUBELET])["changed"]
    assert world.packages()["cni"] == installed("1.9", "install")
    assert [call.split()[-1] for call in world.calls() if "--reinstall" in call] == ["cni"]


def test_an_unavailable_optional_package_is_omitted(ensure: Ensure, world: World) -> None:
    headers = {"name": "linux-headers-odd", "optional": True}
    assert ensure([KUBELET, headers], check=True)["missing"] == [], "a refresh may bring it"
    result = ensure([KUBELET, headers])
    assert result["missing"] == ["linux-headers-odd"] and result["installed"] == {"kubelet": "1.36.4-1.1"}
    world.calls()
    for check in (False, True):
        again = ensure([KUBELET, headers], check=check)
        assert not again["changed"] and again["missing"] == ["linux-headers-odd"]
        assert world.calls() == ["apt-cache madison linux-headers-odd"]
    assert ensure([{"name": "kubectl", "optional": True}])["installed"] == {"kubectl": "1.36.4-1.1"}


HEADERS = [{"name": "linux-headers-odd", "optional": True}]


@pytest.mark.parametrize("lists", ["empty", "incomplete"])
def test_an_unavailable_optional_package_is_searched_again_if_an_index_is_missing(
    ensure: Ensure, world: World, lists: str
) -> None:
    if lists == "empty":
        world.index.unlink()
    else:
        (world.directory / "etc/sources.list.d").mkdir()
        source = "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/security.list\nSuites: bookworm-security\n"
        (world.directory / "etc/sources.list.d/debian.sources").write_text(source)
    world.set(held_by_servers={"linux-headers-odd": ["6.12"]})
    foreseen = ensure(HEADERS, check=True)
    assert foreseen["changed"] and foreseen["installed"] == {"linux-headers-odd": "(any version)"}
    assert not [call for call in world.calls() if "update" in call]
    assert ensure(HEADERS)["installed"] == {"linux-headers-odd": "6.12"}
    assert [call.split()[1] for call in world.calls()][:3] == ["madison", "update", "madison"]
    assert not ensure(HEADERS)["changed"]
    assert world.calls() == []


def test_an_unavailable_optional_package_refreshes_indexes_at_most_once_a_day(ensure: Ensure, world: World) -> None:
    for calls in (["madison", "update", "madison"], ["madison"]):
        assert ensure(HEADERS)["missing"] == ["linux-headers-odd"]
        assert [call.split()[1] for call in world.calls()] == calls
    os.utime(world.stamp, (time.time() - 2 * 86400,) * 2)
    assert not ensure(HEADERS)["changed"]
    assert [call.split()[1] for call in world.calls()] == ["madison", "update", "madison"]


def test_a_package_can_be_excluded_from_holding(ensure: Ensure, world: World) -> None:
    packages = [KUBELET, {"name": "kubectl", "hold": False}]
    assert ensure(packages, check=True)["held"] == ["kubelet"]
    assert ensure(packages)["held"] == ["kubelet"]
    assert world.packages()["kubectl"][0] == "install"
    assert not ensure(packages)["changed"]


def test_a_missing_index_of_dependencies_is_downloaded_once(ensure: Ensure, world: World) -> None:
    known = {"kubelet": ["1.36.4-1.1"]}
    world.set(known=known, stale=True)
    assert ensure([KUBELET], check=True)["installed"] == {"kubelet": "1.36.4-1.1"}
    world.calls()
    assert ensure([KUBELET])["changed"]
    assert [call.split()[1] for call in world.calls() if call.startswith("apt-get")] == ["install", "update", "install"]


def test_an_unavailable_dependency_is_reported_after_one_refresh(ensure: Ensure, world: World) -> None:
    world.set(known={"kubelet": ["1.36.4-1.1"]}, install_error="E: kubelet : Depends: x but it is not installable")
    result = ensure([KUBELET])
    assert result["failed"] and "not installable" in result["msg"]
    assert len([call for call in world.calls() if " update" in call]) == 1


FOLLOW = {"version": "595-1", "replaces": ["580-1", "595-1"]}
DRIVER: list[dict[str, Any]] = [{"name": "nvidia-open", "version": "595-1"}]


def old_driver(world: World) -> None:
    world.set(
        packages={
            "nvidia-open-580": installed("580-1"),
            "libnvidia-ml1": installed("580-1", "install"),
            "libnvidia-container1": installed("1.20.1-1"),
        },
        held_by_servers={name: ["595-1", "580-1"] for name in ("nvidia-open", "libnvidia-ml1")},
    )


def test_all_packages_of_a_release_are_changed_together(ensure: Ensure, world: World) -> None:
    old_driver(world)
    world.set(known=json.loads((world.directory / "state.json").read_text())["held_by_servers"])
    foretold = ensure(DRIVER, check=True, follow=FOLLOW, allow_removal=True)
    result = ensure(DRIVER, follow=FOLLOW, allow_removal=True)
    assert foretold["diff"] == result["diff"] and result["changed"]
    assert all("--purge" in call for call in world.calls() if call.startswith("apt-get install"))
    assert {name: entry[3] for name, entry in world.packages().items() if name != "dependency"} == {
        "nvidia-open": "595-1",
        "libnvidia-ml1": "595-1",
        "libnvidia-container1": "1.20.1-1",
    }
    assert result["held"] == ["nvidia-open"] and result["others"]["nvidia-open-580"] == ""
    world.calls()
    assert not ensure(DRIVER, follow=FOLLOW, allow_removal=True)["changed"] and world.calls() == []


def test_packages_left_by_an_interrupted_run_are_changed_too(ensure: Ensure, world: World) -> None:
    old_driver(world)
    packages = world.packages()
    world.set(packages={**packages, "nvidia-open": installed("595-1")})
    assert ensure(DRIVER, follow=FOLLOW, allow_removal=True)["changed"]
    assert world.packages()["libnvidia-ml1"][3] == "595-1" and "nvidia-open-580" not in world.packages()


def test_packages_in_the_way_are_named_if_nothing_may_be_removed(ensure: Ensure, world: World) -> None:
    old_driver(world)
    result = ensure(DRIVER, follow=FOLLOW)
    assert result["failed"] and "nvidia-open-580" in result["msg"] and "allow_removal" in result["msg"]
    assert set(world.packages()) == {"nvidia-open-580", "libnvidia-ml1", "libnvidia-container1"}


def test_the_revision_of_a_version_can_be_left_open(ensure: Ensure, world: World) -> None:
    world.set(held_by_servers={"kubelet": ["1.37.1-1.1", "1.36.4-1.2", "1.36.4-1.1"]})
    wish = [{"name": "kubelet", "version": "1.36.4-*"}]
    assert ensure(wish)["installed"] == {"kubelet": "1.36.4-1.2"}
    world.calls()
    assert not ensure(wish)["changed"] and world.calls() == []
    world.set(packages={"kubelet": installed("1:1.36.4-1.1")})
    assert not ensure(wish)["changed"]
    result = ensure([{"name": "kubelet", "version": "1.35.8-*"}], allow_downgrade=True)
    assert result["failed"] and "kubelet 1.35.8-*, they hold 1.37.1-1.1" in result["msg"]
