# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report as JUnit XML that conforms to windyroad's JUnit.xsd."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest
import report_samples
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.report import FilterModule
from hypothesis import given, settings
from hypothesis import strategies as st

junit = FilterModule().filters()["report_junit"]
OUTCOMES = {"skipped": "skipped", "failure": "failures", "error": "errors"}
REQUIRED = {"name", "hostname", "package", "id", "tests", "failures", "errors", "skipped", "time"}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def read(document: str) -> ElementTree.Element:
    """Check the document against the requirements of the schema, and return its root."""
    root = ElementTree.fromstring(document)
    assert root.tag == "testsuites" and {suite.tag for suite in root} <= {"testsuite"}
    totals = dict.fromkeys(("tests", *OUTCOMES.values()), 0)
    for place, suite in enumerate(root):
        assert set(suite.keys()) >= REQUIRED and suite.get("id") == str(place)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp", "2026-01-01T00:00:00"))
        first, *cases, out, err = suite
        assert [first.tag, out.tag, err.tag] == ["properties", "system-out", "system-err"] and cases
        assert all(each.tag == "property" and set(each.keys()) == {"name", "value"} for each in first)
        counts = dict.fromkeys(totals, 0)
        for case in cases:
            assert case.tag == "testcase" and set(case.keys()) == {"name", "classname", "time"} and len(case) < 2
            counts["tests"] += 1
            for outcome in case:
                counts[OUTCOMES[outcome.tag]] += 1
                assert set(outcome.keys()) == {"message"} | ({"type"} if outcome.tag != "skipped" else set())
        for key, count in counts.items():
            assert suite.get(key) == str(count)
            totals[key] += count
    assert {key: root.get(key) for key in totals} == {key: str(count) for key, count in totals.items()}
    return root


def outcomes(document: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the outcome and text of each case, by host and name of the case."""
    return {
        (suite.get("name", ""), case.get("name", "")): (
            (case[0].tag, f"{case[0].get('type', '')} {case[0].get('message')} {case[0].text or ''}")
            if len(case)
            else ("passed", "")
        )
        for suite in read(document)
        for case in suite.iter("testcase")
    }


def test_verified_cluster_has_a_case_for_each_gpu() -> None:
    report = report_samples.well()
    report["hosts"]["gpu2"]["proven_at"] = "2026-11-21T04:00:00Z"
    root = read(junit(report))
    assert (root.get("name"), root.get("tests"), root.get("failures"), root.get("skipped")) == ("lab", "6", "0", "0")
    assert [(suite.get("name"), suite.get("tests")) for suite in root] == [("gpu1", "4"), ("gpu2", "2")]
    assert root[1].get("timestamp") == "2026-11-21T04:00:00"
    properties = {each.get("name"): each.get("value") for each in root[0].iter("property")}
    assert properties["simulated"] == "true" and properties["kubernetes"] == "v1.36.4"
    case = root[1][1]
    assert case.get("classname") == "lab.gpu2"
    assert case.get("name") == "GPU 0, NVIDIA A100-SXM4-40GB, GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a00"


def test_each_gpu_and_problem_has_its_outcome() -> None:
    found = outcomes(junit(report_samples.ill()))
    gpus = {int(name[4]): outcome for (host, name), outcome in found.items() if host == "gpu1" and name[:4] == "GPU "}
    assert {index: outcome for index, (outcome, _words) in gpus.items()} == {
        **dict.fromkeys((0, 4, 5, 6, 7), "passed"),
        1: "skipped",
        2: "failure",
        3: "failure",
    }
    assert "in use by pod research/train-0" in gpus[1][1]
    # The error of a GPU and its remedy are part of the GPU's case.
    assert "GPU 3 is unhealthy: GPU is lost" in gpus[3][1] and "Do: Reboot the host." in gpus[3][1]
    assert ("gpu1", "GPU 3 is unhealthy: GPU is lost") not in found
    assert found["cp1", "certificate admin.conf has expired"][0] == "error"
    outcome, words = found["cp1", "certificate apiserver expires in 12 days"]
    assert outcome == "skipped" and "warning: certificate apiserver" in words
    # An unreachable host is one error; its GPUs are skipped, because their state may be outdated.
    silent = {outcome for (host, _name), (outcome, _words) in found.items() if host == "gpu2"}
    assert silent == {"error", "skipped"}
    assert sum(outcome == "error" for (host, _name), (outcome, _words) in found.items() if host == "gpu2") == 1


@pytest.mark.parametrize(
    ("device", "outcome", "words"),
    [
        ({}, "passed", ""),
        ({"state": "in_use", "pod": "a/b"}, "skipped", "in use by pod a/b"),
        ({"state": "in_use", "healthy": False, "health": ["lost"]}, "failure", "gpu_unhealthy unhealthy: lost Do: "),
        ({"healthy": False, "advice": ["Reset it."]}, "failure", "Do: Reset it. Then verify it: ansible-playbook"),
        ({"state": "unproven", "reason": "no pod"}, "failure", "gpu_unproven not verified: no pod Do: Then verify it"),
        ({"state": "missing", "kind": "gpu_not_given", "reason": "x"}, "failure", "gpu_not_given not verified: x"),
        ({"state": 7}, "failure", "not verified: no reason given"),
    ],
)
def test_outcome_follows_from_the_state_of_the_gpu(device: dict[str, Any], outcome: str, words: str) -> None:
    report = report_samples.well()
    report["hosts"] = {"gpu1": report_samples.host(report_samples.device(0, **device))}
    ((found, said),) = outcomes(junit(report)).values()
    assert found == outcome and words in said


def test_problems_of_an_old_report_without_actions_are_included() -> None:
    report = report_samples.ill()
    del report["actions"]
    report["problems"] = [{"kind": "gpu_count", "host": "gpu1", "cause": "One GPU is missing", "do": "Look for it"}]
    outcome, words = outcomes(junit(report))["gpu1", "One GPU is missing"]
    assert outcome == "error" and "Do: Look for it" in words


def test_problem_of_two_gpus_is_in_both_cases_with_all_details() -> None:
    report = report_samples.well()
    first, second, *_others = (device["uuid"] for device in report["hosts"]["gpu1"]["devices"])
    problem = {"severity": "error", "problem": "gpu_not_given", "what": "no pod got it", "host": "gpu1"}
    told = {"gpu": f"{first}, {second}", "where": "the device plugin", "why": "nothing can use it", "do": "Restart it."}
    report["actions"] = [{**problem, **told}, {**problem, "host": "", "what": "the API could not be read"}]
    found = outcomes(junit(report))
    words = "gpu_not_given no pod got it Where: the device plugin\nWhy: nothing can use it\nDo: Restart it."
    assert [said for outcome, said in found.values() if outcome == "failure"] == [words, words]
    # Problems without a host are in a suite with the cluster's name.
    assert found["lab", "the API could not be read"][0] == "error"


@pytest.mark.parametrize(
    ("severity", "reachable", "gpu", "own"),
    [
        ("error", True, "failure", None),
        ("error", False, "skipped", "error"),
        ("warning", True, "passed", "skipped"),
        ("warning", False, "skipped", "skipped"),
    ],
)
def test_problem_is_in_the_case_of_its_gpu_or_in_its_own(
    severity: str, reachable: bool, gpu: str, own: str | None
) -> None:
    report, device = report_samples.well(), report_samples.device(0)
    report["hosts"] = {"gpu1": report_samples.host(device, reachable=reachable)}
    report["actions"] = [{"severity": severity, "host": "gpu1", "gpu": device["uuid"], "what": "hot"}]
    found = {name.partition(",")[0]: outcome for (_host, name), (outcome, _words) in outcomes(junit(report)).items()}
    assert found == {"GPU 0": gpu, **({"hot": own} if own else {})}


def test_reports_with_equal_results_have_equal_documents() -> None:
    first, second = report_samples.ill(), report_samples.ill()
    second |= {"observed": "2027-01-01T00:00:00Z", "generated": "2027-01-01T00:00:00Z", "history": [], "kept": True}
    second["hosts"]["gpu1"]["devices"][0] |= {"temperature_c": 80, "memory_used_mib": 9000, "power_draw_w": 390.0}
    assert junit(first) == junit(second)


def test_hostile_names_are_escaped() -> None:
    found = outcomes(junit(report_samples.hostile()))
    assert any(report_samples.HOSTILE in name for _host, name in found)


@pytest.mark.parametrize("words", ["a\x00b", "a\x1b[31mb", "a\ud800b", "a\ufffeb", "a\x0bb\x1f"])
def test_characters_that_are_invalid_in_xml_are_removed(words: str) -> None:
    report = report_samples.well()
    report["actions"] = [{"severity": "error", "host": "gpu1", "what": words, "do": words}]
    report["cluster"]["name"] = report["hosts"]["gpu1"]["devices"][0]["name"] = words
    document = junit(report)
    document.encode()
    assert read(document).get("name") == re.sub("[^ab\\[31m]", "", words)


@settings(deadline=None)
@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING, st.text())
def test_any_report_gives_a_valid_document(cluster: Any, host: Any, devices: Any, actions: Any, word: str) -> None:
    told = {"severity": "error", "host": word, "what": word, "do": word, "gpu": word}
    entry = {**(host if isinstance(host, dict) else {}), "devices": devices}
    known = {"devices": [{"uuid": word, "name": word, "state": word}], "proven_at": word}
    report = {"hosts": {word: entry, f"{word}2": known}, "totals": {}, "problems": [], "cluster": cluster}
    document = junit({**report, "actions": [told, *(actions if isinstance(actions, list) else [])]})
    assert read(document).get("tests") != "0"
    document.encode()


def test_invalid_report_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="it has no hosts"):
        junit({})
