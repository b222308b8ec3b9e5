# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find conflicting settings in containerd's configuration. Rules: configuration in, conflicts out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from .config import CRI_PLUGINS, LEGACY, RUNTIME, Configuration, File, Table


@dataclass(frozen=True)
class Conflict:
    """A conflict in ``files``; a file has no name if only one text was given. ``level`` is problem or note."""

    kind: str
    text: str
    files: tuple[str, ...] = ()
    level: str = "problem"

    def fields(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files)}


Rule = Callable[[Configuration], Iterator[Conflict]]

# From 2.3 on, every file is migrated to one version before the merge, but a check in 2.3.0 (81a1a550f) to 2.3.4
# (reverted in 1125b053f) refuses a higher version number.
_ANY_ORDER = (2, 3, 5)
# The maximum number of settings to list by name.
_NAMED = 3


def find(configuration: Configuration) -> list[Conflict]:
    return [conflict for rule in RULES for conflict in rule(configuration)]


def versions(configuration: Configuration) -> Iterator[Conflict]:
    files, release = configuration.effective, configuration.release
    highest = _highest_version(configuration)
    for file in files:
        if highest and file.version > highest:
            yield Conflict(
                "version_unsupported",
                f"{_name(file)} has version {file.version}, but this containerd supports versions up to {highest}",
                (file.path,),
            )
        elif file.version > configuration.version and release and release < _ANY_ORDER:
            effect = (
                "containerd 2.3.0 to 2.3.4 does not start with it"
                if release >= (2, 3)
                else "containerd before 2.3 refuses it, or ignores the tables of the lower version"
            )
            yield Conflict(
                "version_above_base",
                f"{_name(file)} has version {file.version}, which is higher than version {configuration.version} of "
                f"{_name(files[0])}: {effect}",
                (file.path, files[0].path),
            )


def imports(configuration: Configuration) -> Iterator[Conflict]:
    left = tuple(file.path for file in configuration.files if not file.imported)
    if left:
        base = configuration.effective[0].path if configuration.effective else "containerd's configuration"
        yield Conflict(
            "drop_ins_not_imported",
            f"{base} does not import {', '.join(left)}, so they have no effect",
            left,
        )
    for file in configuration.files:
        if file.imported and file.tables is None:
            yield Conflict("import_missing", f"{file.path} is imported but does not exist", (file.path,))


def tables(configuration: Configuration) -> Iterator[Conflict]:
    """Yield tables whose names containerd ignores in a file of this version."""
    release = configuration.release
    for file in configuration.effective:
        plugins = (file.tables or {}).get("plugins", {})
        for name in _unread(file.version, configuration):
            if isinstance(plugins.get(name), Mapping) and "containerd" in plugins[name]:
                known = f" of containerd {release[0]}.{release[1]}" if release else ""
                yield Conflict(
                    "table_ignored",
                    f"{_name(file)} has version {file.version}, in which the CRI plugin{known} does not read the "
                    f"table {name}",
                    (file.path,),
                )


def _unread(version: int, configuration: Configuration) -> tuple[str, ...]:
    release = configuration.release or (2, 3)
    if release < (2, 0):
        return (RUNTIME,) if version < 2 else ("cri", RUNTIME)
    # containerd 2.0 to 2.2 migrated once, after the merge, so the newer table won.
    once = release < (2, 3)
    if version == 4 or (once and (version == 3 or configuration.version >= 3)):
        return ("cri", LEGACY)
    return () if version < 2 else ("cri",)


def replaced_tables(configuration: Configuration) -> Iterator[Conflict]:
    """Yield plugin tables in two files. containerd before 2.0 doesn't merge them, so the earlier one has no effect."""
    if not configuration.release or configuration.release >= (2, 0):
        return
    earlier: dict[str, File] = {}
    for file in configuration.effective:
        tables = {name: table for name, table in file.plugins.items() if isinstance(table, Mapping)}
        for name, table in tables.items():
            before = earlier.get(name)
            kept = dict(_leaves(table))
            lost = [key for key, value in _leaves(before.plugins[name]) if kept.get(key) != value] if before else []
            if before and lost:
                more = f" and {len(lost) - _NAMED} more" if len(lost) > _NAMED else ""
                yield Conflict(
                    "table_replaced",
                    f"{_name(file)} replaces the whole table {name} of {_name(before)}, because containerd before 2.0 "
                    f"does not merge the tables of plugins: {', '.join(lost[:_NAMED])}{more} no longer take effect",
                    (file.path, before.path),
                )
        earlier.update(dict.fromkeys(tables, file))


def cri(configuration: Configuration) -> Iterator[Conflict]:
    off = CRI_PLUGINS.intersection(configuration.disabled_plugins)
    if off:
        yield Conflict(
            "cri_disabled",
            "The CRI plugin is disabled (disabled_plugins), but the kubelet can't work without it",
            _saying(
                configuration, lambda file: bool(off.intersection((file.tables or {}).get("disabled_plugins", [])))
            ),
        )


def default_runtime(configuration: Configuration) -> Iterator[Conflict]:
    # runc is always defined.
    names, default = configuration.view.runtimes, configuration.view.default_runtime or "runc"
    if default not in {*names, "runc"}:
        yield Conflict(
            "default_runtime_missing",
            f"The default runtime {default} is not among the runtimes {', '.join(sorted(names)) or '(none)'}",
            _saying(configuration, lambda file: file.view.default_runtime == default),
        )


def cgroups(configuration: Configuration) -> Iterator[Conflict]:
    """Yield runc runtimes with different cgroup drivers; the kubelet uses only one (docs/cri/config.md)."""
    runtimes = {name: bool(one.systemd_cgroup) for name, one in configuration.view.runtimes.items() if one.is_runc}
    without = sorted(name for name, systemd in runtimes.items() if not systemd)
    if without and len(without) < len(runtimes):
        yield Conflict(
            "systemd_cgroup",
            f"All runtimes must use the same cgroup driver; SystemdCgroup is true, but not for {', '.join(without)}",
            _saying(configuration, lambda file: bool(file.view.runtimes.keys() & set(without))),
        )


def same_runtime(configuration: Configuration) -> Iterator[Conflict]:
    """Yield runtimes that two files define; the later file wins, key by key."""
    defining: dict[str, list[tuple[File, dict[str, Any]]]] = {}
    for file in configuration.effective:
        for name, table in file.view.tables.items():
            defining.setdefault(name, []).append((file, dict(_leaves(table))))
    for name, found in defining.items():
        for (first, before), (second, after) in pairwise(found):
            differing = [key for key in before.keys() & after.keys() if before[key] != after[key]]
            said = "; ".join(f"{key} is {before[key]!r}, then {after[key]!r}" for key in sorted(differing))
            yield Conflict(
                "runtime_twice",
                f"The runtime {name} is defined in {_name(first)} and in {_name(second)}; the latter takes effect"
                + (f": {said}" if said else ", and they agree"),
                (first.path, second.path),
                "problem" if said else "note",
            )


def cdi(configuration: Configuration) -> Iterator[Conflict]:
    if configuration.view.enable_cdi is False:
        yield Conflict(
            "cdi_disabled",
            "CDI is disabled (enable_cdi = false), but containers get their GPUs through it",
            _saying(configuration, lambda file: file.view.enable_cdi is False),
        )


def registries(configuration: Configuration) -> Iterator[Conflict]:
    view = configuration.view
    if view.mirrors and view.registry_config_path:
        yield Conflict(
            "registry_mirrors",
            f"registry.mirrors ({', '.join(sorted(view.mirrors))}) and registry.config_path "
            f"({view.registry_config_path}) are both set, but containerd's CRI plugin does not start with both",
            _saying(configuration, lambda file: bool(file.view.mirrors)),
        )


def first_runtime(configuration: Configuration) -> Iterator[Conflict]:
    """Yield settings of io.containerd.runtime.v1.linux that containerd 1 refuses with other runtimes, and 2 ignores."""
    view = configuration.view
    names = sorted(name for name, one in view.runtimes.items() if one.engine and not one.is_v1)
    if names:
        yield Conflict(
            "runtime_engine",
            f"runtime_engine of {', '.join(names)} only works for io.containerd.runtime.v1.linux; the program must be "
            "set in options.BinaryName",
            _saying(configuration, lambda file: any(one.engine for one in file.view.runtimes.values())),
        )
    default = view.runtimes.get(view.default_runtime or "runc")
    if view.systemd_cgroup and not (default and default.is_v1):
        yield Conflict(
            "systemd_cgroup_of_v1",
            "systemd_cgroup only works for io.containerd.runtime.v1.linux; each runtime has options.SystemdCgroup",
            _saying(configuration, lambda file: bool(file.view.systemd_cgroup)),
        )


def _highest_version(configuration: Configuration) -> int | None:
    release = configuration.release
    if release is None or release[:2] > (2, 4):
        return None
    return 2 if release < (2, 0) else 3 if release < (2, 3) else 4


def _saying(configuration: Configuration, says: Callable[[File], bool]) -> tuple[str, ...]:
    return tuple(file.path for file in configuration.effective if says(file))


def _name(file: File) -> str:
    return file.path or "The configuration"


def _leaves(table: Table, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif value not in ("", [], None):
            yield f"{prefix}{key}", value


RULES: tuple[Rule, ...] = (
    versions,
    imports,
    tables,
    replaced_tables,
    cri,
    default_runtime,
    cgroups,
    same_runtime,
    cdi,
    registries,
    first_runtime,
)
