# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How every module begins and ends: what it logs, and its result or one sentence that says what failed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ._errors import REPORTED, reported
from ._secrets import command_line, mask


class QuietModule(AnsibleModule):  # type: ignore[misc]  # Ansible has no types.
    """A module whose arguments are neither written to the log of the host nor part of the result.

    Ansible writes them before it is known which parts of a list are secret. ``no_log`` of the constructor does not keep
    it from that, because what the task says takes its place. Up to ansible-core 2.19 the result always has them, later
    on with ``-vvv``.
    """

    def _log_invocation(self) -> None:
        pass

    def exit_json(self, **kwargs: Any) -> None:
        super().exit_json(**{"invocation": {}, **kwargs})

    def fail_json(self, msg: str, **kwargs: Any) -> None:
        super().fail_json(msg, **{"invocation": {}, **kwargs})


def run(module: Any, function: Callable[[Any], Mapping[str, Any]]) -> None:
    """Call ``function`` with the module and end the process with what it returns, or with the error that it raises."""
    module.commands_run = []
    try:
        result = function(module)
    except REPORTED as error:
        said = reported(error)
        module.fail_json(msg=mask(str(said)), **_with_commands(module, said.fields))
    module.exit_json(**_with_commands(module, {"changed": False, **result}))


def _with_commands(module: Any, result: Mapping[str, Any]) -> dict[str, Any]:
    """Add the failed command as one line and, with C(-v), all commands that ran."""
    secrets = getattr(module, "no_log_values", ())
    shown, ran = dict(result), module.commands_run
    if "cmd" in shown:
        shown["cmd"] = command_line(shown["cmd"], secrets)
    if ran and module._verbosity:
        shown["commands"] = [f"{command_line(each.argv, secrets)} ({each.ended}, {each.seconds:.2f} s)" for each in ran]
    return shown
