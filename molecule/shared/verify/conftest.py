"""The scenario's machines, as testinfra hosts and as a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import testinfra

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "collections"))

import ansible_collections

# Some versions of the "ansible" package bring it as a regular package, which hides the collection of this checkout.
if isinstance(ansible_collections.__path__, list):
    ansible_collections.__path__.insert(0, str(ROOT / "collections" / "ansible_collections"))

from support.cluster import Cluster
from support.hosts import Inventory

EPHEMERAL = Path(os.environ.get("MOLECULE_EPHEMERAL_DIRECTORY", "."))


def machines() -> Inventory:
    return Inventory.read(EPHEMERAL / "lab.ini")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for argument, names in (("machine", sorted), ("gpu_machine", lambda hosts: sorted(machines().expected_gpus()))):
        if argument in metafunc.fixturenames:
            metafunc.parametrize(argument, names(machines().hosts), indirect=True)


def connect(name: str) -> Any:
    return testinfra.get_host(f"ansible://{name}?force_ansible=false", ansible_inventory=str(EPHEMERAL / "lab.ini"))


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Any:
    """Return each host in turn, as testinfra sees it."""
    return connect(request.param)


@pytest.fixture
def gpu_machine(request: pytest.FixtureRequest) -> Any:
    """Return each host with GPUs in turn, as testinfra sees it."""
    return connect(request.param)


@pytest.fixture(scope="session")
def inventory() -> Inventory:
    return machines()


@pytest.fixture(scope="session")
def cluster(inventory: Inventory) -> Cluster:
    return Cluster.of(inventory)


@pytest.fixture(scope="session")
def ephemeral() -> Path:
    return EPHEMERAL
