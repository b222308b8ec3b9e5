# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module on the controller in the process of its task, as import_modules of ansible.netcommon does.

Building the module's archive, starting Python and compiling all imports takes half a second, more than most of these
modules need for their work. Warnings are shown immediately, and are not in the result.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import tempfile
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.module_utils import basic
from ansible.plugins.action import ActionBase
from ansible.plugins.action.normal import ActionModule as Normal

from ..module_utils._errors import REPORTED, reported

_MODULES = "ansible_collections.gpulab.kubernetes.plugins.modules."


class LocalModule(Normal):  # type: ignore[misc]  # Ansible has no types.
    """The action of a module. Runs in-process only for this Python on this machine, and as usual otherwise."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        if not self.is_here(task_vars):
            usual: dict[str, Any] = super().run(tmp, task_vars)
            return usual
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        arguments = dict(self._task.args)
        self._update_module_args(self._task.action, arguments, task_vars)
        try:
            return {**result, **_called(self._task.action.rpartition(".")[2], arguments)}
        except REPORTED as error:
            # The module reports errors of its own; others are about files on the controller.
            raise AnsibleError(str(reported(error))) from error

    def is_here(self, task_vars: dict[str, Any]) -> bool:
        host = self._task.delegate_to
        own = task_vars.get("ansible_delegated_vars", {}).get(host, {}) if host else task_vars
        python = self._templar.template(own.get("ansible_python_interpreter", ""))
        special = self._task.async_val or any(self._task.environment or ()) or self._connection.become
        return self._connection.transport == "local" and python == sys.executable and not special


def _called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a module's main(). This process is a fork that ends after the task with all its items."""
    with tempfile.TemporaryDirectory(dir=constants.DEFAULT_LOCAL_TMP) as scratch:
        tempfile.tempdir = arguments["_ansible_tmpdir"] = scratch
        basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}, default=str).encode()
        basic._ANSIBLE_PROFILE = "legacy"
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
                importlib.import_module(_MODULES + name).main()
        except SystemExit:
            result: dict[str, Any] = json.loads(said.getvalue())
            return result
        finally:
            tempfile.tempdir = None
            # On systems without files in memory, the API client writes keys to files. It removes them at Python's
            # normal exit, which never happens in such a fork; it would reuse their names.
            kubeconfigs: Any = sys.modules.get("kubernetes.config.kube_config")
            if kubeconfigs:
                kubeconfigs._cleanup_temp_files()
    raise AnsibleError(f"Error while running {name}: it ended without a result. Report this")
