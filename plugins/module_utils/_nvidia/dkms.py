# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what DKMS says about its modules: ``dkms status``, and the log of a build that failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# DKMS 3: "nvidia/580.178.04, 6.12.0-1-amd64, x86_64: installed"; 2: "nvidia, 580.178.04, 6.12...: installed".
_STATUS = re.compile(
    r"^(?P<module>[\w.+-]+)(?:/|, )(?P<version>[^,:\s]+)(?:, (?P<kernel>[^,:\s]+), (?P<arch>[^,:\s]+))?"
    r": (?P<state>[a-z]+)(?P<notes>.*)$"
)
_TELLING = re.compile(
    r"\berror\b|Error!|\*\*\*|\bfailed\b|undefined reference|No such file|cannot find|Unable to|not found"
    r"|Killed|No space left|does not appear to be able to|does not match the compiler",
    re.IGNORECASE,
)
# make repeats at each of its levels that something below it failed.
_ECHO = re.compile(
    r"^make(?:\[\d+\])?: \*\*\* (?:\[|Waiting for unfinished jobs)|warning:|^make(?:\[\d+\])?: (?:Entering|Leaving) "
)
# "installed (Differences between built and installed modules)", in DKMS 2 "WARNING! Diff between ...": the file in
# /lib/modules is another one.
_OTHER = re.compile(r"Diff(?:erences)? between built and installed", re.IGNORECASE)
_LINES = 8
_WIDTH = 300


@dataclass(frozen=True)
class Build:
    """A version of a module; ``kernel`` is empty for one that is only added. ``state`` is added, built or installed."""

    module: str
    version: str
    kernel: str
    architecture: str
    state: str
    notes: str = ""

    @property
    def installed(self) -> bool:
        """Whether the module that was built is the one that lies with its kernel."""
        return self.state == "installed" and not self.differs

    @property
    def differs(self) -> bool:
        return self.state == "installed" and bool(_OTHER.search(self.notes))


def parse_status(text: str) -> Iterator[Build]:
    """The lines of ``dkms status``; lines of another form are left out."""
    for line in text.splitlines():
        match = _STATUS.match(line.strip())
        if match:
            yield Build(
                match["module"],
                match["version"],
                match["kernel"] or "",
                match["arch"] or "",
                match["state"],
                match["notes"].strip(" ()"),
            )


def telling_lines(log: str) -> list[str]:
    """The lines of a make.log that say why it failed: the first few, since what follows is their consequence."""
    lines = [line.strip()[:_WIDTH] for line in log.splitlines()]
    found = [line for line in lines if _TELLING.search(line) and not _ECHO.search(line)]
    found = found or [line for line in lines if _TELLING.search(line)] or [line for line in lines if line][-3:]
    return list(dict.fromkeys(found))[:_LINES]
