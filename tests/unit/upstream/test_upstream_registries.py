# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of the lock that Debian's archive, the Go module proxy and PyPI can confirm, if they are reachable.

Each registry is queried through its own client, with the mirror that is configured on this machine.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.depot import debian
from lab.depot.cache import DepotError
from upstream import check
from upstream import lock as reader
from upstream.collection import public_keys
from upstream.compare import day_of

# Go modules with the same version numbers as these packages.
MODULES = {
    "kubelet": "k8s.io/kubernetes",
    "cri-tools": "sigs.k8s.io/cri-tools",
    "kubernetes-cni": "github.com/containernetworking/plugins",
    "containerd.io": "github.com/containerd/containerd/v2",
    "docker-ce-cli": "github.com/docker/cli",
    "docker-buildx-plugin": "github.com/docker/buildx",
    "docker-compose-plugin": "github.com/docker/compose/v5",
    "nvidia-container-toolkit": "github.com/NVIDIA/nvidia-container-toolkit",
}
# PyPI projects with the same CUDA components, up to release 12 and from 13 on.
PROJECTS = {
    "cuda-nvcc": ("nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc"),
    "cuda-cudart": ("nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"),
}
CONSTANTS = "cmd/kubeadm/app/constants/constants.go"
_NOT_SERVED = re.compile(r"\b40[34]\b|\b410\b|not available|unknown revision|no matching versions", re.IGNORECASE)


class NotServedError(Exception):
    """The registry does not have the requested item."""


def client(registry: str, argv: list[str], cwd: Path | None = None) -> str:
    """Run the client of a registry. Raises NotServedError; skips the test if the registry is not reachable."""
    if not shutil.which(argv[0]):
        pytest.skip(f"{registry} was not asked: {argv[0]} is not installed")
    try:
        done = subprocess.run(argv, cwd=cwd or Path.home(), capture_output=True, text=True, check=False, timeout=240)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{registry} was not asked: it gave no answer in 240 s")
    if done.returncode:
        said = f"{done.stdout} {done.stderr}".strip()
        if _NOT_SERVED.search(said):
            raise NotServedError(said)
        pytest.skip(f"{registry} was not asked: {argv[0]} ended with {done.returncode}")
    return done.stdout


def go_source(module: str, version: str) -> Path:
    """Return the directory of a module's source. Raises NotServedError."""
    found = json.loads(client("the Go module proxy", ["go", "mod", "download", "-json", f"{module}@{version}"]))
    return Path(found["Dir"])


@pytest.fixture(scope="module")
def lock() -> reader.Lock:
    return reader.load()


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(check.TABLE.read_text())
    return loaded


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return the keys in Debian's package of repositories, by repository address."""
    place = tmp_path_factory.mktemp("apt")
    (place / "lists/partial").mkdir(parents=True)
    try:
        (place / "sources.list").write_text(f"deb {debian.mirror()} sid main\n")
    except DepotError as error:
        pytest.skip(f"Debian's archive was not asked: {error}")
    options = {
        "Dir::Etc::SourceList": place / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": place / "lists",
        "Dir::Cache": place,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    apt = ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    try:
        client("Debian's archive", [*apt, "update"])
        client("Debian's archive", [*apt, "download", "extrepo-offline-data"], place)
    except NotServedError as error:
        pytest.skip(f"Debian's archive has no extrepo-offline-data: {error}")
    client("Debian's archive", ["dpkg-deb", "-x", str(next(place.glob("extrepo-*.deb"))), str(place / "x")])
    return dict(_keys(place / "x/usr/share/extrepo/offline-data/debian"))


def _keys(data: Path) -> Iterator[tuple[str, bytes]]:
    for index in sorted(data.glob("*/index.yaml")):
        for entry in yaml.safe_load(index.read_text()).values():
            key = index.parent / str(entry.get("gpg-key-file", ""))
            if key.is_file():
                yield str((entry.get("source") or {}).get("URIs", "")).rstrip("/"), key.read_bytes()


def test_debian_has_the_same_keys_for_these_addresses(lock: reader.Lock, repositories: dict[str, bytes]) -> None:
    proven = []
    for repository in lock.repositories.values():
        data = repositories.get(repository.url.rstrip("/"))
        if data is None:
            continue
        there = {key.fingerprint: day_of(key.expires) for key in public_keys(data)}
        assert repository.key.fingerprint in there, f"{repository.name}: {there}"
        assert there[repository.key.fingerprint] == repository.key.expires, f"{repository.name}: {there}"
        proven.append(repository.name)
    expected = {"kubernetes-v1.36", "kubernetes-v1.37", "docker-debian13", "container-toolkit", "cuda-debian13"}
    assert expected <= set(proven), proven


def test_go_modules_have_the_releases_from_which_packages_are_built(lock: reader.Lock) -> None:
    wanted = {
        (MODULES[package.name], number(package.version))
        for repository in lock.repositories.values()
        for package in repository.packages
        if package.name in MODULES
    }
    there, missing = set(), set()
    for module, version in sorted(wanted):
        suffix = "+incompatible" if module == "github.com/docker/cli" else ""
        try:
            argv = ["go", "list", "-m", "-json", f"{module}@v{version}{suffix}"]
            found = json.loads(client("the Go module proxy", argv))
        except NotServedError:
            missing.add((module, version))
            continue
        assert found["Version"] == f"v{version}{suffix}"
        there.add((module, version))
    assert there, f"none of them is served: {sorted(missing)}"


def test_kubeadm_requires_the_images_in_the_lock(lock: reader.Lock, table: dict[str, Any]) -> None:
    proven = []
    for version, entry in table["cluster_versions"]["kubernetes"].items():
        try:
            text = (go_source("k8s.io/kubernetes", f"v{version}") / CONSTANTS).read_text()
        except NotServedError:
            continue
        wanted = dict(re.findall(r"^\s+(DefaultEtcdVersion|CoreDNSVersion|PauseVersion) += \"([^\"]+)\"", text, re.M))
        there = {"DefaultEtcdVersion": "etcd", "CoreDNSVersion": "coredns", "PauseVersion": "pause"}
        assert wanted == {constant: entry[name] for constant, name in there.items()}, version
        missing = set(check.kubernetes_images(version, entry)) - set(lock.images)
        assert not missing, f"kubeadm {version} wants {sorted(missing)}"
        proven.append(version)
    assert proven, "the Go module proxy serves none of these versions"


def test_flannels_manifest_is_the_same_as_in_its_source(lock: reader.Lock, table: dict[str, Any]) -> None:
    version = table["cluster_versions"]["flannel"]
    try:
        manifest = (go_source("github.com/flannel-io/flannel", version) / "Documentation/kube-flannel.yml").read_bytes()
    except NotServedError as error:
        pytest.skip(f"the Go module proxy does not serve flannel {version}: {error}")
    assert lock.downloads[f"flannel-manifest-{version}"].value == hashlib.sha256(manifest).hexdigest()
    images = set(re.findall(r"image: (\S+)", manifest.decode()))
    assert images and images <= set(lock.images)


def test_pypi_has_the_versions_of_cuda_components(lock: reader.Lock, table: dict[str, Any]) -> None:
    wanted: dict[str, set[str]] = {"wandb": {table["cluster_versions"]["wandb"]}}
    for repository in lock.repositories.values():
        for package in repository.packages:
            part = re.fullmatch(r"(cuda-nvcc|cuda-cudart)-([0-9]+)-[0-9]+", package.name)
            if part:
                project = PROJECTS[part[1]][int(part[2]) > 12]
                wanted.setdefault(project, set()).add(number(package.version))
    for project, versions in wanted.items():
        try:
            listed = client("PyPI", [sys.executable, "-m", "pip", "index", "versions", project])
        except NotServedError as error:
            pytest.skip(f"PyPI does not have {project}: {error}")
        there = set(re.split(r"[,\s]+", listed.partition("Available versions:")[2].split("\n")[0]))
        assert versions <= there, f"{project}: {sorted(versions - there)}"


def number(version: str) -> str:
    """Return the release in a package's version, for example 29.8.2 for 5:29.8.2-1~debian.12~bookworm."""
    return re.sub(r"^[0-9]+:|-.*$", "", version)
