"""The terminal pictures, and the screen from which they are created."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.hosts import ROOT
from terminal import drawn, screens

PICTURES = sorted((ROOT / "docs" / "images").glob("terminal-*.svg"))


def test_each_complete_screen_is_found() -> None:
    live = "0:01 p\r\n  a: t\r\n"
    output = f"{live}\x1b[2A\x1b[J\x1b[0;33m  a: changed: t\x1b[0m\r\n{live}\x1b[2A\x1b[Jended"
    shown = [["".join(char for char, _color in row) for row in rows] for rows in screens(output, 80)]
    assert shown == [
        ["0:01 p", "  a: t", ""],
        ["  a: changed: t", "0:01 p", "  a: t", ""],
        ["  a: changed: t", "ended"],
    ]


def test_long_lines_are_wrapped_and_keep_their_colors() -> None:
    [rows] = screens("\x1b[0;31mabcd\x1b[0me", 3)
    assert [[char for char, _color in row] for row in rows] == [["a", "b", "c"], ["d", "e"]]
    assert [bool(color) for row in rows for _char, color in row] == [True] * 4 + [False]


def test_unknown_control_sequences_are_refused() -> None:
    with pytest.raises(SystemExit, match="not supported"):
        list(screens("\x1b[5;5H", 80))


def test_spaces_and_markup_are_preserved() -> None:
    [rows] = screens("  a  <b> & c", 80)
    texts = [each for each in ElementTree.fromstring(drawn(rows)).iter() if each.tag.endswith("text")]
    assert [(each.text, each.get("x")) for each in texts] == [("a", "30.8"), ("<b> & c", "56")]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_and_loads_nothing(picture: Path) -> None:
    tags = {each.tag.rpartition("}")[2] for each in ElementTree.parse(picture).iter()}
    assert tags == {"svg", "rect", "g", "text"} and picture.stat().st_size < 40_000
