"""Recipes of the programs that are built from Go modules."""

from __future__ import annotations

from lab.depot import versions
from lab.depot.golang import Recipe

# NVIDIA's programs find libnvidia-ml at run time, so its symbols stay undefined when they are linked.
_NVML_AT_RUN_TIME = "-Wl,--export-dynamic -Wl,--unresolved-symbols=ignore-in-object-files -Wl,-z,lazy"
_TENCENT = "github.com/tencentcloud/tencentcloud-sdk-go/tencentcloud"
_CNI = {
    "main": ("bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "tap", "vlan"),
    "ipam": ("dhcp", "host-local", "static"),
    "meta": ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf"),
}


def kubernetes(version: str) -> Recipe:
    """All programs of Kubernetes."""
    major, minor, _patch = version.split(".")
    values = {
        "gitVersion": "{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "{commit}",
        "buildDate": "{date}",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    names = ("kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    return Recipe(
        "kubernetes",
        "k8s.io/kubernetes",
        f"v{version}",
        {name: f"./cmd/{name}" for name in (*names, "kube-proxy")},
        ldflags=" ".join(f"-X {package}.{key}={value}" for package in packages for key, value in values.items()),
        staging=_staging(version),
        keep=("build/pause/linux/*.c",),
    )


def agnhost() -> Recipe:
    """Upstream's program for checking networks."""
    source = versions.AGNHOST_SOURCE
    programs = {"agnhost": "./test/images/agnhost"}
    return Recipe("agnhost", "k8s.io/kubernetes", f"v{source}", programs, staging=_staging(source))


def dra_test_driver(version: str) -> Recipe:
    """The DRA driver of Kubernetes' own tests: real ResourceSlices, claims and CDI files, for invented devices."""
    programs = {"dra-test-driver": "./test/e2e/dra/test-driver"}
    return Recipe("dra-test-driver", "k8s.io/kubernetes", f"v{version}", programs, staging=_staging(version))


def _staging(version: str) -> str:
    return f"v0.{version.split('.', 1)[1]}"


def crictl(tag: str) -> Recipe:
    """The command line of the container runtime interface."""
    flags = "-X sigs.k8s.io/cri-tools/pkg/version.Version={version}"
    return Recipe("cri-tools", "sigs.k8s.io/cri-tools", tag, {"crictl": "./cmd/crictl"}, ldflags=flags)


def cni_plugins(tag: str) -> Recipe:
    """The reference CNI plugins."""
    return Recipe(
        "cni-plugins",
        "github.com/containernetworking/plugins",
        tag,
        {name: f"./plugins/{kind}/{name}" for kind, names in _CNI.items() for name in names},
        ldflags="-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion={version}",
    )


def etcd(tag: str) -> Recipe:
    """The etcd server."""
    flags = "-X go.etcd.io/etcd/api/v3/version.GitSHA={commit}"
    return Recipe("etcd", "go.etcd.io/etcd/server/v3", tag, {"etcd": "."}, ldflags=flags)


def etcd_tools(tag: str) -> tuple[Recipe, ...]:
    """The programs of etcd's release archive for its operators."""
    return tuple(Recipe(name, f"go.etcd.io/etcd/{name}/v3", tag, {name: "."}) for name in ("etcdctl", "etcdutl"))


def rclone(tag: str) -> Recipe:
    """rclone, whose command serve has an object store with the S3 protocol."""
    return Recipe("rclone", "github.com/rclone/rclone", tag, {"rclone": "."})


def coredns(tag: str) -> Recipe:
    """The cluster's DNS server."""
    flags = "-X github.com/coredns/coredns/coremain.GitCommit={commit}"
    return Recipe("coredns", "github.com/coredns/coredns", tag, {"coredns": "."}, ldflags=flags)


def containerd(version: str) -> Recipe:
    """The container runtime."""
    package = "github.com/containerd/containerd/v2/version"
    return Recipe(
        "containerd",
        "github.com/containerd/containerd/v2",
        f"v{version}",
        {name: f"./cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
        ldflags=f"-X {package}.Version={{version}} -X {package}.Revision={{commit}}",
        keep=("containerd.service",),
    )


def runc(containerd_version: str) -> Recipe:
    """The runc for a containerd version, static and with seccomp, as its project releases it."""
    return Recipe(
        "runc",
        "github.com/opencontainers/runc",
        versions.RUNC[containerd_version],
        {"runc": "."},
        cgo=True,
        static=True,
        tags=("seccomp", "netgo", "osusergo"),
    )


def docker_engine(version: str) -> Recipe:
    """Docker's daemon."""
    module = "github.com/moby/moby/v2"
    return Recipe(
        "docker-engine",
        module,
        versions.DOCKER[version],
        {name: f"./cmd/{name}" for name in ("dockerd", "docker-proxy")},
        ldflags=f"-X {module}/dockerversion.Version={version} -X {module}/dockerversion.GitCommit={{commit}}",
        keep=("contrib/init/systemd/docker.*",),
    )


def docker_cli(version: str) -> Recipe:
    """Docker's command line."""
    package = "github.com/docker/cli/cli/version"
    return Recipe(
        "docker-cli",
        "github.com/docker/cli",
        f"v{version}+incompatible",
        {"docker": "./cmd/docker"},
        ldflags=f"-X {package}.Version={version} -X {package}.GitCommit={{commit}}",
    )


def docker_buildx(version: str) -> Recipe:
    """Docker's plugin that builds images."""
    package = "github.com/docker/buildx/version"
    return Recipe(
        "docker-buildx",
        "github.com/docker/buildx",
        f"v{version}",
        {"docker-buildx": "./cmd/buildx"},
        ldflags=f"-X {package}.Version={{version}} -X {package}.Revision={{commit}}",
    )


def docker_compose(version: str) -> Recipe:
    """Docker's plugin that runs several containers as one application."""
    module = f"github.com/docker/compose/v{version.partition('.')[0]}"
    return Recipe(
        "docker-compose",
        module,
        f"v{version}",
        {"docker-compose": "./cmd"},
        ldflags=f"-X {module}/internal.Version={{version}}",
    )


def dockershim() -> Recipe:
    """The replacement of cri-dockerd: Docker's CRI from the last Kubernetes that had it, as a separate program."""
    source = versions.DOCKERSHIM_SOURCE
    programs = {"cri-dockerd": "main.go"}
    return Recipe("dockershim", "k8s.io/kubernetes", f"v{source}", programs, staging=_staging(source), own="dockershim")


def flannel(tag: str) -> Recipe:
    """The pod network's agent."""
    return Recipe(
        "flannel",
        "github.com/flannel-io/flannel",
        tag,
        {"flanneld": ".", "install-conf": "./cmd/install_conf"},
        cgo=True,
        static=True,
        ldflags="-X github.com/flannel-io/flannel/pkg/version.Version={version}",
        # The versions in go.mod are not available; no other backend uses them.
        replaces={f"{_TENCENT}/{name}": f"{_TENCENT}/{name}@v1.0.1100" for name in ("common", "vpc")},
    )


def flannel_cni() -> Recipe:
    """The flannel CNI plugin, from the last release of the reference plugins that had it."""
    tag = versions.FLANNEL_CNI_SOURCE
    programs = {"flannel": "./plugins/meta/flannel"}
    return Recipe("flannel-cni", "github.com/containernetworking/plugins", tag, programs)


def container_toolkit(version: str) -> Recipe:
    """NVIDIA's container toolkit with the files of its packages."""
    info = "github.com/NVIDIA/nvidia-container-toolkit/internal/info"
    names = ("nvidia-ctk", "nvidia-cdi-hook", "nvidia-container-runtime", "nvidia-container-runtime-hook")
    modes = ("nvidia-container-runtime.cdi", "nvidia-container-runtime.legacy")
    return Recipe(
        "nvidia-container-toolkit",
        "github.com/NVIDIA/nvidia-container-toolkit",
        f"v{version}",
        {name: f"./cmd/{name}" for name in (*names, *modes)},
        cgo=True,
        ldflags=f"-X {info}.version={{number}} -X {info}.gitCommit={{commit}}",
        external_ldflags=_NVML_AT_RUN_TIME,
        keep=("deployments/systemd/*", "deployments/udev/*", "packaging/debian/*.post*"),
    )


def device_plugin(tag: str) -> Recipe:
    """NVIDIA's device plugin and GPU feature discovery."""
    info = "github.com/NVIDIA/k8s-device-plugin/internal/info"
    names = ("nvidia-device-plugin", "gpu-feature-discovery", "config-manager", "mps-control-daemon")
    return Recipe(
        "k8s-device-plugin",
        "github.com/NVIDIA/k8s-device-plugin",
        tag,
        {name: f"./cmd/{name}" for name in names},
        cgo=True,
        ldflags=f"-X {info}.version={{version}} -X {info}.gitCommit={{commit}}",
        external_ldflags=_NVML_AT_RUN_TIME,
    )


def node_feature_discovery(tag: str) -> Recipe:
    """Node Feature Discovery as in its image: the host's directories are mounted below /host-*."""
    package = "sigs.k8s.io/node-feature-discovery/pkg"
    return Recipe(
        "node-feature-discovery",
        "sigs.k8s.io/node-feature-discovery",
        tag,
        {name: f"./cmd/{name}" for name in ("nfd-master", "nfd-worker", "nfd-gc")},
        tags=("osusergo", "netgo"),
        ldflags=f"-X {package}/version.version={{version}} -X {package}/utils/hostpath.pathPrefix=/host-",
        staging=tag,
    )


def local_path_provisioner(tag: str) -> Recipe:
    """The provisioner of volumes in directories of the nodes."""
    return Recipe(
        "local-path-provisioner",
        "github.com/rancher/local-path-provisioner",
        tag,
        {"local-path-provisioner": "."},
        ldflags="-X main.VERSION={version}",
    )


def dcgm_exporter() -> Recipe:
    """The replacement of NVIDIA's dcgm-exporter, which needs DCGM and is not on every proxy as a Go module."""
    programs = {"dcgm-exporter": "main.go"}
    return Recipe(
        "dcgm-exporter",
        "github.com/NVIDIA/go-nvml",
        versions.GO_NVML,
        programs,
        cgo=True,
        external_ldflags=_NVML_AT_RUN_TIME,
        own="dcgm_exporter",
    )


def helm() -> Recipe:
    """The package manager that installs the GPU Operator's chart."""
    flags = (
        "-X helm.sh/helm/v3/internal/version.version={version} -X helm.sh/helm/v3/internal/version.gitCommit={commit}"
    )
    return Recipe("helm", "helm.sh/helm/v3", versions.HELM, {"helm": "./cmd/helm"}, ldflags=flags)


def server() -> Recipe:
    """The depot's own server, built with the sources of the registry that it extends."""
    module = "github.com/distribution/distribution/v3"
    return Recipe("depot-server", module, versions.DISTRIBUTION, {"depot-server": "main.go"}, own="server")


def minikube(version: str) -> Recipe:
    """Kubernetes on one machine."""
    package = "k8s.io/minikube/pkg/version"
    return Recipe(
        "minikube",
        "k8s.io/minikube",
        f"v{version}",
        {"minikube": "./cmd/minikube"},
        # As upstream does: libvirt is loaded when it is used.
        cgo=True,
        tags=("libvirt_dlopen",),
        ldflags=f"-X {package}.version={{version}} -X {package}.gitCommitID={{commit}} "
        # The tag of an image that has its own version number (Makefile of minikube).
        f"-X {package}.storageProvisionerVersion=v5",
        keep=("deploy/kicbase/entrypoint", "deploy/kicbase/containerd.toml", "deploy/kicbase/automount/*"),
    )
