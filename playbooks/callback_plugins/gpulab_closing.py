# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

from typing import Any

from ansible import constants
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress.text import said

DOCUMENTATION = r"""
name: gpulab_closing
type: aggregate
short_description: Show after the recap why a run failed, or what to do next
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - The recap has a line for each host, which pushes the reason of a failure off the screen, and the default callback
    shows messages as data, which can't be pasted. Ansible loads this callback with the playbooks of the collection. It
    shows the message of a debug task with the variable C(progress_closing) again, unless the stdout callback
    P(gpulab.kubernetes.progress#callback) does.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpulab_closing"

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []
        self.disabled = constants.DEFAULT_STDOUT_CALLBACK == "gpulab.kubernetes.progress"

    def v2_runner_on_ok(self, result: Any) -> None:
        if result._task.vars.get("progress_closing"):
            self._lines = said(result._result).splitlines()

    def v2_playbook_on_stats(self, stats: Any) -> None:
        color = constants.COLOR_ERROR if stats.failures else constants.COLOR_OK
        for line in self._lines:
            self._display.display(line, color=color)
