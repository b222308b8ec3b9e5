# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._apt import read_madison, words
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
def test_complaints_without_the_progress(stdout: str, stderr: str, said: str) -> None:
    assert words(Result(("apt-get",), 100, stdout, stderr)) == said


def test_madison() -> None:
    text = (
        "   kubelet | 1.36.4-1.1 | https://pkgs.k8s.io/core:/stable:/v1.36/deb  Packages\n"
        "   kubelet | 1.36.4-1.1 | http://mirror/v1.36/deb  Packages\n"
        "   kubelet | 1.36.3-1.1 | http://mirror/v1.36/deb  Packages\n"
        "      curl | 7.88.1-10 | http://mirror/debian bookworm/main Sources\n"
        "N: Unable to locate package nothing\n"
    )
    assert read_madison(text) == {"kubelet": ["1.36.4-1.1", "1.36.3-1.1"]}


@given(st.text())
def test_any_madison_has_a_result(text: str) -> None:
    read_madison(text)
