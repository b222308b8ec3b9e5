# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a place on a GPU for each MIG device of a layout, or the reason why there is none. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .._errors import DomainError
from .profiles import Profile

# A profile and the memory slice where it starts.
Placement = tuple[Profile, int]

_ALL = "all-"
_ENGINES = (
    "they need more media engines than it has: only one part can have +me, and next to +me.all the other parts must "
    "have none (-me)"
)


def place(wanted: Any, profiles: Sequence[Profile]) -> list[Placement]:
    """Return the placements of a GPU's MIG devices, by their first slice.

    ``wanted`` is ``all-PROFILE`` (as many as fit) or a list of profiles. Raise DomainError; its message ends a
    sentence.
    """
    by_name = {profile.name: profile for profile in profiles}
    if isinstance(wanted, str):
        profile = _known(wanted[len(_ALL) :], by_name)
        for count in range(profile.total, 0, -1):
            found = _solve([profile] * count, profiles)
            if found:
                return found
        raise DomainError(f"it has no room for one {profile.name}")
    parts = [_known(name, by_name) for name in wanted]
    found = _solve(parts, profiles)
    if not found:
        raise DomainError(
            f"{_list(part.name for part in parts)} do not fit on it together; "
            + (_rules(parts) if _have_engines(parts, profiles) else _ENGINES)
        )
    return found


def _known(name: str, by_name: dict[str, Profile]) -> Profile:
    if name not in by_name:
        raise DomainError(f"it has no profile {name}, it has {', '.join(sorted(by_name))}")
    return by_name[name]


def _solve(parts: Sequence[Profile], profiles: Sequence[Profile]) -> list[Placement]:
    """Return placements without overlap, empty if there are none. A search is fast with at most seven devices."""
    counted = Counter(part.name for part in parts)
    if any(counted[part.name] > part.total for part in parts):
        return []
    # ``total`` is the number of instances on an empty GPU, so the largest slices * total is the GPU's capacity.
    if sum(part.slices for part in parts) > max(profile.slices * profile.total for profile in profiles):
        return []
    if not _have_engines(parts, profiles):
        return []
    # Place large profiles first, because they have the fewest places.
    ordered = sorted(parts, key=lambda part: (-part.size, len(part.starts), part.name))
    return sorted(_search(ordered, frozenset()), key=lambda placed: placed[1])


def _have_engines(parts: Sequence[Profile], profiles: Sequence[Profile]) -> bool:
    """Return whether the GPU has enough media engines; its number of each is that of one profile * total."""
    if all(profile.engines for profile in profiles):
        amounts = zip(*([each * profile.total for each in profile.engines] for profile in profiles))
        wanted = zip(*(part.engines for part in parts))
        return all(sum(own) <= max(has) for own, has in zip(wanted, amounts))
    # Without known engines, names decide: one device may have +me, and next to +me.all the others have none.
    extended = [part for part in parts if "+me" in part.name]
    rest = [part for part in parts if "+me" not in part.name]
    takes_all = any(part.name.endswith("+me.all") for part in extended)
    return len(extended) <= 1 and (not takes_all or all(part.name.endswith("-me") for part in rest))


def _search(parts: Sequence[Profile], taken: frozenset[int]) -> list[Placement]:
    if not parts:
        return []
    first, rest = parts[0], parts[1:]
    for start in sorted(first.starts):
        slices = frozenset(range(start, start + first.size))
        if slices & taken:
            continue
        if not rest:
            return [(first, start)]
        found = _search(rest, taken | slices)
        if found:
            return [(first, start), *found]
    return []


def _rules(parts: Sequence[Profile]) -> str:
    unique = {part.name: part for part in parts}
    return "; ".join(
        f"{name}: {part.total} at most, memory slices {part.size} from {' or '.join(map(str, part.starts))}"
        for name, part in sorted(unique.items())
    )


def _list(names: Iterable[str]) -> str:
    counted = Counter(names)
    return ", ".join(name if count == 1 else f"{count} x {name}" for name, count in sorted(counted.items()))
