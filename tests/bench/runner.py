"""Measure the overhead of ansible-runner: examples/provision.py against plain ansible-playbook.

Both repeat site.yml on the same lab in turns, so that a machine that slows down affects both. The ratio is that of the
medians.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.hosts import ROOT

LIMIT = 1.15
ROUNDS = int(os.environ.get("ROUNDS", "3"))


def measure(inventory: Path) -> dict[str, object]:
    """Return the seconds of each way and their ratio. The inventory's cluster must be finished."""
    script = [sys.executable, str(ROOT / "examples" / "provision.py"), "-i", str(inventory)]
    plain = ["ansible-playbook", "site.yml", "-i", str(inventory)]
    seconds: dict[str, list[float]] = {"plain": [], "runner": []}
    for _ in range(ROUNDS):
        seconds["plain"].append(timed(plain))
        seconds["runner"].append(timed(script))
    ratio = round(median(seconds["runner"]) / median(seconds["plain"]), 3)
    return {"plain_s": seconds["plain"], "runner_s": seconds["runner"], "ratio": ratio, "limit": LIMIT}


def timed(command: list[str]) -> float:
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    taken = round(time.monotonic() - started, 2)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout[-3000:]}")
    print(f"bench: {command[-3]}: {taken} s", file=sys.stderr, flush=True)
    return taken


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]).resolve()), indent=2))
