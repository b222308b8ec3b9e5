# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._docker.daemon import DAEMON_FILE, DaemonFile

SETTINGS = {
    "default-runtime": "nvidia",
    "runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime"}},
    "exec-opts": ["native.cgroupdriver=systemd"],
}
THEIRS = '{\n  "log-driver": "json-file",\n  "proxies": {"http-proxy": "http://me:hunter2@proxy:3128"}\n}'


class Host:
    def __init__(self, root: Path, run: Any) -> None:
        self.root = root
        self.file = root / "etc/docker/daemon.json"
        self._run = run

    def write(self, data: str | bytes) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_bytes(data.encode() if isinstance(data, str) else data)

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        arguments = {"settings": SETTINGS, "root": str(self.root), "run_dir": str(self.root / "run"), **options}
        result: dict[str, Any] = self._run("docker_daemon_config", arguments, check=check)
        return result

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    programs.add("systemctl", "printf 'LoadState=loaded\\nActiveState=active\\nInvocationID=abc\\n'")
    return Host(tmp_path / "root", run_module)


def test_a_missing_file_is_created(host: Host) -> None:
    assert host.run(check=True)["changed"]
    assert host.files() == {}
    result = host.run()
    assert (result["changed"], result["backup"]) == (True, None)
    assert json.loads(host.file.read_bytes()) == SETTINGS
    assert host.file.stat().st_mode & 0o777 == 0o644
    assert [path for path in host.files() if "/first-run/" not in path] == [str(host.file)]
    assert not host.run()["changed"]


def test_unmanaged_settings_are_kept(host: Host) -> None:
    host.write(THEIRS)
    host.file.chmod(0o600)
    predicted = host.run(check=True)
    assert host.file.read_text() == THEIRS
    result = host.run()
    for key in ("changed", "changed_keys", "diff", "default_runtime", "runtimes", "cgroup_driver"):
        assert predicted[key] == result[key]
    assert result["changed_keys"] == ["default-runtime", "runtimes", "exec-opts"]
    assert (result["default_runtime"], result["cgroup_driver"]) == ("nvidia", "systemd")
    assert json.loads(host.file.read_bytes()) == {**json.loads(THEIRS), **SETTINGS}
    assert host.file.read_text().startswith(THEIRS.partition(",")[0])
    assert host.file.stat().st_mode & 0o777 == 0o600
    backup = Path(result["backup"])
    assert backup.read_text() == THEIRS
    assert backup.stat().st_mode & 0o777 == 0o600
    assert not host.run()["changed"]
    assert host.run(settings={"live-restore": True})["changed"]
    assert backup.read_text() == THEIRS, "the backup is from before the first change"


def test_no_password_is_shown(host: Host) -> None:
    host.write(THEIRS)
    assert "hunter2" not in str(host.run())
    failed = host.run(settings={"proxies": {"http-proxy": "http://me:s3cret@proxy:3128"}})
    assert failed["failed"] and "proxies.http-proxy" in failed["msg"]
    told = {key: value for key, value in failed.items() if key != "invocation"}
    assert "hunter2" not in str(told) and "s3cret" not in str(told)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ('{"log-driver": "x",}', "not valid JSON (line 1, column"),
        (b'{"label": "caf\xe9"}', "not UTF-8 (line 1)"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_file_that_docker_would_refuse_is_an_error(host: Host, data: str | bytes, words: str, check: bool) -> None:
    host.write(data)
    before = host.files()
    result = host.run(check=check, replace=True)
    assert result["failed"]
    assert result["msg"].startswith("Error while reading /etc/docker/daemon.json: it is ")
    assert words in result["msg"] and "Nothing was changed" in result["msg"]
    assert host.files() == before


def test_a_different_unmanaged_setting_is_reported_or_replaced(host: Host) -> None:
    host.write('{"default-runtime": "crun", "exec-opts": ["native.cgroupdriver=cgroupfs"]}')
    before = host.files()
    result = host.run()
    assert result["failed"] and host.files() == before
    assert 'default-runtime is "crun", not "nvidia"; exec-opts is "native.cgroupdriver=cgroupfs"' in result["msg"]
    assert "replace: true" in result["msg"]
    assert result["contradictions"][0] == {"key": "default-runtime", "present": "crun", "wanted": "nvidia"}
    assert host.run(replace=True)["changed_keys"] == ["default-runtime", "exec-opts", "runtimes"]
    assert json.loads(host.file.read_bytes()) == SETTINGS


def test_settings_no_longer_declared_are_removed_and_unmanaged_ones_stay(host: Host) -> None:
    host.write('{"bip": "10.77.0.1/24", "log-opts": {"env": "A"}, "registry-mirrors": ["https://theirs"]}')
    record: dict[str, Any] = {"record": "/var/lib/gpulab/docker.json"}
    ours = {"log-opts": {"max-size": "100m"}, "registry-mirrors": ["https://ours"], "debug": True}
    assert host.run(settings=ours, **record)["changed"]
    assert (host.root / "var/lib/gpulab/docker.json").stat().st_mode & 0o777 == 0o600
    assert not host.run(settings=ours, **record)["changed"]
    less = {"log-opts": {"max-size": "10m"}}
    predicted = host.run(settings=less, check=True, **record)
    result = host.run(settings=less, **record)
    assert predicted["changed_keys"] == result["changed_keys"] == ["log-opts.max-size", "registry-mirrors", "debug"]
    left = {"bip": "10.77.0.1/24", "log-opts": {"env": "A", "max-size": "10m"}, "registry-mirrors": ["https://theirs"]}
    assert list(json.loads(host.file.read_bytes()).items()) == list(left.items())
    assert not host.run(settings=less, **record)["changed"]
    # Settings that were changed manually since then count as unmanaged.
    host.write(json.dumps({**left, "log-opts": {"max-size": "1m"}}))
    assert 'log-opts.max-size is "1m", not "10m"' in host.run(settings=less, **record)["msg"]
    host.run(settings={}, **record)
    assert json.loads(host.file.read_bytes())["log-opts"] == {"max-size": "1m"}


@pytest.mark.parametrize(
    ("first", "second", "written"),
    [
        ({"debug": True}, {"debug": True}, False),
        ({}, {}, False),
        ({"debug": True, "bip": "10.77.0.1/24"}, {"bip": "10.77.0.1/24", "debug": True}, False),
        ({"debug": True}, {"debug": False}, True),
        ({"debug": True}, {}, True),
        ({}, {"debug": True}, True),
    ],
)
def test_the_record_is_only_written_if_it_differs(
    host: Host, first: dict[str, Any], second: dict[str, Any], written: bool
) -> None:
    record = host.root / "var/lib/gpulab/docker.json"
    host.run(settings=first, record="/var/lib/gpulab/docker.json")
    assert record.exists() == bool(first)
    before = record.stat().st_mtime_ns if first else None
    host.run(settings=second, record="/var/lib/gpulab/docker.json", check=True)
    assert (record.stat().st_mtime_ns if record.exists() else None) == before
    host.run(settings=second, record="/var/lib/gpulab/docker.json")
    assert ((record.stat().st_mtime_ns if record.exists() else None) != before) == written


@pytest.mark.parametrize("written", [0, 1, 2])
def test_after_a_killed_run_no_own_setting_counts_as_unmanaged(
    host: Host, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    given: dict[str, Any] = {"record": "/var/lib/gpulab/docker.json"}
    host.write('{"bip": "10.77.0.1/24", "log-opts": {"env": "A"}}')
    host.run(settings={"log-opts": {"max-size": "100m"}, "debug": True}, **given)
    kept = host.root / "var/lib/gpulab/docker.json"
    replaced: list[Path] = []
    replace = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if len(replaced) == written:
            raise KeyboardInterrupt
        replaced.append(Path(target))
        return replace(self, target)

    wanted = {"log-opts": {"max-size": "200m"}, "labels": ["a=b"]}
    restarts: Any = None
    file = DaemonFile(SimpleNamespace(check_mode=False), str(host.root), DAEMON_FILE, restarts, "", (), given["record"])
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "replace", killed)
        file.ensure(wanted, False, {}, False)
    assert replaced == [kept, host.file][:written]
    changed = host.run(settings=wanted, **given)
    assert changed.get("changed") is (written < 2), changed
    rest = {"bip": "10.77.0.1/24", "log-opts": {"env": "A"}}
    assert json.loads(host.file.read_bytes()) == {
        **rest,
        "log-opts": {"env": "A", "max-size": "200m"},
        "labels": ["a=b"],
    }
    assert host.run(settings={}, **given)["changed"]
    assert json.loads(host.file.read_bytes()) == rest
    assert json.loads(kept.read_bytes()) == {}


def test_a_changed_setting_requests_a_restart(host: Host) -> None:
    result = host.run(service="docker")
    assert result["services"] == ["docker"]
    assert (host.root / "run/restart/docker.service").read_text() == "abc"
    again = host.run(service="docker")
    assert (again["changed"], again["services"]) == (False, ["docker"]), "it still runs with the older one"


def test_a_reload_is_requested_if_it_is_sufficient(host: Host) -> None:
    result = host.run(service="docker", settings={"registry-mirrors": ["https://mirror.example"], "labels": ["a=b"]})
    assert (result["services"], result["restart"]) == (["docker"], False)
    assert [path.parent.name for path in (host.root / "run").rglob("docker.service")] == ["reload"]
    assert host.run(service="docker", settings={"registry-mirrors": ["https://mirror.example"]})["services"] == [
        "docker"
    ]
    more = host.run(service="docker", settings={"log-opts": {"max-size": "10m"}})
    assert more["restart"] is True
    assert host.run(service="docker", settings={"debug": True})["restart"] is True, "the restart is still pending"


@pytest.mark.parametrize(
    ("settings", "restart"),
    [
        ({"default-stop-timeout": 20}, False),
        ({"nri-opts": {"enable": True}}, False),
        ({"default-stop-timeout": 20, "features": {"cdi": True}}, True),
    ],
)
def test_docker_29_applies_some_settings_with_a_reload(host: Host, settings: dict[str, Any], restart: bool) -> None:
    assert host.run(service="docker", settings=settings)["restart"] is restart


@pytest.mark.parametrize(
    ("theirs", "restart"),
    [
        ({"max-download-attempts": 9}, False),
        # A reload applies changed mirrors, but not their removal.
        ({"registry-mirrors": ["https://mirror.example"]}, True),
    ],
)
def test_a_removed_setting_that_a_reload_would_keep_requests_a_restart(
    host: Host, theirs: dict[str, Any], restart: bool
) -> None:
    record: dict[str, Any] = {"service": "docker", "record": "/var/lib/gpulab/docker.json"}
    assert host.run(settings=theirs, **record)["restart"] is False
    assert host.run(settings={}, **record)["restart"] is restart


LIMITS = {"max-size": "100m", "max-file": "3", "env": "JOB"}


@pytest.mark.parametrize(
    ("theirs", "settings", "written"),
    [
        ({}, {}, LIMITS),
        ({"log-driver": "local"}, {}, LIMITS),
        ({"log-driver": "journald"}, {}, {"env": "JOB"}),
        ({}, {"log-driver": "fluentd"}, {"env": "JOB"}),
        ({"log-driver": "journald", "log-opts": {"tag": "x"}}, {}, {"tag": "x", "env": "JOB"}),
        ({"log-driver": "plugin/of:theirs"}, {}, {"env": "JOB"}),
        (
            {},
            {"log-driver": "local", "log-opts": {"max-file": None, "max-size": "1m"}},
            {"max-size": "1m", "env": "JOB"},
        ),
        ({}, {"log-opts": None}, None),
    ],
)
def test_log_limits_are_only_set_for_drivers_that_support_them(
    host: Host, theirs: dict[str, Any], settings: dict[str, Any], written: dict[str, str] | None
) -> None:
    host.write(json.dumps(theirs))
    given: dict[str, Any] = {"settings": settings, "log_options": LIMITS, "record": "/var/lib/gpulab/docker.json"}
    host.run(**given)
    assert json.loads(host.file.read_bytes()).get("log-opts") == written
    assert not host.run(**given)["changed"]


def test_log_limits_are_removed_if_the_driver_does_not_support_them(host: Host) -> None:
    record: dict[str, Any] = {"record": "/var/lib/gpulab/docker.json"}
    host.run(settings={"log-opts": {"max-size": "100m"}}, **record)
    host.write(json.dumps({"log-driver": "journald", **json.loads(host.file.read_bytes())}))
    assert host.run(settings={}, log_options=LIMITS, **record)["changed_keys"] == ["log-opts.env", "log-opts.max-size"]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("theirs", "settings", "words"),
    [
        ({"log-driver": "journald", "log-opts": {"max-size": "1m"}}, {}, "journald does not have the options max-size"),
        ({"log-driver": "journald"}, {"log-opts": {"max-size": "1m"}}, "journald does not have the options max-size"),
        ({"log-opts": {"max-size": "1m"}}, {"log-driver": "syslog"}, "syslog does not have the options max-size"),
        ({}, {"log-driver": "gelf", "log-opts": {"env": "A"}}, "gelf needs the option gelf-address"),
        ({}, {"log-opts": {"mode": "fast"}}, "mode in log-opts is 'fast'"),
        ({}, {"log-opts": {"max-buffer-size": "1m"}}, "needs mode: non-blocking"),
    ],
)
def test_log_options_that_would_prevent_docker_from_starting_are_refused(
    host: Host, theirs: dict[str, Any], settings: dict[str, Any], words: str, check: bool
) -> None:
    host.write(json.dumps(theirs))
    before = host.files()
    result = host.run(check=check, settings=settings)
    assert words in result["msg"] and "Nothing was changed" in result["msg"]
    assert host.files() == before


def test_disabled_cdi_is_reported(host: Host) -> None:
    record: dict[str, Any] = {"record": "/var/lib/gpulab/docker.json"}
    theirs = {"features": {"cdi": False, "containerd-snapshotter": True}}
    host.write(json.dumps(theirs))
    assert not host.run(settings={}, **record)["changed"], "it is of no concern without GPUs"
    assert "features.cdi is false, not true" in host.run(settings={}, cdi=True, **record)["msg"]
    assert host.run(settings={}, cdi=True, replace=True, **record)["changed_keys"] == ["features.cdi"]
    assert json.loads(host.file.read_bytes()) == {"features": {"containerd-snapshotter": True}}
    assert not host.run(settings={}, cdi=True, **record)["changed"]


def test_a_program_newer_than_the_running_docker_requests_a_restart(host: Host) -> None:
    host.run()
    hook = host.root / "usr/bin/nvidia-cdi-hook"
    hook.parent.mkdir(parents=True)
    hook.touch()
    given: dict[str, Any] = {"service": "docker", "programs": ["/usr/bin/nvidia-cdi-hook", "/usr/bin/absent"]}
    assert host.run(**given)["services"] == [], "Docker has not been started"
    started = host.root / "run/docker.pid"
    started.parent.mkdir(exist_ok=True)
    started.touch()
    os.utime(started, (1, 1))
    for check in (True, False):
        result = host.run(check=check, **given)
        assert (result["changed"], result["restart"], result["services"]) == (False, True, ["docker"])
        assert result["newer_programs"] == [str(hook)]
        assert (host.root / "run/restart/docker.service").exists() is not check


def test_unmanaged_settings_are_named(host: Host) -> None:
    host.write(THEIRS)
    assert host.run()["unmanaged_keys"] == ["log-driver", "proxies"]


def test_a_directory_in_place_of_the_file_is_an_error(host: Host) -> None:
    host.file.mkdir(parents=True)
    result = host.run()
    assert result["failed"] and "Is a directory" in result["msg"]


@pytest.mark.parametrize(
    "options", [{"record": "/full/docker.json"}, {"service": "docker", "run_dir": "/dev/null/run"}]
)
def test_a_record_that_cannot_be_written_is_one_error(host: Host, options: dict[str, Any]) -> None:
    host.root.mkdir()
    (host.root / "full").touch()
    result = host.run(**options)
    place = "/dev/null" if "run_dir" in options else f"{host.root}/full"
    assert result["msg"].startswith(f"Error while accessing {place}")
    assert "irectory" in result["msg"] or "exists" in result["msg"]


def test_settings_that_docker_refuses_are_not_written(host: Host) -> None:
    host.write(THEIRS)
    program = host.root / "usr/bin/dockerd"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        '#!/bin/sh\ntest "$1" = --validate && grep -q bip "$3" && echo "unable to configure: $2" >&2; exit 1\n'
    )
    program.chmod(0o755)
    before = host.file.read_bytes()
    for check in (True, False):
        result = host.run(check=check, settings={"bip": "x"})
        assert "Docker rejects them: unable to configure" in result["msg"] and "Nothing was changed" in result["msg"]
        assert host.file.read_bytes() == before
    program.write_text("#!/bin/sh\nexit 0\n")
    assert host.run(settings={"bip": "10.9.0.1/24"})["changed"]
