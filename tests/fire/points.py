"""Where a run is interrupted: at the steps of a list, and at random moments that a seed repeats."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, product, zip_longest
from pathlib import Path
from typing import Any

RUN, CONTROLLER, POWER = "run", "controller", "power"
# A fault at a step of the list comes within its first seconds.
_AT_ITS_START = 2.0


@dataclass(frozen=True)
class Step:
    """A task of an uninterrupted run: its name, how often it had started before, when, for how long."""

    task: str
    before: int
    at: float
    seconds: float
    changes: bool

    def after(self, delay: float, kind: str, node: str) -> Point:
        return Point(kind, self.task, self.before, round(delay, 2), node)


@dataclass(frozen=True)
class Point:
    """A fault: so many seconds after a task was started for the time after `before`; `node` loses power."""

    kind: str
    task: str
    before: int
    delay: float
    node: str = ""

    def __str__(self) -> str:
        what = {RUN: "kill of the run", CONTROLLER: "kill of the controller", POWER: f"power cut of {self.node}"}
        again = f" (start {self.before + 1})" if self.before else ""
        return f"{what[self.kind]} {self.delay} s after the start of '{self.task}'{again}"


def steps(events: Iterable[dict[str, Any]], end: float) -> list[Step]:
    """Return the steps of a run from the callback's events; `end` is in seconds of the same clock."""
    given = list(events)
    started = [(event["task"], float(event["at"])) for event in given if event["event"] == "task"]
    changing = {event["task"] for event in given if event["event"] == "result" and event["status"] == "changed"}
    seen: Counter[str] = Counter()
    found = []
    for (task, at), following in zip_longest(started, started[1:]):
        found.append(Step(task, seen[task], at, (following[1] if following else end) - at, task in changing))
        seen[task] += 1
    return found


def choose(known: Sequence[Step], nodes: Sequence[str], number: int, seed: str, pattern: str = "") -> list[Point]:
    """Return as many points, as often at a listed step as at a random moment; no step comes twice before all did.

    Each kind of fault comes at both before any comes again, in a random order.

    The list has the steps that changed something, or those whose names match `pattern`. Without nodes that can lose
    power, only the run and the controller are killed. Raises LookupError if the list is empty.
    """
    chance = random.Random(seed)
    listed = [step for step in known if (re.search(pattern, step.task) if pattern else step.changes)]
    if not listed:
        raise LookupError(f"no step of the run {f'matches {pattern!r}' if pattern else 'changes anything'}")
    order = cycle(chance.sample(listed, len(listed)))
    kinds = [RUN, CONTROLLER, POWER] if nodes else [RUN, CONTROLLER]
    drawn: list[tuple[bool, str]] = []
    points = []
    for _index in range(number):
        drawn = drawn or chance.sample(list(product((True, False), kinds)), 2 * len(kinds))
        at_listed, kind = drawn.pop()
        if not at_listed:
            moment = chance.uniform(known[0].at, known[-1].at + known[-1].seconds)
            step = max((each for each in known if each.at <= moment), key=lambda each: each.at)
            delay = moment - step.at
        else:
            step = next(order)
            delay = chance.uniform(0, min(step.seconds, _AT_ITS_START))
        points.append(step.after(delay, kind, chance.choice(nodes) if kind == POWER else ""))
    return points


@dataclass
class Progress:
    """The points of a play and the results so far, in a file, so that an interrupted `make fire` is continued."""

    path: Path
    key: dict[str, str]
    points: list[Point]
    results: list[dict[str, Any]]

    @classmethod
    def load(cls, path: Path, key: dict[str, str]) -> Progress | None:
        """Return the progress with the same key, if there is any: the same play, seed, commit and so on."""
        if not path.is_file():
            return None
        content = json.loads(path.read_text())
        if content["key"] != key:
            return None
        return cls(path, key, [Point(**each) for each in content["points"]], content["results"])

    def save(self) -> None:
        content = {**asdict(self), "path": str(self.path)}
        work = self.path.with_suffix(".new")
        work.write_text(json.dumps(content, indent=1))
        work.replace(self.path)

    def add(self, outcome: str, seconds: float, why: str = "", during: str = "") -> None:
        """Add the result of the next point; `during` is the task that it really interrupted."""
        about = {"point": str(self.points[len(self.results)]), "during": during}
        self.results.append({**about, "outcome": outcome, "seconds": round(seconds), "why": why})
        self.save()

    @property
    def left(self) -> list[Point]:
        return self.points[len(self.results) :]

    def count(self, outcome: str) -> int:
        return sum(result["outcome"] == outcome for result in self.results)

    def summary(self) -> str:
        """Return what is done and left; a missed point, whose step did not come, is no point that was run."""
        outcomes = ", ".join(f"{self.count(each)} {each}" for each in ("passed", "failed", "missed"))
        return (
            f"{self.key['play']}, seed {self.key['seed'][:12]}: {outcomes}; {len(self.left)} of {len(self.points)} left"
        )
