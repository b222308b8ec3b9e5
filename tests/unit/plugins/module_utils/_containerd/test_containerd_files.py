# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomllib
from ansible_collections.gpulab.kubernetes.plugins.filter.containerd import to_toml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._containerd import files as reader
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from hypothesis import assume, example, given
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
def test_import_patterns_of_a_configuration_are_read(text: str, patterns: list[str]) -> None:
    assert reader.import_patterns(text) == patterns


_VALUES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6) | st.just("x"), _VALUES), st.lists(st.text(max_size=12)), _VALUES)
@example({"": "'''"}, ['"', "\\", "\n", "#", "]"], {"imports": ["no"]})
def test_imports_are_the_same_as_tomllibs(before: dict[str, Any], imports: list[str], after: Any) -> None:
    tables = {key: value for key, value in before.items() if key != "imports"}
    text = to_toml({**tables, "imports": imports, "zz": after})
    assert reader.import_patterns(text) == tomllib.loads(text)["imports"] == imports


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "surrogateescape")))
def test_any_text_is_read_without_an_error(text: str) -> None:
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


def test_only_passwords_are_masked() -> None:
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
    assert "note" not in masked
    before, after = tomllib.loads(text), tomllib.loads(masked)
    auth = after["plugins"]["cri"]["registry"]["configs"]["r.example:5000"]["auth"]
    assert auth == {"username": "me", "password": "********", "identitytoken": "********"}
    auth.update(before["plugins"]["cri"]["registry"]["configs"]["r.example:5000"]["auth"])
    after["plugins"]["cri"]["registry"]["auths"]["x"].update(before["plugins"]["cri"]["registry"]["auths"]["x"])
    assert before == after


# Each form contains one secret.
FORMS = [
    "password = {}",
    "[a]\n  'password'={} # note",
    'registry.configs.r.auth."pass\\u0077ord" = {}',
    '"pass\\U00000077ord" = {}',
    "x = {{auth = {}}}",
    "x = [{{a = 1, identity-token = {}}}, 2]",
    "auth = {{username = {}, password = 'x'}}",
    "passwords = 1\nPassWord = [\n  {}, # note\n]",
    "header = {{Authorization = [{}]}}",
    '[host."https://r".header]\nX-Key = ["x",\n{},]\n[plugins]',
    "[[header]]\nx.y = {{z = [[{}]]}}",
    "header.X-Key = {}",
    "registrytoken = {}\n[a]",
    "secret_access_key = {}",
]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-!?&%()<>;: "
# The marker § does not occur elsewhere in these texts.
SECRETS = st.text(st.sampled_from(_LETTERS), min_size=8, max_size=40).map(lambda text: f"§{text}§")
STRINGS: dict[str, Callable[[str], str]] = {
    "basic": lambda secret: '"' + secret.replace("§", "\\u00a7") + '"',
    "literal": lambda secret: f"'{secret}'",
    "long basic": lambda secret: f'"""\n{secret[:5]}\\\n   {secret[5:]}"""',
    "long literal": lambda secret: f"'''\n{secret}\n'''",
}


def shown_pieces(secret: str, text: str) -> list[str]:
    return [secret[start : start + 8] for start in range(1, len(secret) - 8) if secret[start : start + 8] in text]


@given(st.sampled_from(FORMS), st.sampled_from(sorted(STRINGS)), SECRETS)
def test_no_form_of_a_secret_is_shown(form: str, string: str, secret: str) -> None:
    text = "version = 3\n" + form.format(STRINGS[string](secret)) + "\n[last]\nx = {a = 'b'}\n"
    tomllib.loads(text)
    masked = reader.masked(text)
    assert not shown_pieces(secret, masked)
    found = tomllib.loads(masked)
    assert found["version"] == 3 and "'b'" in masked


@given(st.sampled_from(FORMS), st.sampled_from(sorted(STRINGS)), SECRETS, st.integers(0, 200))
def test_no_secret_of_a_damaged_text_is_shown(form: str, string: str, secret: str, cut: int) -> None:
    text = "version = 3\n" + form.format(STRINGS[string](secret)) + "\n"
    cut = min(cut, len(text))
    for damaged in (
        text[:cut],
        text[:cut] + text[cut + 1 :],
        text[:cut] + '"' + text[cut:],
        text[:cut] + "\n" + text[cut:],
    ):
        try:
            tomllib.loads(damaged)
        except ValueError:
            # The damage may have removed what identifies the secret; a key that was destroyed can't be recognized.
            if "version = 3\n" in damaged and damaged[cut:] == text[cut:]:
                assert not shown_pieces(secret, reader.masked(damaged))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://me:S3cr3tS3cr3t@r.example/v2", "https://********@r.example/v2"),
        ("https://me:S3cr/3tS@3cr 3t@r.example", "https://********@r.example"),
        ("me:S3cr3tS3cr3t@r.example", "********@r.example"),
        ("Authorization: Basic S3cr3tS3cr3t", "********"),
        ("HTTP_PASSWORD=S3cr3tS3cr3t", "********"),
        ("Bearer S3cr3tS3cr3t", "********"),
        ("https://r.example:5000/v2", "https://r.example:5000/v2"),
        ("registry.k8s.io/pause:3.10@sha256:ab", "registry.k8s.io/pause:3.10@sha256:ab"),
        ("pause:3.10@sha256:ab", "pause:3.10@sha256:ab"),
        ("/usr/bin/nvidia-container-runtime", "/usr/bin/nvidia-container-runtime"),
    ],
)
def test_users_in_urls_and_authorization_headers_are_masked(value: str, shown: str) -> None:
    for quoted in (f'"{value}"', f"'{value}'", f'"""{value}"""', f"'''{value}'''"):
        masked = reader.masked(
            f"x = [{quoted}]\n[a.{quoted.replace(chr(34) * 3, chr(34))}]\n"
            if quoted[1] != quoted[0]
            else f"x = [{quoted}]\n"
        )
        assert tomllib.loads(masked)["x"] == [shown]
        assert "S3cr" not in masked
    assert "S3cr" not in reader.masked('x = "https://me:S3cr3tS3cr3t\\U00000040r.example"\n')
    assert "S3cr" not in reader.masked("x = https://me:S3cr3tS3cr3t@r.example\n")


@given(st.dictionaries(st.text(max_size=6), _VALUES))
def test_texts_without_a_secret_stay_as_they_are(tables: dict[str, Any]) -> None:
    text = to_toml({"a": tables, "b": [tables]})
    assume(not re.search("secret|pass|token|auth|header|credential|key|basic|bearer|@", text, re.IGNORECASE))
    assert tomllib.loads(reader.masked(text)) == tomllib.loads(text)
    assert tomllib.loads(reader.masked(f"# password = 'x'\n{text} # x")) == tomllib.loads(text)


@pytest.mark.parametrize(
    "damage",
    [
        "password\n= 'S3CRET'",
        "password 'S3CRET'",
        "x = 1, password = 'S3CRET'",
        "x = [\npassword = 'S3CRET'\n",
        "password = S3,CRET",
        'x = "\npassword = "S3CRET"',
        "x = }\npassword = 'S3CRET'",
        "[x] password = 'S3CRET'",
        "{password = 'S3CRET'}",
        "password\n'S3CRET'",
    ],
)
def test_text_after_damage_is_omitted(damage: str) -> None:
    masked = reader.masked(f"version = 3\nimports = ['/a']\n{damage}\nlast = 1\n")
    assert "S3" not in masked and "CRET" not in masked
    assert masked.startswith("version = 3\nimports = ['/a']\n") and reader.import_patterns(masked) == ["/a"]
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(masked)


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("toml: line 3: expected a token: '='", "toml: line 3: expected a token: '='"),
        ("error\n3| password = 'S3CRET\n4| x", "error\n3| password = ********\n4| x"),
        ("no such host https://me:S3CRET@r.example", "no such host https://********@r.example"),
    ],
)
def test_lines_quoted_in_containerds_errors_are_masked(message: str, shown: str) -> None:
    assert reader.masked_error(message) == shown


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


def test_files_are_returned_in_order_of_precedence(root: Root) -> None:
    root.write(BASE, f"imports = ['{DROP_INS}', 'extra/late.toml']\n")
    root.write("/etc/containerd/conf.d/99-nvidia.toml", "version = 3")
    # It imports itself and the base file, and a file after those that the base file imports.
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


def test_drop_ins_without_an_import_in_the_base_file_are_marked(root: Root) -> None:
    root.write(BASE, "version = 2\n# imports = ['/etc/containerd/conf.d/*.toml']\n")
    root.write("/etc/containerd/conf.d/99-nvidia.toml", "version = 2")
    assert root.files() == [("config.toml", True), ("conf.d/99-nvidia.toml", False)]


def test_a_host_without_configuration_has_no_files(root: Root) -> None:
    assert root.files() == []
    root.write("/etc/containerd/conf.d/99-nvidia.toml", "version = 2")
    assert root.files() == [("conf.d/99-nvidia.toml", False)]


def test_a_missing_file_imported_by_name_has_no_text(root: Root) -> None:
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
def test_import_patterns_match_like_in_go(root: Root, pattern: str, names: list[str]) -> None:
    # containerd takes a pattern without an asterisk as a file name, so [ab]?.toml does not exist.
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


def test_invalid_utf8_is_replaced(root: Root) -> None:
    root.write(BASE, b"root = 'caf\xe9'\nversion = 2\n")
    assert reader.config_files(str(root.root), BASE, DROP_INS)[0]["text"] == "root = 'caf\ufffd'\nversion = 2\n"


def test_an_unreadable_file_is_an_error(root: Root) -> None:
    root.write(BASE, "imports = ['loop.toml']")
    (root.root / "etc/containerd/loop.toml").symlink_to("loop.toml")
    with pytest.raises(DomainError, match="Too many levels"):
        root.files()
