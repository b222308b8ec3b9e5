"""Parse relations between Debian packages, as in `Depends: a (>= 1), b | c`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from upstream.collection import compare_versions

_RELATION = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9+.-]*)(?::[a-z0-9-]+)?"
    r"(?:\s*\((?P<operator><<|<=|=|>=|>>)\s*(?P<version>[A-Za-z0-9.+~:-]+)\))?"
    r"(?:\s*\[[^]]+\])?(?:\s*<[^>]+>)*",
    re.ASCII,
)
_FITS = {
    "<<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    "=": lambda order: order == 0,
    ">=": lambda order: order >= 0,
    ">>": lambda order: order > 0,
}


@dataclass(frozen=True)
class Relation:
    """One alternative: `operator` and `version` are empty if any version fits."""

    name: str
    operator: str = ""
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name} ({self.operator} {self.version})" if self.operator else self.name

    def fits(self, version: str) -> bool:
        """Return whether a version of the package fits."""
        return not self.operator or _FITS[self.operator](compare_versions(version, self.version))


def parse(text: str) -> list[tuple[Relation, ...]]:
    """Return the relations of a field with their alternatives. Raises ValueError for invalid syntax."""
    return [tuple(_relation(part) for part in group.split("|")) for group in text.split(",")] if text.strip() else []


def write(groups: Iterable[Iterable[Relation]]) -> str:
    """Return the text of a field."""
    return ", ".join(" | ".join(map(str, group)) for group in groups)


def unmet(text: str, versions: Mapping[str, Iterable[str]], elsewhere: Iterable[str]) -> list[str]:
    """Return the relations that neither the repository's versions nor the names in `elsewhere` meet."""
    others = set(elsewhere)
    return [
        " | ".join(map(str, group))
        for group in parse(text)
        if not any(
            alternative.name in others or any(map(alternative.fits, versions.get(alternative.name, ())))
            for alternative in group
        )
    ]


def _relation(text: str) -> Relation:
    match = _RELATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text.strip()!r:.80} is not a relation that apt reads")
    return Relation(match["name"], match["operator"] or "", match["version"] or "")
