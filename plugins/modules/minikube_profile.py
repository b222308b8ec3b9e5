#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: minikube_profile
short_description: Keep a minikube profile in its declared state
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Creates the profile, starts it if it is not running, and makes the changes that C(minikube start) can make to an
    existing profile.
  - For changes that minikube can't make, it fails without changing anything and lists what would be lost if you deleted
    the profile.
  - With O(state=absent) and the driver V(none), it also removes the configuration of the pod network, the systemd
    drop-in of the kubelet, and the network interface C(bridge), which C(minikube delete) leaves on the host. Files that
    minikube did not write stay.
  - The profile belongs to the user who runs the module. For all options, 0 and empty strings mean minikube's default.
options:
  name:
    description: Name of the profile. With the driver V(none) it must be V(minikube).
    type: str
    default: minikube
  state:
    description: Whether the cluster should be running, stopped, or deleted with everything in it.
    type: str
    choices: [present, stopped, absent]
    default: present
  binary:
    description: The program minikube.
    type: str
    default: minikube
  home:
    description: Directory of C(.minikube) and C(.kube). The default is the user's home directory.
    type: path
    default: "~"
  driver:
    description: Where Kubernetes runs - in a Docker container (V(docker)) or directly on the host (V(none)).
    type: str
    choices: [docker, none]
    default: docker
  kubernetes_version:
    description: Version of Kubernetes. Required with O(state=present).
    type: str
  container_runtime:
    description: Container runtime of Kubernetes.
    type: str
    choices: [docker, containerd, cri-o]
    default: docker
  gpus:
    description: Value of C(--gpus). V(none) omits it. To minikube, V(nvidia) is the same as V(all).
    type: str
    choices: [all, nvidia, nvidia.com, none]
    default: none
  cpus:
    description: CPUs of the container.
    type: int
    default: 0
  memory:
    description: Memory of the container in MiB.
    type: int
    default: 0
  disk:
    description: Disk size in MiB. The drivers of this module do not enforce it.
    type: int
    default: 0
  network:
    description: Docker network.
    type: str
    default: ""
  cni:
    description: Pod network.
    type: str
    default: ""
  base_image:
    description: Image of the container in which Kubernetes runs.
    type: str
    default: ""
  image_repository:
    description: Registry for the Kubernetes images.
    type: str
    default: ""
  binary_mirror:
    description: URL from which the kubelet, kubeadm and kubectl are downloaded.
    type: str
    default: ""
  addons:
    description: Addons to enable, in addition to C(nvidia-device-plugin) with O(gpus). All others are disabled.
    type: list
    elements: str
    default: []
  extra_config:
    description:
      - Settings of components, as C(component.key=value).
      - Those that minikube adds itself, C(kubelet.resolv-conf) on hosts with systemd-resolved and
        C(kubelet.localStorageCapacityIsolation) on btrfs, are kept.
    type: list
    elements: str
    default: []
  options:
    description: Additional options for C(minikube start). Changing only these has no effect.
    type: list
    elements: str
    default: []
  http_proxy:
    description: URL of the proxy for C(minikube start), for C(http) URLs.
    type: str
    default: ""
  https_proxy:
    description: URL of the proxy for C(minikube start), for C(https) URLs.
    type: str
    default: ""
  no_proxy:
    description: Hosts, domains and networks to reach without a proxy.
    type: list
    elements: str
    default: []
  timeout:
    description: Time limit in seconds for each run of minikube.
    type: float
    default: 900
extends_documentation_fragment:
  - gpulab.kubernetes.attributes.full
  - gpulab.kubernetes.attributes.root
"""

EXAMPLES = r"""
- name: Run Kubernetes on this machine
  gpulab.kubernetes.minikube_profile:
    driver: none
    kubernetes_version: 1.36.4
    container_runtime: containerd
    addons: [default-storageclass, storage-provisioner]

- name: Delete the profile with everything in it
  gpulab.kubernetes.minikube_profile:
    name: minikube
    state: absent
"""

RETURN = r"""
found:
  description: Previous state of the profile - C(running), C(paused), C(stopped) or C(absent).
  returned: success
  type: str
  sample: running
actions:
  description: minikube commands that were run, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [start, "addons enable storage-provisioner"]
removed:
  description: What C(minikube delete) leaves on a host with the driver V(none), and the module removed.
  returned: success
  type: list
  elements: str
  sample: ["interface bridge", /etc/cni/net.d/1-k8s.conflist]
home:
  description: Directory that holds C(.minikube) and C(.kube).
  returned: success
  type: str
  sample: /root
kubeconfig:
  description: File that contains the context of the profile.
  returned: success
  type: str
  sample: /root/.kube/config
content:
  description: What would be lost if you deleted the profile.
  returned: if the profile exists and O(state=absent), or if a change requires its deletion
  type: str
  sample: "pods: default/notebook; persistent volume claims: none"
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._errors import DomainError
from ..module_utils._first_run import FirstRun
from ..module_utils._minikube import leftovers, profile
from ..module_utils._minikube.machine import Machine
from ..module_utils._minikube.profile import Profile
from ..module_utils._module import run


def _wanted(parameters: dict[str, Any]) -> Profile:
    values = {field.name: parameters[field.name] for field in fields(Profile)}
    lists = {name: tuple(sorted(values[name])) for name in ("addons", "extra_config")}
    return Profile(**{**values, **lists})


def _proxies(parameters: dict[str, Any]) -> dict[str, str]:
    given = {name.upper(): parameters[name] for name in ("http_proxy", "https_proxy") if parameters[name]}
    return {**given, "NO_PROXY": ",".join(parameters["no_proxy"])} if given else {}


def _present(machine: Machine, found: Profile | None, state: str, module: Any) -> list[str]:
    wanted = _wanted(module.params)
    refused = profile.fixed(found, wanted) if found else []
    if refused:
        content = machine.content()
        raise DomainError(
            f"Error while updating the minikube profile {module.params['name']}: minikube can't change "
            f"{'; '.join(map(str, refused))}. Nothing was changed. Keep the previous value, or delete the profile "
            f"with everything in it ({content}) and run again.",
            content=content,
        )
    changes = profile.changeable(found, wanted) if found else []
    if state != "running" or changes:
        machine.start(profile.start_arguments(found, wanted, module.params["options"]), _proxies(module.params))
    after = wanted if found is None and module.check_mode else machine.found()
    for verb, addon in profile.addons(after or wanted, wanted) if after is not wanted else []:
        machine.addon(verb, addon)
    return [str(change) for change in changes]


def run_module(module: Any) -> dict[str, Any]:
    home = Path(module.params["home"])
    places = {"HOME": str(home), "MINIKUBE_HOME": str(home / ".minikube"), "KUBECONFIG": str(home / ".kube" / "config")}
    # Otherwise its messages are formatted for a terminal.
    environ = {**places, "MINIKUBE_IN_STYLE": "false", "MINIKUBE_WANTUPDATENOTIFICATION": "false"}
    runner = Runner(module, timeout=module.params["timeout"], environ=environ)
    machine = Machine(runner, module.params["binary"], module.params["name"], home, module.check_mode)
    found = machine.found()
    state = machine.state() if found else "absent"
    result: dict[str, Any] = {"found": state, "home": str(home), "kubeconfig": str(machine.kubeconfig)}
    changes: list[str] = []
    removed: list[str] = []
    if module.params["state"] == "present":
        changes = _present(machine, found, state, module)
    elif module.params["state"] == "stopped":
        if state in ("running", "paused"):
            machine.stop()
    else:
        if found:
            result["content"] = machine.content()
            machine.delete()
        if (found.driver if found else module.params["driver"]) == "none":
            root = module.params["root"]
            removed = leftovers.remove(runner, root, module.check_mode, FirstRun(module, root))
    return {
        **result,
        "changed": bool(machine.done or removed),
        "actions": machine.done,
        "removed": removed,
        "diff": {
            "before_header": module.params["name"],
            "after_header": module.params["name"],
            "before": f"{state}\n",
            "after": "".join(f"{line}\n" for line in [*machine.done, *changes, *removed]) or f"{state}\n",
        },
    }


def main() -> None:
    texts = ("network", "cni", "base_image", "image_repository", "binary_mirror")
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "default": "minikube"},
            "state": {"type": "str", "choices": ["present", "stopped", "absent"], "default": "present"},
            "binary": {"type": "str", "default": "minikube"},
            "home": {"type": "path", "default": "~"},
            "driver": {"type": "str", "choices": ["docker", "none"], "default": "docker"},
            "kubernetes_version": {"type": "str"},
            "container_runtime": {"type": "str", "choices": ["docker", "containerd", "cri-o"], "default": "docker"},
            "gpus": {"type": "str", "choices": ["all", "nvidia", "nvidia.com", "none"], "default": "none"},
            **{name: {"type": "int", "default": 0} for name in ("cpus", "memory", "disk")},
            **{name: {"type": "str", "default": ""} for name in texts},
            **{name: {"type": "str", "default": "", "no_log": True} for name in ("http_proxy", "https_proxy")},
            **{
                name: {"type": "list", "elements": "str", "default": []}
                for name in ("addons", "extra_config", "options", "no_proxy")
            },
            "timeout": {"type": "float", "default": 900},
            "root": {"type": "path", "default": "/"},
        },
        required_if=[("state", "present", ["kubernetes_version"])],
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
