"""Results of a check: its parts with differences and reasons, as a table, as JSON and as an exit status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

AGREES, DIFFERS, NOT_RUN = "agrees", "differs", "not run"
# Exit statuses: all parts ran and agree; something differs; no GPU or no driver; something could not run.
STATUS_AGREES, STATUS_DIFFERS, STATUS_NO_GPU, STATUS_NOT_RUN = range(4)


class CheckError(Exception):
    """The check can't run at all. The message says what, where, why and what to do; ``status`` is the exit status."""

    def __init__(self, text: str, status: int = STATUS_NOT_RUN) -> None:
        super().__init__(text)
        self.status = status


class NotRunError(Exception):
    """One part can't run on this machine. The message says why."""


@dataclass(frozen=True)
class Difference:
    """A value on which the collection and an independent source disagree.

    ``where`` is the form, module or program that was checked; ``field`` is the name of the value, with the GPU's index.
    """

    where: str
    field: str
    found: Any
    expected: Any

    def __str__(self) -> str:
        return f"{self.where}: {self.field} is {_shown(self.found)}, expected {_shown(self.expected)}"


@dataclass
class Part:
    """One part of the check. ``compared`` counts the compared values by form, module or program.

    ``unavailable`` names values that this machine does not have, which are not differences.
    """

    name: str
    reason: str = ""
    compared: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    unavailable: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def state(self) -> str:
        if self.differences:
            return DIFFERS
        return NOT_RUN if self.reason else AGREES

    def compare(self, where: str, name: str, found: Any, expected: Any) -> None:
        self.check(where, name, found == expected, found, expected)

    def check(self, where: str, name: str, agrees: bool, found: Any, expected: Any) -> None:
        """Count a comparison, and record a difference unless the two values agree."""
        self.compared[where] = self.compared.get(where, 0) + 1
        if not agrees:
            self.differ(where, name, found, expected)

    def differ(self, where: str, name: str, found: Any, expected: Any) -> None:
        self.differences.append(Difference(where, name, found, expected))

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "state": self.state, "seconds": round(self.seconds, 1)}


def status(parts: Iterable[Part]) -> int:
    """Return the exit status; a difference takes precedence over a part that could not run."""
    states = {part.state for part in parts}
    if DIFFERS in states:
        return STATUS_DIFFERS
    return STATUS_NOT_RUN if NOT_RUN in states else STATUS_AGREES


def table(parts: Sequence[Part]) -> str:
    """Return the final table: one line per part, followed by its differences or the reason why it did not run."""
    rows = [("part", "result", "compared", "s")]
    rows += [(part.name, part.state, str(sum(part.compared.values()) or "-"), f"{part.seconds:.1f}") for part in parts]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2]), row[3].rjust(widths[3])]
        lines.append("  ".join(cells))
        if number:
            part = parts[number - 1]
            lines += [f"    {difference}" for difference in part.differences]
            lines += [f"    not run: {part.reason}"] if part.reason else []
            lines += [f"    not available here: {name}" for name in part.unavailable]
            lines += [f"    {note}" for note in part.notes]
    return "\n".join(lines)


def last_line(text: str) -> str:
    """Return the last line of a program's output, which usually contains the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[-1] if lines else "it printed nothing")[:500]


def in_mig_mode(gpu: Mapping[str, Any]) -> bool:
    """Return whether a GPU is in MIG mode, in which programs get its MIG devices instead of the GPU."""
    return bool(gpu.get("mig.current") == "Enabled")


def _shown(value: Any) -> str:
    """Return a value for the table: sets in a fixed order, long values shortened."""
    text = repr(sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value)
    return text if len(text) <= 300 else f"{text[:300]} ..."
