# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find variables that no role reads: misspellings, guesses, and other names that begin like ours.

Values are not checked.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ...module_utils._problem import Problem
from . import guesses, renamed
from .cluster import GROUP_VARIABLES
from .hosts import letters
from .references import texts_of_roles, words

MODE = "cluster_unknown_variables"
# Prefixes of our variables: those that no other project uses as far as is known, and those that others use too.
PREFIXES = (
    "acceptance_",
    "cluster_",
    "cuda_toolkit_",
    "dcgm_exporter_",
    "gpu_",
    "kubeadm_",
    "local_path_",
    "nfs_cache_",
    "nvidia_",
    "torch_ddp_",
    "wandb_launch_",
)
SHARED_PREFIXES = (
    "backup_",
    "containerd_",
    "docker_",
    "drift_",
    "etcd_",
    "flannel_",
    "host_",
    "kubernetes_upgrade_",
    "minikube_",
    "nfs_server_",
    "node_change_",
    "node_pools_",
    "plan_",
    "preflight_",
    "remove_node_",
    "report_",
    "reset_",
    "restore_",
)
# Names that Ansible and AWX set, and those that users are free to choose.
_NEVER = re.compile(r"(?:ansible|awx|tower|gpulab)_.*|_.*")
# Below this similarity, names are users' own.
_LIKENESS = 0.9
_NEAREST = 3
_OR_WARN = f", or set {MODE}=warn"
_REGISTERED = re.compile(r"^ +register: (\w+)$", re.MULTILINE)
_SET = re.compile(r"^( +)(?:ansible\.builtin\.)?set_fact:\n((?:\1 +.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Unknown:
    """A variable that nothing reads; ``certain``: it can only be meant for this collection."""

    problem: Problem
    certain: bool


@cache
def facts() -> frozenset[str]:
    """Return the names that roles and playbooks set at runtime, which are then variables of hosts."""
    found: set[str] = set()
    for text in texts_of_roles():
        found.update(_REGISTERED.findall(text))
        for indent, block in _SET.findall(text):
            found.update(re.findall(rf"^{indent}  (\w+):", block, re.MULTILINE))
    return frozenset(found)


def find(
    hosts: Mapping[str, Mapping[str, Any]], modes: Mapping[str, Any], options: Iterable[str], are_errors: bool
) -> Iterator[Problem]:
    """Yield the unknown variables that are errors, or those that are notes; ``hosts`` have unevaluated variables.

    ``modes``: by host, the value of cluster_unknown_variables.
    """
    # Not suggested for misspellings.
    old = renamed.RENAMED.keys()
    known = frozenset((*options, *GROUP_VARIABLES)).difference(old)
    judged = {name: judge(name, known) for variables in hosts.values() for name in variables if name not in old}
    found = {name: unknown for name, unknown in judged.items() if unknown}
    used = _used(hosts.values()) if found else set()
    for host, variables in hosts.items():
        for name in variables:
            unknown = found.get(name)
            # A variable that another one refers to is in use, but may be misspelled.
            if unknown and (name not in used or unknown.problem.kind == "variable_unknown"):
                is_error = unknown.certain and str(modes.get(host, "error")) != "warn"
                if is_error == are_errors:
                    do = unknown.problem.do if is_error else unknown.problem.do.removesuffix(_OR_WARN)
                    yield replace(unknown.problem, host=host, do=do)


def _used(hosts: Iterable[Mapping[str, Any]]) -> set[str]:
    return {word for variables in hosts for value in variables.values() for word in words(value)}


@cache
def judge(name: str, known: frozenset[str]) -> Unknown | None:
    """Return what a name was probably meant for, None if it is known or probably belongs to something else."""
    low = name.lower()
    if name in known or _NEVER.fullmatch(low):
        return None
    is_ours = low.startswith(PREFIXES)
    if low in guesses.MEANT or low in guesses.NOTHING:
        return _guess(name, low, is_ours)
    if low.startswith((*PREFIXES, *SHARED_PREFIXES)) and name in facts():
        return None
    near = _correct_name(low, known)
    if near:
        why = f"It looks like a misspelling of {near}, which would keep its default value"
        do = f"Write {near}, or choose a more different name for your own variable"
        return Unknown(Problem("variable_unknown", f"There is no variable {name}", name, why, do), True)
    if not low.startswith((*PREFIXES, *SHARED_PREFIXES)):
        return None
    nearest = ", ".join(_nearest(low, known))
    if not is_ours:
        do = f"If it is not your own, see docs/variables.md; the nearest names are {nearest}"
        return Unknown(_problem(name, f"Nothing in this collection reads {name}", "", do), False)
    prefix = next(prefix for prefix in PREFIXES if low.startswith(prefix))
    why = f"Nothing reads it: names that begin with {prefix} belong to this collection"
    return Unknown(
        _problem(name, f"There is no variable {name}", why, f"Write one of {nearest}{_rename_hint(name)}"), True
    )


def _guess(name: str, low: str, is_ours: bool) -> Unknown:
    ours = guesses.MEANT.get(low, "")
    if is_ours:
        why = f"This collection calls it {ours}" if ours else guesses.NOTHING[low]
        do = f"{f'Write {guesses.instead(ours)}' if ours else 'Remove it'}{_rename_hint(name)}"
        return Unknown(_problem(name, f"There is no variable {name}", why, do), True)
    what = f"Nothing in this collection reads {name}"
    do = f"Unless it is your own, write {guesses.instead(ours)}" if ours else "Unless it is your own, remove it"
    return Unknown(_problem(name, what, "" if ours else guesses.NOTHING[low], do), False)


def _problem(name: str, what: str, why: str, do: str) -> Problem:
    return Problem("variable_unread", what, name, why, do)


def _rename_hint(name: str) -> str:
    return f". If it is your own, rename it, such as to gpulab_{name} (gpulab_ is free for yours){_OR_WARN}"


def _correct_name(low: str, known: Collection[str]) -> str:
    """Return the variable of which a name is a misspelling, empty for none. Case and punctuation are ignored."""
    alike = [option for option in known if letters(option) == letters(low)]
    near = difflib.get_close_matches(low, known, n=1, cutoff=_LIKENESS)
    return next(iter(alike or near), "")


def _nearest(low: str, known: Collection[str]) -> list[str]:
    """Return the names that have the most words and letters in common with this one."""
    words = set(low.split("_"))

    def likeness(option: str) -> float:
        theirs = set(option.split("_"))
        return len(words & theirs) / len(words | theirs) + difflib.SequenceMatcher(None, low, option).ratio()

    return sorted(sorted(known), key=likeness, reverse=True)[:_NEAREST]
