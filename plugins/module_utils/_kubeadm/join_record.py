# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a join that has not finished: a power failure may damage all other files that show its cluster."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .._files import put_file, read_text, under, write_text
from .._json import as_mapping, as_texts

_PATH = "/var/lib/gpulab/kubeadm-join.json"


@dataclass(frozen=True)
class JoinRecord:
    """``ca_cert_hashes`` are the CAs of the cluster, ``control_plane``: whether the host becomes a control plane."""

    ca_cert_hashes: tuple[str, ...] = ()
    control_plane: bool = False

    def makes_control_plane(self, ca_cert_hashes: Collection[str]) -> bool:
        """Return whether the host becomes a control plane of the cluster with these CAs; unknown ones match."""
        known = ca_cert_hashes and self.ca_cert_hashes
        return self.control_plane and (not known or bool({*ca_cert_hashes} & {*self.ca_cert_hashes}))


def read(root: str) -> JoinRecord | None:
    """Return the record, None if there is none. One that is damaged is empty."""
    text = read_text(under(root, _PATH))
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return JoinRecord()
    fields = as_mapping(found)
    return JoinRecord(tuple(as_texts(fields.get("ca_cert_hashes"))), fields.get("control_plane") is True)


def write(root: str, ca_cert_hashes: Sequence[str], control_plane: bool) -> None:
    hashes = list(ca_cert_hashes)
    found = {"ca_cert_hashes": hashes, "control_plane": control_plane}
    write_text(under(root, _PATH), json.dumps(found), mode=0o600)


def forget(root: str) -> None:
    put_file(under(root, _PATH), None)
