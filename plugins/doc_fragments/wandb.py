# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    # For modules that use W&B's SDK on the task's host.
    DOCUMENTATION = r"""
options:
  base_url:
    description: URL of the W&B server.
    type: str
    default: https://api.wandb.ai
  api_key:
    description: W&B API key of a user or a service account.
    type: str
    required: true
  ca_bundle:
    description:
      - PEM file with the certificate authorities of the server, and of every other server that the SDK talks to. If
        empty, the SDK trusts the usual authorities.
    type: path
    default: ""
  entity:
    description: Team or user who owns the queues.
    type: str
    required: true
requirements:
  - wandb (Python package, 0.31)
"""
