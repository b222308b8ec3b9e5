"""Compare everything in the lock with upstream, in parallel, and renew the lock."""

from __future__ import annotations

import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from upstream import check, compare, render
from upstream.compare import Report
from upstream.lock import LIVE, LockError
from upstream.web import Web

_WORKERS = 6


class Verification:
    """Upstream's answers about one lock; `content` is the lock to be written."""

    def __init__(self, content: Mapping[str, Any], today: date) -> None:
        self.content: dict[str, Any] = copy.deepcopy(dict(content))
        self.today = today
        self.reports: list[Report] = []

    def ask(self, web: Web, say: Callable[[str], None]) -> None:
        """Compare everything, and print each result."""
        questions = dict(self._questions(web))
        pool = ThreadPoolExecutor(_WORKERS)
        try:
            started = time.monotonic()
            running = {pool.submit(question): label for label, question in questions.items()}
            for number, done in enumerate(as_completed(running), 1):
                report = done.result()
                self.reports.append(report)
                head = f"[{number}/{len(running)}, {time.monotonic() - started:.0f} s] {report.label}"
                say(f"{head}: {_summary(report)}")
                for mark, texts in (("!", report.stays + report.differs), ("+", report.learned), (".", report.notes)):
                    for text in texts:
                        say(f"  {mark} {text}")
        finally:
            # After an interruption, do not wait for open requests.
            pool.shutdown(wait=False, cancel_futures=True)

    def differs(self) -> bool:
        """Return whether anything differs from the lock."""
        return any(report.stays or report.differs for report in self.reports)

    def leftover(self) -> list[str]:
        """Return the differences that remain after a renewal."""
        return [f"{report.label}: {text}" for report in self.reports for text in report.stays]

    def answered(self) -> bool:
        """Return whether anything was confirmed or renewed."""
        return any(report.verified for report in self.reports)

    def silent(self) -> bool:
        """Return whether no host answered."""
        return bool(self.reports) and all(report.unreachable and not report.verified for report in self.reports)

    def complete(self) -> bool:
        """Return whether every host answered."""
        return not any(report.unreachable for report in self.reports)

    def renewed(self) -> dict[str, Any]:
        """Return the lock with upstream's values; missing or unreachable entries are unchanged."""
        content = self.content
        if self.complete():
            content["dated"] = self.today.isoformat()
        used = {name for _label, name in check.named_sources(content)}
        sources = {
            name: source for name, source in content["sources"].items() if name in used and name != check.UPSTREAM
        }
        if check.UPSTREAM in used:
            about = "Upstream itself, asked by `make verify-upstream`"
            sources[check.UPSTREAM] = {"about": about, "known": LIVE, "dated": self.today.isoformat(), "address": None}
        content["sources"] = sources
        return content

    def _questions(self, web: Web) -> Iterator[tuple[str, Callable[[], Report]]]:
        names = {name for entry in self.content["repositories"].values() for name in entry["packages"]}
        for label, entry in self.content["repositories"].items():
            yield f"{label}: key", partial(compare.key, label, entry["key"], web, self.today)
            yield label, partial(compare.repository, label, entry, names, web, self.today)
        for reference, entry in self.content["images"].items():
            yield reference, partial(compare.image, reference, entry, web, self.today)
        for name, entry in self.content["downloads"].items():
            yield f"download {name}", partial(compare.download, name, entry, web, self.today)


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write a lock atomically, after its present header. Raises LockError if it is not well-formed."""
    wrong = check.malformed(content)
    if wrong:
        raise LockError(f"Error while renewing {path}: {wrong[0]}. It was left as it is.")
    try:
        text = render.render(render.header(path.read_text()), content)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            Path(name).chmod(path.stat().st_mode & 0o777)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise LockError(f"Error while renewing {path}: {error.strerror}. It was left as it is.") from error


def refuse_unwritable(path: Path) -> None:
    """Raise LockError if a lock can't be written, before contacting upstream."""
    if not path.stat().st_mode & 0o200 or not os.access(path, os.W_OK) or not os.access(path.parent, os.W_OK):
        raise LockError(
            f"Error while renewing {path}: the file or its directory is read-only. Make both writable for your user, "
            "or leave out WRITE=1."
        )


def _summary(report: Report) -> str:
    wrong = len(report.stays) + len(report.differs)
    known = f"{report.verified} confirmed or renewed" if report.verified > 1 else "as in the lock"
    if report.unreachable:
        return "no answer"
    if wrong:
        return f"{wrong} differ" if wrong > 1 else "1 differs"
    return f"{len(report.learned)} learned" if report.learned else known
