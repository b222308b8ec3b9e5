# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""State of the hosts that a run adds to the report, and the actions that follow from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.access import cluster_name
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.actions import actions
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.drift import version_fits
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.metrics import metrics
from hypothesis import given
from hypothesis import strategies as st

state = FilterModule().filters()["report_state"]
SETTINGS: dict[str, Any] = {"observed": "2026-11-22T02:00:00Z", "now": 160.5, "certificate_days": 30}
UUID = "GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11"
PINS: dict[str, Any] = {
    "packages": {"kubelet": "1.36.4-1.1", "containerd.io": "2.3.6"},
    "gpu_packages": {},
    "minimums": {},
    "existing": "refuse",
    "loose": [],
    "source": "cuda_repository",
    "driver": "580.178.04",
}


def proof() -> dict[str, Any]:
    gpu1 = {
        "gpus": {"expected": 1, "proven": 1, "in_use": 0},
        "devices": [{"uuid": UUID, "name": "Tesla T4", "state": "proven", "pod": "gpu-0"}],
        "problems": [],
        "versions": [],
    }
    return {"hosts": {"gpu1": gpu1}, "totals": {"gpus": 1, "proven": 1, "in_use": 0}, "problems": []}


def installed(kernel: dict[str, Any] | None = None, **versions: str) -> dict[str, Any]:
    packages = versions or {"kubelet": "1.36.4-1.1", "containerd.io": "2.3.6-1~debian.13~trixie"}
    same = {"running": "6.1", "newest": "6.1", "newest_has_driver": True, "newest_has_headers": True}
    return {
        "pci": [{"address": "0000:3b:00.0"}],
        "packages": {name: {"version": version, "held": True} for name, version in packages.items()},
        "driver": {"loaded": "580.178.04", "library": "580.178.04", "packages": {}},
        "kernel": {**same, **(kernel or {})},
        "swap": [],
    }


def seen(reading: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    gpu = {
        "uuid": UUID,
        "index": 0,
        "name": "Tesla T4",
        "healthy": True,
        "problems": [],
        "mig": {"devices": []},
        "memory_total_mib": 15360,
    }
    return {
        "node": "gpu1",
        "roles": ["worker"],
        "pins": PINS,
        "reading": {
            **installed(),
            "nvidia_smi": {"state": "ok", "driver_version": "580.178.04", "gpus": [gpu], "topology": None},
            "certificates": {},
            **(reading or {}),
        },
        **more,
    }


def whats(report: dict[str, Any]) -> list[str]:
    return [each["what"] for each in report["actions"]]


def certificate(name: str, days: int | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "expires": "2027-01-01T00:00:00Z", "days_left": days, "missing": days is None, **more}


def test_healthy_host_adds_its_state_and_no_actions() -> None:
    report = state(proof(), {"gpu1": seen()}, SETTINGS)
    entry = report["hosts"]["gpu1"]
    assert report["actions"] == [] and entry["reachable"] is True
    assert entry["devices"][0] | {"healthy": True, "memory_total_mib": 15360, "pod": "gpu-0"} == entry["devices"][0]
    assert [row["drift"] for row in entry["versions"]] == [False, False, False]
    assert report["observed"] == "2026-11-22T02:00:00Z"


@pytest.mark.parametrize("health", [{}, {"healthy": False, "problems": ["GPU is lost"]}], ids=["healthy", "unhealthy"])
def test_mig_device_has_the_health_of_its_gpu(health: dict[str, Any]) -> None:
    report, said = proof(), seen()
    report["hosts"]["gpu1"]["devices"] = [{"uuid": "MIG-1", "state": "proven"}, {"uuid": "MIG-2", "state": "proven"}]
    said["reading"]["nvidia_smi"]["gpus"][0] |= {"mig": {"devices": [{"uuid": "MIG-1"}]}, **health}
    mine, gone = state(report, {"gpu1": said}, SETTINGS)["hosts"]["gpu1"]["devices"]
    assert (mine["index"], mine["healthy"], mine["health"]) == (0, not health, health.get("problems", []))
    assert (gone["healthy"], gone["health"]) == (False, ["nvidia-smi does not list it"])


@pytest.mark.parametrize(
    ("versions", "wanted"), [(["570.1.02", "580.178.04"], "580.178.04"), (["570.1.02"], "a version in the table")]
)
def test_automatic_version_accepts_an_installed_version_in_the_table(versions: list[str], wanted: str) -> None:
    pins = {**PINS, "packages": {}, "driver": "auto", "pool": "", "versions": versions}
    row = state(proof(), {"gpu1": seen(pins=pins)}, SETTINGS)["hosts"]["gpu1"]["versions"][0]
    assert (row["component"], row["wanted"]) == ("NVIDIA driver", wanted)
    assert row["drift"] == (wanted == "a version in the table")


def test_results_of_the_verification_are_not_changed() -> None:
    """Programs read the report, so keys may be added, but not changed."""
    before, after = proof(), state(proof(), {"gpu1": seen()}, SETTINGS)
    for key in ("totals", "problems"):
        assert after[key] == before[key]
    device = before["hosts"]["gpu1"]["devices"][0]
    assert {key: after["hosts"]["gpu1"]["devices"][0][key] for key in device} == device


def test_unreachable_host_keeps_its_state_under_its_node_name() -> None:
    earlier = state(proof(), {"host-a": seen()}, SETTINGS)
    report = state(earlier, {"host-a": {"failure": "no route to host"}}, SETTINGS)
    assert list(report["hosts"]) == ["gpu1"]
    assert report["hosts"]["gpu1"]["reachable"] is False
    assert report["hosts"]["gpu1"]["devices"][0]["state"] == "proven"
    assert whats(report) == ["no route to host"]
    assert "ansible host-a -m ping" in report["actions"][0]["do"]


def test_actions_are_sorted_by_severity() -> None:
    ill = seen(installed(kubelet="1.35.8-1.1"))
    ill["reading"]["nvidia_smi"]["gpus"][0] |= {"healthy": False, "problems": ["GPU is lost"]}
    certificates = [certificate("apiserver", 12), certificate("admin.conf", -3), certificate("etcd", 90)]
    cp1 = seen({"nvidia_smi": {}, "certificates": {"certificates": certificates}}, node="cp1", pins={})
    report = proof()
    report["problems"] = [{"host": "gpu1", "gpu": UUID, "cause": "0 of 1 GPUs are allocatable (capacity 1)"}]
    found = state(report, {"gpu1": ill, "cp1": cp1, "gpu2": {"failure": "gone"}}, SETTINGS | {"api_failure": "refused"})
    assert whats(found) == [
        "certificate admin.conf has expired",
        "gone",
        "the API could not be read: refused",
        "GPU 0 is unhealthy: GPU is lost",
        "0 of 1 GPUs are allocatable (capacity 1)",
        "containerd.io: expected 2.3.6, found nothing",
        "kubelet: expected 1.36.4-1.1, found 1.35.8-1.1",
        "certificate apiserver expires in 12 days",
    ]
    assert all(each["do"] for each in found["actions"])


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        ({"newest_has_driver": False, "newest_has_headers": False}, "Install linux-headers-6.2"),
        ({"newest_has_driver": False, "newest_has_headers": True}, "dkms autoinstall -k 6.2"),
        ({"newest_has_driver": True, "newest_has_headers": True}, ""),
        ({"newest_has_driver": False, "newest": "6.1"}, ""),
    ],
)
def test_next_kernel_without_a_driver_is_an_action(kernel: dict[str, Any], advice: str) -> None:
    found = state(proof(), {"gpu1": seen(installed({"newest": "6.2", **kernel}))}, SETTINGS)
    told = [action["do"] for action in found["actions"] if "kernel of the next boot" in action["what"]]
    assert len(told) == bool(advice) and all(advice in each for each in told)


def test_gpus_with_xids_and_isolated_nodes_are_actions() -> None:
    ill = seen()
    ill["reading"]["nvidia_smi"]["gpus"][0] |= {
        "healthy": False,
        "problems": ["Xid 79: off the bus"],
        "advice": ["Reboot the host."],
    }
    ill["reading"]["nvidia_smi"]["xids"] = [{"xid": 79, "severity": "critical", "count": 1, "pid": 5}]
    report = proof()
    report["hosts"]["gpu1"]["isolated"] = {"reason": "GPU 0: Xid 79", "since": "2026-11-22T01:00:00Z"}
    found = state(report, {"host-a": ill}, SETTINGS)
    first, second = found["actions"]
    assert (first["kind"], first["severity"]) == ("unhealthy", "error")
    assert first["do"].startswith("Reboot the host. Then verify it")
    assert (second["kind"], second["what"]) == (
        "isolated",
        "no new GPU pods since 2026-11-22T01:00:00Z: GPU 0: Xid 79",
    )
    assert second["do"].endswith("-e gpu_isolation_state=returned --limit host-a")
    entry = found["hosts"]["gpu1"]
    assert [(each["xid"], "pid" in each) for each in entry["xids"]] == [(79, False)]
    assert entry["devices"][0]["advice"] == ["Reboot the host."]


def test_unreadable_kernel_log_is_an_action() -> None:
    blind = seen()
    blind["reading"]["nvidia_smi"] |= {"xids": None, "xids_failure": "dmesg: Operation not permitted"}
    found = state(proof(), {"gpu1": blind}, SETTINGS)
    assert whats(found) == ["the kernel log could not be read: dmesg: Operation not permitted"]
    assert found["hosts"]["gpu1"]["xids"] == []


def test_api_failure_is_reported_once_in_repeated_runs() -> None:
    first = state(proof(), {}, SETTINGS | {"api_failure": "refused"})
    again = state(first, {}, SETTINGS | {"api_failure": "timed out"})
    assert whats(again) == ["the API could not be read: timed out"]
    assert whats(state(again, {}, SETTINGS)) == []


def test_gpus_with_the_same_problem_share_one_action() -> None:
    report = proof()
    report["problems"] = [{"host": "gpu1", "gpu": f"GPU-{n}", "cause": "no pod was given this GPU"} for n in range(8)]
    found = state(report, {"gpu1": seen()}, SETTINGS)
    assert len(found["actions"]) == 1 and "GPU-7" in found["actions"][0]["gpu"]


def test_missing_gpus_of_a_host_are_one_warning() -> None:
    report = proof()
    told = {"kind": "gpu_fewer", "host": "gpu1", "cause": "2 GPUs fewer", "do": "Check it.", "where": "", "why": ""}
    report["warnings"] = [{**told, "gpu": f"GPU-{n}"} for n in range(2)]
    [action] = state(report, {"gpu1": seen()}, SETTINGS)["actions"]
    assert (action["severity"], action["problem"], action["host"]) == ("warning", "gpu_fewer", "gpu1")
    assert (action["gpu"], action["what"], action["do"]) == ("GPU-0, GPU-1", "2 GPUs fewer", "Check it.")


def test_new_gpu_is_unverified_and_missing_gpu_is_unhealthy() -> None:
    host = seen()
    host["reading"]["nvidia_smi"]["gpus"] = [
        {"uuid": "GPU-new", "index": 0, "name": "Tesla T4", "healthy": True, "problems": []}
    ]
    found = state(proof(), {"gpu1": host}, SETTINGS)
    devices = found["hosts"]["gpu1"]["devices"]
    assert [(each["state"], each["healthy"]) for each in devices] == [("proven", False), ("unproven", True)]
    assert whats(found) == [f"GPU {UUID} is unhealthy: nvidia-smi does not list it", "no verification covers GPU 0"]


def test_gpus_are_unhealthy_if_the_driver_lists_none() -> None:
    host = seen()
    host["reading"]["nvidia_smi"] |= {"state": "driver_not_loaded", "gpus": []}
    assert state(proof(), {"gpu1": host}, SETTINGS)["hosts"]["gpu1"]["devices"][0]["healthy"] is False


def test_expiring_apt_keys_are_listed_with_certificates() -> None:
    keys = [
        {"name": "gpulab-kubernetes", "expires": "2026-12-29T20:32:12Z", "days_left": 20},
        {"name": "gpulab-containerd", "expires": "2026-11-20T00:00:00Z", "days_left": -2},
        {"name": "gpulab-nvidia-driver", "expires": "2027-01-20T00:00:00Z", "days_left": 59},
    ]
    found = state(proof(), {"gpu1": seen({"certificates": {"certificates": []}, "apt_keys": keys})}, SETTINGS)
    assert whats(found) == [
        "the key of the apt source gpulab-containerd has expired",
        "the key of the apt source gpulab-kubernetes expires in 20 days",
    ]
    assert [each["severity"] for each in found["actions"]] == ["error", "warning"]
    assert "ansible-playbook gpulab.kubernetes.site -i INVENTORY" in found["actions"][0]["do"]
    assert len(found["hosts"]["gpu1"]["certificates"]) == 3


def test_expiring_key_of_several_hosts_is_one_action() -> None:
    ending = {"name": "gpulab-kubernetes", "expires": "2026-12-29T20:32:12Z", "apt_key": True}
    hosts = {
        f"gpu{number}": {"certificates": [{**ending, "days_left": days}]}
        for number, days in enumerate((20, 20, -1, 31))
    }
    found = [each.fields() for each in actions({"problems": [], "hosts": hosts}, 30)]
    assert [(each["what"], each["host"], each["severity"]) for each in found] == [
        ("the key of the apt source gpulab-kubernetes expires in 20 days (on 2 hosts)", "", "warning"),
        ("the key of the apt source gpulab-kubernetes has expired", "gpu2", "error"),
    ]


def test_files_moved_aside_are_the_last_action_with_their_removal() -> None:
    stamps = ["20261120T210001.000000Z", "20261121T000000.000000Z; reboot", "../../home", "", 7]
    keys = [{"name": "gpulab-kubernetes", "expires": "2026-12-29T20:32:12Z", "days_left": 20}]
    found = state(proof(), {"gpu1": seen({"moved_aside": stamps, "apt_keys": keys})}, SETTINGS)
    place = "/var/lib/gpulab/aside-20261120T210001.000000Z"
    assert whats(found)[1:] == [
        f"files of an earlier attempt to form a cluster, perhaps with CA keys, are in {place} since 2026-11-20"
    ]
    last = found["actions"][-1]
    assert (last["severity"], last["problem"], last["host"]) == ("warning", "files_moved_aside", "gpu1")
    assert last["do"] == f"If no one needs them, remove them on gpu1: sudo rm -r {place}"


def test_deferred_change_is_reported_with_its_users_and_start_time() -> None:
    entry = {
        "since": "2026-11-27T10:00:00Z",
        "change": "a restart",
        "users": ["team/train"],
        "pending": "containerd: x",
    }
    found = state(proof(), {"gpu1": seen({"deferred": json.dumps({"disruption": entry})})}, SETTINGS)
    (action,) = [each for each in found["actions"] if each["problem"] == "change_deferred"]
    assert (action["severity"], action["host"]) == ("warning", "gpu1")
    assert action["what"] == (
        "a restart has been deferred since 2026-11-27T10:00:00Z (pending: containerd: x), blocked by team/train"
    )
    labels = 'node="gpu1",change="a restart",pending="containerd: x",users="team/train"'
    (line,) = [line for line in metrics(found).splitlines() if line.startswith("gpulab_node_deferred_timestamp")]
    assert labels in line and line.endswith(" 1795773600")
    hostile = state(proof(), {"gpu1": seen({"deferred": '{"disruption": {"users": ["\x1b[2J"]}}'})}, SETTINGS)
    assert hostile["hosts"]["gpu1"]["deferred"] == []


@pytest.mark.parametrize(
    ("kubelet", "cluster", "behind"),
    [
        ("v1.36.5", "v1.37.2", 1),
        ("v1.35.8", "v1.37.2", 2),
        ("v1.37.1", "v1.37.2", 0),
        ("v1.37.2", "v1.37.2", 0),
        ("v1.38.0", "v1.37.2", 0),
        ("", "v1.37.2", None),
        ("v1.37.2", "", None),
        ("1.37\x1b[2J", "v1.37.2", None),
    ],
)
def test_a_kubelet_behind_the_cluster_is_reported(kubelet: str, cluster: str, behind: int | None) -> None:
    proven = proof()
    proven["hosts"]["gpu1"]["kubelet"] = kubelet
    found = state({**proven, "cluster": {"kubernetes_version": cluster}}, {"gpu1": seen({})}, SETTINGS)
    told = [each["what"] for each in found["actions"] if each["problem"] == "kubelet_behind"]
    text = f"its kubelet ({kubelet[1:]}) is {behind} minor{'s' * (behind != 1)} behind the cluster ({cluster[1:]})"
    assert told == ([text] if behind else [])
    samples = [line for line in metrics(found).splitlines() if line.startswith("gpulab_kubelet_minors_behind{")]
    assert [line.rpartition(" ")[2] for line in samples] == ([] if behind is None else [str(behind)])
    gone = state({**proven, "cluster": {"kubernetes_version": cluster}}, {"gpu1": {"failure": "off"}}, SETTINGS)
    assert "kubelet_behind" not in [each["problem"] for each in gone["actions"]]
    assert "gpulab_kubelet_minors_behind" not in metrics(gone)


@pytest.mark.parametrize(
    ("days", "what", "do"),
    [
        (
            {"admin.conf": 3},
            "certificate admin.conf expires in 3 days",
            "give it to everyone who has a copy of the old",
        ),
        (
            {"apiserver": 3},
            "certificate apiserver expires in 3 days",
            "gpulab.kubernetes.renew_certificates -i INVENTORY",
        ),
        (
            {"apiserver": -2, "front-proxy-client": -3},
            "certificates apiserver, front-proxy-client have expired",
            "gpulab.kubernetes.renew_certificates -i INVENTORY.",
        ),
    ],
)
def test_renewal_of_certificates_names_the_playbook(days: dict[str, int], what: str, do: str) -> None:
    found = [certificate(name, each) for name, each in days.items()]
    report = state(proof(), {"cp1": seen({"certificates": {"certificates": found}}, node="cp1")}, SETTINGS)
    (action,) = (each for each in report["actions"] if each["host"] == "cp1" and "certificate" in each["problem"])
    assert action["what"] == what and do in action["do"]
    assert ("kubeconfig" in action["do"]) is ("admin.conf" in days)


@pytest.mark.parametrize("days, warns", [(364, True), (365, False)])
def test_a_ca_is_named_a_year_ahead(days: int, warns: bool) -> None:
    found = {"certificates": [certificate("apiserver", 100)], "certificate_authorities": [certificate("ca", days)]}
    report = state(proof(), {"cp1": seen({"certificates": found}, node="cp1")}, SETTINGS)
    told = [each["what"] for each in report["actions"] if "certificate" in each["problem"]]
    assert told == ([f"certificate ca expires in {days} days"] if warns else [])


def test_missing_certificates_are_accepted_and_unreadable_ones_reported() -> None:
    host = seen(
        {"certificates": {"certificates": [certificate("super-admin.conf", None)], "certificate_authorities": []}}
    )
    assert state(proof(), {"gpu1": host}, SETTINGS)["hosts"]["gpu1"]["certificates"] == []
    found = state(proof(), {"gpu1": seen({"certificates": {"msg": "kubeadm is not there"}})}, SETTINGS)
    assert whats(found) == ["the certificates could not be read: kubeadm is not there"]


def test_phases_are_in_the_order_of_the_run() -> None:
    phases = {"second": 110.0, "first": 100.0}
    assert state(proof(), {}, SETTINGS | {"phases": phases})["phases"] == [
        {"name": "first", "seconds": 10.0},
        {"name": "second", "seconds": 50.5},
    ]
    earlier = [{"name": "x", "seconds": 1.0}]
    assert state(proof(), {}, SETTINGS | {"earlier_phases": earlier})["phases"] == earlier


@given(st.dictionaries(st.text(max_size=5), st.floats(0, 2e9), max_size=6), st.floats(0, 2e9))
def test_phases_are_never_negative_and_add_up(starts: dict[str, float], length: float) -> None:
    end = max(starts.values(), default=0) + length
    phases = state(proof(), {}, {"phases": starts, "now": end})["phases"]
    assert all(phase["seconds"] >= 0 for phase in phases)
    whole = end - min(starts.values()) if starts else 0
    assert sum(phase["seconds"] for phase in phases) == pytest.approx(whole, abs=0.1 * len(phases) + 1e-6)


@pytest.mark.parametrize(
    ("wanted", "found", "fits"),
    [
        ("2.3.6", "2.3.6-1~debian.12~bookworm", True),
        ("1.36.4-1.1", "1.36.4-1.1", True),
        ("1.20.1", "1:1.20.1-1", True),
        ("v0.19.0", "0.19.0", True),
        ("2.3.6", "2.3.60-1", False),
        ("2.3.6", "2.3.6.1-1", False),
        ("2.3.6", "", False),
        ("1.36.4-1.1", "1.36.4-1.10", False),
    ],
)
def test_version_matches_with_or_without_packaging_suffix(wanted: str, found: str, fits: bool) -> None:
    assert version_fits(wanted, found) is fits


@given(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}", fullmatch=True))
def test_version_matches_itself_and_its_packages(version: str) -> None:
    assert version_fits(version, version)
    assert version_fits(version, f"2:{version}-1ubuntu1")
    assert not version_fits(version, f"{version}0")


HISTORY = {"time": "2026-11-21T04:00:00Z", "gpus": 1, "proven": 0, "in_use": 0, "errors": 1, "warnings": 0}


def test_report_names_its_cluster_and_origin() -> None:
    run = {"inventory_sources": ["/srv/research.ini"], "controller": "admin@ws", "options": "-i research.ini -K"}
    found = state(proof(), {}, SETTINGS | run)
    assert found["cluster"]["name"] == "research"
    version = yaml.safe_load((Path(__file__).resolve().parents[4] / "galaxy.yml").read_text())["version"]
    assert found["origin"] == {
        "collection": version,
        "controller": "admin@ws",
        "inventory": "research.ini",
        "options": "-i research.ini -K",
    }
    # The API doesn't have the name, so a report without an inventory keeps the previous name.
    assert state(found, {}, SETTINGS)["cluster"]["name"] == "research"


@pytest.mark.parametrize(
    ("given", "sources", "name"),
    [
        ("", ["/srv/lab.ini", "/srv/more.ini"], "lab"),
        ("", ["/srv/inventories/prod/hosts.yml"], "prod"),
        ("", ["/srv/inventories/prod"], "prod"),
        ("", ["/runner/inventory/hosts"], ""),
        ("West", ["/runner/inventory/hosts"], "West"),
        ("", ["gpu1,gpu2,"], ""),
        ("", [], ""),
    ],
)
def test_cluster_is_named_after_its_inventory(given: str, sources: list[str], name: str) -> None:
    assert cluster_name(given, sources) == name


def test_history_lists_the_last_ten_runs_newest_first() -> None:
    host = seen()
    host["reading"]["nvidia_smi"]["gpus"][0] |= {"healthy": False, "problems": ["GPU is lost"]}
    first = state(proof(), {"gpu1": host}, SETTINGS)
    # As in the title of that run, unhealthy GPUs don't count as verified.
    latest = {"time": "2026-11-22T02:00:00Z", "gpus": 1, "proven": 0, "in_use": 0, "errors": 1, "warnings": 0}
    assert first["history"] == [latest]
    report = first
    for _run in range(20):
        report = state(proof(), {"gpu1": seen()}, SETTINGS | {"earlier": json.dumps(report)})
    assert len(report["history"]) == 10
    assert report["history"][0]["errors"] == 0


@pytest.mark.parametrize(
    ("earlier", "runs"),
    [
        ({"cluster": {"endpoint": "https://a:6443"}, "history": [HISTORY]}, 2),
        ({"cluster": {"endpoint": "https://b:6443"}, "history": [HISTORY]}, 1),
        # The API didn't answer during that run.
        ({"history": [HISTORY, "x"]}, 2),
        ({"history": "x"}, 1),
        ([], 1),
    ],
)
def test_runs_of_another_cluster_are_not_in_the_history(earlier: Any, runs: int) -> None:
    report = {**proof(), "cluster": {"endpoint": "https://a:6443"}}
    assert len(state(report, {}, SETTINGS | {"earlier": json.dumps(earlier)})["history"]) == runs


@given(st.text() | st.none() | st.recursive(st.integers(), st.lists).map(json.dumps))
def test_invalid_earlier_report_is_ignored(earlier: Any) -> None:
    assert len(state(proof(), {}, SETTINGS | {"earlier": earlier})["history"]) == 1


def test_readings_are_kept_and_unknown_ones_are_null() -> None:
    host = seen()
    host["reading"]["nvidia_smi"]["gpus"][0] |= {
        "memory_used_mib": 12,
        "power_draw_w": 31.5,
        "ecc": {"uncorrected_aggregate": 3},
    }
    device = state(proof(), {"gpu1": host}, SETTINGS)["hosts"]["gpu1"]["devices"][0]
    assert (device["memory_used_mib"], device["power_draw_w"], device["ecc_uncorrected"]) == (12, 31.5, 3)
    assert device["power_limit_w"] is None


def test_invalid_input_is_one_clear_error() -> None:
    wrong: list[tuple[Any, Any, Any]] = [("x", {}, {}), (proof(), [], {}), (proof(), {}, "x")]
    for arguments in wrong:
        with pytest.raises(AnsibleFilterError, match="Error while"):
            state(*arguments)


BACKUP = {
    "hours": 1,
    "taken": "2026-11-28T12:00:00Z",
    "archive": "/var/lib/gpulab/backups/x.tar",
    "size": 5,
    "revision": 42,
    "recipients": ["age1x"],
    "places": [{"place": "nas:gpulab", "failure": ""}],
    "step": "",
    "error": "",
}


@pytest.mark.parametrize(
    ("changes", "kinds", "what"),
    [
        ({}, [], ""),
        ({"hours": 24}, [], ""),
        ({"hours": 25}, ["backup_old"], "of 2026-11-28T12:00:00Z, and none was taken for 25 hours"),
        ({"hours": 25, "taken": ""}, ["backup_old"], "there is no backup yet, and none was taken for 25 hours"),
        ({"error": "no space", "step": "space"}, ["backup_failed"], "the last backup failed (space): no space"),
        ({"error": "x", "hours": 99}, ["backup_failed", "backup_old"], "the last backup failed: x"),
    ],
)
def test_a_backup_that_failed_or_is_old_is_a_warning(changes: dict[str, Any], kinds: list[str], what: str) -> None:
    found = state(proof(), {"gpu1": seen({"backup": {**BACKUP, **changes}})}, SETTINGS)
    warned = [each for each in found["actions"] if each["kind"] == "backup"]
    assert sorted(each["problem"] for each in warned) == kinds
    assert all(each["severity"] == "warning" and "gpulab.kubernetes.backup" in each["do"] for each in warned)
    assert not kinds or any(what in each["what"] for each in warned)


def test_only_known_fields_of_a_backup_are_in_the_report() -> None:
    strange = {**BACKUP, "more": 1, "hours": "x", "error": ["a"], "places": [{"place": "p", "key": "secret"}, 7]}
    found = state(proof(), {"gpu1": seen({"backup": strange})}, SETTINGS)["hosts"]["gpu1"]["backup"]
    assert found == {**BACKUP, "hours": 0, "places": [{"place": "p", "failure": ""}]}
    assert state(proof(), {"gpu1": seen({})}, SETTINGS)["hosts"]["gpu1"]["backup"] == {}
