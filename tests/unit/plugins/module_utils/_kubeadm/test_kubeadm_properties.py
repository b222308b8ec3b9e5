# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""For any output of kubeadm or another program: a complete result or the reader's own error, without secrets."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import kubeadm_texts as texts
import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.certs import expiration
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.join_command import (
    certificate_key,
    complaint,
    is_ca_hash,
    join_command,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.text import KubeadmTextError, mask
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.tokens import is_token, tokens
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.upgrade_plan import upgrade_plan
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.version import parse_version, version
from hard_stop import hard_stop
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 20, 9, 30, 16, tzinfo=timezone.utc)
UPLOADED = f"[upload-certs] Using certificate key:\n{texts.KEY}\n"


def check_join(found: Any) -> None:
    assert found.host
    assert 0 < found.port < 65536
    assert is_token(found.token)
    assert found.ca_cert_hashes or found.unsafe_skip_ca_verification
    assert all(is_ca_hash(value) for value in found.ca_cert_hashes)
    assert found.certificate_key is None or len(found.certificate_key) == 64


def check_key(found: Any) -> None:
    assert len(found) == 64


def check_tokens(found: Any) -> None:
    assert all(is_token(token.token) for token in found)
    assert all(token.expires is None or token.expires.utcoffset().total_seconds() == 0 for token in found)


def check_expiration(found: Any) -> None:
    assert found.certificates
    for each in (*found.certificates, *found.authorities):
        assert each.name
        assert (each.expires is None) == (each.days_left is None) == each.missing


def check_version(found: Any) -> None:
    assert parse_version(found.text) == found


def check_plan(found: Any) -> None:
    for upgrade in found.upgrades:
        assert upgrade.version.startswith("v")
        assert "kube-apiserver" in {component.name for component in upgrade.components}
        assert all(component.current or component.target for component in upgrade.components)


READERS: dict[str, tuple[Callable[[str], Any], Callable[[Any], None], list[str]]] = {
    "join_command": (join_command, check_join, [*texts.JOIN_FORMS.values(), texts.INIT]),
    "join_command for a control plane": (
        lambda text: join_command(text, control_plane=True),
        check_join,
        [texts.INIT, texts.INIT_OLD],
    ),
    "certificate_key": (certificate_key, check_key, [UPLOADED, texts.INIT]),
    "tokens": (
        tokens,
        check_tokens,
        [texts.token_json() * 2, texts.token_json(expires=None), texts.TOKEN_TABLE, texts.TOKEN_TABLE_OLD],
    ),
    "expiration": (
        lambda text: expiration(text, NOW),
        check_expiration,
        [texts.certs_json(), texts.CERTS_TABLE, texts.CERTS_TABLE_1_17, texts.CERTS_TABLE_1_15],
    ),
    "version": (
        version,
        check_version,
        [texts.version_plain(), texts.version_json(), texts.VERSION_YAML, "v1.36.4\n"],
    ),
    "upgrade_plan": (
        upgrade_plan,
        check_plan,
        [
            texts.PLAN,
            texts.PLAN_1_9,
            texts.UP_TO_DATE_1_9,
            texts.PLAN_YAML,
            json.dumps(texts.PLAN_V1ALPHA3, indent=4),
            json.dumps(texts.PLAN_V1ALPHA2, indent=4),
        ],
    ),
}
NAMES = sorted(READERS)


def leaks(text: str) -> bool:
    """Return whether a text contains at least twelve characters of a secret."""
    secrets = (texts.SECRET, "0123456789abcdef", "z1z2z3z4z5z6z7z8")
    shown = any(secret[start : start + 12] in text for secret in secrets for start in range(5))
    # Damage can move a key to the place of a hash, where it can't be recognized.
    return shown or texts.KEY[:32] in re.sub(r"sha256:[0-9a-f]*", "", text)


def read(name: str, text: str) -> Any:
    """Return a reader's complete result, or None for its own error, which must not show a secret."""
    reader, check, _texts = READERS[name]
    try:
        with hard_stop():
            found = reader(text)
    except KubeadmTextError as error:
        assert len(str(error)) < 5000
        assert not leaks(str(error)), str(error)
        return None
    check(found)
    return found


@given(st.sampled_from(NAMES), st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    read(name, text)


@given(st.sampled_from(NAMES), st.data())
def test_damaged_output_is_read_or_refused(name: str, data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(READERS[name][2]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + data.draw(st.sampled_from([0, 1, 5, 40, 1000])))))
    read(name, text[:start] + data.draw(st.text(max_size=8)) + text[end:])


@given(st.sampled_from(NAMES), st.data())
def test_reordered_lines_are_read_or_refused(name: str, data: st.DataObject) -> None:
    lines = [line for text in READERS[name][2] for line in text.splitlines()]
    read(name, "\n".join(data.draw(st.lists(st.sampled_from(lines), max_size=30))))


JSON = {
    "tokens": texts.token_json(),
    "expiration": texts.certs_json(),
    "version": texts.version_json(),
    "upgrade_plan": json.dumps(texts.PLAN_V1ALPHA3, indent=4),
}


@given(st.sampled_from(sorted(JSON)), st.data())
def test_truncated_json_is_an_error(name: str, data: st.DataObject) -> None:
    text = JSON[name].rstrip()
    assert read(name, text) is not None
    assert read(name, text[: data.draw(st.integers(1, len(text) - 1))]) is None


@given(st.integers(0, len(texts.PLAN) - 1))
def test_from_a_truncated_plan_an_upgrade_is_read_completely_or_not_at_all(end: int) -> None:
    found = read("upgrade_plan", texts.PLAN[:end])
    whole = upgrade_plan(texts.PLAN)
    assert found is None or found.upgrades in (whole.upgrades, ())
    assert found is None or found.upgrades or end <= len(texts.PLAN_HEAD)


@given(st.text(), st.text())
def test_any_error_message_is_shown_without_secrets(stdout: str, stderr: str) -> None:
    said = complaint(stdout, f"{stderr} --token {texts.TOKEN} {texts.KEY}")
    assert not leaks(said)


def test_masking_keeps_text_without_secrets() -> None:
    text = f"kubeadm join 10.0.0.1:6443 --token {texts.TOKEN} {texts.PINNED} --certificate-key={texts.KEY} --v=5"
    expected = f"kubeadm join 10.0.0.1:6443 --token ******** {texts.PINNED} --certificate-key=******** --v=5"
    assert mask(text) == expected


UNITS = [
    " ",
    "\\",
    "\\ ",
    "\r",
    "\x1b[",
    "\x1b]0",
    "{",
    "[",
    '{"a":',
    "{}\n",
    "- ",
    "a: ",
    "a:\n",
    " a:\n",
    "a #",
    "0",
    "ab.",
    "--token ",
    "--token=",
    "kubeadm join ",
    "kubeadm join --token x\n",
    "kubeadm\t",
    "COMPONENT   ",
    "COMPONENT   CURRENT   TARGET\n",
    "CERTIFICATE   EXPIRES   RESIDUAL TIME\n",
    "TOKEN   TTL   EXPIRES   USAGES   DESCRIPTION\n",
    'GitVersion:"v1.36.4", ',
    "kubeadm version: &version.Info{",
    "clientVersion:\n",
    " gitVersion: v1\n",
    "I0101 00:00:00 ",
]
STARTS = [
    "",
    "kubeadm join 10.0.0.1:6443 --token ",
    "TOKEN   TTL   EXPIRES   USAGES   DESCRIPTION\n",
    "CERTIFICATE   EXPIRES   RESIDUAL TIME\n",
    "COMPONENT   CURRENT   TARGET\n",
    "API GROUP   CURRENT VERSION   PREFERRED VERSION   MANUAL UPGRADE REQUIRED\n",
    "kubeadm version: &version.Info{",
    "clientVersion:\n",
    "kind: ",
    '{"kind": "UpgradePlan", "a": [',
]


@pytest.mark.parametrize("name", NAMES)
def test_garbage_is_read_in_linear_time(name: str) -> None:
    reader = READERS[name][0]
    for unit in UNITS:
        for start in STARTS:
            begun = time.process_time()
            with hard_stop():
                try:
                    reader(start + unit * (100_000 // len(unit)))
                except KubeadmTextError as error:
                    assert len(str(error)) < 5000
            assert time.process_time() - begun < 4, (unit, start)
