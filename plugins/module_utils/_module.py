# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module: what it logs, and its result or its error message."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ._errors import REPORTED, reported
from ._secrets import command_line, mask


class QuietModule(AnsibleModule):  # type: ignore[misc]  # Ansible has no types.
    """A module whose arguments are neither logged on the host nor part of the result.

    Ansible logs them before it knows which parts of a list are secret. The constructor's ``no_log`` does not prevent
    that, because the task's setting overrides it. Up to ansible-core 2.19 the result always contains the arguments,
    later only with ``-vvv``.
    """

    def _log_invocation(self) -> None:
        pass

    def exit_json(self, **kwargs: Any) -> None:
        super().exit_json(**{"invocation": {}, **kwargs})

    def fail_json(self, msg: str, **kwargs: Any) -> None:
        super().fail_json(msg, **{"invocation": {}, **kwargs})


def run(module: Any, function: Callable[[Any], Mapping[str, Any]]) -> None:
    """Call ``function`` with the module, and exit with its result or with the error that it raises."""
    module.commands_run = []
    try:
        result = function(module)
    except REPORTED as error:
        said = reported(error)
        module.fail_json(msg=mask(str(said)), **_with_commands(module, said.fields))
    module.exit_json(**_with_commands(module, {"changed": False, **result}))


def _with_commands(module: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Add the failed command as one line and, with ``-v``, all commands that ran."""
    secrets = getattr(module, "no_log_values", ())
    shown, ran = dict(result), module.commands_run
    if "cmd" in shown:
        shown["cmd"] = command_line(shown["cmd"], secrets)
    if ran and module._verbosity:
        shown["commands"] = [f"{command_line(each.argv, secrets)} ({each.ended}, {each.seconds:.2f} s)" for each in ran]
    return shown
