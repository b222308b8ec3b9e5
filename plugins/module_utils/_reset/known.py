# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this collection, kubeadm and the pod network make on a host, besides what the record has. Data only."""

from __future__ import annotations

import re

OWN = "/var/lib/gpulab"
# Contents of OWN that belong to users; aside-* are the data of former clusters.
OWN_DATA = ("backups", "local-path", "etcd-snapshot", "aside-*")
# Which cluster is being reset, and what was agreed to. It is removed last.
STATE = f"{OWN}/reset.json"
ETCD = "/var/lib/etcd"
KUBELET, KUBELET_UNIT = "/var/lib/kubelet", "kubelet.service"
CONTAINERD = ("/var/lib/containerd", "/run/containerd")
# Removed with everything in them, in this order. Kubeconfigs are compared with admin.conf before.
DIRECTORIES = (
    KUBELET,
    "/var/lib/cni",
    "/run/flannel",
    "/var/log/pods",
    "/var/log/containers",
    "/etc/kubernetes",
    "/etc/gpulab",
    "/usr/local/lib/gpulab",
    "/run/gpulab",
)
# Directory -> the package with which it goes if at most empty files are in it. That of the kubelet's plugins belongs to
# none.
EMPTY = {"/usr/libexec/kubernetes": "", "/opt/containerd": "containerd.io", "/var/lib/haproxy": "haproxy"}
FILES = (
    "/etc/cni/net.d/10-flannel.conflist",
    "/opt/cni/bin/flannel",
    # Of the kubelet, for its part in a shutdown.
    "/etc/systemd/logind.conf.d/99-kubelet.conf",
)
# Files that the scripts of packages write when they are installed. The record has them as they were after that.
GENERATED = {"/etc/nvidia-container-runtime/config.toml": "nvidia-container-toolkit-base"}
CNI = "/etc/cni/net.d"
# Directories that stay, even if they are empty. dpkg knows others.
STANDING = frozenset(
    (
        *("/etc", "/opt", "/run", "/srv", "/var/lib", "/var/log", "/usr/local"),
        *(f"/usr/local/{name}" for name in ("bin", "etc", "games", "include", "lib", "sbin", "share", "src")),
        *("/etc/apt", "/etc/apt/keyrings", "/etc/systemd", "/etc/systemd/system"),
    )
)
# Managed files of releases that made no record, as patterns.
EARLIER_FILES = (
    "/etc/apt/sources.list.d/gpulab-*.sources",
    "/etc/apt/keyrings/gpulab-*.asc",
    "/etc/apt/auth.conf.d/90gpulab.conf",
    "/etc/apt/preferences.d/gpulab-*",
    "/etc/apt/apt.conf.d/60gpulab-*",
    "/etc/modprobe.d/gpulab-*.conf",
    "/etc/modules-load.d/gpulab*.conf",
    "/etc/sysctl.d/95-gpulab.conf",
    "/etc/NetworkManager/conf.d/50-gpulab.conf",
    "/etc/crictl.yaml",
    "/etc/default/kubelet",
    "/etc/profile.d/gpulab-*.sh",
    "/etc/systemd/system/*.service.d/50-gpulab-*",
    "/etc/systemd/system/gpulab-*",
    "/etc/exports.d/gpulab.exports",
    "/usr/local/sbin/gpulab-*",
)
# Packages that may be this collection's, on a host whose record does not have them.
EARLIER_PACKAGES = re.compile(
    r"kubelet|kubeadm|kubectl|cri-tools|kubernetes-cni|containerd\.io|nvidia-container-toolkit(-base)?"
    r"|libnvidia-container(1|-tools)|cuda-drivers(-\d+)?|nvidia-open(-\d+)?"
)
DRIVER_PACKAGES = re.compile(r"nvidia-(?:kernel|dkms|open|driver)\b.*|cuda-drivers\b.*")
PERSISTENCED = "nvidia-persistenced.service"
OWN_UNITS = re.compile(r"kubelet\.service|gpulab-[a-z-]+\.(?:service|timer|socket)")
# Never stopped or disabled, whatever a record contains: without them, the host can't be reached.
CONNECTION = re.compile(
    r"(?:sshd?|systemd-(?:networkd|resolved|logind)|NetworkManager|networking|dbus(?:-broker)?|ifup)(?:@.*)?"
    r"\.(?:service|socket)"
)
# Docker of this collection has its own playbook. With it stay the packages and files that its containers need.
DOCKER = "docker.service"
DOCKER_PACKAGES = re.compile(
    r"docker-.*|containerd\.io|(?:lib)?nvidia-.*|libnv.*|cuda-drivers.*|xserver-xorg-video-nvidia.*"
)
DOCKER_FILES = re.compile(
    r"/etc/(?:docker|containerd|nvidia-container-runtime|cdi|apt)/.*|.*/(?:docker|containerd)\.service\.d/.*"
    r"|/etc/modprobe\.d/gpulab-.*"
)
DOCKER_FIRST = (
    "Docker of this collection needs it. To remove it, first run gpulab.kubernetes.docker with -e docker_state=absent"
)
# Files of this collection that do not show that.
UNMARKED = frozenset({"/etc/docker/daemon.json"})
# The bridge of the pods, by flannel's plugin.
BRIDGE = "cni0"
# Name -> kind of the links of the pod network.
LINKS = {BRIDGE: "bridge", "flannel.1": "vxlan", "flannel-v6.1": "vxlan", "kube-ipvs0": "dummy"}
