"""The archives of etcd's tools: the product finds them in the depot by the variables of the inventory."""

from __future__ import annotations

import hashlib
import re
import tarfile
from pathlib import Path

import pytest

from lab.depot import etcd_tools, golang, recipes, versions
from lab.nodes import inventory
from lab.nodes.spec import DEFAULT, load

TOOLS = versions.table()["etcd_tools"]


@pytest.fixture
def www(lab_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pretend that the programs are built, and pack them."""
    for version in TOOLS:
        for recipe in (recipes.etcd(f"v{version}"), *recipes.etcd_tools(f"v{version}")):
            recipe.directory.mkdir(parents=True)
            recipe.program(recipe.name).write_text(f"{recipe.name} {version}")
    monkeypatch.setattr(golang, "provide", lambda _recipe: None)
    etcd_tools.build()
    return lab_cache / "www"


@pytest.mark.parametrize("version", TOOLS)
def test_the_inventory_leads_to_an_archive_with_its_checksum(www: Path, version: str) -> None:
    depot = {"url": "http://10.198.0.2", "registry": "10.198.0.2:5000"}
    text = inventory.render("lab", load(DEFAULT), dict.fromkeys(("cp1", "gpu1", "gpu2"), "10.0.0.1"), Path("/x"), depot)
    found = dict(re.findall(r"^(etcd_tools_\w+)='(.*)'$", text, re.MULTILINE))
    filled = {name: value.replace("{{ etcd_tools_version }}", version) for name, value in found.items()}
    below = filled["etcd_tools_release_url"].removeprefix(f"{depot['url']}/")
    # As the role composes it.
    archive = www / below / f"v{version}" / f"etcd-v{version}-linux-amd64.tar.gz"
    checksum = www / filled["etcd_tools_sha256"].removeprefix(f"{depot['url']}/")
    assert checksum.read_text().strip() == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as packed:
        contents = {entry.name: entry.mode for entry in packed}
        assert contents == {f"etcd-v{version}-linux-amd64/{name}": 0o755 for name in ("etcd", "etcdctl", "etcdutl")}
        program = packed.extractfile(f"etcd-v{version}-linux-amd64/etcdutl")
        assert program is not None and program.read().decode() == f"etcdutl {version}"


def test_equal_programs_give_equal_archives(www: Path) -> None:
    before = {path: path.read_text() for path in www.rglob("*.sha256")}
    for path in www.rglob(".key"):
        path.write_text("another")
    etcd_tools.build()
    assert {path: path.read_text() for path in www.rglob("*.sha256")} == before
    assert len(before) == len(TOOLS)
