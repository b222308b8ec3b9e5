# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules that read from package repositories."""

    DOCUMENTATION = r"""
options:
  http_proxy:
    description: Proxy for addresses that begin with C(http:), as a URL. Empty means the one of apt's configuration.
    type: str
    default: ""
  https_proxy:
    description: Proxy for addresses that begin with C(https:), as a URL.
    type: str
    default: ""
  no_proxy:
    description: Hosts and domains that are reached without a proxy.
    type: list
    elements: str
    default: []
"""
