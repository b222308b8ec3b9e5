"""Measure for how long an API server does not answer, and which writes it acknowledged."""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import yaml

from support.hosts import Host

PROGRAM = Path(__file__).with_name("probe_program.py")
KINDS = ("list", "write")
NAMESPACE = "gpulab-probe"


@dataclass(frozen=True)
class Access:
    """A server and an administrator's credentials as PEM; `server_name` is the certificate's name, if it differs."""

    server: str
    ca: str
    certificate: str
    key: str
    server_name: str = ""

    @classmethod
    def read(cls, kubeconfig: str) -> Access:
        """Return the access of a kubeconfig's current context, which must contain its certificates."""
        content = yaml.safe_load(kubeconfig)
        context = _named(content, "context", content["current-context"])
        cluster, user = _named(content, "cluster", context["cluster"]), _named(content, "user", context["user"])
        encoded = (
            cluster["certificate-authority-data"],
            user["client-certificate-data"],
            user["client-key-data"],
        )
        ca, certificate, key = (base64.b64decode(data).decode() for data in encoded)
        return cls(cluster["server"], ca, certificate, key, cluster.get("tls-server-name", ""))

    def through(self, server: str, server_name: str = "") -> Access:
        """Return the same access on another path, for example that of a worker's kubelet."""
        return replace(self, server=server, server_name=server_name)


def _named(kubeconfig: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each[kind] for each in kubeconfig[f"{kind}s"] if each["name"] == name)
    return found


def admin_access(control_plane: Host) -> Access:
    """Return an administrator's access for this machine, which doesn't know the name of a cluster's endpoint."""
    access = Access.read(control_plane.run("cat /etc/kubernetes/admin.conf"))
    server = urlsplit(access.server)
    address = control_plane.variables["ansible_host"]
    return access.through(f"https://{address}:{server.port}", server.hostname or "")


def kubelet_server(worker: Host) -> str:
    """Return the address at which a worker's kubelet reaches the API."""
    content = yaml.safe_load(worker.run("cat /etc/kubernetes/kubelet.conf"))
    server: str = content["clusters"][0]["cluster"]["server"]
    return server


@dataclass(frozen=True)
class Answer:
    """One request: when it was sent (seconds since 1970), how long it took, and its HTTP status (0: no answer)."""

    kind: str
    number: int
    at: float
    took: float
    status: int
    error: str

    @classmethod
    def read(cls, line: str) -> Answer:
        """Return the answer of one line. Raises ValueError for anything else."""
        try:
            given = json.loads(line)
            found = cls(
                str(given["kind"]),
                int(given["number"]),
                float(given["at"]),
                float(given["took"]),
                int(given["status"]),
                str(given["error"]),
            )
        except (KeyError, TypeError) as problem:
            raise ValueError(f"not an answer: {line!r}") from problem
        if found.kind not in KINDS:
            raise ValueError(f"not an answer: {line!r}")
        return found

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def end(self) -> float:
        return self.at + self.took


@dataclass(frozen=True)
class Gap:
    """The time from one successful answer to the next, and what was answered instead."""

    seconds: float
    since: float
    errors: tuple[str, ...] = ()


def longest_gap(answers: Iterable[Answer], kind: str, until: float = 0.0) -> Gap:
    """Return the longest gap of a kind, including one that had not ended by `until`. Raises ValueError without answers.

    A prober that stopped asking would otherwise have no gap.
    """
    asked = sorted((answer for answer in answers if answer.kind == kind), key=lambda answer: answer.at)
    if not asked:
        raise ValueError(f"there are no answers of the kind {kind}")
    gaps, since = [], asked[0].at
    errors: list[str] = []
    for answer in asked:
        if not answer.ok:
            errors.append(answer.error or str(answer.status))
        gaps.append(Gap(answer.end - since, since, tuple(dict.fromkeys(errors))))
        if answer.ok:
            since, errors = answer.end, []
    gaps.append(Gap(until - since, since, tuple(dict.fromkeys(errors))))
    return max(gaps, key=lambda gap: gap.seconds)


class ApiProber:
    """A process that asks the API during a block, here or on a host, which needs Python and gets no file.

    Its answers are in the file `log` as JSON lines. The objects that it writes are ConfigMaps of the namespace.
    """

    def __init__(
        self, access: Access, log: Path, host: Host | None = None, interval: float = 0.2, timeout: float = 1.0
    ) -> None:
        self.log, self.prefix = log, f"probe-{uuid.uuid4().hex[:8]}"
        self.command = [sys.executable, str(PROGRAM)]
        if host:
            self.command = [*host.ssh(), f"python3 -c {shlex.quote(PROGRAM.read_text())}"]
        own = {"namespace": NAMESPACE, "prefix": self.prefix, "interval": interval, "timeout": timeout}
        self.settings = {**asdict(access), **own}
        self.process: subprocess.Popen[str] | None = None
        self.until: float | None = None

    def __enter__(self) -> ApiProber:
        with self.log.open("w") as out, self.log.with_suffix(".err").open("w") as errors:
            # A session of its own, because tests kill the process group of a play.
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=out, stderr=errors, text=True, start_new_session=True
            )
        assert self.process.stdin
        self.process.stdin.write(json.dumps(self.settings) + "\n")
        self.process.stdin.flush()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self.process and self.process.stdin
        asking, self.until = self.process.poll() is None, time.time()
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # A failed test has its own error to show.
        if error is None:
            status = self.process.returncode
            assert asking and status == 0, f"the prober ended with {status}\n{self._errors()}"

    def wait(self, seconds: float = 60) -> None:
        """Wait until a request of each kind was successful."""
        end = time.monotonic() + seconds
        while {answer.kind for answer in self.answers() if answer.ok} != set(KINDS):
            assert self.process and self.process.poll() is None, f"the prober ended\n{self._errors()}"
            assert time.monotonic() < end, f"the API did not answer within {seconds:.0f} s\n{self._errors()}"
            time.sleep(0.1)

    def answers(self) -> list[Answer]:
        """Return the answers so far; a last line that is not complete yet is left out."""
        return [Answer.read(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def gap(self, kind: str) -> Gap:
        """Return the longest gap up to the end of the block, or up to now."""
        return longest_gap(self.answers(), kind, time.time() if self.until is None else self.until)

    def _errors(self) -> str:
        return self.log.with_suffix(".err").read_text()

    def acknowledged(self) -> set[str]:
        """Return the names of all objects whose creation was confirmed."""
        return {f"{self.prefix}-{answer.number}" for answer in self.answers() if answer.kind == "write" and answer.ok}
