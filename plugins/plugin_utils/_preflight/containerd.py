# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Preflight's rule for containerd drop-ins that this collection does not manage, but whose settings are merged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from ...module_utils._errors import DomainError
from ...module_utils._problem import Problem
from ...module_utils._words import listing
from .._containerd import conflicts
from .._containerd.config import Configuration, merge, parse, parse_release
from .model import Cluster, Facts, HostRule, Reading

_OPERATOR = re.compile(r"/toolkit/nvidia-container-runtime(?:\.\w+)?\Z")
_WHY = "containerd merges the drop-ins into the configuration that this collection writes, and would not work correctly"
_DO = "Correct or remove that file, or change the variables of the role containerd"


def drop_ins(reading: Reading, cluster: Cluster) -> Iterator[Problem]:
    ours = [file for file in reading.settings["containerd_files"] if reading.facts["gpus"] or not file["gpus"]]
    if not ours:
        return
    try:
        files = [parse(file["path"], file["text"]) for file in _in_order(ours, reading)]
        configuration = merge(files, parse_release(reading.settings["containerd_version"]))
    except DomainError as error:
        yield reading.problem(
            "containerd_file_unreadable",
            str(error),
            error.fields.get("path", ""),
            "containerd does not start with it",
            _DO,
        )
        return
    own = {file["path"] for file in ours}
    theirs = {path for path in _of_operator(configuration) if path not in own}
    if theirs and any(file["gpus"] for file in ours):
        yield reading.problem(
            "toolkit_of_operator",
            "The GPU Operator's container toolkit has also configured containerd",
            listing(sorted(theirs)),
            "Both toolkits would define the runtime nvidia, and the later file would take effect",
            "Use only one of them: set toolkit.enabled=false in the operator's chart and remove that file, or use the "
            "operator's toolkit (nvidia_container_toolkit_source=operator)",
        )
        return
    for conflict in conflicts.find(configuration):
        # Conflicts between unmanaged files are not judged; the later file wins.
        foreign = conflict.kind == "runtime_twice" and own.isdisjoint(conflict.files)
        if conflict.level == "problem" and not foreign:
            yield reading.problem("containerd_conflict", conflict.text, listing(conflict.files), _WHY, _DO)
    if any(file["gpus"] for file in ours):
        yield from _default_runtime(reading, configuration, own)


def _of_operator(configuration: Configuration) -> set[str]:
    """Return files that name a runtime in the operator's toolkit directory, usually /usr/local/nvidia/toolkit."""
    return {
        file.path
        for file in configuration.effective
        if any(_OPERATOR.search(runtime.binary or "") for runtime in file.view.runtimes.values())
    }


def _in_order(ours: list[Facts], reading: Reading) -> list[Facts]:
    """Return the main file, the drop-ins by name, and the files that these import."""
    base, *more = ours
    known = {file["path"] for file in ours}
    found = [*more, *(file for file in reading.facts["containerd_drop_ins"] if file["path"] not in known)]
    directory = PurePosixPath(reading.settings["containerd_conf_dir"])
    first = [file for file in found if PurePosixPath(file["path"]).parent == directory]
    return [base, *sorted(first, key=lambda file: str(file["path"])), *(file for file in found if file not in first)]


def _default_runtime(reading: Reading, configuration: Configuration, own: set[str]) -> Iterator[Problem]:
    naming = [(file, file.view.default_runtime) for file in configuration.effective if file.view.default_runtime]
    wanted = [default for file, default in naming if file.path in own][-1:]
    for file, default in naming[-1:]:
        if wanted and default != wanted[0]:
            yield reading.problem(
                "default_runtime_differs",
                f"{file.path} makes {default} the default runtime, but another file has already set it to {wanted[0]}",
                file.path,
                "Pods that manage GPUs get them from the default runtime",
                "Remove default_runtime_name from that file, or the file",
            )


RULES: tuple[HostRule, ...] = (drop_ins,)
