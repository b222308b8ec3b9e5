"""The generated lab.ini, parsed by Ansible itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.depot import Contents
from lab.nodes import inventory
from lab.nodes.spec import DEFAULT, read
from lab.nodes.spec import load as load_spec
from upstream.lock import load

DEPOT = {"url": "http://10.198.0.2", "registry": "10.198.0.2:5000"}
TOOL = shutil.which("ansible-inventory", path=str(Path(sys.executable).parent)) or "ansible-inventory"


def read_back(text: str, directory: Path) -> dict[str, Any]:
    path = directory / "lab.ini"
    path.write_text(text)
    done = subprocess.run([TOOL, "-i", str(path), "--list"], capture_output=True, text=True, check=False, cwd=directory)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    listed: dict[str, Any] = json.loads(done.stdout)
    return listed


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    directory = tmp_path_factory.mktemp("inventory")
    addresses = {"cp1": "10.198.0.11", "gpu1": "10.198.0.12", "gpu2": "10.198.0.13"}
    return read_back(inventory.render("lab", load_spec(DEFAULT), addresses, Path("/cache/labs/lab"), DEPOT), directory)


def test_hosts_are_in_their_groups_with_their_addresses(listed: dict[str, Any]) -> None:
    assert listed["control_plane"]["hosts"] == ["cp1"]
    assert listed["workers"]["hosts"] == ["gpu1", "gpu2"]
    hosts = listed["_meta"]["hostvars"]
    assert {name: values["ansible_host"] for name, values in hosts.items()} == {
        "cp1": "10.198.0.11",
        "gpu1": "10.198.0.12",
        "gpu2": "10.198.0.13",
    }
    assert [hosts[name].get("cluster_expected_gpus") for name in ("cp1", "gpu1", "gpu2")] == [None, 4, 2]


def test_structured_values_are_parsed_as_lists_and_mappings(listed: dict[str, Any]) -> None:
    host = listed["_meta"]["hostvars"]["gpu1"]
    assert host["kubeadm_kubelet_configuration"]["failCgroupV1"] is False
    assert host["kubeadm_kube_proxy_configuration"] == {"conntrack": {"maxPerCore": 0}}
    assert host["kubeadm_ignore_preflight_errors"] == ["SystemVerification"]
    assert host["containerd_cri_settings"] == {"restrict_oom_score_adj": True}
    assert {
        "registry": "registry.k8s.io",
        "endpoint": "http://10.198.0.2:5000/v2/registry.k8s.io",
        "override_path": True,
    } in host["containerd_registry_mirrors"]
    assert {entry["registry"] for entry in host["containerd_registry_mirrors"]} == {
        "registry.k8s.io",
        "ghcr.io",
        "nvcr.io",
        "docker.io",
    }
    assert host["ansible_become"] is True


def test_repositories_have_the_same_paths_in_the_depot_as_upstream(listed: dict[str, Any]) -> None:
    host = listed["_meta"]["hostvars"]["cp1"]
    assert host["kubeadm_repository_url"] == "http://10.198.0.2/pkgs.k8s.io/core:/stable:"
    assert host["containerd_repository_url"] == "http://10.198.0.2/download.docker.com/linux"
    assert host["nvidia_container_toolkit_repository_url"] == "http://10.198.0.2/nvidia.github.io/libnvidia-container"
    assert host["nvidia_driver_repository_url"] == "http://10.198.0.2/developer.download.nvidia.com/compute/cuda/repos"


def contents() -> Contents:
    """The depot's own key for each repository. Repositories that share a key upstream share one here."""
    keys = {found.name: f"{found.key.fingerprint[::-1]}" for found in load().repositories.values()}
    return Contents(keys, {"registry.k8s.io/pause:3.10.2": "sha256:" + "1" * 64})


def test_keys_and_digests_are_the_depots_own(tmp_path: Path) -> None:
    systems = {"cp1": "debian12", "gpu1": "debian13", "gpu2": "ubuntu2604-shaped", "gpu3": "ubuntu2204-shaped"}
    nodes = [{"name": name, "os": system, "groups": ["workers"]} for name, system in systems.items()]
    spec, problems = read({"nodes": nodes})
    assert problems == []
    text = inventory.render("x", spec, dict.fromkeys(systems, "10.0.0.1"), tmp_path, DEPOT, contents())
    hosts = read_back(text, tmp_path)["_meta"]["hostvars"]
    repositories = {"cp1": "debian12", "gpu1": "debian13", "gpu2": "ubuntu2604", "gpu3": "ubuntu2204"}
    for name, repository in repositories.items():
        own = contents().fingerprints
        assert hosts[name]["nvidia_driver_repository_key_fingerprints"] == [own[f"cuda-{repository}"]]
        assert hosts[name]["containerd_repository_key_fingerprints"] == [own[f"docker-{repository}"]]
        assert hosts[name]["kubeadm_repository_key_fingerprints"] == [own["kubernetes-v1.36"]]
        assert hosts[name]["nvidia_container_toolkit_repository_key_fingerprints"] == [own["container-toolkit"]]
        assert hosts[name]["cluster_image_digests"] == contents().digests
    # Variables that are equal for all nodes are written once.
    assert text.count("kubeadm_repository_key_fingerprints") == 1
    assert text.count("nvidia_driver_repository_key_fingerprints") == len(systems)


def test_a_lab_with_one_system_lists_its_keys_once(tmp_path: Path) -> None:
    spec, _ = read({"nodes": [{"name": "n", "os": "debian13", "groups": ["workers"]}]})
    text = inventory.render("x", spec, {"n": "10.0.0.1"}, tmp_path, DEPOT, contents())
    assert text.count("nvidia_driver_repository_key_fingerprints") == 1
    found = read_back(text, tmp_path)["_meta"]["hostvars"]["n"]
    assert found["nvidia_driver_repository_key_fingerprints"] == [contents().fingerprints["cuda-debian13"]]


def test_a_spec_can_override_keys_for_all_nodes_and_for_one(tmp_path: Path) -> None:
    name = "nvidia_driver_repository_key_fingerprints"
    nodes: list[dict[str, Any]] = [
        {"name": "a", "os": "debian12", "groups": ["workers"]},
        {"name": "b", "os": "debian13", "groups": ["workers"], "vars": {name: ["B" * 40]}},
    ]
    spec, _ = read({"nodes": nodes, "vars": {name: ["A" * 40]}})
    text = inventory.render("x", spec, {"a": "10.0.0.1", "b": "10.0.0.2"}, tmp_path, DEPOT, contents())
    hosts = read_back(text, tmp_path)["_meta"]["hostvars"]
    assert (hosts["a"][name], hosts["b"][name]) == (["A" * 40], ["B" * 40])


def test_host_keys_are_checked_strictly_against_the_labs_own_file(listed: dict[str, Any]) -> None:
    host = listed["_meta"]["hostvars"]["cp1"]
    assert "-oStrictHostKeyChecking=yes" in host["ansible_ssh_common_args"]
    assert "-oUserKnownHostsFile=/cache/labs/lab/known_hosts" in host["ansible_ssh_common_args"]
    assert host["ansible_ssh_private_key_file"] == "/cache/labs/lab/id_ed25519"
    assert host["ansible_user"] == "gpulab"


def test_values_of_a_spec_are_unchanged(tmp_path: Path) -> None:
    odd = {
        "a_text": 'it\'s # no "comment"; = [x]',
        "a_number_as_text": "1.30",
        "a_boolean": False,
        "a_list": [1, "two", None, {"three": True}],
        "a_template": "{{ inventory_hostname }}-x",
    }
    spec, problems = read(
        {
            "nodes": [{"name": "n", "os": "debian12", "groups": ["workers"], "vars": odd}],
            "vars": {f"all_{k}": v for k, v in odd.items()},
        }
    )
    assert problems == []
    host = read_back(inventory.render("x", spec, {"n": "10.0.0.1"}, tmp_path / "with space", {}), tmp_path)
    values = host["_meta"]["hostvars"]["n"]
    assert {key: values[key] for key in odd} == odd
    assert {key: values[f"all_{key}"] for key in odd} == odd
    assert "kubeadm_repository_url" not in values


def test_a_spec_can_override_variables_of_the_lab(tmp_path: Path) -> None:
    node = {"name": "n", "os": "debian12", "groups": ["workers"]}
    spec, _ = read({"nodes": [node], "vars": {"kubeadm_repository_url": "http://other"}})
    text = inventory.render("x", spec, {"n": "10.0.0.1"}, tmp_path, DEPOT)
    assert text.count("kubeadm_repository_url=") == 1
    assert read_back(text, tmp_path)["_meta"]["hostvars"]["n"]["kubeadm_repository_url"] == "http://other"


def test_ssh_options_support_a_path_with_spaces(tmp_path: Path) -> None:
    options = inventory.ssh_options(tmp_path / "with space")
    done = subprocess.run(["ssh", "-G", *options, "localhost"], capture_output=True, text=True, check=True)
    assert f"userknownhostsfile {tmp_path / 'with space' / 'known_hosts'}" in done.stdout


def test_only_the_generated_file_of_the_same_lab_belongs_to_it() -> None:
    text = inventory.render("lab", load_spec(DEFAULT), dict.fromkeys(["cp1", "gpu1", "gpu2"], "x"), Path("/d"), {})
    assert inventory.belongs_to(text, "lab")
    assert not inventory.belongs_to(text, "la")
    assert not inventory.belongs_to("[workers]\nmine\n", "lab")
