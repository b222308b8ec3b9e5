# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages and apt sources that the role requests, with stubbed modules that record their arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from stubbed_site import Site

PLAYBOOK = """
- name: Toolkits
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Toolkits
      ansible.builtin.import_role:
        name: gpulab.kubernetes.cuda_toolkit
"""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(site: Site, key: str, name: str, versions: list[str], **more: Any) -> tuple[int, str]:
    driver = {"loaded_version": "", "packages": {}, "origin": "none"}
    host = {"os": {"key": key, "repository_name": name}, "gpus": [], "nvidia_driver": driver}
    site.answer("preflight_info", {"changed": False, **host})
    # The environment profile is the role's last step, and not part of these tests.
    settings = {"cuda_toolkit_versions": versions, "cuda_toolkit_profile": False, **more}
    result: tuple[int, str] = site.play(PLAYBOOK, settings)
    return result


@pytest.mark.parametrize(
    ("key", "name", "file"),
    [
        ("Debian 12", "debian12", "3bf863cc.pub"),
        ("Debian 13", "debian13", "8793F200.pub"),
        ("Ubuntu 26.04", "ubuntu2604", "60DF8A40.pub"),
    ],
)
def test_each_distribution_has_its_own_signing_key(site: Site, key: str, name: str, file: str) -> None:
    run(site, key, name, ["13.3.1"])
    assert site.asked("apt_source")[0]["key_url"].endswith(f"/{name}/x86_64/{file}")


@pytest.mark.parametrize(
    ("key", "name", "versions", "lacking", "oldest"),
    [
        ("Ubuntu 26.04", "ubuntu2604", ["12.8.1", "13.1.1", "13.3.1"], ["12.8.1", "13.1.1"], "13.3"),
        ("Ubuntu 22.04", "ubuntu2204", ["11.2.2", "11.3.1"], ["11.2.2", "11.3.1"], "11.7"),
    ],
)
def test_all_toolkits_missing_from_the_repository_are_named(
    site: Site, key: str, name: str, versions: list[str], lacking: list[str], oldest: str
) -> None:
    status, output = run(site, key, name, versions)
    assert status != 0 and site.asked("apt_source") == [] and site.asked("apt_packages") == []
    for version in lacking:
        assert f"CUDA {version}: the oldest version in NVIDIA's repository for {key} is {oldest}" in output
