# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.storage import FilterModule as Clients
from ansible_collections.gpulab.kubernetes.plugins.filter.storage import FilterModule as Differences
from ansible_collections.gpulab.kubernetes.plugins.filter.storage import FilterModule as Export
from hypothesis import given
from hypothesis import strategies as st

export = Export().filters()["nfs_export"]
clients = Clients().filters()["nfs_clients"]
differences = Differences().filters()["nfs_export_differences"]
OPTIONS = ["rw", "sync", "no_subtree_check"]


@pytest.mark.parametrize(
    ("path", "to", "options", "root", "expected"),
    [
        ("/srv/a", ["192.0.2.1"], OPTIONS, False, "/srv/a 192.0.2.1(rw,sync,no_subtree_check,root_squash)"),
        (
            "/srv/a",
            ["192.0.2.1", "2001:db8::1"],
            ["ro"],
            True,
            "/srv/a 192.0.2.1(ro,no_root_squash) 2001:db8::1(ro,no_root_squash)",
        ),
        ("/srv", ["192.0.2.0/24"], ["rw", "anonuid=1000"], False, "/srv 192.0.2.0/24(rw,anonuid=1000,root_squash)"),
    ],
)
def test_export_line_has_path_clients_and_options(
    path: str, to: list[str], options: list[str], root: bool, expected: str
) -> None:
    assert export(path, to, options, root) == expected


@pytest.mark.parametrize(
    ("to", "insecure", "options", "any_client", "expected"),
    [
        (["192.0.2.1"], ["192.168.49.0/24"], ["rw"], False, "192.0.2.1(rw,R) 192.168.49.0/24(rw,insecure,R)"),
        ([], ["192.168.49.0/24"], ["rw", "secure"], False, "192.168.49.0/24(rw,insecure,R)"),
        (["192.0.2.1", "192.0.2.2"], ["192.0.2.1"], ["rw"], False, "192.0.2.1(rw,insecure,R) 192.0.2.2(rw,R)"),
        (["192.0.2.1"], ["192.0.2.2"], ["insecure"], False, "192.0.2.1(insecure,R) 192.0.2.2(insecure,R)"),
        (["*"], [], ["rw"], True, "*(rw,R)"),
        (
            ["gpu*.example.org", "@lab", "0.0.0.0/0"],
            [],
            ["rw"],
            True,
            "gpu*.example.org(rw,R) @lab(rw,R) 0.0.0.0/0(rw,R)",
        ),
    ],
)
def test_insecure_and_named_clients_have_their_own_options(
    to: list[str], insecure: list[str], options: list[str], any_client: bool, expected: str
) -> None:
    assert (
        export("/srv/a", to, options, False, insecure, any_client) == f"/srv/a {expected.replace('R', 'root_squash')}"
    )


def test_export_to_any_client_can_be_declared() -> None:
    options = ["rw", "sync", "no_subtree_check", "no_all_squash", "insecure"]
    line = "/srv/nfs/kubedata *(rw,sync,no_subtree_check,no_all_squash,insecure,no_root_squash)"
    assert export("/srv/nfs/kubedata", ["*"], options, True, [], True) == line


@pytest.mark.parametrize("client", ["*", "gpu1", "@lab", "gpu[12].example.org", "0.0.0.0/0", "::/0", "192.0.2.300"])
@pytest.mark.parametrize("place", ["nfs_server_clients", "nfs_server_insecure_clients"])
def test_clients_without_a_known_address_must_be_allowed(client: str, place: str) -> None:
    to, insecure = ([client], []) if place == "nfs_server_clients" else (["192.0.2.1"], [client])
    with pytest.raises(AnsibleFilterError) as caught:
        export("/srv", to, OPTIONS, False, insecure)
    assert f"{place}: {client} is not limited to known addresses" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "to", "options", "words"),
    [
        ("/", ["192.0.2.1"], OPTIONS, "it must be an absolute path"),
        ("srv", ["192.0.2.1"], OPTIONS, "it must be an absolute path"),
        ("/srv/../etc", ["192.0.2.1"], OPTIONS, "it must be an absolute path"),
        ("/srv *(rw)", ["192.0.2.1"], OPTIONS, "it must be an absolute path"),
        ("/srv/", ["192.0.2.1"], OPTIONS, "it must be an absolute path"),
        ("/srv", [], OPTIONS, "there is no address to which to export"),
        ("/srv", ["192.0.2.1/24"], OPTIONS, "must be an address or a network"),
        ("/srv", ["gpu1(rw) *"], OPTIONS, "must be an address or a network"),
        ("/srv", ["-rw"], OPTIONS, "must be an address or a network"),
        ("/srv", ["gpu1,gpu2"], OPTIONS, "must be an address or a network"),
        ("/srv", ["#"], OPTIONS, "must be an address or a network"),
        ("/srv", ["192.0.2.1"], ["no_root_squash"], "set nfs_server_no_root_squash instead"),
        ("/srv", ["192.0.2.1"], ["anonuid=0"], "anonuid=0 must be a number from 1 to 4294967294"),
        ("/srv", ["192.0.2.1"], ["anongid=0"], "anongid=0 must be a number"),
        ("/srv", ["192.0.2.1"], ["anonuid=00"], "anonuid=00 must be a number"),
        ("/srv", ["192.0.2.1"], ["anonuid=0x0"], "anonuid=0x0 must be a number"),
        ("/srv", ["192.0.2.1"], ["anonuid=4294967296"], "anonuid=4294967296 must be a number"),
        ("/srv", ["192.0.2.1"], ["anonuid=root"], "anonuid=root must be a number"),
        ("/srv", ["192.0.2.1"], ["rw) *(rw"], "is not an option of exports"),
    ],
)
def test_invalid_paths_clients_and_options_are_refused(
    path: str, to: list[str], options: list[str], words: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=f"Error while exporting .*{words}.*Nothing was changed"):
        export(path, to, options)


ETAB = (
    "{}\t{}({},sync,wdelay,hide,nocrossmnt,{},{},no_all_squash,no_subtree_check,secure_locks,acl,no_pnfs,"
    "anonuid={},anongid=65534,sec=sys,{},{},{},no_all_squash)\n"
)


def active(
    client: str,
    *,
    path: str = "/srv/a",
    mode: str = "rw",
    port: str = "secure",
    root: str = "root_squash",
    anonymous: int = 65534,
) -> str:
    return ETAB.format(path, client, mode, port, root, anonymous, mode, port, root)


@pytest.mark.parametrize(
    ("etab", "options", "expected"),
    [
        (active("192.0.2.1") + active("192.0.2.2"), OPTIONS, []),
        # Exports of other directories are ignored.
        (active("192.0.2.1") + active("192.0.2.2") + active("*", path="/srv/b") + "\n \nx\n", OPTIONS, []),
        ("", OPTIONS, ["not exported to 192.0.2.1", "not exported to 192.0.2.2"]),
        (active("192.0.2.1"), OPTIONS, ["not exported to 192.0.2.2"]),
        (
            active("192.0.2.0/24") + active("192.0.2.1") + active("192.0.2.2") + active("*"),
            OPTIONS,
            ["exported to 192.0.2.0/24, which the file does not have", "exported to *, which the file does not have"],
        ),
        (
            active("192.0.2.1", root="no_root_squash", port="insecure") + active("192.0.2.2", anonymous=0),
            OPTIONS,
            ["exported to 192.0.2.1 with insecure, no_root_squash", "exported to 192.0.2.2 with anonuid=0"],
        ),
        (active("192.0.2.1", mode="ro") + active("192.0.2.2"), OPTIONS, ["exported to 192.0.2.1 with ro"]),
        (active("192.0.2.1", mode="ro") + active("192.0.2.2", mode="ro"), ["sync"], []),
        (active("192.0.2.1", mode="rw") + active("192.0.2.2", mode="ro"), [], ["exported to 192.0.2.1 with rw"]),
        (
            active("192.0.2.1", anonymous=-2) + active("192.0.2.2", anonymous=1000),
            ["rw", "anonuid=4294967294"],
            ["exported to 192.0.2.2 with anonuid=1000"],
        ),
    ],
)
def test_differences_between_server_and_file_are_named(etab: str, options: list[str], expected: list[str]) -> None:
    assert differences(etab, "/srv/a", export("/srv/a", ["192.0.2.1", "192.0.2.2"], options)) == expected


@pytest.mark.parametrize(
    ("to", "active_clients", "expected"),
    [
        # The server knows a host by its canonical name.
        (["gpu1", "gpu2"], ["gpu1.example.org", "gpu2"], []),
        (["gpu1"], ["gpu1.example.org", "gpu2"], ["exported to gpu2, which the file does not have"]),
        (["gpu1"], ["192.0.2.9"], ["exported to 192.0.2.9, which the file does not have", "not exported to gpu1"]),
        (["@gpus"], ["gpu1"], ["exported to gpu1, which the file does not have", "not exported to @gpus"]),
        (["2001:db8::1", "GPU3"], ["2001:0db8:0::1", "gpu3"], []),
        (["192.0.2.0/24"], ["192.0.2.0/255.255.255.0"], []),
    ],
)
def test_canonical_names_of_clients_are_recognized(
    to: list[str], active_clients: list[str], expected: list[str]
) -> None:
    etab = "".join(active(client) for client in active_clients)
    assert differences(etab, "/srv/a", export("/srv/a", to, OPTIONS, any_client=True)) == expected


@pytest.mark.parametrize("path", ["/srv/a b", '/srv/"a"', "/srv/a"])
def test_remaining_exports_of_a_removed_directory_are_named(path: str) -> None:
    escaped = path.replace(" ", "\\040").replace('"', "\\042")
    found = differences(active("192.0.2.1", path=escaped), path)
    assert found == ["exported to 192.0.2.1, which the file does not have"]
    assert differences(active("192.0.2.1", path="/srv/other"), path) == []


@given(st.text(st.sampled_from("/srva \t\n(),=-*@\\0417\"'\x00ü") | st.characters()))
def test_any_server_table_can_be_compared(etab: str) -> None:
    for line in ("", export("/srv/a", ["192.0.2.1"], OPTIONS)):
        assert all(isinstance(words, str) for words in differences(f"/srv/a {etab}", "/srv/a", line))


def test_default_clients_are_the_node_addresses_of_all_hosts() -> None:
    hostvars: dict[str, Any] = {
        "cp1": {"cluster_node_address": "192.0.2.1", "ansible_facts": {"default_ipv4": {"address": "198.51.100.1"}}},
        "gpu1": {"ansible_facts": {"default_ipv4": {"address": "192.0.2.2"}}},
        "gpu2": {"ansible_facts": {}, "cluster_node_address": ""},
    }
    assert clients(hostvars, ["cp1", "gpu1", "cp1"]) == ["192.0.2.1", "192.0.2.2"]
    with pytest.raises(AnsibleFilterError, match=r"the address of gpu2 is unknown. Run without --limit"):
        clients(hostvars, ["cp1", "gpu2"])
