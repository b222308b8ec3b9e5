# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.awx_setting_problems import FilterModule

problems = FilterModule().filters()["awx_setting_problems"]
LAB = {"name": "lab", "path": "inventories/lab.ini"}
CHECK = {"identifier": "check", "job_template": "preflight", "success_nodes": ["agree"]}
AGREE = {"identifier": "agree", "approval": {"name": "agree"}, "success_nodes": []}


@pytest.mark.parametrize(
    ("inventories", "said"),
    [
        ([LAB], None),
        ([LAB, {**LAB, "name": "rack"}], None),
        ([LAB, LAB], "lab occurs more than once"),
        ([{"name": "lab"}], "the entry lab needs a path inside the project (awx_configure_inventory_path is empty)"),
        ([LAB, {"name": "rack", "path": ""}], "the entry rack needs a path inside the project"),
        ([LAB, {"name": "rack", "path": 7}], "the entry rack needs a path"),
        ([{"path": "a.ini"}], "an entry has no name"),
        ([{"name": 7, "path": "a.ini"}], "an entry has no name"),
        *((given, "must be a list") for given in (None, 7, "lab", {}, [], ["lab"], {"lab": LAB}, [None])),
    ],
)
def test_inventories(inventories: Any, said: str | None) -> None:
    found = problems(inventories, [])
    assert [said in each for each in found] == ([True] if said else [])


@pytest.mark.parametrize(
    ("workflows", "said"),
    [
        ([], None),
        ([{"name": "a", "nodes": [CHECK, AGREE]}], None),
        ([{"name": "a", "nodes": [{**CHECK, **AGREE}]}], "the node agree of a needs either a job_template or"),
        ([{"name": "a", "nodes": [{"identifier": "x"}]}], "the node x of a needs either a job_template or an approval"),
        ([{"name": "a", "nodes": [CHECK]}], "the node check of a leads to agree, which that workflow does not have"),
        ([{"name": name, "nodes": [AGREE]} for name in "ab"], "nodes: agree occurs more than once"),
        ([{"name": "a", "nodes": []}] * 2, "a occurs more than once"),
        ([{"name": "a", "nodes": [{"approval": {}, "job_template": "x"}]}], "an entry has no identifier"),
        *((given, "a list of nodes") for given in (None, "a", [{"name": "a"}], [{"name": "a", "nodes": [7]}])),
    ],
)
def test_workflows(workflows: Any, said: str | None) -> None:
    found = problems([LAB], workflows)
    assert [said in each for each in found] == ([True] if said else [])
