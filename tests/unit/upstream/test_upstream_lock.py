# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of upstream facts: it is well formed and contains everything that the product names, per distribution."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._cuda.data import REPOSITORIES
from hypothesis import given
from hypothesis import strategies as st

from upstream import check, render
from upstream import lock as reader
from upstream.relations import Relation, parse, unmet, write

REPOSITORY = Path(__file__).resolve().parents[3]
Mutation = Callable[[dict[str, Any]], Any]

ROLES = ("cluster", "preflight", "kubeadm", "containerd", "nvidia_container_toolkit", "nvidia_driver", "flannel")
SETTINGS = {
    "images": [
        *("flannel_image", "flannel_cni_plugin_image", "nvidia_device_plugin_image", "nvidia_device_plugin_nfd_image"),
        *("acceptance_image", "acceptance_network_image", "local_path_image"),
        "dcgm_exporter_image",
    ],
}
PLAYBOOK = """
- hosts: all
  gather_facts: false
  vars_files: {files}
  tasks:
    - ansible.builtin.set_fact:
        told:
          packages: >-
            {{{{ _kubeadm_packages + [_containerd_package] + nvidia_container_toolkit_packages
               + (nvidia_driver_plan['pinning'] + nvidia_driver_plan['packages'] if driver else []) }}}}
          key_files: "{{{{ _nvidia_driver_key_url if driver else '' }}}}"
    - ansible.builtin.copy:
        content: >-
          {{{{ dict(ansible_play_hosts | zip(ansible_play_hosts | map('extract', hostvars, 'told'))) | to_json }}}}
        dest: {out}
      run_once: true
"""


@pytest.fixture(scope="module")
def lock() -> reader.Lock:
    return reader.load()


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(check.TABLE.read_text())
    return loaded


def parsed(content: dict[str, Any], place: Path) -> reader.Lock:
    path = place / "upstream.lock"
    path.write_text(yaml.safe_dump(content))
    return reader.load(path)


# --- the committed lock


def test_the_lock_is_well_formed() -> None:
    assert check.malformed(check.read()) == []


def test_the_version_table_is_in_the_lock(table: dict[str, Any], lock: reader.Lock) -> None:
    assert check.contradictions(table, lock) == []


def test_every_distribution_has_every_repository(table: dict[str, Any], lock: reader.Lock) -> None:
    minors = {".".join(version.split(".")[:2]) for version in table["cluster_versions"]["kubernetes"]}
    for release in table["cluster_distributions"]:
        for family in (*(f"kubernetes-v{minor}" for minor in minors), "docker", "container-toolkit", "cuda"):
            assert lock.repository(family, release).key.url.startswith("https://"), (release, family)


def test_images_named_by_roles_are_in_the_lock(table: dict[str, Any], lock: reader.Lock) -> None:
    defaults: dict[str, Any] = {}
    for path in REPOSITORY.glob("roles/*/defaults/main.yml"):
        defaults.update(yaml.safe_load(path.read_text()) or {})
    versions = table["cluster_versions"]
    wanted = {
        re.sub(r"\{\{ cluster_versions\.(\w+) }}", lambda found: str(versions[found[1]]), defaults[name]).strip()
        for name in SETTINGS["images"]
    }
    wanted |= set(defaults["torch_ddp_default_images"])
    wanted |= {f"registry.k8s.io/pause:{entry['pause']}" for entry in versions["kubernetes"].values()}
    assert wanted <= set(lock.images)
    known = {name for name in wanted if lock.images[name].value}
    assert known == set(table["_cluster_image_digests"]), "a digest that the lock knows is pulled by it"


def test_no_repository_has_a_toolkit_older_than_its_documented_oldest(table: dict[str, Any], lock: reader.Lock) -> None:
    first = {row.system: _numbers(row.first) for row in REPOSITORIES}
    assert list(first) == table["cluster_distributions"]
    for system, oldest in first.items():
        names = {entry.name for entry in lock.repository("cuda", system).packages}
        locked = [_numbers(found[1]) for found in map(re.compile(r"cuda-toolkit-(\d+-\d+)").fullmatch, names) if found]
        assert locked and min(locked) >= oldest, system


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.split(r"[.-]", version)]


@pytest.fixture(scope="module")
def asked(table: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The packages that the roles request on each distribution, for each version of Kubernetes and the driver."""
    place = tmp_path_factory.mktemp("asked")
    versions = table["cluster_versions"]
    hosts: dict[str, Any] = {}
    for release in table["cluster_distributions"]:
        drivers = [v for v, entry in versions["nvidia_driver"].items() if release in entry["packages"]]
        for index, kubernetes in enumerate(versions["kubernetes"]):
            driver = drivers[index % len(drivers)] if drivers else ""
            for device, extent in product(("0x2330", "0x1db5"), ("compute", "full")):
                hosts[f"{release}|{kubernetes}|{driver}|{device}|{extent}"] = {
                    "driver": driver,
                    "cluster_kubernetes_version": kubernetes,
                    "nvidia_driver_version": driver,
                    "nvidia_driver_extent": extent,
                    "preflight_host": {
                        "os": {
                            "key": release,
                            "repository_name": release.replace(" ", "").replace(".", "").lower(),
                        },
                        "gpus": [{"device_id": device}],
                        "nvswitches": 4,
                        "kernel_packages": {"image": "", "headers": ["linux-headers-6.1"], "compiler": ""},
                        "nvidia_driver": {"loaded_version": "", "packages": {}, "origin": "none"},
                        "installed": {},
                    },
                }
    defaults: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    for role in ROLES:
        defaults |= yaml.safe_load((REPOSITORY / "roles" / role / "defaults/main.yml").read_text())
    files = [str(path) for role in ROLES for path in sorted((REPOSITORY / "roles" / role / "vars").rglob("*.yml"))]
    (place / "hosts.json").write_text(json.dumps({"all": {"hosts": hosts, "vars": defaults}}))
    (place / "play.yml").write_text(PLAYBOOK.format(files=json.dumps(files), out=place / "told.json"))
    (place / "ansible.cfg").write_text("[defaults]\n")
    environ = {
        **os.environ,
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(REPOSITORY / "collections"),
        "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
        "ANSIBLE_REMOTE_TEMP": str(place / "tmp"),
        "ANSIBLE_NOCOLOR": "1",
    }
    command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.json", "play.yml"]
    done = subprocess.run(command, cwd=place, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads((place / "told.json").read_text())
    return told


def test_roles_only_request_packages_in_the_lock(asked: dict[str, Any], lock: reader.Lock) -> None:
    assert len(asked) > 20
    for host, told in asked.items():
        release, kubernetes, *_others = host.split("|")
        families = (f"kubernetes-v{'.'.join(kubernetes.split('.')[:2])}", "docker", "container-toolkit", "cuda")
        repositories = [lock.repository(family, release) for family in families]
        for package in told["packages"]:
            held = [version for repository in repositories for version in repository.versions(package["name"])]
            # Without a version, apt installs any version.
            assert package.get("version") in held if package.get("version") else held, (host, package, held)


def test_requested_packages_can_be_installed(asked: dict[str, Any], lock: reader.Lock) -> None:
    for host, told in asked.items():
        release = host.split("|", maxsplit=1)[0]
        wanted = {package["name"]: package["version"] for package in told["packages"] if package.get("version")}
        assert check.uninstallable(lock, release, wanted) == [], host


def test_the_list_of_downloads_contains_the_requested_packages(asked: dict[str, Any], table: dict[str, Any]) -> None:
    page = (REPOSITORY / "docs/air-gapped.md").read_text().partition("### Packages of a default run")[2]
    rows = [line.split(" | ") for line in page.partition("\n### ")[0].splitlines() if line.startswith("| ")]
    defaults = yaml.safe_load((REPOSITORY / "roles/cluster/defaults/main.yml").read_text())
    checked = 0
    for host, told in asked.items():
        release, kubernetes, _driver, _device, extent = host.split("|")
        if kubernetes != defaults["cluster_kubernetes_version"] or extent != "compute":
            continue
        mine = [text for hosts, _repository, text in rows if hosts == "| all" or release in hosts]
        for package in told["packages"]:
            parts = [part for text in mine for part in text.removesuffix(" |").split("; ")]
            named = [part for part in parts if f"`{package['name']}`" in part]
            assert any(part.endswith(f" {package['version']}") for part in named if package.get("version")) or (
                named and not package.get("version")
            ), (host, package)
            checked += 1
    assert checked > 50, table["cluster_distributions"]


def test_roles_request_the_key_file_of_the_repository(asked: dict[str, Any], lock: reader.Lock) -> None:
    for host, told in asked.items():
        if told["key_files"]:
            assert told["key_files"].strip() == lock.repository("cuda", host.split("|", maxsplit=1)[0]).key.url


# --- a single wrong fact is found and named


def renamed_key(content: dict[str, Any]) -> None:
    key = content["repositories"]["cuda-ubuntu2604"]["key"]
    key["url"] = key["url"].replace("60DF8A40.pub", "3bf863cc.pub")


def other_fingerprint(content: dict[str, Any]) -> None:
    content["repositories"]["container-toolkit"]["key"]["fingerprint"] = "0" * 40


def missing_version(content: dict[str, Any]) -> None:
    del content["repositories"]["cuda-debian13"]["packages"]["nvidia-open"]["595.91.07-1"]


def missing_minor(content: dict[str, Any]) -> None:
    del content["repositories"]["kubernetes-v1.37"]


def changed_digest(content: dict[str, Any]) -> None:
    content["images"]["registry.k8s.io/pause:3.10.2"]["digest"] = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("mutation", "words"),
    [
        (renamed_key, "Ubuntu 26.04: cuda-ubuntu2604 has the key file 3bf863cc.pub, not 60DF8A40.pub"),
        (other_fingerprint, "container-toolkit is signed with 0000000000"),
        (missing_version, "Debian 13: cuda-debian13 does not hold nvidia-open 595.91.07-1, it holds 615.71.09-1"),
        (missing_minor, "no repository kubernetes-v1.37 for Debian 12"),
        (changed_digest, "registry.k8s.io/pause:3.10.2: the lock has sha256:0000"),
    ],
)
def test_a_fact_that_contradicts_the_table_is_named(
    mutation: Mutation, words: str, table: dict[str, Any], tmp_path: Path
) -> None:
    content = copy.deepcopy(check.read())
    mutation(content)
    assert not [problem for problem in check.malformed(content) if "no entry names this source" not in problem]
    assert any(words in problem for problem in check.contradictions(table, parsed(content, tmp_path)))


def test_a_dependency_that_nothing_satisfies_is_named(lock: reader.Lock, tmp_path: Path) -> None:
    wanted = {"nvidia-open-580": "580.178.04-1ubuntu1"}
    assert check.uninstallable(lock, "Ubuntu 24.04", wanted) == []
    content = copy.deepcopy(check.read())
    packages = content["repositories"]["cuda-ubuntu2404"]["packages"]
    packages["nvidia-open-580"]["580.178.04-1ubuntu1"]["depends"] = "nvidia-driver-580-opn | kmod (>> 0)"
    packages["nvidia-open-580"]["580.178.04-1ubuntu1"]["depends"] = "nvidia-driver-580-open (= 580.178.04-9)"
    (problem,) = check.uninstallable(parsed(content, tmp_path), "Ubuntu 24.04", wanted)
    assert problem.endswith("nothing for Ubuntu 24.04 meets nvidia-driver-580-open (= 580.178.04-9)")
    (absent,) = check.uninstallable(lock, "Debian 13", {"nvidia-open-580": "580.178.04-1"})
    assert absent == "nvidia-open-580 580.178.04-1: no repository for Debian 13 has it"


def at(content: Any, path: str, value: Any) -> None:
    *parents, last = path.split("|")
    for name in parents:
        content = content[name]
    if value is ...:
        del content[last]
    else:
        content[last] = value


OPEN = "repositories|cuda-ubuntu2404|packages|nvidia-open|595.91.07-1ubuntu1"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("schema", 2, "schema: 2 is not 1"),
        ("dated", "yesterday", "dated: 'yesterday'"),
        ("images", ..., "images: is missing"),
        ("sources|cuda-keys|dated", "22.11.2026", "cuda-keys: dated"),
        ("sources|cuda-keys|address", "index:1", "cuda-keys: address"),
        ("sources|nobody", {"about": "x", "dated": None, "address": None}, "nobody: no entry names this source"),
        ("images|registry.k8s.io/pause:3.10.2|digest", "sha256:12", "pause:3.10.2: digest"),
        ("images|pause", {"digest": None, "source": "cuda-keys", "verified": None}, "pause: reference"),
        ("downloads|helm-v3.22.0-linux-amd64|sha256", "x", "sha256"),
        ("downloads|helm-v3.22.0-linux-amd64|url", "http://get.helm.sh/x", "url"),
        ("repositories|cuda-debian12|url", "ftp://x/", "cuda-debian12: url"),
        ("repositories|cuda-debian12|components", ["main"], "does not go with the suite '/'"),
        ("repositories|cuda-debian12|key|fingerprint", "8793F200", "key: fingerprint"),
        ("repositories|cuda-debian12|key|expires", "soon", "key: expires"),
        ("repositories|cuda-debian12|key|verified", date(2026, 11, 22), "key: verified"),
        ("repositories|cuda-debian12|verified", ..., "verified: is missing"),
        (f"{OPEN}|depends", "nvidia-driver-open (=> 595)", "is not a relation that apt reads"),
        (f"{OPEN}|recommends", ["kmod"], "recommends"),
        (f"{OPEN}|depend", "kmod", "depend: is unknown"),
        (f"{OPEN}|architecture", "arm64", "neither amd64 nor all"),
        (f"{OPEN}|source", "hearsay", "'hearsay' is not among the sources"),
        ("repositories|cuda-ubuntu2404|packages|nvidia-open|latest", {}, "version: 'latest'"),
        ("repositories|cuda-ubuntu2404|packages|Nvidia", {}, "Nvidia: name"),
        ("dated", "2026-13-45", "dated: '2026-13-45'"),
        ("repositories|cuda-debian12|key|expires", "2026-02-30", "key: expires"),
        ("sources|cuda-keys", "told", "cuda-keys: is no mapping"),
        ("sources|cuda-keys|known", "hearsay", "known: 'hearsay' is none of live, seen, inferred"),
        ("sources|cuda-keys|known", ..., "cuda-keys: known: is missing"),
        ("sources|cuda-keys|dated", None, "cuda-keys: dated: None"),
        ("sources|cuda-keys|about", None, "cuda-keys: about"),
        ("images|registry.k8s.io/pause:3.10.2", None, "pause:3.10.2: is no mapping"),
        ("images|registry.k8s.io/pause:3.10.2|source", ["cuda-keys"], "['cuda-keys'] is not among the sources"),
        ("downloads|helm-v3.22.0-linux-amd64", [], "helm-v3.22.0-linux-amd64: is no mapping"),
        ("repositories|cuda-debian12", None, "cuda-debian12: is no mapping"),
        ("repositories|5", {}, "5: key: is no mapping"),
        ("repositories|cuda-debian12|key", "x", "key: is no mapping"),
        ("repositories|cuda-debian12|release", None, "release: is no mapping"),
        ("repositories|cuda-debian12|packages", None, "packages: is no mapping"),
        ("repositories|cuda-debian12|components", "", "components: '' is no list of texts"),
        ("repositories|cuda-debian12|distributions", 5, "distributions: 5 is no list of texts"),
        ("repositories|cuda-debian12|distributions", [], "distributions: names none"),
        ("repositories|cuda-ubuntu2404|packages|nvidia-open", None, "nvidia-open: is no mapping of versions"),
        (OPEN, None, "nvidia-open 595.91.07-1ubuntu1: is no mapping"),
    ],
)
def test_an_entry_that_is_not_well_formed_is_named(path: str, value: Any, words: str) -> None:
    content = copy.deepcopy(check.read())
    at(content, path, value)
    assert any(words in problem for problem in check.malformed(content)), check.malformed(content)


def test_an_invalid_lock_is_an_error(tmp_path: Path) -> None:
    for text in ("[]", "{", None):
        path = tmp_path / "lock"
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        with pytest.raises(reader.LockError, match="Error while reading"):
            check.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    for read in (check.read, reader.load):
        with pytest.raises(reader.LockError, match="Error while reading"):
            read(path)


# --- age


@pytest.mark.parametrize(("today", "warned"), [("2026-11-22", False), ("2027-01-21", False), ("2027-01-22", True)])
def test_an_old_lock_is_a_warning(today: str, warned: bool, tmp_path: Path) -> None:
    lock = parsed({**check.read(), "dated": "2026-11-22"}, tmp_path)
    text = check.age_warning(lock, date.fromisoformat(today))
    assert bool(text) == warned
    assert not text or "make verify-upstream" in text


# --- relations, and the text of the lock


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("", []),
        ("libc6", [[("libc6", "", "")]]),
        (
            "a (>= 1:2.0~rc1), b | c (= 3-1ubuntu1)",
            [[("a", ">=", "1:2.0~rc1")], [("b", "", ""), ("c", "=", "3-1ubuntu1")]],
        ),
        ("docker (<< 1.5~),libc6:any", [[("docker", "<<", "1.5~")], [("libc6", "", "")]]),
        ("a [amd64] <!nocheck>", [[("a", "", "")]]),
    ],
)
def test_relations_are_parsed(text: str, groups: list[list[tuple[str, str, str]]]) -> None:
    assert parse(text) == [tuple(Relation(*fields) for fields in group) for group in groups]
    assert parse(write(parse(text))) == parse(text)


@pytest.mark.parametrize("text", ["a,", ",", "a |", "a (1)", "a (>> )", "a (> 1)", "A", "a b", "${shlibs:Depends}"])
def test_an_invalid_relation_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a relation that apt reads"):
        parse(text)


def test_unsatisfied_relations_are_found() -> None:
    versions = {"a": ["1.0-1", "2.0-1"], "b": ["580.178.04-1"]}
    assert unmet("a (>= 2.0), b, libc6", versions, ["libc6"]) == []
    assert unmet("a (>> 2.0-1) | c, b (<< 580)", versions, []) == ["a (>> 2.0-1) | c", "b (<< 580)"]


NAMES = st.from_regex(r"[a-z0-9][a-z0-9+.-]{1,10}", fullmatch=True)
VERSIONS = st.from_regex(r"[0-9][A-Za-z0-9.+~]{0,8}(-[0-9]{1,3})?", fullmatch=True)
ALTERNATIVES = st.one_of(
    st.builds(Relation, NAMES), st.builds(Relation, NAMES, st.sampled_from(["<<", "<=", "=", ">=", ">>"]), VERSIONS)
)


@given(st.lists(st.lists(ALTERNATIVES, min_size=1, max_size=3).map(tuple), max_size=4))
def test_relations_are_unchanged_by_writing_and_reading(groups: list[tuple[Relation, ...]]) -> None:
    assert parse(write(groups)) == groups


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except ValueError as error:
        assert "is not a relation" in str(error)


def test_each_entry_has_its_kind_of_source(tmp_path: Path) -> None:
    content = check.read()
    debian12 = content["repositories"]["cuda-debian12"]
    debian12["key"]["verified"] = "2026-11-27"
    path = tmp_path / "lock"
    path.write_text(yaml.safe_dump(content))
    facts = {fact.entry: (fact.known, fact.dated) for fact in reader.load(path).facts()}
    assert len(facts) == len(list(reader.load(path).facts())), "each entry once"
    assert facts["cuda-debian12: key 3bf863cc.pub"] == ("live", "2026-11-27")
    assert facts["kubernetes-v1.36: kubelet 1.36.5-1.1"] == ("seen", "2026-09-29")
    assert facts["cuda-debian12: nvidia-kernel-open-dkms 595.91.07-1"][0] == "inferred"
    assert {known for known, _dated in facts.values()} == set(reader.KNOWN)


def test_the_lock_is_written_as_it_was_read() -> None:
    text = reader.PATH.read_text()
    assert render.render(render.header(text), check.read()) == text


def entries(content: dict[str, Any]) -> Iterator[str]:
    for repository in content["repositories"].values():
        yield from repository["packages"]


def test_no_package_of_the_lock_is_assumed_to_be_in_the_distribution() -> None:
    """The names in that list are not checked, so they must not be packages of the lock."""
    assert not set(entries(check.read())) & set(check.OF_THE_DISTRIBUTION)
