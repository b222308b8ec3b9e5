#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_images
short_description: Pull the images of a control plane that are missing
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Asks C(kubeadm config images list) for the images of a configuration, and pulls those that the container runtime
    does not have yet with C(crictl). What was pulled stays when a later image can't be had, so a run can be repeated.
  - An image that is there is not asked of its registry.
options:
  config:
    description:
      - The configuration for kubeadm in YAML, as for M(gpulab.kubernetes.kubeadm_init).
      - It is given to kubeadm in a file of mode 0600 below C(/run/gpulab), which is removed afterwards.
    type: str
    required: true
  timeout:
    description: Time limit for the pull of one image in seconds. There are up to five attempts.
    type: int
    default: 900
  executable:
    description: Name or path of kubeadm.
    type: str
    default: kubeadm
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.root
attributes:
  check_mode:
    support: full
    details:
      - Where kubeadm or crictl are not installed yet, the images are unknown, and the module says that it would pull.
  diff_mode:
    support: none
  idempotent:
    support: full
seealso:
  - module: gpulab.kubernetes.kubeadm_init
"""

EXAMPLES = r"""
- name: Pull the images of the control plane
  gpulab.kubernetes.kubeadm_images:
    config: "{{ lookup('ansible.builtin.template', 'kubeadm.yaml.j2') }}"
"""

RETURN = r"""
known:
  description: Whether the images could be asked for. Only check mode on a host without kubeadm can't.
  returned: success
  type: bool
  sample: true
images:
  description: The images that the control plane needs.
  returned: success
  type: list
  elements: str
  sample: ["registry.k8s.io/kube-apiserver:v1.36.4"]
pulled:
  description: Those that were missing.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.kubeadm_images import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
