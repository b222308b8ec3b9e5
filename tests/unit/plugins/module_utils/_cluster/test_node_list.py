# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.node_list import (
    read_nodes,
    read_removed,
    removed_text,
)
from hypothesis import given
from hypothesis import strategies as st

NODE: dict[str, Any] = {
    "metadata": {
        "name": "gpu2",
        "uid": "u-2",
        "labels": {"node-role.kubernetes.io/control-plane": ""},
        "annotations": {"gpulab.io/inventory-host": "gpu2.example.org", "gpulab.io/kubernetes-upgrade": "{}"},
    },
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}, {"type": "Hostname", "address": "gpu2"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"machineID": "EC2E1FDE-0000-0000-0000-0123456789AB", "kubeletVersion": "v1.36.5"},
    },
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["metadata", "status", "name", "data"]), inner)
    ),
    max_leaves=12,
)


def test_node_is_read() -> None:
    assert read_nodes([NODE, {"metadata": {"name": "cp1"}}]) == [
        {
            "name": "cp1",
            "uid": "",
            "ready": False,
            "control_plane": False,
            "addresses": [],
            "machine_id": "",
            "host": "",
            "kubelet": "",
            "upgrading": False,
        },
        {
            "name": "gpu2",
            "uid": "u-2",
            "ready": True,
            "control_plane": True,
            "addresses": ["10.0.0.2"],
            "machine_id": "ec2e1fde0000000000000123456789ab",
            "host": "gpu2.example.org",
            "kubelet": "v1.36.5",
            "upgrading": True,
        },
    ]


@pytest.mark.parametrize("value", ["x" * 32, "1" * 31, 5, None, "../" + "1" * 32])
def test_invalid_machine_id_is_empty(value: Any) -> None:
    assert (
        read_nodes([{"metadata": {"name": "a"}, "status": {"nodeInfo": {"machineID": value}}}])[0]["machine_id"] == ""
    )


def test_record_of_removed_nodes_is_read_as_it_was_written() -> None:
    text = removed_text("gpu2.example.org", "1" * 32, "2026-11-28T10:00:00Z")
    entry = {"host": "gpu2.example.org", "machine_id": "1" * 32, "since": "2026-11-28T10:00:00Z"}
    data = {"gpu2": text, "gpu3": "{", "../x": text, "gpu4": '{"since": "yesterday"}'}
    assert read_removed({"data": data}) == {
        "gpu2": entry,
        "gpu4": {"host": "", "machine_id": "", "since": ""},
    }


@given(JSON)
def test_any_answer_is_read(value: Any) -> None:
    names = [node["name"] for node in read_nodes([value, *(value if isinstance(value, list) else ())])]
    assert names == sorted(names)
    assert all({*entry} == {"host", "machine_id", "since"} for entry in read_removed(value).values())
