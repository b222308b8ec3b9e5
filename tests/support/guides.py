"""The commands in docs/*.md that a test runs; docs/testing.md says how they are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from support.hosts import ROOT

DOCS = ROOT / "docs"
KINDS = {"": "sh", "fails": "sh", "last": "sh", "prints": "text"}
_MARKER = re.compile(r"<!-- lab(?:: (\w+))? -->\Z")
_LINK = re.compile(r"\]\(([\w-]+\.md)\)")


@dataclass
class Block:
    """One script, and lines that it has to print. ``fails``: with a status other than 0; ``last``: after all others."""

    page: str
    line: int
    script: str
    kind: str = ""
    prints: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    def missing(self, output: str) -> list[str]:
        """Return the lines that should have been printed and were not.

        They may be wrapped in the output; ... stands for up to 200 characters.
        """
        said = " ".join(output.split())
        return [line for line in self.prints if not re.search(_pattern(line), said)]


def pages(docs: Path = DOCS) -> list[str]:
    """Return the guides in the order in which docs/README.md links them first."""
    return list(dict.fromkeys(_LINK.findall((docs / "README.md").read_text())))


def blocks(page: str, docs: Path = DOCS) -> list[Block]:
    """Return the marked blocks of a page. Raises ValueError for a marker that marks nothing."""
    found: list[Block] = []
    for line, kind, text in _marked(page, (docs / page).read_text().splitlines()):
        if kind == "prints":
            if not found:
                raise ValueError(f"{page}:{line}: there is no marked block above that could print this")
            found[-1].prints += [" ".join(each.split()) for each in text if each.strip()]
        else:
            found.append(Block(page, line, "\n".join(text), kind))
    return found


def _marked(page: str, lines: list[str]) -> Iterator[tuple[int, str, list[str]]]:
    """(line of the marker, kind, text of the fenced block below it)."""
    for number, line in enumerate(lines):
        if not line.startswith("<!-- lab"):
            continue
        marker = _MARKER.match(line)
        kind = (marker[1] or "") if marker else "?"
        if kind not in KINDS:
            raise ValueError(
                f"{page}:{number + 1}: {line} is no marker; the kinds are {', '.join(filter(None, KINDS))}"
            )
        fence = f"```{KINDS[kind]}"
        if lines[number + 1 : number + 2] != [fence] or "```" not in lines[number + 2 :]:
            raise ValueError(f"{page}:{number + 1}: below {line} there is no block that begins with {fence}")
        yield number + 1, kind, lines[number + 2 : lines.index("```", number + 2)]


def _pattern(line: str) -> str:
    return ".{0,200}".join(re.escape(part.strip()) for part in line.split("..."))
