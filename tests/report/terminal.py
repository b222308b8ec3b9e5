"""Create the guides' pictures of the terminal. Usage: terminal.py docs/images

The output of a run is replayed into a screen, which is written as SVG. Two runs of site.yml on bare lab nodes show the
live view and the plain view. A third run uses 40 simulated hosts, whose tasks have the names of the roles' tasks and
only sleep.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import pexpect
import yaml

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

from support import programs
from support.hosts import ROOT
from support.lab import running

COLUMNS, LINES = 80, 24
WIDTH, HEIGHT, MARGIN = 8.4, 18, 14
COLORS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff", "35": "#d2a8ff", "36": "#76e3ea"}
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
WRITTEN = re.compile(r"\x1b\[(?P<numbers>[\d;]*)(?P<command>[AJm])|(?P<end>\r?\n)|(?P<text>[^\x1b\r\n]+)|(?P<other>.)")
# This sequence erases the live view, so the screen before it is complete.
ERASED = re.compile(r"(?=\x1b\[\d+A\x1b\[J)")
# Task files that change a host, in the order of site.yml.
CHANGING = "host/main nvidia_driver/packages nvidia_driver/load containerd/main nvidia_container_toolkit/main"
THREE = r"cp1: Initialize the control plane\n.* gpu1: Install and configure .*\n.* gpu2: Install and configure "
Row = list[tuple[str, str]]


def screens(output: str, columns: int) -> Iterator[list[Row]]:
    """Return the screen's characters and colors whenever the live view is complete, and at the end."""
    rows: list[Row] = [[]]
    color = ""
    for part in ERASED.split(output):
        for found in WRITTEN.finditer(part):
            if found["other"]:
                raise SystemExit(f"Error while replaying a terminal: {part[found.start() :][:20]!r} is not supported.")
            for char in found["text"] or "":
                if len(rows[-1]) == columns:
                    rows.append([])
                rows[-1].append((char, color))
            if found["end"]:
                rows.append([])
            elif found["command"] == "A":
                rows[-int(found["numbers"]) - 1 :] = [[]]
            elif found["command"] == "m":
                color = COLORS.get(found["numbers"][-2:], "")
        yield list(rows)


def drawn(rows: list[Row]) -> str:
    """Return the rows as SVG that looks the same with any monospace font, and on light and dark pages."""
    width = round(max(COLUMNS, *map(len, rows)) * WIDTH + 2 * MARGIN)
    size = f'width="{width}" height="{len(rows) * HEIGHT + 2 * MARGIN}"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f'<rect {size} rx="8" fill="#161b22"/>']
    parts.append(f'<g font-family="{FONT}" font-size="14" fill="#e6edf3">')
    for number, row in enumerate(rows):
        column = 0
        for color, run in groupby(row, key=lambda cell: cell[1]):
            colored = "".join(char for char, _color in run)
            # SVG collapses several spaces into one.
            for words in re.finditer(r"\S+( \S+)*", colored):
                x, y = MARGIN + (column + words.start()) * WIDTH, MARGIN + number * HEIGHT + 13
                place = f'x="{x:g}" y="{y}" textLength="{len(words[0]) * WIDTH:g}"' + f' fill="{color}"' * bool(color)
                parts.append(f"<text {place}>{escape(words[0], quote=False)}</text>")
            column += len(colored)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def text(rows: list[Row]) -> str:
    return "\n".join("".join(char for char, _color in row) for row in rows)


def live(output: str, moment: str, lines: int = LINES) -> str:
    """Draw the lower lines of the last screen that matches a pattern."""
    return drawn([rows[-lines:] for rows in screens(output, COLUMNS) if re.search(moment, text(rows[-LINES:]))][-1])


def plain(output: str) -> str:
    """Draw the longest sequence of phases and changes, without the long messages and warnings around it."""
    [rows] = screens(output, 500)
    stretches = groupby(rows, key=lambda row: bool(re.match(r"\[\d|.*: changed: ", text([row]))))
    return drawn(max((list(stretch) for short, stretch in stretches if short), key=len))


def terminal(*command: str) -> str:
    child = programs.terminal(list(command), ROOT, environment(), columns=COLUMNS)
    child.expect(pexpect.EOF, timeout=900)
    return str(child.before)


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_") and k not in ("COLUMNS", "LINES")}
    return {**kept, "TERM": "xterm-256color"}


def simulated(play: Path) -> list[str]:
    """Write a play whose hosts sleep instead of running the roles that change them; return the command that runs it."""
    files = [ROOT / "roles" / f"{name.replace('/', '/tasks/')}.yml" for name in [*CHANGING.split(), "kubeadm/install"]]
    tasks: list[dict[str, Any]] = [task for path in files for task in yaml.safe_load(path.read_text())]
    names = [task["name"] for task in tasks if "gpulab.kubernetes.host_state" in task and "when" not in task]
    sleep = {"slept": "{{ lookup('pipe', 'sleep ' ~ range(2, 12) | random) }}"}
    steps = [{"name": name, "ansible.builtin.set_fact": sleep, "changed_when": True} for name in names]
    how = {"name": "Prepare the hosts", "hosts": "all", "strategy": "free", "gather_facts": False}
    play.write_text(yaml.safe_dump([{**how, "tasks": steps}]))
    return ["ansible-playbook", "--forks", "50", "-i", "".join(f"gpu{n:02}," for n in range(1, 41)), str(play)]


def main(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        fleet = terminal(*simulated(Path(scratch) / "play.yml"))
    (folder / "terminal-fleet.svg").write_text(live(fleet, "of 40: Install the driver's packages"))
    site, bare = ("ansible-playbook", "site.yml", "-i"), ROOT / "lab" / "specs" / "default.yml"
    with running("pictures", bare) as lab:
        three = terminal(*site, str(lab.path))
    (folder / "terminal-live.svg").write_text(live(three, THREE, lines=13))
    with running("pictures", bare) as lab:
        _status, piped = programs.piped([*site, str(lab.path)], ROOT, environment())
    (folder / "terminal-plain.svg").write_text(plain(piped))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
