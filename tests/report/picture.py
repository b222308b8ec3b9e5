"""Make the pictures of docs/reading-the-report.md: picture.py gpulab-report.html docs/images"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.chromium import chromium

# Name, width of the window, height of the picture, colour scheme.
PICTURES = (("report", 1100, 1500, "light"), ("report-dark", 1100, 1500, "dark"), ("report-phone", 360, 1500, "light"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        tab = browser.tab()
        for name, width, height, scheme in PICTURES:
            tab.open(arguments.page, width=width, scheme=scheme)
            tab.screenshot(arguments.folder / f"{name}.png", height)


if __name__ == "__main__":
    main()
