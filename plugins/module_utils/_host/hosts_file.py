# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep names in a marked block of /etc/hosts, and read which other addresses a name has.

Where cloud-init writes /etc/hosts at each boot, its template gets the same block: cloud-init's
config/cc_update_etc_hosts.py, which for Debian and Ubuntu reads hosts.debian.tmpl.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._command import Runner
from .._errors import DomainError
from .._files import difference, read_text, text_or_nothing, under, write_text
from .._first_run import FirstRun
from .cloud_init import rewrites_hosts

PATH, TEMPLATE = "/etc/hosts", "/etc/cloud/templates/hosts.debian.tmpl"
_BEGIN, _END = "# BEGIN gpulab.kubernetes", "# END gpulab.kubernetes"
_HEAD = f"{_BEGIN} (role api_endpoint)"
# That of the HAProxy to which a name in the block leads on a worker.
_UNIT = "/etc/systemd/system/gpulab-api-endpoint.service"


@dataclass(frozen=True)
class _Parts:
    """The lines before the block, in it, and after it."""

    before: list[str]
    block: list[str]
    after: list[str]


def with_block(text: str, names: Mapping[str, str]) -> str:
    """Return the text of a hosts file with a block that maps each name to its address; no names remove the block."""
    parts = _split(text)
    block = [_HEAD, *(f"{address} {name}" for name, address in names.items()), _END] if names else []
    if parts.block or not block:
        return "\n".join([*parts.before, *block, *parts.after])
    return "\n".join([*_without_last_newline(parts.before), *block, ""])


def block_names(text: str) -> list[str]:
    """Return the names in the block."""
    return [name for _address, names in _entries(_split(text).block) for name in names]


def addresses(text: str, name: str) -> list[str]:
    """Return the addresses that lines outside the block have for a name."""
    parts = _split(text)
    return [address for address, names in _entries([*parts.before, *parts.after]) if name in names]


def _split(text: str) -> _Parts:
    lines = text.split("\n")
    start = next((place for place, line in enumerate(lines) if line.startswith(_BEGIN)), None)
    if start is None:
        return _Parts(lines, [], [])
    # Without its end, the block is only the line that begins it.
    end = next((place for place in range(start, len(lines)) if lines[place].startswith(_END)), start)
    return _Parts(lines[:start], lines[start : end + 1], lines[end + 1 :])


def _without_last_newline(lines: list[str]) -> list[str]:
    return lines[:-1] if lines and not lines[-1] else lines


def _entries(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    for line in lines:
        address, *names = line.partition("#")[0].lower().split() or [""]
        if names:
            yield address, names


def ensure(module: Any, root: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Write the block, and return the module's result. Raise DomainError if /etc/hosts can't be replaced."""
    changed: list[str] = []
    diff: list[dict[str, str]] = []
    paths = [PATH, *[TEMPLATE] * (rewrites_hosts(root) and under(root, TEMPLATE).is_file())]
    for path in paths:
        file = under(root, path)
        before = read_text(file) or ""
        after = with_block(before, names)
        if after == before:
            continue
        changed.append(path)
        diff.append(difference(file, before, after))
        if path == PATH and is_mount(root, PATH):
            raise DomainError(
                f"Error while writing {PATH}: it is a mount of its own, as in many containers, and can't be replaced. "
                "Let the machine have a file of its own (such as podman run --no-hosts), or set cluster_api_endpoint."
            )
        if not module.check_mode:
            FirstRun(module, root).keep_files({path: file.resolve()})
            write_text(file, after)
    return {"changed": bool(changed), "files": changed, "diff": diff}


def is_mount(root: str, path: str) -> bool:
    """Return whether something is mounted at this very path (proc(5), mountinfo)."""
    lines = text_or_nothing(root, "/proc/self/mountinfo").splitlines()
    return any(line.split()[4:5] == [path] for line in lines)


def read(runner: Runner, root: str, name: str, asks_dns: bool) -> dict[str, Any]:
    """Return what preflight needs to know about the file, and to which other addresses the name resolves.

    DNS is asked only for a name that is not in the block.
    """
    text = text_or_nothing(root, PATH)
    names = block_names(text)
    elsewhere = addresses(text, name) if name else []
    if name and asks_dns and name not in names:
        elsewhere += _in_dns(runner, name)
    return {
        "name": name,
        "names": names,
        "elsewhere": [address for address in dict.fromkeys(elsewhere) if address != "127.0.0.1"],
        "is_mount": is_mount(root, PATH),
        "rewritten": rewrites_hosts(root),
        "has_template": under(root, TEMPLATE).is_file(),
        "has_proxy": under(root, _UNIT).is_file(),
    }


def _in_dns(runner: Runner, name: str) -> list[str]:
    """Return the addresses of a name, without those that DNS has for any name in its domain."""
    # With the dot, no search list is used.
    found = list(_resolved(runner, f"{name}."))
    domain = name.partition(".")[2]
    wildcard = set(_resolved(runner, f"gpulab-{secrets.token_hex(8)}.{domain}.")) if found else set()
    return [address for address in found if address not in wildcard]


def _resolved(runner: Runner, name: str) -> Iterator[str]:
    try:
        found = runner.run(["getent", "ahosts", name])
    except DomainError:
        return
    for line in found.stdout.splitlines() if found.rc == 0 else ():
        address = line.split()[0] if line.split() else ""
        try:
            yield str(ipaddress.ip_address(address))
        except ValueError:
            continue
