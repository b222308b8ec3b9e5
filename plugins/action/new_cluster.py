# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the files of a new cluster on the controller, and ask for missing values."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from ansible.errors import AnsiblePromptInterrupt, AnsiblePromptNoninteractive
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..filter.preflight import preflight_report
from ..module_utils._errors import REPORTED, DomainError, reported
from ..module_utils._files import difference
from ..module_utils._problem import Problem
from ..plugin_utils._inventory.variables import specification
from ..plugin_utils._new_cluster.contents import COLLECTIONS, closing, new_files
from ..plugin_utils._new_cluster.files import obstacles, write_new
from ..plugin_utils._new_cluster.machines import FORM, Machine, read_machines, read_user
from ..plugin_utils._new_cluster.questions import ask_machines, ask_user

SPEC = {
    "directory": {"type": "path", "default": "."},
    "machines": {"type": "raw"},
    "user": {"type": "str"},
}
NAMES = ("my.ini", "group_vars/all.yml", "ansible.cfg")


class ActionModule(ActionBase):  # type: ignore[misc]
    TRANSFERS_FILES = False
    _VALID_ARGS = frozenset(SPEC)

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, args = self.validate_argument_spec(SPEC)
        here = Path.cwd()
        directory = (here / args["directory"]).resolve()
        try:
            _refuse(obstacles(directory, NAMES))
            machines, user = _cluster(args["machines"], args["user"])
            texts = new_files(machines, user, specification(), _own_collections())
            if not self._task.check_mode:
                write_new(directory, texts)
        except REPORTED as error:
            return {"failed": True, "msg": str(reported(error))}
        return {
            "changed": True,
            "files": [str(directory / name) for name in texts],
            "closing": closing(directory, here, list(texts), check=self._task.check_mode),
            "diff": [difference(directory / name, None, text) for name, text in texts.items()],
        }


def _refuse(problems: list[Problem]) -> None:
    if problems:
        raise DomainError(preflight_report([problem.fields() for problem in problems]))


def _cluster(entries: Any, user: str | None) -> tuple[list[Machine], str]:
    """Return the machines and their user; nothing is asked if machines were given."""
    own = _own_name()
    if entries is not None:
        machines, problems = read_machines(entries)
        user = own if user is None else user
        _refuse([*problems, *read_user(user)])
        return machines, user
    _refuse(read_user(user) if user is not None else [])
    display = Display()
    try:
        machines = ask_machines(_ask, display.display)
        return machines, ask_user(_ask, display.display, own) if user is None else user
    except AnsiblePromptInterrupt as error:
        raise DomainError("Interrupted. Nothing was written.") from error
    except AnsiblePromptNoninteractive as error:
        raise DomainError(
            "Error while asking for the machines of the cluster: there is no terminal. Nothing was written. Give them "
            f"with -e init_hosts=cp1:192.0.2.11,gpu1:192.0.2.21:4 (each {FORM}; the first is the control plane) and "
            "-e init_user=USER."
        ) from error


def _ask(question: str) -> str:
    answer: bytes = Display().prompt_until(question)
    return answer.decode("utf-8", "replace")


def _own_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return ""


def _own_collections() -> str:
    """Return the path in which this collection was found, empty if Ansible searches it by default."""
    path = Path(__file__).parents[5]
    searched = [Path(each).expanduser() for each in COLLECTIONS]
    return "" if path in searched or path.name in ("site-packages", "dist-packages") else str(path)
