# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fake_host import FakeHost
from first_run_record import recorded

DEVICES = ["0", "1", "GPU-a", "GPU-b", "all"]
SHOW = "LoadState=loaded\\nActiveState={0}\\nUnitFileState={1}\\nInvocationID=\\nNeedDaemonReload=no\\n"


class Host(FakeHost):  # type: ignore[misc]
    """A host whose nvidia-ctk lists the content of the file; starting the service writes ``after`` into it."""

    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        super().__init__(root, programs, run)
        (root / "tools").mkdir(parents=True)
        for tool in ("grep", "cp"):
            (root / "tools" / tool).symlink_to(shutil.which(tool) or "")
        self.spec = root / "nvidia.yaml"
        self.after = root / "after"
        programs.add("nvidia-ctk", f"[ ! -f {self.spec} ] || grep -o 'nvidia.com/gpu=[^ ]*' {self.spec}; exit 0")
        programs.add("journalctl", "echo 'Failed to initialize NVML: GPU is lost'")
        self.systemctl()

    def systemctl(self, active: str = "active", enabled: str = "enabled", start: str = "") -> None:
        start = start or f"[ ! -f {self.after} ] || cp {self.after} {self.spec}"
        self.programs.add(
            "systemctl",
            f"""case "$1 $(eval echo \\${{$#}})" in
"show "*.path) printf '{SHOW.format(active, enabled)}' ;;
"show "*) printf '{SHOW.format("inactive", enabled)}' ;;
"start "*.service) echo "$*" >> {self.root}/log; {start} ;;
*) echo "$*" >> {self.root}/log ;;
esac""",
        )

    def write(self, path: Path, devices: list[str], driver: str = "580.178.04") -> None:
        lines = [f"nvidia.com/gpu={name}" for name in devices]
        path.write_text("\n".join([*lines, f"libnvidia-ml.so.{driver}", ""]))

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        args = {"count": 2, "driver_version": "580.178.04", "path": str(self.spec), "timeout": 2, **options}
        # Without the machine's own PATH, which may contain a real nvidia-ctk.
        path = f"{self.programs.directory}:{self.root}/tools"
        result: dict[str, Any] = self._run("nvidia_cdi_spec", args, check=check, path=path)
        return result


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path / "host", programs, run_module)


def test_a_complete_specification_is_not_changed(host: Host) -> None:
    host.write(host.spec, DEVICES)
    result = host.run()
    assert not result["changed"] and result["devices"] == DEVICES and host.log == []


def test_a_missing_specification_is_generated(host: Host) -> None:
    host.write(host.after, DEVICES)
    assert host.run(check=True)["changed"] and host.log == []
    result = host.run()
    assert result["changed"] and result["devices"] == DEVICES
    assert host.log == ["reset-failed nvidia-cdi-refresh.service", "start nvidia-cdi-refresh.service"]


def test_the_specification_of_an_older_driver_is_generated_again(host: Host) -> None:
    host.write(host.spec, DEVICES, driver="570.10")
    host.write(host.after, DEVICES)
    assert host.run()["changed"]
    assert "580.178.04" in host.spec.read_text()


def test_a_specification_with_missing_device_nodes_is_generated_again(host: Host) -> None:
    host.write(host.after, DEVICES)
    for form in ("- path: {}", '  path: "{}"'):
        host.write(host.spec, [*DEVICES, f"\n{form.format('/dev/null')}"])
        assert not host.run()["changed"]
        host.write(host.spec, [*DEVICES, f"\n{form.format('/dev/nvidia-that-is-gone')}"])
        assert host.run(check=True)["changed"]
        assert host.run()["changed"]
        assert not host.run()["changed"]


def test_mig_devices_count_as_their_gpu(host: Host) -> None:
    host.write(host.spec, ["0", "1:0", "1:1", "GPU-a", "MIG-b", "all"])
    assert not host.run(uuids=["GPU-a", "GPU-b"])["changed"]


def test_a_lost_gpu_is_named_with_the_journal(host: Host) -> None:
    host.write(host.spec, ["0", "GPU-a", "all"])
    result = host.run()
    assert result["failed"] and "1 of 2 GPUs" in result["msg"] and "GPU is lost" in result["msg"]


def test_a_failing_service_is_reported_with_the_reason(host: Host) -> None:
    host.systemctl(start="echo 'Job failed' >&2; exit 1")
    result = host.run()
    assert result["failed"] and "Job failed" in result["msg"]
    assert (result["cmd"], result["rc"]) == ("systemctl start nvidia-cdi-refresh.service", 1)


def test_the_units_stay_enabled(host: Host) -> None:
    host.write(host.spec, DEVICES)
    host.systemctl(active="inactive", enabled="disabled")
    result = host.run()
    assert result["actions"] == [
        "enable nvidia-cdi-refresh.service",
        "enable nvidia-cdi-refresh.path",
        "start nvidia-cdi-refresh.path",
    ]
    disabled = {"enabled": "disabled", "active": "inactive"}
    units = ("nvidia-cdi-refresh.service", "nvidia-cdi-refresh.path")
    assert recorded(host.root.parent) == dict.fromkeys(units, disabled)


def test_without_the_toolkit_check_mode_predicts_nothing_and_a_run_fails(host: Host) -> None:
    (host.programs.directory / "nvidia-ctk").unlink()
    assert not host.run(check=True)["changed"]
    result = host.run()
    assert result["failed"] and "nvidia-ctk" in result["msg"]
