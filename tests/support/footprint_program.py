"""Print as JSON what a host has: files with hashes, sysctls, and the output of tools for units, packages and more.

Runs as root on a host, with Python 3.9 and no other package. Its only argument is a JSON list of paths to leave out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# File systems of the kernel, and those of containers.
_SKIPPED = {"proc", "sysfs", "cgroup", "cgroup2", "devtmpfs", "devpts", "mqueue", "tmpfs", "nsfs", "bpf", "overlay"}
_SKIPPED |= {"debugfs", "tracefs", "securityfs", "configfs", "pstore", "hugetlbfs", "fusectl", "binfmt_misc", "ramfs"}
TOOLS = {
    "unit_files": ["systemctl", "list-unit-files", "--plain", "--no-legend", "--no-pager"],
    "units": ["systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager"],
    "packages": ["dpkg-query", "-W", "-f", "${Package}:${Architecture} ${Version} ${Status}\\n"],
    "holds": ["apt-mark", "showhold"],
    "links": ["ip", "-details", "-json", "link"],
    "addresses": ["ip", "-json", "address"],
    "routes": ["ip", "route", "show", "table", "all"],
    "rules": ["ip", "rule"],
    "rules6": ["ip", "-6", "rule"],
    "nft": ["nft", "--stateless", "list", "ruleset"],
    "iptables": ["iptables-save"],
    "ip6tables": ["ip6tables-save"],
    "iptables_legacy": ["iptables-legacy-save"],
    "ip6tables_legacy": ["ip6tables-legacy-save"],
}


def output(name: str, argv: list[str]) -> str | None:
    """Return a tool's output, None if the host does not have the tool. The program ends if the tool fails."""
    environment = {**os.environ, "LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    try:
        # The old tables need a kernel module, without which nothing is in them.
        done = subprocess.run(argv, capture_output=True, env=environment, check=not name.endswith("_legacy"))
    except FileNotFoundError:
        return None
    except subprocess.CalledProcessError as error:
        sys.exit(f"{' '.join(argv)} ended with {error.returncode}: {error.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()


def skipped(lines: list[str]) -> set[str]:
    """Return the mount points of file systems that are not compared."""
    split = [line.split(" - ") for line in lines]
    points = {left.split()[4] for left, right in split if right.split()[0] in _SKIPPED}
    return points - {"/"}


def describe(path: str, state: os.stat_result) -> str:
    """Return the type, mode, owner, size and content of a file."""
    kind = {stat.S_IFDIR: "directory", stat.S_IFLNK: "link", stat.S_IFREG: "file"}.get(stat.S_IFMT(state.st_mode))
    owner = f"{stat.S_IMODE(state.st_mode):04o} {state.st_uid}:{state.st_gid}"
    if kind == "file":
        digest = hashlib.sha256()
        with Path(path).open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        return f"file {owner} {state.st_size} {digest.hexdigest()[:16]}"
    if kind == "link":
        return f"link {state.st_uid}:{state.st_gid} -> {Path(path).readlink()}"
    return f"{kind or 'special'} {owner}"


def files(top: str, left_out: set[str]) -> Iterator[tuple[str, str]]:
    """Yield each file below a directory; files that end while they are read are not there."""
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        try:
            entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.path in left_out:
                continue
            try:
                yield entry.path, describe(entry.path, entry.stat(follow_symlinks=False))
            except OSError:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def sysctls() -> Iterator[tuple[str, str]]:
    for directory, _folders, names in os.walk("/proc/sys"):
        for name in names:
            path = Path(directory, name)
            # Some can only be written.
            with contextlib.suppress(OSError):
                value = path.read_text(encoding="utf-8", errors="replace")
                yield str(path.relative_to("/proc/sys")), " ".join(value.split())


def main() -> None:
    lines = mounts()
    left_out = {*json.loads(sys.argv[1]), *skipped(lines)}
    found: dict[str, Any] = {name: output(name, argv) for name, argv in TOOLS.items()}
    found["files"] = dict(files("/", left_out))
    found["sysctls"] = dict(sysctls())
    found["mounts"] = "\n".join(lines)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
