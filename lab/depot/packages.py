"""Contents of packages by name: files, conffiles and scripts around the programs built here."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path

from lab.depot import cache, cuda_toolkits, docker_programs, golang, recipes, scripts, signing, versions
from lab.depot.content import Content, Filling, placeholder
from lab.depot.golang import Recipe
from lab.gpusim import driver_content
from upstream.lock import Package, Repository

_KUBELET_UNIT = """\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
"""

_KUBEADM_DROP_IN = """\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
--kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
# kubeadm init and join write KUBELET_KUBEADM_ARGS there.
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
# The administrator's own KUBELET_EXTRA_ARGS.
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
"""

_CONTAINERD_CONFIG = """\
# As in Docker's package: without a change here, Kubernetes can't use this containerd.
disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
#state = "/run/containerd"
"""

# As in Docker's own packages: https://github.com/docker/docker-ce-packaging, deb/common/docker-ce.postinst
_DOCKER_POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$2" ] && ! getent group docker >/dev/null; then
    groupadd --system docker
fi
#DEBHELPER#
"""

_BUILT = "Built from the Go module {module} {version} for a lab."
_CUDA = "cuda-"


def content(entry: Package, repository: Repository, kubernetes: Collection[str]) -> Content | None:
    """Return the content of a package in the lock, None for a version that the lab does not build.

    `kubernetes` are the Kubernetes versions that are built.
    """
    if entry.empty:
        return placeholder(entry.name, "upstream's is empty as well")
    release = entry.version.split(":", 1)[-1].partition("-")[0]
    if entry.name in _KUBERNETES:
        return _KUBERNETES[entry.name](recipes.kubernetes(release)) if release in kubernetes else None
    if entry.name == "cri-tools":
        return _cri_tools(recipes.crictl(versions.crictl(f"v{release}")))
    if entry.name == "kubernetes-cni":
        return _kubernetes_cni(recipes.cni_plugins(f"v{release}"))
    if entry.name == "containerd.io":
        return _containerd(release) if release in versions.RUNC else None
    if entry.name in _DOCKER:
        return _DOCKER[entry.name](release) if docker_programs.is_built(release) else placeholder(entry.name)
    if entry.name in _DOCKER_PLUGINS:
        return _docker_plugin(entry.name, release)
    if entry.name in _TOOLKIT:
        wanted = release in versions.table()["nvidia_container_toolkit"]
        return _TOOLKIT[entry.name](recipes.container_toolkit(release)) if wanted else None
    if entry.name == "cuda-keyring":
        return _cuda_keyring(repository)
    if not repository.name.startswith(_CUDA):
        return placeholder(entry.name)
    found = cuda_toolkits.content(entry.name, entry.version)
    if found is None:
        found = driver_content(entry.name, entry.version, repository.name.removeprefix(_CUDA))
    return found


def _content(title: str, source: Recipe, fill: Callable[[], Filling], section: str, *more: Recipe) -> Content:
    key = cache.digest(_code(), source.key, *(recipe.key for recipe in more))
    about = f"{title}\n{_BUILT.format(module=source.module, version=source.version)}"
    return Content(about, key, fill, section, programs=(source, *more))


@lru_cache
def _code() -> str:
    here = Path(__file__).resolve().parent
    return cache.tree_digest(here / "packages.py", here / "scripts.py")


def _kubelet(source: Recipe) -> Content:
    def fill() -> Filling:
        return Filling(
            files={
                "/usr/bin/kubelet": source.program("kubelet"),
                "/usr/lib/systemd/system/kubelet.service": _KUBELET_UNIT,
                "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n",
            },
            directories=["/etc/kubernetes/manifests", "/var/lib/kubelet"],
            conffiles=["/etc/default/kubelet"],
            scripts=scripts.for_services(["kubelet.service"], start=False),
        )

    return _content("Node agent for Kubernetes clusters", source, fill, "net")


def _kubeadm(source: Recipe) -> Content:
    def fill() -> Filling:
        return Filling(
            {
                "/usr/bin/kubeadm": source.program("kubeadm"),
                "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": _KUBEADM_DROP_IN,
            }
        )

    return _content("Command-line utility for administering a Kubernetes cluster", source, fill, "admin")


def _kubectl(source: Recipe) -> Content:
    def fill() -> Filling:
        return Filling({"/usr/bin/kubectl": source.program("kubectl")})

    return _content("Command-line utility for interacting with a Kubernetes cluster", source, fill, "admin")


def _cri_tools(source: Recipe) -> Content:
    def fill() -> Filling:
        return Filling({"/usr/bin/crictl": source.program("crictl")})

    return _content("Command-line utility for interacting with a container runtime", source, fill, "admin")


def _kubernetes_cni(source: Recipe) -> Content:
    def fill() -> Filling:
        return Filling({f"/opt/cni/bin/{name}": source.program(name) for name in source.programs})

    return _content("Binaries required to provision container networking", source, fill, "net")


def _containerd(version: str) -> Content:
    source, runc = recipes.containerd(version), recipes.runc(version)

    def fill() -> Filling:
        unit = source.source("containerd.service").read_text().replace("/usr/local/bin/", "/usr/bin/")
        return Filling(
            files={
                **{f"/usr/bin/{name}": source.program(name) for name in source.programs},
                "/usr/bin/runc": runc.program("runc"),
                "/lib/systemd/system/containerd.service": unit,
                "/etc/containerd/config.toml": _CONTAINERD_CONFIG,
            },
            conffiles=["/etc/containerd/config.toml"],
            scripts=scripts.for_services(["containerd.service"], start=True),
        )

    return _content(f"An open and reliable container runtime (with runc {runc.version})", source, fill, "devel", runc)


def _docker_engine(version: str) -> Content:
    source = recipes.docker_engine(version)
    units = ["docker.service", "docker.socket"]

    def fill() -> Filling:
        service = scripts.for_services(units, start=True)
        service["postinst"] = scripts.with_debhelper(_DOCKER_POSTINST, scripts.started(units))
        return Filling(
            files={
                **{f"/usr/bin/{name}": source.program(name) for name in source.programs},
                **{f"/lib/systemd/system/{unit}": source.source(f"contrib/init/systemd/{unit}") for unit in units},
            },
            directories=["/etc/docker"],
            scripts=service,
        )

    return _content("Docker: the open-source application container engine", source, fill, "admin")


def _docker_cli(version: str) -> Content:
    source = recipes.docker_cli(version)

    def fill() -> Filling:
        return Filling({"/usr/bin/docker": source.program("docker")})

    return _content("Docker CLI: the open-source application container engine", source, fill, "admin")


def _docker_plugin(package: str, version: str) -> Content:
    known = (docker_programs.plugins(each)[package] for each in versions.DOCKER)
    source = next((recipe for recipe in known if recipe.version == f"v{version}"), None)
    if source is None or not golang.is_built(source):
        return placeholder(package)

    def fill() -> Filling:
        return Filling({f"/usr/libexec/docker/cli-plugins/{name}": source.program(name) for name in source.programs})

    return _content(_DOCKER_PLUGINS[package], source, fill, "admin")


def _toolkit_base(source: Recipe) -> Content:
    units = ["nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"]

    def fill() -> Filling:
        service = scripts.for_services(units, start=True)
        postinst = source.source("packaging/debian/nvidia-container-toolkit-base.postinst").read_text()
        service["postinst"] = scripts.with_debhelper(postinst, scripts.started(units))
        programs = [name for name in source.programs if name != "nvidia-container-runtime-hook"]
        systemd = source.source("deployments/systemd")
        environment, rules = "nvidia-cdi-refresh.env", "99-nvidia-cdi-refresh.rules"
        engines = "10-container-engines.conf"
        return Filling(
            files={
                **{f"/usr/bin/{name}": source.program(name) for name in programs},
                **{f"/lib/systemd/system/{unit}": systemd / unit for unit in units},
                f"/lib/systemd/system/nvidia-cdi-refresh.service.d/{engines}": systemd / engines,
                f"/etc/nvidia-container-toolkit/{environment}": systemd / environment,
                f"/lib/udev/rules.d/{rules}": source.source(f"deployments/udev/{rules}"),
            },
            conffiles=[f"/etc/nvidia-container-toolkit/{environment}"],
            scripts=service,
        )

    return _content("NVIDIA Container Toolkit Base", source, fill, "utils")


def _toolkit(source: Recipe) -> Content:
    def fill() -> Filling:
        packaging = source.source("packaging/debian")
        hooks = {name: packaging / f"nvidia-container-toolkit.{name}" for name in ("postinst", "postrm")}
        return Filling(
            {"/usr/bin/nvidia-container-runtime-hook": source.program("nvidia-container-runtime-hook")},
            {name: scripts.with_debhelper(path.read_text(), "") for name, path in hooks.items()},
        )

    return _content("NVIDIA Container toolkit", source, fill, "utils")


def _legacy(name: str) -> Callable[[Recipe], Content]:
    why = "the C library and nvidia-container-cli of the legacy mode aren't built, and the CDI modes don't use them"
    return lambda _source: placeholder(name, why)


_KUBERNETES = {"kubelet": _kubelet, "kubeadm": _kubeadm, "kubectl": _kubectl}
_DOCKER = {"docker-ce": _docker_engine, "docker-ce-cli": _docker_cli}
_DOCKER_PLUGINS = {
    "docker-buildx-plugin": "Docker Buildx plugin extends build capabilities with BuildKit",
    "docker-compose-plugin": "Docker Compose (V2) plugin for the Docker CLI",
}
_TOOLKIT = {
    "nvidia-container-toolkit-base": _toolkit_base,
    "nvidia-container-toolkit": _toolkit,
    "libnvidia-container-tools": _legacy("libnvidia-container-tools"),
    "libnvidia-container1": _legacy("libnvidia-container1"),
}


def _cuda_keyring(repository: Repository) -> Content:
    """Return NVIDIA's package with the CUDA repository's source and, instead of NVIDIA's key, the depot's."""
    keyring = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    sources = f"/etc/apt/sources.list.d/{repository.name}-x86_64.list"
    pin = "/etc/apt/preferences.d/cuda-repository-pin-600"

    def fill() -> Filling:
        return Filling(
            files={
                keyring: signing.binary(repository.key),
                sources: f"deb [signed-by={keyring}] {repository.url.rstrip('/')}/ /\n",
                pin: "Package: nsight-compute\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\n"
                "Package: nsight-systems\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\n"
                "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n",
            },
            conffiles=[sources, pin],
        )

    key = cache.digest(_code(), signing.public(repository.key), repository.name, repository.url)
    return Content("GPG keyring for the CUDA repository (the lab's key)", key, fill)
