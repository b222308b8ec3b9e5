"""The packages: upstream's names, versions, dependencies, files and conffiles around the programs built here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab import paths
from lab.depot import cache, deb, recipes, scripts, signing, versions
from lab.depot.golang import Recipe

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

_BUILT = "Built from the Go module {module} {version} for a lab."


@dataclass(frozen=True)
class Package:
    """One package to pack: where it goes, the key of all it is made from, and how."""

    group: str
    filename: str
    key: str
    pack: Callable[[Path], Path]

    @property
    def path(self) -> Path:
        """The packed file."""
        return paths.debs() / self.group / self.filename

    @property
    def is_packed(self) -> bool:
        """Say whether the file is there, made from the same."""
        stamp = self._stamp
        return self.path.is_file() and stamp.is_file() and stamp.read_text() == self.key

    def build(self) -> None:
        """Pack the file unless it is there."""
        if not self.is_packed:
            packed = self.pack(self.path.parent)
            assert packed == self.path, f"{packed} is not {self.path}"
            cache.replace_text(self._stamp, self.key)

    @property
    def _stamp(self) -> Path:
        return self.path.with_name(f".{self.path.name}.key")


def _code() -> str:
    here = Path(__file__).resolve().parent
    return cache.tree_digest(*(here / name for name in ("packages.py", "deb.py", "scripts.py")))


def _package(
    group: str, name: str, version: str, pack: Callable[[Path], Path], *inputs: object, architecture: str = "amd64"
) -> Package:
    return Package(group, f"{name}_{version}_{architecture}.deb", cache.digest(_code(), version, *inputs), pack)


def _about(title: str, recipe: Recipe) -> str:
    return f"{title}\n{_BUILT.format(module=recipe.module, version=recipe.version)}"


def kubernetes(version: str) -> list[Package]:
    """The packages of pkgs.k8s.io for one Kubernetes version."""
    wanted = versions.kubernetes_packages(version)
    source = recipes.kubernetes(version)
    group = f"kubernetes-{versions.minor(version)}"

    def kubelet(out: Path) -> Path:
        return deb.make(
            "kubelet",
            wanted["kubelet"],
            out=out,
            files={
                "/usr/bin/kubelet": source.program("kubelet"),
                "/usr/lib/systemd/system/kubelet.service": _KUBELET_UNIT,
                "/etc/default/kubelet": "KUBELET_EXTRA_ARGS=\n",
            },
            directories=["/etc/kubernetes/manifests", "/var/lib/kubelet"],
            conffiles=["/etc/default/kubelet"],
            depends=["kubernetes-cni (>= 1.2.0)", "iptables (>= 1.4.21)", "mount", "util-linux"],
            scripts=scripts.for_services(["kubelet.service"], start=False),
            section="net",
            description=_about("Node agent for Kubernetes clusters", source),
        )

    def kubeadm(out: Path) -> Path:
        return deb.make(
            "kubeadm",
            wanted["kubeadm"],
            out=out,
            files={
                "/usr/bin/kubeadm": source.program("kubeadm"),
                "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf": _KUBEADM_DROP_IN,
            },
            section="admin",
            description=_about("Command-line utility for administering a Kubernetes cluster", source),
        )

    def kubectl(out: Path) -> Path:
        return deb.make(
            "kubectl",
            wanted["kubectl"],
            out=out,
            files={"/usr/bin/kubectl": source.program("kubectl")},
            section="admin",
            description=_about("Command-line utility for interacting with a Kubernetes cluster", source),
        )

    packers = {"kubelet": kubelet, "kubeadm": kubeadm, "kubectl": kubectl}
    packages = [_package(group, name, wanted[name], pack, source.key) for name, pack in packers.items()]
    return [*packages, _cri_tools(group, wanted["cri-tools"]), _kubernetes_cni(group, wanted["kubernetes-cni"])]


def _cri_tools(group: str, version: str) -> Package:
    source = recipes.crictl(versions.crictl(version))

    def pack(out: Path) -> Path:
        about = _about("Command-line utility for interacting with a container runtime", source)
        files: dict[str, deb.Content] = {"/usr/bin/crictl": source.program("crictl")}
        return deb.make("cri-tools", version, out=out, files=files, section="admin", description=about)

    return _package(group, "cri-tools", version, pack, source.key)


def _kubernetes_cni(group: str, version: str) -> Package:
    source = recipes.cni_plugins(versions.upstream(version))

    def pack(out: Path) -> Path:
        files: dict[str, deb.Content] = {f"/opt/cni/bin/{name}": source.program(name) for name in source.programs}
        about = _about("Binaries required to provision container networking", source)
        return deb.make("kubernetes-cni", version, out=out, files=files, section="net", description=about)

    return _package(group, "kubernetes-cni", version, pack, source.key)


def containerd(version: str, package_version: str) -> Package:
    """Docker's containerd.io for one distribution."""
    source, runc = recipes.containerd(version), recipes.runc(version)

    def pack(out: Path) -> Path:
        unit = source.source("containerd.service").read_text().replace("/usr/local/bin/", "/usr/bin/")
        files: dict[str, deb.Content] = {f"/usr/bin/{name}": source.program(name) for name in source.programs}
        return deb.make(
            "containerd.io",
            package_version,
            out=out,
            files={
                **files,
                "/usr/bin/runc": runc.program("runc"),
                "/lib/systemd/system/containerd.service": unit,
                "/etc/containerd/config.toml": _CONTAINERD_CONFIG,
            },
            conffiles=["/etc/containerd/config.toml"],
            depends=["libc6 (>= 2.34)", "libseccomp2 (>= 2.5.0)"],
            fields=dict.fromkeys(("Provides", "Conflicts", "Replaces"), "containerd, runc"),
            scripts=scripts.for_services(["containerd.service"], start=True),
            section="devel",
            description=_about(f"An open and reliable container runtime (with runc {runc.version})", source),
        )

    return _package("containerd", "containerd.io", package_version, pack, source.key, runc.key)


def container_toolkit(version: str, package_version: str) -> list[Package]:
    """NVIDIA's four packages of the container toolkit."""
    source = recipes.container_toolkit(version)
    exact = f"(= {package_version})"
    old = "nvidia-container-runtime (<= 3.5.0-1), nvidia-container-runtime-hook"
    units = ["nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"]

    def base(out: Path) -> Path:
        service = scripts.for_services(units, start=True)
        postinst = source.source("packaging/debian/nvidia-container-toolkit-base.postinst").read_text()
        service["postinst"] = scripts.with_debhelper(postinst, scripts.started(units))
        programs = [name for name in source.programs if name != "nvidia-container-runtime-hook"]
        systemd = source.source("deployments/systemd")
        rules = "99-nvidia-cdi-refresh.rules"
        files: dict[str, deb.Content] = {f"/usr/bin/{name}": source.program(name) for name in programs}
        files |= {f"/lib/systemd/system/{unit}": systemd / unit for unit in units}
        files["/lib/systemd/system/nvidia-cdi-refresh.service.d/10-container-engines.conf"] = (
            systemd / "10-container-engines.conf"
        )
        files["/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"] = systemd / "nvidia-cdi-refresh.env"
        files[f"/lib/udev/rules.d/{rules}"] = source.source(f"deployments/udev/{rules}")
        return deb.make(
            "nvidia-container-toolkit-base",
            package_version,
            out=out,
            files=files,
            conffiles=["/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"],
            fields={"Breaks": f"{old}, nvidia-container-toolkit (<= 1.10.0-1)", "Replaces": old},
            scripts=service,
            section="utils",
            description=_about("NVIDIA Container Toolkit Base", source),
        )

    def toolkit(out: Path) -> Path:
        packaging = source.source("packaging/debian")
        hooks = {name: packaging / f"nvidia-container-toolkit.{name}" for name in ("postinst", "postrm")}
        tools = f"libnvidia-container-tools {exact}, libnvidia-container-tools (<< 2.0.0)"
        return deb.make(
            "nvidia-container-toolkit",
            package_version,
            out=out,
            files={"/usr/bin/nvidia-container-runtime-hook": source.program("nvidia-container-runtime-hook")},
            depends=[f"nvidia-container-toolkit-base {exact}", tools],
            fields={"Breaks": old, "Replaces": old},
            scripts={name: scripts.with_debhelper(path.read_text(), "") for name, path in hooks.items()},
            section="utils",
            description=_about("NVIDIA Container toolkit", source),
        )

    def placeholder(name: str, depends: list[str]) -> Callable[[Path], Path]:
        about = f"Placeholder for {name} (lab)\nEmpty: the C library and nvidia-container-cli of the legacy mode\n"
        about += "aren't built for the lab; the toolkit's CDI modes don't use them."
        return lambda out: deb.make(name, package_version, out=out, depends=depends, section="libs", description=about)

    library = f"libnvidia-container1 (>= {package_version}), libnvidia-container1 (<< 2.0.0)"
    packers = {
        "nvidia-container-toolkit-base": base,
        "nvidia-container-toolkit": toolkit,
        "libnvidia-container-tools": placeholder("libnvidia-container-tools", [library]),
        "libnvidia-container1": placeholder("libnvidia-container1", ["libc6"]),
    }
    group = "nvidia-container-toolkit"
    return [_package(group, name, package_version, pack, source.key) for name, pack in packers.items()]


def cuda_keyring(distribution: str) -> Package:
    """NVIDIA's package with the key and the source of the CUDA repository; here the key is the depot's."""
    version = versions.CUDA_KEYRING
    keyring = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    address = f"https://developer.download.nvidia.com/compute/cuda/repos/{distribution}/x86_64/"

    def pack(out: Path) -> Path:
        return deb.make(
            "cuda-keyring",
            version,
            out=out,
            files={
                keyring: signing.binary(),
                f"/etc/apt/sources.list.d/cuda-{distribution}-x86_64.list": f"deb [signed-by={keyring}] {address} /\n",
                "/etc/apt/preferences.d/cuda-repository-pin-600": (
                    "Package: nsight-compute\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\n"
                    "Package: nsight-systems\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\n"
                    "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
                ),
            },
            conffiles=[
                f"/etc/apt/sources.list.d/cuda-{distribution}-x86_64.list",
                "/etc/apt/preferences.d/cuda-repository-pin-600",
            ],
            architecture="all",
            description="GPG keyring for the CUDA repository (the lab's key)",
        )

    key = signing.binary().read_bytes().hex() if signing.binary().is_file() else ""
    return _package(f"cuda-{distribution}", "cuda-keyring", version, pack, key, distribution, architecture="all")
