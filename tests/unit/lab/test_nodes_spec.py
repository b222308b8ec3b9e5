"""Spec files: their keys and values, and complete error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.nodes.errors import LabError
from lab.nodes.spec import DEFAULT, Gpus, Untidy, load, read


def test_the_default_is_a_control_plane_and_two_gpu_hosts() -> None:
    spec = load(DEFAULT)
    assert [(n.name, n.os, n.groups, n.gpus) for n in spec.nodes] == [
        ("cp1", "debian12", ("control_plane",), None),
        ("gpu1", "debian13", ("workers",), Gpus("t4", 4)),
        ("gpu2", "debian12", ("workers",), Gpus("a100", 2)),
    ]


@pytest.mark.parametrize("path", sorted(DEFAULT.parent.glob("*.yml")), ids=lambda path: path.stem)
def test_every_spec_of_the_lab_is_valid_and_can_be_stored_and_read_back(path: Path) -> None:
    spec = load(path)
    assert read(spec.as_dict()) == (spec, [])


def test_all_errors_are_reported_together(tmp_path: Path) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(
        """
nodez: []
vars: [1]
nodes:
  - {name: UPPER, os: debian12, groups: [workers]}
  - {name: a, os: fedora, groups: [masters]}
  - {name: a, os: debian13, groups: workers, gpus: {model: voodoo, count: 0}, extra_networks: 2, colour: red}
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
        "node a: groups must be a list of control_plane and/or workers, not 'workers'",
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
def test_a_file_that_is_not_a_spec_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "spec.yml"
    path.write_text(text)
    with pytest.raises(LabError, match=said):
        load(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"nowhere\.yml"):
        load(tmp_path / "nowhere.yml")


def test_true_is_not_accepted_as_a_number_of_gpus_or_networks() -> None:
    problems = read({"nodes": [{"name": "a", "os": "debian12", "groups": ["workers"], "extra_networks": True}]})[1]
    assert problems == ["node a: extra_networks must be 0 or 1, not True"]


def test_power_cuts_are_stored_and_cannot_change_on_a_running_lab() -> None:
    node = {"name": "a", "os": "debian12", "groups": ["workers"]}
    spec, problems = read({"nodes": [{**node, "power_cuts": True}]})
    assert problems == [] and spec.nodes[0].hardware()["power_cuts"] is True
    assert read(json.loads(json.dumps(spec.as_dict()))) == (spec, [])
    assert read({"nodes": [{**node, "power_cuts": 1}]})[1] == ["node a: power_cuts must be true or false, not 1"]


def untidy(**keys: object) -> tuple[Untidy, list[str]]:
    spec, problems = read({"nodes": [{"name": "a", "os": "debian12", "groups": ["workers"], **keys}]})
    return spec.nodes[0].untidy, problems


def test_by_default_a_node_is_tidy_and_its_stored_form_has_no_untidy_keys() -> None:
    spec = read({"nodes": [{"name": "a", "os": "debian12", "groups": ["workers"]}]})[0]
    assert spec.nodes[0].untidy == Untidy()
    assert spec.nodes[0].hardware() == {"os": "debian12", "gpus": None, "extra_networks": 0}
    assert spec.nodes[0].hostname() == "a"
    assert set(spec.as_dict()["nodes"][0]) == {"name", "os", "groups", "gpus", "extra_networks", "vars"}


ALL = {
    "resolved": True,
    "apt_lists": "old",
    "apt_lock_s": 300,
    "without": ["gnupg", "python3-apt"],
    "hostname": "GPU1.Example.COM",
    "default_route": "extra",
    "tmp": "noexec",
    "preinstalled": ["docker.io", "cuda-keyring"],
    "headers": "absent",
    "kernel": "cloud",
    "nfs": "simulated",
    "sudo": "password",
}


def test_every_untidy_key_is_read_stored_and_cannot_change_on_a_running_lab() -> None:
    assert set(ALL) == set(vars(Untidy()))
    chosen, problems = untidy(extra_networks=1, **ALL)
    assert problems == []
    assert chosen.chosen() == {key: tuple(value) if isinstance(value, list) else value for key, value in ALL.items()}
    spec = read({"nodes": [{"name": "a", "os": "debian12", "groups": ["workers"], "extra_networks": 1, **ALL}]})[0]
    stored = json.loads(json.dumps(spec.as_dict()))
    assert read(stored) == (spec, [])
    assert json.loads(json.dumps(spec.nodes[0].hardware())) == spec.nodes[0].hardware()
    assert spec.nodes[0].hardware()["without"] == ["gnupg", "python3-apt"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("resolved", "yes", "resolved must be true or false, not 'yes'"),
        ("apt_lists", "new", "apt_lists must be empty or old, not 'new'"),
        ("apt_lists", [], "apt_lists must be empty or old, not []"),
        ("apt_lock_s", -1, "apt_lock_s must be a number from 0 to 1800, not -1"),
        ("apt_lock_s", True, "apt_lock_s must be a number from 0 to 1800, not True"),
        ("apt_lock_s", "300", "not '300'"),
        ("without", "gnupg", "without must be a list of ca-certificates, gnupg, iproute2, python3-apt, not 'gnupg'"),
        ("without", ["python3"], "not ['python3']"),
        ("hostname", "gpu_1", "hostname must be letters, digits, '-' and '.', 63 at most, not 'gpu_1'"),
        ("hostname", "a" * 64, "63 at most"),
        ("hostname", 7, "not 7"),
        ("hostname", 0, "not 0"),
        ("hostname", [], "not []"),
        ("default_route", "extra", "default_route: extra needs extra_networks: 1"),
        ("default_route", "eth0", "default_route must be extra, not 'eth0'"),
        ("tmp", "small", "tmp must be noexec, not 'small'"),
        (
            "preinstalled",
            ["docker"],
            "preinstalled must be a list of cuda-keyring, docker-ce, docker.io, newer-toolkit",
        ),
        ("preinstalled", ["docker-ce", "docker.io"], "preinstalled can't have both docker-ce and docker.io"),
        ("headers", "present", "headers must be absent, not 'present'"),
        ("sudo", True, "sudo must be password, not True"),
        ("gpus", {"model": ["Tesla T4"], "count": 1}, "not ['Tesla T4']"),
    ],
)
def test_an_untidy_key_with_an_invalid_value_is_named(key: str, value: object, said: str) -> None:
    (problem,) = untidy(**{key: value})[1]
    assert problem.startswith("node a: ")
    assert said in problem


def test_a_default_route_needs_the_program_that_sets_it() -> None:
    problems = untidy(extra_networks=1, default_route="extra", without=["iproute2"])[1]
    assert problems == ["node a: default_route is set with iproute2, which without takes away"]
