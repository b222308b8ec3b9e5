"""`--check --diff` tells what a real run would change, on bare hosts and on finished ones, and changes nothing."""

from __future__ import annotations

import pytest
from conftest import Built
from support.lab import Lab
from support.play import Run, play
from support.state import services, snapshots

# Tasks that check mode can't judge as a real run does, with the reason. Anything else is a bug.
ONLY_PREDICTED: dict[str, str] = {}
ONLY_REAL: dict[str, str] = {}


@pytest.fixture(scope="session")
def predicted(lab: Lab) -> Run:
    inventory = lab.inventory()
    before = snapshots(inventory)
    run = play(lab.path, "--check", "--diff").expect_success()
    after = snapshots(inventory)
    for name, lines in before.items():
        assert sorted(set(lines) ^ set(after[name])) == [], f"check mode changed {name}"
    return run


def test_on_bare_hosts_it_predicts_what_a_real_run_changes(predicted: Run, built: Built) -> None:
    real, foreseen = built.run.changed(), predicted.changed()
    missed = {task for _, task in real - foreseen}
    invented = {task for _, task in foreseen - real}
    assert sorted(missed) == sorted(ONLY_REAL), "changed for real, but not predicted"
    assert sorted(invented) == sorted(ONLY_PREDICTED), "predicted, but not changed for real"


def test_on_bare_hosts_it_shows_the_files_it_would_write(predicted: Run, built: Built) -> None:
    assert "+++" in predicted.output
    assert predicted.stats().keys() == built.run.stats().keys()


def test_on_finished_hosts_it_predicts_nothing_and_changes_nothing(built: Built) -> None:
    before, running_since = snapshots(built.inventory), services(built.inventory)
    play(built.lab.path, "--check", "--diff").expect_unchanged()
    after = snapshots(built.inventory)
    for name, lines in before.items():
        assert sorted(set(lines) ^ set(after[name])) == []
    assert services(built.inventory) == running_since
