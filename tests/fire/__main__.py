"""Interrupt a playbook at N points, each on a restored lab, and print what is done and left.

PYTHONPATH=.:tests python -m fire site.yml --points 20 --minutes 60
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fire.arena import Arena, head
from fire.points import Progress, choose
from lab.nodes.errors import LabError


def say(text: str) -> None:
    print(f"fire: {text}", flush=True)


def begin(arena: Arena, seed: str, number: int, pattern: str) -> Progress:
    """Return the progress of an earlier call, or choose the points from the steps of an uninterrupted run."""
    path = arena.directory / "progress.json"
    key = {**arena.key(), "seed": seed, "steps": pattern}
    known = Progress.load(path, key)
    if known and known.left and len(known.points) == number:
        say(f"going on: {known.summary()}")
        return known
    say(f"an uninterrupted run of {arena.play}, to know its steps")
    recorded, seconds = arena.record()
    points = choose(recorded, arena.nodes_with_disk(), number, seed, pattern)
    say(f"{len(recorded)} steps in {seconds:.0f} s")
    chosen_points = Progress(path, key, points, [])
    chosen_points.save()
    return chosen_points


def fire(
    play: str,
    number: int,
    minutes: float,
    seed: str = "",
    pattern: str = "",
    arguments: Sequence[str] = (),
    place: tuple[str, Path] | None = None,
) -> Progress:
    """Run as many of the points as fit into the time, at least one, and return the progress."""
    until = time.monotonic() + minutes * 60
    arena = Arena(play, arguments, place)
    try:
        arena.prepare()
        progress = begin(arena, seed or head(), number, pattern)
        longest = 0.0
        for point in progress.left:
            began = time.monotonic()
            if longest and began + longest > until:
                say("the time is over")
                break
            say(f"point {len(progress.results) + 1} of {number}: {point}")
            arena.during = ""
            try:
                arena.restore()
                say(f"restored in {time.monotonic() - began:.0f} s")
                arena.settle()
                outcome, why = arena.attempt(point, arena.directory / "answers.jsonl")
            except (AssertionError, LabError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                outcome, why = "failed", str(error)
            seconds = time.monotonic() - began
            longest = max(longest, seconds)
            progress.add(outcome, seconds, why, arena.during)
            say(f"{outcome} in {seconds:.0f} s, during '{arena.during}'" + (f":\n{why}" if why else ""))
    finally:
        if "KEEP_LAB" not in os.environ:
            arena.remove()
    say(progress.summary())
    return progress


def main() -> int:
    parser = argparse.ArgumentParser(prog="fire", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("play", help="playbook, for example site.yml or playbooks/storage.yml")
    parser.add_argument("--points", type=int, default=20, help="number of points")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no point that would end later")
    parser.add_argument("--seed", default="", help="text that the points are chosen by; default: the commit")
    parser.add_argument("--steps", default="", help="regular expression of the steps; default: those that change hosts")
    given, further = parser.parse_known_args()
    progress = fire(given.play, given.points, given.minutes, given.seed, given.steps, further)
    return 1 if progress.count("failed") or not progress.count("passed") else 0


if __name__ == "__main__":
    sys.exit(main())
