# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Actions of site.yml on each host, in order, compared with a stored trace for each situation.

``UPDATE_TRACES=1`` rewrites the traces. Each line of the diff is a change of behavior.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from etcd_release import make_release
from preflight_facts import facts
from site_trace import trace
from stubbed_site import Site

TRACES = Path(__file__).with_name("traces")
PLAYBOOK = "- name: Run the playbook\n  ansible.builtin.import_playbook: gpulab.kubernetes.{}\n"
NUMBERS = {"cp1": 11, "gpu1": 12, "gpu2": 13, "gpu3": 14, "cp2": 15, "cp3": 16}
DRIVER = "595.91.07"
A100 = "0x20b0"
KUBECONFIG = "clusters: [{cluster: {server: https://192.168.7.11:6443}}]\nusers: [{user: {token: t}}]\n"
CA = "-----BEGIN CERTIFICATE-----\n"
FURTHER = (
    *("api_reach_info", "cluster_lease", "cluster_state", "containerd_info", "gpu_plugins_info", "kubeadm_images"),
    *(
        "etcd_info",
        "etcd_member",
        "etcd_snapshot",
        "host_reset",
        "hosts_file",
        "kubeadm_control_plane",
        "kubeadm_endpoint",
        "cluster_backup",
        "kubeadm_init",
        "kubeadm_upgrade",
        "kubeadm_upgrade_info",
        "kubelet_certificate",
        "node_pools",
        "node_removal",
        "node_removal_info",
        "temporary_file",
    ),
)
KERNEL_PACKAGES = {
    "image": "linux-image-6.1.0-40-amd64",
    "meta": "linux-image-amd64",
    "headers": ["linux-headers-6.1.0-40-amd64", "linux-headers-amd64"],
    "compiler": "gcc-12",
    "newer_without_headers": [],
    "headers_found": False,
}
READING: dict[str, Any] = {
    "pci": [],
    "packages": {},
    "driver": {},
    "kernel": {},
    "swap": [],
    "held": {},
    "containerd_files": [],
    "certificates": {},
    "apt_keys": [],
    "nvidia_smi": {},
}
CLUSTER: dict[str, Any] = {
    "action": "finished",
    "reason": "",
    "advice": "",
    "api": "alive",
    "interrupted": False,
    "version": "",
    "texts": {
        "ClusterConfiguration": "apiServer: {}\nkind: ClusterConfiguration\n",
        "KubeletConfiguration": "kind: KubeletConfiguration\nmaxPods: 110\n",
    },
    "daemonsets": [],
    "gpu_managers": ["device_plugin"],
    "gpus_twice": {},
    "error": "",
}
REPORT = {"kept": True, "hosts": {}, "totals": {}, "problems": []}
CHANGING = [
    *(
        "apt_packages",
        "apt_source",
        "hosts_file",
        "kernel_settings",
        "kubeadm_join",
        "managed_files",
        "nvidia_cdi_spec",
    ),
    "swap",
]
CONTAINERD = (
    "version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]\n"
    "runtime_type = 'io.containerd.runc.v2'\noptions = {SystemdCgroup = true}\n"
)


class Story(Site):  # type: ignore[misc]
    """Cluster of a control plane and workers with GPUs."""

    def __init__(self, place: Path, *, bare: Sequence[str] = (), finished: Sequence[str] = ()) -> None:
        names = [name for name in NUMBERS if name in {*bare, *finished}]
        super().__init__(place, [name for name in names if name.startswith("gpu")], FURTHER)
        self.control_planes = [name for name in names if name.startswith("cp")]
        self.playbook = "site"
        self.options: tuple[str, ...] = ()
        self.settings: dict[str, Any] = {
            "ansible_become": False,
            "cluster_report_prefix": "",
            "_etcd_directory": str(place / "etcd/etcd-3.6.6"),
            "etcd_tools_version": "3.6.6",
            "etcd_tools_release_url": f"file://{place}/releases",
            "etcd_tools_sha256": make_release(place / "releases", "3.6.6"),
            "__cluster_api_file": {"content": base64.b64encode(KUBECONFIG.encode()).decode()},
        }
        self.answer("preflight_info", {"repositories": []})
        packages = {"kubernetes": "37.0.2", "yaml": "6.0.2"}
        reach = {"reach": "answered", "error": "", "python": "/usr/bin/python3", "packages": packages}
        self.answer("api_reach_info", reach)
        self.answer("cluster_lease", {"held": True, "api_silent": False})
        self.answer("gpu_host_info", READING)
        self.answer("gpu_plugins_info", {"plugins": [], "policies": [], "problems": []})
        self.answer("gpu_pods_info", {"pods": []})
        self.answer("gpu_sharing_info", {"nodes": {}})
        members = [{"id": "1", "name": "cp1", "health": "healthy", "learner": False}]
        counts = {"voters": 1, "healthy": 1, "quorum": 1, "has_quorum": True, "may_fail": 0}
        self.answer("etcd_info", {"members": members, **counts})
        self.answer("etcd_snapshot", {"changed": True, "snapshot": {"revision": 7}})
        self.answer("kubeadm_join_info", {"token": "t", "ca_certificates": CA, "ca_cert_hashes": ["sha256:0"]})
        self.answer("managed_service", {"actions": [], "restart": False})
        self.answer("nvidia_smi_info", {"state": "ok", "driver_version": DRIVER, "gpus": []})
        self.answer("k8s_info", {"resources": []})
        self.answer("containerd_info", {"config_error": "", "version": "2.3.6", "config_dump": CONTAINERD, "files": []})
        self.answer("gpu_acceptance", {"problems": [], "report": REPORT, "summary": [], "free_gpus": {}})
        for name in [*bare, *finished]:
            self.host(name, finished=name in finished)

    def host(self, name: str, finished: bool, deferred: str = "") -> None:
        found = facts(name, NUMBERS[name], 2 if name.startswith("gpu") else 0)
        found["gpus"] = [{**gpu, "device_id": A100} for gpu in found["gpus"]]
        found["os"] |= {"id": "debian", "codename": "bookworm", "repository_name": "debian12"}
        found |= {"nvswitches": 0, "network_manager": False, "kernel_packages": KERNEL_PACKAGES, "deferred": deferred}
        address = {"address": f"192.168.7.{NUMBERS[name]}"}
        found["ansible_facts"] = {"nodename": name, "kernel": found["kernel"], "default_ipv4": address}
        if finished:
            role = "worker" if found["gpus"] else "control_plane"
            found["cluster"] |= {"role": role, "begun": True, "finished": True, "server": "https://192.168.7.11:6443"}
            found["cluster"]["kubelet_configuration"] = CLUSTER["texts"]["KubeletConfiguration"]
            found["control_plane"] = CLUSTER if role == "control_plane" else {}
            found["nvidia_driver"] |= {"loaded_version": DRIVER, "origin": "cuda_repository"} if found["gpus"] else {}
        else:
            for module in CHANGING:
                self.answer(module, {"changed": True, "missing": []}, host=name)
            toolkit = {"changed": True, "services": ["containerd"]}
            self.answer("managed_files", toolkit, "50-nvidia.toml", name)
            self.answer("managed_service", {"changed": True, "actions": ["start"], "restart": False}, host=name)
            self.answer("nvidia_kernel_module", {"changed": True, "reboot_required": False}, host=name)
            self.answer("kubeadm_init", {"changed": True}, host=name)
            joins = {"changed": True, "joined": False, "resumed": False}
            self.answer("kubeadm_join", joins, '"control_plane": true', name)
        self.answer("preflight_info", found, "gather_subset", name)


def bare(place: Path) -> Story:
    """Three bare machines become a cluster."""
    return Story(place, bare=("cp1", "gpu1", "gpu2"))


def finished(place: Path) -> Story:
    """Nothing is pending: a second run reads the hosts and the cluster, and changes nothing."""
    return Story(place, finished=("cp1", "gpu1"))


def worker_joins(place: Path) -> Story:
    """gpu2 is new in the inventory of a finished cluster."""
    return Story(place, bare=["gpu2"], finished=("cp1", "gpu1"))


def worker_joins_by_name(place: Path) -> Story:
    """gpu2 is new in the inventory of a finished cluster whose endpoint is a name."""
    return by_name(worker_joins(place))


def by_name(story: Story) -> Story:
    """Let the endpoint of the cluster be a name."""
    kubeconfig = KUBECONFIG.replace("192.168.7.11", "api.lab.internal")
    story.settings["__cluster_api_file"] = {"content": base64.b64encode(kubeconfig.encode()).decode()}
    for answer in story.answers:
        cluster = answer["result"].get("cluster", {})
        if cluster.get("finished"):
            cluster |= {"endpoint": "api.lab.internal:6443", "name": "lab", "api_name": "api.lab.internal", "ca": CA}
    return story


def three_bare(place: Path) -> Story:
    """Three bare machines become the control planes of a cluster, and another one its worker."""
    return Story(place, bare=("cp1", "cp2", "cp3", "gpu1"))


def one_becomes_three(place: Path) -> Story:
    """cp2 and cp3 are new in the group of control planes. An earlier run has left a member of etcd."""
    story = by_name(Story(place, bare=("cp2", "cp3"), finished=("cp1", "gpu1")))
    left = {"id": "5", "name": "", "peer_urls": ["https://192.168.7.15:2380"], "health": "unstarted", "learner": True}
    healthy = [{"id": str(number), "name": f"cp{number}", "health": "healthy", "learner": False} for number in (1, 2)]
    counts = {"voters": 1, "healthy": 1, "quorum": 1, "has_quorum": True, "may_fail": 0}
    story.answer("etcd_info", {"members": [healthy[0], left], **counts}, host="cp2")
    counts = {"voters": 2, "healthy": 2, "quorum": 2, "has_quorum": True, "may_fail": 0}
    story.answer("etcd_info", {"members": healthy, **counts}, host="cp3")
    return story


def third_is_lost(place: Path) -> Story:
    """The same, and cp3 is lost before it joins: cp2 stays in the cluster."""
    story = one_becomes_three(place)
    lost = {"unreachable": True, "msg": "No route to host"}
    story.answer("kubeadm_join", lost, host="cp3")
    return story


def first_is_replaced(place: Path) -> Story:
    """replace_node.yml: cp1 is a new machine, and the former one is off."""
    story = by_name(Story(place, bare=["cp1"], finished=("cp2", "cp3", "gpu1")))
    story.playbook, story.settings["node"] = "replace_node", "cp1"
    node = {"name": "cp1", "uid": "u-1", "ready": False, "control_plane": True, "host": "cp1"}
    node |= {"addresses": ["192.168.7.11"], "machine_id": "f" * 32}
    target: dict[str, Any] = {"name": "cp1", "host": "cp1", "claimed": "cp1", "node": node, "addresses": []}
    target |= {"removed": None, "pods": [], "problem": ""}
    story.answer("node_removal_info", {"targets": [target], "volumes": [], "stranded": []})
    story.answer("node_removal", {"changed": True})
    health = {"cp1": "unhealthy", "cp2": "healthy", "cp3": "healthy"}
    members = [{"id": name, "name": name, "health": health[name], "learner": False} for name in health]
    counts = {"voters": 3, "healthy": 2, "quorum": 2, "has_quorum": True, "may_fail": 0}
    story.answer("etcd_info", {"members": members, **counts})
    return story


def driver_pending(place: Path) -> Story:
    """The kernel module of the driver has to be loaded on gpu1, a node in use."""
    story = finished(place)
    story.answer("nvidia_kernel_module", {"changed": True, "reboot_required": False}, host="gpu1")
    return story


def containerd_pending(place: Path, *workers: str) -> Story:
    """A setting of containerd changes, both workers run a pod with a GPU, and cluster_disruption_policy is drain."""
    workers = workers or ("gpu1", "gpu2")
    story = Story(place, finished=("cp1", *workers))
    for name in workers:
        story.answer("managed_files", {"changed": True}, "/etc/containerd/config.toml", name)
        story.answer(
            "managed_service", {"changed": True, "actions": ["restart"], "restart": True}, '"containerd"', name
        )
        # The plan reads the service before the configuration changes.
        story.answer("managed_service", {"actions": [], "restart": False}, '"when_missing": "changed"', name)
        pod = {"namespace": "team", "name": f"train-{name}", "empty_dirs": []}
        story.answer("gpu_pods_info", {"pods": [pod]}, host=name)
    story.settings["cluster_disruption_policy"] = "drain"
    return story


def lost_host(place: Path) -> Story:
    """The same, and gpu1 is lost after the check: the others are still changed one after the other."""
    story = containerd_pending(place, "gpu1", "gpu2", "gpu3")
    story.answer("kernel_settings", {"unreachable": True, "msg": "No route to host"}, host="gpu1")
    return story


def containerd_refused(place: Path) -> Story:
    """A setting of containerd changes, gpu1 runs a pod with a GPU, and cluster_disruption_policy is the default."""
    story = containerd_pending(place, "gpu1")
    del story.settings["cluster_disruption_policy"]
    return story


def containerd_deferred(place: Path) -> Story:
    """The same with the policy defer: gpu1 is left for a later run, and verified with what it has."""
    story = containerd_pending(place, "gpu1", "gpu2")
    story.answer("gpu_pods_info", {"pods": []}, host="gpu2")
    story.settings["cluster_disruption_policy"] = "defer"
    return story


def deferral_over(place: Path) -> Story:
    """Nothing is pending any more on gpu1, whose change an earlier run has deferred: its record is removed."""
    story = finished(place)
    entry = {"since": "2026-11-01T10:00:00Z", "change": "a restart", "users": ["team/train"], "pending": "containerd"}
    story.host("gpu1", finished=True, deferred=json.dumps({"disruption": entry}))
    return story


def left_cordoned(place: Path) -> Story:
    """An earlier run could not uncordon gpu1, because the API no longer answered. Nothing else is pending."""
    story = finished(place)
    story.answer("gpu_sharing_info", {"nodes": {"gpu1": {"differs": False, "drained": True, "summary": ""}}})
    return story


def sharing_pending(place: Path) -> Story:
    """Each GPU of gpu1 is to be partitioned into MIG devices."""
    story = finished(place)
    story.settings["cluster_gpu_sharing"] = {"mode": "mig", "layout": ["3g.20gb", "3g.20gb"]}
    gpus = [{"index": index, "profiles": ["3g.20gb", "3g.20gb"], "create": "9:0,9:4"} for index in range(2)]
    story.answer("nvidia_mig", {"changed": True, "differs": True, "gpus": gpus})
    shared = {"differs": True, "drained": False, "summary": "gpu1 nvidia.com/gpu 2 -> nvidia.com/mig-3g.20gb 4"}
    story.answer("gpu_sharing_info", {"nodes": {"gpu1": shared}})
    story.answer("gpu_sharing", {"changed": True})
    return story


def control_plane_pending(place: Path) -> Story:
    """A flag of the API server changes: it is shown, but not applied, and the run continues."""
    story = finished(place)
    flags = [{"name": "event-ttl", "value": "2h"}]
    story.settings["kubeadm_cluster_configuration"] = {"apiServer": {"extraArgs": flags}}
    changes = {"changes": ["kube-apiserver: --event-ttl (not set) -> 2h"], "edits": [], "restarted": ["kube-apiserver"]}
    story.answer("kubeadm_control_plane", {"pending": True, **changes})
    return story


def control_plane_changed(place: Path) -> Story:
    """The same in check mode with cluster_control_plane_gap=allow: the lease is held, and etcd's tools are needed."""
    story = control_plane_pending(place)
    story.settings["cluster_control_plane_gap"] = "allow"
    story.answer("kubeadm_control_plane", {"changed": True, "changes": [], "restarted": []}, '"restart": true')
    story.options = ("--check",)
    return story


def kubelet_pending(place: Path) -> Story:
    """A setting of kubelets changes: one node after the other, and then the configuration in the cluster."""
    story = finished(place)
    story.settings["kubeadm_kubelet_configuration"] = {"maxPods": 50}
    story.answer("managed_files", {"changed": True}, "/var/lib/kubelet/config.yaml")
    story.answer("managed_service", {"changed": True, "actions": ["restart"], "restart": True}, '"kubelet"')
    story.answer("k8s", {"changed": True})
    return story


def certificates_renewed(place: Path) -> Story:
    """renew_certificates.yml in check mode: no certificate has expired."""
    story = finished(place)
    story.playbook, story.options = "renew_certificates", ("--check",)
    story.settings["cluster_api_endpoint"] = "192.168.7.11:6443"
    story.answer("kubelet_certificate", {"expired": False, "token_left": False})
    story.answer("kubeadm_control_plane", {"changes": [], "restarted": []})
    story.answer("kubeadm_control_plane", {"changed": True}, '"certificates": "all"')
    return story


def certificates_expired(place: Path) -> Story:
    """The same for a cluster that was off until all certificates had expired."""
    story = certificates_renewed(place)
    renewed = {"changed": True, "changes": ["certificates: renewed"], "restarted": ["etcd"]}
    story.answer("kubeadm_control_plane", renewed, '"certificates": "expired"')
    story.answer("kubelet_certificate", {"changed": True, "expired": True, "token_left": False})
    return story


def node_removed(place: Path) -> Story:
    """remove_node.yml -e node=gpu2: its pods are evicted, the node is deleted, and the host is reset."""
    story = Story(place, finished=("cp1", "gpu1", "gpu2"))
    story.playbook = "remove_node"
    story.settings["node"] = "gpu2"
    story.answer("host_reset", {"changed": True, "kept": [], "cluster": {}})
    for answer in story.answers:
        if answer["result"].get("cluster", {}).get("finished"):
            answer["result"]["cluster"] |= {"ca_hashes": ["sha256:0"], "node_name": answer["host"]}
    node = {"name": "gpu2", "uid": "u-2", "ready": True, "control_plane": False, "host": "gpu2"}
    node |= {"addresses": ["192.168.7.13"], "machine_id": f"{13:032x}"}
    target: dict[str, Any] = {"name": "gpu2", "host": "gpu2", "claimed": "gpu2", "node": node}
    story.answer(
        "node_removal_info",
        {
            "targets": [{**target, "addresses": [], "removed": None, "pods": [], "problem": ""}],
            "volumes": [],
            "stranded": [],
        },
    )
    story.answer("node_maintenance", {"changed": True, "jobs": {}})
    story.answer("node_removal", {"changed": True})
    return story


def node_removal_refused(place: Path) -> Story:
    """The same while a pod uses a GPU of gpu2: nothing changes."""
    story = node_removed(place)
    story.answer("gpu_pods_info", {"pods": [{"namespace": "team", "name": "train", "empty_dirs": []}]}, host="gpu2")
    return story


def node_lost(place: Path) -> Story:
    """The same after the machine of gpu2 has failed: its pods have ended, and its node is deleted."""
    story = node_removed(place)
    story.answer("preflight_info", {"unreachable": True, "msg": "No route to host"}, host="gpu2")
    for answer in story.answers:
        for target in answer["result"].get("targets", ()):
            target["node"]["ready"] = False
    return story


def node_removal_interrupted(place: Path) -> Story:
    """An earlier run has deleted the node, and was interrupted before the host was reset."""
    story = node_removed(place)
    for answer in story.answers:
        for target in answer["result"].get("targets", ()):
            target |= {"removed": {"name": "gpu2", "host": "gpu2", "machine_id": f"{13:032x}"}, "node": None}
    return story


def node_removed_before(place: Path) -> Story:
    """A second run: gpu2 is not a node, and its host was reset."""
    story = node_removed(place)
    story.host("gpu2", finished=False)
    for answer in story.answers:
        for target in answer["result"].get("targets", ()):
            target["node"] = None
    return story


NEXT = "1.37.2"
CONFIGURATION = "kind: ClusterConfiguration\nkubernetesVersion: v{}\n"


def upgrade_planned(place: Path, *upgraded: str, playbook: str = "upgrade_cluster") -> Story:
    """upgrade_cluster.yml in check mode: the plan, and nothing else."""
    story = Story(place, finished=("cp1", "gpu1", "gpu2"))
    story.playbook, story.options = playbook, ("--check",)
    story.settings["cluster_kubernetes_version"] = NEXT
    story.settings["cluster_disruption_policy"] = "defer"
    running = {name: NEXT if name in upgraded else "1.36.5" for name in ("cp1", "gpu1", "gpu2")}
    for answer in story.answers:
        found = answer["result"]
        if "cluster" in found and answer["host"] in running:
            found["installed"] = dict.fromkeys(("kubelet", "kubeadm"), f"{running[answer['host']]}-1.1")
        if found.get("control_plane"):
            texts = {**CLUSTER["texts"], "ClusterConfiguration": CONFIGURATION.format(running["cp1"])}
            found["control_plane"] = {**CLUSTER, "version": f"v{running['cp1']}", "texts": texts}
    nodes = [{"name": name, "kubelet": f"v{version}", "ready": True} for name, version in running.items()]
    cluster = {"error": "", "nodes": nodes, "pods": [], "groups": [], "old_objects": []}
    host = {"components": {}, "free": 2**20, "etcd_data": 0, "interrupted": ""}
    story.answer("kubeadm_upgrade_info", {"host": host})
    tags = {"kube-apiserver": f"v{running['cp1']}", "etcd": "3.6.8-0"}
    own = {"host": {**host, "components": tags}, "cluster": cluster, "etcd": [], "etcd_error": ""}
    story.answer("kubeadm_upgrade_info", own, host="cp1")
    story.answer("kubeadm_upgrade", {"changes": []})
    story.answer("kubeadm_images", {"changed": True, "pulled": ["registry.k8s.io/kube-proxy"]})
    story.answer("kubeadm_control_plane", {"lost": []})
    story.answer("cluster_backup", {"archive": "", "recipients": [], "places": []})
    story.answer("nvidia_driver_users_info", {"users": [], "services": []})
    for name, version in running.items():
        status = {"nodeInfo": {"kubeletVersion": f"v{version}"}, "allocatable": {}}
        found = {"metadata": {"name": name}, "status": status}
        story.answer("k8s_info", {"resources": [found]}, f'"name": "{name}"')
    return story


def upgrade_resumed(place: Path) -> Story:
    """The same without --check after an interruption: cp1 and gpu1 have the new version, and gpu2 runs a job."""
    story = upgrade_planned(place, "cp1", "gpu1")
    story.options = ()
    pod = {"namespace": "team", "name": "train", "uid": "u", "empty_dirs": []}
    story.answer("gpu_pods_info", {"pods": [pod]}, host="gpu2")
    return story


def upgrade_left(place: Path) -> Story:
    """site.yml finds gpu2 behind, whose job still runs, with the default policy: it is left, and verified."""
    story = upgrade_resumed(place)
    story.playbook = "site"
    del story.settings["cluster_disruption_policy"]
    return story


def silent_host(place: Path) -> Story:
    """gpu1 does not answer: nothing changes on any host."""
    story = Story(place, bare=("cp1", "gpu1"))
    story.answer("preflight_info", {"unreachable": True, "msg": "No route to host"}, host="gpu1")
    return story


def failing_host(place: Path) -> Story:
    """The driver can't be installed on gpu1: cp1 becomes a cluster, and the verification knows of gpu1."""
    story = Story(place, bare=("cp1", "gpu1"))
    story.answer("apt_packages", {"failed": True, "msg": "There is no such package"}, "nvidia-driver-cuda", "gpu1")
    story.answer("nvidia_dkms_info", {"reason": [], "log": ""})
    return story


SITUATIONS = [
    *(
        bare,
        finished,
        worker_joins,
        worker_joins_by_name,
        three_bare,
        one_becomes_three,
        third_is_lost,
        first_is_replaced,
        driver_pending,
        containerd_pending,
        lost_host,
        containerd_refused,
    ),
    *(containerd_deferred, deferral_over, left_cordoned),
    *(sharing_pending, silent_host, failing_host),
    *(node_removed, node_removal_refused, node_lost, node_removal_interrupted, node_removed_before),
    *(upgrade_planned, upgrade_resumed, upgrade_left),
    *(control_plane_pending, control_plane_changed, kubelet_pending, certificates_renewed, certificates_expired),
]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_site_matches_its_stored_trace(tmp_path: Path, situation: Callable[[Path], Story]) -> None:
    story = situation(tmp_path)
    status, output = story.play(PLAYBOOK.format(story.playbook), story.settings, *story.options)
    found = f"# {situation.__doc__}\n\n{trace(story.events())}\nExit status {status}\n"
    path = TRACES / f"{situation.__name__}.txt"
    if os.environ.get("UPDATE_TRACES"):
        path.write_text(found)
    told = path.read_text().splitlines()
    difference = unified_diff(told, found.splitlines(), path.name, "this run", n=5, lineterm="")
    assert found.splitlines() == told, "\n".join([*difference, f"The output ends with:\n{output[-3000:]}"])


def test_a_silent_host_that_uses_the_api_is_reported(tmp_path: Path) -> None:
    story = finished(tmp_path)
    story.settings["cluster_api_delegate"] = "bastion"
    story.answer("api_reach_info", {"unreachable": True, "msg": "No route to host"})
    status, output = story.play(PLAYBOOK.format("site"), story.settings)
    assert status != 0 and "The host bastion, from which the API is used, can't be reached" in " ".join(output.split())


@pytest.mark.parametrize(("host", "claims"), [("gpu2", True), ("", False)])
def test_only_a_host_of_the_inventory_claims_the_node_that_leaves(tmp_path: Path, host: str, claims: bool) -> None:
    story = node_removed(tmp_path)
    (found,) = [answer["result"] for answer in story.answers if answer["module"] == "node_removal_info"]
    found["targets"][0]["host"] = host
    status, output = story.play(PLAYBOOK.format(story.playbook), story.settings)
    assert status == 0, output
    calls = [event for event in story.events() if event.get("module") == "node_maintenance"]
    assert calls and all(("identity" in call["args"]) is claims for call in calls)
