"""The probers of the long tests: gaps of the API, acknowledged writes, and steps of a GPU pod."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apiserver import ApiServer, Authority
from support import probe_program
from support.api_prober import NAMESPACE, Access, Answer, ApiProber, longest_gap
from support.gpu_pod_prober import SCRIPT, GpuPodProber, Steps, training_pod
from support.hosts import Host

NAMESPACES = "/api/v1/namespaces"
OBJECTS = f"{NAMESPACES}/{NAMESPACE}/configmaps"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ApiServer]:
    started = ApiServer(Authority(), tmp_path)
    answer(started, 201, 200)
    yield started
    started.stop()


def answer(server: ApiServer, write: int, read: int) -> None:
    server.answers = {OBJECTS: (read, {}), f"POST {NAMESPACES}": (write, {}), f"POST {OBJECTS}": (write, {})}


def prober(server: ApiServer, log: Path, **access: str) -> ApiProber:
    admin = Access.read(server.authority.kubeconfig(server.url))
    return ApiProber(admin.through(server.url, **access), log / "answers.jsonl", interval=0.02)


def wait_for(probing: ApiProber, ok: bool) -> None:
    """Wait until the last answer of each kind is a success, or is none."""
    end = time.monotonic() + 20
    while {(each.kind, each.ok) for each in probing.answers()[-2:]} != {("list", ok), ("write", ok)}:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_prober_measures_an_outage_and_knows_which_objects_were_acknowledged(
    server: ApiServer, tmp_path: Path
) -> None:
    with prober(server, tmp_path) as probing:
        probing.wait()
        answer(server, 503, 503)
        wait_for(probing, ok=False)
        time.sleep(0.3)
        answer(server, 201, 200)
        wait_for(probing, ok=True)
    assert probing.process is not None and probing.process.returncode == 0
    for kind in ("list", "write"):
        assert 0.3 <= probing.gap(kind).seconds < 10
        assert probing.gap(kind).errors == ("503",)
    created = {body["metadata"]["name"] for method, path, body in server.written if path == OBJECTS}
    assert probing.acknowledged() < created
    refused = {f"{probing.prefix}-{a.number}" for a in probing.answers() if a.kind == "write" and not a.ok}
    assert probing.acknowledged() == {name for name in created if name not in refused}


def test_a_prober_runs_on_a_host_without_any_file_there(server: ApiServer, tmp_path: Path) -> None:
    class Shell(Host):
        def ssh(self) -> list[str]:
            return ["sh", "-c"]

    admin = Access.read(server.authority.kubeconfig(server.url))
    probing = ApiProber(admin, tmp_path / "answers.jsonl", Shell("gpu1", {}), interval=0.02)
    assert not any(word in str(probing.command) for word in (admin.key, str(tmp_path)))
    with probing:
        probing.wait()
    assert probing.process is not None and probing.process.returncode == 0


def test_a_prober_checks_the_name_in_the_certificate(server: ApiServer, tmp_path: Path) -> None:
    with prober(server, tmp_path, server_name="localhost") as probing:
        probing.wait()
    with prober(server, tmp_path, server_name="api.lab.internal") as probing:
        end = time.monotonic() + 20
        while not probing.answers() and time.monotonic() < end:
            time.sleep(0.01)
    assert {each.error for each in probing.answers()} == {"SSLCertVerificationError"}


def test_a_prober_says_why_it_could_not_start(server: ApiServer, tmp_path: Path) -> None:
    probing = prober(server, tmp_path)
    probing.settings["ca"] = "not a certificate"
    with pytest.raises(AssertionError, match=r"(?s)the prober ended.*cadata"), probing:
        probing.wait()


def test_a_prober_that_ended_early_is_an_error_and_its_silence_a_gap(server: ApiServer, tmp_path: Path) -> None:
    probing = prober(server, tmp_path)
    with pytest.raises(AssertionError, match="the prober ended with -9"), probing:
        probing.wait()
        assert probing.process
        probing.process.kill()
        probing.process.wait()
        time.sleep(0.5)
    assert probing.gap("write").seconds >= 0.5


def test_a_prober_opens_a_connection_for_each_list() -> None:
    calls = []

    class Connection:
        def ask(self, method: str, _path: str) -> int:
            calls.append(method)
            if len(calls) > 2:
                raise OSError("refused")
            return 200

        def close(self) -> None:
            calls.append("close")

    send = probe_program.lister({"namespace": NAMESPACE}, cast("probe_program.Connection", Connection()))
    assert send(1) == 200
    with pytest.raises(OSError, match="refused"):
        send(2)
    assert calls == ["GET", "close", "GET", "close"]


def test_a_gap_lasts_from_one_success_to_the_next_even_if_it_has_not_ended() -> None:
    def answers(*found: tuple[float, float, int]) -> list[Answer]:
        return [Answer("write", n, at, took, status, "") for n, (at, took, status) in enumerate(found)]

    slow = longest_gap(answers((0, 0.1, 201), (0.2, 0.9, 201), (1.2, 0.1, 201)), "write")
    assert (round(slow.seconds, 1), slow.errors) == (1.0, ())
    ended = longest_gap(answers((0, 0.1, 201), (0.2, 1, 0), (1.2, 0.1, 500), (1.4, 0.1, 201)), "write")
    assert (round(ended.seconds, 1), round(ended.since, 1), ended.errors) == (1.4, 0.1, ("0", "500"))
    lasting = longest_gap(answers((0, 0.1, 201), (0.2, 1, 0), (1.2, 1, 0)), "write")
    assert round(lasting.seconds, 1) == 2.1
    stopped = longest_gap(answers((0, 0.1, 201), (0.2, 0.1, 201)), "write", until=9.3)
    assert (round(stopped.seconds, 1), round(stopped.since, 1)) == (9.0, 0.3)
    with pytest.raises(ValueError, match="no answers of the kind list"):
        longest_gap(answers((0, 0.1, 201)), "list")


@pytest.mark.parametrize("line", ["", "1", "{}", json.dumps({"kind": "delete"}), '{"kind": "write", "number": "x"}'])
def test_a_line_that_is_no_answer_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        Answer.read(line)


def test_steps_that_are_done_again_after_a_restart_are_lost() -> None:
    text = """10.00 start a 0
10.01 step a 1
11.01 step a 2
12.01 step a 3
15.50 start a 2
15.51 step a 3
20.00 start b 0
20.01 step b 1
"""
    assert Steps.read(text) == Steps(last=1, restarts=2, lost=4, longest_gap=4.49, pods=("a", "b"))
    assert Steps.read("") == Steps.read("", uptime=30.0) == Steps(0, 0, 0, 0.0, ())
    with pytest.raises(ValueError, match="not a step"):
        Steps.read(text + "\0\0")


def test_a_pod_that_is_gone_has_a_pause_and_a_boot_of_the_host_is_an_error() -> None:
    text = "10.00 start a 0\n10.01 step a 1\n"
    assert Steps.read(text, uptime=70.01).longest_gap == 60.0
    with pytest.raises(ValueError, match=r"from 10\.01 to 5\.0: the host was booted"):
        Steps.read(text, uptime=5.0)
    with pytest.raises(ValueError, match=r"from 10\.01 to 9\.0: the host was booted"):
        Steps.read(text + "9.00 start a 1\n")


@pytest.mark.parametrize(
    ("uid", "phase", "right"), [("a", "Running", True), ("b", "Running", False), ("a", "Failed", False)]
)
def test_the_pod_that_counted_last_must_run(uid: str, phase: str, right: bool) -> None:
    pod = {"metadata": {"uid": uid}, "status": {"phase": phase}}
    host = SimpleNamespace(name="gpu1", run=lambda _script: "10.00 start a 0\n10.01 step a 1\n11.50 40.00\n")
    counting = GpuPodProber(cast(Any, SimpleNamespace(get=lambda *_: pod)), cast("Host", host), "job")
    if right:
        assert counting.expect_running().longest_gap == 1.49
        return
    with pytest.raises(AssertionError, match="and a counted last"):
        counting.expect_running()


def test_a_pod_that_saves_when_it_is_ended_loses_no_step(tmp_path: Path) -> None:
    pod = training_pod("job", "gpu1", save_on_term=True)
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    given = {each["name"]: each.get("value", "uid") for each in container["env"]} | {"LOG": str(tmp_path / "job")}
    for _start in range(2):
        process = subprocess.Popen(["sh", "-c", SCRIPT], env={"PATH": "/usr/bin:/bin", **given})
        began = len(read(tmp_path).splitlines())
        while len(read(tmp_path).splitlines()) < began + 2:
            time.sleep(0.01)
        process.terminate()
        assert process.wait(10) == 0
    steps = Steps.read(read(tmp_path))
    assert (steps.restarts, steps.lost, steps.pods) == (1, 0, ("uid",)) and steps.last >= 2


def read(directory: Path) -> str:
    path = directory / "job"
    return path.read_text() if path.exists() else ""
