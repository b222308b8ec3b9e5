#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight_info
short_description: Read everything that decides whether a host can join a GPU cluster
version_added: 0.1.0
description:
  - Reads a host in one execution, and neither changes nor evaluates anything. The filter
    P(gpulab.kubernetes.preflight_problems#filter) contains the rules.
  - Works without root privileges as far as possible, and returns whether it ran as root.
  - Queries a repository only for packages that are not installed in the wanted version.
author:
  - The gpulab.kubernetes maintainers (@gpulab)
options:
  ports:
    description: Ports that must be free, such as V(6443/tcp).
    type: list
    elements: str
    default: []
  reachable_ports:
    description: Ports that the packet filter must allow, such as V(8472/udp).
    type: list
    elements: str
    default: []
  pod_network:
    description: Network of the pods, for which the packet filter must forward packets. Empty means none.
    type: str
    default: ""
    version_added: 0.2.0
  pod_interfaces:
    description: >-
      Interfaces between which a node forwards the packets of pods, such as V(cni0) and V(flannel.1). An empty name is
      the interface of the default route. With fewer than two, it is not read whether the packet filter forwards them.
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  disk_paths:
    description: Paths for which to read the free space. They need not exist yet.
    type: list
    elements: str
    default: [/]
  kernel_modules:
    description: Kernel modules to look for.
    type: list
    elements: str
    default: [overlay, br_netfilter]
  containerd_drop_ins:
    description: Pattern of absolute paths of containerd's drop-ins.
    type: path
    default: /etc/containerd/conf.d/*.toml
  repositories:
    description:
      - Package repositories, with the versions that they must provide.
      - In O(repositories[].uri) and O(repositories[].suite) C({id}), C({codename}) and C({repository_name}) are
        replaced with the values from RV(os).
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the repository, for messages.
        type: str
        required: true
      uri:
        description: URL of the repository.
        type: str
        required: true
      suite:
        description: Suite, or the path of a flat repository, which ends in a slash.
        type: str
        default: /
      component:
        description: Component, for repositories that are not flat.
        type: str
        default: main
      packages:
        description:
          - Wanted versions by package name. An empty version means any.
          - A version may be a dictionary by distribution (V(Debian 12), otherwise V(Debian), otherwise V(any)). A
            repository without a version for the host's distribution is skipped.
        type: dict
        required: true
      nvswitch_packages:
        description: Packages that a host with NVSwitches needs in addition to O(repositories[].packages).
        type: dict
        default: {}
        version_added: 0.2.0
      key:
        description:
          - Name of the key's file, or a dictionary by C({repository_name}).
        type: raw
        version_added: 0.2.0
      key_url:
        description:
          - URL of the repository's key. C({key}) is replaced with O(repositories[].key), in addition to the
            replacements in O(repositories[].uri). The key is checked only if both options are set.
        type: str
        version_added: 0.2.0
      fingerprints:
        description: Expected fingerprints of the keys. An empty list means any.
        type: list
        elements: str
        default: []
        version_added: 0.2.0
      any:
        description: Whether it is sufficient if one of the packages is installed.
        type: bool
        default: false
      gpus:
        description: Whether the repository concerns only hosts with NVIDIA GPUs.
        type: bool
        default: false
  credentials:
    description:
      - User names and passwords for O(repositories).
    type: list
    elements: dict
    version_added: 0.2.0
    suboptions:
      machine:
        description: >-
          The repositories, as C([protocol://]host[:port][/path]). The first matching entry is used. An entry without a
          protocol applies to https only.
        type: str
        required: true
      username:
        description: User name.
        type: str
        required: true
      password:
        description: Password.
        type: str
        required: true
  ignored_gpus:
    description: >-
      GPUs that are not for Kubernetes, by PCI address (V(0000:3b:00.0)), PCI ID (V(10de:1eb8)), or a part of the name
      that C(lspci) prints (V(GeForce GT 710)).
    type: list
    elements: str
    default: []
    version_added: 0.2.0
  distribution_drivers:
    description: Whether to read which drivers of the distribution apt knows, on hosts with GPUs.
    type: bool
    default: false
    version_added: 0.2.0
  resolv_conf:
    description:
      - File of name servers to read in addition to C(/etc/resolv.conf) and C(/run/systemd/resolve/resolv.conf). Empty
        means none.
    type: str
    default: ""
  controller_time:
    description: Time on the controller in seconds since 1970, for comparison with this host's clock.
    type: float
    default: 0
  timeout:
    description: Time limit in seconds for a response from a repository.
    type: float
    default: 10
  cloud_init_timeout:
    description:
      - Seconds to wait for cloud-init to finish before anything is read. A host without cloud-init, or on which it has
        finished, is read immediately.
      - If cloud-init has errors, or is still running after this time, there is a warning.
    type: float
    default: 0
    version_added: 0.2.0
  api_endpoint:
    description:
      - Address of the API server, to which a worker tries to connect, as C(host:port). Without this option, no
        connection is attempted.
      - If the host's kubelet is already configured, its API server is used instead. Empty means only that one.
    type: str
    version_added: 0.2.0
  api_name:
    description: >-
      Name of the API that the host will get in C(/etc/hosts), empty for none. DNS is asked for it only if the host is
      not part of a cluster yet.
    type: str
    default: ""
    version_added: 0.3.0
  migrates_endpoint:
    description: Ask DNS for O(api_name) even if the host is part of a cluster.
    type: bool
    default: false
    version_added: 0.3.0
  connect_timeout:
    description: Time limit in seconds for the connection to O(api_endpoint).
    type: float
    default: 3
    version_added: 0.2.0
  api_timeout:
    description: Seconds to wait on a control plane for its own API server, while the kubelet starts it.
    type: float
    default: 30
    version_added: 0.2.0
  gather_subset:
    description:
      - Facts to gather, as with these subsets of M(ansible.builtin.setup) and without its minimal subset, so that no
        task with that module is needed. An empty list means none.
    type: list
    elements: str
    choices: [distribution, network, platform]
    default: []
    version_added: 0.2.0
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.attributes.root
  - gpulab.kubernetes.proxies
"""

EXAMPLES = r"""
- name: Read the host
  gpulab.kubernetes.preflight_info:
    ports: [6443/tcp, 10250/tcp]
    reachable_ports: [6443/tcp, 10250/tcp, 8472/udp]
    repositories:
      - name: Kubernetes
        uri: https://pkgs.k8s.io/core:/stable:/v1.36/deb/
        packages: {kubelet: 1.36.4-1.1, kubeadm: 1.36.4-1.1}
  register: host

- name: Read the host, and gather the facts of its network
  gpulab.kubernetes.preflight_info:
    gather_subset: [network]
"""

RETURN = r"""
os:
  description: Distribution, and its names in this collection and in NVIDIA's repository.
  returned: always
  type: dict
  sample:
    id: debian
    version_id: "12"
    codename: bookworm
    pretty_name: Debian GNU/Linux 12 (bookworm)
    key: Debian 12
    repository_name: debian12
kernel:
  description: Release of the running kernel.
  returned: always
  type: str
architecture:
  description: Debian's name of the architecture.
  returned: always
  type: str
  sample: amd64
python:
  description: Version of the Python interpreter that ran this module.
  returned: always
  type: str
is_root:
  description: Whether the module ran as root.
  returned: always
  type: bool
cpus:
  description: CPUs that programs may use.
  returned: always
  type: int
memory_mib:
  description: Size of the memory in MiB.
  returned: always
  type: int
memory_available_mib:
  description: Available memory in MiB.
  returned: always
  type: int
swaps:
  description: Active swap areas, each with the probable cause of its activation at boot (C(origin), empty if unknown).
  returned: always
  type: list
  elements: dict
  sample: [{name: /dev/sda2, type: partition, size_mib: 2048, used_mib: 0, priority: -2, origin: fstab (/etc/fstab)}]
disks:
  description: Free space in the file system of each of O(disk_paths). Paths with the same C(device) share it.
  returned: always
  type: list
  elements: dict
  sample: [{path: /var/lib/containerd, free_mib: 81920, total_mib: 102400, device: "2049"}]
hostname:
  description: Host name, as known to the kernel.
  returned: always
  type: str
machine_id:
  description: Machine ID of systemd.
  returned: always
  type: str
product_uuid:
  description: UUID of the board, empty if it can't be read.
  returned: always
  type: str
now:
  description: Time on this host in seconds since 1970.
  returned: always
  type: float
clock_offset:
  description: Seconds by which this host's clock is ahead of O(controller_time).
  returned: always
  type: float
cgroup_version:
  description: V(1) or V(2).
  returned: always
  type: int
secure_boot:
  description: Whether Secure Boot is on.
  returned: always
  type: bool
signing_key:
  description: >-
    The key with which DKMS signs modules - the file of its C(certificate), and whether the key is C(enrolled), null if
    that is unknown. Empty if Secure Boot is off.
  returned: always
  type: dict
  version_added: 0.2.0
  sample: {certificate: /var/lib/shim-signed/mok/MOK.der, enrolled: true}
inotify:
  description: The kernel's limits of inotify for each user.
  returned: always
  type: dict
  version_added: 0.2.0
  sample: {max_user_instances: 128, max_user_watches: 8192}
kernel_modules:
  description: State of each of O(kernel_modules), C(loaded), C(builtin), C(available) or C(missing).
  returned: always
  type: dict
  sample: {overlay: loaded, br_netfilter: available}
kernel_packages:
  description: >-
    Packages for building modules for the running kernel - the packages of its image and its C(headers) (the exact ones,
    then those that match the metapackage of the image), the C(compiler) that built it, newer installed kernels without
    headers (C(newer_without_headers)), whether the headers are installed (C(headers_found)), and whether apt knows the
    exact ones (C(headers_known), null if apt was not asked, because the host has no GPU).
  returned: always
  type: dict
  sample:
    image: linux-image-6.14.0-24-generic
    meta: linux-image-generic-hwe-24.04
    headers: [linux-headers-6.14.0-24-generic, linux-headers-generic-hwe-24.04]
    compiler: gcc-13
    newer_without_headers: []
    headers_found: true
    headers_known: true
addresses:
  description: Global addresses.
  returned: always
  type: list
  elements: dict
  sample: [{address: 10.0.0.11, prefix: 24, interface: eth0, family: inet}]
routes:
  description: The main IPv4 routing table.
  returned: always
  type: list
  elements: dict
  sample: [{destination: default, gateway: 10.0.0.1, interface: eth0, source: ""}]
default_address:
  description: Address of the interface with the default route, empty if there is none.
  returned: always
  type: str
network_manager:
  description: Whether NetworkManager runs.
  returned: always
  type: bool
listeners:
  description: Processes that listen on O(ports).
  returned: always
  type: list
  elements: dict
  sample: [{port: 6443, protocol: tcp, address: "::", process: kube-apiserver, pid: 1234}]
firewall:
  description: >-
    The packet filter. C(blocks) contains the O(reachable_ports) that it blocks on the interface of the default route,
    or null if it can't be read, and C(forward) the chain that rejects the packets of pods, empty if there is none.
    C(interfaces) and C(forwards) contain the same for each interface with an IPv4 address.
  returned: always
  type: dict
  sample:
    tool: ufw
    active: true
    blocks: [6443/tcp]
    interfaces: {eth0: [6443/tcp]}
    forward: ""
    forwards: {eth0: ""}
gpus:
  description: >-
    NVIDIA GPUs on the PCI bus, regardless of their driver, each with its name (empty if the host has no list of PCI
    IDs) and whether it has the console. Virtual functions of SR-IOV and RV(gpus_left_out) are omitted.
  returned: always
  type: list
  elements: dict
  sample:
    - address: "0000:3b:00.0"
      device_id: "0x1eb8"
      class: "0x030200"
      driver: nvidia
      console: false
      name: TU104GL [Tesla T4]
gpus_left_out:
  description: GPUs that are not for Kubernetes, those of O(ignored_gpus) and those with the driver C(vfio-pci).
  returned: always
  type: list
  elements: dict
  version_added: 0.2.0
nvswitches:
  description: Number of NVSwitches on the PCI bus.
  returned: always
  type: int
nvlink_bridges:
  description: >-
    ConnectX devices that manage the NVSwitches of an NVLink 5 system. Those NVSwitches are not on the PCI bus.
  returned: always
  type: list
  elements: str
  sample: [mlx5_4, mlx5_5]
nvidia_driver:
  description: >-
    Existing driver. C(origin) is V(none), V(cuda_repository), V(distribution), V(runfile) or V(other). C(profiling) is
    who may read the performance counters, V(administrators) or V(all), empty if the driver is not loaded.
  returned: always
  type: dict
  sample:
    loaded_version: 580.178.04
    loaded_modules: open
    profiling: administrators
    profiling_files: []
    packages: {nvidia-open-580: 580.178.04-1}
    origin: cuda_repository
    nouveau_loaded: false
installed:
  description: Versions of installed packages related to containers, Kubernetes and GPUs.
  returned: always
  type: dict
  sample: {containerd.io: 2.3.6-1~debian.12~bookworm}
held:
  description: >-
    Packages of RV(installed) that are held. Empty if this collection has added its apt sources, because it holds the
    packages that it installs.
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
  sample: [containerd.io]
other_clusters:
  description: Installed distributions of Kubernetes other than kubeadm.
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
  sample: [k3s]
deferred:
  description: >-
    Text of C(/var/lib/gpulab/deferred.json), in which the role C(node_change) records changes that wait until the GPUs
    are free. Empty if there are none.
  returned: always
  type: str
  version_added: 0.2.0
containerd_drop_ins:
  description: >-
    Files that match O(containerd_drop_ins) and the files that they import, in the order in which containerd reads them.
    Passwords are masked.
  returned: always
  type: list
  elements: dict
  sample:
    - path: /etc/containerd/conf.d/99-nvidia.toml
      text: "version = 2\n"
      imported: true
repositories:
  description: >-
    For each of O(repositories): whether it was queried, why that failed, which wanted versions it lacks, which versions
    it has, the problem with its key (C(kind) is V(unreachable), V(unreadable), V(unexpected), V(expired) or empty), and
    which unmanaged sources contain its address (C(shared) - together with other addresses).
  returned: always
  type: list
  elements: dict
  sample:
    - name: Kubernetes
      uri: https://pkgs.k8s.io/core:/stable:/v1.36/deb/
      asked: true
      error: ""
      missing: {kubelet: 1.36.9-1.1}
      available: {kubelet: [1.36.4-1.1]}
      key:
        url: https://pkgs.k8s.io/core:/stable:/v1.36/deb/Release.key
        kind: expired
        cause: it expired on 2026-12-29
      conflicts:
        - {file: /etc/apt/sources.list, line: 3, uri: "https://pkgs.k8s.io/core:/stable:/v1.36/deb/", shared: false}
apt_components:
  description: Components in the host's enabled apt sources.
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
  sample: [contrib, main, non-free, non-free-firmware]
distribution_drivers:
  description: >-
    Drivers of the distribution that apt knows, by the name of the package that contains C(nvidia-smi). Empty on a host
    without GPUs, or without O(distribution_drivers).
  returned: always
  type: list
  elements: str
  version_added: 0.2.0
  sample: [nvidia-utils-580-server]
distribution_versions:
  description: >-
    Versions of these drivers, each with its kind of kernel modules. Packages from flat repositories (NVIDIA's) are
    omitted.
  returned: always
  type: list
  elements: dict
  version_added: 0.2.0
  sample: [{version: 580.95.05, modules: open}]
resolver:
  description: >-
    Whether systemd-resolved is active, the C(resolvConf) of the kubelet (null if it is not set up), and the name
    servers by file (null if the file does not exist).
  returned: always
  type: dict
  sample:
    systemd_resolved: true
    kubelet: null
    files: {/run/systemd/resolve/resolv.conf: [10.0.0.2], /etc/resolv.conf: [127.0.0.53]}
cluster:
  description: >-
    Cluster that the host belongs to, according to the files of kubeadm. C(begun) is also true if kubeadm was
    interrupted. C(ca) contains the certificates of its CAs, C(api_server_names) the names and addresses in the
    certificate of the host's API server, C(endpoint) is the address of its API for all nodes, and C(name) and
    C(api_name) the names of the cluster and of its API in C(/var/lib/gpulab/cluster.json). C(damaged) are files
    without which the host can't start, and that are empty, cut off or missing, as after a power failure;
    C(finished) is false then, unless the kubelet runs, and while the host is C(joining) other control planes.
    C(kubelet_configuration) is the text of the kubelet's configuration file, empty if it is damaged, contains bytes
    that can't be returned, or is longer than 64 KiB.
  returned: always
  type: dict
  sample:
    admin_conf: true
    kubelet_conf: true
    role: control_plane
    begun: true
    joining: false
    finished: true
    damaged: []
    ca_hashes: ["sha256:..."]
    api_server_names: [10.0.0.11, 10.96.0.1, api.lab.internal, cp1, kubernetes]
    ca: "-----BEGIN CERTIFICATE-----..."
    server: https://10.0.0.11:6443
    endpoint: api.lab.internal:6443
    name: lab
    api_name: api.lab.internal
    node_name: cp1
    container_runtime: unix:///var/run/containerd/containerd.sock
    kubelet_configuration: "apiVersion: kubelet.config.k8s.io/v1beta1..."
hosts_file:
  description: >-
    What concerns the name of the API in C(/etc/hosts) - the C(name) that was asked for (O(api_name)), the C(names) in
    the block of M(gpulab.kubernetes.hosts_file), the other addresses that this file or DNS has for the name
    (C(elsewhere)), whether the file can't be replaced, because it is a mount (C(is_mount)), whether cloud-init writes
    it at each boot (C(rewritten)), whether its template exists (C(has_template)), and whether the host has the HAProxy
    of the role C(api_endpoint) (C(has_proxy)).
  returned: always
  type: dict
  version_added: 0.3.0
  sample:
    name: api.lab.internal
    names: [api.lab.internal]
    elsewhere: []
    is_mount: false
    rewritten: false
    has_template: true
    has_proxy: false
control_plane:
  description: >-
    Settings of a control plane's cluster, as read from its API; empty on other hosts, and without root. C(action),
    C(reason), C(advice) and C(api) are the decision that M(gpulab.kubernetes.kubeadm_init) would make, C(texts) the
    configurations of kubeadm, kubelet, kube-proxy and flannel, C(daemonsets) the names of all DaemonSets,
    C(gpu_managers) the software that offers the GPUs, C(gpus_twice) the C(nodes) whose GPUs are offered by DRA and
    would be offered by a device plugin, too, with NVIDIA's DeviceClasses (C(classes)), or empty, C(nodes) the nodes
    with what identifies them and the version of their kubelet, C(removed_nodes) those that were removed while their
    host could not be reset, C(error) the reason why the API could not be read, C(interrupted) whether
    M(gpulab.kubernetes.kubeadm_control_plane) was interrupted, C(restorable) the files of kubeadm that are empty or
    cut off, but of which it has a copy, and C(components) the image tags of its static pods.
  returned: always
  type: dict
  version_added: 0.2.0
  sample:
    action: finished
    reason: the API answers and the cluster was published
    advice: ""
    api: alive
    version: v1.36.4
    texts: {flannel: '{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}'}
    daemonsets: [kube-flannel-ds, kube-proxy, nvidia-device-plugin]
    gpu_managers: [device_plugin]
    gpus_twice: {}
    nodes: []
    removed_nodes: {}
    error: ""
    interrupted: false
    restorable: []
    components: {kube-apiserver: v1.36.4, etcd: 3.6.8-0}
api_reach:
  description: >-
    Result of the connection to the API server (C(endpoint)) - C(reach) and C(error) as returned by
    M(gpulab.kubernetes.api_reach_info). Empty without O(api_endpoint), and on control planes.
  returned: always
  type: dict
  version_added: 0.2.0
  sample: {endpoint: "10.0.0.11:6443", reach: refused, error: Connection refused}
cloud_init:
  description: >-
    Status of cloud-init on this boot: C(state) is V(absent), V(disabled), V(running), V(done) or V(error), and
    C(waited) is the time in seconds for which the module has waited.
  returned: always
  type: dict
  version_added: 0.2.0
  sample: {state: done, errors: [], waited: 42.0}
ansible_facts:
  description: Facts of O(gather_subset), as returned by M(ansible.builtin.setup). Ansible sets them for the host.
  returned: with O(gather_subset)
  type: dict
  version_added: 0.2.0
  sample: {ansible_nodename: gpu1}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._apt.cli import distribution_drivers, distribution_versions
from ..module_utils._apt.credentials import CREDENTIALS_OPTION, read_credentials
from ..module_utils._apt.dpkg import read_database
from ..module_utils._apt.fetch import PROXY_OPTIONS, use_proxies
from ..module_utils._apt.index import resolve, survey
from ..module_utils._apt.lists import components
from ..module_utils._command import Runner
from ..module_utils._files import deferred, under
from ..module_utils._host import facts as host
from ..module_utils._host import hosts_file, network
from ..module_utils._host.ansible_facts import ansible_facts
from ..module_utils._host.cloud_init import CloudInit, wait
from ..module_utils._host.reach import reach_api
from ..module_utils._kubeadm import cluster_settings
from ..module_utils._kubeadm.membership import membership
from ..module_utils._module import run
from ..module_utils._nvidia import pci
from ..module_utils._nvidia.driver import driver_facts
from ..module_utils._nvidia.signing import signing_key

_REPOSITORY: dict[str, dict[str, Any]] = {
    "name": {"type": "str", "required": True},
    "uri": {"type": "str", "required": True},
    "suite": {"type": "str", "default": "/"},
    "component": {"type": "str", "default": "main"},
    "packages": {"type": "dict", "required": True},
    "nvswitch_packages": {"type": "dict", "default": {}},
    "key": {"type": "raw", "no_log": False},
    "key_url": {"type": "str", "no_log": False},
    "fingerprints": {"type": "list", "elements": "str", "default": []},
    "any": {"type": "bool", "default": False},
    "gpus": {"type": "bool", "default": False},
}


def read_host(module: AnsibleModule, runner: Runner, cloud_init: CloudInit) -> dict[str, Any]:
    params, root = module.params, module.params["root"]
    database = read_database(under(root, "/var/lib/dpkg"))
    every, nvswitches = pci.gpus(root)
    gpus, left_out = pci.usable(every, params["ignored_gpus"])
    controller_time = params["controller_time"] and params["controller_time"] + cloud_init.waited
    system = host.system(root, controller_time)
    asked = [
        {**one, "packages": {**one["packages"], **(one["nvswitch_packages"] if nvswitches else {})}}
        for one in params["repositories"]
        if gpus or not one["gpus"]
    ]
    wanted = [resolve(one, system["os"]) for one in asked]
    addresses, routes = network.addresses(runner), network.routes(runner)
    traffic = network.Traffic(
        params["reachable_ports"],
        network.node_interfaces(addresses, routes),
        params["pod_network"],
        params["pod_interfaces"],
    )
    cluster = membership(root)
    asks_apt = bool(gpus) and params["distribution_drivers"]
    asks_dns = params["migrates_endpoint"] or not cluster["finished"]
    names = hosts_file.read(Runner(module, timeout=5), root, params["api_name"], asks_dns)
    # The kubelet of a worker may reach the API through a program on this host, which always answers. After
    # /etc/hosts was replaced, its name is unknown until the role api_endpoint writes it again.
    own_names = {*names["names"], cluster["api_name"]}
    server = "" if cluster["endpoint"].rpartition(":")[0] in own_names else cluster["server"]
    asks_api = params["api_endpoint"] is not None and cluster["role"] != "control_plane"
    # What kubeadm_init would decide means nothing for one that is joining others, whose API its name may lead to.
    is_control_plane = cluster["role"] == "control_plane" and not cluster["joining"] and system["is_root"]
    return {
        **system,
        "disks": host.disks(root, params["disk_paths"]),
        "inotify": host.inotify(root),
        "kernel_modules": host.kernel_modules(root, params["kernel_modules"]),
        "kernel_packages": host.kernel_packages(root, database, system["os"]["id"], runner if gpus else None),
        "signing_key": signing_key(runner, root) if system["secure_boot"] else {},
        "addresses": addresses,
        "routes": routes,
        "default_address": network.default_address(addresses, routes),
        "network_manager": network.has_network_manager(runner),
        "listeners": network.listeners(root, params["ports"]),
        "firewall": network.firewall(runner, root, traffic),
        "gpus": gpus,
        "gpus_left_out": left_out,
        "nvswitches": nvswitches,
        "nvlink_bridges": pci.nvlink_bridges(root),
        "nvidia_driver": driver_facts(root, database),
        "installed": host.installed(database),
        "held": host.held(root, database),
        "other_clusters": host.other_clusters(root),
        "containerd_drop_ins": host.containerd_drop_ins(root, params["containerd_drop_ins"]),
        "repositories": survey(
            [one for one in wanted if one],
            database,
            under(root, "/etc/apt"),
            params["timeout"],
            read_credentials(params["credentials"]),
        ),
        "apt_components": components(under(root, "/etc/apt")),
        "distribution_drivers": distribution_drivers(runner, root) if asks_apt else [],
        "distribution_versions": distribution_versions(runner, root) if asks_apt else [],
        "resolver": host.resolver(root, runner, [params["resolv_conf"]]),
        "hosts_file": names,
        "cluster": cluster,
        "control_plane": cluster_settings.read(module, root, params["api_timeout"]) if is_control_plane else {},
        "api_reach": reach_api(params["api_endpoint"], server, params["connect_timeout"]) if asks_api else {},
        "deferred": deferred(root),
        "cloud_init": cloud_init.fields(),
    }


def run_module(module: AnsibleModule) -> dict[str, Any]:
    use_proxies(module.params)
    runner = Runner(module, timeout=30)
    cloud_init = wait(runner, module.params["root"], module.params["cloud_init_timeout"])
    for text in cloud_init.notes():
        module.warn(text)
    subset = module.params["gather_subset"]
    facts = {"ansible_facts": ansible_facts(module, subset)} if subset else {}
    return {**read_host(module, runner, cloud_init), **facts}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "str", "default": []},
            "reachable_ports": {"type": "list", "elements": "str", "default": []},
            "pod_network": {"type": "str", "default": ""},
            "pod_interfaces": {"type": "list", "elements": "str", "default": []},
            "disk_paths": {"type": "list", "elements": "str", "default": ["/"]},
            "kernel_modules": {"type": "list", "elements": "str", "default": ["overlay", "br_netfilter"]},
            "containerd_drop_ins": {"type": "path", "default": "/etc/containerd/conf.d/*.toml"},
            "repositories": {"type": "list", "elements": "dict", "default": [], "options": _REPOSITORY},
            "ignored_gpus": {"type": "list", "elements": "str", "default": []},
            "distribution_drivers": {"type": "bool", "default": False},
            "resolv_conf": {"type": "str", "default": ""},
            "controller_time": {"type": "float", "default": 0},
            "timeout": {"type": "float", "default": 10},
            "cloud_init_timeout": {"type": "float", "default": 0},
            "api_endpoint": {"type": "str"},
            "connect_timeout": {"type": "float", "default": 3},
            "api_name": {"type": "str", "default": ""},
            "migrates_endpoint": {"type": "bool", "default": False},
            "api_timeout": {"type": "float", "default": 30},
            "gather_subset": {
                "type": "list",
                "elements": "str",
                "choices": ["distribution", "network", "platform"],
                "default": [],
            },
            "root": {"type": "path", "default": "/"},
            **CREDENTIALS_OPTION,
            **PROXY_OPTIONS,
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
