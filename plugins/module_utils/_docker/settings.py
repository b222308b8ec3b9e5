# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse Docker's daemon.json and merge settings into it without losing unmanaged ones."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._errors import DomainError

_INDENT = re.compile(r"\A\s*\{[ \t]*\r?\n([ \t]+)\"")
_CGROUP_DRIVER = "native.cgroupdriver="
_PASSWORD = re.compile(r"(://[^/\s:@\"]*:)[^/\s@\"]*@")
_MISSING = object()
# Settings that dockerd applies on SIGHUP without affecting containers (moby, daemon/reload.go). Features are omitted,
# because most of them only apply at its start.
_RELOADED = frozenset(
    (
        *("debug", "default-cgroupns-mode", "default-ipc-mode", "default-runtime", "default-shm-size"),
        *("default-stop-timeout", "insecure-registries", "labels", "live-restore", "max-concurrent-downloads"),
        *("max-concurrent-uploads", "max-download-attempts", "network-diagnostic-port", "nri-opts"),
        *("registry-mirrors", "runtimes", "shutdown-timeout"),
    )
)
# Those that also return to their default when removed; dockerd keeps the others until it is restarted.
_RESET = frozenset(
    (
        *("max-concurrent-downloads", "max-concurrent-uploads", "max-download-attempts", "network-diagnostic-port"),
        "nri-opts",
    )
)
# White space as defined by Go.
_SPACE = " \t\r\n"


@dataclass
class Merged:
    """``values`` with the wanted settings; ``keys`` (dotted) were added or changed.

    ``contradictions`` are (key, present, wanted) of unmanaged settings that were not changed.
    """

    values: dict[str, Any]
    keys: list[str] = field(default_factory=list)
    contradictions: list[tuple[str, Any, Any]] = field(default_factory=list)


def read_daemon(text: str) -> dict[str, Any]:
    """Return the settings in a daemon.json; none in an empty file. Raise DomainError that names the place.

    As in Docker, a byte order mark is allowed, comments and trailing commas are not. A duplicate key is refused,
    because one of its values would be lost.
    """
    text = text[1:] if text.startswith("\ufeff") else text
    try:
        text.encode("utf-8")
        values = json.loads(text, **_HOOKS) if text.strip(_SPACE) else {}
    except UnicodeEncodeError as error:
        raise DomainError(f"it is not UTF-8 (line {text.count(chr(10), 0, error.start) + 1})") from None
    except json.JSONDecodeError as error:
        raise DomainError(f"it is not valid JSON (line {error.lineno}, column {error.colno}: {error.msg})") from None
    except RecursionError:
        raise DomainError("it is nested too deeply") from None
    except ValueError as error:
        raise DomainError(f"it is not valid JSON ({error})") from None
    if not isinstance(values, dict):
        raise DomainError("it is not a JSON object")
    return values


def facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings for GPUs and Kubernetes; None or empty if they are missing or invalid."""
    runtimes = values.get("runtimes")
    options = values.get("exec-opts")
    named = [one for one in (options if isinstance(options, list) else []) if isinstance(one, str)]
    drivers = [one[len(_CGROUP_DRIVER) :] for one in named if one.startswith(_CGROUP_DRIVER)]
    return {
        "default_runtime": _text(values.get("default-runtime")),
        "runtimes": {
            name: _text(one.get("path")) if isinstance(one, Mapping) else None
            for name, one in (runtimes.items() if isinstance(runtimes, Mapping) else ())
        },
        # Docker uses the first one.
        "cgroup_driver": drivers[0] if drivers else None,
        "data_root": _text(values.get("data-root")) or _text(values.get("graph")),
    }


def merge(values: Mapping[str, Any], wanted: Mapping[str, Any], replace: bool) -> Merged:
    """Return ``values`` with the wanted settings. Different existing values only change if ``replace`` is true.

    Objects are merged key by key. Missing list entries are added; an entry ``name=value`` contradicts an entry with the
    same name and another value.
    """
    merged = Merged({})
    merged.values = _objects("", values, wanted, replace, merged)
    return merged


def without(values: Mapping[str, Any], some: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``values`` without what is equal in ``some``, and without objects and lists that become empty."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        other = some.get(key, _MISSING)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            rest: Any = without(value, other)
        elif isinstance(value, list) and isinstance(other, list):
            rest = [one for one in value if not any(_same("", one, each) for each in other)]
        else:
            rest = None if other is not _MISSING and _same("", value, other) else value
        if other is _MISSING or rest not in (None, {}, []):
            result[key] = rest
    return result


def changes(before: Mapping[str, Any], after: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the settings (dotted) that differ or exist in only one of the two."""
    for key in {**after, **before}:
        old, new = before.get(key, _MISSING), after.get(key, _MISSING)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from changes(old, new, f"{path}{key}.")
        elif old is _MISSING or new is _MISSING or not _same("", old, new):
            yield f"{path}{key}"


def reloaded(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether Docker applies the difference without a restart."""
    changed = {key.partition(".")[0] for key in changes(before, after)}
    return changed <= _RELOADED and {key for key in changed if key not in after} <= _RESET


def written(values: Mapping[str, Any], before: str) -> str:
    """Return the JSON text of a daemon.json, with the indentation of the previous text."""
    found = _INDENT.match(before)
    indent = found[1] if found else "    "
    text = json.dumps(values, indent=indent, ensure_ascii=False) + "\n"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # A lone surrogate can only be written as an escape.
        return json.dumps(values, indent=indent) + "\n"
    return text


def shown(text: str | None) -> str:
    """Return the text for a diff, without the passwords of proxies."""
    return _PASSWORD.sub(r"\1********@", text or "")


def _objects(
    path: str, values: Mapping[str, Any], wanted: Mapping[str, Any], replace: bool, merged: Merged
) -> dict[str, Any]:
    result = dict(values)
    for key, value in wanted.items():
        if value is not None:
            before = result.get(key, _MISSING)
            result[key] = _value(f"{path}{key}", _MISSING if before is None else before, value, replace, merged)
    return result


def _value(path: str, before: Any, wanted: Any, replace: bool, merged: Merged) -> Any:
    if isinstance(before, Mapping) and isinstance(wanted, Mapping):
        return _objects(f"{path}.", before, wanted, replace, merged)
    if isinstance(before, list) and isinstance(wanted, list):
        return _lists(path, before, wanted, replace, merged)
    if before is _MISSING or (replace and not _same(path, before, wanted)):
        merged.keys.append(path)
        return wanted
    if not _same(path, before, wanted):
        merged.contradictions.append((path, before, wanted))
    return before


def _lists(path: str, before: list[Any], wanted: list[Any], replace: bool, merged: Merged) -> list[Any]:
    result = list(before)
    for entry in wanted:
        if any(_same("", one, entry) for one in result):
            continue
        name, equals, _rest = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        others = [one for one in result if equals and isinstance(one, str) and one.startswith(f"{name}=")]
        if others and not replace:
            merged.contradictions.append((path, others[0], entry))
            continue
        place = result.index(others[0]) if others else len(result)
        result = [one for one in result if one not in others]
        result.insert(place, entry)
        if path not in merged.keys:
            merged.keys.append(path)
    return result


def _same(path: str, before: Any, wanted: Any) -> bool:
    # JSON distinguishes true from 1, Python does not.
    if json.dumps(before, sort_keys=True) == json.dumps(wanted, sort_keys=True):
        return True
    # nvidia-ctk writes only the name of the runtime, which Docker looks up in PATH.
    parts = path.split(".")
    is_path = parts[0] == "runtimes" and parts[-1] == "path" and isinstance(before, str) and isinstance(wanted, str)
    return is_path and "/" not in before and before == wanted.rpartition("/")[2]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the key {name} occurs twice")
        values[name] = value
    return values


def _constant(text: str) -> float:
    raise ValueError(f"{text} is not a valid number in JSON")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _int(text: str) -> int:
    if len(text) > 100:
        raise ValueError(f"the number {text[:20]}... is too long")
    return int(text)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


_HOOKS: dict[str, Any] = {
    "object_pairs_hook": _object,
    "parse_constant": _constant,
    "parse_float": _float,
    "parse_int": _int,
}
