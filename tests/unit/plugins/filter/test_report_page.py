# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page as HTML: any report can be rendered, and its content is always escaped."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import report_samples
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
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
# Elements that the page must not contain, whatever is in the report.
ELEMENTS = {"script", "img", "iframe", "object", "embed", "link", "form", "base"}


class Reader(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _value in attrs}
        self.links |= {value or "" for name, value in attrs if name == "href"}
        self.ids |= {value or "" for name, value in attrs if name == "id"}

    def handle_data(self, data: str) -> None:
        self.words += data


def with_name(report: dict[str, Any], name: str) -> dict[str, Any]:
    report["hosts"][name] = report["hosts"].pop("gpu1")
    report["actions"][0] |= {"host": name, "what": name, "do": name, "gpu": name}
    report["phases"][0]["name"] = name
    report["hosts"][name]["devices"][0] |= {"name": name, "uuid": name, "reason": name, "mig": [{"profile": name}]}
    return report


@pytest.mark.parametrize(
    "sample", [report_samples.well, report_samples.ill, report_samples.hostile, report_samples.fleet]
)
def test_page_is_complete_and_loads_nothing(sample: Any) -> None:
    text = make(sample(), TEMPLATES)
    assert text.startswith("<!doctype html>") and text.rstrip().endswith("</html>")
    reader = Reader(text)
    assert not ELEMENTS & set(reader.tags)
    assert not {name for name in reader.attributes if name.startswith("on")}
    # Links only lead to the same page.
    assert {link.removeprefix("#") for link in reader.links} <= reader.ids
    assert not re.search(r"url\(|@import", text.partition("<style>")[2].partition("</style>")[0])
    assert make(json.dumps(sample()), TEMPLATES) == text


@pytest.mark.parametrize("sample", [report_samples.ill, report_samples.measured])
def test_guide_describes_every_section(sample: Any) -> None:
    guide = (Path(TEMPLATES).parents[2] / "docs" / "reading-the-report.md").read_text()
    assert not [title for _key, title, _problems in page(sample()).contents if f"**{title}**" not in guide]


def test_hostile_names_are_escaped() -> None:
    text = make(report_samples.hostile(), TEMPLATES)
    assert "<script" not in text and "<img" not in text
    assert "{{ 7 * 7 }}" in Reader(text).words


@given(st.text())
@settings(max_examples=60)
def test_any_name_is_rendered_as_text(name: str) -> None:
    plain, named = Reader(make(with_name(report_samples.ill(), "n"), TEMPLATES)), with_name(report_samples.ill(), name)
    reader = Reader(make(named, TEMPLATES))
    # A command with a name that ends a clause is shown as text and not as a command.
    assert sorted(reader.tags) == sorted(plain.tags) or re.search(r"[\s,;().]|^$", name) or len(named["hosts"]) != 4
    assert reader.attributes == plain.attributes


@given(st.dictionaries(st.sampled_from(sorted(report_samples.ill())), ANYTHING), st.dictionaries(st.text(), ANYTHING))
@settings(max_examples=100)
def test_any_report_gives_a_page_or_one_error(changes: dict[str, Any], more: dict[str, Any]) -> None:
    report = {**report_samples.ill(), **more, **changes}
    try:
        text = make(report, TEMPLATES)
    except AnsibleFilterError as error:
        assert "Error while reading the report" in str(error)
    else:
        assert "</html>" in text


@given(st.sampled_from(sorted(report_samples.ill()["hosts"]["gpu1"])), ANYTHING, ANYTHING)
@settings(max_examples=100)
def test_any_value_of_a_host_gives_a_page(key: str, value: Any, device: Any) -> None:
    report = report_samples.ill()
    report["hosts"]["gpu1"]["devices"] = [device, {"uuid": device, "mig": [device], "health": device}]
    report["hosts"]["gpu1"][key] = value
    assert "</html>" in make(report, TEMPLATES)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "it is not valid JSON"),
        ("", "it is not valid JSON"),
        ([1], "it is a list instead of a dictionary"),
        ("null", "it is nothing instead of a dictionary"),
        ({}, "it has no hosts"),
        ({"hosts": {"a": 1}, "totals": {}, "problems": []}, "the entry of host a is a number"),
    ],
)
def test_invalid_report_is_one_clear_error(value: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=f"Error while reading the report: {words}.*Use the JSON file"):
        make(value, TEMPLATES)


def test_old_report_without_actions_has_a_page() -> None:
    old = report_samples.well()
    for key in ("actions", "phases", "observed"):
        del old[key]
    for entry in old["hosts"].values():
        for key in ("inventory_name", "roles", "reachable", "topology", "versions", "certificates"):
            del entry[key]
    old["problems"] = [{"host": "gpu1", "gpu": "GPU-1", "cause": "no pod was given this GPU"}]
    shown = page(old)
    assert shown.state == "bad" and shown.todo[0].what == "no pod was given this GPU"
    assert "no pod was given this GPU" in make(old, TEMPLATES)


def test_failed_connections_are_drawn_at_the_broken_node() -> None:
    shown = {node.name: node.link for node in page(report_samples.ill()).drawing.nodes}
    assert shown == {"cp1": "ok", "gpu1": "ok", "gpu2": "unknown", "gpu3": "broken"}


def test_page_of_a_fleet_is_small() -> None:
    """The page of 40 nodes with 8 GPUs each must be small enough for mail, and readable if all of them are broken."""
    for problems in (False, True):
        assert len(make(report_samples.fleet(problems=problems), TEMPLATES).encode()) < 100_000
    assert len(make(report_samples.fleet(1, 1, problems=False), TEMPLATES).encode()) < 40_000
    broken = report_samples.fleet(63)
    for entry in broken["hosts"].values():
        entry["problems"] = [{"cause": "lost"}]
        for device in entry["devices"]:
            device |= {"healthy": False, "health": ["GPU is lost"]}
    assert len(make(broken, TEMPLATES).encode()) < 400_000


def test_nodes_with_problems_come_first_and_healthy_pools_are_folded() -> None:
    shown = page(report_samples.ill()).drawing
    assert [(node.name, node.word) for node in shown.nodes] == [
        ("gpu1", "2 problems"),
        ("gpu3", "pod network broken"),
        ("gpu2", "not reached"),
        ("cp1", "healthy"),
    ]
    shown = page(report_samples.fleet()).drawing
    assert [(node.name, node.word) for node in shown.nodes] == [
        ("gpu17", "1 problem"),
        ("gpu23", "not reached"),
        ("gpu08", "isolated"),
    ]
    assert [tile.label for tile in shown.nodes[0].tiles] == ["GPU 5"]
    assert [node.said for node in shown.nodes] == [
        "7 other GPUs, all verified",
        "8 GPUs, all unknown",
        "8 GPUs, all verified",
    ]
    assert [(pool.name, pool.what) for pool in shown.pools] == [
        ("a100", "27 nodes, 216 GPUs: 214 verified, 2 in use"),
        ("h100", "10 nodes, 80 GPUs, all verified"),
        ("Without GPUs", "1 node"),
    ]


def test_nodes_without_a_pool_are_folded_by_gpu_model() -> None:
    report = report_samples.fleet(12, 1, problems=False)
    for entry in report["hosts"].values():
        entry.pop("pool", None)
    assert [pool.name for pool in page(report).drawing.pools] == ["A100-SXM4-40GB", "H100 80GB HBM3", "Without GPUs"]


def tables(report: dict[str, Any]) -> dict[str, Any]:
    shown = page(report)
    return {
        table.key: table for table in (*shown.tables, *(table for _key, _title, each in shown.quiet for table in each))
    }


def test_backups_are_listed_with_their_age_and_copies() -> None:
    report = report_samples.well()
    assert "backups" not in tables(report)
    places = [{"place": "nas:gpulab", "failure": ""}, {"place": "gone:x", "failure": "no answer"}]
    good = {"archive": "/var/lib/gpulab/backups/x.tar.age", "hours": 3, "recipients": ["age1x"], "places": places}
    report["hosts"]["cp1"]["backup"] = {**good, "taken": "2026-11-28T12:00:00Z", "error": ""}
    found = tables(report)["backups"]
    assert not found.rows
    assert [[cell.text for cell in row] for row in found.fold.rows] == [
        ["x.tar.age", "cp1", "3 hours", "yes", "nas:gpulab"]
    ]
    report["hosts"]["cp1"]["backup"] = {"hours": 30, "archive": "", "taken": "", "error": "no space"}
    found = tables(report)["backups"]
    assert [[cell.text for cell in row] for row in found.rows] == [["none", "cp1", "30 hours", "no", "none"]]


def test_only_problems_are_unfolded() -> None:
    found = tables(report_samples.ill())
    assert [row[0].text for row in found["health"].rows] == ["gpu1 GPU 3"]
    assert found["health"].fold.label == "9 healthy GPUs"
    assert [row[1].text for row in found["xids"].rows] == ["79", "31"]
    assert [row[1].text for row in found["xids"].fold.rows] == ["45", "48"]
    assert [row[0].text for row in found["versions"].rows] == ["containerd.io"]
    assert [row[2].text for row in found["certificates"].rows] == ["expired 21 days ago", "12"]
    assert len(found["network"].rows) == 6
    well = tables(report_samples.well())
    assert not any(table.rows for table in well.values())
    assert well["health"].words == "All 6 GPUs are healthy."
    assert {cell.text for row in well["versions"].fold.rows for cell in row[-1:]} == {"cp1, gpu1, gpu2"}


def test_readings_are_shown_by_gpu_or_by_node_of_a_fleet() -> None:
    row = tables(report_samples.well())["health"].fold.rows[0]
    assert [cell.text for cell in row] == ["gpu1 GPU 0", "healthy", "34 °C", "0 of 15 GiB", "12 of 70 W", "0", ""]
    assert row[-1].codes == ("00000000:07:00.0", "GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a00")
    row = tables(report_samples.fleet())["health"].fold.rows[0]
    node = ["gpu01", "8 NVIDIA A100-SXM4-40GB", "33 to 39 °C", "0 of 320 GiB", "416 of 3200 W", "0"]
    assert [cell.text for cell in row] == node


def test_memory_errors_of_a_healthy_gpu_are_marked() -> None:
    report = report_samples.well()
    report["hosts"]["gpu1"]["devices"][0]["ecc_uncorrected"] = 3
    cell = tables(report)["health"].fold.rows[0][5]
    assert (cell.text, cell.state) == ("3", "warn")


def test_history_is_shown_after_several_runs() -> None:
    assert [(run.problems, run.state) for run in page(report_samples.ill()).history] == [
        ("4 errors, 2 warnings", "bad"),
        ("1 warning", "warn"),
        ("no problems", "ok"),
    ]
    assert page(report_samples.fleet(problems=False)).history == ()


def test_table_of_contents_counts_problems() -> None:
    assert page(report_samples.well()).contents == ()
    assert page(report_samples.fleet()).contents[:3] == (
        ("actions", "What to do", 4),
        ("cluster", "The cluster", 3),
        ("health", "GPU health", 1),
    )
    assert page(report_samples.fleet()).contents[-1] == ("passed", "Passed", 0)


def test_links_are_drawn_as_arcs_inside_the_drawing() -> None:
    topology = report_samples.matrix(8, "NV12")
    topology["matrix"]["GPU0"]["GPU1"] = "SYS"
    found = links(topology)
    assert found is not None and len(found.arcs) == 27
    assert {arc.count for arc in found.arcs} == {12}
    for arc in found.arcs:
        assert 0 <= arc.start < arc.end <= found.width and arc.height < arc.base < found.height


def test_equal_links_are_described_instead_of_drawn() -> None:
    found = links(report_samples.matrix(8, "NV12"))
    assert found is not None and found.arcs == ()
    assert found.words == "Each pair of GPUs is connected by 12 NVLinks."


@pytest.mark.parametrize(
    ("kind", "words"),
    [("NV1", "1 NVLink."), ("PHB", "the PCIe host bridge of a CPU."), ("odd", "odd.")],
)
def test_links_are_described_in_words(kind: str, words: str) -> None:
    found = links(report_samples.matrix(2, kind))
    assert found is not None and found.words == f"Each pair of GPUs is connected by {words}"


def test_different_links_are_listed() -> None:
    topology = report_samples.matrix(3, "SYS")
    topology["matrix"]["GPU0"]["GPU1"] = "NV4"
    found = links(topology)
    assert found is not None and len(found.arcs) == 1
    assert found.words == "Pairs of GPUs by 4 NVLinks: 0-1; the link between CPUs: 0-2, 1-2."


@given(ANYTHING, ANYTHING)
def test_any_topology_is_drawn_or_ignored(gpus: Any, matrix: Any) -> None:
    found = links({"gpus": gpus, "matrix": matrix})
    assert found is None or len(found.points) >= 2


def test_commands_have_the_options_of_the_run() -> None:
    shown = make(report_samples.ill(), TEMPLATES)
    assert "-i INVENTORY" not in shown
    assert "<pre><code>ansible-playbook gpulab.kubernetes.verify -i research.ini -K</code></pre>" in shown
    report = report_samples.ill()
    del report["origin"]["options"]
    assert "<pre><code>ansible-playbook gpulab.kubernetes.verify -i INVENTORY</code></pre>" in make(report, TEMPLATES)
