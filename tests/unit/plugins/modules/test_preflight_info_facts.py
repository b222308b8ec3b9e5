# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts that preflight_info gathers, compared with those of Ansible's module setup."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

ROLE = Path(__file__).resolve().parents[4] / "roles/preflight/vars/main.yml"
# The facts that the settings of the role cluster need.
GATHERED = yaml.safe_load(ROLE.read_text())["_preflight_gather"]
IP = """case "$*" in
  "-j address show"|"-j -4 route show") echo '[]';;
  "-4 route get 8.8.8.8") echo '8.8.8.8 via 10.0.0.1 dev eth0 src 10.0.0.11 uid 0';;
esac"""
Call = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture
def call(run_module: Any, programs: Any, tmp_path: Path) -> Call:
    """Return the result of a module of Ansible or of this collection, by its Python name."""
    programs.add("ip", IP)
    for name in ("iptables-save", "nft"):
        programs.add(name, "exit 0")
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/os-release").write_text('ID=debian\nVERSION_ID="12"\n')

    def answer(name: str, options: dict[str, Any]) -> dict[str, Any]:
        if name != "ansible.modules.setup":
            result: dict[str, Any] = run_module(name, {"root": str(tmp_path / "root"), **options})
            return result
        text = json.dumps({"ANSIBLE_MODULE_ARGS": {**options, "_ansible_tmpdir": str(tmp_path)}})
        environ = run_module._environ(None, None)
        status, output, errors = run_module.server.run(name, text, directory=tmp_path, environ=environ, timeout=60)
        assert status == 0, output + errors
        found: dict[str, Any] = json.loads(output)
        return found

    return answer


@pytest.mark.parametrize("subset", [GATHERED, ["distribution"], ["network"], ["platform"]], ids=str)
def test_facts_are_the_same_as_those_of_setup(call: Call, subset: list[str]) -> None:
    expected = call("ansible.modules.setup", {"gather_subset": ["!all", "!min", *subset]})["ansible_facts"]
    found = call("preflight_info", {"gather_subset": subset})["ansible_facts"]
    assert expected.pop("gather_subset") == found.pop("gather_subset") == ["!all", "!min", *subset]
    assert found == expected and found


def test_facts_that_settings_refer_to_are_gathered(call: Call) -> None:
    facts = call("preflight_info", {"gather_subset": GATHERED})["ansible_facts"]
    assert facts["ansible_nodename"] and facts["ansible_kernel"]
    assert facts["ansible_default_ipv4"]["address"] == "10.0.0.11"


def test_facts_are_only_gathered_on_request(call: Call) -> None:
    assert "ansible_facts" not in call("preflight_info", {})


def test_an_invalid_subset_is_an_error(call: Call) -> None:
    result = call("preflight_info", {"gather_subset": ["networks"]})
    assert result["failed"] and "value of gather_subset must be one or more of: distribution, network" in result["msg"]
