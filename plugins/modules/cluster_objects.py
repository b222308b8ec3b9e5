#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_objects
short_description: Make objects of a cluster what manifests declare
version_added: 0.2.0
description:
  - Applies objects one after the other (server-side apply), and waits up to 30 seconds for a kind whose definition
    comes with them.
  - Unlike M(kubernetes.core.k8s), check mode predicts objects whose namespace or kind is not there yet.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubeconfig:
    description: Kubeconfig file of the cluster.
    type: path
    required: true
  definitions:
    description: The objects, in the order in which they are applied.
    type: list
    elements: dict
    required: true
  field_manager:
    description: Name under which the API remembers who set which field. Fields that are not given any more are removed.
    type: str
    default: gpulab.kubernetes
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
requirements:
  - kubernetes (Python package)
  - PyYAML
"""

EXAMPLES = r"""
- name: Make a namespace
  gpulab.kubernetes.cluster_objects:
    kubeconfig: /run/user/1000/kubeconfig
    definitions:
      - apiVersion: v1
        kind: Namespace
        metadata:
          name: training
"""

RETURN = r"""
changes:
  description: Kind and name of each object that was changed, with its namespace.
  returned: success
  type: list
  elements: str
  sample: [Namespace training]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.cluster_objects import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
