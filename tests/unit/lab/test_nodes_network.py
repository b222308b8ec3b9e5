"""Free subnets."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from lab.nodes import network


def first(taken: list[str], count: int = 1) -> list[str]:
    return [str(subnet) for subnet in itertools.islice(network.free(network.parsed(taken)), count)]


def test_subnets_are_24s_that_do_not_overlap_with_any_network() -> None:
    assert first([]) == ["10.198.0.0/24"]
    assert first(["10.198.0.77", "10.198.1.128/25", "10.198.2.0/23"]) == ["10.198.4.0/24"]
    assert first(["10.0.0.0/8"]) == ["172.30.0.0/24"]
    assert first(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]) == []


def test_invalid_networks_and_the_default_route_are_ignored() -> None:
    assert network.parsed(["default", "0.0.0.0/0", "", "fd00::/8", "broadcast", "10.1.2.3", "10.1.0.0/16"]) == [
        network.Network("10.1.2.3/32"),
        network.Network("10.1.0.0/16"),
    ]


def test_addresses_of_a_subnet_are_derived() -> None:
    assert network.address("10.198.7.0/24", network.DEPOT_HOST) == "10.198.7.2"
    assert network.address("10.198.7.0/24", network.FIRST_NODE) == "10.198.7.11"


def test_routes_addresses_and_networks_of_the_machine_are_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab_cache: Path
) -> None:
    # Podman's network 10.198.1, a VPN's route 10.198.2/23 in some table, and an address 10.198.0.9 without a route.
    _program(
        tmp_path / "ip",
        f"""case "$*" in
*route*table*all*) echo '{json.dumps([{"dst": "default"}, {"dst": "10.198.2.0/23"}])}';;
*) echo '{json.dumps([{"addr_info": [{"local": "10.198.0.9"}]}])}';;
esac""",
    )
    _program(
        tmp_path / "podman",
        f"""echo "$*" >>{tmp_path}/said
case "$*" in
*"network ls"*) echo '{json.dumps([{"name": "x", "subnets": [{"subnet": "10.198.1.0/24"}]}])}';;
*10.198.4.0*) echo "subnet 10.198.4.0/24 is already used on the host" >&2; exit 125;;
esac""",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # podman refuses the first free subnet; the second is avoided as requested.
    assert network.create("gpulab-a", "a", avoid=["10.198.5.0/24"], internal=True) == "10.198.6.0/24"
    said = (tmp_path / "said").read_text()
    assert "--gateway=10.198.6.1 --label=gpulab.lab=a --internal gpulab-a" in said


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
