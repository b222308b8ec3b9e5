# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Managed files and the services that read them: the two modules and their shared records."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.managed_files import Prune
from first_run_record import recorded

MARKER = "# Managed by gpulab.kubernetes\n"
CONFIG = "/etc/containerd/config.toml"

# A systemd with one unit in a JSON file; every start has a new invocation ID.
SYSTEMCTL = """
import json, sys
place, log = {state!r}, {log!r}
units = json.load(open(place))
verb, name = sys.argv[1], sys.argv[-1]
if verb == "show":
    unit = units.get(name, {{"LoadState": "not-found", "ActiveState": "inactive"}})
    print("\\n".join(f"{{key}}={{value}}" for key, value in unit.items()))
    sys.exit(0)
open(log, "a").write(" ".join(sys.argv[1:]) + "\\n")
if verb in ("start", "restart"):
    if units[name].get("broken"):
        sys.exit("Job for containerd.service failed because the control process exited with error code.")
    number = int(units[name].get("InvocationID") or "0")
    units[name].update(ActiveState="active", InvocationID=str(number + 1), NeedDaemonReload="no")
if verb == "stop":
    units[name].update(ActiveState="inactive", InvocationID="")
if verb in ("enable", "disable"):
    units[name]["UnitFileState"] = f"{{verb}}d"
json.dump(units, open(place, "w"))
"""


class Host:
    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        self.root = root
        self.state = root / "systemd.json"
        self.log_file = root / "systemctl.log"
        self._run = run
        self.unit(None)
        programs.python("systemctl", SYSTEMCTL.format(state=str(self.state), log=str(self.log_file)))
        programs.add("journalctl", "echo 'containerd: invalid plugin config'")

    def unit(self, active: str | None, **properties: Any) -> None:
        unit = {
            "LoadState": "loaded",
            "ActiveState": active,
            "UnitFileState": "enabled",
            "InvocationID": "7" if active == "active" else "",
            "NeedDaemonReload": "no",
            **properties,
        }
        self.state.write_text(json.dumps({"containerd.service": unit} if active else {}))

    def files(self, *files: dict[str, Any], check: bool = False, **options: Any) -> dict[str, Any]:
        args = {"files": list(files), "root": str(self.root), "run_dir": str(self.root / "run"), **options}
        result: dict[str, Any] = self._run("managed_files", args, check=check)
        return result

    def config(self, text: str = "a = 1\n", keep_replaced: bool = False, **options: Any) -> dict[str, Any]:
        file = {"path": CONFIG, "content": MARKER + text, "service": "containerd", "keep_replaced": keep_replaced}
        return self.files(file, **options)

    def service(self, check: bool = False, **options: Any) -> dict[str, Any]:
        args = {"name": "containerd", "run_dir": str(self.root / "run"), **options}
        result: dict[str, Any] = self._run("managed_service", args, check=check)
        return result

    @property
    def log(self) -> list[str]:
        return self.log_file.read_text().splitlines() if self.log_file.exists() else []


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    root = tmp_path / "root"
    root.mkdir()
    return Host(root, programs, run_module)


def test_missing_directories_are_created_and_the_changes_are_returned(host: Host) -> None:
    predicted = host.config(check=True)
    assert predicted["changed"] and predicted["diff"][0]["after"] == MARKER + "a = 1\n"
    assert not (host.root / "etc").exists()

    result = host.config()
    assert result["changed"] and result["files"] == [CONFIG] and result["services"] == ["containerd"]
    file = host.root / "etc/containerd/config.toml"
    assert file.read_text() == MARKER + "a = 1\n"
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.parent.stat().st_mode & 0o777 == 0o755


def test_files_and_units_are_recorded_as_they_were(host: Host) -> None:
    host.unit("inactive", UnitFileState="disabled")
    host.config(check=True)
    host.service(check=True)
    assert recorded(host.root.parent) == {}
    host.config()
    host.service()
    before = {CONFIG: None, "containerd.service": {"enabled": "disabled", "active": "inactive"}}
    assert recorded(host.root.parent) == before
    host.config("b = 2\n")
    assert host.service()["actions"] == ["restart"]
    assert recorded(host.root.parent) == before


def test_a_restart_alone_is_not_recorded(host: Host) -> None:
    host.unit("active")
    host.config()
    assert host.service()["actions"] == ["restart"]
    assert recorded(host.root.parent) == {CONFIG: None}


def test_a_second_run_changes_nothing(host: Host) -> None:
    host.config()
    again = host.config()
    assert not again["changed"] and again["diff"] == [] and again["services"] == []


@pytest.mark.parametrize("kind", ["content", "secret_content"])
def test_invalid_utf8_is_an_error_that_does_not_show_the_content(host: Host, kind: str) -> None:
    result = host.files({"path": CONFIG, kind: f"{MARKER}S3CRET \ud800\n"})
    assert result["failed"] and f"Error while writing {CONFIG}" in result["msg"] and "S3CRET" not in str(result)
    assert not (host.root / "etc").exists()


def test_a_different_mode_alone_is_a_change(host: Host) -> None:
    host.config()
    file = host.root / "etc/containerd/config.toml"
    file.chmod(0o600)
    result = host.config()
    assert result["changed"] and "0600" in result["diff"][0]["before"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_an_unmanaged_file_is_kept_next_to_the_new_one(host: Host) -> None:
    file = host.root / "etc/containerd/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("disabled_plugins = ['cri']\n")
    predicted = host.config(check=True)
    result = host.config()
    kept = host.root / f"var/lib/gpulab/first-run/files{CONFIG}"
    assert predicted["kept"] == result["kept"] == [str(kept)]
    assert kept.read_text() == "disabled_plugins = ['cri']\n"
    # A later change of our own file is not kept.
    assert host.config("b = 2\n")["kept"] == []
    # An unmanaged file that later replaces ours must be kept, without replacing the copy of the first one.
    file.write_text("version = 3\n")
    again = file.with_name("config.toml.replaced-gpulab")
    assert host.config()["kept"] == [str(again)]
    assert again.read_text() == "version = 3\n"
    assert kept.read_text() == "disabled_plugins = ['cri']\n"


def test_an_unmanaged_file_is_kept_even_if_the_record_has_an_older_original(host: Host) -> None:
    file = host.root / "etc/containerd/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("version = 3\n")
    file.with_name("config.toml.before-gpulab").write_text("version = 2\n")
    kept = file.with_name("config.toml.replaced-gpulab")
    assert host.config()["kept"] == [str(kept)]
    assert kept.read_text() == "version = 3\n"
    assert (host.root / f"var/lib/gpulab/first-run/files{CONFIG}").read_text() == "version = 2\n"


def test_generated_files_are_not_kept(host: Host) -> None:
    (host.root / "generated").write_text("x\n")
    host.files({"path": "/generated", "content": MARKER, "keep_foreign": False})
    assert not list(host.root.rglob("generated?*")) and not (host.root / "var").exists()


def test_generated_file_that_is_recorded_is_not_kept_twice(host: Host) -> None:
    file = host.root / CONFIG.lstrip("/")
    file.parent.mkdir(parents=True)
    file.write_text("generated = true\n")
    wanted = {"path": CONFIG, "content": MARKER, "keep_foreign": False, "keep_replaced": True}
    predicted, result = host.files(wanted, check=True), host.files(wanted)
    kept = host.root / f"var/lib/gpulab/first-run/files{CONFIG}"
    assert predicted["kept"] == result["kept"] == [str(kept)]
    assert kept.read_text() == "generated = true\n" and not list(file.parent.glob("*.replaced-gpulab"))
    # What someone edits later is kept.
    file.write_text(f"{MARKER}edited = true\n")
    host.files(wanted)
    assert "edited" in file.with_name(f"{file.name}.replaced-gpulab").read_text()


def test_absent_removes_the_file_and_does_not_require_it(host: Host) -> None:
    assert not host.files({"path": CONFIG, "state": "absent"})["changed"]
    host.config()
    assert host.files({"path": CONFIG, "state": "absent"})["changed"]
    assert not (host.root / "etc/containerd/config.toml").exists()


def test_prune_only_removes_own_files_that_are_no_longer_declared(host: Host) -> None:
    certs = host.root / "etc/certs.d"
    for name, text in {"ours": MARKER, "old": MARKER, "theirs": "server = 'x'\n"}.items():
        (certs / name).mkdir(parents=True)
        (certs / name / "hosts.toml").write_text(text)
    prune = [{"directory": "/etc/certs.d", "pattern": "*/hosts.toml"}]
    result = host.files({"path": "/etc/certs.d/ours/hosts.toml", "content": MARKER}, prune=prune)
    assert result["files"] == ["/etc/certs.d/old/hosts.toml"]
    assert sorted(path.parent.name for path in certs.glob("*/hosts.toml")) == ["ours", "theirs"]


def test_a_directory_in_place_of_the_file_is_an_error(host: Host) -> None:
    (host.root / "etc/containerd/config.toml").mkdir(parents=True)
    result = host.config()
    assert result["failed"] and CONFIG in result["msg"]


def test_a_running_service_is_restarted_once_for_a_change(host: Host) -> None:
    host.unit("active")
    host.config()
    assert host.service(check=True)["restart"]
    assert host.log == []
    result = host.service()
    assert result["changed"] and result["actions"] == ["restart"]
    assert not host.service()["changed"]
    assert host.log == ["restart containerd.service"]


def test_without_a_change_nothing_is_restarted(host: Host) -> None:
    host.unit("active")
    result = host.service()
    assert not result["changed"] and result["actions"] == [] and host.log == []


def test_a_restart_is_not_forgotten_by_an_interrupted_run(host: Host) -> None:
    host.unit("active")
    host.config()
    again = host.config()
    assert not again["changed"] and again["services"] == ["containerd"]
    assert host.service()["actions"] == ["restart"]
    assert host.config()["services"] == []


@pytest.mark.parametrize("reload", [False, True])
def test_the_restart_is_recorded_before_the_file_is_written(host: Host, reload: bool) -> None:
    host.unit("active")
    (host.root / "etc").symlink_to("nowhere")
    file = {"path": CONFIG, "content": MARKER, "service": "containerd", "reload": reload}
    assert host.files(file)["failed"]
    assert host.service(check=True)["actions"] == ["reload" if reload else "restart"]


def test_a_service_that_reloads_its_files_is_reloaded_even_after_an_interrupted_run(host: Host) -> None:
    host.unit("active")
    file = {"path": CONFIG, "content": MARKER, "service": "containerd", "reload": True}
    assert host.files(file)["services"] == ["containerd"]
    again = host.files(file)
    assert not again["changed"] and again["services"] == ["containerd"]
    assert host.service(check=True)["actions"] == host.service()["actions"] == ["reload"]
    assert not host.service()["changed"] and host.files(file)["services"] == []
    assert host.log == ["reload containerd.service"]


@pytest.mark.parametrize("reload", [False, True])
def test_a_stopped_service_stays_stopped_on_request(host: Host, reload: bool) -> None:
    host.unit("inactive", UnitFileState="disabled")
    host.files({"path": CONFIG, "content": MARKER, "service": "containerd", "reload": reload})
    result = host.service(start=False)
    assert not result["changed"] and result["state"] == "inactive" and host.log == []


def test_a_service_that_was_restarted_manually_is_not_restarted_again(host: Host) -> None:
    host.unit("active")
    host.config()
    host.unit("active", InvocationID="8")
    assert host.config()["services"] == []
    assert not host.service()["changed"] and host.log == []


def test_a_service_started_by_its_package_after_the_file_was_written_is_not_restarted(host: Host) -> None:
    host.config()
    host.unit("active", InvocationID="1")
    assert not host.service()["changed"]


def test_check_mode_records_nothing(host: Host) -> None:
    host.unit("active")
    host.config(check=True)
    assert not host.service()["changed"]


def test_a_stopped_and_disabled_service_is_enabled_and_started(host: Host) -> None:
    host.unit("failed", UnitFileState="disabled", NeedDaemonReload="yes")
    predicted = host.service(check=True)
    assert predicted["changed"] and host.log == []
    result = host.service()
    assert result["actions"] == predicted["actions"] == ["enable", "daemon-reload", "reset-failed", "start"]
    assert not result["restart"]
    assert host.log[1] == "daemon-reload"
    assert not host.service()["changed"]


def test_a_masked_service_is_an_error(host: Host) -> None:
    host.unit("inactive", LoadState="masked", UnitFileState="masked")
    result = host.service()
    assert result["failed"] and "unmask" in result["msg"]


def test_a_missing_unit_is_an_error_except_in_check_mode(host: Host) -> None:
    assert not host.service(check=True)["changed"]
    assert host.service(check=True, when_missing="changed")["changed"]
    result = host.service(when_missing="changed")
    assert result["failed"] and "containerd.service" in result["msg"]
    result = host.service(when_missing="changed", optional=True)
    assert not result["failed"] and not result["changed"] and result["state"] == "not-found"
    assert host.service(check=True, when_missing="changed", optional=True)["changed"]


def test_a_failed_start_shows_the_journal_and_is_repeated_by_the_next_run(host: Host) -> None:
    host.unit("active", broken=True)
    host.config()
    result = host.service()
    assert result["failed"] and "invalid plugin config" in result["msg"]
    assert host.config()["services"] == ["containerd"]


def test_a_managed_file_that_was_changed_manually_is_kept_next_to_the_new_one(host: Host) -> None:
    host.config(keep_replaced=True)
    file, kept = host.root / CONFIG[1:], host.root / f"{CONFIG[1:]}.replaced-gpulab"
    assert not kept.exists()
    for text in ("first", "second"):
        file.write_text(f"{MARKER}{text}\n")
        foretold = host.config(keep_replaced=True, check=True)
        result = host.config(keep_replaced=True)
        assert foretold["kept"] == result["kept"] == [str(kept)]
        assert kept.read_text() == f"{MARKER}{text}\n" and file.read_text() == f"{MARKER}a = 1\n"
    assert not host.config(keep_replaced=True)["changed"]


def test_an_unmanaged_file_is_kept_once_under_its_own_name(host: Host) -> None:
    file = host.root / CONFIG[1:]
    file.parent.mkdir(parents=True)
    file.write_text("version = 2\n")
    host.config(keep_replaced=True)
    assert (host.root / f"var/lib/gpulab/first-run/files{CONFIG}").read_text() == "version = 2\n"
    assert not file.with_name("config.toml.replaced-gpulab").exists()


@pytest.mark.parametrize(
    ("name", "days", "link", "stays"),
    [
        ("gpulab-abcd.conf", 3, False, False),
        ("gpulab-abcd.conf", 1, False, True),
        ("gpulab-abcde.conf", 3, False, True),
        ("gpulab-abcd.conf", 3, True, True),
    ],
)
def test_prune_by_age_removes_own_files_of_a_killed_run(
    host: Host, name: str, days: int, link: bool, stays: bool
) -> None:
    folder = host.root / "tmp"
    folder.mkdir()
    file, target = folder / name, host.root / "target"
    target.write_text("x")
    if link:
        file.symlink_to(target)
    else:
        file.write_text("S3CRET")
    moment = time.time() - days * 86400
    os.utime(file, (moment, moment), follow_symlinks=False)
    prune = [{"directory": "/tmp", "pattern": "gpulab-????.conf", "age": 172800}]
    result = host.files(PRIVATE, prune=prune, marker="")
    assert os.path.lexists(file) == stays and target.exists()
    assert ("/tmp/" + name in result["files"]) == (not stays)


@pytest.mark.parametrize("own", [True, False])
def test_prune_by_age_keeps_the_files_of_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    file = tmp_path / "gpulab-abcd.conf"
    file.touch()
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user if own else user + 1)
    assert Prune(str(tmp_path), "*", age=10).takes(file, time.time() + 60) is own


PRIVATE = {"path": "/etc/proxy", "mode": "0600", "secret_content": f"{MARKER}S3CRET-new\n"}
PUBLIC = {"path": "/etc/proxy", "content": f"{MARKER}public\n"}
ABSENT = {"path": "/etc/proxy", "state": "absent"}


@pytest.mark.parametrize(
    ("mode", "wanted"),
    [(None, PRIVATE), (0o600, PRIVATE), (0o644, PRIVATE), (0o600, PUBLIC), (0o400, ABSENT)],
)
def test_files_that_only_their_owner_may_read_are_not_shown(
    host: Host, mode: int | None, wanted: dict[str, Any]
) -> None:
    file = host.root / "etc/proxy"
    if mode is not None:
        file.parent.mkdir()
        file.write_text(f"{MARKER}S3CRET-old\n")
        file.chmod(mode)
    predicted, result = host.files(wanted, check=True), host.files(wanted)
    assert predicted["diff"] == result["diff"]
    (diff,) = result["diff"]
    assert diff["before"] != diff["after"]
    assert "S3CRET" not in json.dumps([predicted, result])
    assert file.exists() == (wanted is not ABSENT)
    if wanted is PRIVATE:
        assert file.read_text() == PRIVATE["secret_content"] and file.stat().st_mode & 0o777 == 0o600
    assert not host.files(wanted)["changed"]


def test_files_that_everyone_may_read_are_shown(host: Host) -> None:
    host.files(PUBLIC)
    assert "public" in host.files({**PUBLIC, "content": MARKER})["diff"][0]["before"]


def package_entry(tmp_path: Path, before: dict[str, Any] | None) -> None:
    """Write that a package was, or was not, on the host before this collection."""
    entry = {"schema": 1, "when": "2026-11-27T23:00:00Z", "by": "0.2.0", "kind": "package", "name": "haproxy"}
    # The module has no option for the root directory.
    path = tmp_path / "module-tmp/var/lib/gpulab/first-run/record.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**entry, "before": before}) + "\n")


def test_a_service_that_came_with_a_package_of_ours_is_stopped_once(host: Host, tmp_path: Path) -> None:
    host.unit("active")
    package_entry(tmp_path, None)
    assert host.service(stop_if_new="haproxy", check=True)["actions"] == ["stop", "disable"]
    assert host.log == []
    assert host.service(stop_if_new="haproxy")["changed"]
    assert host.log == ["stop containerd.service", "disable containerd.service"]
    assert recorded(tmp_path)["containerd.service"] is None
    # Whoever enables it later uses it for something else.
    host.unit("active")
    assert not host.service(stop_if_new="haproxy")["changed"]
    assert len(host.log) == 2


@pytest.mark.parametrize("before", [{"version": "2.6.12-1", "held": False}, "no entry"])
def test_a_service_that_was_there_before_is_left_alone(host: Host, tmp_path: Path, before: Any) -> None:
    host.unit("active")
    if before != "no entry":
        package_entry(tmp_path, before)
    assert not host.service(stop_if_new="haproxy")["changed"]
    assert host.log == []
