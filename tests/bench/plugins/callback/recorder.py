"""Record each module's result on each host in $GPULAB_RECORDINGS/HOST/MODULE.json for the connection "recordings"."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from unittest import mock

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._local_module import LocalModule

DOCUMENTATION = """
name: recorder
type: notification
short_description: Keep what each module answered
version_added: 0.2.0
description:
  - For the bench of this collection.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "recorder"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        execute, top = ActionBase._execute_module, Path(os.environ["GPULAB_RECORDINGS"])
        # Run modules of the controller in processes of their own, too, so that they are recorded.
        mock.patch.object(LocalModule, "is_here", return_value=False).start()

        # Worker processes inherit the patch by fork.
        def recorded(self: Any, module_name: Any = None, *args: Any, **kwargs: Any) -> Any:
            answer = execute(self, module_name, *args, **kwargs)
            host = self._task.delegate_to or kwargs["task_vars"]["inventory_hostname"]
            kept = top / host / f"{(module_name or self._task.action).rpartition('.')[2]}.json"
            kept.parent.mkdir(mode=0o700, exist_ok=True)
            kept.write_text(json.dumps(answer, default=str))
            return answer

        ActionBase._execute_module = recorded
