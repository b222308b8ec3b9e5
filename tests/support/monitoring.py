"""Debian's Prometheus and node_exporter, unpacked into the checkout's cache instead of installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from support.hosts import ROOT

T = TypeVar("T")
_CACHE = ROOT / ".cache" / "monitoring"
_PACKAGES = ("prometheus", "prometheus-node-exporter")
_PATIENCE = 30


class MonitoringError(Exception):
    """Prometheus is missing, or a command has failed."""


def program(name: str) -> str:
    """Return the path of ``prometheus``, ``promtool`` or ``prometheus-node-exporter``. Raises MonitoringError."""
    path = shutil.which(name) or shutil.which(name, path=str(_CACHE / "usr" / "bin"))
    if not path:
        _unpack()
        path = str(_CACHE / "usr" / "bin" / name)
    return path


def _unpack() -> None:
    """Unpacks the packages, because installing them would start their services."""
    _CACHE.mkdir(parents=True, exist_ok=True)
    download = ["apt-get", "--quiet", "--option", "APT::Sandbox::User=root", "download", *_PACKAGES]
    with tempfile.TemporaryDirectory() as folder:
        if _failure(download, folder) and (
            _failure(["apt-get", "--quiet", "update"], folder) or _failure(download, folder)
        ):
            by_hand = f"Install the packages {' and '.join(_PACKAGES)} by hand and run again."
            raise MonitoringError(f"Error while downloading Prometheus: {_failure(download, folder)}. {by_hand}")
        for file in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "--extract", file, _CACHE], check=True)


def _failure(command: list[str], folder: str) -> str:
    """Return the last line of a command that fails, or an empty string if it succeeds."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr.strip().splitlines() or ["failed"])[-1] if done.returncode else ""


def until(read: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """Return the result of ``read`` once it is as wanted. Raises MonitoringError with the last result."""
    limit = time.monotonic() + _PATIENCE
    while True:
        found = read()
        if wanted(found):
            return found
        if time.monotonic() > limit:
            raise MonitoringError(f"Error while waiting for Prometheus: after {_PATIENCE} s it still says {found!r}")
        time.sleep(0.1)


class Prometheus:
    """A Prometheus that reads ``folder`` through a node_exporter, both on the loopback address only."""

    def __init__(self, address: str, exporter: str) -> None:
        self.address = address
        self.exporter = exporter

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("query", query=expression)["result"]
        return found

    def alerts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._get("alerts")["alerts"]
        return found

    def exposed(self) -> str:
        """Return the response of node_exporter."""
        with urllib.request.urlopen(f"http://{self.exporter}/metrics", timeout=_PATIENCE) as answer:
            return str(answer.read().decode())

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        words = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}?{words}", timeout=_PATIENCE) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
            return found

    def ready(self) -> bool:
        try:
            return bool(self.query("up == 1"))
        except (urllib.error.URLError, ConnectionError):
            return False


@contextmanager
def prometheus(folder: Path, rules: Path, data: Path) -> Iterator[Prometheus]:
    """Start both with these rules; ``folder`` contains the files for the textfile collector."""
    exporter, address = (f"127.0.0.1:{_free_port()}" for _each in range(2))
    timing = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
    scraped = [{"job_name": "node", "static_configs": [{"targets": [exporter]}]}]
    settings = {"global": timing, "rule_files": [str(rules)], "scrape_configs": scraped}
    (data / "prometheus.yml").write_text(json.dumps(settings))
    collector = ["--collector.disable-defaults", "--collector.textfile", f"--collector.textfile.directory={folder}"]
    commands = (
        [program("prometheus-node-exporter"), *collector, f"--web.listen-address={exporter}"],
        [
            *(program("prometheus"), f"--config.file={data}/prometheus.yml", f"--storage.tsdb.path={data}/tsdb"),
            f"--web.listen-address={address}",
        ],
    )
    with ExitStack() as stack:
        for command in commands:
            log = stack.enter_context((data / f"{Path(command[0]).name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
            stack.callback(process.wait)
            stack.callback(process.kill)
        found = Prometheus(address, exporter)
        until(found.ready, bool)
        yield found


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
