"""What the guides tell people to type on a lab does what they say, in the order of the pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.guides import Block, blocks, pages
from support.hosts import ROOT
from support.lab import reserved


@dataclass(frozen=True)
class Checkout:
    path: Path
    lab: str


MARKED = {page: found for page in pages() if (found := blocks(page))}


@pytest.fixture(scope="module")
def checkout() -> Iterator[Checkout]:
    """Return a copy of the checkout, so that a reader's own lab.ini and reports stay what they are."""
    with reserved("guides") as (lab, directory):
        path = directory / "checkout"
        copy(path)
        (path / ".venv").symlink_to(ROOT / ".venv")
        yield Checkout(path, lab)


def copy(target: Path) -> None:
    """Copy what git knows, or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source = ROOT / name
        if source.is_file() or (source.is_symlink() and name != ".venv"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name, follow_symlinks=False)


def run(block: Block, checkout: Checkout) -> None:
    """Run a block as a person would who has gone through the pages up to here."""
    named = {"GPULAB_LAB": checkout.lab, "NAME": checkout.lab, "INVENTORY": "lab.ini"}
    activated = {"PATH": f"{checkout.path}/.venv/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.script],
        cwd=checkout.path,
        env={**os.environ, **named, **activated, "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    with (ROOT / ".cache" / "guides.log").open("a") as log:
        log.write(f"$ # {block.name}\n{block.script}\n{done.stdout}\nexit status {done.returncode}\n\n")
    told = f"{block.name} ended with {done.returncode}:\n{block.script}\n{done.stdout[-6000:]}"
    assert (done.returncode != 0) == (block.kind == "fails"), told
    assert block.missing(done.stdout) == [], told


@pytest.mark.parametrize("page", MARKED)
def test_the_commands_of_a_page_do_what_it_says(page: str, checkout: Checkout) -> None:
    for block in MARKED[page]:
        if block.kind != "last":
            run(block, checkout)


def test_what_a_reader_does_last(checkout: Checkout) -> None:
    last = [block for found in MARKED.values() for block in found if block.kind == "last"]
    assert last, "no page says how to remove the lab"
    for block in last:
        run(block, checkout)
    assert not (checkout.path / "lab.ini").exists()
