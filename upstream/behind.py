"""Find pinned versions with newer upstream releases, and the lines that contain the pinned version.

Releases come from the Go module proxy (GOPROXY, a list as in Go) and from PyPI (PIP_INDEX_URL). Drivers and package
versions come from the repositories, see `upstream.compare`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from upstream.web import Answer, Web, WebError, shown, split

_GO_PROXY, _PYPI = "https://proxy.golang.org", "https://pypi.org/simple"
_RELEASE = re.compile(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:\+incompatible)?")
# Files with versions written by hand. The generated documents are updated by `make docs`; tests quote recorded output.
_WRITTEN = ("roles", "lab", "examples", "inventories", "docs", "README.md", "upstream.lock")
_GENERATED = ("docs/reference/", "docs/variables.md", "docs/cuda.md")
_SUFFIXES = {".yml", ".yaml", ".py", ".md", ".j2", ".lock", ".ini"}
_SHOWN = 110
_ENDS_SOON_MONTHS = 6
# After a comma, Go only tries the next proxy for these statuses; after a pipe, for any error.
_NOT_THERE = (404, 410)

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Component:
    """A pinned component, and where its releases are listed: `module` of the Go proxy, or `project` of PyPI.

    `parts` numbers of a version must stay the same: 2 keeps the minor version, 0 allows any newer release. `held` is
    the reason for not using a newer release.
    """

    title: str
    key: str
    module: str = ""
    project: str = ""
    parts: int = 0
    held: str = ""


COMPONENTS = (
    Component("Kubernetes", "kubernetes", "k8s.io/kubernetes", parts=2),
    Component("containerd", "containerd", "github.com/containerd/containerd/v2", parts=2),
    Component("Docker Engine", "docker", "github.com/docker/cli"),
    Component("NVIDIA Container Toolkit", "nvidia_container_toolkit", "github.com/NVIDIA/nvidia-container-toolkit"),
    Component(
        "NVIDIA device plugin",
        "nvidia_device_plugin",
        "github.com/NVIDIA/k8s-device-plugin",
        held="the Go module proxy does not serve the sources of v0.20, so the lab could not run it",
    ),
    Component("Node Feature Discovery", "node_feature_discovery", "sigs.k8s.io/node-feature-discovery"),
    Component("flannel", "flannel", "github.com/flannel-io/flannel"),
    Component("local-path-provisioner", "local_path_provisioner", "github.com/rancher/local-path-provisioner"),
    Component(
        "minikube",
        "minikube",
        "k8s.io/minikube",
        held="the Go module proxy does not serve the sources of v1.39, so the lab could not run it",
    ),
    Component("wandb", "wandb", project="wandb"),
)


@dataclass(frozen=True)
class Behind:
    """A pinned version and the newest possible replacement."""

    component: Component
    pinned: str
    newest: str

    def __str__(self) -> str:
        text = f"{self.component.title} {self.pinned}: {self.newest} is out"
        return f"{text}; it stays, because {self.component.held}" if self.component.held else text


def ask(versions: Mapping[str, Any], web: Web, say: Callable[[str], None], root: Path, today: date) -> None:
    """Print which entries of the version table (`cluster_versions`) are outdated, and which lines contain them."""
    found: list[Behind] = []
    unknown: dict[str, list[str]] = {}
    for component in COMPONENTS:
        try:
            found += find(component, versions, releases(component, web))
        except WebError as error:
            unknown.setdefault(str(error), []).append(component.title)
    say(_headline(len(found), sum(map(len, unknown.values()))))
    for one in found:
        say(f"  . {one}")
        if not one.component.held:
            for text in lines(root, one.pinned):
                say(f"      {text}")
    for text in ending(versions["nvidia_driver"], today):
        say(f"  . {text}")
    for cause, titles in unknown.items():
        say(f"  . not known: {', '.join(titles)}: {cause}")


def _headline(found: int, unknown: int) -> str:
    if unknown == len(COMPONENTS):
        return "It is not known which of the table's versions are behind, because no registry could be asked."
    if unknown:
        rest = f"{unknown} of {len(COMPONENTS)} components could not be asked"
        return f"Versions of the table that are behind: {found} ({rest})"
    return f"Versions of the table that are behind: {found}" if found else "None of the table's versions is behind."


def ending(drivers: Mapping[str, Mapping[str, Any]], today: date) -> Iterator[str]:
    """Yield the drivers whose branch NVIDIA will soon discontinue, or has discontinued."""
    for version, entry in drivers.items():
        year, month = map(int, entry["ends"].split("-"))
        months = (year - today.year) * 12 + month - today.month
        if months <= _ENDS_SOON_MONTHS:
            verb = "ended" if months < 0 else "ends"
            yield f"NVIDIA driver {version}: the support of branch {entry['branch']} {verb} in {entry['ends']}"


def find(component: Component, versions: Mapping[str, Any], released: Iterable[str]) -> Iterator[Behind]:
    """Yield pinned versions of a component that have a newer release of the same line."""
    numbers = sorted(number for number in map(number_of, released) if number)
    entry = versions[component.key]
    # Older versions of a line stay in the table for existing clusters.
    pins = sorted([entry] if isinstance(entry, str) else entry, key=lambda pin: number_of(pin) or (0, 0, 0))
    for pinned in {(number_of(pin) or ())[: component.parts]: pin for pin in pins}.values():
        now = number_of(pinned)
        fitting = [
            number for number in numbers if now and number > now and number[: component.parts] == now[: component.parts]
        ]
        if fitting:
            newest = ".".join(map(str, fitting[-1]))
            yield Behind(component, pinned, f"v{newest}" if pinned.startswith("v") else newest)


def number_of(version: str) -> Version | None:
    """Return the three numbers of a released version, None for anything else."""
    match = _RELEASE.fullmatch(version)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def releases(component: Component, web: Web) -> list[str]:
    """Return the versions in a component's registry. Raises WebError."""
    if component.project:
        url = f"{_address('PIP_INDEX_URL', os.environ.get('PIP_INDEX_URL', '').strip() or _PYPI)}/{component.project}/"
        answer = web.get(url, {"Accept": "application/vnd.pypi.simple.v1+json"})
        try:
            return [str(version) for version in json.loads(answer.body)["versions"]]
        except (ValueError, KeyError, TypeError) as error:
            raise WebError(f"{shown(url)} lists no versions") from error
    escaped = re.sub(r"[A-Z]", lambda found: f"!{found[0].lower()}", component.module)
    return _ask_proxies(web, f"{escaped}/@v/list").body.decode("utf-8", "replace").split()


def _ask_proxies(web: Web, path: str) -> Answer:
    """Return the answer of the first Go proxy that Go would use. Raises WebError."""
    failure = WebError("GOPROXY names no module proxy, so releases can't be asked; set it to an HTTPS address")
    setting = os.environ.get("GOPROXY", "").strip() or _GO_PROXY
    for entry, separator in re.findall(r"([^,|]+)([,|]?)", setting):
        if entry.strip() == "off":
            break
        if not entry.strip() or entry.strip() == "direct":
            continue
        try:
            return web.get(f"{_address('GOPROXY', entry)}/{path}")
        except WebError as error:
            failure = error
            if separator != "|" and error.status not in _NOT_THERE:
                break
    raise failure


def lines(root: Path, version: str) -> Iterator[str]:
    """Yield `path:line: text` of each line with a version, in the files that are written by hand."""
    whole = re.compile(rf"(?<![0-9.]){re.escape(version.removeprefix('v'))}(?![0-9])")
    for path in _written(root):
        name = path.relative_to(root).as_posix()
        if name.startswith(_GENERATED):
            continue
        for number, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if whole.search(text):
                yield f"{name}:{number}: {text.strip():.{_SHOWN}}"


def _written(root: Path) -> Iterator[Path]:
    for name in _WRITTEN:
        top = root / name
        yield from (
            [top]
            if top.is_file()
            else sorted(path for path in top.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
        )


def _address(name: str, text: str) -> str:
    """Return an address in a variable of Go or pip, without a trailing slash. Raises WebError."""
    address = text.strip().rstrip("/")
    if not address.startswith("https://"):
        raise WebError(f"{name} holds {shown(address)}, which is not an HTTPS address")
    # An @ in the path: a password with a slash must be escaped.
    if "@" in address.removeprefix("https://").partition("/")[2]:
        raise WebError(f"{name} holds an address with an @ after a slash; write / as %2F in a password")
    try:
        split(address)
    except WebError as error:
        raise WebError(f"{name}: {error}") from error
    return address
