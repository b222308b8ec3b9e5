# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a playbook of the collection from Python, through ansible-runner: `run` starts it and returns a `Result`.

The names in ``__all__`` and the fields of the classes are public, and follow semantic versioning.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Union

from ansible import constants

from ._progress.events import Progress
from ._progress.text import account, printable, written
from ._run import outcome
from ._run.process import Job

__all__ = ["HostProgress", "Line", "Problem", "Result", "RunError", "run"]

PathName = Union[str, "os.PathLike[str]"]
_KEPT_RUNS = 10
_MOST_REPORT = 64 * 1024 * 1024


class RunError(ValueError):
    """A run that can't start; nothing was changed. ``what`` is wrong, ``where``, and what to ``do``."""

    def __init__(self, what: str, where: str, do: str) -> None:
        super().__init__(f"Error while starting the run: {what.rstrip('.')} ({where}). {do}.")
        self.what, self.where, self.do = what, where, do


class Line(str):
    """A text of the progress view, of one or several lines; ``kind`` is for programs that display it.

    Kinds: phase, changed, message, ignored, failed, unreachable, warning, and summary (after the run).
    """

    kind: str

    def __new__(cls, text: str, kind: str) -> Line:
        line = super().__new__(cls, text)
        line.kind = kind
        return line


@dataclass(frozen=True)
class HostProgress:
    """What a host does now: ``done`` of ``expected`` tasks of its phase (None without an earlier run)."""

    host: str
    phase: str
    done: int
    expected: int | None
    doing: str


@dataclass(frozen=True)
class Problem:
    """A problem of preflight; ``kind`` is stable when messages change, ``host`` is empty for the whole cluster."""

    kind: str
    host: str
    what: str
    where: str
    why: str
    do: str


@dataclass(frozen=True)
class Result:
    """How a run ended.

    status: successful, failed, unreachable (hosts were, and nothing else failed), canceled or timeout.
    rc: the exit status of ansible-playbook; 254 if it was killed.
    hosts: by name: done, failed, unreachable (it never answered), stopped (preflight found problems on other hosts),
        or unfinished (the run was canceled or timed out).
    problems: what preflight found, if that ended the run.
    report_path, report: the verification report that this run wrote, and its content; None if it wrote none.
    duration: in seconds.
    summary: the result as plain data: seconds, phase, phases, slowest, hosts with their task counts.
    """

    status: str
    rc: int
    hosts: Mapping[str, str]
    problems: tuple[Problem, ...]
    report_path: Path | None
    report: Mapping[str, Any] | None
    duration: float
    summary: Mapping[str, Any]


def run(
    playbook: PathName,
    inventory: PathName,
    on_line: Callable[[Line], object] | None = None,
    *,
    on_progress: Callable[[tuple[HostProgress, ...]], object] | None = None,
    extra_vars: Mapping[str, Any] | None = None,
    limit: str = "",
    check: bool = False,
    become_password: str | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    artifacts: PathName | None = None,
    container_image: str = "",
    mounts: Sequence[str] = (),
    timeout: float | None = None,
    cancel: Callable[[], bool] | None = None,
    earlier: Mapping[str, Any] | None = None,
) -> Result:
    """Run a playbook to its end, and return the result. Raises RunError if it can't start.

    playbook: a path, or a name such as gpulab.kubernetes.site.
    inventory: a file or directory, or host names separated by commas.
    on_line: called with each line of the progress view, as it appears.
    on_progress: called after each event with what each host of the current phase does.
    extra_vars: variables as for ``-e``, passed in a private file that is removed.
    limit, check: as for ``--limit`` and ``--check``.
    become_password: the answer to Ansible's prompt for the sudo password; it is never an argument or in a file.
    arguments: more arguments of ansible-playbook, such as ``["--tags", "x"]``.
    env: environment variables of ansible-playbook, added to those of this process.
    artifacts: a directory for ansible-runner's files of the last ten runs; by default they are removed.
    container_image, mounts: run in this execution environment, with Podman; absolute paths to share with it.
    timeout: in seconds, after which the run is stopped; its status is timeout.
    cancel: called about every second; the run is canceled when it returns true. Called from the main thread, `run`
        also cancels on SIGINT (Ctrl-C) and SIGTERM, and a second signal kills Ansible.
    earlier: the `Result.summary` of an earlier run, from which the expected number of tasks is taken.

    If the run is stopped early, no process of it is left on this machine. An exception raised by one of these functions
    cancels the run, and `run` then raises it.
    """
    _require_ansible_runner()
    given, words = _inventory(inventory), os.fspath(playbook)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpulab-")))
        command = [words, "-i", given, *(["--limit", limit] if limit else []), *(["--check"] if check else [])]
        if extra_vars:
            variables = scratch / "extra-vars.json"
            variables.write_text(_as_json(extra_vars))
            command += ["-e", f"@{variables}"]
        if become_password is not None:
            command.append("--ask-become-pass")
        directory = Path(artifacts) if artifacts else scratch / "run"
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(str(error), "artifacts", "Name a directory into which you may write") from None
        settings = _settings(scratch, directory, env or {}, bool(container_image))
        if become_password is not None:
            settings["passwords"] = {r"BECOME password.*:\s*?$": become_password}
        if container_image:
            settings |= _container(container_image, [str(scratch), *mounts])
        view = _View(on_line, on_progress, earlier)
        job = Job(view.feed, cancel, timeout)
        rc, printed = job.run([*command, *arguments], settings)
    refused = rc and not job.reason and view.progress.verdict() == "bad input"
    if refused:
        what, do = outcome.refusal(printed)
        raise RunError(what, f"playbook {words}, inventory {given}", do)
    result = view.result(rc, job.reason, check)
    for text in account(result.summary, check):
        view.show(Line(text, "summary"))
    return result


class _View:
    """The events of a run, displayed as they arrive."""

    def __init__(
        self,
        on_line: Callable[[Line], object] | None,
        on_progress: Callable[[tuple[HostProgress, ...]], object] | None,
        earlier: Mapping[str, Any] | None,
    ) -> None:
        self.progress, self._watch = Progress(earlier), outcome.Watch()
        self.show = on_line or (lambda line: None)
        self._on_progress = on_progress

    def feed(self, event: Mapping[str, Any]) -> None:
        self._watch.feed(event)
        if event.get("event") in ("warning", "error") and event.get("stdout"):
            self.show(Line(printable(str(event["stdout"])), "warning"))
        for line in self.progress.feed(event):
            self.show(Line(written(*line, self.progress.elapsed), line.kind))
        if self._on_progress:
            rows = self.progress.rows()
            self._on_progress(
                tuple(HostProgress(r.host, r.phase.title, r.done, r.phase.expected, r.doing) for r in rows)
            )

    def result(self, rc: int, reason: str, check: bool) -> Result:
        summary = self.progress.result(time.time())
        recap = {name: host["state"] for name, host in summary["hosts"].items()}
        hosts = outcome.host_states(recap, self._watch, bool(reason))
        for name, state in hosts.items():
            summary["hosts"][name]["state"] = state
        status = reason or (outcome.failure(hosts, self._watch) if rc else "successful")
        problems = tuple(Problem(**fields) for fields in self._watch.problems)
        path, report = (None, None) if check else _report(self._watch.written)
        return Result(status, rc, hosts, problems, path, report, summary["seconds"], summary)


def _require_ansible_runner() -> None:
    try:
        import ansible_runner.interface  # noqa: F401
    except ImportError as error:
        do = f"Install it with: {sys.executable} -m pip install ansible-runner"
        raise RunError(f"ansible-runner can't be imported: {error}", f"Python {sys.executable}", do) from None


def _inventory(given: PathName) -> str:
    """Return the inventory as an argument of ansible-playbook. Raises RunError if the file or directory is missing."""
    text = os.fspath(given)
    with contextlib.suppress(OSError):
        if "," in text or Path(text).exists():
            return text if "," in text else str(Path(text).resolve())
    raise RunError(f"there is no inventory {text}", "inventory", "Give the path of a file or directory that exists")


def _as_json(extra_vars: Mapping[str, Any]) -> str:
    try:
        return json.dumps(extra_vars)
    except (TypeError, ValueError) as error:
        raise RunError(str(error), "extra_vars", "Give values that JSON can hold") from None


def _settings(scratch: Path, directory: Path, env: Mapping[str, str], contained: bool) -> dict[str, Any]:
    """Return ansible-runner's settings."""
    envvars = {
        "ANSIBLE_HOST_KEY_CHECKING": str(constants.HOST_KEY_CHECKING),
        # Facts come from hosts, and must not replace variables.
        "ANSIBLE_INJECT_FACT_VARS": "False",
        "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True",
        "ANSIBLE_NOCOLOR": "1",
    }
    if not contained:
        near = [str(path.parent) for path in Path(__file__).parents if path.name == "ansible_collections"]
        envvars |= {
            "ANSIBLE_COLLECTIONS_PATH": ":".join([*near, *constants.COLLECTIONS_PATHS]),
            "ANSIBLE_LOCAL_TEMP": str(scratch),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
            "TMPDIR": str(scratch),
        }
    return {
        "private_data_dir": str(directory.absolute()),
        "ident": f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}",
        "rotate_artifacts": _KEPT_RUNS,
        "host_cwd": str(Path.cwd()),
        "fact_cache_type": "memory",
        "envvars": {**envvars, **env},
    }


def _container(image: str, mounts: Sequence[str]) -> dict[str, Any]:
    return {
        "process_isolation": True,
        "container_image": image,
        "container_volume_mounts": [f"{path}:{path}" for path in sorted({*mounts})],
        "container_options": ["--user=root", "--network=host"],
    }


def _report(written: Sequence[str]) -> tuple[Path | None, dict[str, Any] | None]:
    """Return the last verification report among these files, and its content."""
    for path in map(Path, reversed(written)):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if path.stat().st_size <= _MOST_REPORT:
                found = json.loads(path.read_bytes())
                if isinstance(found, dict) and "totals" in found:
                    return path, found
    return None, None
