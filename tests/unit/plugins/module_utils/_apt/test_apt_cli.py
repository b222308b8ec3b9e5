# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt import cli
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt.cli import (
    Apt,
    LockTimeoutError,
    read_madison,
    words,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._command import Result
from hypothesis import given
from hypothesis import strategies as st

UNMET = """\
Reading package lists...
Building dependency tree...
Some packages could not be installed. This may mean that you have
requested an impossible situation.

The following packages have unmet dependencies:
 rival : Conflicts: kubelet but 1.36.4-1.1 is to be installed
"""
MISSING = """\
Ign:1 http://h/nothing  InRelease
Err:2 http://h/nothing  Release
  404  File not found [IP: 127.0.0.1 80]
Reading package lists...
"""


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        (
            UNMET,
            "E: Unable to correct problems, you have held broken packages.\n",
            "E: Unable to correct problems, you have held broken packages.\n"
            "The following packages have unmet dependencies:\n"
            " rival : Conflicts: kubelet but 1.36.4-1.1 is to be installed",
        ),
        (
            MISSING,
            "E: The repository 'http://h/nothing  Release' does not have a Release file.\n",
            "E: The repository 'http://h/nothing  Release' does not have a Release file.\n"
            "Err:2 http://h/nothing  Release\n  404  File not found [IP: 127.0.0.1 80]",
        ),
        ("", "Segmentation fault", "Segmentation fault"),
        ("", "", "nothing (exit status 100)"),
    ],
)
def test_error_messages_are_returned_without_progress_output(stdout: str, stderr: str, said: str) -> None:
    assert words(Result(("apt-get",), 100, stdout, stderr)) == said


def test_madison_output_is_parsed() -> None:
    text = (
        "   kubelet | 1.36.4-1.1 | https://pkgs.k8s.io/core:/stable:/v1.36/deb  Packages\n"
        "   kubelet | 1.36.4-1.1 | http://mirror/v1.36/deb  Packages\n"
        "   kubelet | 1.36.3-1.1 | http://mirror/v1.36/deb  Packages\n"
        "      curl | 7.88.1-10 | http://mirror/debian bookworm/main Sources\n"
        "N: Unable to locate package nothing\n"
    )
    assert read_madison(text) == {"kubelet": ["1.36.4-1.1", "1.36.3-1.1"]}


@given(st.text())
def test_any_madison_output_is_parsed_without_an_error(text: str) -> None:
    read_madison(text)


HELD = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process {} ({})"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class FakeRunner:
    """Another package manager holds the lock. ``until`` maps (process, name) to the end time, in order."""

    def __init__(self, clock: Clock, until: dict[tuple[int, str], float]) -> None:
        self.clock, self.until = clock, until

    def run(self, argv: list[str], **_options: Any) -> Result:
        for holder, until in self.until.items():
            if self.clock.now < until:
                return Result(tuple(argv), 100, "", HELD.format(*holder))
        return Result(tuple(argv), 0, "", "")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(cli, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("until", "notes"),
    [
        ({}, []),
        ({(1, "apt"): 7.0}, []),
        (
            {(1, "unattended-upgr"): 899.0},
            ["Waited 900 s for another package manager (unattended-upgr, process 1), which held its lock"],
        ),
        (
            {(1, "cloud-init"): 60.0, (2, "apt"): 100.0},
            [
                "Waited 60 s for another package manager (cloud-init, process 1), which held its lock",
                "Waited 40 s for another package manager (apt, process 2), which held its lock",
            ],
        ),
    ],
)
def test_a_long_wait_is_reported_with_the_holder_of_the_lock(
    clock: Clock, until: dict[tuple[int, str], float], notes: list[str]
) -> None:
    apt = Apt(FakeRunner(clock, until), 900)  # type: ignore[arg-type]
    assert apt.install([], ["kubelet"], "installing kubelet").rc == 0
    assert apt.notes() == notes


def test_a_lock_timeout_names_the_setting(clock: Clock) -> None:
    apt = Apt(FakeRunner(clock, {(1, "unattended-upgr"): 1e9}), 900)  # type: ignore[arg-type]
    with pytest.raises(LockTimeoutError) as caught:
        apt.configure_pending()
    assert clock.now == 900
    assert "(unattended-upgr, process 1) has held its lock for more than 900 s" in str(caught.value)
    assert "raise cluster_apt_lock_timeout" in str(caught.value)
