# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provision an inventory through ansible-runner, and show the progress. Copy and adapt this script.

To resume after a failure or Ctrl-C, run it again; finished work is kept. Exit status: 0 success, 1 Ansible failed,
2 tasks failed on hosts, 3 the input is invalid and nothing was started, 4 hosts were unreachable, 130 canceled.
"""

import argparse
import contextlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

try:
    from ansible.plugins.loader import init_plugin_loader
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
except ImportError as missing:
    install = f"{sys.executable} -m pip install ansible ansible-runner kubernetes rich"
    sys.stderr.write(f"Error while preparing the run: Python {sys.executable}: {missing}. Install it with: {install}\n")
    sys.exit(3)

ROOTS = [path.resolve() for path in (Path(__file__, "../../../../.."), Path(__file__, "../../collections"))]
NEAR = [str(path) for path in ROOTS if (path / "ansible_collections/gpulab/kubernetes").is_dir()]
init_plugin_loader(NEAR)  # this finds the collection even if the script is a copy
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils import runner  # noqa: E402

CODES = {"successful": 0, "failed": 2, "unreachable": 4, "canceled": 130}
BAD_INPUT = 3
STYLES = {"phase": "bold", "changed": "yellow", "ignored": "cyan", "warning": "yellow"}
STYLES |= {"failed": "red", "unreachable": "red"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-i", "--inventory", type=Path, required=True)
    parser.add_argument("--playbook", default="gpulab.kubernetes.site", help="default: %(default)s")
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--limit", default="", help="only these hosts or groups")
    parser.add_argument("-C", "--check", action="store_true", help="change nothing, and show what would change")
    parser.add_argument("-K", "--ask-become-pass", action="store_true", help="ask for the sudo password")
    parser.add_argument("--container-image", default="", help="run in this execution environment, with Podman")
    parser.add_argument("--mount", action="append", default=[], help="an absolute path to share with the container")
    parser.add_argument("--artifacts", type=Path, help="for report.json and ten runs (default: gpulab-runs next to -i)")
    given = parser.parse_args()
    given.artifacts = (given.artifacts or given.inventory.parent / "gpulab-runs").resolve()
    return given


class View:
    """Lines that stay on the screen, above a bar for each host."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, markup=False, soft_wrap=True)
        host, phase, job = (TextColumn(f"{{task.fields[{x}]:.40}}", markup=False) for x in ("host", "phase", "doing"))
        self.bars = Progress(host, phase, BarColumn(30), TimeElapsedColumn(), job, console=self.console, transient=True)
        self.ids: dict[tuple[str, str], TaskID] = {}

    def on_line(self, line: runner.Line) -> None:
        if line.kind == "summary":
            self.bars.stop()
        self.console.print(line, style=STYLES.get(line.kind, ""))

    def on_progress(self, hosts: tuple[runner.HostProgress, ...]) -> None:
        current = {(host.host, host.phase): host for host in hosts}
        for gone in self.ids.keys() - current.keys():
            self.bars.remove_task(self.ids.pop(gone))
        for key, host in current.items():
            if key not in self.ids:
                self.ids[key] = self.bars.add_task("", total=host.expected, host=host.host, phase=host.phase, doing="")
            self.bars.update(self.ids[key], completed=host.done, doing=host.doing)

    def live(self) -> contextlib.AbstractContextManager[object]:
        return self.bars if self.console.is_terminal else contextlib.nullcontext()


def earlier(report: Path) -> dict[str, Any]:
    """Return the report of the last run, empty if it can't be read: this must not make a run fail."""
    try:
        found = json.loads(report.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and {"status", "phase"} <= found.keys() else {}


def container_mounts(given: argparse.Namespace) -> list[str]:
    """Return the paths that a container needs: given ones, and keys that the inventory file names."""
    text = given.inventory.read_text() if given.inventory.is_file() else ""
    keys = re.findall(r"(?:private_key_file|KnownHostsFile)[^\w/]+(/[^\s\"']+)", text)
    return [*filter(os.path.exists, keys), *given.mount]


def ask_password(console: Console) -> str:
    try:
        return console.input("sudo password: ", password=True)
    except EOFError:
        raise OSError("there is no terminal for the sudo password") from None


def main() -> int:
    given, view = arguments(), View()
    report = given.artifacts / "report.json"
    before = earlier(report)
    if before.get("status", "successful") != "successful":
        view.console.print(f"The last run ended ({before['status']}) in '{before['phase']}'. Finished work is kept.")
    password = ask_password(view.console) if given.ask_become_pass else None
    with view.live():
        result = runner.run(
            given.playbook,
            given.inventory,
            view.on_line,
            on_progress=view.on_progress,
            arguments=[word for each in given.extra_vars for word in ("-e", each)],
            limit=given.limit,
            check=given.check,
            become_password=password,
            artifacts=given.artifacts,
            container_image=given.container_image,
            mounts=container_mounts(given) if given.container_image else (),
            earlier=before,
        )
    report.with_suffix(".tmp").write_text(json.dumps({"status": result.status, **result.summary}, indent=2) + "\n")
    report.with_suffix(".tmp").replace(report)
    view.console.print(f"{result.status}. The report: {report}")
    if result.status == "failed" and not result.problems and "failed" not in result.hosts.values():
        return 1
    return CODES[result.status]


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = CODES["canceled"]
    except SystemExit as usage:
        code = 0 if usage.code in (None, 0) else BAD_INPUT
    except (OSError, ValueError) as problem:
        text = str(problem) if isinstance(problem, runner.RunError) else f"Error while preparing the run: {problem}"
        Console(stderr=True, soft_wrap=True).print(text, markup=False, highlight=False)
        code = BAD_INPUT
    sys.exit(code)
