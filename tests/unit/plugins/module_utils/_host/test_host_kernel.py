# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._host import kernel
from hypothesis import given
from hypothesis import strategies as st


def test_loaded_modules_are_read() -> None:
    text = "br_netfilter 32768 0 - Live 0x0000000000000000\nbridge 311296 1 br_netfilter, Live 0x0000000000000000\n\n"
    assert kernel.loaded_modules(text) == {"br_netfilter", "bridge"}


def test_builtin_modules_are_read() -> None:
    text = "kernel/fs/overlayfs/overlay.ko\nkernel/net/bridge/br_netfilter.ko.zst\nkernel/crypto/crc-t10dif.ko\n"
    assert kernel.builtin_modules(text) == {"overlay", "br_netfilter", "crc_t10dif"}


@pytest.mark.parametrize("bad", ["", "../x", "a b", "-r", "x/y", "x\n"])
def test_invalid_module_names_are_refused(bad: str) -> None:
    with pytest.raises(DomainError):
        kernel.module_name(bad)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.ip_forward", "net/ipv4/ip_forward"),
        ("net.bridge.bridge-nf-call-iptables", "net/bridge/bridge-nf-call-iptables"),
        ("net/ipv4/conf/eth0.100/forwarding", "net/ipv4/conf/eth0.100/forwarding"),
        ("net.ipv4.conf.eth0/100.forwarding", "net/ipv4/conf/eth0.100/forwarding"),
    ],
)
def test_a_sysctl_key_has_a_path(key: str, path: str) -> None:
    assert kernel.sysctl_path(key) == path


@pytest.mark.parametrize("bad", ["", "swappiness", "net/../../etc/passwd", "a..b", "/etc/passwd", "a.b\n", "a b.c"])
def test_sysctl_keys_that_leave_proc_sys_are_refused(bad: str) -> None:
    with pytest.raises(DomainError):
        kernel.sysctl_path(bad)


@given(st.text(max_size=40))
def test_no_sysctl_path_leaves_proc_sys(key: str) -> None:
    with contextlib.suppress(DomainError):
        path = kernel.sysctl_path(key)
        assert not path.startswith("/")
        assert ".." not in path.split("/")


@pytest.mark.parametrize(
    ("value", "text"), [(True, "1"), (False, "0"), (10, "10"), ("4096\t87380  6291456", "4096 87380 6291456")]
)
def test_a_sysctl_value_is_written_as_text(value: Any, text: str) -> None:
    assert kernel.sysctl_value(value) == text


@pytest.mark.parametrize("value", [["a"], {"a": 1}, None, "1\n2"])
def test_a_sysctl_value_with_several_lines_is_refused(value: Any) -> None:
    with pytest.raises(DomainError):
        kernel.sysctl_value(value)


def test_overrides_are_the_files_that_win_at_the_next_boot() -> None:
    values = {"net.ipv4.ip_forward": "1", "vm.overcommit_memory": "1", "kernel.panic": "10"}
    others = {
        "/usr/lib/sysctl.d/50-default.conf": "net.ipv4.ip_forward = 0\nkernel.panic = 0\n",
        "/etc/sysctl.d/99-a.conf": "# net.ipv4.ip_forward=2\n-net/ipv4/ip_forward=0\nvm.overcommit_memory = 2\n",
        "/etc/sysctl.d/99-b.conf": "vm.overcommit_memory=1\n",
    }
    assert kernel.overridden(values, "/etc/sysctl.d/95-gpulab.conf", others) == [
        {"key": "net.ipv4.ip_forward", "value": "0", "file": "/etc/sysctl.d/99-a.conf"}
    ]
