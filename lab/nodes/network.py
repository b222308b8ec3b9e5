"""Networks of a lab, on subnets that this machine does not use."""

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

# Subnets are allocated in these ranges, which neither Podman, Docker nor Kubernetes use by default.
_RANGES = ("10.198.0.0/16", "10.199.0.0/16", "172.30.0.0/16", "192.168.128.0/17")
# Kubernetes' own networks, by default.
_KUBERNETES = ("10.244.0.0/16", "10.96.0.0/12")


def create(name: str, lab: str, *, avoid: Iterable[str] = (), internal: bool = False) -> str:
    """Create a network on a free subnet and return the subnet. Raises LabError if there is none."""
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
                # Something that is not visible in routes and networks uses this subnet; try a few more.
                refusals += 1
                if refusals > 2:
                    raise
                continue
            return str(subnet)
    raise LabError(
        f"Error while making the network {name}: no free /24 in {', '.join(_RANGES)}. Remove unused networks."
    )


def free(taken: Iterable[Network]) -> Iterator[Network]:
    """Yield the subnets that don't overlap with those in use."""
    known = list(taken)
    for space in _RANGES:
        for subnet in ipaddress.IPv4Network(space).subnets(new_prefix=24):
            if not any(subnet.overlaps(other) for other in known):
                yield subnet


def used() -> list[Network]:
    """Return the networks in this machine's routes, its addresses, and Podman's networks."""
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
    """Return the address of host number ``host`` in a subnet."""
    return str(ipaddress.IPv4Network(subnet)[host])


def _ip(*arguments: str) -> str:
    argv = ["ip", "-json", "-4", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout or "[]"
