# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Callable

from ansible.errors import AnsibleFilterError

from ..module_utils._errors import DomainError
from ..plugin_utils._containerd import conflicts
from ..plugin_utils._containerd.config import Configuration, File, merge, parse, parse_release
from ..plugin_utils._filter_errors import filter_errors

_BARE_KEY = re.compile(r"\A[A-Za-z0-9_-]+\Z")


@filter_errors()
def containerd_config(files: Any, release: str = "") -> dict[str, Any]:
    """Read containerd's configuration."""
    configuration = merge([_read_file(entry) for entry in _entries(files)], parse_release(str(release or "")))
    return _config_fields(configuration)


def _entries(files: Any) -> Sequence[Any]:
    if isinstance(files, str):
        return [{"path": "", "text": files}]
    if isinstance(files, Sequence):
        return files
    raise AnsibleFilterError(f"containerd_config: a text or a list of files is needed, not a {type(files).__name__}")


def _read_file(entry: Any) -> File:
    if not isinstance(entry, Mapping) or not {"path", "text"} <= entry.keys():
        raise AnsibleFilterError("containerd_config: a file is a dictionary with path and text")
    text = None if entry["text"] is None else str(entry["text"])
    return parse(str(entry["path"]), text, imported=bool(entry.get("imported", True)))


def _config_fields(configuration: Configuration) -> dict[str, Any]:
    view = configuration.view
    found = conflicts.find(configuration)
    return {
        "version": configuration.version,
        "root": configuration.root,
        "state": configuration.state,
        "cri": all(conflict.kind != "cri_disabled" for conflict in found),
        "cri_table": configuration.cri_table,
        "default_runtime": view.default_runtime,
        "runtimes": {
            name: {
                "handler": name,
                "type": runtime.type,
                "binary": runtime.binary,
                "systemd_cgroup": runtime.systemd_cgroup,
            }
            for name, runtime in view.runtimes.items()
        },
        "sandbox_image": view.sandbox_image,
        "cdi": configuration.cdi,
        "enable_cdi": view.enable_cdi,
        "registry_config_path": view.registry_config_path,
        "imports": list(configuration.imports),
        "disabled_plugins": sorted(configuration.disabled_plugins),
        "conflicts": [conflict.fields() for conflict in found],
    }


def containerd_state(
    files: Sequence[Mapping[str, Any]], release: str = "", own: Collection[str] = ()
) -> dict[str, Any]:
    """Summarize a host's containerd configuration for a report."""
    if not files:
        return {}
    try:
        read = [parse(file["path"], file["text"], imported=bool(file.get("imported", True))) for file in files]
        configuration = merge(read, parse_release(str(release or "")))
        found = [conflict.fields() for conflict in conflicts.find(configuration)]
    except DomainError as error:
        path = error.fields.get("path")
        unreadable = conflicts.Conflict("unreadable", str(error), (path,) if path else ())
        return {"default_runtime": None, "cdi": None, "systemd_cgroup": {}, "conflicts": [unreadable.fields()]}
    view = configuration.view
    return {
        "default_runtime": view.default_runtime or "runc",
        "cdi": configuration.cdi,
        "systemd_cgroup": {name: runtime.systemd_cgroup for name, runtime in view.runtimes.items()},
        "conflicts": [
            {**each, "level": "note"} if each["kind"] == "runtime_twice" and not set(own) & {*each["files"]} else each
            for each in found
        ],
    }


def _toml_key(name: str) -> str:
    return name if _BARE_KEY.match(name) else _toml_string(name)


def _toml_string(text: str) -> str:
    # A JSON string is a TOML basic string, but for the two escapes that JSON leaves out.
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_value(value: Any, path: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return _toml_string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(item, path) for item in value) + "]"
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_toml_key(str(key))} = {_toml_value(item, path)}" for key, item in value.items()) + "}"
        )
    raise AnsibleFilterError(f"to_toml: {path} is a {type(value).__name__}, which TOML does not support")


def _toml_tables(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    scalars = {key: value for key, value in values.items() if not isinstance(value, Mapping) and value is not None}
    tables = {key: value for key, value in values.items() if isinstance(value, Mapping)}
    name = ".".join(_toml_key(part) for part in path)
    lines = [
        f"{_toml_key(str(key))} = {_toml_value(value, f'{name}.{key}'.lstrip('.'))}" for key, value in scalars.items()
    ]
    if path and (lines or not tables):
        lines.insert(0, f"[{name}]")
    if lines:
        yield "\n".join(lines)
    for key, value in tables.items():
        yield from _toml_tables(value, (*path, str(key)))


def to_toml(values: Any) -> str:
    """Write a mapping as TOML."""
    if not isinstance(values, Mapping):
        raise AnsibleFilterError(f"to_toml: a mapping is needed, not a {type(values).__name__}")
    return "\n\n".join(_toml_tables(values, ())) + "\n"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "containerd_config": containerd_config,
            "containerd_state": containerd_state,
            "to_toml": to_toml,
        }
