# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What prevents a run from writing files on the controller that variables name; it writes most of them at its end.

Looks at the controller's file system, and reads an existing kubeconfig.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible import constants

from ...module_utils._problem import Problem
from . import renamed
from .access import kubeconfig_path, report_prefix

# The next run must not read these files as inventories either, if the inventory sets their paths.
WRITTEN = (
    "report_file",
    "report_junit",
    "report_metrics",
    "cluster_kubeconfig",
    "drift_report",
    "gpu_benchmark_report",
    "plan_report",
    "torch_ddp_benchmark",
    "torch_ddp_summary",
)
PREFIX = "cluster_report_prefix"
# The user in kubeadm's administrator kubeconfig.
_ADMINISTRATOR = "kubernetes-admin"
_EMPTY = "it is empty; name a file"


def report(value: Any) -> Iterator[str]:
    """Check a report, whose page is next to it with another extension."""
    if str(value).endswith(".html"):
        yield f"{value} is the name of the page, which is written next to the report; let it end with .json"
    else:
        yield from writable(value, Path.cwd()) if str(value).strip() else [_EMPTY]


def created(value: Any) -> Iterator[str]:
    """Check a file that is always written; missing directories are created."""
    yield from writable(value) if str(value).strip() else [_EMPTY]


def required(value: Any) -> Iterator[str]:
    """Check a file that is always written, into an existing directory."""
    yield from optional(value) if str(value).strip() else [_EMPTY]


def optional(value: Any) -> Iterator[str]:
    """Check a file that is written into an existing directory, or not at all if the value is empty."""
    found = list(writable(value)) if value else []
    yield from found
    folder = _expanded(value).parent
    if value and not found and folder.is_absolute() and not folder.is_dir():
        yield f"there is no directory {folder} on the controller; create it, or name another one"


def kubeconfig(value: Any) -> Iterator[str]:
    """Check a file whose content is replaced by the administrator's kubeconfig."""
    if not value:
        return
    path = Path.cwd() / _expanded(value)
    found = list(writable(value, Path.cwd()))
    yield from found
    if not found and path.exists() and not _is_administrators(path):
        yield (
            f"{path} exists, and is not a kubeconfig with the user {_ADMINISTRATOR} only, as kubeadm writes it; name "
            "another file, because this one would be replaced"
        )


def writable(value: Any, here: Path = Path()) -> Iterator[str]:
    """Yield what prevents writing a file. Without ``here``, relative paths are checked by the task that writes them."""
    path = here / _expanded(value)
    if not path.is_absolute():
        return
    folder = path.parent
    try:
        while not folder.exists() and not folder.is_symlink():
            folder = folder.parent
        if path.is_dir() or str(value).endswith("/"):
            yield f"{path} is a directory; name a file in it"
        elif path.exists() and not path.is_file():
            yield f"{path} is not a regular file; name another one"
        elif not folder.is_dir():
            yield f"{folder} is not a directory, so nothing can be written into it; name another one"
        elif not os.access(folder, os.W_OK | os.X_OK):
            yield f"you may not write into {folder} on the controller; name a file in another directory"
        elif not _is_replaceable(path):
            yield f"{path} belongs to another user, and {folder} does not let you replace it; name another file"
    except OSError as error:
        yield f"{path} can't be written: {error.strerror}; name another file"


def _is_replaceable(path: Path) -> bool:
    """Return whether a file in a writable directory can be replaced; in /tmp, for example, only its owner can."""
    owners = {0, path.parent.stat().st_uid, path.stat().st_uid} if path.exists() else {os.geteuid()}
    return os.geteuid() in owners or not path.parent.stat().st_mode & stat.S_ISVTX


def by_default(variables: Mapping[str, Any], known: Mapping[str, Any], later: Collection[str]) -> Iterator[Problem]:
    """Check the run's files that no variable names.

    ``known`` are the values that the inventory sets, ``later`` variables that are set elsewhere, such as by plays.
    """
    sources = [str(source) for source in variables.get("ansible_inventory_sources") or []]
    directory = variables.get("inventory_dir") or variables.get("playbook_dir")
    prefix = known.get(PREFIX, "")
    if directory and not _is_set(PREFIX, variables, later):
        prefix = report_prefix(sources, str(directory))
    found = {}
    if prefix and not _is_set("report_file", variables, later):
        found[PREFIX] = f"{prefix}gpulab-report.json"
    if not _is_set("cluster_kubeconfig", variables, later):
        found["cluster_kubeconfig"] = kubeconfig_path(sources, "awx_job_template_name" in variables)
    for name, path in found.items():
        for wrong in writable(path, Path.cwd()) if path else ():
            what, _semicolon, do = wrong.partition("; ")
            is_folder = what.startswith("you may not write into ") and name not in variables
            yield Problem(
                "file_not_writable",
                f"{what[0].upper()}{what[1:]}",
                name,
                f"The run writes {path}, at its end",
                "Copy the inventory into your own directory, or set cluster_report_prefix, such as ~/gpulab-, and "
                "cluster_kubeconfig"
                if is_folder
                else f"{do[0].upper()}{do[1:]} with {name}",
            )


def _is_set(name: str, variables: Collection[str], later: Collection[str]) -> bool:
    return renamed.name_in_use(name, variables) in variables or name in later


def inventory_directory(value: Any, sources: Sequence[str]) -> str:
    """Return the inventory directory in which Ansible would read the file as an inventory, empty if none."""
    path = Path.cwd() / _expanded(value)
    ignored = tuple(constants.INVENTORY_IGNORE_EXTS)
    for source in sources:
        if "," in source or Path(source) not in path.parents or path.name.endswith(ignored):
            continue
        if not any(part.startswith(".") for part in path.relative_to(source).parts):
            return source
    return ""


def _expanded(value: Any) -> Path:
    try:
        return Path(str(value)).expanduser()
    except RuntimeError:
        # There is no such user, so ~ is part of a normal name.
        return Path(str(value))


def _is_administrators(path: Path) -> bool:
    try:
        text = path.read_text(encoding="utf-8")
        return not text.strip() or [user["name"] for user in yaml.safe_load(text)["users"]] == [_ADMINISTRATOR]
    except (OSError, ValueError, KeyError, TypeError, RecursionError, yaml.YAMLError):
        return False
