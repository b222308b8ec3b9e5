# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names that are set by mistake instead of this collection's variables: guesses, and names from other projects.

Data only. A name that is also a variable of this collection does not belong here.
"""

from __future__ import annotations

# Our variable -> names that are set instead, including those of Kubespray, k3s-ansible, DeepOps, NVIDIA's role
# nvidia_driver and Jeff Geerling's roles.
_NAMES = {
    "cluster_kubernetes_version": "kubernetes_version k8s_version kube_version kubernetes_release k8s_release "
    "kubeadm_version kubeadm_kubernetes_version kubelet_version kubectl_version k3s_version rke2_version "
    "cluster_version kubernetes_version_rhel_package",
    "cluster_pod_network": "pod_cidr pods_cidr pod_network pod_network_cidr pod_subnet cluster_cidr cluster_pod_cidr "
    "cluster_pod_subnet kube_pods_subnet kube_pod_subnet kubeadm_pod_network kubeadm_pod_network_cidr "
    "kubernetes_pod_network kubernetes_pod_network_cidr k8s_pod_network_cidr flannel_network",
    "cluster_service_network": "service_cidr services_cidr service_network service_subnet cluster_service_cidr "
    "cluster_service_subnet kube_service_addresses kube_service_subnet kubeadm_service_network "
    "kubernetes_service_cidr",
    "cluster_network_plugin": "cni cni_plugin network_plugin pod_network_plugin kube_network_plugin cluster_cni "
    "cluster_network cluster_cni_plugin kubeadm_cni kubernetes_cni kubernetes_network_plugin k8s_network_plugin",
    "cluster_dns_domain": "cluster_domain cluster_dns dns_domain kubernetes_dns_domain kube_dns_domain",
    "cluster_api_endpoint": "control_plane_endpoint cluster_endpoint cluster_control_plane_endpoint api_endpoint "
    "apiserver_endpoint kubeadm_control_plane_endpoint kubernetes_api_endpoint cluster_api_address "
    "loadbalancer_apiserver kubernetes_apiserver_advertise_address",
    "cluster_api_name": "apiserver_loadbalancer_domain_name api_name cluster_api_hostname",
    "cluster_node_name": "node_name k8s_node_name kube_override_hostname",
    "cluster_node_address": "node_ip node_address access_ip cluster_node_ip kubelet_node_ip k8s_node_ip",
    "cluster_node_labels": "node_labels k8s_node_labels kubernetes_node_labels",
    "cluster_node_taints": "node_taints k8s_node_taints kubernetes_node_taints",
    "cluster_expected_gpus": "expected_gpus gpus num_gpus n_gpus gpu_count gpu_number gpus_per_node cluster_gpus "
    "cluster_gpu_count",
    "cluster_http_proxy": "http_proxy proxy_http cluster_proxy docker_http_proxy containerd_http_proxy",
    "cluster_https_proxy": "https_proxy proxy_https docker_https_proxy containerd_https_proxy",
    "cluster_no_proxy": "no_proxy additional_no_proxy docker_no_proxy containerd_no_proxy",
    "cluster_kubeconfig": "kubeconfig kubeconfig_path kubeconfig_file kubeconfig_localhost kubeadm_kubeconfig",
    "cluster_disruption_policy": "disruption_policy cluster_drain drain_policy drain_nodes",
    "cluster_gpu_manager": "gpu_manager gpu_operator gpu_operator_enabled gpu_operator_enable "
    "deepops_gpu_operator_enabled cluster_gpu_operator nvidia_gpu_operator_enabled install_gpu_operator",
    "cluster_storage": "storage_class cluster_storage_class local_path_provisioner_enabled "
    "local_path_enabled nfs_cache_enabled",
    "kubeadm_kubelet_extra_args": "kubelet_extra_args kubernetes_kubelet_extra_args cluster_kubelet_extra_args",
    "kubeadm_kubelet_configuration": "kubelet_configuration kubelet_config kubelet_max_pods kubelet_config_extra_args "
    "kubeadm_max_pods kubernetes_config_kubelet_configuration cluster_max_pods",
    "kubeadm_kube_proxy_configuration": "kube_proxy_mode kubeadm_kube_proxy_mode kube_proxy_config",
    "kubeadm_cluster_configuration": "kubeadm_config kubeadm_extra_config kubernetes_config_cluster_configuration "
    "kubeadm_apiserver_cert_extra_sans supplementary_addresses_in_ssl_keys",
    "kubeadm_image_repository": "kube_image_repo kubernetes_image_repository k8s_image_repository image_repository",
    "kubeadm_ignore_preflight_errors": "kubernetes_ignore_preflight_errors ignore_preflight_errors",
    "containerd_cri_settings": "containerd_config containerd_settings containerd_extra_args "
    "containerd_additional_runtimes",
    "containerd_registry_mirrors": "registry_mirrors containerd_registries_mirrors containerd_mirrors "
    "containerd_insecure_registries docker_registry_mirror cluster_registry_mirrors registries_config_yaml",
    "containerd_registry_credentials": "containerd_registry_auth registry_credentials containerd_registries_auth",
    "nvidia_driver_version": "driver_version driver_branch gpu_driver_version nvidia_version nvidia_driver_branch "
    "nvidia_driver_release nvidia_driver_package_version gpu_driver nvidia_driver nvidia_branch cluster_driver_version "
    "nvidia_gpu_driver_version",
    "nvidia_driver_source": "nvidia_driver_ubuntu_install_from_cuda_repo nvidia_driver_repository driver_source "
    "nvidia_driver_type install_nvidia_driver nvidia_driver_install cluster_driver_source",
    "nvidia_driver_modules": "nvidia_driver_open nvidia_open_kernel_modules nvidia_driver_kernel_modules "
    "nvidia_kernel_module_type nvidia_driver_module_type",
    "nvidia_driver_persistence": "nvidia_driver_persistence_mode_on nvidia_persistence_mode nvidia_persistenced",
    "nvidia_driver_reboot": "allow_reboot cluster_reboot cluster_allow_reboot nvidia_reboot "
    "nvidia_driver_skip_reboot nvidia_driver_allow_reboot driver_reboot host_reboot gpu_reboot",
    "cluster_gpu_sharing": "gpu_sharing gpu_time_slicing time_slicing nvidia_sharing "
    "nvidia_time_slicing gpu_mps gpu_mig mig_strategy mig_profile nvidia_mig nvidia_driver_mig nvidia_mig_profile "
    "cluster_mig gpu_replicas",
    "cuda_toolkit_versions": "cuda_version cuda_versions cuda_toolkit_version nvidia_cuda_version cuda_toolkit "
    "cluster_cuda_version",
    "nvidia_container_toolkit_version": "container_toolkit_version nvidia_toolkit_version "
    "nvidia_container_runtime_version",
    "docker_daemon_settings": "docker_daemon_options docker_daemon_config docker_options docker_config",
    "torch_ddp_nodes": "torch_ddp_replicas torch_ddp_num_nodes torch_ddp_nnodes torch_ddp_workers",
    "torch_ddp_gpus_per_node": "torch_ddp_gpus torch_ddp_nproc_per_node torch_ddp_num_gpus",
    "wandb_launch_queues": "wandb_launch_queue wandb_queue launch_queue",
    "wandb_launch_entity": "wandb_entity wandb_launch_team",
    "wandb_launch_api_key": "wandb_api_key wandb_launch_key wandb_launch_token",
    "nfs_cache_server": "nfs_server_address nfs_server_ip nfs_host nfs_cache_host",
    "nfs_cache_path": "nfs_path nfs_share nfs_export nfs_cache_directory nfs_cache_export",
    "report_file": "report_path acceptance_report_path acceptance_report_file",
    "minikube_kubernetes_version": "minikube_k8s_version",
}

# Our variable -> the form of its value, if the guessed name suggests another one.
_VALUES = {
    "nvidia_driver_version": "auto, or a whole version such as 595.91.07",
    "nvidia_driver_reboot": "true lets hosts reboot if the driver needs it",
    "nvidia_driver_source": "such as cuda_repository, distribution or preinstalled",
    "nvidia_driver_modules": "auto, open or proprietary",
    "cluster_network_plugin": "flannel or external",
    "cluster_gpu_manager": "device_plugin or gpu_operator",
    "cluster_storage": "a list of local_path and nfs_cache",
    "cuda_toolkit_versions": "a list, such as ['12.9.1']",
    "cluster_kubeconfig": "a file on the controller",
    "cluster_gpu_sharing": "a mapping, such as {'mode': 'time_slicing', 'replicas': 2}",
    "kubeadm_kubelet_configuration": "a mapping, such as {'maxPods': 200}",
    "kubeadm_kube_proxy_configuration": "a mapping, such as {'mode': 'nftables'}",
    "kubeadm_cluster_configuration": "a mapping, such as {'apiServer': {'certSANs': ['api.example.org']}}",
    "containerd_cri_settings": "a mapping of settings of containerd's CRI plugin",
}

MEANT = {guess: name for name, guesses in _NAMES.items() for guess in guesses.split()}

# Name without an equivalent variable -> the reason.
NOTHING = {
    "kubeadm_token_ttl": "Each join gets a token of its own, which is valid for one hour",
    "kubeadm_token": "Each join gets a token of its own",
    "containerd_root": "containerd keeps its data in /var/lib/containerd: mount a larger disk there",
    "containerd_data_root": "containerd keeps its data in /var/lib/containerd: mount a larger disk there",
    "containerd_storage_dir": "containerd keeps its data in /var/lib/containerd: mount a larger disk there",
    "kubeadm_certificate_key": "Control planes get the certificates through the controller, not from the cluster",
    "kube_network_node_prefix": "Each node gets a /24 of cluster_pod_network",
    "nvidia_accelerator_enabled": "Hosts with NVIDIA GPUs are found without a setting",
    "nvidia_gpu_nodes": "Hosts with NVIDIA GPUs are found without a setting",
    "container_manager": "The container runtime is always containerd",
    "container_runtime": "The container runtime is always containerd",
    "kubernetes_role": "The groups control_plane and workers say what a host is",
}


def instead(name: str) -> str:
    """Return the variable to set instead, as ``name (form of the value)``."""
    return f"{name} ({_VALUES[name]})" if name in _VALUES else name
