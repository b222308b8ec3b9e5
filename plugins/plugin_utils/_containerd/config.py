# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read containerd's configuration as containerd does: files of versions 1 to 4, merged in the order of their imports.

How containerd merges and migrates: cmd/containerd/server/config/config.go, plugins/cri/{runtime,images}/plugin.go of
containerd 2.0 to 2.3, services/server/config/config.go of 1.6 and 1.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tomllib

from ...module_utils._errors import DomainError
from ...module_utils._mappings import merged

Table = Mapping[str, Any]
Release = tuple[int, int, int]  # major, minor, patch

RUNTIME = "io.containerd.cri.v1.runtime"
IMAGES = "io.containerd.cri.v1.images"
# The table for both runtime and images until containerd 2.0; version 1 of the configuration calls it cri.
LEGACY = "io.containerd.grpc.v1.cri"
_SHORT = "cri"
CRI_PLUGINS = frozenset({_SHORT, LEGACY, RUNTIME, IMAGES})
_LINUX = "io.containerd.runtime.v1.linux"
_V1_NAMES = {_SHORT: LEGACY, "linux": _LINUX}
# These keys moved to the images table, all others to the runtime table.
_OF_IMAGES = frozenset(
    {
        "registry",
        "image_decryption",
        "max_concurrent_downloads",
        "image_pull_progress_timeout",
        "image_pull_with_sync_fs",
        "stats_collect_period",
    }
)
_LONGEST, _DEEPEST = 2**20, 64
# tomllib's run time is quadratic in the number of key parts.
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){64}""")
_RELEASE = re.compile(r"(?:\d{1,9}:)?v?(\d{1,9})\.(\d{1,9})(?:\.(\d{1,9}))?(?:\D|\Z)")
_KINDS = {str: "a string", bool: "a boolean", int: "a number", list: "a list", dict: "a table", float: "a number"}


@dataclass(frozen=True)
class Runtime:
    """Settings of a runtime; None if the configuration doesn't set one."""

    type: str | None
    binary: str | None
    systemd_cgroup: bool | None
    engine: str | None = None

    @property
    def is_runc(self) -> bool:
        return (self.type or "io.containerd.runc.v2").startswith("io.containerd.runc.")

    @property
    def is_v1(self) -> bool:
        return self.type == _LINUX


@dataclass(frozen=True)
class View:
    """Settings of the CRI plugins; None if the configuration doesn't set one."""

    default_runtime: str | None = None
    runtimes: Mapping[str, Runtime] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    enable_cdi: bool | None = None
    systemd_cgroup: bool | None = None
    sandbox_image: str | None = None
    registry_config_path: str | None = None
    mirrors: tuple[str, ...] = ()


@dataclass(frozen=True)
class File:
    """A configuration file. ``tables`` is None if it is imported by name and does not exist.

    ``version`` is 1 if the file has none. A file that is not ``imported`` has no effect.
    """

    path: str
    tables: Table | None
    version: int = 1
    imported: bool = True

    @property
    def plugins(self) -> Table:
        """Return the plugins' tables under their names in version 2."""
        found = _table(self.tables or {}, "plugins", self.path)
        return {_V1_NAMES.get(name, name): value for name, value in found.items()} if self.version == 1 else found

    @cached_property
    def view(self) -> View:
        """Return the settings of this file alone. Raises DomainError for a value of the wrong type."""
        return self.check()

    def check(self) -> View:
        """Return what ``view`` returns, uncached."""
        return _view(
            migrated(self.plugins, self.path) if self.version < 4 else self.plugins, self.path, self.version < 3
        )


@dataclass(frozen=True)
class Configuration:
    """Files in the order in which they take effect, the main file first, and their merged settings."""

    files: tuple[File, ...]
    release: Release | None
    view: View
    root: str | None
    state: str | None
    imports: tuple[str, ...]
    disabled_plugins: tuple[str, ...]

    @property
    def effective(self) -> tuple[File, ...]:
        return tuple(file for file in self.files if file.imported and file.tables is not None)

    @property
    def version(self) -> int:
        return self.effective[0].version if self.effective else 1

    @property
    def cri_table(self) -> str | None:
        """Return the name of the CRI runtime table in the first file that has one."""
        tables = [_table(file.tables or {}, "plugins", file.path) for file in self.effective]
        return next((name for found in tables for name in (RUNTIME, LEGACY, _SHORT) if name in found), None)

    @property
    def cdi(self) -> bool | None:
        """Return whether containerd injects CDI devices, None if neither the files nor the release show it.

        CDI is off by default in containerd 1.7, unknown to older releases, and on by default from 2.0.
        """
        if self.view.enable_cdi is not None:
            return self.view.enable_cdi
        if self.release:
            return self.release >= (2, 0)
        return True if self.version >= 3 else None


def parse_release(text: str) -> Release | None:
    """Return the release in a version of containerd or its package, None for an empty text. Raises DomainError."""
    match = _RELEASE.match(text)
    if text and not match:
        raise DomainError(f"Error while reading containerd's configuration: {text!r} is not a version of containerd")
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def parse(path: str, text: str | None, *, imported: bool = True) -> File:
    """Parse a file. Raises DomainError with its path for invalid TOML or a version that is not a number."""
    if text is None:
        return File(path, None, imported=imported)
    tables = _tables(path, text)
    version = tables.get("version", 0)
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise _error(path, f"version is {version!r}, not a number from 1 on")
    return File(path, tables, version or 1, imported)


def _tables(path: str, text: str) -> Table:
    if len(text) > _LONGEST:
        raise _error(path, f"it has {len(text)} characters; the limit is {_LONGEST}")
    too_deep = _error(path, f"its tables are nested more than {_DEEPEST} levels deep")
    if _DEEP_KEY.search(text):
        raise too_deep
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        raise too_deep from None
    except ValueError as error:
        # Not only TOMLDecodeError: int() also rejects numbers with too many digits.
        raise _error(path, str(error)) from error
    level, depth = [tables], 0
    while level:
        level, depth = [value for table in level for value in table.values() if isinstance(value, dict)], depth + 1
    if depth > _DEEPEST:
        raise too_deep
    return tables


def merge(files: Iterable[File], release: Release | None = None) -> Configuration:
    """Merge files as containerd does; without a release, as the newest one does.

    Raises DomainError for a value of the wrong type.
    """
    files = tuple(files)
    effective = [file for file in files if file.imported and file.tables is not None]
    plugins: Table = {}
    for file in effective:
        # Check each file alone first, so that the error names the file.
        file.check()
        if release and release < (2, 0):
            plugins = {
                **plugins,
                **{name: value for name, value in file.plugins.items() if name not in (RUNTIME, IMAGES)},
            }
        elif release and release < (2, 3):
            plugins = merged(plugins, file.plugins)
        else:
            plugins = merged(plugins, migrated(file.plugins, file.path) if file.version < 4 else file.plugins)
    last = effective[-1].version if effective else 1
    paths = ", ".join(file.path for file in effective)
    if release and release < (2, 3) and (last < 3 or release < (2, 0)):
        # The version of the last file decides how the merged tables are read.
        plugins = migrated(plugins, paths)
    old = last < 3 and not (release and release >= (2, 0))
    return Configuration(
        files,
        release,
        _view(plugins, paths, old),
        _last(effective, "root"),
        _last(effective, "state"),
        _union(effective, "imports"),
        _union(effective, "disabled_plugins"),
    )


def migrated(plugins: Table, path: str) -> Table:
    """Return the tables with version 2's CRI table split into the runtime and images tables of version 3."""
    legacy = plugins.get(LEGACY)
    if not isinstance(legacy, Mapping):
        return plugins
    runtime, images = dict(_table(plugins, RUNTIME, path)), dict(_table(plugins, IMAGES, path))
    for key, value in legacy.items():
        if key == "containerd" and isinstance(value, Mapping):
            runtime[key] = {**value, **_table(runtime, key, path)}
        elif key == "sandbox_image":
            images["pinned_images"] = {**_table(images, "pinned_images", path), "sandbox": value}
        elif key in _OF_IMAGES:
            images[key] = value
        else:
            runtime.setdefault(key, value)
    return {**plugins, RUNTIME: runtime, IMAGES: images}


def _view(plugins: Table, path: str, old: bool) -> View:
    """Return settings from tables; ``old``: with default_runtime and untrusted_workload_runtime, removed in 2.0."""
    runtime, images = _table(plugins, RUNTIME, path), _table(plugins, IMAGES, path)
    containerd, linux = _table(runtime, "containerd", path), _table(plugins, _LINUX, path)
    registry = _table(images, "registry", path)
    found = _table(containerd, "runtimes", path)
    tables = {name: _table(found, name, path) for name in found}
    default = _text(containerd, "default_runtime_name", path)
    for name, key in (("default", "default_runtime"), ("untrusted", "untrusted_workload_runtime")):
        table = _table(containerd, key, path) if old else {}
        if _text(table, "runtime_type", path):
            tables[name] = table
            default = name if name == "default" else default
    systemd_cgroup = _flag(runtime, "systemd_cgroup", path)
    return View(
        default,
        {name: _runtime(table, linux, systemd_cgroup, path) for name, table in tables.items()},
        tables,
        _flag(runtime, "enable_cdi", path),
        systemd_cgroup,
        _text(_table(images, "pinned_images", path), "sandbox", path),
        _text(registry, "config_path", path),
        tuple(_table(registry, "mirrors", path)),
    )


def _runtime(table: Table, linux: Table, systemd_cgroup: bool | None, path: str) -> Runtime:
    kind, options = _text(table, "runtime_type", path), _table(table, "options", path)
    binary = _text(options, "BinaryName", path) or _text(options, "Runtime", path)
    engine = _text(table, "runtime_engine", path)
    cgroup = _flag(options, "SystemdCgroup", path)
    if kind == _LINUX:
        # containerd 1's io.containerd.runtime.v1.linux reads these settings, which are outside the runtime's own table.
        binary = binary or engine or _text(linux, "runtime", path)
        cgroup = systemd_cgroup if cgroup is None and not options else cgroup
    return Runtime(kind, binary or engine, cgroup, engine)


def _last(files: Iterable[File], key: str) -> str | None:
    values = [_text(file.tables or {}, key, file.path) for file in files]
    return next((value for value in reversed(values) if value), None)


def _union(files: Iterable[File], key: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for file in files:
        values = (file.tables or {}).get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise _error(file.path, f"{key} is not a list of strings")
        found.update(dict.fromkeys(values))
    return tuple(found)


def _table(parent: Table, key: str, path: str) -> Table:
    value = parent.get(key, {})
    if not isinstance(value, Mapping):
        raise _wrong(value, key, "a table", path)
    return value


def _text(parent: Table, key: str, path: str) -> str | None:
    """Return a text, None if there is none or an empty one, which containerd itself writes."""
    value = parent.get(key)
    if value is not None and not isinstance(value, str):
        raise _wrong(value, key, "a string", path)
    return value or None


def _flag(parent: Table, key: str, path: str) -> bool | None:
    value = parent.get(key)
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, key, "true or false", path)
    return value


def _wrong(value: Any, key: str, wanted: str, path: str) -> DomainError:
    return _error(path, f"{key} is {_KINDS.get(type(value), 'a date')}, not {wanted}")


def _error(path: str, text: str) -> DomainError:
    name = f" ({path})" if path else ""
    return DomainError(f"Error while reading containerd's configuration{name}: {text}", path=path)
