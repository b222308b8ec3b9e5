# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a minikube profile, from its files and `minikube status`, with the declared one.

Sources, all of minikube v1.38.1: pkg/minikube/config/types.go (config.json), cmd/minikube/cmd/status.go, and
updateExistingConfigFromFlags in cmd/minikube/cmd/start_flags.go, which names what `minikube start` can change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from .._json import as_object, as_objects, as_text, needed_text, read_json, read_object

# Settings that minikube does not change, with or without a warning; for the driver it fails with GUEST_DRIVER_MISMATCH.
_SIZES = ("cpus", "memory", "disk")
_FIXED = ("driver", "container_runtime", "gpus", *_SIZES, "network", "cni", "base_image", "image_repository")
_CHANGEABLE = ("kubernetes_version", "extra_config", "binary_mirror")
# Options that minikube adds itself: FlagDefaults in pkg/minikube/driver/driver.go on hosts with systemd-resolved;
# cmd/minikube/cmd/start_flags.go if Docker is on btrfs, and for --disable-metrics.
_OWN_CONFIG = (
    "kubelet.resolv-conf=/run/systemd/resolve/resolv.conf",
    "kubelet.localStorageCapacityIsolation=false",
    "kubelet.housekeeping-interval=5m",
)
# Equivalent for minikube on hosts with NVIDIA GPUs (pkg/drivers/kic/oci/oci.go).
_ALL_GPUS = {"all", "nvidia"}
# Enabled by --gpus itself (pkg/minikube/cruntime/docker.go).
_GPU_ADDON = "nvidia-device-plugin"
_CONFIG = "the profile's config.json"
_OPTION = ("Component", "Key", "Value")
_OBJECTS = "the objects of the cluster"


@dataclass(frozen=True)
class Profile:
    """An existing or declared profile. 0 and empty texts mean minikube's default."""

    driver: str
    kubernetes_version: str
    container_runtime: str
    gpus: str = "none"
    cpus: int = 0
    memory: int = 0
    disk: int = 0
    network: str = ""
    cni: str = ""
    base_image: str = ""
    image_repository: str = ""
    binary_mirror: str = ""
    addons: tuple[str, ...] = ()
    extra_config: tuple[str, ...] = ()


@dataclass(frozen=True)
class Change:
    """One setting that differs."""

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name} from {_shown(self.old)} to {_shown(self.new)}"


def read_config(text: str) -> Profile:
    """Parse ``profiles/NAME/config.json``. Raise DomainError."""
    values = read_object(text, _CONFIG)
    kubernetes = as_object(values.get("KubernetesConfig"), f"KubernetesConfig in {_CONFIG}")
    options = as_objects(kubernetes.get("ExtraOptions"), f"ExtraOptions in {_CONFIG}")
    enabled = as_object(values.get("Addons") or {}, f"Addons in {_CONFIG}")
    return Profile(
        driver=needed_text(values, "Driver", _CONFIG),
        kubernetes_version=as_text(kubernetes.get("KubernetesVersion")).removeprefix("v"),
        container_runtime=as_text(kubernetes.get("ContainerRuntime")),
        gpus=as_text(values.get("GPUs")) or "none",
        cpus=_number(values.get("CPUs")),
        memory=_number(values.get("Memory")),
        disk=_number(values.get("DiskSize")),
        network=as_text(values.get("Network")),
        cni=as_text(kubernetes.get("CNI")),
        base_image=as_text(values.get("KicBaseImage")),
        image_repository=as_text(kubernetes.get("ImageRepository")),
        binary_mirror=as_text(values.get("BinaryMirror")),
        addons=tuple(sorted(name for name, on in enabled.items() if on is True)),
        extra_config=tuple(sorted(_option(one) for one in options)),
    )


def read_status(text: str) -> str:
    """Return ``running``, ``paused`` or ``stopped`` from ``minikube status --output=json``. Raise DomainError.

    Several nodes are a list; the first one is the control plane.
    """
    said = read_json(text, "minikube status")
    first = as_object(said[0] if isinstance(said, list) and said else said, "minikube status")
    states = [as_text(first.get(name)) for name in ("Host", "Kubelet", "APIServer")]
    if "Paused" in states:
        return "paused"
    return "running" if states == ["Running"] * 3 else "stopped"


def fixed(found: Profile, wanted: Profile) -> list[Change]:
    """Return the differences that can't be changed in an existing profile."""
    # With the driver none, the sizes are the host's.
    names = [name for name in _FIXED if wanted.driver != "none" or name not in _SIZES]
    changes = list(_differing(found, wanted, names))
    # Without the option minikube keeps its list, and an empty list can't be passed.
    if found.extra_config and not wanted.extra_config and not _own_config(found, wanted):
        changes.append(Change("extra_config", found.extra_config, wanted.extra_config))
    if version_numbers(wanted.kubernetes_version) < version_numbers(found.kubernetes_version):
        changes.append(Change("kubernetes_version", found.kubernetes_version, wanted.kubernetes_version))
    return changes


def changeable(found: Profile, wanted: Profile) -> list[Change]:
    """Return the differences that another ``minikube start`` applies."""
    own = _own_config(found, wanted)
    declared = tuple(entry for entry in found.extra_config if entry not in own)
    return list(_differing(replace(found, extra_config=declared), wanted, _CHANGEABLE))


def addons(found: Profile, wanted: Profile) -> list[tuple[str, str]]:
    """Return (verb, addon) pairs that turn the enabled addons into the wanted ones."""
    names = {*wanted.addons, *([_GPU_ADDON] if wanted.gpus != "none" else [])}
    return [
        *(("disable", name) for name in found.addons if name not in names),
        *(("enable", name) for name in sorted(names) if name not in found.addons),
    ]


def start_arguments(found: Profile | None, wanted: Profile, options: Iterable[str]) -> list[str]:
    """Return the arguments of ``minikube start``, without the profile's name."""
    # The complete list is passed: it replaces the profile's, and minikube does not always add its own options again.
    extra_config = [*wanted.extra_config, *(_own_config(found, wanted) if found else [])]
    flags = {
        "driver": wanted.driver,
        "container-runtime": wanted.container_runtime,
        "kubernetes-version": f"v{wanted.kubernetes_version}",
        "gpus": wanted.gpus if wanted.gpus != "none" else "",
        "cpus": str(wanted.cpus or ""),
        "memory": f"{wanted.memory}mb" if wanted.memory else "",
        "disk-size": f"{wanted.disk}mb" if wanted.disk else "",
        "network": wanted.network,
        "cni": wanted.cni,
        "base-image": wanted.base_image,
        "image-repository": wanted.image_repository,
        "binary-mirror": wanted.binary_mirror,
    }
    return [
        *(f"--{name}={value}" for name, value in flags.items() if value),
        *(f"--addons={name}" for name in wanted.addons),
        *(f"--extra-config={entry}" for entry in extra_config),
        # The kubeconfig then needs no other files.
        "--embed-certs=true",
        *options,
    ]


def content(text: str) -> str:
    """Return a description of the pods and claims in the JSON list that kubectl prints.

    The command is ``kubectl get pods,persistentvolumeclaims --all-namespaces --output=json``. Raise DomainError.
    """
    found: dict[str, list[str]] = {"Pod": [], "PersistentVolumeClaim": []}
    for item in as_objects(read_object(text, _OBJECTS).get("items"), _OBJECTS):
        about = as_object(item.get("metadata"), f"metadata in {_OBJECTS}")
        namespace, name = (needed_text(about, key, f"metadata in {_OBJECTS}") for key in ("namespace", "name"))
        if namespace != "kube-system":
            found.setdefault(needed_text(item, "kind", _OBJECTS), []).append(f"{namespace}/{name}")
    pods, claims = (", ".join(sorted(found[kind])) or "none" for kind in ("Pod", "PersistentVolumeClaim"))
    return f"pods: {pods}; persistent volume claims: {claims}"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparisons."""
    return tuple(int(part) if part.isascii() and part.isdigit() else 0 for part in version.partition("-")[0].split("."))


def _own_config(found: Profile, wanted: Profile) -> list[str]:
    """Return the options that minikube added itself, without keys that are declared."""
    declared = {entry.partition("=")[0] for entry in wanted.extra_config}
    return [entry for entry in found.extra_config if entry in _OWN_CONFIG and entry.partition("=")[0] not in declared]


def _differing(found: Profile, wanted: Profile, names: Iterable[str]) -> Iterator[Change]:
    for name in names:
        old, new = getattr(found, name), getattr(wanted, name)
        alike = old == new or (name == "gpus" and {old, new} == _ALL_GPUS)
        if new not in ("", 0) and not alike:
            yield Change(name, old, new)


def _shown(value: Any) -> str:
    return (", ".join(value) if isinstance(value, tuple) else str(value)) or "nothing"


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _option(values: dict[str, Any]) -> str:
    component, key, value = (needed_text(values, name, f"ExtraOptions in {_CONFIG}") for name in _OPTION)
    return f"{component}.{key}={value}"
