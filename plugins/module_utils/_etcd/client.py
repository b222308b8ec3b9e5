# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask etcd through etcdctl, with the certificates of a control plane that kubeadm set up."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .._command import CommandError, Result, Runner
from .._errors import DomainError
from . import quorum
from .members import Member, Status, assess, read_health, read_members, read_status

# Of a module that works with etcd; plugins/doc_fragments/etcd.py documents them.
OPTIONS: dict[str, dict[str, Any]] = {
    "endpoint": {"type": "str", "default": "https://127.0.0.1:2379"},
    "pki": {"type": "path", "default": "/etc/kubernetes/pki/etcd"},
    "etcdctl": {"type": "str", "default": "etcdctl"},
    "timeout": {"type": "int", "default": 3},
}
# kubeadm's client certificates: the first one is for this purpose, but some clusters have no health check.
_CLIENTS = ("healthcheck-client", "server")
# etcdctl logs in JSON before its error message; the log has the cause.
_CAUSE = re.compile(r'"error":"(?:rpc error: code = \w+ desc = )?((?:[^"\\]|\\.)*)"')
# etcd refuses a change until its members have been connected for five seconds (HealthInterval in its source).
_CHANGE = 10
_UNSETTLED, _SETTLED = "etcdserver: unhealthy cluster", 10.0
_ADVICE = "Check crictl ps --all --name etcd, and crictl logs of its container."
_PREFIX = re.compile(r"latest balancer error: |connection error: desc = |transport: |Error while dialing: ")


class Etcd:
    """etcd as its member on this host presents it. ``options`` are values of OPTIONS, by default the module's."""

    def __init__(self, module: Any, options: Mapping[str, Any] | None = None) -> None:
        params = module.params if options is None else options
        # etcdctl fails if an option is also in its environment, even an empty one. run_command can't remove variables.
        for name in [each for each in os.environ if each.startswith(("ETCDCTL_", "ETCDUTL_"))]:
            del os.environ[name]
        self.runner = Runner(module)
        self.endpoint: str = params["endpoint"]
        self._timeout: int = params["timeout"]
        self._program: str = params["etcdctl"]
        self._certificates = _certificates(Path(params["pki"]))

    def members(self) -> list[Member]:
        """Return all members with health and status. Raise DomainError if the one on this host does not answer.

        Members that don't answer cost one timeout, all together; a lost quorum costs one more.
        """
        listed = self._list()
        asked = {each.client_urls[0]: each for each in listed if each.client_urls}
        health = read_health(self._ask(["endpoint", "health"], list(asked))) if asked else {}
        # etcdctl asks for the status one after the other, so those that are down would each cost a timeout.
        alive = [url for url, each in asked.items() if each.learner or not health.get(url)]
        return assess(listed, health, self._status(alive or [self.endpoint]))

    def status(self) -> Status:
        """Return the status of the member on this host."""
        found = self._status([self.endpoint])
        if len(found) != 1:
            raise DomainError(f"Error while asking {self.endpoint} for its status: it did not answer. {_ADVICE}")
        return next(iter(found.values()))

    def remove(self, member: Member) -> None:
        """Remove a member, whatever the consequences: ask ``quorum.may_remove`` before."""
        # The members may need several heartbeats, or an election, to agree.
        arguments, limit = ["member", "remove", member.id], max(self._timeout, _CHANGE)
        options, deadline = self._limits(limit), time.monotonic() + _SETTLED
        while True:
            try:
                self.check(
                    arguments, f"removing {member.label} from etcd", *options, timeout=limit + self._timeout + 10
                )
                return
            except CommandError as error:
                if _UNSETTLED not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(1)

    def check(self, arguments: Sequence[str], doing: str, *options: str, timeout: float | None = None) -> str:
        """Run etcdctl for this host's member and return its stdout. Raise CommandError with the cause."""
        result = self._run(arguments, [self.endpoint], options, timeout)
        if result.rc != 0:
            raise CommandError(f"Error while {doing}: {_cause(result)}", **result.fields())
        return result.stdout

    def _list(self) -> list[Member]:
        arguments = ["member", "list", "--write-out=json"]
        first = self._run(arguments, [self.endpoint], self._limits())
        if first.rc == 0:
            return read_members(first.stdout)
        # Without a quorum, only this member's own list can be read.
        own = [*arguments, "--consistency=s"]
        doing = f"asking etcd at {self.endpoint} for its members"
        try:
            return read_members(self.check(own, doing, *self._limits()))
        except CommandError as error:
            raise CommandError(f"{error}. {_ADVICE}", **error.fields) from error

    def _status(self, endpoints: Sequence[str]) -> dict[str, Status]:
        return read_status(self._ask(["endpoint", "status"], endpoints))

    def _ask(self, arguments: Sequence[str], endpoints: Sequence[str]) -> str:
        result = self._run([*arguments, "--write-out=json"], endpoints, self._limits())
        # The exit status is 1 as soon as one of the endpoints does not answer.
        if not result.stdout.strip():
            raise CommandError(f"Error while asking {', '.join(endpoints)}: {_cause(result)}", **result.fields())
        return result.stdout

    def _limits(self, timeout: int = 0) -> tuple[str, ...]:
        return (f"--command-timeout={timeout or self._timeout}s",)

    def _run(
        self,
        arguments: Sequence[str],
        endpoints: Sequence[str],
        options: Sequence[str],
        timeout: float | None = None,
    ) -> Result:
        argv = [self._program, *arguments, f"--endpoints={','.join(endpoints)}", f"--dial-timeout={self._timeout}s"]
        limit = (len(endpoints) + 1) * self._timeout + 10 if timeout is None else timeout
        return self.runner.run([*argv, *self._certificates, *options], timeout=limit)


def facts(member: Member) -> dict[str, Any]:
    """Return a member as in a module's result."""
    status = member.status
    numbers = {key: value for key, value in asdict(status).items() if key not in ("leader", "alarms")} if status else {}
    return {
        "id": member.id,
        "name": member.name,
        "peer_urls": list(member.peer_urls),
        "client_urls": list(member.client_urls),
        "learner": member.learner,
        "health": member.health,
        "why": member.why,
        "alarms": list(member.alarms),
        "leader": status is not None and status.leader == member.id,
        "status": numbers or None,
    }


def tolerance(found: quorum.Standing) -> dict[str, Any]:
    """Return the numbers of voters as in a module's result."""
    names = ("voters", "healthy", "quorum", "has_quorum", "may_fail")
    return {name: getattr(found, name) for name in names}


def _certificates(pki: Path) -> list[str]:
    for name in _CLIENTS:
        files: Mapping[str, Path] = {"cacert": pki / "ca.crt", "cert": pki / f"{name}.crt", "key": pki / f"{name}.key"}
        if all(path.is_file() for path in files.values()):
            return [f"--{option}={path}" for option, path in files.items()]
    raise DomainError(
        f"Error while looking for the certificates of etcd: {pki} has neither {' nor '.join(_CLIENTS)} with a "
        "certificate, a key, and ca.crt. Run this on a control plane whose etcd kubeadm set up."
    )


def _cause(result: Result) -> str:
    found = _CAUSE.findall(result.stderr)
    cause = found[-1].replace('\\"', "").replace("\\", "") if found else result.message
    return _PREFIX.sub("", cause).removeprefix("Error: ").strip().rstrip(".")
