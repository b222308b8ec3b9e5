# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Unmanaged configurations of containerd: recorded ones, and invalid texts."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._containerd.config import parse_release
from hypothesis import example, given
from hypothesis import strategies as st
from test_containerd_config import TRUE, V1, V4, files, read, table

_RUNC = "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc{}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version = 2\nimports =\n", "line 2"),
        ("version = '2'", "version is '2', not a number"),
        ("version = true", "version is True"),
        ("plugins = 3", "plugins is a number, not a table"),
        ("imports = 'x'", "imports is not a list of strings"),
        ("disabled_plugins = [1]", "disabled_plugins is not a list of strings"),
        ("root = 1979-05-27", "root is a date, not a string"),
        (_RUNC.format("]\nruntime_type = []"), "runtime_type is a list, not a string"),
        (_RUNC.format(".options]\nSystemdCgroup = 'true'"), "SystemdCgroup is a string, not true or false"),
        ("x = " + "[" * 100_000, "nested more than 64"),
        ("[" + "a." * 100 + "a]", "nested more than 64"),
        ("x = " + "{a.b = " * 40 + "1" + "}" * 40, "nested more than 64"),
        ("#" * 2**21, "the limit is"),
        ("x = " + "9" * 5000, "digits"),
    ],
)
def test_configuration_that_containerd_rejects_is_an_error(text: str, words: str) -> None:
    path = "/etc/containerd/conf.d/x.toml"
    with pytest.raises(
        AnsibleFilterError, match=rf"Error while reading containerd's configuration \({path}\): .*{words}"
    ):
        read([{"path": path, "text": text}])


@pytest.mark.parametrize("value", [3, {"a": 1}, ["text"], [{"path": "/x"}], None])
def test_input_of_another_type_is_an_error(value: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="containerd_config"):
        read(value)


@pytest.mark.parametrize("text", ["2.3.6", "v2.3.6", "2.3.6-1~debian.12~bookworm", "5:2.3.6-1"])
def test_release_is_parsed_from_package_versions(text: str) -> None:
    assert parse_release(text) == (2, 3, 6)


def test_invalid_release_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="'latest' is not a version of containerd"):
        read("", "latest")


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}" = {inline(one)}' for name, one in value.items()) + "}"
    return json.dumps(value)


_TABLES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text("ab", max_size=3), st.lists(st.text("ab"), max_size=2)),
    lambda inner: st.dictionaries(
        st.sampled_from(
            ["plugins", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri",
             "cri", "containerd", "runtimes", "default_runtime", "runc", "options", "pinned_images", "registry",
             "mirrors", "enable_cdi", "disabled_plugins", "imports", "version", "runtime_type", "SystemdCgroup"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip
_TEXTS = st.one_of(
    st.text(),
    st.binary().map(lambda data: data.decode("utf-8", "replace")),
    st.dictionaries(st.sampled_from(["plugins", "version", "imports", "disabled_plugins"]), _TABLES, max_size=4).map(
        lambda tables: "".join(f"{name} = {inline(value)}\n" for name, value in tables.items())
    ),
    st.tuples(st.sampled_from([V1, V4, table(2, **TRUE)]), st.integers(0), st.text(max_size=6), st.integers(0, 40)).map(
        lambda damage: damaged(*damage)
    ),
)


def damaged(text: str, at: int, by: str, without: int) -> str:
    at %= len(text)
    return text[:at] + by + text[at + without :]


@example(["plugins = {'io.containerd.cri.v1.runtime' = false, 'io.containerd.grpc.v1.cri' = {}}"], "")
@example(["version=4\nplugins={'io.containerd.grpc.v1.cri'={containerd=false}}", "version=2"], "2.2.1")
@given(st.lists(_TEXTS, max_size=3), st.sampled_from(["", "1.7.28", "2.2.1", "2.3.6"]))
def test_any_text_gives_a_result_or_a_clear_error(texts: list[str], release: str) -> None:
    try:
        result = read(files(*texts) if texts else [], release)
    except AnsibleFilterError as error:
        assert str(error).startswith("Error while reading containerd's configuration (/etc/containerd/")
        return
    assert result["version"] >= 1
    assert result["cdi"] in (True, False, None)
    for name, runtime in result["runtimes"].items():
        assert runtime["handler"] == name
        assert runtime["systemd_cgroup"] in (True, False, None)
        assert all(
            runtime[key] is None or (runtime[key] and isinstance(runtime[key], str)) for key in ("type", "binary")
        )


@pytest.mark.parametrize("unit", ["[a]\n", "a = 1\n", "x = '", "[[", "a.", "# c\n", '"""', "{", "imports = ['/a']\n"])
def test_large_invalid_texts_are_parsed_within_10_seconds(unit: str) -> None:
    begun = time.monotonic()
    with contextlib.suppress(AnsibleFilterError):
        read(unit * (200_000 // len(unit)))
    assert time.monotonic() - begun < 10


CAPTURES = Path(os.environ.get("GPULAB_CAPTURES", Path(__file__).parents[4].parent / "shared/captures"))
INDEX = CAPTURES / "INDEX.tsv"


def captures() -> list[tuple[str, dict[str, Any]]]:
    """Return (file, expected values) of each captured containerd configuration, if the captures are available."""
    if not INDEX.exists():
        return []
    with INDEX.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if row]
    return [(row[0], json.loads(row[-1])) for row in rows if row[0].startswith("containerd/")]


@pytest.mark.skipif(not INDEX.exists(), reason="GPULAB_CAPTURES names no directory of captures")
@pytest.mark.parametrize(("file", "said"), captures())
def test_captured_configuration_is_read_as_recorded(file: str, said: dict[str, Any]) -> None:
    result = read((CAPTURES / file).read_text(encoding="utf-8"))
    runtimes = result["runtimes"]
    found = {
        "version": None if said["version"] is None and result["version"] == 1 else result["version"],
        "effective_version": result["version"],
        "disabled_plugins": result["disabled_plugins"],
        "imports": result["imports"],
        "root": result["root"],
        "cri_table": result["cri_table"],
        "default_runtime_name": result["default_runtime"],
        "runtimes": sorted(runtimes),
        "nvidia_binary": {name: one["binary"] for name, one in runtimes.items() if "nvidia" in name},
        "systemd_cgroup": {name: one["systemd_cgroup"] for name, one in runtimes.items()},
        "enable_cdi": result["enable_cdi"],
        "sandbox_image": result["sandbox_image"],
        "nvidia_in_comments_only": not runtimes,
    }
    # Unlike the result, the index distinguishes a missing list from an empty one.
    wanted = {key: [] if value is None and isinstance(found[key], list) else value for key, value in said.items()}
    assert {key: found[key] for key in said} == wanted
