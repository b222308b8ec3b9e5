# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask questions about a new cluster on a terminal; repeat each one after an invalid answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...module_utils._problem import Problem
from ...module_utils._words import counted
from .machines import Machine, read_machines, read_user

Ask = Callable[[str], str]
Show = Callable[[str], None]

_CONTROL_PLANE = (
    "Control plane, as NAME:ADDRESS, such as cp1:192.0.2.11\n"
    "(with the number of its GPUs if pods use them, such as cp1:192.0.2.11:2):"
)
_FIRST = (
    "GPU host 1, as NAME:ADDRESS:GPUS, such as gpu1:192.0.2.21:4\n"
    "(press Enter if there is none: the control plane is the only machine, and also a worker):"
)
_NEXT = "GPU host {} (press Enter if there are no more):"


def ask_machines(ask: Ask, show: Show) -> list[Machine]:
    """Ask for one machine after another; the first is the control plane."""
    given: list[str] = []
    machines: list[Machine] = []
    while True:
        question = [_CONTROL_PLANE, _FIRST][len(machines)] if len(machines) < 2 else _NEXT.format(len(machines))
        answer = ask(question).strip()
        if machines and not answer:
            return machines
        found, problems = read_machines([*given, answer])
        _show_problems(problems, show)
        if not problems:
            # The answer does not stay visible on the terminal.
            for machine in found[len(machines) :]:
                gpus = f", {counted(machine.gpus, 'GPU')}" if machine.gpus else ""
                show(f"  {machine.name} ({machine.address}{gpus})")
            given.append(answer)
            machines = found


def ask_user(ask: Ask, show: Show, own: str) -> str:
    """Ask for the user with sudo rights; the default is ``own``, who runs Ansible, if it is a valid name."""
    default = "" if read_user(own) else own
    while True:
        user = ask(f"User with sudo rights on the machines{f' [{default}]' if default else ''}:").strip() or default
        problems = read_user(user)
        if not problems:
            show(f"  {user}")
            return user
        _show_problems(problems, show)


def _show_problems(problems: Iterable[Problem], show: Show) -> None:
    for problem in problems:
        show(f"  {f'{problem.host}: ' if problem.host else ''}{problem.what}. {problem.do}.")
