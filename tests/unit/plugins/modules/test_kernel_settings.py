# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from first_run_record import recorded

FORWARD = "net.ipv4.ip_forward"
BRIDGE = "net.bridge.bridge-nf-call-iptables"
WANTED: dict[str, Any] = {"modules": ["overlay", "br_netfilter"], "sysctls": {FORWARD: 1, BRIDGE: True}}
MODULES_FILE = "etc/modules-load.d/gpulab.conf"
SYSCTL_FILE = "etc/sysctl.d/95-gpulab.conf"

# Loads a module as the kernel shows it; br_netfilter creates its settings.
MODPROBE = """
[ "$1" = --dry-run ] && dry=1 && shift 2
case "$1" in
  br_netfilter|overlay) ;;
  *) echo "modprobe: FATAL: Module $1 not found in directory /lib/modules/x" >&2; exit 1;;
esac
echo "insmod /lib/modules/x/$1.ko"
[ -n "$dry" ] && exit 0
echo "$1 1 0 - Live 0x0" >> {root}/proc/modules
[ "$1" = br_netfilter ] || exit 0
mkdir -p {root}/proc/sys/net/bridge
echo 0 > {root}/proc/sys/net/bridge/bridge-nf-call-iptables
"""


@pytest.fixture
def root(tmp_path: Path, programs: Any) -> Path:
    root = tmp_path / "root"
    (root / "proc/sys/net/ipv4").mkdir(parents=True)
    (root / "proc/sys/net/ipv4/ip_forward").write_text("0\n")
    (root / "proc/modules").write_text("")
    (root / "lib/modules" / os.uname().release).mkdir(parents=True)
    programs.add("modprobe", MODPROBE.replace("{root}", str(root)))
    return root


def files(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_modules_and_sysctls_are_set_on_a_bare_host(run_module: Any, root: Path) -> None:
    result = run_module("kernel_settings", {**WANTED, "root": str(root)})
    assert result["changed"]
    assert result["modules_loaded"] == ["overlay", "br_netfilter"]
    assert result["sysctls_set"] == {FORWARD: "1", BRIDGE: "1"}
    found = files(root)
    assert found["proc/sys/net/ipv4/ip_forward"].strip() == "1"
    assert found["proc/sys/net/bridge/bridge-nf-call-iptables"].strip() == "1"
    assert found[MODULES_FILE].splitlines()[1:] == ["overlay", "br_netfilter"]
    assert found[SYSCTL_FILE].splitlines()[1:] == [f"{BRIDGE} = 1", f"{FORWARD} = 1"]
    assert (root / SYSCTL_FILE).stat().st_mode & 0o777 == 0o644
    before = {"net/ipv4/ip_forward": {"value": "0"}, "net/bridge/bridge-nf-call-iptables": {"value": "0"}}
    assert recorded(root) == {f"/{MODULES_FILE}": None, f"/{SYSCTL_FILE}": None, **before}


def test_what_kubernetes_sets_is_recorded_before_the_first_change(run_module: Any, root: Path) -> None:
    (root / "proc/sys/vm").mkdir()
    panic = root / "proc/sys/vm/panic_on_oom"
    panic.write_text("1\n")
    asked = {**WANTED, "recorded": ["vm.panic_on_oom", "net.netfilter.nf_conntrack_max"], "root": str(root)}
    run_module("kernel_settings", asked, check=True)
    assert recorded(root) == {}
    for value in ("1\n", "0\n"):
        # The second run finds what the kubelet has set.
        panic.write_text(value)
        run_module("kernel_settings", asked)
    found = recorded(root)
    assert found["vm/panic_on_oom"] == {"value": "1"}
    assert found["net/netfilter/nf_conntrack_max"] is None


def test_a_host_of_an_earlier_version_has_no_former_values(run_module: Any, root: Path) -> None:
    (root / SYSCTL_FILE).parent.mkdir(parents=True)
    (root / SYSCTL_FILE).write_text("# gpulab.kubernetes\n")
    run_module("kernel_settings", {**WANTED, "root": str(root)})
    assert set(recorded(root)) == {f"/{MODULES_FILE}", f"/{SYSCTL_FILE}"}


def test_a_second_run_changes_nothing(run_module: Any, root: Path) -> None:
    run_module("kernel_settings", {**WANTED, "root": str(root)})
    before = files(root)
    result = run_module("kernel_settings", {**WANTED, "root": str(root)})
    assert (result["changed"], result["modules_loaded"], result["sysctls_set"], result["diff"]) == (False, [], {}, [])
    assert files(root) == before


def test_check_mode_predicts_the_result_of_a_run(run_module: Any, root: Path) -> None:
    before = files(root)
    predicted = run_module("kernel_settings", {**WANTED, "root": str(root)}, check=True)
    assert files(root) == before
    done = run_module("kernel_settings", {**WANTED, "root": str(root)})
    for key in ("changed", "modules_loaded", "sysctls_set"):
        assert predicted[key] == done[key]
    headers = [entry["after_header"] for entry in done["diff"]]
    assert [entry["after_header"] for entry in predicted["diff"]] == headers
    assert not run_module("kernel_settings", {**WANTED, "root": str(root)}, check=True)["changed"]


@pytest.mark.parametrize("trace", ["sys/module/br_netfilter", "proc/sys/net/bridge"])
def test_builtin_modules_are_not_loaded(trace: str, run_module: Any, root: Path) -> None:
    path = root / "lib/modules" / os.uname().release / "modules.builtin"
    path.write_text("kernel/fs/overlayfs/overlay.ko\n")
    shutil.rmtree(root / "sys/module/br_netfilter", ignore_errors=True)
    shutil.rmtree(root / "proc/sys/net/bridge", ignore_errors=True)
    (root / trace).mkdir(parents=True)
    result = run_module("kernel_settings", {"modules": ["overlay", "br-netfilter"], "root": str(root)})
    assert result["modules_loaded"] == []
    assert result["changed"], "the file for the next boot is new"
    assert SYSCTL_FILE not in files(root)


def test_an_alias_of_a_builtin_module_is_not_a_change(run_module: Any, root: Path, programs: Any) -> None:
    programs.add("modprobe", "exit 0")
    result = run_module("kernel_settings", {"modules": ["ip_conntrack"], "root": str(root)})
    assert result["modules_loaded"] == []


def test_an_unknown_module_is_an_error(run_module: Any, root: Path) -> None:
    result = run_module("kernel_settings", {"modules": ["no_such"], "root": str(root)})
    assert result["failed"]
    assert result["msg"].startswith(
        "Error while loading the kernel module no_such: modprobe: FATAL: Module no_such not"
    )
    assert result["rc"] == 1
    assert MODULES_FILE not in files(root)
    assert run_module("kernel_settings", {"modules": ["no_such"], "root": str(root)}, check=True)["failed"]


def test_a_kernel_without_its_modules_requires_a_reboot(run_module: Any, root: Path) -> None:
    (root / "lib/modules" / os.uname().release).rmdir()
    result = run_module("kernel_settings", {"modules": ["no_such"], "root": str(root)})
    assert "reboot" in result["msg"]


@pytest.mark.parametrize("check", [False, True])
def test_an_unknown_setting_is_named_and_nothing_is_written(run_module: Any, root: Path, check: bool) -> None:
    args = {"sysctls": {"net.ipv4.no_such": 1, FORWARD: 1}, "root": str(root)}
    result = run_module("kernel_settings", args, check=check)
    assert result["failed"]
    assert "net.ipv4.no_such: this kernel has no such setting" in result["msg"]
    assert FORWARD not in result["msg"]
    assert SYSCTL_FILE not in files(root)


def test_a_refused_value_is_reported_with_the_kernels_error(run_module: Any, root: Path) -> None:
    # A directory in place of the setting refuses the write even for root.
    (root / "proc/sys/net/ipv4/odd").mkdir()
    result = run_module("kernel_settings", {"sysctls": {"net.ipv4.odd": 1}, "root": str(root)})
    assert result["failed"]
    assert "net.ipv4.odd: the kernel rejects '1': Is a directory" in result["msg"]


def test_a_later_file_that_takes_precedence_is_a_warning(run_module: Any, root: Path) -> None:
    other = root / "etc/sysctl.d/99-hardening.conf"
    other.parent.mkdir(parents=True)
    other.write_text(f"{FORWARD}=0\n")
    result = run_module("kernel_settings", {"sysctls": {FORWARD: 1}, "root": str(root)})
    assert result["overridden"] == [{"key": FORWARD, "value": "0", "file": str(other)}]
    assert "99-hardening.conf" in str(result["warnings"])


def test_the_file_names_can_be_changed(run_module: Any, root: Path) -> None:
    args = {**WANTED, "modules_file": "/etc/modules-load.d/k.conf", "sysctl_file": "/etc/sysctl.d/9.conf"}
    run_module("kernel_settings", {**args, "root": str(root)})
    assert (root / "etc/modules-load.d/k.conf").exists()
    assert (root / "etc/sysctl.d/9.conf").exists()


INSTANCES, WATCHES = "fs.inotify.max_user_instances", "fs.inotify.max_user_watches"


@pytest.mark.parametrize(
    ("current", "sysctls", "written", "kept"),
    [
        # The kernel's defaults.
        ((128, 8192), {}, ("8192", "524288"), {INSTANCES: "8192", WATCHES: "524288"}),
        # A sufficient limit is not changed.
        ((8192, 524288), {}, ("8192", "524288"), {}),
        ((128, 1048576), {}, ("8192", "1048576"), {INSTANCES: "8192"}),
        # The administrator's values take precedence, even if they are lower.
        ((128, 1048576), {INSTANCES: 512}, ("512", "1048576"), {INSTANCES: "512"}),
        ((None, None), {}, (None, None), {}),
        ((128, 8192), None, ("8192", "524288"), {INSTANCES: "8192", WATCHES: "524288"}),
    ],
)
def test_parameters_are_raised_and_never_lowered(
    run_module: Any,
    root: Path,
    current: tuple[int | None, ...],
    sysctls: dict[str, int] | None,
    written: tuple[str | None, ...],
    kept: dict[str, str],
) -> None:
    files_of = [root / "proc/sys" / key.replace(".", "/") for key in (INSTANCES, WATCHES)]
    files_of[0].parent.mkdir(parents=True)
    for path, value in zip(files_of, current):
        if value is not None:
            path.write_text(f"{value}\n")
    wanted = {"minimums": {INSTANCES: 8192, WATCHES: 524288}, "root": str(root)}
    wanted |= {} if sysctls is None else {"sysctls": sysctls}
    predicted = run_module("kernel_settings", wanted, check=True)
    result = run_module("kernel_settings", wanted)
    assert (predicted["changed"], predicted["sysctls_set"]) == (result["changed"], result["sysctls_set"])
    assert tuple(path.read_text().strip() if path.exists() else None for path in files_of) == written
    lines = (root / SYSCTL_FILE).read_text().splitlines()[1:] if kept or result["changed"] else []
    assert lines == [f"{key} = {value}" for key, value in kept.items()]
    assert not run_module("kernel_settings", wanted)["changed"]


def test_the_administrator_may_raise_a_parameter_further(run_module: Any, root: Path) -> None:
    path = root / "proc/sys/fs/inotify/max_user_instances"
    path.parent.mkdir(parents=True)
    path.write_text("128\n")
    wanted = {"sysctls": {}, "minimums": {INSTANCES: 8192}, "root": str(root)}
    run_module("kernel_settings", wanted)
    path.write_text("20000\n")
    run_module("kernel_settings", wanted)
    assert path.read_text() == "20000\n"
    assert f"{INSTANCES} = 20000" in (root / SYSCTL_FILE).read_text()


def test_a_parameter_that_cannot_be_raised_is_a_warning(run_module: Any, root: Path) -> None:
    path = root / "proc/sys/fs/inotify/max_user_instances"
    path.parent.mkdir(parents=True)
    path.write_text("unlimited\n")
    result = run_module("kernel_settings", {"sysctls": {}, "minimums": {INSTANCES: 8192}, "root": str(root)})
    assert not result["failed"] and not result["changed"]
    assert f"{INSTANCES} is lower than 8192 and can't be raised" in str(result["warnings"])
