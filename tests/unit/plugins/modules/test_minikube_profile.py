# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""minikube_profile with profiles and settings, and a fake minikube script."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._minikube import profile
from damaged import damaged_json
from first_run_record import recorded
from hypothesis import given
from hypothesis import strategies as st
from verbosity import verbosity

# Written by minikube v1.38.1 for the driver none, without fields that are not read.
CONFIG: dict[str, Any] = {
    "Name": "minikube",
    "Memory": 3072,
    "CPUs": 2,
    "DiskSize": 20000,
    "Driver": "none",
    "KubernetesConfig": {
        "KubernetesVersion": "v1.36.4",
        "ContainerRuntime": "containerd",
        "ImageRepository": "",
        "ExtraOptions": [{"Component": "kubelet", "Key": "max-pods", "Value": "50"}],
        "CNI": "",
    },
    "Addons": {"dashboard": False, "default-storageclass": True, "storage-provisioner": True},
    "BinaryMirror": "",
    "GPUs": "",
}
RUNNING = {"Name": "minikube", "Host": "Running", "Kubelet": "Running", "APIServer": "Running", "Worker": False}
SETTINGS: dict[str, Any] = {
    "driver": "none",
    "kubernetes_version": "1.36.4",
    "container_runtime": "containerd",
    "addons": ["storage-provisioner", "default-storageclass"],
    "extra_config": ["kubelet.max-pods=50"],
}
OBJECTS = {
    "items": [
        {"kind": "Pod", "metadata": {"namespace": "default", "name": "notebook"}},
        {"kind": "Pod", "metadata": {"namespace": "kube-system", "name": "etcd-solo"}},
        {"kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "work"}},
    ]
}
NETWORK, DROP_IN = "etc/cni/net.d/1-k8s.conflist", "etc/systemd/system/kubelet.service.d/10-kubeadm.conf"
# Written by minikube v1.38.1 (pkg/minikube/cni/bridge.go, pkg/minikube/bootstrapper/bsutil/ktmpl/kubelet.go).
BRIDGE_NETWORK = """
{
  "cniVersion": "0.4.0",
  "name": "bridge",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "bridge",
      "addIf": "true",
      "isDefaultGateway": true,
      "forceAddress": false,
      "ipMasq": true,
      "hairpinMode": true,
      "ipam": {
          "type": "host-local",
          "subnet": "10.244.0.0/16"
      }
    },
    {
      "type": "portmap",
      "capabilities": {
          "portMappings": true
      }
    },
    {
       "type": "firewall"
    }
  ]
}
"""
KUBELET = """[Unit]
Wants=containerd.service

[Service]
ExecStart=
ExecStart=/var/lib/minikube/binaries/v1.36.4/kubelet --config=/var/lib/kubelet/config.yaml

[Install]
"""
KUBEADMS_KUBELET = """[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""
FLANNEL = '{"name": "cbr0", "cniVersion": "0.3.1", "plugins": [{"type": "flannel"}, {"type": "portmap"}]}'
MINIKUBE = """echo "$*" >> {here}/calls
echo "$1 $HTTP_PROXY $HTTPS_PROXY $NO_PROXY" >> {here}/proxies
case "$1" in
  status) cat {here}/status; exit 7 ;;
  start) test ! -e {here}/broken || {{ echo "X Exiting due to K8S_APISERVER_MISSING" >&2; exit 105; }} ;;
esac"""


class Host:
    def __init__(self, here: Path, programs: Any, run: Any) -> None:
        self.here, self._run = here, run
        programs.add("minikube", MINIKUBE.format(here=here))
        programs.add("kubectl", f"cat {here}/objects; test -s {here}/objects")
        self.write("objects", json.dumps(OBJECTS))
        self.write("status", json.dumps(RUNNING))

    def write(self, name: str, text: str) -> None:
        (self.here / name).write_text(text)

    def profile(self, **changes: Any) -> None:
        kubernetes = {**CONFIG["KubernetesConfig"], **changes.pop("kubernetes", {})}
        path = self.here / ".minikube/profiles/minikube/config.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**CONFIG, **changes, "KubernetesConfig": kubernetes}))

    def calls(self) -> list[str]:
        path = self.here / "calls"
        made = path.read_text().splitlines() if path.exists() else []
        return [call for call in made if not call.startswith("status")]

    def __call__(self, check: bool = False, **changes: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run(
            "minikube_profile", {"home": str(self.here), **SETTINGS, **changes}, check=check
        )
        return result


@pytest.fixture
def host(tmp_path: Path, programs: Any, run_module: Any) -> Host:
    return Host(tmp_path, programs, run_module)


def test_a_profile_is_created_as_declared(host: Host) -> None:
    result = host(check=True)
    assert (result["changed"], result["found"], result["actions"], host.calls()) == (True, "absent", ["start"], [])
    host(driver="docker", container_runtime="docker", gpus="nvidia.com", memory=4096, cpus=2, options=["--force"])
    (call,) = [call for call in host.calls() if call.startswith("start")]
    for word in (
        "--profile=minikube",
        "--driver=docker",
        "--gpus=nvidia.com",
        "--memory=4096mb",
        "--cpus=2",
        "--force",
    ):
        assert word in call.split()
    assert "--kubernetes-version=v1.36.4" in call and call.endswith(
        "--extra-config=kubelet.max-pods=50 --embed-certs=true --force"
    )


def test_a_profile_as_declared_is_not_changed(host: Host) -> None:
    host.profile()
    result = host()
    assert (result["changed"], result["found"], host.calls()) == (False, "running", [])
    assert result["kubeconfig"] == str(host.here / ".kube/config")


@pytest.mark.parametrize("status", [{**RUNNING, "Host": "Stopped"}, [{**RUNNING, "Kubelet": "Stopped"}], {}])
def test_a_stopped_profile_is_started(host: Host, status: Any) -> None:
    host.profile()
    host.write("status", json.dumps(status))
    assert host(check=True)["actions"] == ["start"]
    assert host()["changed"] and host.calls()[0].startswith("start --profile=minikube")


@pytest.mark.parametrize(
    ("there", "declared", "actions"),
    [
        ({"kubernetes": {"KubernetesVersion": "v1.35.8"}}, {}, ["start"]),
        ({}, {"extra_config": ["kubelet.max-pods=60"]}, ["start"]),
        ({}, {"binary_mirror": "https://mirror.example"}, ["start"]),
        ({}, {"addons": ["storage-provisioner"]}, ["addons disable default-storageclass"]),
        (
            {},
            {"addons": [*SETTINGS["addons"], "dashboard"]},
            ["addons enable dashboard"],
        ),
        ({}, {"cpus": 8, "memory": 9000, "disk": 1}, []),
        ({}, {"options": ["--force"]}, []),
    ],
)
def test_settings_that_minikube_can_change_are_changed(
    host: Host, there: Any, declared: Any, actions: list[str]
) -> None:
    host.profile(**there)
    assert host(check=True, **declared)["actions"] == actions
    assert host(**declared)["actions"] == actions
    assert len(host.calls()) == len(actions)


RESOLVED, BTRFS = "kubelet.resolv-conf=/run/systemd/resolve/resolv.conf", "kubelet.localStorageCapacityIsolation=false"
OTHER_RESOLVER = "kubelet.resolv-conf=/etc/resolv.conf"


def extra_options(*entries: str) -> dict[str, Any]:
    """Return a profile with these options, as minikube writes them."""
    split = [entry.replace(".", "=", 1).split("=", 2) for entry in entries]
    return {"ExtraOptions": [{"Component": one, "Key": key, "Value": value} for one, key, value in split]}


# minikube v1.38.1 adds RESOLVED if the driver is none and /run/systemd/resolve/resolv.conf exists, and BTRFS if Docker
# uses btrfs, unless the key is given. Without --extra-config, an existing profile keeps its list.
@pytest.mark.parametrize(
    ("there", "declared", "given"),
    [
        ([RESOLVED], [], None),
        ([BTRFS], [], None),
        (["kubelet.max-pods=50", RESOLVED], ["kubelet.max-pods=50"], None),
        ([RESOLVED], [RESOLVED], None),
        ([OTHER_RESOLVER], [OTHER_RESOLVER], None),
        ([RESOLVED], ["kubelet.max-pods=50"], ["kubelet.max-pods=50", RESOLVED]),
        ([BTRFS], ["kubelet.max-pods=50"], ["kubelet.max-pods=50", BTRFS]),
        (["kubelet.max-pods=50", RESOLVED], [], [RESOLVED]),
        (["kubelet.max-pods=50", "kubelet.v=2"], ["kubelet.v=2"], ["kubelet.v=2"]),
        ([RESOLVED], [OTHER_RESOLVER], [OTHER_RESOLVER]),
        ([], [RESOLVED], [RESOLVED]),
    ],
)
def test_component_settings_added_by_minikube_are_not_a_change(
    host: Host, there: list[str], declared: list[str], given: list[str] | None
) -> None:
    host.profile(kubernetes=extra_options(*there))
    assert host(extra_config=declared)["changed"] == (given is not None)
    words = [word for call in host.calls() for word in call.split() if word.startswith("--extra-config")]
    assert words == [f"--extra-config={entry}" for entry in given or []]


@pytest.mark.parametrize(("status", "words"), [(RUNNING, []), ({}, [f"--extra-config={RESOLVED}"])])
def test_a_start_keeps_component_settings_added_by_minikube(host: Host, status: Any, words: list[str]) -> None:
    host.profile(kubernetes=extra_options(RESOLVED))
    host.write("status", json.dumps(status))
    host(extra_config=[])
    assert [word for call in host.calls() for word in call.split() if "extra" in word] == words


def test_only_a_start_uses_the_proxy(host: Host) -> None:
    proxies: dict[str, Any] = {"http_proxy": "http://proxy:3128", "https_proxy": "http://other:3128"}
    host.profile()
    host.write("status", json.dumps({}))
    host(**proxies, no_proxy=["10.96.0.0/12", "::1"], addons=["storage-provisioner"])
    used = dict(line.split(" ", 1) for line in (host.here / "proxies").read_text().splitlines())
    assert used["start"] == "http://proxy:3128 http://other:3128 10.96.0.0/12,::1"
    assert used["status"].strip() == used["addons"].strip() == ""
    host(no_proxy=["10.96.0.0/12"])
    assert (host.here / "proxies").read_text().splitlines()[-1].strip() == "start"


def test_the_password_of_a_proxy_is_not_shown(host: Host) -> None:
    host.profile()
    host.write("status", json.dumps({}))
    result = host(http_proxy="http://ci:S3CRET@proxy:3128", **verbosity(3))
    assert result["invocation"] and "S3CRET" not in str(result)
    assert any(" start " in each and each.endswith(" s)") for each in result["commands"])


IN_DOCKER = {"Driver": "docker", "kubernetes": {"ContainerRuntime": "docker"}}
DECLARED: dict[str, Any] = {"driver": "docker", "container_runtime": "docker"}


@pytest.mark.parametrize(
    ("there", "declared", "words"),
    [
        ({}, DECLARED, "driver from none to docker; container_runtime from containerd to docker"),
        (IN_DOCKER, {**DECLARED, "gpus": "all"}, "gpus from none to all"),
        ({**IN_DOCKER, "GPUs": "all"}, DECLARED, "gpus from all to none"),
        (IN_DOCKER, {**DECLARED, "memory": 4096}, "memory from 3072 to 4096"),
        (IN_DOCKER, {**DECLARED, "cpus": 4}, "cpus from 2 to 4"),
        (IN_DOCKER, {**DECLARED, "network": "lab"}, "network from nothing to lab"),
        ({}, {"image_repository": "mirror.example"}, "image_repository from nothing to mirror.example"),
        ({"kubernetes": {"KubernetesVersion": "v1.37.1"}}, {}, "kubernetes_version from 1.37.1 to 1.36.4"),
        ({}, {"extra_config": []}, "extra_config from kubelet.max-pods=50 to nothing"),
        ({**IN_DOCKER, "GPUs": "nvidia.com"}, {**DECLARED, "gpus": "nvidia"}, "gpus from nvidia.com to nvidia"),
    ],
)
def test_settings_that_cannot_be_changed_are_refused_with_what_would_be_deleted(
    host: Host, there: Any, declared: Any, words: str
) -> None:
    host.profile(**there)
    for check in (True, False):
        result = host(check=check, **declared)
        assert result["failed"] and f"minikube can't change {words}. Nothing was changed." in result["msg"]
        assert "pods: default/notebook; persistent volume claims: default/work" in result["msg"]
    assert host.calls() == []
    host.write("objects", "")
    assert "unknown, because it does not answer" in host(**declared)["msg"]


def test_a_profile_is_stopped_once(host: Host) -> None:
    assert host(state="stopped")["changed"] is False
    host.profile()
    assert host(state="stopped")["actions"] == ["stop"]
    host.write("status", json.dumps({**RUNNING, "Host": "Stopped", "Kubelet": "Stopped", "APIServer": "Stopped"}))
    assert host(state="stopped")["changed"] is False
    assert host.calls() == ["stop --profile=minikube"]


def test_a_profile_is_only_deleted_by_its_name(host: Host) -> None:
    assert host(state="absent")["changed"] is False
    host.profile()
    assert host(check=True, state="absent")["content"].startswith("pods: default/notebook")
    assert host.calls() == []
    assert host(state="absent")["changed"] is True
    assert host.calls() == ["delete --profile=minikube"]


def test_the_message_of_minikube_is_part_of_the_error(host: Host) -> None:
    host.write("broken", "")
    result = host()
    assert result["failed"] and result["rc"] == 105
    assert result["msg"].startswith(
        "Error while running minikube start for the profile minikube: X Exiting due to K8S_"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the profile's config.json: it is not valid JSON"),
        ("[]", "the profile's config.json: it is not a JSON object"),
        ("{}", "KubernetesConfig in the profile's config.json: it is not a JSON object"),
        ('{"KubernetesConfig": {}}', "the profile's config.json: Driver is missing or not a text"),
        (
            '{"KubernetesConfig": {"ExtraOptions": 1}}',
            "ExtraOptions in the profile's config.json: it is not a JSON list",
        ),
        (
            '{"KubernetesConfig": {"ExtraOptions": [{"Key": "a"}]}, "Driver": "none"}',
            "Component is missing or not a text",
        ),
    ],
)
def test_a_file_that_is_not_a_profile_is_an_error(host: Host, text: str, words: str) -> None:
    host.profile()
    (host.here / ".minikube/profiles/minikube/config.json").write_text(text)
    assert words in host()["msg"]


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (profile.read_config, json.dumps(CONFIG)),
        (profile.read_status, json.dumps([RUNNING])),
        (profile.content, json.dumps(OBJECTS)),
    ],
)
@given(data=st.data())
def test_a_damaged_profile_is_read_or_refused_with_a_documented_error(
    read: Callable[[str], Any], text: str, data: st.DataObject
) -> None:
    with contextlib.suppress(DomainError):
        read(data.draw(damaged_json(text)))


@given(st.text(st.sampled_from("0123456789.-v²٣")))
def test_any_version_can_be_compared(version: str) -> None:
    assert profile.version_numbers(version)


@pytest.mark.parametrize(("text", "words"), [("", "not valid JSON"), ("[]", "not a JSON object")])
def test_an_invalid_status_is_an_error(host: Host, text: str, words: str) -> None:
    host.profile()
    host.write("status", text)
    assert f"Error while reading minikube status: it is {words}" in host()["msg"]


@pytest.mark.parametrize(("there", "declared"), [("all", "nvidia"), ("nvidia", "all"), ("nvidia", "nvidia")])
def test_both_names_for_all_gpus_are_equal(host: Host, there: str, declared: str) -> None:
    host.profile(**IN_DOCKER, GPUs=there, Addons={**CONFIG["Addons"], "nvidia-device-plugin": True})
    assert host(**DECLARED, gpus=declared)["changed"] is False


def test_the_gpu_addon_follows_the_gpu_setting(host: Host) -> None:
    host.profile(**IN_DOCKER, GPUs="all", Addons={**CONFIG["Addons"], "nvidia-device-plugin": True})
    assert host(**DECLARED, gpus="all")["changed"] is False


@pytest.mark.parametrize(
    ("network", "drop_in", "driver", "removed"),
    [
        (BRIDGE_NETWORK, KUBELET, "none", ["interface bridge", f"/{NETWORK}", f"/{DROP_IN}"]),
        (BRIDGE_NETWORK, KUBEADMS_KUBELET, "none", ["interface bridge", f"/{NETWORK}"]),
        (FLANNEL, KUBELET, "none", [f"/{DROP_IN}"]),
        (BRIDGE_NETWORK.replace('"bridge": "bridge"', '"bridge": "cni0"'), KUBEADMS_KUBELET, "none", []),
        ("{broken", "", "none", []),
        (None, None, "none", []),
        (BRIDGE_NETWORK, KUBELET, "docker", []),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
def test_only_files_of_minikube_are_removed_from_the_host(
    host: Host, programs: Any, network: str | None, drop_in: str | None, driver: str, removed: list[str], exists: bool
) -> None:
    root = host.here / "root"
    (root / "sys/class/net/bridge/bridge").mkdir(parents=True)
    for path, text in ((NETWORK, network), (DROP_IN, drop_in)):
        if text is not None:
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(text)
    for name in ("ip", "systemctl"):
        programs.add(name, f'echo "{name} $*" >> {host.here}/calls')
    if exists:
        host.profile(Driver=driver)
    settings: dict[str, Any] = {"state": "absent", "driver": driver, "root": str(root)}
    predicted = host(check=True, **settings)
    assert (predicted["changed"], predicted["removed"]) == (exists or bool(removed), removed)
    assert host.calls() == []
    before = {path for path in (NETWORK, DROP_IN) if (root / path).exists()}
    result = host(**settings)
    assert (result["changed"], result["removed"]) == (predicted["changed"], removed)
    assert {path for path in before if not (root / path).exists()} == {path for path in before if f"/{path}" in removed}
    assert [*recorded(root)] == [path for path in removed if path.startswith("/")]
    calls = host.calls()
    assert ("ip link delete bridge type bridge" in calls) == ("interface bridge" in removed)
    assert ("systemctl daemon-reload" in calls) == (f"/{DROP_IN}" in removed)
