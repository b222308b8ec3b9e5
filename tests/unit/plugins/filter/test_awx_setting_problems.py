# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.awx import FilterModule

problems = FilterModule().filters()["awx_setting_problems"]
SIGNED_IN = {"CONTROLLER_HOST": "https://awx.example.org", "CONTROLLER_OAUTH_TOKEN": "x"}
GIVEN = {"awx_configure_image": "registry.example.org/ee:1", "awx_configure_project_url": "https://git.example.org/a"}
FORKS = "awx_configure_forks must be the number of hosts on which"
LAB = {"name": "lab", "path": "inventories/lab.ini"}
CHECK = {"identifier": "check", "job_template": "preflight", "success_nodes": ["agree"]}
AGREE = {"identifier": "agree", "approval": {"name": "agree"}, "success_nodes": []}


def judge(**changed: Any) -> Any:
    lists = {"awx_configure_inventories": [LAB], "awx_configure_workflows": []}
    return problems({**SIGNED_IN, **GIVEN, "awx_configure_forks": 50, **lists, **changed})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"CONTROLLER_HOST": ""}, ["CONTROLLER_HOST is not set in the environment"]),
        ({"CONTROLLER_OAUTH_TOKEN": ""}, ["neither CONTROLLER_OAUTH_TOKEN nor"]),
        ({"CONTROLLER_OAUTH_TOKEN": "", "CONTROLLER_USERNAME": "a"}, ["neither CONTROLLER_OAUTH_TOKEN nor"]),
        ({"CONTROLLER_OAUTH_TOKEN": "", "CONTROLLER_USERNAME": "a", "CONTROLLER_PASSWORD": "b"}, []),
        *(({name: ""}, [f"{name} is empty (the address of"]) for name in GIVEN),
        *(({name: 7}, [f"{name} is empty (the address of"]) for name in GIVEN),
        *(({"awx_configure_forks": forks}, []) for forks in (1, "120")),
        *(({"awx_configure_forks": forks}, [FORKS]) for forks in (0, -1, "", None, True, "many", 2.5, "[]")),
    ],
)
def test_each_wrong_setting_has_one_message(changed: dict[str, Any], said: list[str]) -> None:
    found = judge(**changed)
    assert len(found) == len(said) and all(words in text for words, text in zip(said, found)), found


def test_all_missing_settings_are_reported_together() -> None:
    assert len(problems({})) == 7


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
def test_invalid_inventories_are_reported(inventories: Any, said: str | None) -> None:
    found = judge(awx_configure_inventories=inventories)
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
def test_invalid_workflows_are_reported(workflows: Any, said: str | None) -> None:
    found = judge(awx_configure_workflows=workflows)
    assert [said in each for each in found] == ([True] if said else [])
