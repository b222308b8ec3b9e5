#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cluster_objects
short_description: Apply manifests to a cluster
version_added: 0.2.0
description:
  - Applies objects in order with server-side apply, and waits up to 30 seconds until a kind that one of the objects
    defines is available.
  - Unlike M(kubernetes.core.k8s), it can predict in check mode objects whose namespace or kind does not exist yet.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  kubeconfig:
    description: Kubeconfig file of the cluster. Empty in check mode if there is no cluster yet.
    type: path
    required: true
  definitions:
    description: The objects, in the order in which they are applied.
    type: list
    elements: dict
    required: true
  field_manager:
    description: >-
      Name under which the API records the ownership of fields. Fields that are no longer in the manifests are removed.
    type: str
    default: gpulab.kubernetes
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
requirements:
  - kubernetes (Python package)
  - PyYAML
"""

EXAMPLES = r"""
- name: Create a namespace
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
  description: Kind, name and namespace of each changed object.
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
