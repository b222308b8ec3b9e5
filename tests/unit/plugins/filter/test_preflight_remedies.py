# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What preflight advises about a host's driver is followed, as a person would, until it has nothing to say."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.driver_versions import driver_versions
from test_preflight_problems import SETTINGS, find, reading

ROOT = Path(__file__).resolve().parents[4]
TABLE = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_versions"]["nvidia_driver"]
SYSTEMS = ["Debian 12", "Debian 13", "Ubuntu 22.04", "Ubuntu 24.04", "Ubuntu 26.04"]
SHARED = {**SETTINGS, "nvidia_driver_versions": TABLE, "distributions": SYSTEMS}
# One GPU of each family.
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
# Version, kind of its modules, packages and origin of the driver that is there.
DRIVERS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "none": ("", "", {}, "none"),
    "open 580": (OLD, "open", {"nvidia-open-580": f"{OLD}-1ubuntu1"}, "cuda_repository"),
    "proprietary 580": (OLD, "proprietary", {"cuda-drivers-580": f"{OLD}-1ubuntu1"}, "cuda_repository"),
    "open 595": (NEW, "open", {"nvidia-open": f"{NEW}-1ubuntu1"}, "cuda_repository"),
    "runfile 470": ("470.256.02", "proprietary", {}, "runfile"),
    "distribution 535": ("535.261.03", "proprietary", {"nvidia-driver": "535.261.03-1"}, "distribution"),
}
# Where preflight has no setting to offer that makes a GPU work.
HONEST = {"gpu_unsupported", "gpus_need_different_drivers"}


def machine(system: str, gpus: list[str], driver: str = "none", **settings: Any) -> dict[str, Any]:
    found = reading("gpu1", 12, 0)
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
    """What preflight says of this host alone, as the playbook asks: the version first, then the rules."""
    variables = {"gpu1": {"__preflight_reading": host}}
    choice = driver_versions(["gpu1"], variables, TABLE)["hosts"]
    host["settings"]["driver_choice"] = choice.get("gpu1", {})
    problems: list[dict[str, Any]] = find({"gpu1": host}, {**shared, "control_plane": []})
    return problems


def follow(host: dict[str, Any], shared: dict[str, Any], remedy: dict[str, Any]) -> None:
    """Do what a remedy says: to the host first, then to the settings."""
    todo, driver = remedy.get("host", {}), host["facts"]["nvidia_driver"]
    assert set(todo) <= {"branches", "modules", "vfio", "signing_key", "packages"}
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
    """Follow the advice at most three times: what is left then, and how often it was followed."""
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


def test_advice_ends_with_a_driver_that_serves_the_gpus() -> None:
    """Also when it is not the first remedy that is taken."""
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
