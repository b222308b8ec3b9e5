# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.file_system import Mount, mount_of

MOUNTS = r"""
/dev/sda1 / ext4 rw,relatime,usrquota,grpquota 0 0
proc /proc proc rw 0 0
/dev/sdb1 /srv xfs rw,prjquota,noquotas 0 0
tank/data /srv/my\040data zfs rw 0 0
overlay /mnt overlay rw 0 0
/dev/sdc1 /mnt xfs rw,noquota 0 0
short line
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", ("/", "/dev/sda1", "ext4", ["usrquota", "grpquota"])),
        ("/srvice", ("/", "/dev/sda1", "ext4", ["usrquota", "grpquota"])),
        ("/srv/gpulab", ("/srv", "/dev/sdb1", "xfs", ["prjquota"])),
        ("/srv/my data/a", ("/srv/my data", "tank/data", "zfs", [])),
        ("/mnt", ("/mnt", "/dev/sdc1", "xfs", [])),
    ],
)
def test_the_file_system_of_a_path_is_found(path: str, expected: tuple[Any, ...]) -> None:
    assert mount_of(MOUNTS, path) == Mount(*expected)


def test_without_mounts_the_file_system_is_unknown() -> None:
    assert mount_of("", "/srv") == Mount("/", "unknown", "unknown", [])
