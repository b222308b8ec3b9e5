# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a keeper, which removes a file and ends a program when this run ends, even if it is interrupted or killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_KEEPER = Path(__file__).with_name("keeper.py")


def start_keeper(file: Path, program: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Create a private file that is removed when ansible-playbook ends, and run a program until it is removed.

    Call this in an action plugin, whose process is a child of ansible-playbook. Raises OSError, also if the file
    exists.
    """
    file.touch(mode=0o600, exist_ok=False)
    try:
        return subprocess.Popen(
            [sys.executable, str(_KEEPER), str(file), str(os.getppid()), *program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        file.unlink()
        raise
