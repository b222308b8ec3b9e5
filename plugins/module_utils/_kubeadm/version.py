# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads C(kubeadm version), in every form that it has: plain, C(-o short), C(-o json), C(-o yaml).

Form: kubernetes cmd/kubeadm/app/cmd/version.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .text import is_remark, json_objects, mask_pieces, plain, unreadable

_WHAT = "version"
_VERSION = re.compile(
    r"v(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z.-]+))?", re.ASCII
)
_PLAIN = re.compile(r"kubeadm version: &version\.Info\{([^{}\n]*)\}")
_FIELD = re.compile(r'(?:^|, )GitVersion:"([^"]*)"')
_YAML = re.compile(r"clientVersion:\n(?:[ ]+\w+:[^\n]*\n)*?[ ]+gitVersion: [\"']?([^\"'\s]+)[\"']?\n")


@dataclass(frozen=True)
class Version:
    """``text`` is the whole, as kubeadm has it; ``pre_release`` such as V(rc.0), ``build`` what follows V(+)."""

    text: str
    major: int
    minor: int
    patch: int
    pre_release: str | None = None
    build: str | None = None


def version(text: str) -> Version:
    """What C(kubeadm version) says. Raises KubeadmTextError for anything but one version."""
    text = plain(text)
    try:
        found = _from_json(text) or [value for info in _PLAIN.findall(text) for value in _FIELD.findall(info)]
    except ValueError as error:
        raise unreadable(_WHAT, str(error)) from error
    lines = [line.strip() for line in text.split("\n") if not is_remark(line)]
    found = found or _YAML.findall(text) or [line for line in lines if _VERSION.fullmatch(line)]
    if len(set(found)) != 1:
        raise unreadable(_WHAT, "there are several" if found else f"there is none in {mask_pieces(text)!r}")
    return parse_version(found[0])


def parse_version(text: str) -> Version:
    """A version such as V(v1.36.4) or V(v1.37.0-rc.0). Raises KubeadmTextError."""
    match = _VERSION.fullmatch(text)
    if not match:
        raise unreadable(_WHAT, "this is none", text)
    return Version(text, int(match[1]), int(match[2]), int(match[3]), match[4], match[5])


def _from_json(text: str) -> list[str]:
    found = []
    for data in json_objects(text):
        client = data.get("clientVersion")
        value = client.get("gitVersion") if isinstance(client, dict) else None
        if not isinstance(value, str):
            raise ValueError("the JSON holds no clientVersion.gitVersion")
        found.append(value)
    return found
