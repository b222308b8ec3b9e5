# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read this boot's kernel log from the journal or the kernel's buffer, and the time until which errors are settled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .._command import CommandError, Result
from .._files import text_or_nothing
from .._words import moment
from .kernel_records import Record, dmesg_records, journal_records

# Messages have the kernel's identifier even if a daemon forwards the log, as in containers or with ReadKMsg=no.
_JOURNAL = (
    "journalctl",
    "--boot",
    "--identifier=kernel",
    "--output=json",
    "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,_TRANSPORT,_UID",
    "--no-pager",
    "--quiet",
)
GIVEN_BACK = "/var/lib/gpulab/gpus-given-back"
_DMESG = ("dmesg", "--time-format", "iso")


def kernel_records(run: Callable[[Sequence[str]], Result]) -> tuple[list[Record] | None, str | None]:
    """Return the records about NVIDIA devices in this boot in order, or None and the reason why they are unknown."""
    trouble = []
    for argv, read in ((_JOURNAL, journal_records), (_DMESG, dmesg_records)):
        try:
            result = run(argv)
        except CommandError as error:
            trouble.append(str(error))
            continue
        # A journal without any kernel message does not record them (in a container, or with ReadKMsg=no).
        if result.rc == 0 and (result.stdout.strip() or read is dmesg_records):
            return list(read(result.stdout)), None
        trouble.append(f"{argv[0]}: {result.message[:500] if result.rc else 'it has no messages of the kernel'}")
    return None, "; ".join(trouble)


def given_back(root: str) -> str:
    """Return when GPUs were last released from isolation in this boot, empty if never. Earlier errors are settled."""
    found, _space, boot = text_or_nothing(root, GIVEN_BACK).strip().partition(" ")
    # Errors of other boots are not read, and the clock may have been wrong.
    return found if moment(found) is not None and boot in ("", boot_id(root)) else ""


def boot_id(root: str = "/") -> str:
    """Return the id of the current boot, empty if unknown."""
    return text_or_nothing(root, "/proc/sys/kernel/random/boot_id").strip()
