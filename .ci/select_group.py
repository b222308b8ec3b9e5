#!/usr/bin/env python3
"""Print the group of long tests for CI: one of those that test HEAD's changes, selected by the commit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
# The second one is for a pushed branch, and for a commit that is checked out without its branch.
_UPSTREAM = ("@{upstream}", "refs/remotes/origin/HEAD")


@dataclass(frozen=True)
class Table:
    """The tables of groups.yml, and the test files of each group, in the order of the Makefile."""

    rows: Mapping[str, Sequence[str]]
    too_long: Mapping[str, str]
    tests: Mapping[str, Sequence[str]]

    @property
    def selectable(self) -> list[str]:
        """Return the groups that CI has time for."""
        return [name for name in self.tests if name not in self.too_long]

    def groups_of(self, path: str) -> list[str] | None:
        """Return the groups that test a file, or None if neither a row nor the Makefile names it."""
        folder, _separator, name = path.rpartition("/")
        if folder == "tests/integration":
            owners = [group for group, files in self.tests.items() if name in files]
            if owners:
                return owners
        found = [groups for prefix, groups in self.rows.items() if matches(prefix, path)]
        return list(found[-1]) if found else None

    def candidates(self, changed: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the groups to select from, and those that test the change but take too long.

        If CI has no time for any group that tests the change, all groups that it has time for are candidates.
        """
        concerned = {group for path in changed for group in self.groups_of(path) or []}
        chosen = [name for name in self.selectable if name in concerned]
        return chosen or self.selectable, [name for name in self.tests if name in concerned & self.too_long.keys()]


def matches(prefix: str, path: str) -> bool:
    """Return whether a row matches a path."""
    return fnmatchcase(path, f"{prefix}*")


def load() -> Table:
    """Read groups.yml, and the groups from the Makefile."""
    known = yaml.safe_load((ROOT / ".ci" / "groups.yml").read_text(encoding="utf-8"))
    listed = [line.split() for line in _output("make", "-s", "groups").splitlines()]
    return Table(known["paths"], known["too_long"], {name: tests for name, *tests in listed})


def select(commit: str, candidates: Sequence[str]) -> str:
    """Return a candidate chosen by the commit's hash, so that all are equally likely."""
    return candidates[int(commit[:7], 16) % len(candidates)]


def base(checkout: Path, given: str = "") -> str | None:
    """Return the commit at which HEAD's change starts, or None if this clone does not have it.

    ``given`` is the value of CI_BASE. Raises SystemExit if it is not an ancestor of HEAD.
    """

    def git(*arguments: str) -> str | None:
        done = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    if given:
        found = git("merge-base", given, "HEAD")
        if not found:
            sys.exit(f"ci: CI_BASE={given} shares no history with HEAD in this clone. Fetch it, or unset CI_BASE.")
        return found
    head = git("rev-parse", "HEAD")
    shared = [git("merge-base", upstream, "HEAD") for upstream in _UPSTREAM]
    parent = git("rev-parse", "-q", "--verify", "HEAD^")
    return next((found for found in (*shared, parent) if found and found != head), None)


def _changed(start: str | None) -> list[str]:
    """Return the paths that differ between this commit and HEAD, both of a renamed file."""
    return _output("git", "diff", "--name-only", "--no-renames", "-z", start, "HEAD").split("\0")[:-1] if start else []


def _output(*argv: str) -> str:
    return subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Print the group to standard output, and the candidates to standard error."""
    table, commit = load(), _output("git", "rev-parse", "HEAD").strip()
    start = base(ROOT, os.environ.get("CI_BASE", ""))
    changed = _changed(start)
    candidates, left_out = table.candidates(changed)
    known = f"files changed since {start[:12]}: {len(changed)}" if start else "this clone does not have HEAD's parent"
    print(f"ci: {known}; candidates: {' '.join(candidates)}", file=sys.stderr)
    for name in left_out:
        print(f"ci: not run here: make test-all GROUP={name} ({table.too_long[name]})", file=sys.stderr)
    print(select(commit, candidates))


if __name__ == "__main__":
    main()
