# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Damaged and hostile input in place of everything that hosts, the API, pods and programs return.

Each reader returns a value or its documented error within two seconds of CPU time, and no error shows a part of a
secret. `make fuzz N=300 SEED=1` runs more examples than `make unit`.
"""

from __future__ import annotations

import base64
import copy
import io
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import kubeadm_texts
import openpgp_keys
import pytest
import report_samples
import smi_tables
import smi_texts
from ansible.errors import AnsibleError
from apiserver import Authority
from damaged import damaged, damaged_json, damaged_text
from hard_stop import hard_stop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("GPULAB_FUZZ_EXAMPLES") or 20)
SECONDS = 2.0
SECRET = "c8Zt5QpW2vX7mK4s"
PLUGINS = "ansible_collections.gpulab.kubernetes.plugins."
NOW = datetime(2026, 11, 20, 9, 30, 16, tzinfo=timezone.utc)
ETCD = json.loads(Path(__file__).with_name("fixtures").joinpath("etcd_outputs.json").read_text())
TEMPLATES = str(Path(__file__).resolve().parents[2] / "roles/report/templates")


def named(path: str) -> Callable[..., Any]:
    """A function by module and name; modules are only loaded when the function is called."""

    def call(*arguments: Any, **more: Any) -> Any:
        module, name = path.rsplit(".", 1)
        return getattr(import_module(PLUGINS + module), name)(*arguments, **more)

    return call


def through(path: str, *more: Any, **named_more: Any) -> Callable[[Any], Any]:
    return lambda text: named(path)(text, *more, **named_more)


class Campaign(NamedTuple):
    """``call`` gets a damaged sample: of a text, of an object, or of its JSON if ``as_json``."""

    call: Callable[[Any], Any]
    samples: Sequence[Any]
    as_json: bool = False


def node(purpose: str, text: str) -> dict[str, Any]:
    metadata = {"name": "gpu0", "resourceVersion": "7", "annotations": {f"gpulab.io/{purpose}": text}}
    return {"metadata": metadata, "spec": {"unschedulable": True}}


def listed(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: list(call(value))


PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
KUBECONFIG = json.dumps(
    {
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443", "certificate-authority-data": PEM}}],
        "users": [{"name": "u", "user": {"token": SECRET, "client-key-data": PEM}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "current-context": "c",
    }
)
KUBECONFIG_YAML = (
    f"clusters:\n- name: k\n  cluster:\n    server: https://10.0.0.1:6443\n    certificate-authority-data: {PEM}\n"
    f"users:\n- name: u\n  user:\n    token: {SECRET}\ncontexts:\n- name: c\n  context:\n    cluster: k\n    user: u\n"
    "current-context: c\n"
)
LEASE = {
    "metadata": {"annotations": {"gpulab.io/purpose": "x"}, "resourceVersion": "1"},
    "spec": {
        "holderIdentity": "a@b",
        "leaseDurationSeconds": 120,
        "renewTime": "2026-11-23T22:40:00.123456Z",
        "acquireTime": "2026-11-23T22:40:00Z",
    },
}
KUBECONFIG_FLOW = """clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443",
  certificate-authority-data: QUJD}}]
contexts: [{name: c, context: {cluster: c, user: 'u'}}]
current-context: c
users:
- name: u
  user:
    token: >-
      a
      b
"""
JOURNAL = "\n".join(
    json.dumps({"MESSAGE": message, "__REALTIME_TIMESTAMP": "1795000000000000", "_TRANSPORT": "kernel"})
    for message in smi_texts.MESSAGES
    if isinstance(message, str)
) or json.dumps(
    {"MESSAGE": "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."}
)
CONTAINERD = (
    'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n[plugins."io.containerd.grpc.v1.cri".containerd]\n'
    'default_runtime_name = "nvidia"\n[plugins."io.containerd.grpc.v1.cri".registry.configs."r".auth]\n'
    f'username = "u"\npassword = "{SECRET}"\n'
)
ETAB = '/srv/cache\t10.0.0.1(rw,sync,wdelay,hide,nocrossmnt,secure,root_squash)\n"/srv/a\\040b" 10.0.0.0/24(ro)\n'
MAINTENANCE = {
    "cordoned": False,
    "labels": {"nvidia.com/gpu.deploy.device-plugin": "true"},
    "data": {"services": ["dcgm.service"], "offered": {"nvidia.com/gpu": 4}},
    "failure": "",
    "policy": "cordon",
}
POOL = {"labels": {"a/b": "c"}, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
CHECKPOINT = {
    "Data": {
        "PodDeviceEntries": [
            {
                "PodUID": "0b6f7f2e-6a3d-4f0e-9b75-3a3d6f1f0c11",
                "ContainerName": "c",
                "ResourceName": "nvidia.com/gpu",
                "DeviceIDs": {"-1": ["GPU-1"]},
            }
        ],
        "RegisteredDevices": {"nvidia.com/gpu": ["GPU-1"]},
    },
    "Checksum": 1,
}
IPTABLES = (
    "*filter\n:INPUT DROP [0:0]\n:A - [0:0]\n:B - [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -j A\n-A A -j B\n"
    "-A A -j B\n"
    "-A B -j A\n-A A -p tcp -m multiport --dports 22,6443,10250:10260 -j ACCEPT\n"
    "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n"
)
NFT = {
    "nftables": [
        {"metainfo": {"version": "1.0.6"}},
        {
            "chain": {
                "family": "inet",
                "table": "filter",
                "name": "input",
                "hook": "input",
                "type": "filter",
                "prio": 0,
                "policy": "drop",
            }
        },
        {"chain": {"family": "inet", "table": "filter", "name": "more"}},
        {
            "rule": {
                "family": "inet",
                "table": "filter",
                "chain": "input",
                "expr": [
                    {
                        "match": {
                            "op": "==",
                            "left": {"payload": {"protocol": "tcp", "field": "dport"}},
                            "right": {"set": [22, {"range": [6000, 7000]}]},
                        }
                    },
                    {"jump": {"target": "more"}},
                ],
            }
        },
        {
            "rule": {
                "family": "inet",
                "table": "filter",
                "chain": "more",
                "expr": [
                    {
                        "vmap": {
                            "key": {"payload": {"protocol": "tcp", "field": "dport"}},
                            "data": {"set": [[22, {"accept": None}], [80, {"jump": {"target": "more"}}]]},
                        }
                    }
                ],
            }
        },
    ]
}
MINIKUBE = {
    "Driver": "docker",
    "CPUs": 2,
    "Memory": 4096,
    "DiskSize": 20000,
    "GPUs": "all",
    "Addons": {"ingress": True},
    "KicBaseImage": "i",
    "KubernetesConfig": {
        "KubernetesVersion": "v1.35.1",
        "ContainerRuntime": "docker",
        "CNI": "",
        "ExtraOptions": [{"Component": "kubelet", "Key": "max-pods", "Value": "5"}],
    },
}
OBJECTS = {
    "items": [
        {"kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": {}, "status": {"phase": "Running"}},
        {"kind": "PersistentVolumeClaim", "metadata": {"name": "c", "namespace": "n"}},
    ]
}
DPKG = (
    "Package: kubelet\nStatus: hold ok installed\nVersion: 1.36.4-1.1\nArchitecture: amd64\nConffiles:\n /etc/x 1\n\n"
    * 2
)
SOURCES = (
    "deb [signed-by=/etc/apt/keyrings/k.gpg arch=amd64] https://u:" + SECRET + "@pkgs.example/deb/ /\n"
    "# deb http://old.example x main\n",
    "Types: deb\nURIs: https://a.example/x\nSuites: /\nSigned-By: /x.gpg\nEnabled: yes\n",
)
PACKAGES = "Package: kubelet\nVersion: 1.36.4-1.1\nFilename: amd64/kubelet.deb\nSize: 1\nSHA256: 00\n\n" * 2
DAEMON = {
    "data-root": "/d",
    "log-opts": {"max-size": "100m"},
    "runtimes": {"nvidia": {"path": "nvidia-container-runtime", "runtimeArgs": []}},
    "features": {"cdi": True},
    "insecure-registries": ["10.0.0.1:5000"],
}
DOCKER_INFO = {
    "ServerVersion": "29.8.2",
    "Driver": "overlay2",
    "CgroupDriver": "systemd",
    "CgroupVersion": "2",
    "Runtimes": {"runc": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"}},
    "SecurityOptions": ["name=seccomp,profile=builtin"],
    "ClientInfo": {"Plugins": [{"Name": "buildx"}]},
    "LoggingDriver": "json-file",
    "CDISpecDirs": ["/etc/cdi"],
}
QUEUE = {
    "config": {
        "resource_args": {"kubernetes": {"spec": {"template": {"spec": {"containers": [{"image": "${image_uri}"}]}}}}}
    },
    "variables": [{"name": "cpu", "schema": json.dumps({"type": "integer", "minimum": 1, "maximum": 4})}],
}
TRAINING = (
    "2026-11-20T09:30:16.123456789Z epoch 1 loss 0.5\n"
    '2026-11-20T09:30:17.123456789Z {"gpulab": {"epochs": 2, "loss": 0.25, "world_size": 4}}\n'
    "2026-11-20T09:30:18Z Traceback (most recent call last):\n2026-11-20T09:30:18Z RuntimeError: NCCL error\n"
)
VERIFIED_NODE = {
    "format": 1,
    "fingerprint": "f" * 64,
    "proven_at": "2026-11-21T04:00:00Z",
    "devices": [
        {"uuid": "GPU-1", "name": "Tesla T4", "state": "proven", "pod": "gpu-1", "check_output": "Test PASSED"},
        {"uuid": "GPU-2", "name": "Tesla T4", "state": "in_use", "pod": "team/train"},
        {"uuid": "GPU-3", "name": "Tesla T4", "state": "missing", "kind": "gpu_not_given", "reason": "no pod"},
    ],
    "pods": 1,
    "isolation": {"ok": True, "saw": []},
    "problems": [{"kind": "gpu_not_given", "cause": "no pod", "where": "GPU-3", "why": "", "do": "", "host": "gpu0"}],
    "known": {"GPU-1": "Tesla T4"},
    "known_count": 3,
}
VERIFIED_NETWORK = {
    "format": 1,
    "pod_to_pod": [{"from": "gpu0", "to": "gpu1", "ok": True}],
    "service": True,
    "dns": True,
    "problems": [],
    "nodes": ["u b-gpu0"],
}
VERIFIED_FORMER = {"hosts": {"gpu0": {**VERIFIED_NODE, "gpus": {"proven": 2}}}, "network": VERIFIED_NETWORK}
NODE = {
    "metadata": {
        "name": "gpu0",
        "labels": {"node-role.kubernetes.io/control-plane": ""},
        "annotations": {"gpulab.io/inventory-host": "gpu0"},
    },
    "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "g"}]},
}
CLAIM = {"node": "gpu0", "host": "gpu0", "addresses": ["192.0.2.1"], "control_plane": False, "joined": False}
READERS = "module_utils._nvidia_smi."


class Remembered:
    """A fake API with one ConfigMap."""

    def __init__(self, name: str, key: str, text: str) -> None:
        self.stored = {"metadata": {"name": name}, "data": {key: text}}

    def items(self, *_path: str, **_query: str) -> list[Any]:
        return [self.stored]


def remembered(name: str, key: str) -> Callable[[str], Any]:
    """Return a function that reads a ConfigMap with this text and returns the record."""

    def read(text: str) -> None:
        memory = named("module_utils._acceptance.memory.Memory")(Remembered(name, key, text), {"gpu0": "u"})
        entry = memory.entry("gpu0")
        memory.changes({"gpu0": entry}, memory.network)
        assert all(len(warning) < 1000 for warning in memory.warnings)

    return read


CAMPAIGNS: dict[str, Campaign] = {
    "kubeadm token create --print-join-command": Campaign(
        named("module_utils._kubeadm.join_command.join_command"),
        [*kubeadm_texts.JOIN_FORMS.values(), kubeadm_texts.INIT, kubeadm_texts.INIT_OLD],
    ),
    "kubeadm certificate key": Campaign(
        named("module_utils._kubeadm.join_command.certificate_key"),
        [f"[upload-certs] Using certificate key:\n{kubeadm_texts.KEY}\n"],
    ),
    "kubeadm token list": Campaign(
        named("module_utils._kubeadm.tokens.tokens"),
        [kubeadm_texts.token_json(), kubeadm_texts.TOKEN_TABLE, kubeadm_texts.TOKEN_TABLE_OLD],
    ),
    "kubeadm certs check-expiration": Campaign(
        through("module_utils._kubeadm.certs.expiration", NOW), [kubeadm_texts.certs_json(), kubeadm_texts.CERTS_TABLE]
    ),
    "kubeconfig on a host": Campaign(
        named("module_utils._kubeadm.kubeconfig.read_kubeconfig"), [KUBECONFIG, KUBECONFIG_YAML, KUBECONFIG_FLOW]
    ),
    "kubeconfig on the controller": Campaign(
        named("module_utils._cluster.kubeconfig.read"), [KUBECONFIG, KUBECONFIG_YAML]
    ),
    "kubeconfig of a host in a playbook": Campaign(
        named("filter.kubeconfig.safe_kubeconfig"), [KUBECONFIG, KUBECONFIG_YAML]
    ),
    "certificates": Campaign(
        lambda text: [
            named("module_utils._kubeadm.x509.common_name")(each)
            for each in named("module_utils._kubeadm.x509.certificates")(text)
        ],
        [Authority().pem],
    ),
    "lease": Campaign(named("module_utils._kubeadm.lease.read"), [LEASE]),
    "nvidia-smi, any form": Campaign(
        named(READERS + "facts.read"),
        [
            smi_texts.xml(),
            smi_texts.QUERY_TEXT,
            smi_texts.TABLE,
            smi_texts.listed(),
            smi_texts.TOPOLOGY,
            smi_tables.OLD,
        ],
    ),
    "nvidia-smi -q -x": Campaign(named(READERS + "query.read_xml"), [smi_texts.xml()]),
    "nvidia-smi -q": Campaign(named(READERS + "query.read_text"), [smi_texts.QUERY_TEXT, smi_texts.logged()]),
    "nvidia-smi": Campaign(
        named(READERS + "table.read_table"), [smi_texts.TABLE, smi_tables.OLD, smi_tables.MIG_SHARED, smi_tables.ILL]
    ),
    "nvidia-smi -L": Campaign(named(READERS + "listing.read_list"), [smi_texts.listed(), smi_texts.MIG_LIST]),
    "nvidia-smi topo -m": Campaign(named(READERS + "topology.read_topology"), [smi_texts.TOPOLOGY]),
    "kernel journal": Campaign(named("module_utils._nvidia.xid.read_journal"), [JOURNAL]),
    "kernel ring buffer": Campaign(
        named("module_utils._nvidia.xid.read_dmesg"),
        ["[  10.5] NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"],
    ),
    "reasons in the kernel log": Campaign(
        listed(lambda text: named("module_utils._nvidia.driver_messages.read_messages")([(text, None)])),
        [
            "NVRM: The NVIDIA GPU 0000:3b:00.0 (PCI ID: 10de:2bb1)\nNVRM: installed in this system requires use of the "
            "NVIDIA open kernel modules.",
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 "
            "(PCI:0000:14:00.0)",
            "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 20034, Fatal, Link 48 LTSSM Fault Up",
        ],
    ),
    "DKMS log": Campaign(
        named("module_utils._nvidia.dkms.error_lines"),
        ["  gcc -c x.c \\\n -o x.o\nx.c:1:2: \u043e\u0448\u0438\u0431\u043a\u0430: y\nmake[1]: *** [x] Error 1\n"],
    ),
    "imports of containerd": Campaign(named("module_utils._containerd.files.import_patterns"), [CONTAINERD]),
    "configuration of containerd without secrets": Campaign(
        named("module_utils._containerd.files.masked"), [CONTAINERD]
    ),
    "configuration of containerd": Campaign(named("filter.containerd.containerd_config"), [CONTAINERD]),
    "state of containerd": Campaign(
        lambda text: named("filter.containerd.containerd_state")([{"path": "/etc/c", "text": text}]), [CONTAINERD]
    ),
    "table of NFS exports": Campaign(
        through("plugin_utils._nfs.differences", "/srv/cache", "/srv/cache 10.0.0.1(rw,sync)"),
        [ETAB],
    ),
    "page of a report": Campaign(
        through("filter.report.report_page", TEMPLATES),
        [report_samples.well(), report_samples.ill(), report_samples.hostile()],
    ),
    "JUnit XML of a report": Campaign(
        named("filter.report.report_junit"), [report_samples.well(), report_samples.ill()]
    ),
    "metrics of a report": Campaign(
        named("filter.report.report_metrics"), [report_samples.well(), report_samples.ill()]
    ),
    "summary of a report": Campaign(
        named("filter.report.report_summary"), [report_samples.well(), report_samples.measured()]
    ),
    "state of a report": Campaign(
        through("filter.report.report_state", {}, {}), [report_samples.well(), report_samples.ill()]
    ),
    "maintenance record of a node": Campaign(
        lambda text: named("module_utils._cluster.maintenance.ended")("driver-upgrade", node("driver-upgrade", text)),
        [MAINTENANCE],
        as_json=True,
    ),
    "pool of a node": Campaign(
        lambda text: named("module_utils._cluster.pools.plan")(
            node("node-pool", text), named("module_utils._cluster.pools.wanted")({"a/b": "c"}, [])
        ),
        [POOL],
        as_json=True,
    ),
    "verification of a node": Campaign(
        remembered("gpulab-acceptance.gpu0", "verification"), [VERIFIED_NODE], as_json=True
    ),
    "verification of the network": Campaign(
        remembered("gpulab-acceptance-network", "verification"), [VERIFIED_NETWORK], as_json=True
    ),
    "verification of an earlier version": Campaign(
        remembered("gpulab-acceptance", "report"), [VERIFIED_FORMER], as_json=True
    ),
    "claim to be a node": Campaign(
        lambda value: named("module_utils._cluster.identity.problem")(
            NODE, named("module_utils._cluster.identity.read")(value)
        ),
        [CLAIM],
    ),
    "quantity": Campaign(named("module_utils._cluster.quantities.read_quantity"), ["100Mi", "0.5", "1e3", "250m"]),
    "OpenPGP key, armored": Campaign(
        lambda text: named("module_utils._apt.keyring.armored")(text.encode("utf-8", "surrogatepass")),
        [named("module_utils._apt.keyring.armored")(openpgp_keys.public_key())],
    ),
    "OpenPGP key, binary": Campaign(
        lambda text: named("module_utils._apt.keyring.public_keys")(text.encode("latin-1", "replace")),
        [openpgp_keys.public_key().decode("latin-1")],
    ),
    "dpkg's status": Campaign(listed(named("module_utils._apt.dpkg.read_status")), [DPKG]),
    "versions of packages": Campaign(
        through("module_utils._versions.compare_versions", "1:2.3~rc1-4+b1"), ["1:2.3-4", "2.3~rc1"]
    ),
    "sources of apt": Campaign(through("module_utils._apt.sources_list.read_sources", "/etc/apt/x.list"), SOURCES),
    "index of packages": Campaign(
        lambda text: named("module_utils._apt.index.read_packages")(
            io.BytesIO(text.encode("utf-8", "surrogatepass")), ["kubelet"]
        ),
        [PACKAGES],
    ),
    "credentials of apt": Campaign(
        lambda text: list(
            named("module_utils._apt.credentials.problems")([{"machine": text, "username": text, "password": SECRET}])
        ),
        ["pkgs.example", "http://mirror.example:8080/debs"],
    ),
    "daemon.json": Campaign(named("module_utils._docker.settings.read_daemon"), [DAEMON], as_json=True),
    "docker info": Campaign(named("module_utils._docker.engine.read_info"), [DOCKER_INFO], as_json=True),
    "docker ps": Campaign(
        named("module_utils._docker.engine.read_containers"), [{"Names": "a", "Image": "b"}], as_json=True
    ),
    "checkpoint of the kubelet": Campaign(
        named("module_utils._nvidia.kubelet_devices.parse_checkpoint"), [CHECKPOINT], as_json=True
    ),
    "control group of a process": Campaign(
        named("module_utils._nvidia.kubelet_devices.pods_of_cgroup"),
        ["0::/kubepods.slice/kubepods-pod0b6f7f2e_6a3d_4f0e_9b75_3a3d6f1f0c11.slice/cri-1.scope\n"],
    ),
    "iptables-save": Campaign(
        lambda text: named("module_utils._host.firewall.read_iptables")(text).blocks("6443/tcp"), [IPTABLES]
    ),
    "nft -j list table": Campaign(
        lambda text: named("module_utils._host.firewall.read_nft")(text).blocks("6443/tcp"), [NFT], as_json=True
    ),
    "nft -j list chains": Campaign(through("module_utils._host.firewall.nft_tables", True), [NFT], as_json=True),
    "os-release": Campaign(
        named("module_utils._host.facts.os_release"), ["ID=ubuntu\nVERSION_ID=\"24.04\"\nPRETTY_NAME='Ubuntu'\n"]
    ),
    "swap in fstab": Campaign(
        named("module_utils._host.swap_state.fstab_swaps"),
        ["UUID=1 / ext4 defaults 0 1\n/swap\\040file none swap sw 0 0\n"],
    ),
    "fstab without swap": Campaign(
        named("module_utils._host.swap_state.without_swap"),
        ["UUID=1 / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n"],
    ),
    "sockets of the kernel": Campaign(
        lambda text: list(named("module_utils._host.network.read_sockets")(text, "tcp")),
        ["  sl  local_address rem_address   st\n   0: 0100007F:192B 00000000:0000 0A 00000000:00000000 00:0 0 0 99\n"],
    ),
    "queue of W&B Launch": Campaign(
        lambda value: named("module_utils._wandb.queue.from_api")(
            "queue", value.get("config"), "kubernetes", value.get("variables"), "DISABLED"
        ),
        [QUEUE],
    ),
    "error of W&B": Campaign(
        through("module_utils._wandb.errors.explained", "https://w.example", "team"),
        [f"HTTP 401: {{'errors': [{{'message': 'permission denied'}}]}} api_key={SECRET}"],
    ),
    "profile of minikube": Campaign(named("module_utils._minikube.profile.read_config"), [MINIKUBE], as_json=True),
    "minikube status": Campaign(
        named("module_utils._minikube.profile.read_status"),
        [{"Host": "Running", "Kubelet": "Running", "APIServer": "Running"}, [{"Host": "Stopped"}]],
        as_json=True,
    ),
    "content of minikube": Campaign(named("module_utils._minikube.profile.content"), [OBJECTS], as_json=True),
    **{
        f"{name} of etcd": Campaign(
            named(f"module_utils._etcd.members.read_{reader}"), [ETCD[version][name] for version in ETCD], as_json=True
        )
        for name, reader in {
            "list": "members",
            "health": "health",
            "status": "status",
            "alarmed status": "status",
            "snapshot": "snapshot",
        }.items()
    },
    "log of a training": Campaign(named("module_utils._training.log.summary"), [TRAINING]),
    "new lines of a training": Campaign(
        through("module_utils._training.log.news", "2026-11-20T09:30:16.123456789Z"), [TRAINING]
    ),
    "log of a verification": Campaign(
        named("module_utils._acceptance.pods.reported"), ["gpu 0 GPU-8a6f 81920 NVIDIA H100\nresult 4096\n"]
    ),
    "log of a benchmark": Campaign(
        named("module_utils._benchmark.log.read_log"),
        ['{"gpulab": {"figures": {"copy": 1.5}, "facts": {"sms": 80}}}\n'],
    ),
}


def texts_of(campaign: Campaign) -> Any:
    samples = st.sampled_from(campaign.samples)
    if isinstance(campaign.samples[0], str):
        return samples.flatmap(damaged_text)
    return samples.map(json.dumps).flatmap(damaged_json) if campaign.as_json else samples.flatmap(damaged)


def shows_secret(error: BaseException) -> bool:
    said = f"{error} {getattr(error, 'fields', '')}"
    return any(SECRET[start : start + 8] in said for start in range(len(SECRET) - 7))


def documented(error: Exception) -> bool:
    """Compare errors by name, because the collection's modules are only loaded when they are called."""
    return isinstance(error, AnsibleError) or any(kind.__name__ == "DomainError" for kind in type(error).__mro__)


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_any_damaged_input_is_read_or_refused_with_a_documented_error(name: str) -> None:
    campaign = CAMPAIGNS[name]

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(texts_of(campaign))
    def attack(given_back: Any) -> None:
        started = time.process_time()
        try:
            with hard_stop():
                campaign.call(given_back)
        except Exception as error:
            if not documented(error):
                raise
            assert not shows_secret(error)
        assert time.process_time() - started < SECONDS

    # Other tests check the results for undamaged samples; here they only have to be readable.
    for sample in campaign.samples:
        campaign.call(json.dumps(sample) if campaign.as_json else copy.deepcopy(sample))
    attack()


def test_a_hundred_thousand_gpus_and_nesting_levels_are_processed_quickly() -> None:
    read: Mapping[str, str] = {
        "many GPUs": smi_texts.xml(tuple(smi_texts.Gpu(index) for index in range(3000))),
        "many levels": "<a>" * 100_000,
        "an entity": '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;&b;">]><nvidia_smi_log>&c;</nvidia_smi_log>',
        "a long line": "| 0 " * 500_000,
    }
    for name, text in read.items():
        started = time.process_time()
        try:
            named(READERS + "facts.read")(text)
        except Exception as error:
            if not documented(error):
                raise
        assert time.process_time() - started < 5, name
