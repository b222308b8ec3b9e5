"""Create the guides' pictures of the report from samples. Usage: picture.py docs/images"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "unit" / "fixtures")]

import report_samples
from support.chromium import chromium
from test_page import render

# Name, sample, window width, picture height, color scheme.
PICTURES = (
    ("report", "well", 1100, 1010, "light"),
    ("report-dark", "well", 1100, 1010, "dark"),
    ("report-phone", "ill", 360, 1200, "light"),
    ("report-problems", "ill", 1000, 1530, "light"),
    ("report-fleet", "fleet", 960, 1790, "light"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, chromium(Path(scratch)) as browser:
        for name in {sample for _name, sample, *_rest in PICTURES}:
            source = Path(scratch) / f"{name}.json"
            source.write_text(json.dumps(getattr(report_samples, name)()))
            render(source).check_returncode()
        tab = browser.tab()
        for name, sample, width, height, scheme in PICTURES:
            tab.open(Path(scratch) / f"{sample}.html", width=width, scheme=scheme)
            tab.screenshot(folder / f"{name}.png", height)


if __name__ == "__main__":
    main()
