# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and compare the manifests of kubeadm's static pods. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .._errors import DomainError
from .._json import as_mapping, as_mappings, as_text
from .._secrets import MASK, is_secret, mask
from .yaml_block import read_yaml

API_SERVER, ETCD = "kube-apiserver", "etcd"
# In the order in which they are changed: etcd is last, because the others can't be checked without it.
COMPONENTS = (API_SERVER, "kube-controller-manager", "kube-scheduler", ETCD)

# Flags that count only when a member starts for the first time. kubeadm writes others when it joins a control plane.
_FIRST_START = re.compile(r"^\s*-\s+[\"']?--initial-cluster(?:-state)?=")
_INITIAL = ("--initial-cluster", "--initial-cluster-state")
# kubeadm derives the startup probe from its own time limits, which it does not keep.
# It mounts directories of CAs that the host has at that time.
_IGNORED = re.compile(
    r"status\b.*|metadata\.creationTimestamp|startupProbe\..*|(?:volumeMounts|spec\.volumes)"
    r"\[(?:etc-pki(?:-ca-trust|-tls-certs)?|etc-ca-certificates|usr-(?:local-)?share-ca-certificates)\]\..*"
)
_FLAG = re.compile(r"(--[^=]+)(?:=(.*))?", re.DOTALL)
_LONGEST = 200


@dataclass(frozen=True)
class Change:
    """A setting of a component; ``before`` or ``after`` is None if it is not set. Secrets are masked."""

    component: str
    setting: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        before, after = (_shown(value, _is_secret(self.setting)) for value in (self.before, self.after))
        return f"{self.component}: {self.setting} {before} -> {after}"


@dataclass(frozen=True)
class Comparison:
    """``changes`` are to be applied. ``edits`` are settings that only the running component has."""

    changes: tuple[Change, ...]
    edits: tuple[Change, ...]


@dataclass(frozen=True)
class Probe:
    scheme: str
    host: str
    port: int
    path: str


def settings(text: str, component: str) -> dict[str, str]:
    """Return the settings of a component by name, such as ``--v`` or ``image``. Raise DomainError."""
    pod = _pod(text, component)
    found: dict[str, str] = {}
    for name, value in _flattened(pod, ""):
        name = name.replace(f"spec.containers[{component}].", "")
        if not _IGNORED.fullmatch(name):
            found[name] = value
    return found


def compare(
    component: str,
    running: Mapping[str, str],
    wanted: Mapping[str, str],
    recorded: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare the settings that run with those that are wanted.

    ``recorded`` are those that kubeadm would write for the configuration in the cluster: if they are the wanted ones,
    but others run, the manifest was edited.
    """
    changes: list[Change] = []
    edits: list[Change] = []
    for name in sorted({*running, *wanted}):
        if running.get(name) == wanted.get(name) or (component == ETCD and name in _INITIAL):
            continue
        edited = recorded is not None and recorded.get(name) == wanted.get(name)
        (edits if edited else changes).append(Change(component, name, running.get(name), wanted.get(name)))
    return Comparison(tuple(changes), tuple(edits))


def with_membership(rendered: str, running: str) -> str:
    """Return etcd's manifest with the flags of the running one that say how the member was added."""
    lines = rendered.splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if _FIRST_START.match(line)]
    kept = [line.lstrip() for line in running.splitlines(keepends=True) if _FIRST_START.match(line)]
    if not places or not kept:
        return rendered
    first, others = places[0], [line for line in lines if not _FIRST_START.match(line)]
    indentation = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    return "".join([*others[:first], *(indentation + line for line in kept), *others[first:]])


def probe(text: str, component: str) -> Probe:
    """Return how to ask a component for its health. Raise DomainError."""
    container = _container(_pod(text, component), component)
    for kind in ("readinessProbe", "livenessProbe"):
        get = as_mapping(as_mapping(container.get(kind)).get("httpGet"))
        port = as_text(get.get("port"))
        named = [each.get("containerPort") for each in as_mappings(container.get("ports")) if each.get("name") == port]
        port = as_text(named[0]) if named else port
        if port.isdigit():
            scheme, host = as_text(get.get("scheme")).lower() or "http", as_text(get.get("host")) or "127.0.0.1"
            return Probe(scheme, host, int(port), as_text(get.get("path")) or "/healthz")
    raise DomainError(f"Error while reading the manifest of {component}: it has no probe that asks an HTTP server")


def flag(text: str, component: str, name: str) -> str:
    """Return the value of a flag, empty if it is not set."""
    return settings(text, component).get(f"--{name}", "")


def image(text: str, component: str) -> str:
    return settings(text, component).get("image", "")


def tag(reference: str) -> str:
    """Return the tag of an image, empty without one."""
    name = reference.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2]


def image_tag(text: str, component: str) -> str:
    """Return the tag of a component's image, empty if its manifest is damaged."""
    try:
        return tag(image(text, component))
    except DomainError:
        return ""


def with_image(text: str, component: str, reference: str) -> str:
    """Return a manifest with another image."""
    former = image(text, component)
    return text.replace(f"image: {former}\n", f"image: {reference}\n")


def _pod(text: str, component: str) -> Mapping[str, Any]:
    try:
        pod = read_yaml(text)
    except (ValueError, RecursionError) as error:
        raise DomainError(f"Error while reading the manifest of {component}: {error}") from None
    if not isinstance(pod, dict) or not isinstance(_container(pod, component).get("command"), list):
        raise DomainError(f"Error while reading the manifest of {component}: it is not a pod with a command")
    return pod


def _container(pod: Mapping[str, Any], component: str) -> Mapping[str, Any]:
    for container in as_mappings(as_mapping(pod.get("spec")).get("containers")):
        if container.get("name") == component:
            return container
    return {}


def _flattened(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each scalar and its text. Entries of a list are found by their name, flags by theirs."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("command", "args") and isinstance(inner, list):
                yield from _flags(inner, f"{path}." if path else "")
            else:
                yield from _flattened(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        names = [as_text(as_mapping(inner).get("name")) for inner in value]
        for place, (name, inner) in enumerate(zip(names, value)):
            # A volume may be mounted twice.
            yield from _flattened(inner, f"{path}[{name if name and names.count(name) == 1 else place}]")
    elif value is not None:
        yield path, str(value)


def _flags(words: list[Any], prefix: str) -> Iterator[tuple[str, str]]:
    found: dict[str, str] = {}
    for place, word in enumerate(map(str, words)):
        match = _FLAG.fullmatch(word)
        name, value = (match[1], match[2] if match[2] is not None else "true") if match else (f"word {place}", word)
        found[name] = f"{found[name]} {value}" if name in found else value
    for name, value in found.items():
        yield f"{prefix}{name}", value


def _is_secret(setting: str) -> bool:
    # The value of an environment variable may be anything.
    return (setting.startswith("env[") and not setting.endswith("].name")) or is_secret(setting)


def _shown(value: str | None, secret: bool) -> str:
    if value is None:
        return "(not set)"
    if secret:
        return MASK
    text = mask(value)
    return (text if len(text) <= _LONGEST else text[:_LONGEST] + "...") or "''"
