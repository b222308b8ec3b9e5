"""Progress on the terminal: one line per step with its seconds; long steps also report while they run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

_FIRST_SIGN_AFTER = 10.0
_NEXT_SIGN_AFTER = 60.0

console = Console(highlight=False, soft_wrap=True)


class Step:
    """A running step; `note` sets a remark for its final line."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.remark = ""

    def note(self, remark: str) -> None:
        """Add a remark to the step's final line."""
        self.remark = remark


_RUNNING: list[Step] = []
_SPINNER = threading.Lock()


def seconds(value: float) -> str:
    """Return a readable duration: 3.2 s, 48 s, 2 min 05 s."""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def say(text: str) -> None:
    """Print one plain line."""
    console.print(escape(text))


def warn(text: str) -> None:
    """Print one highlighted line."""
    console.print(f"[yellow]![/yellow] {escape(text)}")


@contextmanager
def step(title: str) -> Iterator[Step]:
    """Show a step while it runs, then one line with its duration; nested steps print their own lines first."""
    current = Step(title)
    _RUNNING.append(current)
    started = time.monotonic()
    done = threading.Event()
    watcher = threading.Thread(target=_signs_of_life, args=(current, started, done), daemon=True)
    watcher.start()
    try:
        yield current
    except BaseException:
        done.set()
        watcher.join()
        _RUNNING.remove(current)
        console.print(f"[red]✗[/red] {escape(title)} [dim]({seconds(time.monotonic() - started)})[/dim]")
        raise
    done.set()
    watcher.join()
    _RUNNING.remove(current)
    remark = f": {escape(current.remark)}" if current.remark else ""
    console.print(f"[green]✓[/green] {escape(title)}{remark} [dim]({seconds(time.monotonic() - started)})[/dim]")


def _signs_of_life(current: Step, started: float, done: threading.Event) -> None:
    if console.is_terminal:
        _spin(current, started, done)
        return
    wait = _FIRST_SIGN_AFTER
    while not done.wait(wait):
        # Only the innermost of nested steps prints.
        if _RUNNING[-1] is current:
            console.print(f"  {escape(current.title)} ... {seconds(time.monotonic() - started)}")
        wait = _NEXT_SIGN_AFTER


def _spin(current: Step, started: float, done: threading.Event) -> None:
    # Rich allows one live display at a time, so a nested step leaves the spinner to the outer one.
    if not _SPINNER.acquire(blocking=False):
        done.wait()
        return
    try:
        with console.status(escape(current.title)) as status:
            while not done.wait(1.0):
                status.update(f"{escape(_RUNNING[-1].title)} [dim]{seconds(time.monotonic() - started)}[/dim]")
    finally:
        _SPINNER.release()
