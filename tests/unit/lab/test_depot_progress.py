"""Progress lines: one per step with its duration, even without a terminal."""

from __future__ import annotations

import re
import time

import pytest

from lab import progress


@pytest.mark.parametrize(("value", "text"), [(0.04, "0.0 s"), (9.96, "10.0 s"), (48.4, "48 s"), (125.0, "2 min 05 s")])
def test_durations_are_readable(value: float, text: str) -> None:
    assert progress.seconds(value) == text


def test_a_step_prints_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.step("Packages [amd64]") as step:
        step.note("3 of 7")

    assert re.fullmatch(r"✓ Packages \[amd64\]: 3 of 7 \(0\.\d s\)\n", capsys.readouterr().out)


def test_a_failed_step_is_marked_and_its_error_is_raised(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), progress.step("Images"):
        raise KeyError

    assert capsys.readouterr().out.startswith("✗ Images (")


def test_a_long_build_shows_the_time_of_its_innermost_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_FIRST_SIGN_AFTER", 0.05)
    with progress.step("Depot"), progress.step("kubernetes"):
        time.sleep(0.2)

    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ...")[0] for line in lines if "..." in line] == ["  kubernetes"]
