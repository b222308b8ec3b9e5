"""Networks of a lab, on subnets that nothing on this machine uses."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from collections.abc import Iterable, Iterator

from lab.depot import cache
from lab.depot.cache import DepotError
from lab.nodes import podman
from lab.nodes.errors import LabError

Network = ipaddress.IPv4Network

GATEWAY_HOST = 1
DEPOT_HOST = 2
FIRST_NODE = 11

# Where subnets are taken from: ranges that neither Podman, Docker nor Kubernetes hand out by default.
_RANGES = ("10.198.0.0/16", "10.199.0.0/16", "172.30.0.0/16", "192.168.128.0/17")
# Kubernetes' own networks, by default.
_KUBERNETES = ("10.244.0.0/16", "10.96.0.0/12")


def create(name: str, lab: str, *, avoid: Iterable[str] = (), internal: bool = False) -> str:
    """Make a network on a free subnet and return the subnet. Raises LabError when there is none."""
    with cache.lock("network"):
        taken = [*used(), *parsed([*avoid, *_KUBERNETES])]
        refusals = 0
        for subnet in free(taken):
            options = [f"--subnet={subnet}", f"--gateway={subnet[GATEWAY_HOST]}", f"--label={podman.LABEL}={lab}"]
            try:
                podman.run(
                    "network",
                    "create",
                    *options,
                    *(["--internal"] if internal else []),
                    name,
                    doing=f"making the network {name} on {subnet}",
                )
            except DepotError:
                # Something that routes and networks don't show holds this subnet; a few more may be free.
                refusals += 1
                if refusals > 2:
                    raise
                continue
            return str(subnet)
    raise LabError(
        f"Error while making the network {name}: no free /24 in {', '.join(_RANGES)}. Remove unused networks."
    )


def free(taken: Iterable[Network]) -> Iterator[Network]:
    """Yield the subnets that overlap with nothing taken."""
    known = list(taken)
    for space in _RANGES:
        for subnet in ipaddress.IPv4Network(space).subnets(new_prefix=24):
            if not any(subnet.overlaps(other) for other in known):
                yield subnet


def used() -> list[Network]:
    """Return the networks that this machine has routes to, its addresses and those of Podman."""
    routes = json.loads(_ip("route", "show", "table", "all"))
    addresses = [info["local"] for link in json.loads(_ip("address")) for info in link.get("addr_info", [])]
    podmans = [subnet for subnets in podman.networks().values() for subnet in subnets]
    return parsed([*(route.get("dst", "") for route in routes), *addresses, *podmans])


def parsed(texts: Iterable[str]) -> list[Network]:
    """Return those texts that are IPv4 networks or addresses, except the default route."""
    found = []
    for text in texts:
        try:
            network = ipaddress.IPv4Network(text, strict=False)
        except ValueError:
            continue
        if network.prefixlen:
            found.append(network)
    return found


def address(subnet: str, host: int) -> str:
    """Return the address of a host of a subnet."""
    return str(ipaddress.IPv4Network(subnet)[host])


def _ip(*arguments: str) -> str:
    argv = ["ip", "-json", "-4", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout or "[]"
