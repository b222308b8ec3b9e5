"""What a host has at a moment, and the difference between two moments.

Not compared: IGNORED_PATHS, IGNORED_SYSCTLS, file systems of the kernel and of containers (with tmpfs), times, ACLs and
other attributes of files, counters of the packet filter, what is set in network namespaces, ipsets, traffic control,
loaded kernel modules, and processes that belong to no unit.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from support.hosts import Host

PROGRAM = Path(__file__).with_name("footprint_program.py")
# What dpkg changes with each package. Its diversions, overrides and alternatives are a host's setup, so they count.
_OF_PACKAGES = (
    "available",
    "available-old",
    "diversions-old",
    "info",
    "lock",
    "lock-frontend",
    "statoverride-old",
    "status",
    "status-old",
    "triggers",
    "updates",
)
# Paths that are not compared, with the reason. A guide that promises what is left shows the same list.
IGNORED_PATHS = {
    "/var/log": "logs and the journal",
    "/var/cache": "caches",
    "/var/lib/apt/lists": "apt's lists",
    "/run": "runtime data",
    "/tmp": "temporary files",
    **dict.fromkeys((f"/var/lib/dpkg/{name}" for name in _OF_PACKAGES), "dpkg's record of packages that stay"),
}
# Sysctls that the kernel counts up or makes up by itself.
IGNORED_SYSCTLS = (
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/quota/*",
    "kernel/ns_last_pid",
    "kernel/pty/nr",
    "kernel/random/*",
    "net/netfilter/nf_conntrack_count",
)
# Units that belong to a login, a scan of devices or a running container, and not to the machine's setup.
_IGNORED_UNITS = ("session-*", "user@*", "user-*", "run-user-*", "run-*", "init.scope", "dev-*", "sys-*", "*.scope")
# Directories below /var/tmp that systemd makes at each boot.
_OF_A_BOOT = "/systemd-private-"
_NFT_HEAD = re.compile(r"(table|chain|set|map) ")
Section = Mapping[str, str]


@dataclass(frozen=True)
class Footprint:
    """Sections by name, each a mapping of something on the host to its description, and the tools that it has."""

    sections: Mapping[str, Section]
    tools: frozenset[str] = frozenset()

    @classmethod
    def take(cls, host: Host, timeout: float = 300) -> Footprint:
        ignored = shlex.quote(json.dumps(list(IGNORED_PATHS)))
        return cls.read(host.run(f"python3 -c {shlex.quote(PROGRAM.read_text())} {ignored}", timeout))

    @classmethod
    def read(cls, text: str) -> Footprint:
        """Return the footprint from the program's output."""
        given: dict[str, Any] = json.loads(text)
        # A host without a tool has None.
        found: dict[str, Any] = {name: "" if output is None else output for name, output in given.items()}
        packet_filter: Counter[str] = Counter(nft_rules(found["nft"]))
        for name in ("iptables", "ip6tables", "iptables_legacy", "ip6tables_legacy"):
            packet_filter.update(f"{name} {rule}" for rule in iptables_rules(found[name]))
        return cls(
            {
                "files": {path: about for path, about in found["files"].items() if _OF_A_BOOT not in path},
                "units": units(found["unit_files"], found["units"]),
                "packages": packages(found["packages"], found["holds"]),
                "links": links(found["links"], found["addresses"]),
                "routes": routes(found["routes"]),
                "rules": {**routes(found["rules"]), **routes(found["rules6"], "IPv6 ")},
                "packet filter": {rule: f"{count}x" for rule, count in packet_filter.items()},
                "sysctls": {k: v for k, v in found["sysctls"].items() if not _matches(k, IGNORED_SYSCTLS)},
                "mounts": mounts(found["mounts"]),
            },
            frozenset(name for name, output in given.items() if output is not None),
        )

    def difference(self, later: Footprint) -> list[str]:
        """Return a line for everything that differs; of a directory or a link that came or went, only itself."""
        found = [line for name in self.sections for line in _lines(name, self.sections[name], later.sections[name])]
        links = self.sections["links"].keys() ^ later.sections["links"].keys()
        found += [
            f"tools: {name}: there => absent, so its part is unknown" for name in sorted(self.tools - later.tools)
        ]
        return [line for line in found if not any(re.match(rf"sysctls: net/\S*/{re.escape(x)}/", line) for x in links)]


def _lines(name: str, before: Section, after: Section) -> Iterator[str]:
    for key in sorted(before.keys() | after.keys()):
        then, now = before.get(key, "absent"), after.get(key, "absent")
        directory = key.rpartition("/")[0]
        came_or_went = name == "files" and (directory in before) != (directory in after)
        if then != now and not came_or_went:
            yield f"{name}: {key}: {then} => {now}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def units(unit_files: str, listed: str) -> Section:
    """Return whether each unit is enabled, and its state unless that is inactive."""
    found = {}
    for line in unit_files.splitlines():
        name, state, *_preset = line.split()
        found[name] = state
    for line in listed.splitlines():
        # A failed unit is marked with a dot.
        name, _load, active, sub, *_description = line.replace("●", " ").split()
        if active != "inactive":
            found[name] = f"{found.get(name, 'transient')}, {active} {sub}"
    return {name: state for name, state in found.items() if not _matches(name, _IGNORED_UNITS)}


def packages(listed: str, holds: str) -> Section:
    """Return the version and status of each package; those of removed ones count while their configuration is left."""
    found = {name: about for name, _, about in (line.partition(" ") for line in listed.splitlines())}
    held = set(holds.split())
    return {name: f"{about}, on hold" if name.partition(":")[0] in held else about for name, about in found.items()}


def links(described: str, addressed: str) -> Section:
    """Return the kind, bridge, MTU and lasting addresses of each link."""
    addresses = {
        entry["ifname"]: sorted(
            f"{each['local']}/{each['prefixlen']}" for each in entry["addr_info"] if each.get("scope") != "link"
        )
        for entry in json.loads(addressed or "[]")
    }
    found = {}
    for link in json.loads(described or "[]"):
        kind = link.get("linkinfo", {}).get("info_kind", link.get("link_type", ""))
        words = [kind, f"mtu {link['mtu']}", link.get("master", ""), *addresses.get(link["ifname"], [])]
        found[link["ifname"]] = " ".join(word for word in words if word)
    return found


def routes(text: str, prefix: str = "") -> Section:
    """Return the routes or rules, without those of addresses that the kernel makes from a link's hardware address."""
    found = [prefix + " ".join(line.split()) for line in text.splitlines() if "fe80::" not in line]
    return dict.fromkeys(found, "there")


def nft_rules(text: str) -> Iterator[str]:
    """Yield each rule and policy of nft's list with its table and chain; an empty table is one line, too."""
    place: list[str] = []
    for line in text.splitlines():
        words = " ".join(line.split())
        if _NFT_HEAD.match(words) and words.endswith("{"):
            place.append(words[:-2])
            yield f"nft {' '.join(place)}"
        elif words == "}" and place:
            place.pop()
        elif words and not words.startswith("#"):
            yield f"nft {' '.join(place)}: {words}"


def iptables_rules(text: str) -> Iterator[str]:
    """Yield each rule, own chain, and policy other than ACCEPT of iptables-save, without counters."""
    table = ""
    for line in text.splitlines():
        words = re.sub(r"^\[\d+:\d+\] |\s*\[\d+:\d+\]$", "", line.strip())
        if words.startswith("*"):
            table = words[1:]
        elif words.startswith("-A") or (words.startswith(":") and not words.endswith(" ACCEPT")):
            yield f"{table} {words}"


def mounts(mountinfo: str) -> Section:
    """Return the file system and the source of each mount point that is not below an ignored path."""
    found = {}
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, source = right.split()[:2]
        if not any(point == path or point.startswith(f"{path}/") for path in IGNORED_PATHS):
            found[point] = f"{kind} {source} {root}"
    return found
