# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a host's GPUs from nvidia-smi and the kernel log, for nvidia_smi_info and gpu_host_info."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._nvidia_smi.facts import NvidiaSmi
from .._words import moment, written
from .driver_messages import read_messages
from .health import UNEXPLAINED, complete
from .kernel_log import boot_id, kernel_records
from .pci import address_of, left_out
from .root import NVIDIA_SMI, nvidia_smi
from .xid import findings, read_records


def gpu_state(
    module: Any,
    gather: Sequence[str],
    *,
    driver_root: str,
    xids_since: str,
    ignored_gpus: Sequence[str] = (),
    root: str = "/",
    executable: str = NVIDIA_SMI,
    timeout: int = 60,
) -> dict[str, Any]:
    """Return the values of nvidia_smi_info; ``timeout`` is the limit of each call in seconds.

    Kernel messages about ``ignored_gpus`` are skipped unless nvidia-smi lists these GPUs. Problems of GPUs are part of
    the values. Raise DomainError for invalid arguments.
    """
    if timeout < 1:
        raise DomainError(f"Error while reading the GPUs: timeout is {timeout} s; set it to 1 s or more")
    since = moment(xids_since)
    if xids_since and since is None:
        said = f"xids_since is {xids_since!r}; write it as in 2026-11-22T05:06:25Z"
        raise DomainError(f"Error while reading the GPUs: {said}")
    begun = time.time()
    # The clock was set back, so it is unknown which errors are older.
    since = None if since is not None and since > begun else since
    program, environ = nvidia_smi(driver_root, executable)
    runner = Runner(module, timeout=timeout, environ=environ)
    facts = NvidiaSmi(lambda arguments: runner.run([program, *arguments])).facts(gather)
    wanted = "xids" in gather
    records, failure = None, None
    if wanted or facts["state"] in UNEXPLAINED:
        records, failure = kernel_records(Runner(module, timeout=timeout).run)
    apart = left_out(root, ignored_gpus) - {address_of(str(gpu["pci_bus_id"])) for gpu in facts["gpus"]}
    every = findings(read_records(records or []), since) if wanted else []
    found = [each for each in every if address_of(each.address) not in apart]
    messages = [
        each for each in read_messages(records or [], since) if each.switch or address_of(each.address) not in apart
    ]
    known = wanted and records is not None
    return {
        **complete(facts, found, messages),
        "xids": [each.fields() for each in found] if known else None,
        "xids_failure": failure if wanted else None,
        "xids_read": written(begun),
        "driver_messages": [each.fields() for each in messages] if known else None,
        "boot_id": boot_id(),
    }
