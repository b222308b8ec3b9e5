"""Ask an API server for a list and a write at a fixed interval, and print one JSON line for each answer.

Needs only Python 3.9, so that it also runs on hosts. It reads one JSON line from standard input, with the fields of
support.api_prober.Access and namespace, prefix, interval and timeout (both in seconds), and ends when standard input is
closed, so that no process is left if the caller is gone.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Connection(http.client.HTTPSConnection):
    """A connection that checks the certificate for a name that can differ from the address."""

    def __init__(self, settings: dict[str, Any], context: ssl.SSLContext) -> None:
        url = urlsplit(settings["server"])
        super().__init__(str(url.hostname), url.port or 443, timeout=settings["timeout"], context=context)
        self.context, self.name = context, settings["server_name"] or str(url.hostname)

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self.context.wrap_socket(self.sock, server_hostname=self.name)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """Return the status of a request; http.client connects again after a connection was closed."""
        try:
            text = None if body is None else json.dumps(body)
            self.request(method, path, text, {"Content-Type": "application/json", "Accept": "application/json"})
            answer = self.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        return answer.status


def credentials(settings: dict[str, Any]) -> ssl.SSLContext:
    """Return a context with the client's certificate, which ssl only reads from files."""
    context = ssl.create_default_context(cadata=settings["ca"])
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{settings['certificate']}\n{settings['key']}\n")
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
    return context


def lister(settings: dict[str, Any], connection: Connection) -> Callable[[int], int]:
    """Return a function that asks on a new connection each time; the writer keeps its connection."""
    path = f"/api/v1/namespaces/{settings['namespace']}/configmaps?limit=1"

    def ask(_number: int) -> int:
        try:
            return connection.ask("GET", path)
        finally:
            connection.close()

    return ask


def writer(settings: dict[str, Any], connection: Connection) -> Callable[[int], int]:
    """Return a function that creates one object; its first call that is answered creates the namespace."""
    namespace = {"metadata": {"name": settings["namespace"]}}
    path = f"/api/v1/namespaces/{settings['namespace']}/configmaps"
    missing = [namespace]

    def write(number: int) -> int:
        if missing:
            status = connection.ask("POST", "/api/v1/namespaces", namespace)
            if status not in (201, 409):
                return status
            missing.clear()
        return connection.ask("POST", path, {"metadata": {"name": f"{settings['prefix']}-{number}"}})

    return write


def probe(kind: str, send: Callable[[int], int], interval: float, ended: threading.Event, out: Any) -> None:
    number, due = 0, time.monotonic()
    while not ended.wait(max(0.0, due - time.monotonic())):
        number += 1
        at, began, status, error = time.time(), time.monotonic(), 0, ""
        try:
            status = send(number)
        except (OSError, http.client.HTTPException) as problem:
            error = type(problem).__name__
        now = time.monotonic()
        answer = {"kind": kind, "number": number, "at": at, "took": now - began, "status": status, "error": error}
        out(json.dumps(answer))
        due = max(due + interval, now)


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    context, ended, lock = credentials(settings), threading.Event(), threading.Lock()

    def out(line: str) -> None:
        with lock, contextlib.suppress(BrokenPipeError):
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    threads = []
    for kind, make in (("list", lister), ("write", writer)):
        send = make(settings, Connection(settings, context))
        threads.append(threading.Thread(target=probe, args=(kind, send, settings["interval"], ended, out)))
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
