# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A marked block of /etc/hosts, and of cloud-init's template if that is written to /etc/hosts at each boot."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.cloud_init import rewrites_hosts
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.hosts_file import (
    addresses,
    block_names,
    with_block,
)
from first_run_record import recorded
from hypothesis import given
from hypothesis import strategies as st

NAMES = {"api.lab.internal": "127.0.0.1"}
HOSTS = "127.0.0.1 localhost\n192.168.7.12 gpu1 # its own\n"
BLOCK = "# BEGIN gpulab.kubernetes (role api_endpoint)\n127.0.0.1 api.lab.internal\n# END gpulab.kubernetes\n"
MOUNT = "36 25 8:1 /hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw\n"
TEMPLATE = "## template:jinja\n127.0.1.1 {{fqdn}} {{hostname}}\n"


class Host:
    def __init__(self, root: Path, run: Any) -> None:
        self.root, self._run = root, run
        self.write("etc/hosts", HOSTS)

    def write(self, path: str, text: str) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def read(self, path: str = "etc/hosts") -> str:
        return (self.root / path).read_text()

    def ensure(self, names: dict[str, str], check: bool = False) -> dict[str, Any]:
        result: dict[str, Any] = self._run("hosts_file", {"names": names, "root": str(self.root)}, check=check)
        return result

    def cloud_init(self, setting: str = "true") -> None:
        self.write("usr/bin/cloud-init", "")
        self.write("run/cloud-init/enabled", "")
        self.write("etc/cloud/cloud.cfg", f"users: []\nmanage_etc_hosts: {setting}\n")


@pytest.fixture
def host(tmp_path: Path, run_module: Any) -> Host:
    return Host(tmp_path / "root", run_module)


def test_block_is_added_once_and_removed_without_a_trace(host: Host) -> None:
    file = host.root / "etc/hosts"
    file.chmod(0o640)
    assert host.ensure(NAMES, check=True)["files"] == ["/etc/hosts"] and host.read() == HOSTS
    assert host.ensure(NAMES)["diff"][0]["after"] == HOSTS + BLOCK == host.read()
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert not host.ensure(NAMES)["changed"]
    assert recorded(host.root)["/etc/hosts"]["mode"] == "0640"
    assert host.ensure({})["changed"] and host.read() == HOSTS


def test_block_stays_where_it_is_if_a_user_adds_lines(host: Host) -> None:
    host.write("etc/hosts", f"{BLOCK}10.0.0.9 nas\n")
    assert not host.ensure(NAMES)["changed"]
    assert host.ensure({"api.west.internal": "127.0.0.1"})["changed"]
    assert host.read() == BLOCK.replace("api.lab", "api.west") + "10.0.0.9 nas\n"


@pytest.mark.parametrize("text", ["", "127.0.0.1 localhost", "# BEGIN gpulab.kubernetes\n10.0.0.9 nas\n"])
def test_no_line_of_a_user_is_lost(text: str) -> None:
    written = with_block(text, NAMES)
    assert "127.0.0.1 api.lab.internal\n" in written and with_block(written, NAMES) == written
    kept = [line for line in text.split("\n") if line and not line.startswith("# BEGIN")]
    assert [line for line in with_block(written, {}).split("\n") if line] == kept


@given(st.text(alphabet="ab1.# \n"))
def test_a_block_can_be_added_to_any_text_and_removed(text: str) -> None:
    written = with_block(text, NAMES)
    assert block_names(written) == ["api.lab.internal"]
    assert with_block(written, {}).rstrip("\n") == text.removesuffix("\n").rstrip("\n")


def test_names_are_found_as_the_resolver_finds_them() -> None:
    text = f"10.0.0.1 a API.lab.internal # b\n10.0.0.2 x # api.lab.internal\n{BLOCK}::1 api.lab.internal\n"
    assert addresses(text, "api.lab.internal") == ["10.0.0.1", "::1"]
    assert block_names(text) == ["api.lab.internal"]


def test_file_that_is_a_mount_is_an_error_that_says_what_to_do(host: Host) -> None:
    host.write("proc/self/mountinfo", MOUNT)
    result = host.ensure(NAMES)
    assert result["failed"] and "Error while writing /etc/hosts: it is a mount of its own" in result["msg"]
    assert "set cluster_api_endpoint" in result["msg"] and host.read() == HOSTS
    # A container that was started with the entry, or a line that is right.
    host.write("etc/hosts", HOSTS + BLOCK)
    assert not host.ensure(NAMES)["changed"]


def test_template_of_cloud_init_gets_the_same_block(host: Host) -> None:
    host.write("etc/cloud/templates/hosts.debian.tmpl", TEMPLATE)
    assert host.ensure(NAMES)["files"] == ["/etc/hosts"]
    host.cloud_init()
    assert host.ensure(NAMES)["files"] == ["/etc/cloud/templates/hosts.debian.tmpl"]
    assert host.read("etc/cloud/templates/hosts.debian.tmpl") == TEMPLATE + BLOCK
    assert not host.ensure(NAMES)["changed"]


@pytest.mark.parametrize(
    ("setting", "files", "rewrites"),
    [
        ("true", {}, True),
        ("template", {}, True),
        ("'True'", {}, True),
        ("localhost", {}, False),
        ("false", {}, False),
        ("false", {"var/lib/cloud/instance/cloud-config.txt": "#cloud-config\nmanage_etc_hosts: true\n"}, True),
        ("true", {"etc/cloud/cloud.cfg.d/99-hosts.cfg": "manage_etc_hosts: false\n"}, False),
        ("false", {"etc/cloud/cloud.cfg.d/10.cfg": "x:\n  manage_etc_hosts: true\n"}, False),
        ("true", {"run/cloud-init/combined-cloud-config.json": json.dumps({"manage_etc_hosts": False})}, False),
        ("false", {"run/cloud-init/combined-cloud-config.json": json.dumps({"manage_etc_hosts": True})}, True),
        ("true", {"run/cloud-init/combined-cloud-config.json": "{}"}, False),
        ("true", {"run/cloud-init/combined-cloud-config.json": "damaged"}, True),
        ("true", {"etc/cloud/cloud-init.disabled": ""}, False),
    ],
)
def test_setting_of_cloud_init_is_read_as_cloud_init_reads_it(
    host: Host, setting: str, files: dict[str, str], rewrites: bool
) -> None:
    host.cloud_init(setting)
    for path, text in files.items():
        host.write(path, text)
    assert rewrites_hosts(str(host.root)) is rewrites
