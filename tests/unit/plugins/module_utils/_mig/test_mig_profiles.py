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
RTX = Gpu(0, "GPU-0", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 97887, True, True)
RTX_PROFILES = {
    *("1g.24gb", "1g.24gb+me", "1g.24gb+gfx", "1g.24gb+me.all", "1g.24gb-me", "2g.48gb", "2g.48gb+gfx"),
    *("2g.48gb+me.all", "2g.48gb-me", "4g.96gb", "4g.96gb+gfx"),
}
# RTX PRO 6000, by profile: decoders, encoders, JPEG engines and optical flow engines.
RTX_ENGINES: dict[int, tuple[int, ...]] = {
    14: (1, 1, 1, 0),
    21: (1, 1, 1, 1),
    47: (1, 1, 1, 0),
    65: (4, 4, 4, 1),
    67: (0, 0, 0, 0),
    5: (2, 2, 2, 0),
    35: (2, 2, 2, 0),
    64: (4, 4, 4, 1),
    66: (0, 0, 0, 0),
    0: (4, 4, 4, 1),
    32: (4, 4, 4, 1),
}


def seven(first: str, others: str) -> set[str]:
    return {first, f"{first}+me", *others.split()}


def listed(gpu: Gpu, engines: dict[int, tuple[int, ...]]) -> str:
    """Return the output of nvidia-smi mig -lgip for the known profiles."""
    return "".join(
        f"|   0  MIG {profile.name:<18} {profile.id:>2}     {profile.total}/{profile.total}        23.62      No     46"
        f"     {engines[profile.id][0]}     {engines[profile.id][1]}   |\n"
        f"|                                                      1     {engines[profile.id][2]}     "
        f"{engines[profile.id][3]}   |\n+----+\n"
        for profile in mig.known(gpu)
    )


def test_known_profiles_are_those_that_nvidia_smi_prints() -> None:
    names, places = mig.parse_profiles(PROFILES)[0], mig.parse_placements(PLACEMENTS)[0]
    assert mig.combine(names, places, GPU) == A100_PROFILES
    assert [profile.name for profile in A100_PROFILES][:3] == ["1g.5gb", "1g.5gb+me", "1g.10gb"]


@pytest.mark.parametrize(
    ("name", "memory", "profiles"),
    [
        ("NVIDIA A30", 24576, {"1g.6gb", "1g.6gb+me", "2g.12gb", "2g.12gb+me", "4g.24gb"}),
        (
            "NVIDIA A100 80GB PCIe",
            81920,
            {"1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"},
        ),
        ("NVIDIA H100 NVL", 95830, {"1g.12gb", "1g.12gb+me", "1g.24gb", "2g.24gb", "3g.47gb", "4g.47gb", "7g.94gb"}),
        ("NVIDIA H200", 143771, {"1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"}),
        ("NVIDIA B200", 183359, {"1g.23gb", "1g.23gb+me", "1g.45gb", "2g.45gb", "3g.90gb", "4g.90gb", "7g.180gb"}),
        ("NVIDIA B300 SXM6 AC", 275040, seven("1g.34gb", "1g.67gb 2g.67gb 3g.135gb 4g.135gb 7g.269gb")),
        ("NVIDIA GB300", 284208, seven("1g.35gb", "1g.70gb 2g.70gb 3g.139gb 4g.139gb 7g.278gb")),
        ("NVIDIA GB200", 189471, seven("1g.23gb", "1g.47gb 2g.47gb 3g.93gb 4g.93gb 7g.186gb")),
        ("NVIDIA H20", 97871, seven("1g.12gb", "1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb")),
        ("NVIDIA H800", 81559, seven("1g.10gb", "1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb")),
        ("NVIDIA A800-SXM4-40GB", 40960, seven("1g.5gb", "1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb")),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, RTX_PROFILES),
        ("NVIDIA RTX 6000 Ada Generation", 49140, set()),
        ("Tesla T4", 15360, set()),
    ],
)
def test_profile_names_depend_on_the_memory_size(name: str, memory: int, profiles: set[str]) -> None:
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


def test_instances_are_read_with_their_completeness() -> None:
    assert mig.parse_instances(INSTANCES, COMPUTE_INSTANCES) == [
        Instance(0, "1g.5gb", 7, 3, whole=True),
        Instance(0, "3g.20gb", 1, 4, whole=False),
        Instance(1, "1g.5gb+me", 8, 0, whole=True),
    ]
    assert not any(instance.whole for instance in mig.parse_instances(INSTANCES, ""))
    assert mig.parse_instances("No MIG-enabled devices found.\n", "") == []


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    mig.parse_gpus(text)
    assert mig.parse_instances(text, text) == [] or "MIG" in text
    assert mig.parse_profiles(text) == {} or "MIG" in text
    assert mig.parse_placements(text) == {} or "Profile ID" in text


def possible(parts: list[Placement], wanted: list[str]) -> None:
    """Assert what must be true for every arrangement."""
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
def test_a_placement_is_found_whenever_there_is_one(data: st.DataObject) -> None:
    profiles = data.draw(st.sampled_from(FAMILIES))
    wanted = data.draw(st.lists(st.sampled_from(profiles), min_size=1, max_size=7))
    names = [profile.name for profile in wanted]
    most = max(profile.slices * profile.total for profile in profiles)
    allowed = all(names.count(profile.name) <= profile.total for profile in wanted)
    allowed = allowed and sum("+me" in name for name in names) <= 1
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
def test_as_many_profiles_as_possible_are_placed(profile: str, count: int) -> None:
    possible(place(f"all-{profile}", A100_PROFILES), [profile] * count)


def test_the_order_of_profiles_does_not_matter() -> None:
    assert place(["1g.5gb", "2g.10gb", "4g.20gb"], A100_PROFILES) == place(
        ["4g.20gb", "1g.5gb", "2g.10gb"], A100_PROFILES
    )


def test_media_engines_are_read() -> None:
    assert mig.parse_engines(PROFILES)[0] == {
        19: (0, 0, 0, 0),
        20: (1, 0, 1, 1),
        15: (1, 0, 0, 0),
        14: (1, 0, 0, 0),
        9: (2, 0, 0, 0),
        5: (2, 0, 0, 0),
        0: (5, 0, 1, 1),
    }
    text = listed(RTX, RTX_ENGINES)
    assert mig.parse_engines(text)[0] == RTX_ENGINES
    assert {name for name, *_rest in mig.parse_profiles(text)[0]} == RTX_PROFILES


def from_listing() -> list[Profile]:
    text = listed(RTX, RTX_ENGINES)
    places = {profile.id: (profile.starts, profile.size) for profile in mig.known(RTX)}
    return mig.combine(mig.parse_profiles(text)[0], places, RTX, mig.parse_engines(text)[0])


@pytest.mark.parametrize("profiles", [mig.known(RTX), from_listing()], ids=["as known", "as listed"])
@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (["1g.24gb"] * 4, True),
        (["2g.48gb", "1g.24gb", "1g.24gb"], True),
        (["1g.24gb+me", "1g.24gb", "1g.24gb", "1g.24gb"], True),
        (["1g.24gb+me", "2g.48gb+gfx", "1g.24gb+gfx"], True),
        (["1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me"], True),
        (["1g.24gb+me.all"], True),
        (["1g.24gb+me.all", "1g.24gb", "1g.24gb", "1g.24gb"], False),
        (["2g.48gb+me.all", "2g.48gb"], False),
        (["1g.24gb+me.all", "1g.24gb+gfx"], False),
        (["1g.24gb+me", "1g.24gb+me.all"], False),
        (["1g.24gb+me.all", "2g.48gb+me.all"], False),
    ],
)
def test_media_engines_are_assigned_once(profiles: list[Profile], wanted: list[str], fits: bool) -> None:
    if fits:
        assert len(place(wanted, profiles)) == len(wanted)
    else:
        with pytest.raises(DomainError, match="more media engines than it has"):
            place(wanted, profiles)


@pytest.mark.parametrize("wanted", [["1g.6gb+me", "2g.12gb+me"], ["1g.6gb+me", "1g.6gb+me"]])
def test_only_one_mig_device_has_the_media_extensions(wanted: list[str]) -> None:
    with pytest.raises(DomainError):
        place(wanted, FAMILIES[1])
