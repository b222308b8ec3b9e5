"""The commands that the guides show for a lab do what the guides describe, in the order of the pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.guides import OTHER_LABS, Checkout, blocks, pages
from support.lab import reserved

MARKED = {page: found for page in pages() if page not in OTHER_LABS and (found := blocks(page))}


@pytest.fixture(scope="module")
def checkout() -> Iterator[Checkout]:
    with reserved("guides") as (lab, directory):
        copy = Checkout(directory / "checkout", {"GPULAB_LAB": lab, "NAME": lab, "INVENTORY": "lab.ini"})
        copy.fill()
        yield copy


@pytest.mark.parametrize("page", MARKED)
def test_the_commands_of_a_page_work_as_described(page: str, checkout: Checkout) -> None:
    for block in MARKED[page]:
        if block.kind != "last":
            checkout.run(block)


def test_the_last_commands_of_the_guides_work(checkout: Checkout) -> None:
    last = [block for found in MARKED.values() for block in found if block.kind == "last"]
    assert last, "no page says how to remove the lab"
    for block in last:
        checkout.run(block)
    assert not (checkout.path / "lab.ini").exists()
