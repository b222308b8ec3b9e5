# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import tokens as kubeadm
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.text import KubeadmTextError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.tokens import Token
from kubeadm_texts import GATES, KLOG, NODES, SECRET, TOKEN, TOKEN_TABLE, TOKEN_TABLE_OLD, token_json

NOW = datetime(2026, 11, 20, 21, 0, tzinfo=timezone.utc)
BOTH = ("authentication", "signing")
ETCD = '{"level":"warn","ts":"2026-11-20T21:00:00.000Z","caller":"v3@v3.6.4/retry_interceptor.go:65"}'


@pytest.mark.parametrize("front", ["", f"{KLOG}\n", f"{GATES}\n", "I am a wrapper\n", f"{ETCD}\n", "\n\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_several_json_objects_are_read(front: str, end: str) -> None:
    text = token_json() + f"{KLOG}\n" + token_json("abcdef.0123456789abcdef", description="ours", expires=None)
    one, other = kubeadm.tokens((front + text).replace("\n", end))
    assert one == Token(TOKEN, NOW + timedelta(days=1), BOTH, (NODES,), None)
    assert other == Token("abcdef.0123456789abcdef", None, BOTH, (NODES,), "ours")
    assert one.id == "8l4jks"


def test_json_objects_on_one_line_are_read() -> None:
    text = "".join(part.replace("\n", "") for part in (token_json(), token_json("abcdef.0123456789abcdef")))
    assert [token.id for token in kubeadm.tokens(text)] == ["8l4jks", "abcdef"]


@pytest.mark.parametrize("text", ["", "\n", f"{KLOG}\n", f"{GATES}\n", TOKEN_TABLE.split("\n")[0]])
def test_no_output_means_no_tokens(text: str) -> None:
    assert kubeadm.tokens(text) == []


def test_table_output_is_read() -> None:
    one, forever, expired = kubeadm.tokens(f"{KLOG}\n{TOKEN_TABLE}")
    assert one == Token(TOKEN, NOW + timedelta(days=1), BOTH, (NODES,), "made  by  hand")
    assert forever == Token("abcdef.0123456789abcdef", None, BOTH, (NODES, "system:bootstrappers:x"), None)
    description = "Proxy for the kubeadm-certs secret"
    assert expired == Token("zzzzzz.z1z2z3z4z5z6z7z8", NOW - timedelta(hours=1), (), (), description)


def test_a_table_without_groups_is_read() -> None:
    (token,) = kubeadm.tokens(TOKEN_TABLE_OLD)
    assert token == Token(TOKEN, NOW + timedelta(days=1), BOTH, (), None)
    assert not token.lets_join(NOW), "what its groups are is not known"


@pytest.mark.parametrize(
    ("changes", "lets_join"),
    [
        ({}, True),
        ({"expires": None}, True),
        ({"expires": "2026-11-20T21:05:00.123456789Z"}, False),
        ({"expires": "2026-11-20T23:30:00+02:00"}, True),
        ({"expires": "2026-11-20T20:00:00Z"}, False),
        ({"usages": ["authentication"]}, False),
        ({"usages": None}, False),
        ({"groups": ["system:bootstrappers:other"]}, False),
        ({"groups": None}, False),
    ],
)
def test_a_token_that_allows_joining_is_recognized(changes: dict[str, object], lets_join: bool) -> None:
    (token,) = kubeadm.tokens(token_json(**changes))
    assert token.lets_join(NOW, timedelta(minutes=10)) == lets_join


def test_a_token_that_expires_at_this_moment_counts_as_expired() -> None:
    (token,) = kubeadm.tokens(token_json(expires="2026-11-20T21:00:00Z"))
    assert not token.lets_join(NOW)
    assert token.lets_join(NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    "text",
    [
        "{",
        token_json()[:-5],
        token_json()[1:],
        token_json("x"),
        '{"items": []}',
        token_json(expires="soon"),
        token_json(expires=""),
        token_json(expires=1),
        token_json(expires="0001-01-01T00:00:00+10:00"),
        token_json(usages="signing"),
        token_json(groups=[1]),
        "{}" * 3,
        f"[{token_json()}]",
        f"{token_json()}and so on",
        f"timed out waiting for the condition {TOKEN}",
        f"kubeadm join 10.0.0.1:6443 --token {TOKEN}",
        TOKEN_TABLE.replace(SECRET, SECRET[:-1]),
        TOKEN_TABLE.replace("<never>", "never"),
        TOKEN_TABLE + "error\n",
    ],
)
def test_output_of_another_form_is_an_error(text: str) -> None:
    with pytest.raises(KubeadmTextError, match="bootstrap tokens") as caught:
        kubeadm.tokens(text)
    assert SECRET[:12] not in str(caught.value)
