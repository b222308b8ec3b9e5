# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Output of a training, with the module's results from a table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from ansible_collections.gpulab.kubernetes.plugins.action import torch_ddp_run

ESCAPE = "\x1b[2J\x1b]0;title\x07\x9b1A"


def run(monkeypatch: pytest.MonkeyPatch, watch: dict[str, Any], remove: dict[str, Any]) -> dict[str, Any]:
    answers = {"start": {}, "watch": {"since": {}, "lines": [], **watch}, "remove": remove}
    monkeypatch.setattr(torch_ddp_run.ActionModule, "_step", lambda _self, step, **_more: answers[step])
    task = SimpleNamespace(args={"name": "train"}, check_mode=False, async_val=0, diff=False, action="torch_ddp_run")
    action = torch_ddp_run.ActionModule(task, mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock(), mock.Mock())
    result: dict[str, Any] = action.run(None, {})
    return result


def test_a_log_reaches_the_terminal_without_its_escape_sequences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{ESCAPE}epoch 1", "\r 10 %\r 100 %", "windows\r", "größe\t1"]
    watch = {"state": "succeeded", "text": f"done{ESCAPE}", "lines": lines, "summary": {}}
    run(monkeypatch, watch, {"failed": True, "msg": f"still there {ESCAPE}"})
    shown = capsys.readouterr()
    assert not set(shown.out + shown.err) & set("\x1b\x9b\x07\r")
    assert "train-0 | ?[2J?]0;title??1Aepoch 1\ntrain-0 |  100 %\ntrain-0 | windows\ntrain-0 | größe\t1\n" in shown.out
    assert "still there" in shown.out + shown.err


def test_a_failure_is_reported_without_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = {"state": "failed", "text": f"it failed{ESCAPE}", "cause": f"Error{ESCAPE}", "last_words": [f"a{ESCAPE}"]}
    result = run(monkeypatch, watch, {})
    assert result["failed"] and "it failed?[2J" in result["msg"]
    assert not set(str([result["msg"], result["last_words"]])) & set("\x1b\x9b\x07")
    assert ESCAPE not in result["msg"] + result["reason"] + result["cause"] + "".join(result["last_words"])
