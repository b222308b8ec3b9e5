# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ensure settings in Docker's daemon.json, or raise an error with the reason."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import difference, put_file, read_text, under, write_text
from .._first_run import FirstRun
from .._systemd import Restarts
from . import logs
from . import settings as docker

# dockerd writes it when it starts.
PID_FILE = "/run/docker.pid"
PROGRAM = "/usr/bin/dockerd"
DAEMON_FILE = "/etc/docker/daemon.json"
# CDI is enabled unless this is set (moby, daemon/command/daemon.go).
_WITHOUT_CDI = {"features": {"cdi": False}}


class DaemonFile:
    """The file. ``module`` is an AnsibleModule, ``service`` the unit that reads the file at its start, or empty.

    ``programs`` are files that the service looks for at its start. ``record`` is the file that records the settings
    written by this collection, so that obsolete ones can be removed; empty for no record.
    """

    def __init__(
        self,
        module: Any,
        root: str,
        path: str,
        restarts: Restarts,
        service: str,
        programs: Iterable[str] = (),
        record: str = "",
    ) -> None:
        self._module = module
        self._path = path
        self._first_run = FirstRun(module, root)
        self._file = under(root, path)
        self._restarts = restarts
        self._service = service
        self._programs = [under(root, program) for program in programs]
        self._started = under(root, PID_FILE)
        self._program = under(root, PROGRAM)
        self._record = under(root, record) if record else None

    def ensure(
        self, settings: Mapping[str, Any], replace: bool, log_options: Mapping[str, Any], cdi: bool
    ) -> dict[str, Any]:
        """Return the result of the module docker_daemon_config. Raise DomainError before anything changes.

        ``log_options`` are added if the log driver supports them. With ``cdi``, the feature must not be disabled.
        """
        before = read_text(self._file)
        try:
            values = docker.read_daemon(before or "")
        except DomainError as error:
            raise DomainError(
                f"Error while reading {self._path}: {error}. Docker can't start with this file either; correct or "
                "remove it. Nothing was changed."
            ) from error
        records = self._records()
        others = values
        for own in records:
            others = docker.without(others, own)
        if cdi and replace:
            others = docker.without(others, _WITHOUT_CDI)
        wanted = _complete_settings(others, settings, log_options, cdi)
        merged = docker.merge(others, wanted, replace)
        if merged.contradictions:
            raise self._contradicted(merged)
        self._check_log_options(merged.values)
        kept = docker.without(merged.values, others)
        diff, backup, keys = [], None, list(docker.changes(values, merged.values))
        reload = docker.reloaded(values, merged.values)
        if keys:
            # Keep the order of the file.
            after = docker.written(
                {**{key: 0 for key in values if key in merged.values}, **merged.values}, before or ""
            )
            self._validate(after)
            diff.append(difference(self._file, docker.shown(before), docker.shown(after)))
            if not self._module.check_mode:
                # Both versions are recorded until the file is written, so that after a killed run no setting counts as
                # unmanaged.
                records = self._keep([*records, *([kept] if kept not in records else [])], records)
                backup = self._write(after, "reload" if reload else "restart")
        if not self._module.check_mode:
            self._keep([kept], records)
        newer = self._newer() if self._service else []
        if newer and not self._module.check_mode:
            self._restarts.note(self._service)
        restart = bool(newer) or self._noted("restart") or not reload
        return {
            "changed": bool(keys),
            "diff": diff,
            "changed_keys": keys,
            "backup": backup,
            "unmanaged_keys": sorted(set(merged.values) - set(wanted)),
            "newer_programs": newer,
            "restart": restart,
            "services": [self._service] if self._service and (restart or keys or self._noted("reload")) else [],
            **docker.facts(merged.values),
        }

    def _records(self) -> list[dict[str, Any]]:
        """Return the recorded settings: one JSON object per line, two lines while the file is being changed."""
        text = read_text(self._record) if self._record else None
        # If the record can't be read, its settings count as unmanaged.
        with contextlib.suppress(DomainError):
            return [docker.read_daemon(line) for line in (text or "").split("\n")]
        return [{}]

    def _keep(self, records: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._record and records != before:
            put_file(self._record, "\n".join(map(json.dumps, records)).encode(), 0o600)
        return records

    def _write(self, after: str, verb: str) -> str | None:
        backup = self._first_run.keep_file(self._path, self._file)
        if self._service:
            self._restarts.note(self._service, verb)
        write_text(self._file, after)
        return backup

    def _validate(self, text: str) -> None:
        """Have an installed dockerd validate the settings."""
        if not self._program.exists():
            return
        with tempfile.NamedTemporaryFile("w", dir=self._module.tmpdir, suffix=".json", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            done = Runner(self._module, timeout=60).run([str(self._program), "--validate", "--config-file", file.name])
        if done.rc != 0:
            raise DomainError(
                f"Error while merging settings into {self._path}: Docker rejects them: {done.message}. Correct the "
                "settings. Nothing was changed.",
                **done.fields(),
            )

    def _check_log_options(self, values: Mapping[str, Any]) -> None:
        options = values.get("log-opts")
        problems = list(logs.problems(logs.driver(values), options if isinstance(options, Mapping) else {}))
        if problems:
            raise DomainError(
                f"Error while merging settings into {self._path}: {', and '.join(problems)}. Docker would not start. "
                "Correct log-driver or log-opts, in the settings or in the file. Nothing was changed."
            )

    def _noted(self, verb: str) -> bool:
        return bool(self._service) and self._restarts.noted(self._service, verb)

    def _newer(self) -> list[str]:
        """Return the programs that were installed after Docker was started."""
        try:
            started = self._started.stat().st_mtime
        except OSError:
            return []
        return [str(path) for path in self._programs if path.exists() and path.stat().st_ctime > started]

    def _contradicted(self, merged: docker.Merged) -> DomainError:
        found = [
            (key, docker.shown(json.dumps(present)), docker.shown(json.dumps(wanted)))
            for key, present, wanted in merged.contradictions
        ]
        said = "; ".join(f"{key} is {present}, not {wanted}" for key, present, wanted in found)
        return DomainError(
            f"Error while merging settings into {self._path}: they have different values: {said}. Change them "
            "manually, remove them from the settings, or allow the change (replace: true). Nothing was changed.",
            contradictions=[
                {"key": key, "present": json.loads(present), "wanted": json.loads(wanted)}
                for key, present, wanted in found
            ],
        )


def _complete_settings(
    others: Mapping[str, Any], settings: Mapping[str, Any], log_options: Mapping[str, Any], cdi: bool
) -> dict[str, Any]:
    """Return the settings with the log options that the driver supports, and with CDI if the file disables it."""
    wanted = dict(settings)
    own = wanted.get("log-opts", {})
    if isinstance(own, Mapping):
        options = {**logs.supported_options(logs.driver({**others, **_without_nulls(wanted)}), log_options), **own}
        if options:
            wanted["log-opts"] = _without_nulls(options) or None
    if cdi and not wanted.get("features") and docker.without(others, _WITHOUT_CDI) != others:
        wanted["features"] = {"cdi": True}
    return wanted


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
