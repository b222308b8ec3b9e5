# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the join tokens and certificates of this control plane's cluster with kubeadm."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from .certs import Certificate, check_expiration, expiration
from .run import Kubeadm
from .text import timestamp
from .tokens import Token, list_tokens, tokens


def token_info(kubeadm: Kubeadm, kubeconfig: str) -> dict[str, Any]:
    """Return the tokens for kubeadm_info, without secrets. Raise DomainError."""
    text = kubeadm.run_known(list_tokens(kubeconfig), "listing the join tokens")
    now = datetime.now(timezone.utc)
    return {"tokens": [_token(token, now) for token in tokens(text)]}


def certs_info(kubeadm: Kubeadm, kubeconfig: str) -> dict[str, Any]:
    """Return the certificates for kubeadm_info. Raise DomainError."""
    text = kubeadm.run_known(check_expiration(kubeconfig), "checking when the certificates expire")
    found = expiration(text, datetime.now(timezone.utc))
    return {
        "certificates": [{**_certificate(each), "ca": each.ca} for each in found.certificates],
        "certificate_authorities": [_certificate(each) for each in found.authorities],
    }


def _token(token: Token, now: datetime) -> dict[str, Any]:
    return {
        "id": token.id,
        "description": token.description,
        "usages": list(token.usages),
        "groups": list(token.groups),
        "expires": timestamp(token.expires),
        "ttl": max(0, int((token.expires - now).total_seconds())) if token.expires else None,
        "lets_join": token.lets_join(now),
    }


def _certificate(certificate: Certificate) -> dict[str, Any]:
    return {
        "name": certificate.name,
        "expires": timestamp(certificate.expires),
        "days_left": certificate.days_left,
        "externally_managed": certificate.externally_managed,
        "missing": certificate.missing,
    }
