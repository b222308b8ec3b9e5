# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's advice about a host's driver, followed until no problem is left."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.driver import driver_plan, driver_versions
from test_preflight_problems import SETTINGS, find, reading

ROOT = Path(__file__).resolve().parents[4]
TABLE = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_versions"]["nvidia_driver"]
SYSTEMS = ["Debian 12", "Debian 13", "Ubuntu 22.04", "Ubuntu 24.04", "Ubuntu 26.04"]
SHARED = {**SETTINGS, "nvidia_driver_versions": TABLE, "distributions": SYSTEMS}
# A GPU of each family.
GPUS = {
    "Fermi": "0x06c0",
    "Kepler GK107": "0x0fc6",
    "K80": "0x102d",
    "GTX 980": "0x13c0",
    "GTX 1080": "0x1b80",
    "P40": "0x1b38",
    "V100": "0x1db5",
    "T4": "0x1eb8",
    "A100": "0x20b0",
    "A10": "0x2236",
    "L40S": "0x26b9",
    "H100": "0x2330",
    "RTX 5090": "0x2b85",
    "unknown": "0xfff0",
}
ARCHIVE = {
    "Ubuntu 22.04": ["470.256.02", "535.261.03", "580.95.05"],
    "Ubuntu 24.04": ["470.256.02", "535.261.03", "580.95.05"],
    "Ubuntu 26.04": ["580.95.05", "595.71.05"],
}
SOURCES = ("cuda_repository", "distribution", "preinstalled", "daemonset", "operator")
OLD, NEW = "580.178.04", "595.91.07"
# Version, kind of kernel modules, packages, and origin of the existing driver.
DRIVERS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "none": ("", "", {}, "none"),
    "open 580": (OLD, "open", {"nvidia-open-580": f"{OLD}-1ubuntu1"}, "cuda_repository"),
    "proprietary 580": (OLD, "proprietary", {"cuda-drivers-580": f"{OLD}-1ubuntu1"}, "cuda_repository"),
    "open 595": (NEW, "open", {"nvidia-open": f"{NEW}-1ubuntu1"}, "cuda_repository"),
    "runfile 470": ("470.256.02", "proprietary", {}, "runfile"),
    "distribution 535": ("535.261.03", "proprietary", {"nvidia-driver": "535.261.03-1"}, "distribution"),
}
# Problems that no setting can solve.
HONEST = {"gpu_unsupported", "gpus_need_different_drivers"}


def machine(system: str, gpus: list[str], driver: str = "none", **settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = reading("gpu1", 12, 0)
    loaded, modules, packages, origin = DRIVERS[driver]
    found["facts"].update(
        os={"key": system, "pretty_name": system},
        gpus=[
            {"address": f"0000:{bus:02x}:00.0", "device_id": GPUS[name], "driver": ""} for bus, name in enumerate(gpus)
        ],
        nvidia_driver={"loaded_version": loaded, "loaded_modules": modules, "packages": packages, "origin": origin},
        distribution_drivers=["some"],
        distribution_versions=[
            {"version": version, "modules": kind}
            for version in ARCHIVE.get(system, [])
            for kind in ("open", "proprietary")
            if kind == "proprietary" or not version.startswith("470")
        ],
    )
    found["settings"].update(
        expected_gpus=None,
        nvidia_driver_version="auto",
        nvidia_driver_installer_image="registry/driver:580.178.04",
        ignored_gpus=[],
        **settings,
    )
    if settings.get("nvidia_driver_source") in ("daemonset", "operator"):
        found["settings"]["nvidia_driver_root"] = "/"
    return found


def judge(host: dict[str, Any], shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return preflight's problems of this host, after choosing the driver version as the playbook does."""
    variables = {"gpu1": {"__preflight_reading": host}}
    choice = driver_versions(["gpu1"], variables, TABLE)["hosts"]
    host["settings"]["driver_choice"] = choice.get("gpu1", {})
    problems: list[dict[str, Any]] = find({"gpu1": host}, {**shared, "control_plane": []})
    return problems


def follow(host: dict[str, Any], shared: dict[str, Any], remedy: dict[str, Any]) -> None:
    """Apply a remedy to the host and to the settings."""
    todo, driver = remedy.get("host", {}), host["facts"]["nvidia_driver"]
    assert set(todo) <= {"branches", "modules", "vfio", "signing_key", "packages", "components"}
    assert remedy["settings"] or todo
    if "components" in todo:
        host["facts"]["distribution_drivers"] = ["some"]
    if "branches" in todo:
        first, _dash, last = todo["branches"].partition("-")
        loaded = f"{last or max(int(first), 595)}.10.01"
        driver.update(loaded_version=loaded, loaded_modules=todo["modules"], packages={}, origin="runfile")
    for gpu in (*host["facts"]["gpus"], *host["facts"].get("gpus_left_out", [])):
        if gpu["address"] == todo.get("vfio"):
            gpu["driver"] = "vfio-pci"
    for name, value in remedy["settings"].items():
        if name == "acceptance_image":
            shared[name] = value
        else:
            key = name.removeprefix("cluster_")
            assert key in host["settings"], f"{name} is not a setting"
            host["settings"][key] = value


def end_of(host: dict[str, Any], first: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Follow the advice up to three times; return the remaining problems and the number of steps."""
    shared = dict(SHARED)
    for step in range(4):
        problems = judge(host, shared)
        if not problems or step == 3:
            return problems, step
        remedies = problems[0].get("remedies", [])
        if not remedies:
            return problems, step
        follow(host, shared, remedies[min(first, len(remedies) - 1) if step == 0 else 0])
    raise AssertionError


SETS = [
    (gpus, system, driver, source, modules)
    for gpus in [*([name] for name in GPUS), *map(list, itertools.combinations(GPUS, 2))]
    for system in SYSTEMS
    for driver in DRIVERS
    for source in SOURCES
    for modules in ("auto", "open", "proprietary")
]


def test_advice_leads_to_a_driver_that_supports_the_gpus() -> None:
    """This also applies if another remedy than the first is chosen."""
    chosen = random.Random(37).sample(SETS, 2500)
    for number, (gpus, system, driver, source, modules) in enumerate(chosen):
        host = machine(system, gpus, driver, nvidia_driver_source=source, nvidia_driver_modules=modules)
        shown = f"{gpus} {system} driver={driver} source={source} modules={modules}"
        begin = judge(host, dict(SHARED))
        assert all(problem["do"] and problem.get("remedies") for problem in begin), (shown, begin)
        honest = begin and begin[0]["kind"] in HONEST
        left, steps = end_of(host, number % 3)
        assert left == [] and steps <= 3, (shown, steps, left)
        names = {gpu["address"] for gpu in host["facts"]["gpus"]}
        assert number % 3 or honest or not names & set(host["settings"]["ignored_gpus"]), (
            shown,
            "left out a GPU that has a driver",
        )


def test_advice_for_upgrades_is_not_circular() -> None:
    """Each remedy, including those applied on the host, solves its problem."""
    seen = set()
    every = list(itertools.product(SYSTEMS, DRIVERS, SOURCES, ("auto", "open")))
    for system, driver, source, modules in random.Random(37).sample(every, 60):
        for gpus in (["T4"], ["V100"], ["A100", "K80"]):
            settings = {"nvidia_driver_source": source, "nvidia_driver_modules": modules}

            def upgraded(values: dict[str, Any], names: Any = (system, gpus, driver)) -> dict[str, Any]:
                host = machine(*names, **values)
                host["settings"]["nvidia_driver_upgrading"] = True
                return host

            for problem in judge(upgraded(settings), dict(SHARED)):
                assert problem["do"], problem
                for remedy in problem.get("remedies", []):
                    host, shared = upgraded(settings), dict(SHARED)
                    follow(host, shared, remedy)
                    left = {(each["kind"], each["what"]) for each in judge(host, shared)}
                    assert (problem["kind"], problem["what"]) not in left, (system, gpus, driver, source, remedy)
                    seen.add(problem["kind"])
    assert "driver_upgrade_without_version" in seen


def only(host: dict[str, Any]) -> dict[str, Any]:
    (problem,) = judge(host, dict(SHARED))
    return problem


@pytest.mark.parametrize("gpu", ["V100", "P40"])
@pytest.mark.parametrize("version", ["auto", OLD, NEW])
@pytest.mark.parametrize(("system", "archive"), [("Debian 13", "550.163.01"), ("Ubuntu 26.04", "580.95.05")])
def test_other_drivers_are_suggested_for_old_gpus_unsupported_by_the_repository(
    gpu: str, version: str, system: str, archive: str
) -> None:
    host = machine(system, [gpu], nvidia_driver_source="cuda_repository")
    host["settings"]["nvidia_driver_version"] = version
    problem = only(host)
    wanted = {"nvidia_driver_source": "distribution", "nvidia_driver_version": archive}
    assert problem["remedies"][0] == {"settings": wanted}
    for words in (
        f"nvidia_driver_source=distribution and nvidia_driver_version={archive}",
        "branch 580 or older with the proprietary kernel modules yourself",
        "nvidia_driver_source=preinstalled",
        "Debian 12, Ubuntu 22.04, Ubuntu 24.04 (580.178.04)",
    ):
        assert words in problem["do"], problem["do"]


@pytest.mark.parametrize(
    ("gpu", "remedy"),
    [
        ("V100", {"nvidia_driver_version": "535.309.01"}),
        ("T4", {"nvidia_driver_version": "535.261.03"}),
    ],
)
def test_version_is_suggested_for_the_required_kind_of_modules(gpu: str, remedy: dict[str, str]) -> None:
    """For example, the security archive of Debian 12 has newer proprietary modules, but no open ones."""
    host = machine("Debian 12", [gpu], nvidia_driver_source="distribution")
    kinds = (("535.309.01", "proprietary"), ("535.261.03", "open"))
    host["facts"]["distribution_versions"] = [{"version": version, "modules": kind} for version, kind in kinds]
    host["settings"]["nvidia_driver_version"] = next(each[0] for each in kinds if each[0] not in remedy.values())
    problem = only(host) if gpu == "V100" else judge(host, dict(SHARED))[0]
    assert problem["kind"] == "driver_version_not_offered"
    assert {"settings": {"nvidia_driver_version": remedy["nvidia_driver_version"]}} in problem["remedies"]


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        ("550.163.01", True),
        ("580.82.07", True),
        ("470.99.01", True),
        ("580.95.05", False),
        # The archive may have these versions, although they are not in apt's lists yet.
        ("580.126.09", False),
        ("570.211.01", False),
        ("590.48.01", False),
    ],
)
def test_version_newer_than_the_lists_of_apt_is_accepted(version: str, refused: bool) -> None:
    host = machine("Ubuntu 24.04", ["T4"], nvidia_driver_source="distribution")
    versions = ("550.163.02", "570.195.03", "580.95.05")
    host["facts"]["distribution_versions"] = [{"version": each, "modules": "open"} for each in versions]
    host["settings"]["nvidia_driver_version"] = version
    found = {each["kind"] for each in judge(host, dict(SHARED))}
    assert ("driver_version_not_offered" in found) is refused, found


def test_gpus_without_a_common_driver_are_reported() -> None:
    problem = only(machine("Ubuntu 24.04", ["GTX 1080", "RTX 5090"], nvidia_driver_source="cuda_repository"))
    assert problem["kind"] == "gpus_need_different_drivers"
    assert "Pascal GPUs need branch 580 or older with the proprietary kernel modules" in problem["why"]
    assert "Blackwell GPUs need branch 570 or newer with the open kernel modules" in problem["why"]


def test_ignoring_the_gpu_of_the_console_is_suggested_first() -> None:
    host = machine("Ubuntu 24.04", ["K80", "H100"], nvidia_driver_source="cuda_repository")
    for console, address in ((0, "0000:00:00.0"), (1, "0000:01:00.0")):
        for number, gpu in enumerate(host["facts"]["gpus"]):
            gpu["console"] = number == console
        remedy = only(host)["remedies"][0]["settings"]
        assert remedy["cluster_ignored_gpus"] == [address]


def test_ignored_gpus_need_no_driver_and_are_not_counted() -> None:
    host = machine("Ubuntu 24.04", ["K80", "H100", "H100"], nvidia_driver_source="cuda_repository")
    host["settings"].update(expected_gpus=2, ignored_gpus=["10de:102d"])
    assert judge(host, dict(SHARED)) == []
    host["settings"]["ignored_gpus"] = ["0000:99:00.0", "10de:102d"]
    assert only(host)["kind"] == "ignored_gpu_unknown"


def test_ignored_gpu_must_be_unbound_from_the_nvidia_driver() -> None:
    host = machine("Ubuntu 24.04", ["T4", "H100"], nvidia_driver_source="cuda_repository")
    host["settings"]["ignored_gpus"] = ["0000:00:00.0"]
    problem = only(host)
    assert problem["kind"] == "ignored_gpu_is_driven"
    assert "driverctl set-override 0000:00:00.0 vfio-pci" in problem["do"]
    host["facts"]["gpus"][0]["driver"] = "vfio-pci"
    assert judge(host, dict(SHARED)) == []


@pytest.mark.parametrize(
    ("expected", "ignored", "kind"),
    [(1, [], ""), (None, ["0000:01:00.0"], ""), (None, [], "gpus_passed_through"), (2, [], "gpus_passed_through")],
)
def test_passed_through_gpus_are_not_counted(expected: int | None, ignored: list[str], kind: str) -> None:
    host = machine("Ubuntu 24.04", ["A100", "A100"], nvidia_driver_source="cuda_repository")
    host["facts"]["gpus"][1]["driver"] = "vfio-pci"
    host["settings"].update(expected_gpus=expected, ignored_gpus=ignored)
    assert [problem["kind"] for problem in judge(host, dict(SHARED))] == ([kind] if kind else [])


@pytest.mark.parametrize("gpu", ["P40", "V100", "GTX 980"])
def test_kept_driver_with_unsuitable_modules_is_reported(gpu: str) -> None:
    problem = only(machine("Ubuntu 24.04", [gpu], "open 580", nvidia_driver_source="preinstalled"))
    assert problem["kind"] == "loaded_modules_do_not_fit" and "GSP" in problem["why"]
    assert "They need the proprietary kernel modules" in problem["why"]


def test_only_unsuitable_modules_of_the_same_version_are_reported() -> None:
    assert (
        judge(machine("Ubuntu 24.04", ["T4"], "proprietary 580", nvidia_driver_source="cuda_repository"), SHARED) == []
    )
    problem = only(machine("Ubuntu 24.04", ["P40"], "open 580", nvidia_driver_source="cuda_repository"))
    assert problem["kind"] == "driver_modules_differ"
    assert problem["remedies"][0] == {"settings": {"nvidia_driver_replace_foreign": True}}
    chosen = machine(
        "Ubuntu 24.04", ["T4"], "open 580", nvidia_driver_source="cuda_repository", nvidia_driver_modules="proprietary"
    )
    assert only(chosen)["remedies"][0] == {"settings": {"nvidia_driver_modules": "auto"}}


def test_fermi_gpus_are_unsupported() -> None:
    problem = only(machine("Ubuntu 24.04", ["Fermi"], nvidia_driver_source="cuda_repository"))
    assert problem["kind"] == "gpu_unsupported" and problem["do"].startswith("Use a different GPU")


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ({"certificate": "/var/lib/shim-signed/mok/MOK.der", "enrolled": True}, False),
        ({"certificate": "/var/lib/shim-signed/mok/MOK.der", "enrolled": False}, True),
        ({"certificate": "/var/lib/shim-signed/mok/MOK.der", "enrolled": None}, True),
        ({}, True),
    ],
)
def test_secure_boot_is_accepted_with_an_enrolled_key(key: dict[str, Any], refused: bool) -> None:
    host = machine("Ubuntu 24.04", ["T4"], nvidia_driver_source="cuda_repository")
    host["facts"].update(secure_boot=True, signing_key=key)
    problems = judge(host, dict(SHARED))
    assert [problem["kind"] for problem in problems] == ["secure_boot"] * refused
    assert not refused or "mokutil --import /var/lib/shim-signed/mok/MOK.der" in problems[0]["do"]


@pytest.mark.parametrize(
    ("release", "image", "known", "words"),
    [
        ("6.14.8-2-pve", "", None, "proxmox-headers-6.14.8-2-pve"),
        ("6.14.8-2-pve", "", True, ""),
        ("6.8.0-63-generic", "linux-image-6.8.0-63-generic", False, "linux-headers-6.8.0-63-generic"),
        # apt was not asked or has no lists yet; a container's kernel has no package.
        ("6.8.0-63-generic", "linux-image-6.8.0-63-generic", None, ""),
        ("6.8.0-63-generic", "", False, ""),
    ],
)
def test_missing_headers_are_reported_before_any_change(
    release: str, image: str, known: bool | None, words: str
) -> None:
    host = machine("Ubuntu 24.04", ["T4"], nvidia_driver_source="cuda_repository")
    host["facts"].update(
        kernel=release,
        kernel_packages={
            "image": image,
            "meta": "",
            "headers": [f"{'proxmox' if release.endswith('pve') else 'linux'}-headers-{release}"],
            "compiler": "",
            "newer_without_headers": [],
            "headers_found": False,
            "headers_known": known,
        },
    )
    problems = judge(host, dict(SHARED))
    assert [problem["kind"] for problem in problems] == ["kernel_headers_missing"] * bool(words)
    assert not words or words in problems[0]["what"] + problems[0]["do"]


@pytest.mark.parametrize("release", ["6.6.87.2-microsoft-standard-WSL2", "4.4.0-19041-Microsoft"])
def test_wsl_is_reported_as_unsupported(release: str) -> None:
    host = machine("Ubuntu 24.04", [], nvidia_driver_source="cuda_repository")
    host["facts"].update(kernel=release, kernel_modules={"overlay": "missing"})
    problem = only(host)
    assert problem["kind"] == "wsl_unsupported" and release in problem["what"]


def test_driver_plan_matches_the_accepted_choice() -> None:
    """The packages are chosen by the same decision."""
    host = machine("Ubuntu 24.04", ["P40", "T4"], nvidia_driver_source="cuda_repository")
    assert judge(host, dict(SHARED)) == []
    facts = {**host["facts"], "kernel_packages": {"image": "", "headers": ["linux-headers-6"], "compiler": ""}}
    planned = driver_plan(facts, TABLE, {"version": host["settings"]["driver_choice"]["version"]})
    assert planned["version"] == OLD and planned["modules"] == "proprietary"


def test_missing_apt_components_are_a_remedy_on_the_host() -> None:
    host = machine("Ubuntu 24.04", ["T4"], nvidia_driver_source="distribution")
    host["facts"].update(distribution_drivers=[], apt_components=["main"])
    host["settings"]["nvidia_driver_version"] = "580.95.05"
    problem = only(host)
    assert problem["kind"] == "apt_components_missing" and problem["do"].startswith("Add restricted to")
    assert "set  for" not in problem["do"]
    left, steps = end_of(host)
    assert left == [] and steps == 1


def test_version_of_nvidia_modprobe_is_not_a_driver_version() -> None:
    host = machine("Ubuntu 24.04", ["T4"], "distribution 535", nvidia_driver_source="distribution")
    host["settings"]["nvidia_driver_version"] = "535.261.03"
    host["facts"]["nvidia_driver"]["packages"]["nvidia-modprobe"] = "615.71.09-1ubuntu1"
    assert judge(host, dict(SHARED)) == []
