# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API client with failing servers, and a clock that only advances when the client waits."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import api as client
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import patience
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError
from apiserver import serving

POD = "/api/v1/namespaces/team/pods/train"
GOOD = {"metadata": {"name": "train"}}
RESET, CUT, CUT_CHUNKS, TRICKLE, TRICKLE_HEADERS = "reset", "cut", "cut chunks", "trickle", "trickle headers"
BUDGET = {"message": "Cannot evict pod", "details": {"causes": [{"reason": "DisruptionBudget"}]}}


@dataclass
class Clock:
    """A clock that only advances during sleep."""

    now: float = 1000.0
    naps: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds
        self.naps.append(seconds)


@dataclass
class Script:
    """The server's response to each request; the last step is repeated. ``asked`` has the methods of the requests.

    ``readiness`` has the responses to requests for the server's readiness.
    """

    kubeconfig: Path = Path()
    steps: list[Any] = field(default_factory=list)
    readiness: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def client(self) -> Api:
        return Api(str(self.kubeconfig))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        steps = self.script.readiness if self.path == "/readyz" else self.script.steps
        if steps is self.script.steps:
            self.script.asked.append(self.command)
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        self.close_connection = True
        if step == RESET:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if step in (TRICKLE, TRICKLE_HEADERS):
            self._trickle("HTTP/1.1 200 OK\r\n" + ("Content-Length: 1000\r\n\r\n" if step == TRICKLE else ""))
            return
        status, body, headers = step if isinstance(step, tuple) else (200, step, {})
        text = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        if step == CUT_CHUNKS:
            self.send_header("Transfer-Encoding", "chunked")
            text = b'5\r\n{"a":\r\n'
        else:
            self.send_header("Content-Length", str(len(text) + (100 if step == CUT else 0)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def _trickle(self, head: str) -> None:
        self.wfile.write(head.encode())
        with contextlib.suppress(OSError):
            for _byte in range(50):
                self.wfile.write(b"x")
                time.sleep(0.1)

    def do_POST(self) -> None:
        self.do_GET()

    def do_PATCH(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def log_message(self, *_args: Any) -> None:
        """Print nothing."""


def error(status: int, body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    return (
        status,
        body or {"message": "etcdserver: leader changed"},
        {k.replace("_", "-"): v for k, v in headers.items()},
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    script = Script()
    with serving(type("Scripted", (Handler,), {"script": script}), tmp_path_factory.mktemp("api")) as kubeconfig:
        script.kubeconfig = kubeconfig
        yield script


@pytest.fixture
def script(server: Script) -> Script:
    server.steps, server.readiness, server.asked = [GOOD], [GOOD], []
    return server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(patience, "LIMIT", 60.0)
    for module in (client, patience):
        monkeypatch.setattr(module, "time", found)
    return found


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(patience, "warn", found.append)
    return found


@pytest.fixture
def refused(tmp_path: Path, script: Script, clock: Clock) -> Api:
    """A client for an address without a server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = json.loads(script.kubeconfig.read_text())
    text["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    path = tmp_path / "admin.conf"
    path.write_text(json.dumps(text))
    return Api(str(path))


CALLS: dict[str, Callable[[Api], Any]] = {
    "GET": lambda api: api.get(POD),
    "PATCH": lambda api: api.merge(POD, {}),
    "DELETE": lambda api: api.delete(POD),
    "POST": lambda api: api.create(POD, {}),
}
HICCUPS = [*map(error, (500, 502, 503, 504)), RESET, CUT, CUT_CHUNKS]


def test_credentials_are_never_written_to_files_which_a_killed_run_would_leave_behind(
    script: Script, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    api = script.client()
    assert api.get(POD) == GOOD and not list(tmp_path.iterdir())


@pytest.mark.parametrize("hiccup", HICCUPS, ids=str)
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_short_failures_of_the_api_are_retried(script: Script, clock: Clock, method: str, hiccup: Any) -> None:
    script.steps = [hiccup, hiccup, GOOD]
    assert CALLS[method](script.client()) in (GOOD, None)
    assert script.asked == [method] * 3 and clock.naps == [0.25, 0.5]


@pytest.mark.parametrize("hiccup", HICCUPS, ids=str)
def test_an_object_that_may_exist_already_is_not_created_twice(script: Script, clock: Clock, hiccup: Any) -> None:
    script.steps = [hiccup, GOOD]
    with pytest.raises(ApiError) as caught:
        CALLS["POST"](script.client())
    assert (script.asked, clock.naps, caught.value.passing) == (["POST"], [], True)


@pytest.mark.parametrize(
    ("kind", "steps", "asked"),
    [
        ("Pod", [error(404), GOOD], ["POST", "GET", "POST"]),
        ("Pod", [error(503), GOOD], ["POST", "GET", "GET"]),
        ("Namespace", [error(404), GOOD], ["POST", "GET", "POST"]),
    ],
)
def test_an_object_that_was_not_created_is_created_again(
    script: Script, clock: Clock, kind: str, steps: list[Any], asked: list[str]
) -> None:
    script.steps = [error(500), *steps]
    assert script.client().create("/api/v1/things", {"kind": kind, **GOOD}) == GOOD
    assert script.asked == asked


def test_a_namespace_created_in_the_meantime_may_belong_to_another_run(script: Script, clock: Clock) -> None:
    script.steps = [error(500), GOOD]
    with pytest.raises(ApiError, match="leader changed"):
        script.client().create("/api/v1/namespaces", {"kind": "Namespace", **GOOD})


@pytest.mark.parametrize("method", CALLS)
def test_a_busy_api_is_asked_again_after_the_time_that_it_names(script: Script, clock: Clock, method: str) -> None:
    script.steps = [error(429, Retry_After="7"), error(429), GOOD]
    assert CALLS[method](script.client()) in (GOOD, None)
    assert clock.naps == [7, 0.5]


def test_a_refusal_by_a_disruption_budget_is_left_to_the_drain(script: Script, clock: Clock) -> None:
    script.steps = [error(429, BUDGET, Retry_After="10")]
    with pytest.raises(ApiError, match="Cannot evict pod") as caught:
        script.client().create(f"{POD}/eviction", {})
    assert (set(caught.value.causes), clock.naps) == ({"DisruptionBudget"}, [])


@pytest.mark.parametrize("readiness", [[error(403), error(500), GOOD], [GOOD]])
@pytest.mark.parametrize("method", CALLS)
def test_a_server_that_has_not_loaded_its_rbac_rules_is_asked_again(
    script: Script, clock: Clock, method: str, readiness: list[Any]
) -> None:
    script.readiness = list(readiness)
    script.steps = [*([error(403)] * len(readiness)), GOOD]
    assert CALLS[method](script.client()) in (GOOD, None)
    assert len(clock.naps) == len(readiness) - 1


def test_a_namespace_without_its_service_account_is_waited_for(script: Script, clock: Clock) -> None:
    text = 'pods "x" is forbidden: error looking up service account team/default: serviceaccount "default" not found'
    script.steps = [*([error(403, {"message": text})] * 5), GOOD]
    assert script.client().create(POD, {}) == GOOD
    assert len(clock.naps) == 5
    script.steps = [error(403, {"message": text})]
    with pytest.raises(ApiError, match=r"serviceaccount .default. not found"):
        script.client().create(POD, {})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422])
def test_a_refusal_is_not_retried(script: Script, clock: Clock, status: int) -> None:
    script.steps = [error(status, {"message": "no", "details": {"causes": "?"}})]
    with pytest.raises(ApiError, match=r"no$") as caught:
        script.client().get(POD)
    assert (caught.value.status, caught.value.passing, clock.naps) == (status, False, [])


def test_a_certificate_of_another_authority_is_not_retried(
    script: Script, other_authority: Any, tmp_path: Path, clock: Clock
) -> None:
    text = json.loads(script.kubeconfig.read_text())
    path = tmp_path / "admin.conf"
    path.write_text(other_authority.kubeconfig(text["clusters"][0]["cluster"]["server"]))
    with pytest.raises(ApiError, match="certificate verify failed") as caught:
        Api(str(path)).get(POD)
    assert (caught.value.passing, clock.naps) == (False, [])


@pytest.mark.parametrize("method", CALLS)
def test_an_outage_costs_one_minute_once_and_is_announced(
    refused: Api, clock: Clock, warnings: list[str], method: str
) -> None:
    began = clock.now
    for _each in range(3):
        with pytest.raises(ApiError, match=r"refused.*Is the control plane up") as caught:
            CALLS[method](refused)
        assert (caught.value.status, caught.value.passing) == (0, True)
        assert clock.now - began == pytest.approx(60)
    assert max(clock.naps) == 4
    assert warnings == [f"The API at {refused.server} has not answered for 10 s; waiting up to 60 s."]


def test_each_outage_has_the_whole_time_limit(script: Script, clock: Clock) -> None:
    api = script.client()
    for _each in range(2):
        script.steps = [*[error(503)] * 12, GOOD]
        assert api.get(POD) == GOOD
    assert sum(clock.naps) > 60


def test_later_tasks_of_a_run_do_not_wait_for_an_api_that_is_known_to_be_down(
    refused: Api, script: Script, clock: Clock, tmp_path: Path
) -> None:
    record = tmp_path / "admin.conf.patience"
    record.touch(mode=0o600)
    with pytest.raises(ApiError):
        refused.get(POD)
    assert clock.now == pytest.approx(1060) and record.read_text() == "down"
    (tmp_path / "admin.conf").write_text(script.kubeconfig.read_text())
    script.steps = [error(503)]
    with pytest.raises(ApiError):
        Api(str(tmp_path / "admin.conf")).get(POD)
    assert clock.now == pytest.approx(1063)
    script.steps = [GOOD]
    api = Api(str(tmp_path / "admin.conf"))
    assert api.get(POD) == GOOD and record.read_text() == ""
    script.steps = [*[error(503)] * 5, GOOD]
    assert api.get(POD) == GOOD and clock.now > 1066


def test_nothing_is_written_next_to_a_users_own_kubeconfig(refused: Api, clock: Clock, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    with pytest.raises(ApiError):
        refused.get(POD)
    assert set(tmp_path.iterdir()) == before


def test_time_limits_of_a_client_stop_during_an_outage(script: Script, refused: Api, clock: Clock) -> None:
    api = script.client()
    before = api.clock()
    script.steps = [error(503), error(503), GOOD]
    api.get(POD)
    assert api.clock() == before and clock.now > 1000
    with pytest.raises(ApiError):
        refused.get(POD)
    gave_up = refused.clock()
    clock.now += 5
    assert refused.clock() == gave_up + 5
    assert api.clock() == pytest.approx(before + 65)


def test_errors_of_a_kubelet_behind_the_api_do_not_count_as_an_outage(script: Script, clock: Clock) -> None:
    script.steps = [error(502)]
    with pytest.raises(ApiError):
        script.client().text(f"{POD}/log")
    assert clock.naps == []
    script.steps = [RESET, "a log"]
    assert script.client().text(f"{POD}/log") == "a log" and clock.naps == [0.25]


def test_a_log_request_with_its_own_time_limit_is_not_repeated(script: Script, clock: Clock) -> None:
    script.steps = [RESET]
    with pytest.raises(ApiError):
        script.client().text_within(5, f"{POD}/log")
    assert (script.asked, clock.naps) == (["GET"], [])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("<html>Sign in to the guest network</html>", "it is not valid JSON"),
        ('{"metadata": {"na', "it is not valid JSON"),
        ("", "it is not valid JSON"),
        ("[" * 100000, "it is nested too deeply"),
        ([1], "it is not a JSON object"),
        ({"items": {"a": 1}}, "it is not a list"),
        ({"items": ["a"]}, "it is not a list"),
        ({"items": ["a" * 2000]}, "it has more than 1000 bytes"),
        ((200, gzip.compress(json.dumps(GOOD).encode()), {"Content-Encoding": "gzip"}), "it is not valid JSON"),
        (error(302, "<html>", Location="https://portal.example"), "HTTP status 302"),
    ],
)
def test_a_response_that_is_not_the_apis_is_a_clear_error(
    script: Script, clock: Clock, monkeypatch: pytest.MonkeyPatch, answer: Any, words: str
) -> None:
    if "more than" in words:
        monkeypatch.setattr(client, "_LARGEST_ANSWER", 1000)
    script.steps = [answer]
    with pytest.raises(ApiError, match=f"{words}.*Does a proxy or a captive portal answer"):
        script.client().items(POD)
    assert clock.naps == []


@pytest.mark.parametrize("step", [TRICKLE, TRICKLE_HEADERS])
def test_a_response_that_never_ends_is_abandoned(
    script: Script, clock: Clock, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(client, "_LONGEST_TRY", 0.5)
    script.steps = [step, GOOD]
    began = time.monotonic()
    assert script.client().get(POD) == GOOD
    assert time.monotonic() - began < 3


def test_a_request_is_abandoned_although_others_succeed(
    script: Script, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, sleep = script.client(), clock.sleep

    def nap(seconds: float) -> None:
        assert sum(clock.naps) < 300
        sleep(seconds)
        # Another thread got a response.
        api._patience.answered()

    monkeypatch.setattr(clock, "sleep", nap)
    script.steps = [error(500, {"message": "failed calling webhook"})]
    with pytest.raises(ApiError, match="failed calling webhook"):
        api.merge(POD, {})
    assert sum(clock.naps) == pytest.approx(60)
