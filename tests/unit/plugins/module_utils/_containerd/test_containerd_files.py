# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import tomllib
from ansible_collections.gpulab.kubernetes.plugins.filter.to_toml import to_toml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd import files as reader
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from hypothesis import example, given
from hypothesis import strategies as st

BASE, DROP_INS = "/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml"


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("", []),
        ("version = 2\n", []),
        ('imports = ["/etc/containerd/conf.d/*.toml"]', ["/etc/containerd/conf.d/*.toml"]),
        ("version = 3\nimports = ['a.toml', \"b\\u0063.toml\"] # ['no']\n", ["a.toml", "bc.toml"]),
        ("imports = [\n  '/a', # '/b'\n  \"/c\",\n]\nroot = '/d'\n", ["/a", "/c"]),
        ('"imports" = ["""/a""", \'\'\'/b\'\'\']\r\n', ["/a", "/b"]),
        ("disabled_plugins = ['x']\nx = {imports = ['no']}\nimports = ['/a']", ["/a"]),
        ("x.imports = ['no']\nimports = []\n", []),
        ("[plugins]\nimports = ['no']\n", []),
        ("[[x]]\nimports = ['no']\n", []),
        ("#imports = ['no']\nx = \"\"\"\nimports = ['no']\n\"\"\"\nimports=['/a']", ["/a"]),
        ("imports = 'no'\n", []),
        ("imports = [['no'], '/a']\n", ["/a"]),
        ("imports = ['/a', 'never ends", ["/a"]),
        ('imports = ["/a", "never\nends"]', ["/a"]),
    ],
)
def test_import_patterns(text: str, patterns: list[str]) -> None:
    assert reader.import_patterns(text) == patterns


_VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6) | st.just("x"), _VALUES), st.lists(st.text(max_size=12)), _VALUES)
@example({"": "'''"}, ['"', "\\", "\n", "#", "]"], {"imports": ["no"]})
def test_tomllib_finds_the_same(before: dict[str, Any], imports: list[str], after: Any) -> None:
    tables = {key: value for key, value in before.items() if key != "imports"}
    text = to_toml({**tables, "imports": imports, "zz": after})
    assert reader.import_patterns(text) == tomllib.loads(text)["imports"] == imports


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_text_has_a_result(text: str) -> None:
    assert all(isinstance(pattern, str) for pattern in reader.import_patterns(text))
    assert reader.import_patterns("imports = ['/a']\n" + text)[:1] == ["/a"]
    reader.masked(text)


@pytest.mark.parametrize(
    "unit", ["[", "imports = [", '"', "'", '"""', "'''", "a.", "\\", "{", 'password = "', "#", " "]
)
def test_garbage_is_read_in_linear_time(unit: str) -> None:
    begun = time.process_time()
    for start in ("", "imports = [", 'imports = ["""', "x = '"):
        reader.import_patterns(start + unit * (300_000 // len(unit)))
        reader.masked(start + unit * (300_000 // len(unit)))
    assert time.process_time() - begun < 10


def test_passwords_are_masked_and_nothing_else() -> None:
    text = """
[plugins."cri".registry.configs."r.example:5000".auth]
  username = "me"
  password = "s3\\"cret" # note
  identitytoken='s3cret'
[plugins."cri".registry.auths]
x = {auth = "czNjcmV0", "password" = 's3cret'}
password_file = "/etc/x"
"""
    masked = reader.masked(text)
    assert "cret" not in masked and "czNj" not in masked
    before, after = tomllib.loads(text), tomllib.loads(masked)
    auth = after["plugins"]["cri"]["registry"]["configs"]["r.example:5000"]["auth"]
    assert auth == {"username": "me", "password": "********", "identitytoken": "********"}
    auth.update(before["plugins"]["cri"]["registry"]["configs"]["r.example:5000"]["auth"])
    after["plugins"]["cri"]["registry"]["auths"]["x"].update(before["plugins"]["cri"]["registry"]["auths"]["x"])
    assert before == after


class Root:
    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str | bytes) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)

    def files(self) -> list[tuple[str, bool]]:
        found = reader.config_files(str(self.root), BASE, DROP_INS)
        return [(file["path"].replace("/etc/containerd/", ""), file["imported"]) for file in found]


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_files_come_in_the_order_of_their_effect(root: Root) -> None:
    root.write(BASE, f"imports = ['{DROP_INS}', 'extra/late.toml']\n")
    root.write("/etc/containerd/conf.d/99-nvidia.toml", "version = 3")
    # It imports itself and the base in a circle, and a file that comes after those that the base names.
    root.write("/etc/containerd/conf.d/50-a.toml", f"imports = ['{DROP_INS}', '../config.toml', '/srv/last.toml']")
    root.write("/etc/containerd/conf.d/.hidden.toml", "")
    root.write("/etc/containerd/conf.d/no.toml.bak", "")
    root.write("/etc/containerd/extra/late.toml", "")
    root.write("/srv/last.toml", "")
    assert root.files() == [
        ("config.toml", True),
        ("conf.d/.hidden.toml", True),
        ("conf.d/50-a.toml", True),
        ("conf.d/99-nvidia.toml", True),
        ("extra/late.toml", True),
        ("/srv/last.toml", True),
    ]


def test_drop_ins_that_the_base_does_not_import(root: Root) -> None:
    root.write(BASE, "version = 2\n# imports = ['/etc/containerd/conf.d/*.toml']\n")
    root.write("/etc/containerd/conf.d/99-nvidia.toml", "version = 2")
    assert root.files() == [("config.toml", True), ("conf.d/99-nvidia.toml", False)]


def test_host_without_configuration(root: Root) -> None:
    assert root.files() == []
    root.write("/etc/containerd/conf.d/99-nvidia.toml", "version = 2")
    assert root.files() == [("conf.d/99-nvidia.toml", False)]


def test_file_that_is_imported_by_name_and_is_not_there(root: Root) -> None:
    root.write(BASE, "imports = ['gone.toml', '/none/*.toml']")
    found = reader.config_files(str(root.root), BASE, DROP_INS)
    assert [(file["path"], file["text"]) for file in found][1:] == [("/etc/containerd/gone.toml", None)]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.toml", ["a.toml", "b1.toml", "b2.toml"]),
        ("b?.*", ["b1.toml", "b2.toml"]),
        ("*[^1].toml", ["a.toml", "b2.toml"]),
        ("[ab]?.toml", []),
        ("x/*", []),
    ],
)
def test_patterns_are_those_of_go(root: Root, pattern: str, names: list[str]) -> None:
    # Without an asterisk a pattern is a name, so [ab]?.toml is a file that does not exist.
    root.write(BASE, f"imports = ['conf.d/{pattern}']")
    for name in ("a.toml", "b1.toml", "b2.toml"):
        root.write(f"/etc/containerd/conf.d/{name}", "")
    found = reader.config_files(str(root.root), BASE, "/none/*")
    assert [Path(file["path"]).name for file in found[1:] if file["text"] is not None] == names


def test_drop_ins_are_sorted_by_name(root: Root) -> None:
    names = [f"conf.d/{number:02}.toml" for number in range(20)]
    root.write(BASE, f"imports = ['{DROP_INS}']")
    for name in reversed(names):
        root.write(f"/etc/containerd/{name}", "")
    assert root.files()[1:] == [(name, True) for name in names]


def test_bytes_that_are_not_utf8_are_shown(root: Root) -> None:
    root.write(BASE, b"# caf\xe9\nversion = 2\n")
    assert reader.config_files(str(root.root), BASE, DROP_INS)[0]["text"] == "# caf\ufffd\nversion = 2\n"


def test_file_that_can_not_be_read(root: Root) -> None:
    root.write(BASE, "imports = ['loop.toml']")
    (root.root / "etc/containerd/loop.toml").symlink_to("loop.toml")
    with pytest.raises(DomainError, match="Too many levels"):
        root.files()
