# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.sharing import device_plugin_config, gpu_sharing
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._nvidia import sharing
from hypothesis import given
from hypothesis import strategies as st

TIME_SLICING: dict[str, Any] = {"mode": "time_slicing", "replicas": 4}
MIG: dict[str, Any] = {"mode": "mig", "layout": "all-1g.5gb"}
BASE = {"version": "v1", "flags": {"failOnInitError": True}}


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (None, "it is not a mapping"),
        ("mig", "it is not a mapping"),
        ({"mode": "shared"}, "must be one of exclusive, time_slicing, mps, mig"),
        ({"mode": "exclusive", "replicas": 2}, "replicas belongs to mode time_slicing and mps, not to exclusive"),
        ({"mode": "time_slicing"}, "replicas is not set, but mode time_slicing needs a number of at least 2"),
        ({"mode": "time_slicing", "replicas": 1}, "replicas is 1, but mode time_slicing needs"),
        ({"mode": "time_slicing", "replicas": True}, "replicas is True"),
        ({"mode": "mps", "replicas": "many"}, "replicas is 'many', but mode mps needs"),
        ({"mode": "mps", "replicas": 2, "layout": "all-1g.5gb"}, "MPS shares whole GPUs only"),
        ({"mode": "mps", "replicas": 2, "rename": True}, "rename belongs to mode time_slicing, not to mps"),
        ({**TIME_SLICING, "rename": "yes please"}, "rename is 'yes please', and must be true or false"),
        ({**TIME_SLICING, "replica": 4}, "there is no key replica; mode time_slicing takes mode, replicas, rename"),
        ({"mode": "mig"}, "layout is not set"),
        ({"mode": "mig", "layout": 7}, "layout is 7"),
        ({"mode": "mig", "layout": "all-small"}, "layout has 'small'"),
        ({"mode": "mig", "layout": ["1g5gb"]}, "layout has '1g5gb'"),
        ({"mode": "mig", "layout": {"first": "all-1g.5gb"}}, "the key 'first', which is not an index"),
        ({**MIG, "strategy": "none"}, "strategy is 'none', and must be single or mixed"),
        (
            {"mode": "mig", "layout": ["1g.5gb", "2g.10gb"], "strategy": "single"},
            "strategy single needs one profile on all GPUs, and layout has 1g.5gb, 2g.10gb",
        ),
    ],
)
def test_each_invalid_declaration_is_one_error(declared: Any, words: str) -> None:
    [problem] = sharing.problems(declared)
    assert words in problem
    with pytest.raises(DomainError, match=re.escape(words)):
        sharing.read(declared)


@pytest.mark.parametrize(
    ("declared", "name", "parts", "amounts"),
    [
        ({}, "exclusive", [], {"nvidia.com/gpu": 2}),
        ({"mode": "exclusive"}, "exclusive", [], {"nvidia.com/gpu": 2}),
        (TIME_SLICING, "time-slicing-4", [], {"nvidia.com/gpu": 8}),
        ({**TIME_SLICING, "replicas": "4"}, "time-slicing-4", [], {"nvidia.com/gpu": 8}),
        ({**TIME_SLICING, "rename": True}, "time-slicing-4-renamed", [], {"nvidia.com/gpu.shared": 8}),
        ({**TIME_SLICING, "refuse_more_than_one": True}, "time-slicing-4-one-each", [], {"nvidia.com/gpu": 8}),
        ({"mode": "mps", "replicas": 3}, "mps-3", [], {"nvidia.com/gpu": 6}),
        (MIG, "mig-mixed", [["1g.5gb"] * 7] * 2, {"nvidia.com/mig-1g.5gb": 14}),
        ({**MIG, "strategy": "single"}, "mig-single", [["1g.5gb"] * 7] * 2, {"nvidia.com/gpu": 14}),
        (
            {"mode": "mig", "layout": {0: ["3g.20gb", "1g.5gb+me"]}},
            "mig-mixed",
            [["1g.5gb+me", "3g.20gb"], []],
            {"nvidia.com/gpu": 1, "nvidia.com/mig-3g.20gb": 1, "nvidia.com/mig-1g.5gb.me": 1},
        ),
    ],
)
def test_a_declaration_determines_name_partitions_and_resources(
    declared: dict[str, Any], name: str, parts: list[list[str]], amounts: dict[str, int]
) -> None:
    assert sharing.problems(declared) == []
    found = gpu_sharing(declared, 2, parts)
    assert (found["name"], found["amounts"]) == (name, amounts)


def test_names_are_valid_values_of_labels() -> None:
    everything = {**TIME_SLICING, "replicas": 1000, "rename": True, "refuse_more_than_one": True}
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", sharing.read(everything).name)


def test_each_way_of_sharing_has_one_device_plugin_configuration() -> None:
    made = device_plugin_config([TIME_SLICING, MIG, {"mode": "mps", "replicas": 2}, TIME_SLICING], BASE)
    assert list(made) == ["exclusive", "mig-mixed", "mps-2", "time-slicing-4"]
    assert json.loads(made["exclusive"]) == {"version": "v1", "flags": {"failOnInitError": True, "migStrategy": "none"}}
    assert json.loads(made["mig-mixed"])["flags"]["migStrategy"] == "mixed"
    assert json.loads(made["time-slicing-4"])["sharing"] == {
        "timeSlicing": {
            "renameByDefault": False,
            "failRequestsGreaterThanOne": False,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
        }
    }
    assert json.loads(made["mps-2"])["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 2}]


def test_errors_of_the_filters_name_the_variable() -> None:
    for call in (lambda: gpu_sharing({"mode": "mig"}, 1), lambda: device_plugin_config([{"mode": "mig"}], BASE)):
        with pytest.raises(AnsibleFilterError, match="Error while reading cluster_gpu_sharing: layout"):
            call()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
)
KEYS = st.sampled_from(["mode", "replicas", "rename", "layout", "strategy", "refuse_more_than_one", "other"])
MODES = st.sampled_from(["exclusive", "time_slicing", "mps", "mig"])


@given(st.builds(lambda rest, mode: {**rest, "mode": mode}, st.dictionaries(KEYS, JSON), MODES) | JSON)
def test_any_value_is_accepted_or_refused(declared: Any) -> None:
    if not sharing.problems(declared):
        assert sharing.read(declared).mode in sharing.MODES
        assert all(amount > 0 for amount in gpu_sharing(declared, 3)["amounts"].values())
