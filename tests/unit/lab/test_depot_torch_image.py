"""The training image: stored once, and named in the inventory."""

from __future__ import annotations

from pathlib import Path

from lab.depot import torch_image
from lab.nodes import inventory
from lab.nodes.spec import DEFAULT, load, read


def test_an_image_of_another_recipe_does_not_count_as_stored(lab_cache: Path) -> None:
    assert not torch_image.is_stored()
    name, _colon, tag = torch_image.REFERENCE.partition(":")
    link = lab_cache / f"registry/docker/registry/v2/repositories/{name}/_manifests/tags/{tag}/current/link"
    link.parent.mkdir(parents=True)
    link.write_text("sha256:0")
    stamp = lab_cache / "registry/made/torch-image.key"
    stamp.parent.mkdir(parents=True)
    stamp.write_text("another")
    assert not torch_image.is_stored()
    stamp.write_text(torch_image._key())
    assert torch_image.is_stored()


def test_the_inventory_names_the_image_and_the_labs_nodes_and_gpus() -> None:
    text = inventory.render("lab", load(DEFAULT), dict.fromkeys(("cp1", "gpu1", "gpu2"), "10.0.0.1"), Path("/x"), {})
    assert f"torch_ddp_image={torch_image.REFERENCE!r}" in text
    assert "torch_ddp_nodes=2" in text
    assert "torch_ddp_gpus_per_node=2" in text


def test_the_inventory_of_a_lab_without_gpus_has_no_training_variables() -> None:
    spec, _problems = read({"nodes": [{"name": "cp1", "os": "debian12", "groups": ["control_plane", "workers"]}]})
    assert "torch_ddp" not in inventory.render("lab", spec, {"cp1": "10.0.0.1"}, Path("/x"), {})
