# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands in for Ansible's module where this collection's utilities run without Ansible."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Callable

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Host:
    """Runs programs on this host for ``Runner``."""

    def get_bin_path(self, name: str) -> str | None:
        return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_PATH}")

    def run_command(
        self,
        argv: Sequence[str],
        *,
        data: str | None,
        environ_update: Mapping[str, str],
        cwd: str | None,
        before_communicate_callback: Callable[[Any], None],
        **_other: Any,
    ) -> tuple[int, bytes, bytes]:
        """Run a program as Ansible's function of this name, with the options that ``Runner`` uses."""
        source = subprocess.DEVNULL if data is None else subprocess.PIPE
        environment = {**os.environ, **environ_update}
        with subprocess.Popen(
            argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=environment
        ) as process:
            before_communicate_callback(process)
            stdout, stderr = process.communicate(None if data is None else data.encode())
        return process.returncode, stdout, stderr
