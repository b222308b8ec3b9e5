"""docs/air-gapped.md lists every image that the roles name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "air-gapped.md"
VERSIONS = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_versions"]
SOURCES = sorted(
    path
    for pattern in ("roles/*/templates/**/*", "roles/*/files/**/*", "roles/*/tasks/**/*", "roles/*/vars/**/*")
    for path in ROOT.glob(pattern)
    if path.suffix in (".yml", ".yaml", ".j2") and "image" in path.read_text()
)
_REFERENCE = re.compile(r"\b(?:[a-z0-9-]+\.)+(?:io|com|org)(?:/[a-z0-9._-]+)+:(?:\{\{.*?\}\}|[\w.-]+)+", re.DOTALL)
_FIELD = re.compile(r"^\s+(?:network_)?image: (.*)$", re.MULTILINE)
# Role variables whose value is another variable with a default.
STAND_FOR = {
    "_local_path_helper_image": "local_path_helper_image",
    "_torch_ddp_images": "torch_ddp_default_images",
    # The images of the control plane.
    "_nvidia_driver_installer_pause_image": "kubeadm_image_repository",
}
# No default: the user names the image (the template calls it installer.image).
NAMED_BY_USER = {"nvidia_driver_installer_image", "installer"}


@cache
def listed() -> str:
    return PAGE.read_text().partition("## What is downloaded")[2]


def defaults() -> Iterator[tuple[str, Any]]:
    for path in ROOT.glob("roles/*/defaults/main.yml"):
        for name, value in (yaml.safe_load(path.read_text()) or {}).items():
            yield from ((name, one) for one in (value if isinstance(value, list) else [value]))


def references(text: str) -> Iterator[str]:
    """Yield the images in a text, with the versions of the table filled in."""
    filled = re.sub(r"\{\{ cluster_versions\.(\w+) \}\}", lambda found: str(VERSIONS[found[1]]), text)
    yield from (found for found in _REFERENCE.findall(filled) if "{" not in found and "example" not in found)


def test_every_default_image_is_listed() -> None:
    found = {image for _name, value in defaults() if isinstance(value, str) for image in references(value)}
    assert len(found) >= 10
    assert {image for image in found if f"| `{image}` |" not in listed()} == set()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "roles")))
def test_every_image_of_a_manifest_is_listed(source: Path) -> None:
    text = re.sub(r"^ *#.*$", "", source.read_text(), flags=re.MULTILINE)
    if source.name != "versions.yml":
        assert {image for image in references(text) if f"| `{image}` |" not in listed()} == set()
    for field in _FIELD.findall(text):
        variable = re.match(r'"?\{\{ *(\w+)', field)
        assert variable, f"{field}: name the image by a variable"
        if variable[1] not in NAMED_BY_USER:
            assert f"| `{STAND_FOR.get(variable[1], variable[1])}` |" in listed(), field


def test_the_control_plane_is_listed_with_the_default_version() -> None:
    version = yaml.safe_load((ROOT / "roles/cluster/defaults/main.yml").read_text())["cluster_kubernetes_version"]
    entry = VERSIONS["kubernetes"][version]
    tags = {"kube-apiserver": f"v{version}", "etcd": entry["etcd"], "coredns/coredns": entry["coredns"]}
    for name, tag in tags.items():
        assert f"| `registry.k8s.io/{name}:{tag}` |" in listed()
