# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.driver import ANNOTATION, FilterModule

decide = FilterModule().filters()["driver_installers"]
A, B = "580.178.04", "595.91.07"


def entry(version: str, *nodes: str, image: str = "i", root: str = "/opt/d") -> dict[str, Any]:
    name = f"driver-{version.replace('.', '-')}"
    return {"name": name, "version": version, "image": image, "root": root, "nodes": list(nodes)}


def there(version: str, *nodes: str) -> dict[str, Any]:
    record = entry(version, *nodes)
    return {"metadata": {"name": record["name"], "annotations": {ANNOTATION: json.dumps(record)}}}


def wish(node: str, version: str) -> dict[str, str]:
    return {"node": node, "version": version, "image": "i", "root": "/opt/d"}


@pytest.mark.parametrize(
    ("existing", "wanted", "nodes", "present", "absent"),
    [
        ([], [], ["cp1"], [], []),
        ([], [wish("b", A), wish("a", A)], ["a", "b", "cp1"], [entry(A, "a", "b")], []),
        ([], [wish("a", A), wish("b", B)], ["a", "b"], [entry(A, "a"), entry(B, "b")], []),
        ([there(A, "a", "b")], [wish("a", A), wish("b", A)], ["a", "b"], [entry(A, "a", "b")], []),
        # Nodes outside the play keep their version.
        ([there(A, "a", "b")], [wish("a", B)], ["a"], [entry(A, "b"), entry(B, "a")], []),
        ([there(A, "a")], [wish("a", B)], ["a"], [entry(B, "a")], ["driver-580-178-04"]),
        ([there(A, "a")], [], ["a"], [], ["driver-580-178-04"]),
        ([there(A, "a")], [], ["cp1"], [entry(A, "a")], []),
        ([{"metadata": {"name": "driver-x"}}], [], ["a"], [], ["driver-x"]),
    ],
)
def test_nodes_are_grouped_by_driver_version(
    existing: list[Any], wanted: list[Any], nodes: list[str], present: list[Any], absent: list[str]
) -> None:
    assert decide(existing, wanted, nodes) == {"present": present, "absent": absent}
