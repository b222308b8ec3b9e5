# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment, StrictUndefined
from mig_smi import T4, Smi, a100

Run = Callable[..., dict[str, Any]]
Make = Callable[..., Smi]
ALL_SMALL = [[19, place] for place in range(7)]
SCRIPT = Path(__file__).resolve().parents[4] / "roles/gpu_sharing/templates/mig-geometry.sh.j2"


@pytest.fixture
def make(tmp_path: Path, programs: Any) -> Make:
    def made(*gpus: dict[str, Any], **more: Any) -> Smi:
        return Smi(tmp_path, programs, list(gpus), **more)

    return made


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize(
    ("layout", "parts"),
    [
        ("all-1g.5gb", [ALL_SMALL, ALL_SMALL]),
        ("3g.20gb", [[[9, 0]], [[9, 0]]]),
        (["1g.5gb", "2g.10gb", "3g.20gb"], [[[9, 0], [14, 4], [19, 6]]] * 2),
        ({"0": ["4g.20gb", "3g.20gb"]}, [[[5, 0], [9, 4]], []]),
        ({1: "all-1g.10gb"}, [[], [[15, 0], [15, 2], [15, 4], [15, 6]]]),
    ],
)
def test_gpus_are_partitioned_once(make: Make, run_module: Run, layout: Any, parts: list[Any], quiet: bool) -> None:
    smi = make(a100(), a100(), quiet=quiet)
    predicted = run_module("nvidia_mig", {"layout": layout}, check=True)
    assert (predicted["changed"], smi.changes) == (True, [])
    result = run_module("nvidia_mig", {"layout": layout})
    assert result["changed"] and result["gpus"] == predicted["gpus"]
    assert [gpu["parts"] for gpu in smi.state["gpus"]] == parts
    assert [gpu["mode"] for gpu in smi.state["gpus"]] == [bool(each) for each in parts]
    before = smi.changes
    assert not run_module("nvidia_mig", {"layout": layout})["changed"]
    assert smi.changes == before


def test_a_changed_layout_removes_the_former_partitions_first(make: Make, run_module: Run) -> None:
    smi = make(a100(True, [[9, 0]]))
    result = run_module("nvidia_mig", {"layout": "all-1g.5gb"})
    assert result["before"] == [["3g.20gb"]]
    assert smi.changes == ["mig -i 0 -dci", "mig -i 0 -dgi", f"mig -i 0 -cgi {result['gpus'][0]['create']} -C"]
    assert smi.state["gpus"][0]["parts"] == ALL_SMALL


def test_partitions_are_removed_for_whole_gpus(make: Make, run_module: Run) -> None:
    smi = make(a100(True, ALL_SMALL), a100(True), T4)
    result = run_module("nvidia_mig", {})
    assert [gpu["profiles"] for gpu in result["gpus"]] == [[], [], []]
    assert [gpu["mode"] for gpu in smi.state["gpus"]] == [False, False, None]
    assert not run_module("nvidia_mig", {})["changed"]


def test_the_same_mig_devices_at_other_placements_are_not_a_change(make: Make, run_module: Run) -> None:
    smi = make(a100(True, [[19, 3], [9, 4]]))
    assert not run_module("nvidia_mig", {"layout": ["3g.20gb", "1g.5gb"]})["changed"]
    assert smi.changes == []


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("gpu", "layout", "words"),
    [
        (a100(), ["2g.20gb"], "it has no profile 2g.20gb, it has 1g.10gb, 1g.5gb"),
        (a100(), ["4g.20gb", "4g.20gb"], "2 x 4g.20gb do not fit on it together; 4g.20gb: 1 at most"),
        (a100(), ["3g.20gb", "3g.20gb", "1g.5gb"], "1g.5gb, 2 x 3g.20gb do not fit"),
        (a100(), {"3": "all-1g.5gb"}, "there is no GPU 3, this host has 0"),
        (T4, "all-1g.5gb", "GPU 0 (Tesla T4): it does not support MIG"),
        ({**a100(), "name": "NVIDIA RTX PRO 5000 Blackwell"}, "all-1g.12gb", "nvidia-smi -i 0 -mig 1 once"),
    ],
)
def test_an_impossible_layout_is_one_error_before_anything_changes(
    make: Make, run_module: Run, gpu: dict[str, Any], layout: Any, words: str, check: bool
) -> None:
    smi = make(gpu)
    result = run_module("nvidia_mig", {"layout": layout}, check=check)
    assert result["failed"]
    assert result["msg"].startswith("Error while checking the MIG layout: ")
    assert words in result["msg"] and "Nothing was changed" in result["msg"]
    assert smi.changes == []


@pytest.mark.parametrize(
    ("gpu", "more", "words"),
    [
        (a100(held=True), {}, "its MIG mode is still off and will change at the next GPU reset"),
        (a100(True), {"refuses": True}, "its MIG devices are nothing, not 1g.5gb, 1g.5gb"),
        (a100(True), {"refuses": True, "refusal_rc": 6}, "its MIG devices are nothing, not 1g.5gb, 1g.5gb"),
    ],
)
def test_the_result_is_read_back_from_nvidia_smi(
    make: Make, run_module: Run, gpu: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    make(gpu, **more)
    result = run_module("nvidia_mig", {"layout": "all-1g.5gb"})
    assert result["failed"]
    assert words in result["msg"] and "nvidia-smi printed" in result["msg"]
    # Only a failed command is shown; nvidia-smi may exit with 0 without a change.
    assert result.get("rc") == more.get("refusal_rc")
    assert ("nvidia-smi mig -i 0 -cgi " in result.get("cmd", "")) == ("refusal_rc" in more)


@pytest.mark.parametrize("layout", [None, ["4g.20gb"]])
def test_unmanaged_partitions_stay_unless_released(make: Make, run_module: Run, tmp_path: Path, layout: Any) -> None:
    smi = make(a100(True, [[9, 0]]))
    args = {"layout": layout, "owned": False, "owner_file": str(tmp_path / "ours")}
    result = run_module("nvidia_mig", args)
    assert result["failed"] and "this collection does not manage their MIG devices (GPU 0: 3g.20gb)" in result["msg"]
    assert smi.changes == []
    assert not run_module("nvidia_mig", {**args, "layout": ["3g.20gb"]})["changed"]
    (tmp_path / "ours").touch()
    assert run_module("nvidia_mig", args)["changed"]


def test_the_record_of_ownership_is_deleted_last(make: Make, run_module: Run, tmp_path: Path) -> None:
    smi = make(a100(True, [[9, 0]]), a100())
    owner = tmp_path / "ours"
    owner.touch()
    args = {"owned": False, "owner_file": str(owner)}
    assert not run_module("nvidia_mig", {**args, "layout": {0: ["3g.20gb"]}})["changed"]
    assert owner.exists()
    assert run_module("nvidia_mig", args, check=True)["differs"] and owner.exists()
    assert run_module("nvidia_mig", args)["changed"] and not owner.exists()
    # State after a run that was interrupted in between.
    owner.touch()
    before = smi.changes
    assert run_module("nvidia_mig", args)["differs"] and not owner.exists()
    assert smi.changes == before
    assert not run_module("nvidia_mig", args)["differs"]


def test_a_host_without_a_driver_is_only_an_error_if_partitions_are_declared(make: Make, run_module: Run) -> None:
    make()
    make(lost=True)
    assert not run_module("nvidia_mig", {})["changed"]
    assert run_module("nvidia_mig", {"layout": "all-1g.5gb"}, check=True)["gpus"] == []
    result = run_module("nvidia_mig", {"layout": "all-1g.5gb"})
    assert result["failed"] and "querying nvidia-smi for the GPUs" in result["msg"]


def test_the_boot_script_creates_the_same_mig_devices(
    make: Make, run_module: Run, programs: Any, tmp_path: Path
) -> None:
    smi = make(a100(), a100())
    programs.add("modprobe", "exit 0")
    result = run_module("nvidia_mig", {"layout": {0: ["3g.20gb", "1g.5gb"]}})
    cut = [gpu["parts"] for gpu in smi.state["gpus"]]
    environment = Environment(trim_blocks=True, keep_trailing_newline=True, undefined=StrictUndefined)
    script = tmp_path / "script"
    script.write_text(environment.from_string(SCRIPT.read_text()).render(__gpu_sharing_mig=result))
    search = {"PATH": f"{programs.directory}:/usr/bin:/bin"}

    def boot() -> int:
        return subprocess.run(["sh", str(script)], env=search, check=False, capture_output=True).returncode

    assert boot() == 0 and [gpu["parts"] for gpu in smi.state["gpus"]] == cut
    smi.change(gpus=[a100(True), a100()])
    assert boot() == 0 and [gpu["parts"] for gpu in smi.state["gpus"]] == cut
    smi.change(gpus=[a100(True), a100()], refuses=True)
    assert boot() == 1
