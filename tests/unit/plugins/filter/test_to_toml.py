# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomllib
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import to_toml
from ansible_collections.gpulab.kubernetes.plugins.filter.files import containerd_hosts
from hypothesis import given
from hypothesis import strategies as st

SCALARS = (
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)


@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_written_toml_reads_back_unchanged(values: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(values)) == values


def test_nested_tables_have_quoted_names() -> None:
    values = {"version": 4, "plugins": {"io.containerd.cri.v1.runtime": {"cni": {"bin_dirs": ["/opt/cni/bin"]}}}}
    assert to_toml(values) == (
        'version = 4\n\n[plugins."io.containerd.cri.v1.runtime".cni]\nbin_dirs = ["/opt/cni/bin"]\n'
    )


def test_null_values_are_omitted() -> None:
    assert to_toml({"a": None, "b": 1}) == "b = 1\n"


@pytest.mark.parametrize("values", ["text", {"a": object()}])
def test_unsupported_values_are_an_error(values: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="to_toml"):
        to_toml(values)


def test_mirrors_of_a_registry_share_a_file_and_keep_their_order() -> None:
    mirrors = [
        {"registry": "docker.io", "endpoint": "https://a", "override_path": True, "ca": None},
        {"registry": "nvcr.io", "endpoint": "https://b"},
        {"registry": "docker.io", "endpoint": "https://c", "skip_verify": True},
    ]
    files = containerd_hosts(mirrors, "/certs")
    assert [file["path"] for file in files] == ["/certs/docker.io/hosts.toml", "/certs/nvcr.io/hosts.toml"]
    docker = tomllib.loads(files[0]["content"])
    assert docker["server"] == "https://registry-1.docker.io"
    assert list(docker["host"]) == ["https://a", "https://c"]
    assert docker["host"]["https://a"] == {"capabilities": ["pull", "resolve"], "override_path": True}


def test_default_for_all_registries_has_no_server() -> None:
    assert "server" not in tomllib.loads(
        containerd_hosts([{"registry": "_default", "endpoint": "http://m"}])[0]["content"]
    )


REGISTRIES = [
    "../../../etc/cron.d",
    "..",
    ".",
    "https://docker.io",
    "docker.io/x",
    "a b",
    "a\n",
    "",
    "docker.io:x",
]
ENDPOINTS = [
    "http://[::1",
    "http://m:x",
    "http://m:99999",
    "http://m:0",
    "m:5000",
    "",
    "ftp://m",
    "http://",
    "http://m n",
    "http://m\n",
    "http://m?x=1",
    "http://m#x",
    "file:///x",
    None,
]


@pytest.mark.parametrize(
    ("mirror", "words"),
    [
        *(
            ({"registry": value, "endpoint": "https://m"}, "the registry of entry 2 must be a host")
            for value in REGISTRIES
        ),
        *(({"registry": "r", "endpoint": value}, "the endpoint of entry 2 must be a URL") for value in ENDPOINTS),
        ({"registry": "r", "endpoint": "https://u:S3CRET@m"}, "the endpoint of entry 2 contains a user or a password"),
        ({"registry": "docker.io"}, "each entry must have registry, endpoint"),
        ("docker.io", "each entry must have registry, endpoint"),
    ],
)
def test_invalid_mirror_is_an_error_without_secrets(mirror: Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError, match=words) as caught:
        containerd_hosts([MIRROR, mirror])
    assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize(
    "endpoint", ["http://r:5000/@", "https://[2001:db8::1]:5000/v2", "https://mirror.example.org/a-b/"]
)
@pytest.mark.parametrize("registry", ["_default", "docker.io", "[2001:db8::1]:5000", "registry-1.docker.io:443"])
def test_valid_mirror_is_written(registry: str, endpoint: str) -> None:
    (file,) = containerd_hosts([{"registry": registry, "endpoint": endpoint}], "/certs")
    assert file["path"] == f"/certs/{registry}/hosts.toml" and list(tomllib.loads(file["content"])["host"]) == [
        endpoint
    ]


@given(st.lists(st.fixed_dictionaries({"registry": st.text() | st.none(), "endpoint": st.text() | st.integers()})))
def test_any_mirrors_give_separate_files_or_one_error(mirrors: list[dict[str, Any]]) -> None:
    try:
        files = containerd_hosts(mirrors, "/certs")
    except AnsibleFilterError:
        return
    assert all(Path(file["path"]).parts[:2] == ("/", "certs") and len(Path(file["path"]).parts) == 4 for file in files)


HEADER = {"Authorization": "Basic Y2k6UzNDUkVU"}
MIRROR = {"registry": "nvcr.io", "endpoint": "http://m:5000"}
HOST = {"capabilities": ["pull", "resolve"]}


@pytest.mark.parametrize(
    ("mirrors", "registry", "expected"),
    [
        ([], "nvcr.io", {"nvcr.io": {"server": "https://nvcr.io", "header": HEADER}}),
        ([], "docker.io", {"docker.io": {"server": "https://registry-1.docker.io", "header": HEADER}}),
        (
            [{"registry": "docker.io", "endpoint": "https://m"}],
            "registry-1.docker.io",
            {
                "docker.io": {"server": "https://registry-1.docker.io", "header": HEADER, "host": {"https://m": HOST}},
                "registry-1.docker.io": {"server": "https://registry-1.docker.io", "header": HEADER},
            },
        ),
        (
            [MIRROR],
            "nvcr.io",
            {"nvcr.io": {"server": "https://nvcr.io", "header": HEADER, "host": {"http://m:5000": HOST}}},
        ),
        (
            [MIRROR],
            "m:5000",
            {
                "nvcr.io": {"server": "https://nvcr.io", "host": {"http://m:5000": {**HOST, "header": HEADER}}},
                "m:5000": {"server": "https://m:5000", "header": HEADER},
            },
        ),
        # containerd only reads _default if a registry has no directory of its own.
        (
            [{"registry": "_default", "endpoint": "https://m"}],
            "nvcr.io",
            {
                "_default": {"host": {"https://m": HOST}},
                "nvcr.io": {"server": "https://nvcr.io", "header": HEADER, "host": {"https://m": HOST}},
            },
        ),
    ],
)
def test_credentials_are_only_sent_to_their_registry(
    mirrors: list[dict[str, Any]], registry: str, expected: dict[str, Any]
) -> None:
    credentials = [{"registry": registry, "username": "ci", "password": "S3CRET"}]
    files = {file["path"].split("/")[-2]: file for file in containerd_hosts(mirrors, "/certs", credentials)}
    texts = {name: file.get("content") or file["secret_content"] for name, file in files.items()}
    assert {name: tomllib.loads(text) for name, text in texts.items()} == expected
    private = {name for name, file in files.items() if file.get("mode") == "0600" and "secret_content" in file}
    assert private == {name for name, text in texts.items() if "Basic" in text}
