# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page as HTML: total over whatever a report may hold, and nothing in it is more than a text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import report_samples
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.report_page import FilterModule
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.links import links
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._report.view import page
from hypothesis import given, settings
from hypothesis import strategies as st

TEMPLATES = str(Path(__file__).resolve().parents[4] / "roles" / "report" / "templates")
make = FilterModule().filters()["report_page"]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
# Elements and attributes of the page; what a report brings must not add to them.
ELEMENTS = {"script", "img", "iframe", "object", "embed", "link", "form", "base", "a"}


class Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _value in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def with_name(report: dict[str, Any], name: str) -> dict[str, Any]:
    report["hosts"][name] = report["hosts"].pop("gpu1")
    report["actions"][0] |= {"host": name, "what": name, "do": name, "gpu": name}
    report["phases"][0]["name"] = name
    report["hosts"][name]["devices"][0] |= {"name": name, "uuid": name, "reason": name, "mig": [{"profile": name}]}
    return report


@pytest.mark.parametrize("sample", [report_samples.well, report_samples.ill, report_samples.hostile])
def test_the_page_is_whole_and_loads_nothing(sample: Any) -> None:
    text = make(sample(), TEMPLATES)
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    reader = Reader(text)
    assert not ELEMENTS & set(reader.tags)
    assert not {name for name in reader.attributes if name.startswith("on")}
    assert not re.search(r"url\(|@import|src=", re.sub(r'"[^"]*"', "", text.partition("<body>")[0]))
    assert make(json.dumps(sample()), TEMPLATES) == text


def test_everything_hostile_is_escaped() -> None:
    text = make(report_samples.hostile(), TEMPLATES)
    assert "<script" not in text and "<img" not in text
    assert "{{ 7 * 7 }}" in Reader(text).words


@given(st.text())
@settings(max_examples=60)
def test_any_name_is_a_text(name: str) -> None:
    plain, named = Reader(make(with_name(report_samples.ill(), "n"), TEMPLATES)), with_name(report_samples.ill(), name)
    reader = Reader(make(named, TEMPLATES))
    assert sorted(reader.tags) == sorted(plain.tags) or not name.strip() or len(named["hosts"]) != 4
    assert reader.attributes == plain.attributes


@given(st.dictionaries(st.sampled_from(sorted(report_samples.ill())), ANYTHING), st.dictionaries(st.text(), ANYTHING))
@settings(max_examples=100)
def test_any_shape_gives_a_page_or_one_error(changes: dict[str, Any], more: dict[str, Any]) -> None:
    report = {**report_samples.ill(), **more, **changes}
    try:
        text = make(report, TEMPLATES)
    except AnsibleFilterError as error:
        assert "Error while reading the report" in str(error)
    else:
        assert "</html>" in text


@given(st.sampled_from(sorted(report_samples.ill()["hosts"]["gpu1"])), ANYTHING, ANYTHING)
@settings(max_examples=100)
def test_any_entry_of_a_host_gives_a_page(key: str, value: Any, device: Any) -> None:
    report = report_samples.ill()
    report["hosts"]["gpu1"]["devices"] = [device, {"uuid": device, "mig": [device], "health": device}]
    report["hosts"]["gpu1"][key] = value
    assert "</html>" in make(report, TEMPLATES)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "it is not valid JSON"),
        ("", "it is not valid JSON"),
        ([1], "it is not a dictionary but a list"),
        ("null", "it is not a dictionary but nothing"),
        ({}, "it has no hosts"),
        ({"hosts": {"a": 1}, "totals": {}, "problems": []}, "the entry of host a is a number"),
    ],
)
def test_what_is_no_report_is_one_clear_error(value: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"Error while reading the report: {words}.*Give the JSON file"):
        make(value, TEMPLATES)


def test_a_report_of_before_there_were_pages_has_a_page() -> None:
    old = report_samples.well()
    for key in ("actions", "phases", "observed"):
        del old[key]
    for entry in old["hosts"].values():
        for key in ("inventory_name", "roles", "reachable", "topology", "versions", "certificates"):
            del entry[key]
    old["problems"] = [{"host": "gpu1", "gpu": "GPU-1", "cause": "no pod was given this GPU"}]
    shown = page(old)
    assert shown.state == "bad" and shown.actions[0]["what"] == "no pod was given this GPU"
    assert "no pod was given this GPU" in make(old, TEMPLATES)


def test_a_path_that_fails_is_drawn_at_the_node_that_reaches_nobody() -> None:
    shown = {node.name: node.link for node in page(report_samples.ill()).nodes}
    assert shown == {"cp1": "ok", "gpu1": "ok", "gpu2": "unknown", "gpu3": "broken"}


def test_links_are_arcs_that_stay_inside_of_the_drawing() -> None:
    found = links(report_samples.matrix(8, "NV12"))
    assert found is not None and len(found.arcs) == 28
    assert {arc.count for arc in found.arcs} == {12}
    for arc in found.arcs:
        assert 0 <= arc.start < arc.end <= found.width and arc.height < arc.base < found.height


@pytest.mark.parametrize(
    ("kind", "words"),
    [("NV1", "1 NVLink."), ("PHB", "the PCIe host bridge of a CPU."), ("odd", "odd.")],
)
def test_links_are_told_in_words(kind: str, words: str) -> None:
    found = links(report_samples.matrix(2, kind))
    assert found is not None and found.words == f"Each pair of GPUs is connected by {words}"


def test_pairs_that_differ_are_listed() -> None:
    topology = report_samples.matrix(3, "SYS")
    topology["matrix"]["GPU0"]["GPU1"] = "NV4"
    found = links(topology)
    assert found is not None and len(found.arcs) == 1
    assert found.words == "Pairs of GPUs by 4 NVLinks: 0-1; the link between CPUs: 0-2, 1-2."


@given(ANYTHING, ANYTHING)
def test_any_topology_is_drawn_or_left_out(gpus: Any, matrix: Any) -> None:
    found = links({"gpus": gpus, "matrix": matrix})
    assert found is None or len(found.points) >= 2
