# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options of modules that read from package repositories."""

    DOCUMENTATION = r"""
options:
  http_proxy:
    description: URL of the proxy for C(http) URLs. Empty means the proxy of apt's configuration.
    type: str
    default: ""
  https_proxy:
    description: URL of the proxy for C(https) URLs.
    type: str
    default: ""
  no_proxy:
    description: Hosts and domains to reach without a proxy.
    type: list
    elements: str
    default: []
"""
