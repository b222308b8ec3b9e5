# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import shutil
import subprocess

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.dpkg import Database, read_status
from ansible_collections.gpulab.kubernetes.plugins.module_utils._versions import compare_versions
from hypothesis import given, settings
from hypothesis import strategies as st

STATUS = """\
Package: kubelet
Status: hold ok installed
Priority: optional
Architecture: amd64
Version: 1.36.4-1.1
Description: Node agent
 Package: not-a-package
 Status: install ok installed

Package: libc6
Status: install ok installed
Architecture: i386
Version: 2.36-8

Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

Package: broken
Status: install reinstreq half-installed
Architecture: amd64
Version: 2.0

Package: waiting
Status: install ok triggers-awaited
Architecture: all
Version: 3.0
"""


def test_dpkg_status_is_parsed() -> None:
    database = Database(read_status(STATUS), "amd64")
    kubelet = database.get("kubelet")
    assert kubelet is not None and kubelet.held and kubelet.installed and kubelet.version == "1.36.4-1.1"
    assert database.version("libc6") == "2.36-9"
    assert database.get("gone") is None and database.get("not-a-package") is None
    assert database.unfinished == ["broken", "waiting"]
    assert database.names() == ["broken", "kubelet", "libc6", "waiting"]


@given(st.text())
def test_any_dpkg_status_is_parsed_without_an_error(text: str) -> None:
    Database(read_status(text), "amd64").names()


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("1.36.4-1.1", "1.36.10-1.1"),
        ("1.36.4-1.1", "1.36.4-1.2"),
        ("580.126.20-1", "580.178.04-1"),
        ("2.3.6~rc1-1", "2.3.6-1"),
        ("2.3.6-1~debian.12~bookworm", "2.3.6-1~debian.13~trixie"),
        ("9.0", "1:1.0"),
        ("1.0", "1.0-1"),
        ("1.0a", "1.0+"),
    ],
)
def test_versions_are_ordered_as_in_debian_policy(lower: str, higher: str) -> None:
    assert compare_versions(lower, higher) == -1
    assert compare_versions(higher, lower) == 1


def test_leading_zeros_and_a_missing_revision_do_not_matter() -> None:
    assert compare_versions("1.02-0", "0:1.2") == 0


_UPSTREAM = st.from_regex(r"[0-9][0-9a-zA-Z.+~]{0,6}", fullmatch=True)
_VERSION = st.builds(
    lambda epoch, upstream, revision: f"{epoch}{upstream}{revision}",
    st.sampled_from(["", "0:", "1:"]),
    _UPSTREAM,
    st.one_of(st.just(""), st.from_regex(r"-[0-9a-zA-Z.+~]{1,5}", fullmatch=True)),
)


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="compares with dpkg itself")
@settings(max_examples=150, deadline=None)
@given(_VERSION, _VERSION)
def test_the_order_is_the_same_as_dpkgs(one: str, other: str) -> None:
    def dpkg(relation: str) -> bool:
        return subprocess.run(["dpkg", "--compare-versions", one, relation, other], check=False).returncode == 0

    assert compare_versions(one, other) == (-1 if dpkg("lt") else 1 if dpkg("gt") else 0)
