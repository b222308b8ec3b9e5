# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..plugin_utils._cuda.compatibility import RUNS, CudaError
from ..plugin_utils._cuda.inputs import text
from ..plugin_utils._cuda.plan import plan, shown

DOCUMENTATION = r"""
name: cuda_toolkits
short_description: Determine the packages of CUDA toolkits, and whether a driver runs them
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Checks each release against a host's driver and GPUs, with the same table as
    P(gpulab.kubernetes.cuda_compatibility#filter), and returns the packages of NVIDIA's CUDA repository.
positional: _input
options:
  _input:
    description: Releases of the toolkit with all three numbers, such as V(12.9.1), at most one per minor version.
    type: list
    elements: str
    required: true
  driver:
    description: Version of the Linux driver. Empty for a host without a driver, for which nothing is checked.
    type: str
    default: ""
  gpus:
    description: GPUs, as names or PCI device IDs. The result is that of the least compatible GPU.
    type: list
    elements: str
    default: []
  accept:
    description: Accepted kinds of compatibility.
    type: list
    elements: str
    default: [native, minor_version_compatibility]
  revision:
    description: Suffix of the package versions after the release.
    type: str
    default: "-1"
  system:
    description: Distribution, such as V(Debian 13), to determine which toolkits its repository lacks.
    type: str
    default: ""
seealso:
  - plugin: gpulab.kubernetes.cuda_compatibility
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show whether a driver runs two toolkits
  ansible.builtin.debug:
    msg: "{{ ['12.9.1', '13.1.1'] | gpulab.kubernetes.cuda_toolkits(driver='580.178.04') | map(attribute='kind') }}"
  # ['native', 'minor_version_compatibility']
"""

RETURN = r"""
_value:
  description:
    - Toolkits, oldest first. Each has C(version), C(minor), C(home) (its directory), C(priority) (of its alternative),
      C(packages) (each with C(name) and C(version)), C(kind), C(reason) and C(advice) (those of
      P(gpulab.kubernetes.cuda_compatibility#filter), null and empty without a driver), C(accepted), C(compat) (the
      directory of the libraries for forward compatibility, empty if they are not used), C(absent) (a message if the
      distribution's repository lacks it), and C(words) (a message about the driver).
  type: list
  elements: dict
"""


def cuda_toolkits(
    versions: Any,
    driver: Any = "",
    gpus: Sequence[Any] = (),
    accept: Sequence[str] = RUNS,
    revision: str = "-1",
    system: str = "",
) -> list[dict[str, Any]]:
    if isinstance(versions, (str, bytes)) or not isinstance(versions, Sequence):
        raise AnsibleFilterError(f"cuda_toolkits: the versions must be a list, not {versions!r:.60}")
    read = [text("cuda_toolkits", "a CUDA version", version) for version in versions]
    known = text("cuda_toolkits", "the driver version", driver or "")
    named = [text("cuda_toolkits", "a GPU", gpu) for gpu in gpus]
    try:
        found = [toolkit.fields() for toolkit in plan(read, known, named, accept, revision, system)]
    except CudaError as error:
        raise AnsibleFilterError(f"cuda_toolkits: {error}") from error
    return [{**toolkit, "words": shown(toolkit)} for toolkit in found]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"cuda_toolkits": cuda_toolkits}
