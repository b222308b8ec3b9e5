# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Existing packages, drivers and sources are refused, kept, replaced or taken over, depending on the settings."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import FilterModule as Preflight
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import preflight_answers, preflight_report
from test_preflight_problems import TOOLKIT, check, machines

WANTED, NEWER, OLDER, OLD = (f"{each}-1~debian.12~bookworm" for each in ("2.3.6", "2.4.0", "2.2.1", "1.7.30"))
KEEP = {"cluster_existing_packages": "keep"}
MEMBER = {"role": "worker", "begun": True, "finished": True, "ca_hashes": [], "server": ""}
version_to_install = Preflight().filters()["version_to_install"]


@pytest.mark.parametrize(
    ("installed", "policy", "expected"),
    [
        ({"containerd.io": WANTED}, "refuse", None),
        ({"containerd.io": NEWER}, "refuse", KEEP),
        ({"containerd.io": NEWER}, "keep", None),
        ({"containerd.io": NEWER}, "replace", None),
        # An older version is upgraded, unless Docker uses it.
        ({"containerd.io": OLDER}, "refuse", None),
        ({"containerd.io": OLDER, "docker-ce": "5:28.1.1-1"}, "refuse", KEEP),
        ({"containerd.io": OLDER, "docker-ce": "5:28.1.1-1"}, "keep", None),
        ({"containerd.io": OLD, "docker-ce": "5:28.1.1-1"}, "refuse", {}),
        ({"containerd.io": OLD}, "keep", {}),
        ({"containerd.io": OLD}, "replace", None),
        (dict.fromkeys(TOOLKIT, "1.21.0-1"), "refuse", KEEP),
        (dict.fromkeys(TOOLKIT, "1.21.0-1"), "keep", None),
        (dict.fromkeys(TOOLKIT, "1.17.8-1"), "refuse", None),
        (dict.fromkeys(TOOLKIT, "1.17.8-1"), "keep", {}),
        # Packages of Kubernetes must match the cluster's version.
        ({"kubelet": "1.37.1-1.1", "kubeadm": "1.37.1-1.1"}, "refuse", {}),
        ({"kubelet": "1.35.8-1.1"}, "refuse", None),
        ({"kubelet": "1.35.8-1.1"}, "keep", {}),
        ({"kubelet": "1.37.1-1.1"}, "replace", None),
    ],
)
def test_packages_of_another_version_need_a_decision(
    installed: dict[str, str], policy: str, expected: dict[str, str] | None
) -> None:
    """If ``expected`` is None, nothing is refused; otherwise it is the suggested answer."""
    problems = check({"gpu1.facts.installed": installed, "gpu1.settings.existing_packages": policy})
    assert [problem["kind"] for problem in problems] == ["package_version_differs"] * (expected is not None)
    assert all(problem.get("answers", {}) == expected for problem in problems)


def test_held_packages_need_a_decision() -> None:
    changes = {"gpu1.facts.installed": {"containerd.io": OLDER}, "gpu1.facts.held": ["containerd.io"]}
    (problem,) = check(changes)
    assert "containerd.io is held" in problem["what"] and problem["answers"] == KEEP
    assert check({**changes, "gpu1.facts.installed": {"containerd.io": WANTED}}) == []


@pytest.mark.parametrize(
    ("installed", "kinds"),
    [
        ({"containerd.io": OLDER}, []),
        ({"containerd.io": NEWER}, ["package_version_differs"]),
        ({"kubelet": "1.36.4-2.1"}, []),
    ],
)
def test_existing_node_is_upgraded_but_never_downgraded(installed: dict[str, str], kinds: list[str]) -> None:
    changes = {"gpu1.facts.installed": installed, "gpu1.facts.cluster": MEMBER, "gpu1.facts.held": list(installed)}
    assert [problem["kind"] for problem in check(changes)] == kinds


def test_unsupported_distribution_is_the_only_problem() -> None:
    problems = check({"gpu1.facts.installed": {"containerd.io": NEWER}, "gpu1.facts.os.key": "Fedora 44"})
    assert [problem["kind"] for problem in problems] == ["os_unsupported"]


@pytest.mark.parametrize("name", ["k3s", "rke2", "k0s", "microk8s", "minikube", "another"])
def test_other_kubernetes_distributions_are_refused(name: str) -> None:
    (problem,) = check({"gpu1.facts.other_clusters": [name]})
    assert problem["kind"] == "other_cluster_installed" and problem["what"].startswith(name)
    assert check({"gpu1.facts.other_clusters": [name], "gpu1.facts.cluster": MEMBER}) == []


@pytest.mark.parametrize(
    ("installed", "policy", "refused"),
    [
        ({"containerd": "1.6.20", "runc": "1.1.5"}, "refuse", True),
        ({"containerd": "1.6.20", "runc": "1.1.5"}, "keep", True),
        ({"containerd": "1.6.20", "runc": "1.1.5"}, "replace", False),
        ({"containerd": "1.6.20", "docker.io": "20.10.24"}, "replace", True),
    ],
)
def test_container_runtime_of_the_distribution_needs_a_decision(
    installed: dict[str, str], policy: str, refused: bool
) -> None:
    problems = check({"gpu1.facts.installed": installed, "gpu1.settings.existing_packages": policy})
    assert [problem["kind"] for problem in problems] == ["container_runtime_installed"] * refused


CONFLICT = {"file": "/etc/apt/sources.list.d/docker.list", "line": 3, "uri": "https://download.docker.com/linux/debian"}
REPOSITORY = {"name": "containerd", "uri": "http://r/", "error": "", "missing": {}, "available": {}, "conflicts": []}


@pytest.mark.parametrize(
    ("policy", "shared", "answers"),
    [
        ("refuse", False, {"cluster_existing_sources": "take_over"}),
        ("take_over", False, None),
        ("refuse", True, {}),
        ("take_over", True, {}),
    ],
)
def test_unmanaged_apt_sources_need_a_decision(policy: str, shared: bool, answers: dict[str, str] | None) -> None:
    repository = {**REPOSITORY, "conflicts": [{**CONFLICT, "shared": shared}]}
    problems = check({"gpu1.facts.repositories": [repository], "gpu1.settings.existing_sources": policy})
    assert [problem.get("answers", {}) for problem in problems] == ([] if answers is None else [answers])


def test_kept_package_may_be_missing_from_the_repository() -> None:
    repository = {**REPOSITORY, "missing": {"containerd.io": WANTED}}
    changes = {
        "gpu1.facts.repositories": [repository],
        "gpu1.facts.installed": {"containerd.io": NEWER},
        "gpu1.settings.existing_packages": "keep",
    }
    assert check(changes) == []
    assert [each["kind"] for each in check({"gpu1.facts.repositories": [repository]})] == ["package_not_offered"]


@pytest.mark.parametrize("loaded", ["", "570.211.01"])
def test_loaded_unmanaged_driver_can_be_kept(loaded: str) -> None:
    driver = {"loaded_version": loaded, "packages": {"nvidia-570-server": "570.211.01-1"}, "origin": "distribution"}
    (problem,) = check({"gpu1.facts.nvidia_driver": driver})
    assert problem["kind"] == "driver_unmanaged"
    assert problem.get("answers", {}) == ({"nvidia_driver_source": "preinstalled"} if loaded else {})


@pytest.mark.parametrize(
    ("installed", "policy", "version"),
    [
        ("", "keep", WANTED),
        (NEWER, "keep", NEWER),
        (NEWER, "refuse", WANTED),
        (NEWER, "replace", WANTED),
        (OLDER, "keep", OLDER),
        (OLD, "keep", WANTED),
        ("5:2.2.0-1", "keep", "5:2.2.0-1"),
        ("2.2.0~rc.1-1", "keep", "2.2.0~rc.1-1"),
    ],
)
def test_version_to_install_must_be_recent_enough(installed: str, policy: str, version: str) -> None:
    assert version_to_install(installed, WANTED, "2.2.0", policy) == version


def settings() -> dict[str, Any]:
    return {name: host["settings"] for name, host in machines().items()}


def answers(changes: dict[str, Any], **shared: Any) -> dict[str, Any]:
    """Return the content of the file with answers to the problems after these changes."""
    text = preflight_answers(check(changes, **shared), settings())
    read: dict[str, Any] = yaml.safe_load(text) if text else {}
    return read


def test_answers_for_one_host_do_not_change_others() -> None:
    found = answers({"gpu1.facts.installed": {"containerd.io": NEWER}})
    kept = "{{ {'gpu1': 'keep'}.get(inventory_hostname, 'refuse') }}"
    assert found == {"cluster_existing_packages": kept}


def test_answers_keep_the_settings_of_other_hosts() -> None:
    problems = check({"gpu1.facts.installed": {"containerd.io": NEWER}})
    now = settings() | {"gpu2": {"existing_packages": "replace"}}
    text = preflight_answers(problems, now)
    assert "{'gpu2': 'replace', 'gpu1': 'keep'}.get(inventory_hostname, 'refuse')" in text


def test_answers_include_all_existing_node_names() -> None:
    problem = {"host": "gpu1", "what": "It is the node worker-1", "answers": {"cluster_node_name": "worker-1"}}
    text = preflight_answers([problem], {"gpu1": {"node_name": "gpu1"}, "gpu2": {"node_name": "b"}, "cp1": {}})
    assert "{'gpu1': 'worker-1', 'gpu2': 'b'}.get(inventory_hostname, (ansible_facts['nodename']" in text


def test_answers_with_template_syntax_are_marked_unsafe() -> None:
    problem = {"host": "", "what": "x", "answers": {"kubeadm_image_repository": "a/{{ b }}"}}
    assert 'kubeadm_image_repository: !unsafe "a/{{ b }}"' in preflight_answers([problem], {})


def test_answers_for_the_cluster_apply_to_all_hosts() -> None:
    texts = {"flannel": '{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}'}
    found = {"action": "finished", "api": "alive", "error": "", "version": "v1.36.4", "texts": texts}
    cluster = {**MEMBER, "role": "control_plane"}
    changes = {
        "cp1.facts.cluster": cluster,
        "cp1.facts.control_plane": {**found, "daemonsets": [], "gpu_managers": []},
    }
    assert answers(changes, flannel_backend="host-gw") == {"flannel_backend": "vxlan"}


def test_no_file_is_written_without_answers() -> None:
    assert answers({}) == {} and answers({"gpu1.facts.other_clusters": ["k3s"]}) == {}
    with pytest.raises(AnsibleFilterError, match="bad input"):
        preflight_answers([{"answers": 7}], {})


@pytest.mark.parametrize(
    ("path", "text", "found", "error", "words"),
    [
        ("", "", "", "", ""),
        ("", "a: 1\n", "", "", "with -e preflight_answers=FILE"),
        ("my.yml", "", "", "", "my.yml was not written"),
        ("my.yml", "a: 1\n", "a: 1", "", "run this again with -e @my.yml"),
        ("my.yml", "a: 1\n", "b: 2", "", "already exists and was not changed"),
        ("/x/my.yml", "a: 1\n", "", "No such directory", "Error while writing /x/my.yml: No such directory"),
    ],
)
def test_report_names_the_file_of_answers(path: str, text: str, found: str, error: str, words: str) -> None:
    said = preflight_report([], {"path": path, "text": text, "found": found, "error": error})
    assert words in said and bool(words) == (len(said.splitlines()) > 1)
