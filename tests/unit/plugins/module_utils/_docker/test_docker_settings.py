# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._docker import engine
from ansible_collections.gpulab.kubernetes.plugins.module_utils._docker import settings as docker
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from hypothesis import given
from hypothesis import strategies as st

NVIDIA = {"path": "/usr/bin/nvidia-container-runtime"}
WANTED = {
    "default-runtime": "nvidia",
    "runtimes": {"nvidia": NVIDIA},
    "exec-opts": ["native.cgroupdriver=systemd"],
}


def test_settings_are_merged_into_an_empty_file() -> None:
    merged = docker.merge({}, WANTED, replace=False)
    assert (merged.values, merged.contradictions) == (WANTED, [])
    assert merged.keys == ["default-runtime", "runtimes", "exec-opts"]


def test_unmanaged_settings_are_kept() -> None:
    before = {
        "log-opts": {"max-size": "16m"},
        "runtimes": {"crun": {"path": "crun"}},
        "exec-opts": ["isolation=hyperv"],
        "registry-mirrors": ["https://m"],
    }
    wanted = {**WANTED, "registry-mirrors": ["https://m", "https://n"]}
    merged = docker.merge(before, wanted, replace=False)
    assert list(merged.values.items()) == [
        ("log-opts", {"max-size": "16m"}),
        ("runtimes", {"crun": {"path": "crun"}, "nvidia": NVIDIA}),
        ("exec-opts", ["isolation=hyperv", "native.cgroupdriver=systemd"]),
        ("registry-mirrors", ["https://m", "https://n"]),
        ("default-runtime", "nvidia"),
    ]
    assert merged.keys == ["default-runtime", "runtimes.nvidia", "exec-opts", "registry-mirrors"]
    assert docker.merge(merged.values, wanted, replace=False).keys == []


@pytest.mark.parametrize(
    ("before", "key", "present"),
    [
        ({"default-runtime": "crun"}, "default-runtime", "crun"),
        ({"runtimes": {"nvidia": {"path": "/opt/n"}}}, "runtimes.nvidia.path", "/opt/n"),
        ({"runtimes": []}, "runtimes", []),
        ({"runtimes": {"nvidia": "x"}}, "runtimes.nvidia", "x"),
        ({"exec-opts": ["native.cgroupdriver=cgroupfs"]}, "exec-opts", "native.cgroupdriver=cgroupfs"),
    ],
)
def test_a_different_value_is_reported_or_replaced(before: dict[str, Any], key: str, present: Any) -> None:
    kept = docker.merge(before, WANTED, replace=False)
    assert [one[:2] for one in kept.contradictions] == [(key, present)]
    assert key not in kept.keys
    replaced = docker.merge(before, WANTED, replace=True)
    assert replaced.values == WANTED and not replaced.contradictions


def test_other_values_of_an_option_are_replaced_in_place() -> None:
    before = {"exec-opts": ["a=1", "native.cgroupdriver=cgroupfs", "b", "native.cgroupdriver=x"]}
    after = docker.merge(before, WANTED, replace=True).values["exec-opts"]
    assert after == ["a=1", "native.cgroupdriver=systemd", "b"]


@pytest.mark.parametrize(
    ("before", "wanted", "same"),
    [
        (
            {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}},
            {"runtimes": {"nvidia": NVIDIA}},
            True,
        ),
        ({"runtimes": {"nvidia": {"path": "bin/nvidia-container-runtime"}}}, {"runtimes": {"nvidia": NVIDIA}}, False),
        ({"data-root": "x"}, {"data-root": "/y/x"}, False),
        ({"live-restore": True}, {"live-restore": 1}, False),
        ({"live-restore": True}, {"live-restore": True}, True),
        ({"debug": None}, {"live-restore": None}, True),
    ],
)
def test_equivalent_values_are_not_a_change(before: dict[str, Any], wanted: dict[str, Any], same: bool) -> None:
    merged = docker.merge(before, wanted, replace=False)
    assert (not merged.contradictions) is same
    assert merged.keys == [] and merged.values == before


@pytest.mark.parametrize("text", ["", " \n", "{}", "\ufeff{}\r\n"])
def test_a_file_without_settings_is_empty(text: str) -> None:
    assert docker.read_daemon(text) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n  "a": 1,\n}', r"not valid JSON \(line"),
        ('{"a": 1} // why', r"not valid JSON \(line 1, column 10"),
        ('{"a": 1, "a": 2}', "the key a occurs twice"),
        ("[]", "not a JSON object"),
        ("null", "not a JSON object"),
        ('{"a": NaN}', "NaN is not a valid number"),
        ('{"a": 1e999}', "1e999 is too large"),
        ('{"a": ' + "9" * 5000, "is too long"),
        ("[" * 100_000, "nested too deeply"),
        ('{\n"a": "\udce9"}', r"not UTF-8 \(line 2\)"),
        ("\u00a0", "not valid JSON"),
    ],
)
def test_a_file_that_docker_would_refuse_is_an_error(text: str, words: str) -> None:
    with pytest.raises(DomainError, match=words):
        docker.read_daemon(text)


def test_facts_are_derived_from_the_settings() -> None:
    assert docker.facts({**WANTED, "data-root": "/data"}) == {
        "default_runtime": "nvidia",
        "runtimes": {"nvidia": "/usr/bin/nvidia-container-runtime"},
        "cgroup_driver": "systemd",
        "data_root": "/data",
    }
    nothing: dict[str, Any] = {"default_runtime": None, "runtimes": {}, "cgroup_driver": None, "data_root": None}
    assert docker.facts({}) == nothing
    assert docker.facts({"runtimes": 1, "exec-opts": 2, "default-runtime": 3, "data-root": ""}) == nothing


def test_indentation_is_kept() -> None:
    for indent in ("  ", "\t", "        "):
        before = json.dumps({"a": {"b": 1}}, indent=indent)
        assert docker.written({"a": {"b": 1}}, before) == before + "\n"
    assert docker.written({"a": "ü\ud800"}, "{}") == '{\n    "a": "\\u00fc\\ud800"\n}\n'


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab.=", max_size=2), inner, max_size=3),
    max_leaves=10,
)
_OBJECTS = st.dictionaries(st.text("ab.=", max_size=2) | st.sampled_from(["runtimes", "exec-opts"]), _JSON, max_size=4)


@given(_OBJECTS, st.sampled_from(["", '{\n\t"', "\ufeff"]))
def test_written_settings_can_be_read_back(values: dict[str, Any], before: str) -> None:
    text = docker.written(values, before)
    again = docker.read_daemon(text)
    assert json.dumps(again) == json.dumps(values)
    assert docker.read_daemon("\ufeff" + text.replace("\n", "\r\n")) == again


@given(_OBJECTS, _OBJECTS)
def test_no_unmanaged_setting_is_lost(before: dict[str, Any], wanted: dict[str, Any]) -> None:
    kept = docker.merge(before, wanted, replace=False)
    for key, value in before.items():
        after = kept.values[key]
        if isinstance(value, dict) and isinstance(after, dict):
            assert value.keys() <= after.keys()
        elif isinstance(value, list):
            assert after[: len(value)] == value
        elif value is not None:
            assert after == value
    replaced = docker.merge(before, wanted, replace=True)
    assert replaced.contradictions == []
    assert before.keys() <= replaced.values.keys()
    # A list can't hold two values of one option.
    if "=" not in json.dumps(wanted):
        again = docker.merge(replaced.values, wanted, replace=False)
        assert (again.keys, again.contradictions) == ([], [])


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(docker.read_daemon(text), dict)
    except DomainError as error:
        assert str(error)
    docker.shown(text)


@pytest.mark.parametrize("unit", ["[", "{", '{"a":', '"', "9", "-", "1.", '{"a":1},', "://a:", " "])
def test_garbage_is_read_in_linear_time(unit: str) -> None:
    begun = time.process_time()
    for start in ("", '{"a": ', '{"a": [', '{"a": "://'):
        text = start + unit * (1_000_000 // len(unit))
        with contextlib.suppress(DomainError):
            docker.read_daemon(text)
        docker.shown(text)
    assert time.process_time() - begun < 10


CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", Path(__file__).parents[5].parent / "shared/captures"))
INDEX = CAPTURES / "INDEX.tsv"


def captures() -> list[tuple[str, dict[str, Any]]]:
    lines = INDEX.read_text(encoding="utf-8").splitlines() if INDEX.exists() else []
    rows = [line.split("\t") for line in lines if line.startswith("docker/")]
    return [(row[0], json.loads(row[-1])) for row in rows]


@pytest.mark.skipif(not INDEX.exists(), reason="GPULAB_CAPTURES names no directory of captures")
@pytest.mark.parametrize(("file", "said"), captures())
def test_captured_configurations_are_read(file: str, said: dict[str, Any]) -> None:
    text = (CAPTURES / file).read_text(encoding="utf-8")
    if not said["valid_json"]:
        with pytest.raises(DomainError):
            docker.read_daemon(text)
        return
    values = docker.read_daemon(text)
    found = docker.facts(values)
    assert {
        "valid_json": True,
        "keys": sorted(values),
        "default_runtime": found["default_runtime"],
        "runtimes": sorted(found["runtimes"]),
        "nvidia_path": found["runtimes"].get("nvidia"),
        "cgroupdriver": [found["cgroup_driver"]] if found["cgroup_driver"] else [],
        "data_root": found["data_root"],
    } == said
    merged = docker.merge(values, WANTED, replace=True)
    assert {key: merged.values[key] for key in values.keys() - WANTED.keys()} == {
        key: values[key] for key in values.keys() - WANTED.keys()
    }


@pytest.mark.parametrize("plugins", [True, 7, "buildx", {"Name": "buildx"}, [["buildx"]]])
def test_an_invalid_list_of_plugins_counts_as_empty(plugins: Any) -> None:
    assert engine.read_info(json.dumps({"ClientInfo": {"Plugins": plugins}}))["plugins"] == []
