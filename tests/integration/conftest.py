"""Labs that the tests of one run share. The Makefile lists which tests run together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.cluster import Cluster
from support.hosts import ROOT, Inventory
from support.lab import Lab, running
from support.play import Run, play


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures that tests have measured, in seconds."""
    for report in [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]:
        for name, seconds in report.user_properties:
            terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {name}: {seconds:.1f} s")


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Callable[[str, float], None]:
    """Record a figure in seconds, which is printed when the tests have ended."""
    return record_property


@dataclass(frozen=True)
class Built:
    """The default lab after its first site.yml."""

    lab: Lab
    inventory: Inventory
    cluster: Cluster
    run: Run


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Return the default lab, which stays bare until a test uses `built`."""
    with running("default", ROOT / "lab" / "specs" / "default.yml") as started:
        yield started


@pytest.fixture(scope="session")
def built(lab: Lab) -> Built:
    run = play(lab.path).expect_success()
    inventory = lab.inventory()
    cluster = Cluster.of(inventory)
    # Kubernetes takes some seconds to delete the namespace, and the kubelets then clean up.
    cluster.kubectl("wait", "namespace/gpulab-acceptance", "--for=delete", "--timeout=60s")
    return Built(lab, inventory, cluster, run)
