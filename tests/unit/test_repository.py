"""What can drift in the repository itself."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def makefile_groups() -> dict[str, list[str]]:
    """Return the test files of each group of ``make test-all``."""
    text = (ROOT / "Makefile").read_text()
    return {name: files.split() for name, files in re.findall(r"^tests_([a-z-]+) := (.*)$", text, re.MULTILINE)}


def test_every_long_test_belongs_to_exactly_one_group() -> None:
    grouped = sorted(name for files in makefile_groups().values() for name in files)
    assert grouped == sorted(path.name for path in (ROOT / "tests" / "integration").glob("test_*.py"))


def test_every_group_has_its_tests() -> None:
    groups = re.search(r"^GROUPS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert groups and groups[1].split() == list(makefile_groups())


def test_make_knows_the_labs_of_the_long_tests_so_that_ci_removes_them() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests" / "integration").glob("*.py"))
    listed = re.search(r"^LABS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed and set(listed[1].split()) == set(re.findall(r'(?:running|reserved)\("([a-z0-9-]+)"', sources))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_knows_what_the_readme_promises() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("lab", "train", "test", "test-all", "lint", "bench", "lab-down", "clean"):
        assert f"make {target} " in printed


def test_shell_scripts_parse() -> None:
    for name in (".ci/run", ".ci/make-venv", "tests/bench/by_hand.sh"):
        text = (ROOT / name).read_text()
        shell = shlex.split(text.splitlines()[0].removeprefix("#!"))[-1]
        subprocess.run([shell, "-n", str(ROOT / name)], check=True)
