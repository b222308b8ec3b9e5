#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kubeadm_images
short_description: Pull the missing images of a control plane
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Lists the images of a configuration with C(kubeadm config images list), and pulls the missing images with C(crictl).
    If an image can't be pulled, those already pulled are kept, and a repeated run continues with the rest.
  - The registry is not contacted for images that already exist.
options:
  config:
    description:
      - Configuration of kubeadm in YAML, as for M(gpulab.kubernetes.kubeadm_init).
      - It is passed to kubeadm in a file with mode 0600 in C(/run/gpulab), which is removed afterwards.
      - Either this or O(images) is required.
    type: str
  images:
    description: Images to pull, for those that the installed kubeadm does not know.
    type: list
    elements: str
    version_added: 0.3.0
  timeout:
    description: Time limit in seconds for pulling one image. There are up to five attempts.
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
      - If kubeadm or crictl is not installed yet, the images are unknown, and the module reports a change.
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
  description: Whether the images are known. In check mode on a host without kubeadm, they are unknown.
  returned: success
  type: bool
  sample: true
images:
  description: Images that the control plane needs.
  returned: success
  type: list
  elements: str
  sample: ["registry.k8s.io/kube-apiserver:v1.36.4"]
pulled:
  description: Images that were pulled because they were missing, or would be in check mode.
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
