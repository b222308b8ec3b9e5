"""Spec files: what they may say, and that everything that is wrong is said at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.nodes.errors import LabError
from lab.nodes.spec import DEFAULT, Gpus, load, read


def test_the_default_is_a_control_plane_and_two_gpu_hosts() -> None:
    spec = load(DEFAULT)
    assert [(n.name, n.os, n.groups, n.gpus) for n in spec.nodes] == [
        ("cp1", "debian12", ("control_plane",), None),
        ("gpu1", "debian13", ("workers",), Gpus("t4", 4)),
        ("gpu2", "debian12", ("workers",), Gpus("a100", 2)),
    ]


@pytest.mark.parametrize("path", sorted(DEFAULT.parent.glob("*.yml")), ids=lambda path: path.stem)
def test_every_spec_of_the_lab_is_right_and_survives_being_stored(path: Path) -> None:
    spec = load(path)
    assert read(spec.as_dict()) == (spec, [])


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(
        """
nodez: []
vars: [1]
nodes:
  - {name: UPPER, os: debian12, groups: [workers]}
  - {name: a, os: fedora, groups: [masters]}
  - {name: a, os: debian13, groups: [], gpus: {model: voodoo, count: 0}, extra_networks: 2, colour: red}
  - {name: b, os: debian13, groups: [workers], gpus: 4, vars: {not-a-name: 1}}
  - just text
"""
    )
    with pytest.raises(LabError) as caught:
        load(path)
    text = str(caught.value)
    for part in (
        "nodez: unknown key",
        "vars: must be a mapping",
        "not 'UPPER'",
        "node a: os must be one of debian12, debian13, ubuntu2204-shaped, ubuntu2404-shaped, ubuntu2604-shaped, "
        "not 'fedora'",
        "node a: groups must be a list of control_plane and/or workers, not ['masters']",
        "node a: groups must be a list of control_plane and/or workers, not []",
        "gpus.model must be one of a100, t4, not 'voodoo'",
        "gpus.count must be a number from 1 to 16, not 0",
        "extra_networks must be 0 or 1, not 2",
        "unknown key colour",
        "node b: gpus must have exactly the keys model and count, not 4",
        "'not-a-name' is no name of a variable",
        "nodes[4]: must be a mapping",
        "the name a is used twice",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("text", "said"), [("a: [", "this is no YAML"), ("- 1", "a mapping"), ("nodes: []", "at least one")]
)
def test_a_file_that_is_no_spec_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(text)
    with pytest.raises(LabError, match=said):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"nowhere\.yml"):
        load(tmp_path / "nowhere.yml")


def test_true_is_no_number_of_gpus_or_networks() -> None:
    problems = read({"nodes": [{"name": "a", "os": "debian12", "groups": ["workers"], "extra_networks": True}]})[1]
    assert problems == ["node a: extra_networks must be 0 or 1, not True"]
