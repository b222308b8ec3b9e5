# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Provision an inventory through ansible-runner, and show the progress. Copy and adapt this script.

To resume after a failure or Ctrl-C, run it again; finished work is kept. Exit status: 0 success, 1 Ansible failed,
2 tasks failed on hosts, 3 the input is invalid and nothing was started, 4 hosts were unreachable, 130 cancelled.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.plugins.loader import init_plugin_loader
from ansible_runner.interface import init_command_config
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

ROOTS = [path.resolve() for path in (Path(__file__, "../../../../.."), Path(__file__, "../../collections"))]
NEAR = [str(path) for path in ROOTS if (path / "ansible_collections/gpulab/kubernetes").is_dir()]
init_plugin_loader(NEAR)  # a copy of this script finds the collection as Ansible does
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress import events  # noqa: E402
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._progress import text as progress_text  # noqa: E402

CODES = {"done": 0, "error": 1, "failed": 2, "bad input": 3, "unreachable": 4, "cancelled": 130}
STYLES = {"phase": "bold", "message": "", "changed": "yellow", "ignored": "cyan", "failed": "red", "unreachable": "red"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-i", "--inventory", type=Path, required=True)
    parser.add_argument("--playbook", default="gpulab.kubernetes.site", help="default: %(default)s")
    parser.add_argument("-e", "--extra-vars", action="append", default=[], help="as for ansible-playbook")
    parser.add_argument("--limit", help="only these hosts or groups")
    parser.add_argument("-K", "--ask-become-pass", action="store_true", help="ask for the sudo password")
    parser.add_argument("--container-image", help="run in this execution environment, with Podman")
    parser.add_argument("--mount", action="append", default=[], help="an absolute path to share with the container")
    parser.add_argument("--artifacts", type=Path, help="for report.json and ten runs (default: gpulab-runs next to -i)")
    given = parser.parse_args()
    if not given.inventory.exists():
        parser.error(f"there is no inventory {given.inventory}; select one with -i FILE")
    given.artifacts = (given.artifacts or given.inventory.parent / "gpulab-runs").resolve()
    return given


class Run:
    def __init__(self, before: dict[str, Any]) -> None:
        self.progress, self.console = events.Progress(before), Console(highlight=False, markup=False, soft_wrap=True)
        host, phase, job = (TextColumn(f"{{task.fields[{x}]:.40}}", markup=False) for x in ("host", "phase", "doing"))
        self.bars = Progress(host, phase, BarColumn(30), TimeElapsedColumn(), job, console=self.console, transient=True)
        self.phase: object = None
        self.pid, self.signals, self.asked = 0, 0, 0.0

    def on_event(self, event: dict[str, Any]) -> bool:
        self.pid = 0 if self.runner.config.containerized else event.get("pid") or self.pid
        if event.get("event") in ("warning", "error"):
            self.console.print(event.get("stdout", ""), style="yellow")
        for line in self.progress.feed(event):
            self.console.print(progress_text.written(*line, self.progress.elapsed), style=STYLES[line.kind])
        if self.phase is not self.progress.phase:
            self.phase, self.ids = self.progress.phase, dict[str, TaskID]()
            for old in self.bars.task_ids:
                self.bars.remove_task(old)
        for row in self.progress.rows():
            if row.host not in self.ids:
                self.ids[row.host] = self.bars.add_task("", total=row.phase.expected, host=row.host, phase="", doing="")
            self.bars.update(self.ids[row.host], completed=row.done, phase=row.phase.title, doing=row.doing)
        return True

    def cancelled(self, number: int = 0, *_: object) -> bool:
        """Interrupt Ansible, repeatedly because it ignores signals while it forks; kill it after a second signal."""
        self.signals += bool(number)
        if self.signals == 1 and self.pid and time.monotonic() > self.asked + 10:
            self.asked = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGINT)
        return self.signals > bool(self.pid)

    def go(self, command: list[str], **settings: Any) -> str:
        """Run ansible-playbook and return its result, a key of CODES."""
        handlers = {"event_handler": self.on_event, "cancel_callback": self.cancelled}
        self.runner = init_command_config("ansible-playbook", command, quiet=True, **handlers, **settings)
        signal.signal(signal.SIGINT, self.cancelled)
        signal.signal(signal.SIGTERM, self.cancelled)
        with self.bars if self.console.is_terminal else contextlib.nullcontext():
            self.runner.run()
        mark = f"AWX_ISOLATED_DATA_DIR={self.runner.config.artifact_dir}\0".encode()
        for environ in Path("/proc").glob("[0-9]*/environ") if self.signals else ():
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if mark in environ.read_bytes():
                    os.kill(int(environ.parent.name), signal.SIGTERM)
        Path(self.runner.config.artifact_dir, "command").unlink(missing_ok=True)  # it contains the whole environment
        status = "cancelled" if self.signals else self.progress.verdict() if self.runner.rc else "done"
        if status == "bad input":
            raise ValueError(self.runner.stdout.read().strip())
        return status


def main() -> int:
    given = arguments()
    report = given.artifacts / "report.json"
    before = events.earlier(report.read_bytes()) if report.exists() else {}
    run = Run(before)
    if before.get("status", "done") != "done":
        run.console.print(f"The last run ended ({before['status']}) in '{before['phase']}'. Finished work is kept.")
    options = [("-i", given.inventory.resolve()), ("--limit", given.limit), *(("-e", e) for e in given.extra_vars)]
    command = [given.playbook, *(str(word) for option in options if option[1] for word in option)]
    settings: dict[str, Any] = {"private_data_dir": str(given.artifacts), "rotate_artifacts": 10}
    settings |= {"ident": time.strftime("%Y%m%d-%H%M%S"), "host_cwd": str(Path.cwd()), "fact_cache_type": "memory"}
    settings["envvars"] = {"ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING), "ANSIBLE_NOCOLOR": "1"}
    settings["envvars"]["ANSIBLE_INJECT_FACT_VARS"] = "False"  # facts come from hosts and replace no variable
    if given.ask_become_pass:
        command.append("--ask-become-pass")
        settings["passwords"] = {r"BECOME password.*:\s*?$": run.console.input("sudo password: ", password=True)}
    with tempfile.TemporaryDirectory(prefix="gpulab-") as scratch:
        if given.container_image:
            text = given.inventory.read_text() if given.inventory.is_file() else ""
            keys = filter(os.path.exists, re.findall(r"(?:private_key_file|KnownHostsFile)[^\w/]+(/[^\s\"']+)", text))
            settings |= {"process_isolation": True, "container_image": given.container_image}
            mounts = [f"{path}:{path}" for path in sorted({*keys, *given.mount})]
            settings |= {"container_volume_mounts": mounts, "container_options": ["--user=root", "--network=host"]}
        else:
            paths = ":".join([*NEAR, *constants.COLLECTIONS_PATHS])
            settings["envvars"] |= {"TMPDIR": scratch, "ANSIBLE_LOCAL_TEMP": scratch, "ANSIBLE_COLLECTIONS_PATH": paths}
            settings["envvars"]["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        status = run.go(command, **settings)
    result = {"status": status, **run.progress.result(time.time())}
    report.with_suffix(".tmp").write_text(json.dumps(result, indent=2) + "\n")
    report.with_suffix(".tmp").replace(report)
    run.console.print(*progress_text.account(result), f"{status}. The report: {report}", sep="\n")
    return CODES[status]


if __name__ == "__main__":
    try:
        code = main()
    except KeyboardInterrupt:
        code = CODES["cancelled"]
    except SystemExit as usage:
        code = 0 if usage.code in (0, None) else CODES["bad input"]
    except (OSError, ValueError) as problem:
        Console(stderr=True, soft_wrap=True).print(f"Error while preparing the run: {problem}", markup=False)
        code = CODES["bad input"]
    sys.exit(code)
