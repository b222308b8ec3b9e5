# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the declaration of GPU sharing and derive the resources that a host offers. Pure functions.

Source of the device plugin's rules: README.md, "Shared Access to GPUs", and api/config/v1/{config,replicas}.go of
k8s-device-plugin v0.19.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._errors import DomainError

GPU = "nvidia.com/gpu"
MODES = ("exclusive", "time_slicing", "mps", "mig")
# Name of the configuration for nodes without the label.
EXCLUSIVE = "exclusive"

_KEYS = {
    "exclusive": (),
    "time_slicing": ("replicas", "rename", "refuse_more_than_one"),
    "mps": ("replicas",),
    "mig": ("layout", "strategy"),
}
_STRATEGIES = ("single", "mixed")
_PROFILE = re.compile(r"[1-9]\d*g\.[1-9]\d*gb(?:[+-][a-z][a-z.]*)*")
_ALL = "all-"
_LAYOUT = "a layout is all-PROFILE, a list of profiles, or a mapping from the index of a GPU to one of these"


@dataclass(frozen=True)
class Sharing:
    """A valid declaration. ``layout`` is unchanged, because its meaning depends on the GPUs."""

    mode: str = EXCLUSIVE
    replicas: int = 1
    rename: bool = False
    refuse_more_than_one: bool = False
    strategy: str = "none"
    layout: Any = None

    @property
    def name(self) -> str:
        """The name of the device plugin's configuration, a valid label value; it does not depend on the layout."""
        if self.mode == "mig":
            return f"mig-{self.strategy}"
        if self.mode == EXCLUSIVE:
            return EXCLUSIVE
        one_each = "-one-each" if self.refuse_more_than_one and self.mode != "mps" else ""
        extras = ("-renamed" if self.rename else "") + one_each
        return f"{self.mode.replace('_', '-')}-{self.replicas}{extras}"

    @property
    def gpu_resource(self) -> str:
        return f"{GPU}.shared" if self.rename else GPU


def problems(value: Any) -> list[str]:
    """Return all errors in a declaration, as sentences without a period."""
    if not isinstance(value, Mapping):
        return [f"it is not a mapping with the key mode: {value!r}"]
    mode = value.get("mode", EXCLUSIVE)
    if mode not in MODES:
        return [f"mode is {mode!r}, and must be one of {', '.join(MODES)}"]
    found = [_stray(key, mode) for key in value if key not in ("mode", *_KEYS[mode])]
    if "replicas" in _KEYS[mode]:
        found += _replica_problems(value.get("replicas"), mode)
    found += [
        f"{key} is {value[key]!r}, and must be true or false"
        for key in ("rename", "refuse_more_than_one")
        if key in _KEYS[mode] and not isinstance(value.get(key, False), bool)
    ]
    if mode == "mig":
        found += _mig_problems(value)
    return found


def _stray(key: Any, mode: str) -> str:
    owners = [other for other in MODES if key in _KEYS[other]]
    if key == "layout" and mode == "mps":
        return "layout belongs to mode mig: MPS shares whole GPUs only, never MIG devices"
    belongs = f"{key} belongs to mode {' and '.join(owners)}, not to {mode}" if owners else f"there is no key {key}"
    known = ", ".join(("mode", *_KEYS[mode]))
    return belongs if owners else f"{belongs}; mode {mode} takes {known}"


def _replica_problems(replicas: Any, mode: str) -> list[str]:
    number = int(replicas) if isinstance(replicas, str) and replicas.isdecimal() else replicas
    if isinstance(number, bool) or not isinstance(number, int) or number < 2:
        shown = "not set" if replicas is None else repr(replicas)
        return [f"replicas is {shown}, but mode {mode} needs a number of at least 2 (how many pods share a GPU)"]
    return []


def _mig_problems(value: Mapping[Any, Any]) -> list[str]:
    strategy = value.get("strategy", "mixed")
    found = []
    if strategy not in _STRATEGIES:
        found.append(f"strategy is {strategy!r}, and must be single or mixed")
    layout = value.get("layout")
    if not layout or not isinstance(layout, (str, Sequence, Mapping)):
        return [*found, f"layout is {'not set' if layout is None else repr(layout)}: {_LAYOUT}"]
    per_gpu = list(layout.values()) if isinstance(layout, Mapping) else [layout]
    if isinstance(layout, Mapping):
        found += [f"layout has the key {key!r}, which is not an index of a GPU" for key in layout if not _is_index(key)]
    for one in per_gpu:
        found += [f"layout has {entry!r}: {_LAYOUT}" for entry in _entries(one) if not _is_profile(entry)]
    kinds = {str(entry) for one in per_gpu for entry in _entries(one)}
    if strategy == "single" and len(kinds) > 1:
        found.append(f"strategy single needs one profile on all GPUs, and layout has {', '.join(sorted(kinds))}")
    return found


def _is_index(key: Any) -> bool:
    return not isinstance(key, bool) and str(key).isdecimal()


def _is_profile(entry: Any) -> bool:
    return isinstance(entry, str) and bool(_PROFILE.fullmatch(entry))


def _entries(one: Any) -> list[Any]:
    if isinstance(one, str):
        return [one[len(_ALL) :] if one.startswith(_ALL) else one]
    return list(one) if isinstance(one, Sequence) else [one]


def read(value: Any) -> Sharing:
    """Parse a declaration. Raise DomainError with all errors."""
    wrong = problems(value)
    if wrong:
        raise DomainError(f"Error while reading cluster_gpu_sharing: {'; '.join(wrong)}")
    mode = value.get("mode", EXCLUSIVE)
    return Sharing(
        mode=mode,
        replicas=int(value.get("replicas", 1)),
        rename=value.get("rename", False),
        refuse_more_than_one=value.get("refuse_more_than_one", mode == "mps"),
        strategy=value.get("strategy", "mixed") if mode == "mig" else "none",
        layout=value.get("layout"),
    )


def layout_of(layout: Any, index: int) -> Any:
    """Return how to partition a GPU: ``all-PROFILE``, a list of profiles, or None for no partitioning."""
    if isinstance(layout, Mapping):
        layout = next((value for key, value in layout.items() if str(key) == str(index)), None)
    if isinstance(layout, str):
        return layout if layout.startswith(_ALL) else [layout]
    return list(layout) if layout else None


def offers(sharing: Sharing, gpus: int, cut: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return resource -> amount that a host offers; ``cut`` has the profiles of each partitioned GPU."""
    parts = [list(profiles) for profiles in cut if profiles]
    whole = (gpus - len(parts)) * sharing.replicas
    found = {sharing.gpu_resource: whole} if whole else {}
    for profile in (profile for profiles in parts for profile in profiles):
        name = GPU if sharing.strategy == "single" else mig_resource(profile)
        found[name] = found.get(name, 0) + 1
    return found


def mig_resource(profile: str) -> str:
    """Return the device plugin's resource name of a profile for strategy mixed (api/config/v1/resources.go)."""
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


def described(amounts: Mapping[str, int]) -> str:
    """Return the amounts for a message, such as ``nvidia.com/gpu 2, nvidia.com/mig-1g.5gb 7``."""
    return ", ".join(f"{name} {amounts[name]}" for name in sorted(amounts)) or "no GPU"


def configuration(sharing: Sharing) -> dict[str, Any]:
    """Return the settings in the device plugin's configuration file that depend on the declaration."""
    special: dict[str, Any] = {"flags": {"migStrategy": sharing.strategy}}
    if sharing.mode in ("time_slicing", "mps"):
        replicated = {
            "renameByDefault": sharing.rename,
            "failRequestsGreaterThanOne": sharing.refuse_more_than_one,
            "resources": [{"name": GPU, "replicas": sharing.replicas}],
        }
        special["sharing"] = {"timeSlicing" if sharing.mode == "time_slicing" else "mps": replicated}
    return special
