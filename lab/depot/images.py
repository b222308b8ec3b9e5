"""The container images, under upstream's names, around the programs built here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab import paths, progress
from lab.depot import cache, debian_image, oci, recipes, tools, versions
from lab.depot.deb import Link
from lab.depot.golang import Recipe
from lab.depot.oci import Layer, Settings
from lab.depot.registry import Registry, holds, writable

_BASE_SUITE = "bookworm"
_BASE_PACKAGES = ("iptables", "nftables", "conntrack", "ipset", "iproute2", "kmod", "ca-certificates", "busybox-static")
_BASE = "image-base"
_HERE = Path(__file__).resolve().parent

# What a program without a distribution around it expects, as in distroless/static.
_STATIC_FILES = {
    "/etc/passwd": "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n",
    "/etc/group": "root:x:0:\nnonroot:x:65532:\nnobody:x:65534:\n",
    "/etc/nsswitch.conf": "hosts: files dns\n",
}
_STATIC_DIRECTORIES = {"/tmp": 0o1777, "/root": 0o700, "/var/lib": 0o755}


@dataclass(frozen=True)
class Image:
    """One image: its full name, its own files, whether it stands on the Debian base, how it runs."""

    reference: str
    key: str
    files: Mapping[str, oci.Content]
    settings: Settings
    on_base: bool = False
    directories: Mapping[str, int] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None

    @property
    def is_stored(self) -> bool:
        """Say whether the registry has this image, made from the same."""
        stamp = self._stamp
        return holds(self.reference) and stamp.is_file() and stamp.read_text() == self.key

    def store(self, registry: Registry) -> None:
        """Make the image and store it."""
        self.prepare()
        with tempfile.TemporaryDirectory(dir=paths.registry(), prefix=".image-") as work:
            files = dict(self.files)
            directories = dict(self.directories)
            if not self.on_base:
                files, directories = {**_STATIC_FILES, **files}, {**_STATIC_DIRECTORIES, **directories}
            own = oci.files_layer(Path(work, "layer"), files, directories)
            registry.push(self.reference, [*([base_layer()] if self.on_base else []), own], self.settings)
        cache.replace_text(self._stamp, self.key)

    def build(self) -> None:
        """Make the image and store it, unless the registry has it, made from the same. Raises DepotError."""
        if self.is_stored:
            return
        with cache.lock("depot"), writable() as target:
            if not self.is_stored:
                with progress.step(f"Image {self.reference}"):
                    self.store(target)

    @property
    def _stamp(self) -> Path:
        return paths.registry() / "made" / f"{self.reference.replace('/', '_')}.key"


def _code() -> str:
    return cache.tree_digest(_HERE / "images.py", _HERE / "oci.py", _HERE / "debian.py")


def around(
    reference: str,
    source: Recipe,
    files: Mapping[str, oci.Content],
    *,
    entrypoint: tuple[str, ...] = (),
    command: tuple[str, ...] = (),
    user: str = "",
    environment: Mapping[str, str] | None = None,
    on_base: bool = False,
    directories: Mapping[str, int] | None = None,
) -> Image:
    """Describe an image around a program, labeled with where it was built from."""
    labels = {
        "org.opencontainers.image.title": reference.rpartition("/")[2].partition(":")[0],
        "org.opencontainers.image.version": source.version,
        "org.opencontainers.image.description": f"Built from {source.module} {source.version} for a lab.",
    }
    settings = Settings(entrypoint, command, user, environment or {}, labels)
    key = cache.digest(_code(), reference, source.key, settings, on_base)
    return Image(reference, key, files, settings, on_base, directories or {})


def kubernetes(version: str) -> list[Image]:
    """The images that `kubeadm config images list` names for one version."""
    source = recipes.kubernetes(version)
    images = []
    for reference in kubeadm_list(version):
        name, _mark, tag = reference.rpartition("/")[2].partition(":")
        if name == "etcd":
            etcd = recipes.etcd(f"v{tag.rsplit('-', 1)[0]}")
            program: dict[str, oci.Content] = {"/usr/local/bin/etcd": etcd.program("etcd")}
            images.append(around(reference, etcd, program, directories={"/var/lib/etcd": 0o700}))
        elif name == "coredns":
            coredns = recipes.coredns(tag)
            images.append(
                around(reference, coredns, {"/coredns": coredns.program("coredns")}, entrypoint=("/coredns",))
            )
        elif name == "pause":
            images.append(_pause_image(reference, tag, source))
        else:
            program = {f"/usr/local/bin/{name}": source.program(name)}
            entrypoint = (f"/usr/local/bin/{name}",)
            images.append(around(reference, source, program, entrypoint=entrypoint, on_base=name == "kube-proxy"))
    return images


def kubeadm_list(version: str) -> list[str]:
    """Return the images that this kubeadm wants; it is asked once."""
    source = recipes.kubernetes(version)
    directory = paths.component_dir("kubeadm-images", version)
    if cache.key_of(directory) != source.key:
        argv = [source.program("kubeadm"), "config", "images", "list", f"--kubernetes-version=v{version}"]
        with cache.fresh(directory, source.key) as work:
            listed = tools.run(argv, doing=f"asking kubeadm {version} for its images")
            (work / "images").write_text(listed)
    return (directory / "images").read_text().split()


def dependencies(version: str) -> list[Recipe]:
    """Return the programs, other than Kubernetes itself, that its images hold."""
    found = []
    for reference in kubeadm_list(version):
        name, _mark, tag = reference.rpartition("/")[2].partition(":")
        if name == "etcd":
            found.append(recipes.etcd(f"v{tag.rsplit('-', 1)[0]}"))
        elif name == "coredns":
            found.append(recipes.coredns(tag))
    return found


def add_ons() -> list[Image]:
    """Pod network, device plugin, feature discovery and the image that checks the network."""
    table = versions.table()
    flannel, flannel_cni = recipes.flannel(table["flannel"]), recipes.flannel_cni()
    plugin = recipes.device_plugin(table["nvidia_device_plugin"])
    discovery = recipes.node_feature_discovery(table["node_feature_discovery"])
    agnhost = recipes.agnhost()
    tools_of_busybox = {f"/usr/bin/{name}": Link("busybox") for name in ("nslookup", "wget", "nc")}
    found = [
        around(
            f"ghcr.io/flannel-io/flannel:{flannel.version}",
            flannel,
            {f"/opt/bin/{name}": flannel.program(name) for name in flannel.programs},
            entrypoint=("/opt/bin/flanneld",),
            on_base=True,
        ),
        around(
            f"ghcr.io/flannel-io/flannel-cni-plugin:{table['flannel_cni_plugin']}",
            flannel_cni,
            {"/flannel": flannel_cni.program("flannel")},
            on_base=True,
        ),
        device_plugin(plugin),
        around(
            f"registry.k8s.io/nfd/node-feature-discovery:{discovery.version}",
            discovery,
            {f"/usr/bin/{name}": discovery.program(name) for name in discovery.programs},
            user="65534:65534",
            environment={"GRPC_GO_LOG_SEVERITY_LEVEL": "INFO"},
        ),
        around(
            f"registry.k8s.io/e2e-test-images/agnhost:{versions.AGNHOST}",
            agnhost,
            {"/agnhost": agnhost.program("agnhost"), "/agnhost-2": Link("agnhost"), **tools_of_busybox},
            entrypoint=("/agnhost",),
            command=("pause",),
            on_base=True,
        ),
    ]
    for image in found:
        versions.check_image(image.reference)
    return found


def device_plugin(plugin: Recipe) -> Image:
    """NVIDIA's device plugin."""
    return around(
        f"nvcr.io/nvidia/k8s-device-plugin:{plugin.version}",
        plugin,
        {f"/usr/bin/{name}": plugin.program(name) for name in plugin.programs},
        entrypoint=("nvidia-device-plugin",),
        environment={
            "NVIDIA_DISABLE_REQUIRE": "true",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        },
        on_base=True,
    )


def _pause_image(reference: str, tag: str, source: Recipe) -> Image:
    # Several Kubernetes versions share one pause: the key has the tag only, whichever of their sources it came from.
    directory = paths.component_dir("pause", tag)
    labels = {"org.opencontainers.image.title": "pause", "org.opencontainers.image.version": tag}
    settings = Settings(("/pause",), (), "65535:65535", {}, labels)

    def prepare() -> None:
        _compile_pause(tag, source)

    files: dict[str, oci.Content] = {"/pause": directory / "pause"}
    return Image(reference, cache.digest(_code(), reference, settings), files, settings, prepare=prepare)


def _compile_pause(tag: str, source: Recipe) -> None:
    """Compile upstream's pause, a static C program."""
    directory, key = paths.component_dir("pause", tag), cache.digest(tag, "static")
    if cache.key_of(directory) != key:
        code = source.source("build/pause/linux") / "pause.c"
        with cache.fresh(directory, key) as work:
            argv = ["gcc", "-Os", "-static", "-s", f"-DVERSION=v{tag}", "-o", work / "pause", code]
            tools.run(argv, doing=f"compiling pause {tag}")


def base_layer() -> Layer:
    """Return the layer of Debian with the network tools, shared by the images that need more than a program."""
    return debian_image.layer(_BASE, _BASE_SUITE, _BASE_PACKAGES, _base_key())


def base_is_made() -> bool:
    """Say whether the base layer is there."""
    return cache.key_of(paths.component_dir(_BASE, _BASE_SUITE)) == _base_key()


def _base_key() -> str:
    return cache.digest(_BASE_SUITE, _BASE_PACKAGES, cache.tree_digest(_HERE / "debian.py"))


def sources(kubernetes_versions: Iterable[str]) -> list[Recipe]:
    """Return all programs that only images hold; Kubernetes itself has to be built already."""
    table = versions.table()
    found = [recipe for version in kubernetes_versions for recipe in dependencies(version)]
    found += [recipes.flannel(table["flannel"]), recipes.flannel_cni()]
    found += [recipes.device_plugin(table["nvidia_device_plugin"]), recipes.agnhost()]
    return [*found, recipes.node_feature_discovery(table["node_feature_discovery"])]
