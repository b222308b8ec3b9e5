"""Print the preflight problems in full at the end of a run, for tests of the rules."""

from __future__ import annotations

from typing import Any

from ansible.plugins.callback import CallbackBase
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._preflight.problem_text import full_text

DOCUMENTATION = """
name: gpulab_problems
type: notification
short_description: Print what preflight found in full
version_added: 0.2.0
description:
  - For the tests of this collection.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "gpulab_problems"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_stats(self, stats: Any) -> None:
        problems = stats.custom.get("_run", {}).get("gpulab_preflight_problems", [])
        if problems:
            self._display.display(full_text(problems))
