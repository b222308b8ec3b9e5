# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
# Replaces helm. Its chart reads driver.more in addition to the values in its values.yaml.
HELM = f"""#!{sys.executable}
import json, sys, time
if sys.argv[1] == "pull":
    sys.exit("no such repository" if "--repo" not in sys.argv or "gone" in sys.argv else 0)
if sys.argv[1] == "show":
    print("operator: {{image: a, repository: b, 8080: c}}\\ndriver: {{env: []}}\\nworker: {{config: {{}}}}\\nempty:")
    sys.exit()
values = json.load(sys.stdin)
if values.get("driver", {{}}).get("env") == "broken":
    sys.exit("can't render")
if values.get("random"):
    print(time.time_ns())
print(json.dumps([values.get("driver", {{}}).get("more"), values.get("worker")]))
if "--include-crds" in sys.argv:
    print("---\\nkind: Rendered\\nimage: " + values.get("operator", {{}}).get("image", "none"))
    print("namespace: " + sys.argv[sys.argv.index("--namespace") + 1])
    if "--kube-version" in sys.argv:
        print("version: " + sys.argv[sys.argv.index("--kube-version") + 1])
"""


@pytest.fixture
def ask(run_module: Run, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    helm = tmp_path / "helm"
    helm.write_text(HELM)
    helm.chmod(0o755)

    def call(values: dict[str, Any], **more: Any) -> dict[str, Any]:
        return run_module("helm_chart_info", {"helm": str(helm), "chart": "chart", "values": values, **more})

    return call


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"operator": {"image": "x"}, "driver": {"env": [{"name": "A"}]}},
        {"operator": {"image": None, "8080": "x"}, "driver": None},
        {"worker": {"config": {"deep": {"er": 1}}}, "empty": "x"},
        # Not in values.yaml, but read by a template.
        *({"driver": {"more": value}} for value in (True, 0, 1.5, "", "text", [], ["x"], {}, {"a": 1})),
    ],
)
def test_values_that_the_chart_reads_are_accepted(ask: Callable[..., dict[str, Any]], values: dict[str, Any]) -> None:
    assert ask(values)["problems"] == []


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ({"nonsense": {"deep": 1}}, "chart_value_unread", ["does not read nonsense.deep", "remove it"]),
        ({"driver": {"envs": []}}, "chart_value_unread", ["does not read driver.envs", "driver.env looks like it"]),
        (
            {"operator": {"imge": 1}},
            "chart_value_unread",
            ["operator.imge", "operator.image looks like it"],
        ),
        ({"driver": {"old": {"x": 1}}}, "chart_value_removed", ["driver.old.x any more", "use driver.env"]),
        ({"operator": "x"}, "chart_value_wrong", ["operator must be a mapping, not a text"]),
        ({"operator": {"image": {"a": 1}}}, "chart_value_wrong", ["operator.image must be a value or a list"]),
    ],
)
def test_values_that_the_chart_does_not_read_are_problems(
    ask: Callable[..., dict[str, Any]], values: dict[str, Any], kind: str, words: list[str]
) -> None:
    found = ask(values, variable="my_values", removed={"driver.old": "use driver.env"})["problems"]
    assert [(problem["kind"], problem["where"]) for problem in found] == [(kind, "my_values")]
    assert all(word in found[0]["what"] + found[0]["do"] for word in words)


def test_rendered_objects_are_returned(ask: Callable[..., dict[str, Any]]) -> None:
    kinds = ["Rendered"]
    made = {"kind": "Rendered", "image": "x", "namespace": "default"}
    assert ask({"operator": {"image": "x"}}, kinds=kinds)["objects"] == [made]
    (there,) = ask({}, kinds=kinds, namespace="gpu-operator", kubernetes_version="1.36.4")["objects"]
    assert there == {**made, "image": "none", "namespace": "gpu-operator", "version": "1.36.4"}
    assert ask({"operator": {"image": "x"}}, kinds=["Other"])["objects"] == []
    unread: dict[str, Any] = {"driver": {"envs": []}}
    assert ask(unread, kinds=kinds)["objects"] == []
    assert ask(unread, kinds=kinds, check_values=False)["problems"] == []


def test_a_chart_that_renders_differently_each_time_is_not_checked(ask: Callable[..., dict[str, Any]]) -> None:
    assert "renders differently each time" in ask({"random": True})["msg"]
    assert ask({"random": True}, check_values=False)["problems"] == []


def test_a_value_may_be_secret_and_is_not_shown(ask: Callable[..., dict[str, Any]]) -> None:
    assert "hunter2" not in str(ask({"operator": "hunter2"}))


def test_the_message_of_helm_is_shown(ask: Callable[..., dict[str, Any]]) -> None:
    assert "can't render" in ask({"driver": {"env": "broken", "more": 1}})["msg"]
    result = ask({}, repository="https://charts.example.com", version="gone")
    assert "fetching the chart chart gone from https://charts.example.com: no such repository" in result["msg"]
    assert ask({}, repository="https://charts.example.com", version="v1")["problems"] == []
