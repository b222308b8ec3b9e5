# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of files, connections and texts are one sentence, in every module and every state."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.source import _put_back_on_error
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError, reported
from ansible_collections.gpulab.kubernetes.plugins.module_utils._files import put_file
from ansible_collections.gpulab.kubernetes.plugins.module_utils._module import run
from ansible_collections.gpulab.kubernetes.plugins.module_utils._states import several

FULL = OSError(errno.ENOSPC, "No space left on device", "/etc/x")


class Module:
    """The parts of AnsibleModule that end a module."""

    def __init__(self, **params: Any) -> None:
        self.params = params
        self.no_log_values: set[str] = set()

    def fail_json(self, **result: Any) -> None:
        raise SystemExit(result)


def fail(error: Exception) -> Callable[[Any], Any]:
    def ensure(_module: Any) -> None:
        raise error

    return ensure


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (DomainError("Error while reading x: it is empty"), "Error while reading x: it is empty"),
        (FULL, "Error while accessing /etc/x: No space left on device"),
        (OSError(errno.EROFS, "Read-only file system", b"/etc/\xff"), "accessing /etc/?: Read-only file system"),
        (OSError(errno.ENOSPC, "No space left on device"), "a file or a connection: No space left on device"),
        (socket.timeout("timed out"), "a file or a connection: timed out"),
        (ConnectionResetError(), "a file or a connection: ConnectionResetError"),
        (UnicodeEncodeError("utf-8", "secret\udc80", 6, 7, "surrogates not allowed"), "in position 6: surrogates not"),
        (UnicodeDecodeError("utf-8", b"secret\xff", 6, 7, "invalid start byte"), "in position 6: invalid start byte"),
    ],
)
def test_an_error_is_one_sentence(error: Exception, message: str) -> None:
    said = str(reported(error))
    assert said.startswith("Error while ") and message in said
    assert "secret" not in said and "\n" not in said
    with pytest.raises(SystemExit) as ended:
        run(Module(), fail(error))
    assert ended.value.args[0]["msg"] == said


def test_a_failed_state_keeps_the_results_of_the_others() -> None:
    empty: dict[str, Any] = {"argument_spec": {}}
    modules = {
        "good": SimpleNamespace(SPECIFICATION=empty, ensure=lambda _module: {"changed": True}),
        "bad": SimpleNamespace(SPECIFICATION=empty, ensure=fail(FULL)),
    }
    states = [{"name": f"the {name} one", "module": name, "when": True, "args": {}} for name in modules]
    with pytest.raises(DomainError) as failed:
        several.ensure(Module(states=states), modules)
    assert str(failed.value) == "the bad one: Error while accessing /etc/x: No space left on device"
    assert failed.value.fields == {"states": {"the good one": {"changed": True}}, "failed_state": "the bad one"}


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as failed:
        put_file(tmp_path / "file", b"text")
    assert failed.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_does_not_prevent_files_from_being_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, source = tmp_path / "key", tmp_path / "source"
    key.write_text("old")
    source.write_text("old")
    # The key and its directory, the source, and the key and its directory again.
    fsync, left = os.fsync, [1, 1, 0, 1, 1]

    def full(number: int) -> None:
        if not left.pop(0):
            raise FULL
        fsync(number)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"), _put_back_on_error([source, key]):
        put_file(key, b"new")
        put_file(source, b"new")
    assert (key.read_text(), source.read_text(), left) == ("old", "old", [])
