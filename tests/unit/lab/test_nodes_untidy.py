"""The steps that make a booted node as untidy as its spec requests, and their order."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import paths
from lab.nodes import headers, machine, podman, untidy
from lab.nodes.errors import LabError
from lab.nodes.spec import CHOICES, PREINSTALLED, SYSTEMS, WITHOUT, Node, Untidy, load, read

SPECS = paths.REPOSITORY / "tests" / "integration" / "specs"
SCRIPTS = sorted(Path(untidy.__file__).parent.glob("*.sh"))
PLACE = machine.Place("t", "net", "10.198.0.11", "extra", "10.198.1.11")


def node(**keys: object) -> Node:
    spec, problems = read({"nodes": [{"name": "a", "os": "debian12", "groups": ["workers"], **keys}]})
    assert problems == []
    return spec.nodes[0]


def test_a_tidy_node_needs_no_steps() -> None:
    assert untidy.steps(node()) == []


def test_steps_that_need_apt_come_before_those_that_disturb_it() -> None:
    found = untidy.steps(
        node(
            resolved=True,
            apt_lists="empty",
            apt_lock_s=90,
            without=["gnupg", "iproute2"],
            preinstalled=["cuda-keyring", "newer-toolkit", "docker-ce"],
            sudo="password",
        ),
        password="it's",
        depot="http://10.198.0.2",
    )
    assert [step.script for step in found] == [
        "resolved.sh",
        "newer-toolkit.sh",
        "docker-ce.sh",
        "cuda-keyring.sh",
        "without.sh",
        "empty-lists.sh",
        "sudo-password.sh",
        "apt-lock.sh",
    ]
    environment = {step.script: step.environment for step in found}
    assert environment["without.sh"] == {"PACKAGES": "gnupg iproute2"}
    assert environment["apt-lock.sh"] == {"SECONDS_HELD": "90"}
    assert environment["docker-ce.sh"]["DEPOT"] == "http://10.198.0.2"
    assert environment["sudo-password.sh"]["PASSWORD"] == "it's"


def test_every_script_is_used_and_valid_for_bash() -> None:
    used = {
        step.script
        for lists in ("empty", "old")
        for docker in ("docker.io", "docker-ce")
        for step in untidy.steps(
            node(
                resolved=True,
                apt_lists=lists,
                apt_lock_s=1,
                without=["gnupg"],
                preinstalled=[name for name in PREINSTALLED if not name.startswith("docker") or name == docker],
                sudo="password",
                nfs="simulated",
            )
        )
    }
    assert used == {script.name for script in SCRIPTS}
    for script in SCRIPTS:
        subprocess.run(["bash", "-n", script], check=True)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, lab_cache: Path) -> list[tuple[list[str], bytes | None]]:
    made: list[tuple[list[str], bytes | None]] = []

    def run(*arguments: object, doing: str, stdin: bytes | None = None) -> str:
        argv = [str(argument) for argument in arguments]
        made.append((argv, stdin))
        release = 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'
        return release if argv[-2:] == ["cat", "/etc/os-release"] else ""

    monkeypatch.setattr(podman, "run", run)
    return made


def test_a_password_is_not_an_argument_of_a_program(calls: list[tuple[list[str], bytes | None]]) -> None:
    untidy.apply(node(sudo="password"), "box", password="it's 'secret'")
    ((argv, stdin),) = calls
    assert argv == ["exec", "--interactive", "box", "bash", "-eu", "-s"]
    assert stdin is not None
    said = subprocess.run(
        ["bash", "-eu", "-s"],
        input=stdin.replace(b"| chpasswd", b"").split(b"printf '%s ALL")[0],
        capture_output=True,
        check=True,
    )
    assert said.stdout == b"gpulab:it's 'secret'\n"


def test_packages_of_the_depot_are_those_of_the_nodes_distribution(
    calls: list[tuple[list[str], bytes | None]],
) -> None:
    for name in ("debian/dists/bookworm", "debian/dists/trixie", "ubuntu/dists/noble"):
        pool = paths.www() / "download.docker.com/linux" / name / "pool/stable/amd64"
        pool.mkdir(parents=True)
        (pool / f"containerd.io_1~{pool.parts[-4]}_amd64.deb").touch()
    untidy.apply(node(preinstalled=["docker-ce"]), "box")
    copied = [Path(argv[1]).name for argv, _ in calls if argv[0] == "cp"]
    assert copied == ["containerd.io_1~bookworm_amd64.deb", "gpg"]


def test_a_package_that_the_depot_lacks_is_named(calls: list[tuple[list[str], bytes | None]]) -> None:
    with pytest.raises(
        LabError, match=r"(?s)putting newer-toolkit on a node: the depot has no nvidia.github.io.*lab build"
    ):
        untidy.apply(node(preinstalled=["newer-toolkit"]), "box")


def options(**keys: object) -> list[str]:
    return machine._options(node(**keys), PLACE)


def test_the_container_gets_the_requested_hostname(lab_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--hostname=GPU1.Example.COM" in options(hostname="GPU1.Example.COM")
    assert "--name=gpulab-t-a" in options(hostname="GPU1.Example.COM")


def test_tmp_can_be_small_and_noexec(lab_cache: Path) -> None:
    assert "--tmpfs=/tmp:noexec,size=64m" in options(tmp="noexec")
    assert "--tmpfs=/tmp:exec" in options()


def test_the_node_can_have_its_own_resolver(lab_cache: Path) -> None:
    assert "--dns=none" in options(resolved=True)
    assert "--dns=none" not in options()


@pytest.mark.parametrize(("route", "gateway"), [("", "10.198.0.1"), ("extra", "10.198.1.1")])
def test_the_default_route_can_use_either_of_two_networks(route: str, gateway: str) -> None:
    assert PLACE.gateway(route) == gateway


def test_kernel_headers_are_a_package_that_apt_can_verify() -> None:
    files = headers.archive("6.12.43+deb13-amd64")
    (package,) = (content for name, content in files.items() if name.endswith(".deb"))
    index: dict[str, Any] = dict(
        line.split(": ", 1)
        for line in files["usr/lib/lab-node/archive/Packages"].decode().splitlines()
        if not line.startswith(" ")
    )
    assert index["Package"] == "linux-headers-6.12.43+deb13-amd64"
    assert index["SHA256"] == hashlib.sha256(package).hexdigest()
    assert int(index["Size"]) == len(package)
    assert f"usr/lib/lab-node/archive/{index['Filename'].removeprefix('./')}" in files


def test_a_kernel_whose_release_is_not_a_valid_package_name_has_no_headers() -> None:
    assert headers.archive("6.6.87.2-microsoft_standard") == {}


def of_nodes(pattern: str) -> list[dict[str, Any]]:
    return [node for path in SPECS.glob(pattern) for node in yaml.safe_load(path.read_text())["nodes"]]


def test_every_untidy_key_and_value_is_used_in_a_spec() -> None:
    specs = [*SPECS.glob("untidy*.yml"), SPECS / "dkms.yml", SPECS / "storage.yml"]
    nodes = [node.untidy for path in specs for node in load(path).nodes]
    assert {key for untidy in nodes for key in untidy.chosen()} == set(vars(Untidy()))
    for key, choices in CHOICES.items():
        assert {getattr(untidy, key) for untidy in nodes} == set(choices)
    for key, names in {"without": WITHOUT, "preinstalled": PREINSTALLED}.items():
        assert {name for untidy in nodes for name in getattr(untidy, key)} == set(names)


def test_every_system_is_used_in_a_first_run() -> None:
    assert {node["os"] for node in of_nodes("first-run-*.yml")} >= set(SYSTEMS)


def test_a_simulated_nfs_client_has_the_directory_that_all_nodes_share(lab_cache: Path) -> None:
    options = machine._options(node(nfs="simulated"), PLACE)
    assert f"--volume={paths.lab_dir('t') / 'nfs'}:/var/lib/lab-nfs" in options
    assert not any("lab-nfs" in option for option in machine._options(node(), PLACE))
