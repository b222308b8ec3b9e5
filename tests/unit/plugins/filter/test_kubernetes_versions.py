# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of a cluster decides what its hosts get, whatever the inventory says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.plan import cluster_version, node_version
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._nodes.kubernetes import minors_behind, release
from hypothesis import given
from hypothesis import strategies as st

TABLE = ["1.35.8", "1.36.5", "1.37.2"]


def control_plane(configured: str = "", answers: str = "") -> dict[str, Any]:
    text = f"kind: ClusterConfiguration\nkubernetesVersion: {configured}\n" if configured else ""
    return {"preflight_host": {"control_plane": {"texts": {"ClusterConfiguration": text}, "version": answers}}}


@pytest.mark.parametrize(
    ("hosts", "version"),
    [
        ({"cp1": control_plane("v1.36.5", "v1.36.5")}, "1.36.5"),
        ({"cp1": control_plane("v1.36.5", "v1.37.2")}, "1.36.5"),
        ({"cp1": control_plane("", "v1.36.5")}, "1.36.5"),
        ({"cp1": {}, "cp2": control_plane("v1.36.5")}, "1.36.5"),
        ({"cp1": control_plane("v1.34.1")}, "1.37.2"),
        ({"cp1": {"preflight_host": {"control_plane": {}}}}, "1.37.2"),
        ({"cp1": {}}, "1.37.2"),
        ({}, "1.37.2"),
    ],
)
def test_the_clusters_own_version_decides(hosts: dict[str, Any], version: str) -> None:
    assert cluster_version(hosts, hosts, "1.37.2", TABLE) == version


@pytest.mark.parametrize(
    ("package", "finished", "version"),
    [
        ("1.35.8-1.1", True, "1.35.8"),
        ("1.35.8-1.1", False, "1.36.5"),
        ("1.37.2-1.1", True, "1.36.5"),
        ("1.34.1-1.1", True, "1.36.5"),
        ("9:1.35.8+lab", True, "1.35.8"),
        ("newest", True, "1.36.5"),
        (None, True, "1.36.5"),
    ],
)
def test_a_node_that_is_behind_keeps_its_version(package: Any, finished: bool, version: str) -> None:
    host = {"installed": {"kubelet": package}, "cluster": {"finished": finished}}
    assert node_version(host, "1.36.5", TABLE) == version
    assert node_version({}, "1.36.5", TABLE) == "1.36.5"


@given(st.from_type(type) | st.text() | st.integers() | st.none())
def test_any_text_is_a_release_or_none(text: Any) -> None:
    assert release(text) == "" or release(f"v{release(text)}") == release(text)


def test_minors_are_counted() -> None:
    assert [minors_behind(node, "1.37.2") for node in ("1.35.8", "1.37.0", "1.38.0")] == [2, 0, 0]
