# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of a driver by distribution, branch, GPUs and installed packages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.driver import FilterModule

decide = FilterModule().filters()["driver_plan"]
T4, V100 = "0x1eb8", "0x1db5"
OLD, NEW = "580.178.04", "595.91.07"
TABLE = {
    OLD: {"packages": {"Debian 12": f"{OLD}-1", "Ubuntu 24.04": f"{OLD}-1ubuntu1"}},
    NEW: {"packages": {"Debian 12": f"{NEW}-1", "Debian 13": f"{NEW}-1", "Ubuntu 24.04": f"{NEW}-1ubuntu1"}},
}
KERNEL: dict[str, Any] = {
    "image": "linux-image-6.8.0-1032-aws",
    "meta": "linux-image-aws-lts-24.04",
    "headers": ["linux-headers-6.8.0-1032-aws", "linux-headers-aws-lts-24.04"],
    "compiler": "gcc-13",
    "newer_without_headers": [],
    "headers_found": False,
}


def host(system: str, gpu: str = T4, **facts: Any) -> dict[str, Any]:
    return {
        "os": {"key": system},
        "kernel": "6.8.0-1032-aws",
        "gpus": [{"device_id": gpu}],
        "nvswitches": 0,
        "secure_boot": False,
        "kernel_packages": KERNEL,
        "nvidia_driver": {"packages": {}},
        **facts,
    }


def plan(
    host: dict[str, Any],
    table: dict[str, Any],
    version: str,
    node: Any = None,
    services: Sequence[str] = (),
    **wanted: str,
) -> dict[str, Any]:
    found: dict[str, Any] = decide(host, table, {"version": version, **wanted}, node, services)
    return found


def words(found: dict[str, Any]) -> list[str]:
    """Return the packages as ``name=version``; optional ones end in a question mark."""
    return [
        f"{each['name']}{'=' + each['version'] if 'version' in each else ''}{'?' * each.get('optional', False)}"
        for each in found["packages"]
    ]


U, D = "1ubuntu1", "1"


@pytest.mark.parametrize(
    ("system", "version", "gpu", "names"),
    [
        (
            "Ubuntu 24.04",
            OLD,
            T4,
            "libnvidia-compute-580 nvidia-dkms-580-open nvidia-utils-580 nvidia-compute-utils-580?",
        ),
        ("Ubuntu 24.04", OLD, V100, "libnvidia-compute-580 nvidia-dkms-580 nvidia-utils-580 nvidia-compute-utils-580?"),
        ("Ubuntu 24.04", NEW, T4, "libnvidia-compute nvidia-dkms-open nvidia-persistenced?"),
        ("Debian 12", OLD, T4, "nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-persistenced?"),
        ("Debian 12", OLD, V100, "nvidia-driver-cuda nvidia-kernel-dkms nvidia-persistenced?"),
        ("Debian 13", NEW, T4, "nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-persistenced?"),
    ],
)
def test_compute_only_packages_are_the_default(system: str, version: str, gpu: str, names: str) -> None:
    found = plan(host(system, gpu), TABLE, version)
    deb = TABLE[version]["packages"][system]
    assert words(found) == [f"{name.rstrip('?')}={deb}{'?' * name.endswith('?')}" for name in names.split()]
    assert found["pinning"] == ([] if version == OLD else [{"name": f"nvidia-driver-pinning-{NEW}"}])
    assert found["preferences"] == (version == OLD) and found["headers"]
    other = TABLE[NEW if version == OLD else OLD]["packages"].get(system)
    assert found["follow"] == {"version": deb, "replaces": [other] if other else []}


@pytest.mark.parametrize(
    ("version", "gpu", "names"),
    [
        (OLD, T4, ["nvidia-open-580", "nvidia-compute-utils-580"]),
        (OLD, V100, ["cuda-drivers-580", "nvidia-compute-utils-580"]),
        (NEW, T4, ["nvidia-open", "nvidia-persistenced"]),
    ],
)
def test_full_driver_is_installed_if_chosen(version: str, gpu: str, names: list[str]) -> None:
    found = plan(host("Ubuntu 24.04", gpu), TABLE, version, extent="full")
    assert [each["name"] for each in found["packages"]] == names


@pytest.mark.parametrize(
    ("version", "packages", "names"),
    [
        (OLD, {"nvidia-open-580": f"{OLD}-1ubuntu1", "nvidia-dkms-580-open": f"{OLD}-1ubuntu1"}, ["nvidia-open-580"]),
        (NEW, {"nvidia-open": f"{NEW}-1ubuntu1"}, ["nvidia-open"]),
        # A driver of another version is replaced by the configured packages.
        (NEW, {"nvidia-open-580": f"{OLD}-1ubuntu1"}, ["libnvidia-compute", "nvidia-dkms-open", "nvidia-persistenced"]),
    ],
)
def test_full_driver_of_the_requested_version_is_kept(version: str, packages: dict[str, str], names: list[str]) -> None:
    found = plan(host("Ubuntu 24.04", nvidia_driver={"packages": packages}), TABLE, version)
    assert [each["name"] for each in found["packages"]] == names


def test_known_and_installed_driver_versions_are_replaced() -> None:
    there = {"nvidia-open-570": "570.1.02-1ubuntu1", "libnvidia-gl-570": "570.1.02-1ubuntu1", "dkms": "3.2"}
    found = plan(host("Ubuntu 24.04", nvidia_driver={"packages": there}), TABLE, NEW)
    assert found["follow"]["replaces"] == [f"{OLD}-1ubuntu1", "570.1.02-1ubuntu1"]


def test_fabric_manager_is_installed_for_nvswitches() -> None:
    found = plan(host("Ubuntu 24.04", nvswitches=4), TABLE, OLD)
    assert words(found)[-1] == f"nvidia-fabricmanager={OLD}-1ubuntu1"
    found = plan(host("Ubuntu 24.04", nvswitches=4), {}, "550.1.2", source="distribution")
    assert words(found)[-1] == "nvidia-fabricmanager-550=550.1.2-*"


@pytest.mark.parametrize(
    ("system", "secure_boot", "names", "dkms"),
    [
        ("Debian 13", False, ["nvidia-open-kernel-dkms=550.1.2-*", "libcuda1=550.1.2-*", "nvidia-smi=550.1.2-*"], True),
        (
            "Ubuntu 24.04",
            False,
            ["nvidia-headless-550-server-open=550.1.2-*", "nvidia-utils-550-server=550.1.2-*"],
            True,
        ),
        (
            "Ubuntu 24.04",
            True,
            [
                "linux-modules-nvidia-550-server-open-aws-lts-24.04",
                "nvidia-headless-no-dkms-550-server-open=550.1.2-*",
                "nvidia-utils-550-server=550.1.2-*",
            ],
            False,
        ),
    ],
)
def test_packages_of_the_distribution_are_planned(system: str, secure_boot: bool, names: list[str], dkms: bool) -> None:
    found = plan(host(system, secure_boot=secure_boot), {}, "550.1.2", source="distribution")
    assert words(found) == names
    assert bool(found["headers"]) == dkms and found["preferences"] and found["follow"] is None


def test_signed_modules_are_found_for_a_kernel_without_a_meta_package() -> None:
    kernel = {**KERNEL, "meta": ""}
    found = plan(host("Ubuntu 24.04", secure_boot=True, kernel_packages=kernel), {}, "550.1.2", source="distribution")
    assert words(found)[0] == "linux-modules-nvidia-550-server-open-6.8.0-1032-aws"


KEY = "gpulab.io/driver-upgrade"


def node(**data: Any) -> dict[str, Any]:
    record = {"cordoned": False, "data": data, "labels": {KEY: None}}
    annotations = {KEY: json.dumps(record)} if data else {}
    capacity = {"cpu": "4", "nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "2"}
    return {"metadata": {"annotations": annotations}, "status": {"capacity": capacity}}


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("nvidia-open-570", ["nvidia-open-570"]),
        ("cuda-drivers-570", ["cuda-drivers-570"]),
        ("nvidia-dkms-570-open", ["libnvidia-compute-570", "nvidia-dkms-570-open", "nvidia-utils-570"]),
        ("nvidia-dkms-570", ["libnvidia-compute-570", "nvidia-dkms-570", "nvidia-utils-570"]),
    ],
)
def test_rollback_restores_the_previous_packages(name: str, names: list[str]) -> None:
    package = {"name": name, "version": "570.1.02-9ubuntu1"}
    found = plan(host("Ubuntu 24.04"), TABLE, NEW, node(**{"from": "570.1.02", "package": package}))["upgrade"][
        "return"
    ]
    assert [each["name"] for each in found["packages"] if not each.get("optional")] == names
    assert {each["version"] for each in found["packages"]} == {"570.1.02-9ubuntu1"}


def test_version_missing_for_the_distribution_is_refused() -> None:
    found = plan(host("Debian 13"), TABLE, OLD)
    assert (
        "not in NVIDIA's repository for Debian 13. " in found["problem"] and f"auto or one of {NEW}" in found["problem"]
    )
    assert found["packages"] == [] and found["pending"] == {} and not found["preferences"]
    assert plan(host("Debian 13"), TABLE, OLD, node(**{"from": NEW}))["problem"]


@pytest.mark.parametrize(
    ("packages", "name"),
    [
        ({"nvidia-dkms-580-open": f"{OLD}-1", "nvidia-open-580": f"{OLD}-1"}, "nvidia-open-580"),
        ({"nvidia-dkms-580-open": f"{OLD}-1", "libnvidia-compute-580": f"{OLD}-1"}, "nvidia-dkms-580-open"),
        ({"nvidia-kernel-dkms": f"2:{OLD}-1", "nvidia-driver-cuda": f"2:{OLD}-1"}, "nvidia-kernel-dkms"),
        ({"nvidia-open": f"{NEW}-1"}, ""),
        ({"libnvidia-ml1": f"{OLD}-1"}, ""),
    ],
)
def test_rollback_records_the_package_that_identifies_the_driver(packages: dict[str, str], name: str) -> None:
    driver = {"loaded_version": OLD, "packages": packages, "origin": "cuda_repository"}
    found = plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, NEW, node())["upgrade"]
    assert found["package"] == ({"name": name, "version": packages[name]} if name else {})


@pytest.mark.parametrize(
    ("installed", "pending"),
    [
        ({}, True),
        ({"libnvidia-compute": f"{NEW}-1ubuntu1"}, True),
        (
            {
                **dict.fromkeys(("libnvidia-compute", "nvidia-dkms-open"), f"{NEW}-1ubuntu1"),
                f"nvidia-driver-pinning-{NEW}": "595-1ubuntu1",
            },
            False,
        ),
    ],
)
def test_packages_are_pending_until_they_are_installed(installed: dict[str, str], pending: bool) -> None:
    found = plan(host("Ubuntu 24.04", installed=installed), TABLE, NEW)["pending"]
    assert bool(found) == pending and "nvidia-persistenced" not in found
    assert plan(host("Ubuntu 24.04", gpus=[], installed=installed), TABLE, NEW)["pending"] == {}


def test_headers_and_compiler_are_optional() -> None:
    found = plan(host("Ubuntu 24.04"), TABLE, OLD)["headers"]
    assert found == [{"name": name, "optional": True} for name in (*KERNEL["headers"], "gcc-13")]


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        ({}, "no apt source of this host has linux-headers-6.8.0-1032-aws"),
        ({"newer_without_headers": ["6.8.0-1040-aws"]}, "Reboot into the newer kernel that is installed (6.8.0-1040"),
        ({"headers_found": True}, ""),
        # A container uses the kernel of its host.
        ({"image": ""}, ""),
    ],
)
def test_missing_headers_are_reported_with_a_remedy(kernel: dict[str, Any], sentence: str) -> None:
    found = plan(host("Ubuntu 24.04", kernel_packages={**KERNEL, **kernel}), TABLE, OLD)["headers_problem"]
    assert sentence in found if sentence else found == ""


@pytest.mark.parametrize(
    ("source", "loaded", "expected"),
    [
        ("cuda_repository", "", {"by_packages", "fabric_manager"}),
        ("cuda_repository", OLD, {"by_packages", "fabric_manager", "interrupts"}),
        ("distribution", NEW, {"by_packages", "fabric_manager", "loaded"}),
        ("daemonset", OLD, {"by_pod", "interrupts"}),
        ("preinstalled", OLD, set()),
        ("operator", "", set()),
    ],
)
def test_plan_depends_on_the_source_of_the_driver(source: str, loaded: str, expected: set[str]) -> None:
    driver = {"loaded_version": loaded, "packages": {}, "origin": "none"}
    found = plan(host("Ubuntu 24.04", nvidia_driver=driver, nvswitches=4), TABLE, NEW, source=source)
    assert {key for key, value in found.items() if value is True} - {"preferences"} == expected
    assert bool(found["packages"]) == ("by_packages" in expected)
    # Other sources may have versions that the table doesn't list.
    if "by_packages" not in expected:
        assert plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, "1.2.3", source=source)["problem"] == ""


def test_unread_host_gets_no_packages() -> None:
    found = plan({}, TABLE, NEW)
    assert found["packages"] == found["headers"] == [] and found["pending"] == {} and found["problem"] == ""


@pytest.mark.parametrize(
    ("data", "loaded", "packages", "wanted", "pending", "former", "returns"),
    [
        ({}, OLD, {"nvidia-open-580": f"{OLD}-1ubuntu1"}, NEW, True, OLD, OLD),
        ({}, NEW, {"nvidia-open": f"{NEW}-1ubuntu1"}, NEW, False, NEW, ""),
        # The new module is loaded, but a package of the previous version is left over.
        ({"from": OLD}, NEW, {"libnvidia-ml1": f"{OLD}-1ubuntu1"}, NEW, True, OLD, OLD),
        # The record of an interrupted upgrade takes precedence over the installed packages.
        ({"from": OLD}, "", {"nvidia-open": f"{NEW}-1ubuntu1"}, NEW, True, OLD, OLD),
        ({}, "570.1.02", {}, NEW, True, "570.1.02", ""),
        ({}, "", {}, NEW, True, "", ""),
    ],
)
def test_upgrade_is_planned_from_installed_and_recorded_versions(
    data: dict[str, Any],
    loaded: str,
    packages: dict[str, str],
    wanted: str,
    pending: bool,
    former: str,
    returns: str,
) -> None:
    driver = {"loaded_version": loaded, "packages": packages, "origin": "cuda_repository"}
    found = plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, wanted, node(**data))["upgrade"]
    assert (found["pending"], found["interrupted"], found["former"]) == (pending, bool(data), former)
    assert found["return"].get("version", "") == returns
    assert found["offered"] == {"nvidia.com/mig-1g.5gb": "2"}


@pytest.mark.parametrize(
    ("record", "labels", "interrupted"),
    [
        ({}, {}, False),
        ({"labels": {KEY: None}}, {}, True),
        ({"failure": "a budget"}, {}, True),
        # The annotation was removed after an interruption.
        ({}, {KEY: "running"}, True),
    ],
)
def test_an_upgrade_that_has_only_cordoned_the_node_can_still_be_deferred(
    record: dict[str, Any], labels: dict[str, str], interrupted: bool
) -> None:
    text = json.dumps({"cordoned": False, "data": {"from": OLD}, **record})
    cordoned = {"metadata": {"annotations": {KEY: text}, "labels": labels}}
    driver = {"loaded_version": OLD, "packages": {}, "origin": "cuda_repository"}
    found = plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, NEW, cordoned)["upgrade"]
    assert (found["pending"], found["interrupted"]) == (True, interrupted)
    # The run with the version that is to stay ends the maintenance.
    stays = plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, OLD, cordoned)["upgrade"]
    assert (stays["pending"], stays["interrupted"]) == (False, True)


def test_services_stopped_by_an_interrupted_upgrade_are_started() -> None:
    data = {"from": OLD, "services": ["a.service"], "offered": {"nvidia.com/gpu": "4"}}
    driver = {"loaded_version": "", "packages": {}, "origin": "none"}
    found = plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, NEW, node(**data), ["a.service"])["upgrade"]
    assert found["services"] == ["a.service"] and found["offered"] == {"nvidia.com/gpu": "4"}
    assert found["ignored"] == []


def test_record_cannot_start_other_services() -> None:
    data = {"from": OLD, "services": ["poweroff.target", "a.service"]}
    found = plan(host("Ubuntu 24.04"), TABLE, NEW, node(**data), ["a.service", "b.service"])["upgrade"]
    assert (found["services"], found["ignored"]) == (["a.service"], ["poweroff.target"])


def test_damaged_record_is_an_error_with_its_remedy() -> None:
    damaged = node(services="poweroff.target")
    damaged["metadata"]["name"] = "gpu1"
    with pytest.raises(AnsibleFilterError, match=r"annotate node gpu1 gpulab\.io/driver-upgrade-") as error:
        plan(host("Ubuntu 24.04"), TABLE, NEW, damaged)
    assert str(error.value).startswith("Error while preparing node gpu1 for driver-upgrade: ")


@pytest.mark.parametrize(("origin", "returns"), [("distribution", "535.1.2"), ("runfile", "")])
def test_only_a_driver_of_the_distribution_can_be_rolled_back_by_it(origin: str, returns: str) -> None:
    driver = {"loaded_version": "535.1.2", "packages": {}, "origin": origin}
    changed = host("Ubuntu 24.04", nvidia_driver=driver)
    assert (
        plan(changed, {}, "550.1.2", node(), source="distribution")["upgrade"]["return"].get("version", "") == returns
    )


@pytest.mark.parametrize(
    ("loaded", "gpu", "modules", "kept", "planned"),
    [
        # A T4 works with both kinds, so the existing modules are kept.
        ("cuda-drivers-580", T4, "auto", "proprietary", ["cuda-drivers-580"]),
        ("nvidia-open-580", T4, "auto", "open", ["nvidia-open-580"]),
        (
            "nvidia-dkms-580",
            T4,
            "auto",
            "proprietary",
            ["libnvidia-compute-580", "nvidia-dkms-580", "nvidia-utils-580"],
        ),
        ("cuda-drivers-580", T4, "open", "open", ["nvidia-open-580"]),
        ("nvidia-open-580", V100, "auto", "proprietary", ["cuda-drivers-580"]),
    ],
)
def test_module_kind_is_only_changed_if_required(
    loaded: str, gpu: str, modules: str, kept: str, planned: list[str]
) -> None:
    there = "open" if "open" in loaded else "proprietary"
    driver = {"loaded_version": OLD, "loaded_modules": there, "packages": {loaded: f"{OLD}-1ubuntu1"}}
    found = plan(host("Ubuntu 24.04", gpu, nvidia_driver=driver), TABLE, OLD, modules=modules)
    assert found["modules"] == kept
    assert [each["name"] for each in found["packages"] if not each.get("optional")] == planned
    assert found["loaded"] == (kept == there) and found["interrupts"] == (kept != there)


@pytest.mark.parametrize(
    ("gpus", "wanted", "why", "allowed", "do"),
    [
        (["nouveau", ""], {}, "drives 1 of 2 GPUs", False, "allow it with -e nvidia_driver_reboot=true"),
        ([""], {"reboot": True}, "nouveau is loaded", True, "The run reboots the host"),
        (["nouveau"], {"reboot": True, "connection": "local"}, "drives 1", False, "Reboot this host yourself"),
        (["nouveau"], {"source": "preinstalled"}, "", False, ""),
    ],
)
def test_reboot_is_predicted_if_nouveau_is_in_use(
    gpus: list[str], wanted: dict[str, str], why: str, allowed: bool, do: str
) -> None:
    driver = {"loaded_version": "", "packages": {}, "nouveau_loaded": True}
    bound = [{"device_id": T4, "driver": name} for name in gpus]
    found = plan(host("Ubuntu 24.04", gpus=bound, nvidia_driver=driver), TABLE, OLD, **wanted)["reboot"]
    assert why in found["why"] and bool(why) == bool(found["why"])
    assert found["allowed"] is allowed and do in found["do"]


@pytest.mark.parametrize(
    ("release", "headers", "sentence"),
    [
        ("6.14.8-2-pve", "proxmox-headers-6.14.8-2-pve", "Proxmox VE's kernel: install proxmox-headers-6.14.8-2-pve"),
        ("6.16.3-x64v3-xanmod1", "linux-headers-6.16.3-x64v3-xanmod1", "XanMod's kernel: install linux-headers-6.16"),
        ("6.12.9-2-liquorix-amd64", "linux-headers-6.12.9-2-liquorix-amd64", "Liquorix' kernel"),
        ("6.15.0-061500rc3-generic", "linux-headers-6.15.0-061500rc3-generic", "kernel.ubuntu.com/mainline"),
    ],
)
def test_third_party_kernels_have_their_own_headers_packages(release: str, headers: str, sentence: str) -> None:
    kernel = {**KERNEL, "image": "", "headers": [headers]}
    facts = host("Ubuntu 24.04", kernel=release, kernel_packages=kernel)
    assert sentence in plan(facts, TABLE, OLD)["headers_problem"]
    known = {**facts, "kernel_packages": {**kernel, "headers_known": True}}
    assert plan(known, TABLE, OLD)["headers_problem"] == ""


@pytest.mark.parametrize(("modules", "returns"), [("open", ["nvidia-open-580"]), ("proprietary", [])])
def test_change_of_the_module_kind_can_be_rolled_back(modules: str, returns: list[str]) -> None:
    there = {"nvidia-open-580": f"{OLD}-1ubuntu1"} if modules == "open" else {"cuda-drivers-580": f"{OLD}-1ubuntu1"}
    driver = {"loaded_version": OLD, "loaded_modules": modules, "packages": there, "origin": "cuda_repository"}
    found = plan(host("Ubuntu 24.04", V100, nvidia_driver=driver), TABLE, OLD, node())["upgrade"]
    assert found["pending"] == bool(returns)
    names = [each["name"] for each in found["return"].get("packages", ()) if not each.get("optional")]
    assert names == returns


@pytest.mark.parametrize("version", ["", "auto", "5x0.1"])
@pytest.mark.parametrize("source", ["cuda_repository", "distribution", "preinstalled"])
@pytest.mark.parametrize("gpus", [[], [{"device_id": T4}], [{"device_id": "0x1b80"}, {"device_id": "0x2b85"}]])
def test_undecided_or_invalid_version_has_a_plan(version: str, source: str, gpus: list[dict[str, str]]) -> None:
    """Preflight makes a plan for each host before its rules reject the version."""
    found = plan(host("Ubuntu 24.04", gpus=gpus), TABLE, version, source=source)
    assert bool(found["problem"]) == (source == "cuda_repository")


@pytest.mark.parametrize(
    ("loaded", "read", "wanted", "words"),
    [
        (OLD, "administrators", {}, ""),
        # An unmanaged file on the host allows access.
        (OLD, "all", {"files": ["/etc/modprobe.d/mine.conf"]}, ""),
        (OLD, "administrators", {"files": ["/etc/modprobe.d/mine.conf"], "profiling": "all"}, "has effect when"),
        (
            OLD,
            "administrators",
            {"profiling": "all"},
            "nvidia_driver_profiling=all has effect when the driver is loaded",
        ),
        (OLD, "all", {}, "lets all read"),
        (OLD, "all", {"profiling": "all"}, ""),
        # No driver is loaded, or it is about to be replaced.
        ("", "", {"profiling": "all"}, ""),
        (NEW, "administrators", {"profiling": "all"}, ""),
        # The driver is unmanaged.
        (OLD, "administrators", {"profiling": "all", "source": "preinstalled"}, ""),
    ],
)
def test_pending_setting_of_performance_counters_is_reported(
    loaded: str, read: str, wanted: dict[str, Any], words: str
) -> None:
    driver = {"loaded_version": loaded, "profiling": read, "packages": {}, "origin": "cuda_repository"}
    wanted = dict(wanted)
    driver["profiling_files"] = wanted.pop("files", [])
    found = plan(host("Ubuntu 24.04", nvidia_driver=driver), TABLE, OLD, **wanted)["profiling"]
    assert words in found and bool(found) == bool(words)
