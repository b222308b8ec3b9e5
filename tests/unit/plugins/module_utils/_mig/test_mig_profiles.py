# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections import Counter

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._mig import profiles as mig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._mig.placement import Placement, place
from ansible_collections.gpulab.kubernetes.plugins.module_utils._mig.profiles import Gpu, Instance, Profile
from hypothesis import given
from hypothesis import strategies as st
from mig_smi import A100, COMPUTE_INSTANCES, INSTANCES, PLACEMENTS, PROFILES

GPU = Gpu(0, "GPU-0", A100, 40960, False, False)
A100_PROFILES = mig.known(GPU)
FAMILIES = [
    A100_PROFILES,
    mig.known(Gpu(0, "GPU-0", "NVIDIA A30", 24576, False, False)),
    mig.known(Gpu(0, "GPU-0", "NVIDIA H200", 143771, False, False)),
]


def test_what_is_known_is_what_nvidia_smi_tells() -> None:
    names, places = mig.parse_profiles(PROFILES)[0], mig.parse_placements(PLACEMENTS)[0]
    assert mig.combine(names, places, GPU) == A100_PROFILES
    assert [profile.name for profile in A100_PROFILES][:3] == ["1g.5gb", "1g.5gb+me", "1g.10gb"]


@pytest.mark.parametrize(
    ("name", "memory", "profiles"),
    [
        ("NVIDIA A30", 24576, {"1g.6gb", "1g.6gb+me", "2g.12gb", "4g.24gb"}),
        (
            "NVIDIA A100 80GB PCIe",
            81920,
            {"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
        ),
        ("NVIDIA H100 NVL", 95830, {"1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}),
        ("NVIDIA H200", 143771, {"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}),
        ("NVIDIA B200", 183359, {"1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}),
        ("Tesla T4", 15360, set()),
    ],
)
def test_names_follow_from_the_memory(name: str, memory: int, profiles: set[str]) -> None:
    assert {profile.name for profile in mig.known(Gpu(0, "GPU-0", name, memory, False, False))} == profiles


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        (f"0, GPU-0, {A100}, 40960, Enabled, Disabled", Gpu(0, "GPU-0", A100, 40960, True, False)),
        ("3, GPU-3, Tesla T4, 15360, [N/A], [N/A]", Gpu(3, "GPU-3", "Tesla T4", 15360, None, None)),
        ("0, GPU-0, Old, [Unknown Error], [Not Supported], [Not Supported]", Gpu(0, "GPU-0", "Old", 0, None, None)),
        ("Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.", None),
        ("", None),
    ],
)
def test_gpus_are_read_line_by_line(line: str, gpu: Gpu | None) -> None:
    assert mig.parse_gpus(line) == ([gpu] if gpu else [])


def test_instances_and_whether_they_are_whole() -> None:
    assert mig.parse_instances(INSTANCES, COMPUTE_INSTANCES) == [
        Instance(0, "1g.5gb", 7, 3, whole=True),
        Instance(0, "3g.20gb", 1, 4, whole=False),
        Instance(1, "1g.5gb+me", 8, 0, whole=True),
    ]
    assert not any(instance.whole for instance in mig.parse_instances(INSTANCES, ""))
    assert mig.parse_instances("No MIG-enabled devices found.\n", "") == []


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    mig.parse_gpus(text)
    assert mig.parse_instances(text, text) == [] or "MIG" in text
    assert mig.parse_profiles(text) == {} or "MIG" in text
    assert mig.parse_placements(text) == {} or "Profile ID" in text


def possible(parts: list[Placement], wanted: list[str]) -> None:
    """What holds of every arrangement."""
    assert sorted(profile.name for profile, _start in parts) == sorted(wanted)
    taken: Counter[int] = Counter()
    for profile, start in parts:
        assert start in profile.starts
        taken.update(range(start, start + profile.size))
    assert not taken or max(taken.values()) == 1
    assert sum(profile.slices for profile, _start in parts) <= 7
    assert [start for _profile, start in parts] == sorted(start for _profile, start in parts)


def brute_force(wanted: list[Profile], taken: frozenset[int] = frozenset()) -> bool:
    if not wanted:
        return True
    first, rest = wanted[0], wanted[1:]
    places = [frozenset(range(start, start + first.size)) for start in first.starts]
    return any(not (place_ & taken) and brute_force(rest, taken | place_) for place_ in places)


@given(st.data())
def test_a_place_is_found_whenever_there_is_one(data: st.DataObject) -> None:
    profiles = data.draw(st.sampled_from(FAMILIES))
    wanted = data.draw(st.lists(st.sampled_from(profiles), min_size=1, max_size=7))
    names = [profile.name for profile in wanted]
    most = max(profile.slices * profile.total for profile in profiles)
    allowed = all(names.count(profile.name) <= profile.total for profile in wanted)
    allowed = allowed and sum(profile.slices for profile in wanted) <= most
    try:
        found = place(names, profiles)
    except DomainError as error:
        assert "do not fit on it together" in str(error)
        assert not (allowed and brute_force(wanted))
    else:
        possible(found, names)


@pytest.mark.parametrize(
    ("profile", "count"), [("1g.5gb", 7), ("1g.10gb", 4), ("2g.10gb", 3), ("3g.20gb", 2), ("7g.40gb", 1)]
)
def test_as_many_as_fit(profile: str, count: int) -> None:
    possible(place(f"all-{profile}", A100_PROFILES), [profile] * count)


def test_order_does_not_matter() -> None:
    assert place(["1g.5gb", "2g.10gb", "4g.20gb"], A100_PROFILES) == place(
        ["4g.20gb", "1g.5gb", "2g.10gb"], A100_PROFILES
    )
