"""Maintainer scripts of packages with systemd units, equivalent to debhelper's snippets."""

from __future__ import annotations

from collections.abc import Sequence

_CONFIGURE = 'if [ "$1" = configure ] || [ "$1" = abort-upgrade ] || [ "$1" = abort-remove ]; then\n'

_ENABLE = """\
    deb-systemd-helper unmask {unit} >/dev/null || true
    if deb-systemd-helper --quiet was-enabled {unit}; then
        deb-systemd-helper enable {unit} >/dev/null || true
    else
        deb-systemd-helper update-state {unit} >/dev/null || true
    fi
"""

_START = """\
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        if [ -n "$2" ]; then action=restart; else action=start; fi
        deb-systemd-invoke $action {units} >/dev/null || true
    fi
"""

_RELOAD = """\
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
    fi
"""

_STOP = """\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop {units} >/dev/null || true
fi
"""

_REMOVED = """\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
if [ "$1" = remove ]; then
    deb-systemd-helper mask {units} >/dev/null || true
fi
if [ "$1" = purge ]; then
    deb-systemd-helper purge {units} >/dev/null || true
    deb-systemd-helper unmask {units} >/dev/null || true
fi
"""

_HEAD = "#!/bin/sh\nset -e\n"


def started(units: Sequence[str]) -> str:
    """Return lines for a postinst that enable the units, start them, and restart them after an upgrade."""
    enable = "".join(_ENABLE.format(unit=unit) for unit in units)
    return _CONFIGURE + enable + _START.format(units=" ".join(units)) + "fi\n"


def for_services(units: Sequence[str], *, start: bool) -> dict[str, str]:
    """Return all maintainer scripts of a package with units; without `start`, they neither enable nor start them."""
    names = " ".join(units)
    return {
        "postinst": _HEAD + (started(units) if start else _CONFIGURE + _RELOAD + "fi\n"),
        "prerm": _HEAD + _STOP.format(units=names),
        "postrm": _HEAD + _REMOVED.format(units=names),
    }


def with_debhelper(upstream: str, lines: str) -> str:
    """Insert lines at the debhelper mark of an upstream maintainer script."""
    return upstream.replace("#DEBHELPER#", lines)
