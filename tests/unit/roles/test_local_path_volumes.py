# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Script of the provisioner's helper pod, which makes volumes accessible to pods, but not to the node's users."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path

import pytest

TEMPLATE = Path(__file__).resolve().parents[3] / "roles/local_path/templates/provisioner.yml.j2"


def make_volume(path: Path) -> None:
    found = re.search(r"^  setup: \|\n((?:    .*\n)+)", TEMPLATE.read_text(), re.MULTILINE)
    assert found
    script = textwrap.dedent(found[1])
    subprocess.run(["sh", "-c", script], env={"VOL_DIR": str(path), "PATH": "/usr/bin:/bin"}, check=True, umask=0o22)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([], 0o700),
        (["pvc-1_default_old"], 0o700),
        (["lost+found"], 0o700),
        # The directory also has other uses.
        (["home"], 0o755),
        (["pvc-1_default_old", ".hidden"], 0o755),
    ],
)
def test_only_root_can_enter_the_directory_of_the_volumes(tmp_path: Path, there: list[str], expected: int) -> None:
    parent = tmp_path / "local-path"
    parent.mkdir(mode=0o755)
    for name in there:
        (parent / name).mkdir()
    for name in ("pvc-2_default_new", "pvc-3_default_newer"):
        make_volume(parent / name)
        assert (mode(parent), mode(parent / name)) == (expected, 0o777)
