# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a reset needs to know about a host. Nothing is changed."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from .._apt.dpkg import read_database
from .._command import CommandError, Runner
from .._files import read_text, text_or_nothing, under
from .._first_run import DIRECTORY, FILE, FILES, RECORD, SYSCTL, UNIT, Record, read_record
from .._host import hosts_file, swap_state
from .._host.managed_files import REPLACED
from .._json import as_mapping, as_mappings, as_text
from .._kubeadm.init_evidence import etcd_data
from .._nvidia.kernel_module import VERSION_FILE, parse_version
from .._systemd import Systemd
from . import containers, known, packet_filter
from .model import Readings
from .shared_files import FSTAB, File

_ESCAPED = re.compile(r"\\([0-7]{3})")
_LARGEST = 16 * 1024 * 1024
# Programs that show and change iptables' rules, in each of the kernel's two packet filters.
IPTABLES = ("iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy")


@dataclass(frozen=True)
class PacketFilter:
    """``removals`` by program, and the tables that ``nft`` removes."""

    removals: Mapping[str, packet_filter.Removal]
    tables: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        found = {
            f"{program} {table}": count
            for program, removal in self.removals.items()
            for table, count in removal.counts.items()
        }
        return found | {f"nft {family} {name}": 1 for family, name in self.tables}


class Host:
    """Reads a host. ``root`` is its root directory, ``data`` are directories of users with what they contain."""

    def __init__(self, runner: Runner, root: str, data: Mapping[str, str]) -> None:
        self.runner, self.root = runner, root
        self._data = data

    def read(self) -> Readings:
        record = read_record(text_or_nothing(self.root, f"{DIRECTORY}/{RECORD}"))
        recorded = [name for kind, name in record.entries if kind == FILE]
        replaced = (f"{name}{REPLACED}" for name in recorded)
        names = {*recorded, *replaced, *known.FILES, *self._earlier(), hosts_file.PATH, hosts_file.TEMPLATE}
        database = read_database(self._path("/var/lib/dpkg"))
        cni = self.cni()
        return Readings(
            record=record,
            files=dict(self._files(names)),
            copies={name: file for name in recorded if (file := self._file(f"{DIRECTORY}/{FILES}{name}"))},
            packages={name: package for name in database.names() if (package := database.get(name))},
            units={name: unit for name in self._unit_names(record) if (unit := Systemd(self.runner).unit(name)).exists},
            sysctls=dict(self._sysctls(record)),
            driver=parse_version(text_or_nothing(self.root, VERSION_FILE)),
            links=self._links(),
            rules=self.packet_filter(bool(cni)).counts,
            mounts=tuple(self._mounts((known.KUBELET, *known.CONTAINERD))),
            directories=tuple(self._directories()),
            data=dict(self._users_data()),
            kubeconfigs=dict(self._kubeconfigs()),
            cni=cni,
            swaps=self._swap_is_missing(),
            busy=containers.are_running(self.root),
            etcd=self.etcd(),
            state=tuple(path for path in (DIRECTORY, known.STATE) if self._path(path).exists()),
        )

    def etcd(self) -> str:
        """Return the directory of etcd's data, empty if there are none."""
        names = dict.fromkeys((etcd_data(self.root) or known.ETCD, known.ETCD))
        return next((name for name in names if self._path(f"{name}/member").exists()), "")

    def mount_points(self) -> list[str]:
        """Return all mount points (proc(5), mountinfo), in the order in which they were mounted."""
        lines = [line.split(" ") for line in text_or_nothing(self.root, "/proc/self/mountinfo").splitlines()]
        return [_ESCAPED.sub(lambda found: chr(int(found[1], 8)), line[4]) for line in lines if len(line) > 4]

    def _mounts(self, going: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the mount points below directories that may go, and which; later ones may cover earlier ones."""
        tops = {path: f"{self._path(path).resolve()}/" for path in going}
        for point in reversed(self.mount_points()):
            yield from ((point, path) for path, top in tops.items() if str(self._path(point)).startswith(top))

    def packet_filter(self, has_other_cni: bool) -> PacketFilter:
        removals = {}
        for program in IPTABLES:
            saved = self._output([f"{program}-save"])
            removal = packet_filter.iptables_removal(saved, not has_other_cni)
            if removal.text:
                removals[program] = removal
        listed = self.nft()
        # Tables that will be empty are removed after the chains.
        tables = [*packet_filter.nft_tables(listed, not has_other_cni), *packet_filter.empty_tables(listed)]
        return PacketFilter(removals, tuple(tables))

    def nft(self) -> str:
        return self._output(["nft", "-j", "list", "ruleset"])

    def _output(self, argv: list[str]) -> str:
        """Return a tool's output, empty if the host does not have the tool, or the kernel not what it shows."""
        try:
            found = self.runner.run(argv) if self.runner.find(argv[0]) else None
        except CommandError:
            found = None
        return found.stdout if found and found.rc == 0 else ""

    def _links(self) -> dict[str, str]:
        try:
            listed = json.loads(self._output(["ip", "-details", "-json", "link"]) or "[]")
        except ValueError:
            listed = []
        links = as_mappings(listed)
        return {
            as_text(link.get("ifname")): as_text(as_mapping(link.get("linkinfo")).get("info_kind"))
            for link in links
            if link.get("ifname") in known.LINKS
        }

    def _earlier(self) -> Iterator[str]:
        for pattern in known.EARLIER_FILES:
            for path in sorted(Path(self.root).glob(pattern.lstrip("/"))):
                yield f"/{path.relative_to(self.root)}"

    def _files(self, names: set[str]) -> Iterator[tuple[str, File]]:
        for name in sorted(names):
            file = self._file(name)
            if file:
                yield name, file

    def _file(self, name: str) -> File | None:
        path = self._path(name)
        try:
            state = path.lstat()
            if stat.S_ISLNK(state.st_mode):
                return File(link=str(path.readlink()))
            if not stat.S_ISREG(state.st_mode) or state.st_size > _LARGEST:
                return None
            return File(path.read_bytes(), stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _unit_names(self, record: Record) -> list[str]:
        found = [name for kind, name in record.entries if kind == UNIT]
        own = [path.name for path in self._path("/etc/systemd/system").glob("gpulab-*") if path.is_file()]
        return [*dict.fromkeys([*filter(known.OWN_UNITS.fullmatch, own), known.KUBELET_UNIT, *found])]

    def _sysctls(self, record: Record) -> Iterator[tuple[str, str]]:
        for kind, name in record.entries:
            text = text_or_nothing(self.root, f"/proc/sys/{name}") if kind == SYSCTL else ""
            if text:
                yield name, " ".join(text.split())

    def _directories(self) -> Iterator[str]:
        own = [f"{known.OWN}/{path.name}" for path in sorted(self._path(known.OWN).glob("*"))]
        kept = (*known.OWN_DATA, Path(DIRECTORY).name, Path(known.STATE).name)
        own = [path for path in own if not any(fnmatchcase(Path(path).name, each) for each in kept)]
        etcd = self.etcd()
        # What else is in the directory is not known.
        database = [f"{etcd}/member"] if etcd else []
        empty = [path for path in known.EMPTY if not any(map(_has_data, self._path(path).rglob("*")))]
        for path in dict.fromkeys((*database, *known.DIRECTORIES, *known.CONTAINERD, *empty, *own)):
            if os.path.lexists(self._path(path)) and not (self._is_cleared(path) or self._has_users_data(path)):
                yield path

    def _has_users_data(self, name: str) -> bool:
        """Return whether a directory is one with data of users, or has one below it."""
        top = self._path(name).resolve()
        return any(top in (path, *path.parents) for path in (self._path(each).resolve() for each in self._data))

    def _is_cleared(self, name: str) -> bool:
        """Return whether a directory stays because it is a mount point or a link, and is empty."""
        path = self._path(name)
        return path.is_dir() and (path.is_symlink() or path.is_mount()) and not any(path.iterdir())

    def _users_data(self) -> Iterator[tuple[str, str]]:
        own = {
            f"{known.OWN}/{path.name}": "data of users"
            for each in known.OWN_DATA
            for path in self._path(known.OWN).glob(each)
        }
        for name, what in {**own, **self._data}.items():
            path = self._path(name)
            if path.is_dir() and any(path.iterdir()):
                yield name, what

    def _kubeconfigs(self) -> Iterator[tuple[str, bool]]:
        admin = text_or_nothing(self.root, "/etc/kubernetes/admin.conf")
        authority = re.search(r"certificate-authority-data: *(\S+)", admin)
        homes = [self._path("/root"), *sorted(self._path("/home").glob("*"))]
        for home in homes if authority else ():
            path = home / ".kube/config"
            text = (read_text(path) or "") if path.is_file() and not path.is_symlink() else ""
            if authority and authority[1] in text:
                yield f"/{path.relative_to(self.root)}", text == admin

    def cni(self) -> tuple[str, ...]:
        names = [f"{known.CNI}/{path.name}" for path in sorted(self._path(known.CNI).glob("*"))]
        return tuple(name for name in names if name not in known.FILES and not name.endswith("/.kubernetes-cni-keep"))

    def _swap_is_missing(self) -> bool:
        """Return whether swap of fstab is off, now or once fstab is restored."""
        wanted = swap_state.fstab_swaps(text_or_nothing(self.root, f"{DIRECTORY}/{FILES}{FSTAB}"))
        wanted = [each for each in wanted if "noauto" not in (each.options or "").split(",")]
        return bool(wanted) and not swap_state.active_swaps(text_or_nothing(self.root, "/proc/swaps"))

    def _path(self, name: str) -> Path:
        return under(self.root, name)


def _has_data(path: Path) -> bool:
    state = path.lstat()
    return not stat.S_ISDIR(state.st_mode) and not (stat.S_ISREG(state.st_mode) and state.st_size == 0)
