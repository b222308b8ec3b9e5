"""`python -m upstream`: ask upstream what differs from `upstream.lock`; `--check` looks at the lock alone."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import yaml

from upstream import behind, check, lock
from upstream.verify import Verification, refuse_unwritable, save
from upstream.web import Web, WebError

_DIFFERS, _UNUSABLE, _INTERRUPTED = 1, 2, 130
_LONGEST_S = 3600


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return 1 if a difference remains, 2 if the lock can't be used."""
    parser = argparse.ArgumentParser(prog="python -m upstream", description=__doc__)
    parser.add_argument("--lock", type=Path, default=lock.PATH, help="the lock (default: %(default)s)")
    parser.add_argument("--write", action="store_true", help="renew the lock with what upstream has")
    parser.add_argument("--check", action="store_true", help="do not ask upstream; warn when the lock is old")
    parser.add_argument("--ca", metavar="FILE", help="also trust these authorities (as SSL_CERT_FILE does)")
    parser.add_argument("--timeout", type=_timeout, default=60.0, help="seconds that an answer may take (default: 60)")
    options = parser.parse_args(arguments)
    today = datetime.now(timezone.utc).date()
    try:
        content = check.read(options.lock)
        wrong = check.malformed(content)
        if wrong:
            for text in wrong:
                _say(f"Error in {options.lock}: {text}")
            return _UNUSABLE
        if options.check:
            known = lock.load(options.lock)
            warning = check.age_warning(known, today)
            if warning:
                _say(f"warning: {warning}")
            _say(_summary(known))
            return 0
        if options.write:
            refuse_unwritable(options.lock)
        verification = Verification(content, today)
        web = Web(options.ca, options.timeout)
        verification.ask(web, _say)
        behind.ask(yaml.safe_load(check.TABLE.read_text())["cluster_versions"], web, _say, lock.PATH.parent, today)
        return _end(verification, options.lock, options.write)
    except (lock.LockError, WebError, OSError) as error:
        _say(str(error))
        return _UNUSABLE
    except KeyboardInterrupt:
        _say(f"Interrupted: {options.lock.name} was left as it is.")
        return _INTERRUPTED


def _summary(content: lock.Lock) -> str:
    counted = Counter(fact.known for fact in content.facts())
    parts = ", ".join(f"{counted[known]} {known}" for known in lock.KNOWN)
    return f"{counted.total()} entries in {lock.PATH.name}: {parts}"


def _timeout(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and 0 < seconds <= _LONGEST_S):
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from 1 to {_LONGEST_S}")
    return seconds


def _end(verification: Verification, path: Path, write: bool) -> int:
    learned = sum(len(report.learned) for report in verification.reports)
    leftover = verification.leftover()
    if write and not verification.answered():
        _say(f"{path.name} was left as it is, because nothing answered. Check the network, or the proxy (HTTPS_PROXY).")
        return _DIFFERS
    if verification.silent():
        _say(
            f"{path.name} could not be compared, because nothing answered. Check the network, or the proxy "
            "(HTTPS_PROXY)."
        )
        return _DIFFERS
    if write:
        save(path, verification.renewed())
        for text in leftover:
            _say(f"left as it was: {text}")
        dated = "" if verification.complete() else ", with its old date, because not every server answered"
        _say(f"{path.name} is renewed{dated}. Read its diff, and let tests/unit/upstream say what the product needs.")
        return _DIFFERS if leftover else 0
    if verification.differs():
        asked = [report for report in verification.reports if not report.unreachable]
        count = sum(len(report.differs) + len(report.stays) for report in asked)
        unasked = len(verification.reports) - len(asked)
        parts = f"{learned} more could be learned" + (f"; questions without an answer: {unasked}" if unasked else "")
        renewal = " WRITE=1 renews it." if learned or any(report.differs for report in asked) else ""
        _say(f"{count} differ from {path.name} ({parts}).{renewal}")
        return _DIFFERS
    _say(f"Nothing differs from {path.name}." + (f" {learned} could be learned, WRITE=1 does." if learned else ""))
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    status = main()
    if status == _INTERRUPTED:
        # Python would wait for open requests.
        os._exit(status)
    sys.exit(status)
