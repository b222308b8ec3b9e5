"""List for docs/air-gapped.md every image, package and file that the playbooks download.

Sources are the roles' defaults and variables, the version table, and upstream.lock.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from upstream import check  # noqa: E402
from upstream.lock import Lock, load  # noqa: E402

# Role -> playbooks that use its images, and their purpose; the second table is for packages.
IMAGES_OF = {
    "flannel": ("site", "pod network"),
    "nvidia_device_plugin": ("site", "GPUs as resources, node labels"),
    "acceptance": ("site", "verification"),
    "local_path": ("storage", "volumes on the nodes"),
    "nfs_cache": ("storage", "verification of the shared claim"),
    "dcgm_exporter": ("metrics", "metrics of each GPU"),
    "torch_ddp": ("train, benchmark_network, benchmark_gpus", "training; one of the two, by the GPUs"),
    "docker": ("docker", "verification"),
    "wandb_launch": ("wandb_launch", "agent in the cluster"),
}
PACKAGES_OF = {
    "backup": "`site` with `backup_recipients`",
    "docker": "`docker`",
    "minikube": "`minikube`",
    "nfs_cache": "`storage`",
    "nfs_server": "`storage`",
    "restore": "`restore` of an encrypted archive",
    "wandb_launch": "`wandb_launch_docker`",
}
# Roles in a default run of site.yml, and roles that the user must name (see the page).
IN_SITE = ("kubeadm", "api_endpoint", "containerd", "nvidia_container_toolkit", "nvidia_driver")
NAMED_BY_USER = ("cuda_toolkit",)
Table = Callable[[Iterable[str], Iterable[Iterable[object]]], str]


def section(table: Table) -> str:
    """Return the lists as Markdown. ``table`` is the function in generate.py."""
    downloads = Downloads()
    unknown = roles_with_packages() - {*PACKAGES_OF, *IN_SITE, *NAMED_BY_USER}
    unknown |= {role for role in downloads.defaults if downloads.images(role)} - set(IMAGES_OF)
    if unknown:
        raise SystemExit(
            f"docs/downloads.py: which playbooks use the images or packages of {', '.join(sorted(unknown))}?"
        )
    parts = [
        "### Images of a default run\n",
        table(("image", "pulled by digest", "setting", "for"), downloads.default_images()),
        "### Packages of a default run\n",
        table(("hosts", "repository", "packages"), downloads.default_packages()),
        "### Signing keys\n",
        table(("key", "hosts"), downloads.keys()),
        "### Images of optional playbooks\n",
        table(("playbook", "image", "pulled by digest", "setting", "for"), downloads.optional_images()),
        "### Packages of optional playbooks\n",
        table(("playbook", "hosts", "repository", "packages"), downloads.optional_packages()),
        "### Files\n",
        table(("playbook", "file", "setting"), downloads.files()),
    ]
    return "\n".join(parts).strip()


class Downloads:
    """All downloads, row by row."""

    def __init__(self) -> None:
        self._table: dict[str, Any] = _load("roles/cluster/vars/main/versions.yml")
        self._versions: dict[str, Any] = self._table["cluster_versions"]
        self._systems: list[str] = self._table["cluster_distributions"]
        self._lock: Lock = load()
        self.defaults = {path.parts[-3]: _load(path) or {} for path in sorted(ROOT.glob("roles/*/defaults/main.yml"))}
        self._flat = {name: value for values in self.defaults.values() for name, value in values.items()}
        self._kubernetes: str = self._flat["cluster_kubernetes_version"]

    def images(self, role: str) -> dict[str, str]:
        """Return the images in a role's defaults, with their variables."""
        found: dict[str, str] = {}
        for name, value in self.defaults[role].items():
            if re.search(r"_images?\Z", name) and value:
                rendered = map(self._rendered, value if isinstance(value, list) else [value])
                found |= {image: name for image in rendered if image}
        return found

    def default_images(self) -> Iterator[tuple[str, ...]]:
        entry = self._versions["kubernetes"][self._kubernetes]
        # kubeadm and containerd pull these by tag, even if the digest is known.
        for image in check.kubernetes_images(self._kubernetes, entry):
            yield f"`{image}`", "no", "`kubeadm_image_repository`", "control plane, nodes"
        yield from (row[1:] for row in self._role_images() if row[0] == "site")

    def optional_images(self) -> Iterator[tuple[str, ...]]:
        yield from (row for row in self._role_images() if row[0] != "site")

    def default_packages(self) -> Iterator[tuple[str, ...]]:
        yield from self._grouped(self._site_packages())

    def optional_packages(self) -> Iterator[tuple[str, ...]]:
        for role, playbook in PACKAGES_OF.items():
            names = list(packages_of_role(role))
            rows = [row for system in self._systems for row in self._placed(system, self._wanted(names, system))]
            yield from ((playbook, *row) for row in self._grouped(rows))

    def keys(self) -> Iterator[tuple[str, ...]]:
        families = self._families()
        rows = [
            (self._lock.repository(family, system).key.url, system) for system in self._systems for family in families
        ]
        for url in dict(rows):
            yield f"`{url}`", self._named([system for one, system in rows if one == url])

    def files(self) -> Iterator[tuple[str, ...]]:
        minikube, operator = self.defaults["minikube"], self.defaults["gpu_operator"]
        url = f"{minikube['minikube_release_url']}/v{minikube['minikube_version']}/minikube-linux-amd64"
        chart = f"chart `gpu-operator` {operator['gpu_operator_chart_version']}"
        yield "`minikube`", f"`{url}`", "`minikube_release_url`"
        tools = self._versions["kubernetes"][self._kubernetes]["etcd_tools"]
        release = f"{self._flat['etcd_tools_release_url']}/v{tools}/etcd-v{tools}-linux-amd64.tar.gz"
        yield "`site`, for backups", f"`{release}`", "`etcd_tools_release_url`"
        yield (
            "`gpu_operator`",
            f"{chart} of `{operator['gpu_operator_chart_repository_url']}`",
            "`gpu_operator_chart_path`, `gpu_operator_chart_repository_url`",
        )
        wandb = f"`wandb=={self._versions['wandb']}` and its dependencies"
        yield (
            "`wandb_launch_docker`",
            f"{wandb} of `{self._flat['wandb_launch_index_url']}`",
            "`wandb_launch_index_url`",
        )

    def _rendered(self, text: str) -> str:
        return str(jinja2.Template(str(text)).render(self._flat, cluster_versions=self._versions)).strip()

    def _role_images(self) -> Iterator[tuple[str, ...]]:
        for role, (playbooks, purpose) in IMAGES_OF.items():
            where = ", ".join(f"`{name}`" for name in playbooks.split(", ")) if playbooks != "site" else playbooks
            for image, variable in self.images(role).items():
                yield where, f"`{image}`", self._digest(image), f"`{variable}`", purpose

    def _digest(self, image: str) -> str:
        return "yes" if self._table["_cluster_image_digests"].get(image) else "no"

    def _families(self) -> tuple[str, ...]:
        return f"kubernetes-v{self._kubernetes.rpartition('.')[0]}", "docker", "container-toolkit", "cuda"

    def _site_packages(self) -> Iterator[tuple[str, str, str]]:
        """Yield (distribution, repository, packages) of a default run, with both kinds of kernel modules."""
        driver: Any = _module("plugin_utils._driver.packages")
        toolkit = self._versions["nvidia_container_toolkit"][self._flat["nvidia_container_toolkit_version"]]
        for system in self._systems:
            wanted = dict(self._versions["kubernetes"][self._kubernetes]["packages"])
            wanted["containerd.io"] = self._versions["containerd"][self._flat["containerd_version"]]["packages"][system]
            names = _load("roles/nvidia_container_toolkit/vars/main.yml")["nvidia_container_toolkit_packages"]
            wanted |= {one["name"]: toolkit["packages"]["any"] for one in names}
            yield from self._placed(system, wanted)
            names = _load("roles/api_endpoint/vars/main.yml")["api_endpoint_packages"]
            yield from self._placed(system, {one["name"]: "" for one in names})
            host = {"os": {"key": system}, "nvidia_driver": {"packages": {}}, "gpus": [], "nvswitches": 1}
            table = self._versions["nvidia_driver"]
            for version in driver.available(system, table):
                for kind in (driver.OPEN, driver.PROPRIETARY):
                    plan = driver.packages_of(host, driver.Wanted(version, modules=kind), table)
                    chosen = [*plan.pinning, *plan.packages]
                    held = self._lock.repository("cuda", system)
                    wanted = {one["name"]: one.get("version") or held.versions(one["name"])[-1] for one in chosen}
                    yield from self._placed(system, wanted)

    def _wanted(self, names: Iterable[str], system: str) -> dict[str, str]:
        """Return the version of each package, empty for packages of the distribution."""
        docker = self._versions["docker"][self._flat["docker_version"]]
        known = {name: docker[part][system] for name, part in check.DOCKER.items()}
        known |= self._versions["kubernetes"][self._kubernetes]["packages"]
        return {name: known.get(name, "") for name in names}

    def _placed(self, system: str, wanted: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Yield (distribution, repository, package with version) of packages and their dependencies."""
        pinned = {name: version for name, version in wanted.items() if version}
        for name, version in sorted(check.dependencies(self._lock, system, pinned).items()):
            holder = next(
                repository
                for family in self._families()
                for repository in [self._lock.repository(family, system)]
                if version in repository.versions(name)
            )
            where = holder.url if holder.suite == "/" else f"{holder.url} {holder.suite}"
            yield system, f"`{where}`", f"{name}={version}"
        for name in sorted(set(wanted) - set(pinned)):
            yield system, "the distribution", name

    def _grouped(self, rows: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, ...]]:
        """Yield one row for each repository and version, with all distributions that have the same packages."""
        found: dict[tuple[str, str], dict[str, set[str]]] = {}
        for system, where, package in rows:
            name, _equals, version = package.partition("=")
            found.setdefault((where, version), {}).setdefault(name, set()).add(system)
        merged: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (where, version), names in found.items():
            for systems in dict.fromkeys(tuple(sorted(each)) for each in names.values()):
                chosen = sorted(name for name, each in names.items() if tuple(sorted(each)) == systems)
                text = ", ".join(f"`{name}`" for name in chosen) + (f" {version}" if version else "")
                merged.setdefault((where, systems), []).append(text)
        for (where, systems), texts in sorted(
            merged.items(), key=lambda row: (row[0][0].partition("/linux/")[0], row[0][1])
        ):
            yield self._named(systems), where, "; ".join(texts)

    def _named(self, systems: Iterable[str]) -> str:
        there = set(systems)
        return "all" if there == set(self._systems) else ", ".join(one for one in self._systems if one in there)


def packages_of_role(role: str) -> Iterator[str]:
    """Yield the names of packages that a role installs with apt, without those that depend on the host."""
    found = [path for place in ("vars", "tasks") for path in sorted((ROOT / "roles" / role / place).glob("*.yml"))]
    paths = [path for path in found if "absent" not in path.name]
    variables = {name: value for path in paths if path.parent.name == "vars" for name, value in _load(path).items()}
    for path in paths:
        for arguments in _asked(_load(path)):
            wanted = arguments.get("packages", [])
            named = re.match(r"\{\{ (\w+)", wanted) if isinstance(wanted, str) else None
            wanted = variables.get(named[1], []) if named else wanted
            yield from (one["name"] for one in wanted if isinstance(one, dict) and "{{" not in one["name"])


def roles_with_packages() -> set[str]:
    """Return the roles that install packages with apt."""
    pattern = re.compile(r"\bmodule: apt_packages$|\bgpulab\.kubernetes\.apt_packages:", re.MULTILINE)
    paths = [*ROOT.glob("roles/*/vars/**/*.yml"), *ROOT.glob("roles/*/tasks/**/*.yml")]
    return {path.relative_to(ROOT / "roles").parts[0] for path in paths if pattern.search(path.read_text())}


def _asked(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        if value.get("module") == "apt_packages":
            yield value["args"]
        for inner in value.values():
            yield from _asked(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _asked(inner)


def _module(name: str) -> Any:
    return importlib.import_module(f"ansible_collections.gpulab.kubernetes.plugins.{name}")


def _load(path: str | Path) -> Any:
    return yaml.safe_load((ROOT / path).read_text())
