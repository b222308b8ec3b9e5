# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create a file on the controller that is removed when the run ends, in whatever way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._errors import reported
from ..plugin_utils._keeper.start import start_keeper


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(("path",))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, args = self.validate_argument_spec({"path": {"type": "path", "required": True}})
        try:
            start_keeper(Path(args["path"]))
        except OSError as error:
            return {"failed": True, "msg": str(reported(error))}
        return {"changed": True}
