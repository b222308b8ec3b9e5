# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace the endpoint in a kubeconfig or a ClusterConfiguration. Pure. The rest of the text stays as it is."""

from __future__ import annotations

import re

from .._errors import DomainError
from .kubeconfig import KubeconfigError, endpoint, host_port

_LINE = re.compile(
    r"(?P<key>[ \t]*(?:- )?(?:server|controlPlaneEndpoint):[ \t]*)[\"']?(?P<value>[^\s\"'#]+)[\"']?"
    r"(?P<rest>[ \t]*|[ \t]+#.*)"
)
_EMPTY = re.compile(r"controlPlaneEndpoint:[ \t]*(?:\"\"|'')?[ \t]*(?:#.*)?\n", re.MULTILINE)
_KIND = re.compile(r"^kind: ClusterConfiguration[ \t]*$", re.MULTILINE)


def with_endpoint(text: str, new: str, former: list[str]) -> str:
    """Return a kubeconfig or a ClusterConfiguration with the new endpoint. Raise DomainError for an unknown one.

    Endpoints are host:port. A ClusterConfiguration may have none yet.
    """
    lines = text.split("\n")
    found = {place: match for place, line in enumerate(lines) if (match := _LINE.fullmatch(line))}
    for place, match in found.items():
        there = _host_port(match["value"])
        if there not in (new, *former):
            raise DomainError(f"its endpoint is {match['value']!r:.200}, neither {' nor '.join([new, *former])}")
        if there != new:
            scheme = "https://" if match["value"].startswith("https://") else ""
            lines[place] = f"{match['key']}{scheme}{new}{match['rest'].rstrip()}"
    if found:
        return "\n".join(lines)
    text = _EMPTY.sub("", text)
    kind = _KIND.search(text)
    if not kind:
        raise DomainError("it has no endpoint")
    return f"{text[: kind.start()]}controlPlaneEndpoint: {new}\n{text[kind.start() :]}"


def _host_port(value: str) -> str:
    try:
        return host_port(*endpoint(value if value.startswith("https://") else f"https://{_with_port(value)}"))
    except KubeconfigError:
        return ""


def _with_port(value: str) -> str:
    return value if re.search(r":[0-9]+\Z", value) else f"{value}:6443"
