"""Runs that are interrupted by kills and power cuts; the commit selects the points (`make fire` runs all)."""

from __future__ import annotations

from fire.__main__ import fire
from support.lab import reserved

# Including the preparation of the lab; a group may take half an hour.
MINUTES = 27


def test_the_next_site_yml_repairs_every_interruption() -> None:
    with reserved("fire-site") as place:
        progress = fire("site.yml", number=20, minutes=MINUTES, place=place)
    wrong = [f"{result['point']}: {result['why']}" for result in progress.results if result["outcome"] == "failed"]
    assert wrong == [], "\n".join(wrong)
    assert progress.count("passed") > 0
