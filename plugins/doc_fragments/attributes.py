# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Predicts in check mode what would change, and changes nothing.
  diff_mode:
    description: Returns what has changed, or in check mode would change, when in diff mode.
  idempotent:
    description: A second run with the same arguments changes nothing and reports no change.
"""

    # For modules whose attributes need no details.
    FULL = r"""
options: {}
attributes:
  check_mode:
    support: full
    description: Predicts in check mode what would change, and changes nothing.
  diff_mode:
    support: full
    description: Returns what has changed, or in check mode would change, when in diff mode.
  idempotent:
    support: full
    description: A second run with the same arguments changes nothing and reports no change.
"""

    # For modules that only read.
    READER = r"""
options: {}
attributes:
  check_mode:
    support: full
    description: Predicts in check mode what would change, and changes nothing.
    details: [This module never changes anything.]
  diff_mode:
    support: N/A
    description: Returns what has changed, or in check mode would change, when in diff mode.
  idempotent:
    support: full
    description: A second run with the same arguments changes nothing and reports no change.
"""

    ROOT = r"""
options:
  root:
    description:
      - Directory that replaces V(/) in every path that this module reads or writes.
      - Only tests and image builds need a different value. Programs always run on the running host.
    type: path
    default: /
"""
