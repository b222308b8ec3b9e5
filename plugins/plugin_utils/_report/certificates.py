# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to renew certificates of the control plane. Pure."""

from __future__ import annotations

from collections.abc import Collection

RENEW = "`ansible-playbook gpulab.kubernetes.renew_certificates -i INVENTORY`"
# A CA can't be renewed by this collection, and its replacement has to be planned.
CA_DAYS = 365
REPLACE_CA = (
    "This collection does not replace a CA: plan it with Manual Rotation of CA Certificates in Kubernetes' "
    "documentation, or plan a new cluster."
)


def renewal(names: Collection[str]) -> str:
    """Return how to renew the certificates with these names, commands in backticks."""
    copies = " It saves the new kubeconfig: give it to everyone who has a copy of the old one."
    return f"Renew them: {RENEW}.{copies if 'admin.conf' in names else ''}"
