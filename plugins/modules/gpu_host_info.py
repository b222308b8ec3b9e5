#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_host_info
short_description: Read the GPUs of a host, the pods that use them, and the installed versions
version_added: 0.1.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads the GPUs on the PCI bus, dpkg's database, the loaded driver and its library, the kernels, what turns swap on,
    and, from the kubelet's checkpoint, which running pod uses which GPU. It runs no programs for this, so it works even
    if the driver does not.
  - With O(nvidia_smi) it also queries the driver, like M(gpulab.kubernetes.nvidia_smi_info).
  - The filter P(gpulab.kubernetes.drift#filter) compares the versions with the pinned versions.
  - With O(containerd_config) it also reads containerd's configuration files, and with O(certificates) it queries
    kubeadm for the certificates of this control plane.
options:
  packages:
    description: Packages to look up.
    type: list
    elements: str
    default: [nvidia-container-toolkit]
  containerd_config:
    description: Configuration file of containerd. If unset, it is not read.
    type: path
    version_added: 0.2.0
  containerd_drop_ins:
    description: Pattern of the usual drop-ins. Drop-ins that O(containerd_config) does not import are marked as such.
    type: path
    default: /etc/containerd/conf.d/*.toml
    version_added: 0.2.0
  certificates:
    description: Whether to read the expiry dates of this control plane's certificates.
    type: bool
    default: false
    version_added: 0.2.0
  ignored_gpus:
    description: >-
      GPUs that are not for Kubernetes, as in M(gpulab.kubernetes.preflight_info). These GPUs, and GPUs with the
      C(vfio-pci) driver, are not in RV(pci), and the kernel's messages about them don't count.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  nvidia_smi:
    description:
      - How to query the driver for RV(nvidia_smi). If unset, the driver is not queried.
      - It is also not queried if the host has no GPUs on the PCI bus and none are expected.
    type: dict
    version_added: 0.2.0
    suboptions:
      driver_root:
        description: Root directory of the driver's files, as in M(gpulab.kubernetes.nvidia_smi_info).
        type: path
        default: /
      expected_gpus:
        description: Expected number of GPUs.
        type: int
        default: 0
      xids_since:
        description:
          - Ignore Xids before this time, as in M(gpulab.kubernetes.nvidia_smi_info).
          - If empty, the time in RV(given_back) is used.
        type: str
        default: ""
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.attributes.root
"""

EXAMPLES = r"""
- name: Read which pods use GPUs of this host
  gpulab.kubernetes.gpu_host_info:
  register: gpu_host
"""

RETURN = r"""
pci:
  description: NVIDIA GPUs on the PCI bus, by address, without those of O(ignored_gpus).
  returned: success
  type: list
  elements: dict
  contains:
    address:
      description: PCI address.
      type: str
    device_id:
      description: PCI device id.
      type: str
  sample: [{address: "0000:3b:00.0", device_id: "0x1eb8"}]
packages:
  description: C(version) and C(held) of each installed package of O(packages).
  returned: success
  type: dict
  sample: {nvidia-container-toolkit: {version: 1.20.1-1, held: true}}
held:
  description: Running pod that uses each GPU, as a mapping from UUID to C(namespace/name).
  returned: success
  type: dict
  sample: {GPU-6f2b1c0e-0d0f-4d2c-9f39-0c2f0a8e7a11: research/train-0}
given_back:
  description: >-
    Time in UTC at which the last isolation of this host's GPUs ended, for C(xids_since) of
    M(gpulab.kubernetes.nvidia_smi_info). Empty if none has ended since the last boot.
  returned: success
  type: str
  sample: "2026-11-22T05:06:25Z"
apt_keys:
  description: Keys of this collection's apt sources that expire within 60 days, or have expired.
  returned: success
  type: list
  elements: dict
  version_added: 0.2.0
  sample: [{name: gpulab-kubernetes, expires: "2026-12-29T20:32:12Z", days_left: 37}]
moved_aside:
  description: >-
    Times of the directories C(/var/lib/gpulab/aside-TIME), in which M(gpulab.kubernetes.kubeadm_init) and
    M(gpulab.kubernetes.kubeadm_join) have put the files of earlier attempts.
  returned: success
  type: list
  elements: str
  version_added: 0.2.0
  sample: [20261120T210001.000000Z]
backup:
  description: >-
    Newest good backup of a control plane (C(taken), C(archive), C(revision), C(size), C(recipients), C(places)), its
    age in C(hours), and the C(error) of the last attempt with the C(step) that failed. Empty if the role C(backup) has
    set up none.
  returned: success
  type: dict
  version_added: 0.3.0
deferred:
  description: >-
    Text of C(/var/lib/gpulab/deferred.json), in which the role C(node_change) records changes that wait until the GPUs
    are free. Empty if there are none.
  returned: success
  type: str
  version_added: 0.2.0
driver:
  description: The NVIDIA driver.
  returned: success
  type: dict
  contains:
    loaded:
      description: Version of the loaded kernel module, empty if there is none.
      type: str
    library:
      description: Version of the NVML library that programs load, empty if there is none.
      type: str
    packages:
      description: C(version) and C(held) of the driver's packages.
      type: dict
  sample:
    loaded: 580.178.04
    library: 580.178.04
    packages: {nvidia-open-580: {version: 580.178.04-1, held: true}}
kernel:
  description: C(running), C(newest) (the kernel of the next boot), C(newest_has_driver) and C(newest_has_headers).
  returned: success
  type: dict
  sample:
    running: 6.12.48+deb13-amd64
    newest: 6.12.57+deb13-amd64
    newest_has_driver: false
    newest_has_headers: false
swap:
  description:
    - Active swap areas by C(name), each with the probable cause of its activation (C(origin), empty if unknown).
    - An empty name means swap that is off now but will be turned on at the next boot.
  returned: success
  type: list
  elements: dict
  sample: [{name: /mnt/resource/swapfile, origin: "Azure's agent (/etc/waagent.conf)"}]
containerd_files:
  description: >-
    Configuration files of containerd, as returned by M(gpulab.kubernetes.containerd_info) in C(files), for the filters
    P(gpulab.kubernetes.containerd_config#filter) and P(gpulab.kubernetes.containerd_state#filter).
  returned: success
  type: list
  elements: dict
  sample: [{path: /etc/containerd/config.toml, text: "version = 4\n", imported: true}]
certificates:
  description: >-
    Result of M(gpulab.kubernetes.kubeadm_info), or the reason why it could not be read in C(msg). Empty without
    O(certificates).
  returned: success
  type: dict
  version_added: 0.2.0
  sample: {certificates: [], certificate_authorities: []}
nvidia_smi:
  description: >-
    Result of M(gpulab.kubernetes.nvidia_smi_info) with V(gpus), V(mig), V(topology) and V(xids) in its option
    C(gather). Empty if the driver was not queried.
  returned: success
  type: dict
  version_added: 0.2.0
  sample: {state: ok, message: null, driver_version: 580.178.04, count: 1, xids: []}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._module import run
from ..module_utils._states.gpu_host_info import SPECIFICATION, ensure


def main() -> None:
    run(AnsibleModule(**SPECIFICATION), ensure)


if __name__ == "__main__":
    main()
