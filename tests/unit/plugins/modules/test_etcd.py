# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules of etcd with a stand-in that prints recorded outputs; test_etcd_real.py runs them with etcd itself."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

RECORDED = json.loads(Path(__file__).parents[2].joinpath("fixtures/etcd_outputs.json").read_text())
# Prints the recorded output of a call, and fails with the recorded error message.
ETCDCTL = """
import json, os, pathlib, sys
root = pathlib.Path({root!r})
(root / "environment").write_text(" ".join(name for name in os.environ if name.startswith("ETCDCTL_")))
words = [word for word in sys.argv[1:] if not word.startswith("--")]
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
with (root / "log").open("a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
call = "-".join(words[:2])
if words[:2] == ["snapshot", "save"]:
    pathlib.Path(words[2] + ".part").write_text("unfinished")
failure = root / (call + "-" + options.get("consistency", "l") + ".error")
if failure.exists():
    sys.exit(failure.read_text())
if words[:2] == ["snapshot", "save"]:
    pathlib.Path(words[2] + ".part").rename(words[2])
    pathlib.Path(words[2]).write_text("database")
elif words[:2] == ["member", "remove"]:
    print("Member removed")
else:
    listed = json.loads((root / call).read_text())
    if words[0] == "endpoint":
        asked = options["endpoints"].split(",")
        listed = [each for each in listed if (each.get("endpoint") or each.get("Endpoint")) in asked]
    print(json.dumps(listed))
    if "false" in json.dumps(listed):
        sys.exit("Error: unhealthy cluster")
"""
ETCDUTL = """
import pathlib, sys
root = pathlib.Path({root!r})
if (root / "damaged").exists():
    sys.exit("Error: snapshot file integrity check failed. 1 errors found.")
assert pathlib.Path(sys.argv[3]).read_text() == "database"
print((root / "snapshot-status").read_text())
"""
# Of etcdctl 3.6.8 without a quorum, and when nothing listens.
NO_QUORUM = """\
{"level":"warn","ts":"2026-11-28T04:22:27.728803Z","logger":"etcd-client","msg":"retrying of unary invoker failed",\
"attempt":0,"error":"rpc error: code = DeadlineExceeded desc = context deadline exceeded"}
Error: context deadline exceeded"""
REFUSED = """\
{"level":"warn","ts":"2026-11-28T04:22:31.728803Z","logger":"etcd-client","msg":"retrying of unary invoker failed",\
"attempt":0,"error":"rpc error: code = DeadlineExceeded desc = latest balancer error: connection error: desc = \
\\"transport: Error while dialing: dial tcp 127.0.0.1:23720: connect: connection refused\\""}
Error: context deadline exceeded"""
ENDPOINT = "https://127.0.0.1:23710"
CP1, CP2, CP3 = "fac14e856b03e641", "5c1ea01b8c5963d4", "1200b381be0f6195"


class Etcd:
    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        self.root = root
        self.run_module = run
        self.pki = root / "pki"
        self.pki.mkdir(parents=True)
        for name in ("ca.crt", "server.crt", "server.key", "healthcheck-client.crt", "healthcheck-client.key"):
            (self.pki / name).touch()
        programs.python("etcdctl", ETCDCTL.replace("{root!r}", repr(str(root))))
        programs.python("etcdutl", ETCDUTL.replace("{root!r}", repr(str(root))))
        recorded = RECORDED["3.6"]
        for call, name in {"member-list": "list", "endpoint-health": "health", "endpoint-status": "status"}.items():
            self.prints(call, recorded[name])
        self.prints("snapshot-status", recorded["snapshot"])

    def prints(self, call: str, value: Any) -> None:
        (self.root / call).write_text(json.dumps(value))

    def fails(self, call: str, text: str, consistency: str = "l") -> None:
        (self.root / f"{call}-{consistency}.error").write_text(text)

    def run(self, module: str, check: bool = False, **options: Any) -> dict[str, Any]:
        given = {"endpoint": ENDPOINT, "pki": str(self.pki), **options}
        result: dict[str, Any] = self.run_module(f"etcd_{module}", given, check=check)
        return result

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.root / "log").read_text().splitlines()]


@pytest.fixture
def etcd(tmp_path: Path, programs: Any, run_module: Any) -> Etcd:
    return Etcd(tmp_path / "etcd", programs, run_module)


def test_members_are_returned_with_health_and_status(etcd: Etcd) -> None:
    result = etcd.run("info", check=True)
    members = {each["name"]: each for each in result["members"]}
    assert {name: each["health"] for name, each in members.items()} == {
        "cp3": "unhealthy",
        "cp2": "healthy",
        "": "unstarted",
        "cp1": "healthy",
    }
    assert members["cp2"] == {
        "id": CP2,
        "name": "cp2",
        "peer_urls": ["https://127.0.0.1:23721"],
        "client_urls": ["https://127.0.0.1:23720"],
        "learner": False,
        "health": "healthy",
        "why": "",
        "alarms": [],
        "leader": True,
        "status": {
            "version": "3.6.8",
            "db_size": 20480,
            "db_size_in_use": 16384,
            "raft_index": 12,
            "raft_applied_index": 12,
            "raft_term": 2,
        },
    }
    assert (members["cp3"]["status"], members["cp3"]["why"]) == (None, "context deadline exceeded")
    numbers = {name: result[name] for name in ("voters", "healthy", "quorum", "has_quorum", "may_fail", "changed")}
    assert numbers == {
        "voters": 3,
        "healthy": 2,
        "quorum": 2,
        "has_quorum": True,
        "may_fail": 0,
        "changed": False,
    }


def test_a_dead_member_is_asked_once_with_a_short_timeout(etcd: Etcd) -> None:
    etcd.run("info", timeout=2)
    assert [call[:2] for call in etcd.calls] == [["member", "list"], ["endpoint", "health"], ["endpoint", "status"]]
    assert all({"--command-timeout=2s", "--dial-timeout=2s"} <= set(call) for call in etcd.calls)
    asked = [word for call in etcd.calls for word in call if word.startswith("--endpoints=")]
    assert ["23730" in word for word in asked] == [False, True, False]


@pytest.mark.parametrize("missing", ["healthcheck-client.crt", "healthcheck-client.key"])
def test_the_server_certificate_is_used_if_the_one_for_health_checks_is_missing(etcd: Etcd, missing: str) -> None:
    etcd.run("info")
    (etcd.pki / missing).unlink()
    etcd.run("info")
    used = [word.rpartition("/")[2] for call in etcd.calls for word in call if word.startswith(("--cert=", "--key="))]
    assert used == ["healthcheck-client.crt", "healthcheck-client.key"] * 3 + ["server.crt", "server.key"] * 3


def test_a_host_without_certificates_is_named(etcd: Etcd) -> None:
    (etcd.pki / "ca.crt").unlink()
    result = etcd.run("info")
    assert "has neither healthcheck-client nor server with a certificate" in result["msg"]
    assert "Run this on a control plane whose etcd kubeadm set up." in result["msg"]


def test_a_host_without_etcdctl_is_named(etcd: Etcd) -> None:
    assert "there is no such program on this host" in etcd.run("info", etcdctl="/nowhere/etcdctl")["msg"]


def test_members_are_returned_without_a_quorum(etcd: Etcd) -> None:
    etcd.fails("member-list", NO_QUORUM)
    down = [{**each, "health": False, "error": "deadline"} for each in RECORDED["3.6"]["health"]]
    etcd.prints("endpoint-health", down)
    etcd.prints("endpoint-status", RECORDED["3.6"]["status without quorum"])
    result = etcd.run("info")
    assert (result["has_quorum"], result["may_fail"], result["healthy"]) == (False, 0, 0)
    assert [each["name"] for each in result["members"] if each["status"]] == ["cp1"]
    assert "--consistency=s" in etcd.calls[1]
    refused = etcd.run("member", member="cp3")
    assert "etcd has no quorum (0 of 3 voters healthy, 2 needed), so it can't remove a member." in refused["msg"]


def test_etcd_that_does_not_answer_is_reported_with_the_cause(etcd: Etcd) -> None:
    for consistency in "ls":
        etcd.fails("member-list", REFUSED, consistency)
    result = etcd.run("info")
    assert result["msg"] == (
        f"Error while asking etcd at {ENDPOINT} for its members: dial tcp 127.0.0.1:23720: connect: connection "
        "refused. Check crictl ps --all --name etcd, and crictl logs of its container."
    )
    assert result["cmd"].startswith("etcdctl member list") and result["rc"] == 1


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("name", ["cp3", CP3])
def test_a_dead_member_is_removed(etcd: Etcd, name: str, check: bool) -> None:
    result = etcd.run("member", member=name, check=check)
    assert (result["changed"], result["removed"]) == (True, CP3)
    assert result["reason"] == "2 of 2 voters healthy; after this, 0 of 2 may fail"
    assert result["after"] == {"voters": 2, "healthy": 2, "quorum": 2, "has_quorum": True, "may_fail": 0}
    before, after = (result["diff"][side].splitlines() for side in ("before", "after"))
    assert [each for each in before if each not in after] == ["cp3"]
    assert "A cluster of two members is worse than one" in str(result["warnings"])
    removed = [call[2] for call in etcd.calls if call[:2] == ["member", "remove"]]
    assert removed == ([] if check else [CP3])


def test_a_healthy_member_is_not_removed_while_another_is_dead(etcd: Etcd) -> None:
    result = etcd.run("member", member="cp1")
    assert result["msg"] == (
        "Error while removing cp1 from etcd: cp1 is healthy, and cp3 is unhealthy. Repair or remove what is not "
        "healthy first. Nothing was changed."
    )
    assert not [call for call in etcd.calls if call[:2] == ["member", "remove"]]


def test_a_member_that_does_not_exist_is_absent(etcd: Etcd) -> None:
    result = etcd.run("member", member="cp9")
    assert (result["changed"], result["removed"], result["after"]["voters"]) == (False, "", 3)
    # It could be one that has not started yet.
    assert "No member of etcd is called cp9, but these have no name until they start: " in str(result["warnings"])


def test_an_empty_member_is_refused(etcd: Etcd) -> None:
    assert "its name or id is empty. The members are cp3 (1200b381be0f6195), " in etcd.run("member", member="")["msg"]


@pytest.mark.parametrize(("timeout", "limit"), [(3, 10), (30, 30)])
def test_etcd_has_time_to_remove_a_member(etcd: Etcd, timeout: int, limit: int) -> None:
    etcd.run("member", member="cp3", timeout=timeout)
    (removal,) = (call for call in etcd.calls if call[:2] == ["member", "remove"])
    assert f"--command-timeout={limit}s" in removal


def test_settings_of_etcdctl_in_the_environment_do_not_count(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCDCTL_ENDPOINTS", "https://127.0.0.1:1")
    monkeypatch.setenv("ETCDCTL_CACERT", "")
    assert etcd.run("info")["voters"] == 3
    assert (etcd.root / "environment").read_text() == ""


def test_etcd_refusing_the_removal_is_reported(etcd: Etcd) -> None:
    etcd.fails("member-remove", "Error: etcdserver: re-configuration failed due to not enough started members")
    result = etcd.run("member", member="cp3")
    assert result["msg"] == (
        "Error while removing cp3 from etcd: etcdserver: re-configuration failed due to not enough started members"
    )
    assert "member remove" in result["cmd"]


def test_a_snapshot_is_saved_checked_and_private(etcd: Etcd, tmp_path: Path) -> None:
    path = tmp_path / "snapshot.db"
    path.write_text("the snapshot of yesterday")
    result = etcd.run("snapshot", path=str(path))
    assert result["snapshot"] == {"hash": "82387577", "revision": 2, "total_keys": 1, "size": 20480}
    assert (result["changed"], result["db_size"]) == (True, 20480)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("database", 0o600)
    assert [each.name for each in tmp_path.glob("*snapshot.db*")] == ["snapshot.db"]


@pytest.mark.parametrize("trouble", ["saving", "checking"])
def test_a_failed_snapshot_leaves_the_earlier_one_and_no_rest(etcd: Etcd, tmp_path: Path, trouble: str) -> None:
    path = tmp_path / "snapshot.db"
    path.write_text("the snapshot of yesterday")
    if trouble == "saving":
        etcd.fails("snapshot-save", REFUSED)
    else:
        (etcd.root / "damaged").touch()
    result = etcd.run("snapshot", path=str(path))
    reason = {"saving": "connection refused", "checking": "integrity check failed"}[trouble]
    assert trouble in result["msg"] and reason in result["msg"]
    assert path.read_text() == "the snapshot of yesterday"
    assert [each.name for each in tmp_path.glob("*snapshot.db*")] == ["snapshot.db"]


def test_the_rest_of_a_killed_snapshot_is_removed_by_the_next(etcd: Etcd, tmp_path: Path) -> None:
    rests = [".snapshot.db.a1_b2c3d", ".snapshot.db.a1_b2c3d.part"]
    others = [".snapshot.db.sha256", ".other.db.a1_b2c3d"]
    for name in (*rests, *others):
        (tmp_path / name).touch()
    etcd.run("snapshot", path=str(tmp_path / "snapshot.db"), check=True)
    assert all((tmp_path / name).exists() for name in rests)
    etcd.run("snapshot", path=str(tmp_path / "snapshot.db"))
    assert sorted(each.name for each in tmp_path.glob("*.db*")) == sorted([*others, "snapshot.db"])


def test_check_mode_saves_no_snapshot(etcd: Etcd, tmp_path: Path) -> None:
    result = etcd.run("snapshot", path=str(tmp_path / "snapshot.db"), check=True)
    assert (result["changed"], result["snapshot"], result["db_size"]) == (True, None, 20480)
    assert not list(tmp_path.glob("*snapshot.db*"))


@pytest.mark.parametrize("check", [True, False])
def test_a_snapshot_that_does_not_fit_is_refused_before_it_is_written(etcd: Etcd, tmp_path: Path, check: bool) -> None:
    large = [dict(each, Status={**each["Status"], "dbSize": 2**60}) for each in RECORDED["3.6"]["status"]]
    etcd.prints("endpoint-status", large)
    result = etcd.run("snapshot", path=str(tmp_path / "snapshot.db"), check=check)
    assert "the database has 1099511627776 MiB, and 256 MiB must stay free" in result["msg"]
    assert not [call for call in etcd.calls if call[0] == "snapshot"]


@pytest.mark.parametrize("path", ["{}", "snapshot.db"])
def test_a_wrong_path_is_refused(etcd: Etcd, tmp_path: Path, path: str) -> None:
    result = etcd.run("snapshot", path=path.format(tmp_path))
    assert result["msg"].endswith(f"saving {path.format(tmp_path)}: it must be the absolute path of a file.")


def test_a_missing_directory_is_created_for_root_alone(etcd: Etcd, tmp_path: Path) -> None:
    path = tmp_path / "a" / "snapshot.db"
    etcd.run("snapshot", path=str(path), check=True)
    assert not path.parent.exists()
    etcd.run("snapshot", path=str(path))
    assert (path.read_text(), stat.S_IMODE(path.parent.stat().st_mode)) == ("database", 0o700)
