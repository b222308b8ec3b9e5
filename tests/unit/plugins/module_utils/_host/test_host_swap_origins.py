# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who turns swap on at boot."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host import swap_state as swap
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host.swap_origins import blamed, origins
from hypothesis import given
from hypothesis import strategies as st

AGENT = "ResourceDisk.Format=y\nResourceDisk.EnableSwap=y\nResourceDisk.MountPoint=/mnt\n"
GENERATOR = "usr/lib/systemd/system-generators/zram-generator"

# Files -> an area that is on, who is blamed for it, and who turns swap on at the next boot.
CASES: list[tuple[dict[str, str], str, str, list[str]]] = [
    ({}, "/swapfile", "", []),
    (
        {"etc/fstab": "/swap.img none swap sw 0 0\n"},
        "/swap.img",
        "fstab (/etc/fstab)",
        ["fstab (/etc/fstab)"],
    ),
    ({"etc/fstab": "UUID=1 none swap sw 0 0\n"}, "/dev/sda2", "fstab (/etc/fstab)", ["fstab (/etc/fstab)"]),
    ({"etc/fstab": "# /swap.img none swap sw 0 0\n"}, "/swap.img", "", []),
    (
        {"etc/waagent.conf": AGENT},
        "/mnt/swapfile",
        "Azure's agent (/etc/waagent.conf)",
        ["Azure's agent (/etc/waagent.conf)"],
    ),
    ({"etc/waagent.conf": AGENT}, "/dev/sda2", "", ["Azure's agent (/etc/waagent.conf)"]),
    (
        {GENERATOR: "", "etc/systemd/zram-generator.conf": "[zram0]\n"},
        "/dev/zram0",
        "zram-generator (zram-generator.conf)",
        ["zram-generator (zram-generator.conf)"],
    ),
    (
        {
            GENERATOR: "",
            "etc/systemd/zram-generator.conf": "[zram0]\n",
            "run/systemd/generator/dev-zram0.swap": "[Swap]\nWhat=/dev/zram0\n",
        },
        "/dev/zram0",
        "zram-generator (/run/systemd/generator/dev-zram0.swap)",
        ["zram-generator (/run/systemd/generator/dev-zram0.swap)"],
    ),
    (
        {"etc/systemd/system/srv-swap.swap": "[Swap]\nWhat=/srv/swap\n"},
        "/srv/swap",
        "systemd (/etc/systemd/system/srv-swap.swap)",
        ["systemd (/etc/systemd/system/srv-swap.swap)"],
    ),
    (
        {"lib/systemd/system/zramswap.service": "[Service]\n"},
        "/dev/zram0",
        "zramswap.service (/lib/systemd/system/zramswap.service)",
        ["zramswap.service (/lib/systemd/system/zramswap.service)"],
    ),
    (
        {"etc/cloud/cloud.cfg.d/50.cfg": "hostname: a\nswap:\n  filename: /swapfile\n  size: auto\nusers: []\n"},
        "/swapfile",
        "cloud-init (/etc/cloud/cloud.cfg.d/50.cfg)",
        [],
    ),
    (
        {"var/lib/cloud/instance/cloud-config.txt": "#cloud-config\nswap: {size: 2G, maxsize: 4G}\n"},
        "/swap.img",
        "cloud-init (/var/lib/cloud/instance/cloud-config.txt)",
        [],
    ),
    (
        {"etc/cloud/cloud.cfg": "mounts:\n - [ /dev/xvdh1, none, 'swap', sw, '0', '0' ]\n - [ swap, null ]\n"},
        "/dev/xvdh1",
        "cloud-init (/etc/cloud/cloud.cfg)",
        [],
    ),
    ({"etc/cloud/cloud.cfg": "swap:\n  size: 0\nmounts:\n - [ swap, null ]\n"}, "/swap.img", "", []),
    ({"etc/cloud/cloud.cfg": "# swap:\n#   size: 1G\n"}, "/swap.img", "", []),
    (
        {"etc/rc.local": "#!/bin/sh\nswapon /swapfile\n"},
        "/swapfile",
        "a script (/etc/rc.local)",
        ["a script (/etc/rc.local)"],
    ),
]


@pytest.mark.parametrize(("files", "area", "who", "at_boot"), CASES)
def test_origins(tmp_path: Path, files: dict[str, str], area: str, who: str, at_boot: list[str]) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = origins(str(tmp_path))
    assert blamed(area, found) == who
    assert [str(origin) for origin in found if origin.at_boot] == at_boot


def test_masked_units_are_no_origin(tmp_path: Path) -> None:
    for name in ("etc/systemd/system", "usr/lib/systemd/system-generators"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / GENERATOR).touch()
    (tmp_path / "etc/systemd/zram-generator.conf").write_text("[zram0]\n")
    (tmp_path / "etc/systemd/system/dev-zram0.swap").symlink_to("/dev/null")
    assert origins(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "area"),
    [
        (AGENT, "/mnt/swapfile"),
        (AGENT.replace("=/mnt", "="), "/mnt/resource/swapfile"),
        (AGENT.replace("Swap=y", 'Swap = "Y" # yes'), "/mnt/swapfile"),
        (AGENT.replace("Format=y", "Format=n"), None),
        (AGENT.replace("Swap=y", "Swap=n"), None),
        (AGENT.replace("ResourceDisk.EnableSwap", "#ResourceDisk.EnableSwap"), None),
        (f"{AGENT}ResourceDisk.EnableSwap=n\n", None),
        ("", None),
    ],
)
def test_azures_agent(text: str, area: str | None) -> None:
    assert swap.azure_swap(text) == area
    assert (swap.without_azure_swap(text) == text) == (area is None)


@given(st.lists(st.sampled_from([*AGENT.splitlines(keepends=True), "\r\n", "# caf\u00e9 = 1\n", "a", "=", "Swap=y"])))
def test_nothing_but_swap_changes_in_waagent_conf(parts: list[str]) -> None:
    text = "".join(parts)
    after = swap.without_azure_swap(text)
    assert swap.azure_swap(after) is None
    changed = [(a, b) for a, b in zip(text.split("\n"), after.split("\n"), strict=True) if a != b]
    assert all(b.rstrip("\r") == "ResourceDisk.EnableSwap=n" and "EnableSwap" in a for a, b in changed)
