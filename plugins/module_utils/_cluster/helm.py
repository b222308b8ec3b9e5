# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read helm's version, and compare values with a chart."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible.module_utils.basic import missing_required_lib

from .._command import CommandError, CommandNotFoundError, CommandTimeoutError, Runner
from .._errors import DomainError
from .._problem import Problem

try:
    import yaml

    _MISSING = ""
except ImportError as error:
    _MISSING = str(error)

# Required for charts in OCI registries and for the GPU Operator chart's `kubeVersion` and `lookup`.
_MINIMUM = (3, 8)
_VERSION = re.compile(r"^v?(\d+)\.(\d+)\.(\d+)", re.MULTILINE)


def parse_version(text: str) -> str:
    """Return ``3.22.0`` from ``v3.22.0+g1a2b3c4`` (``helm version --short``). Raise DomainError for other text."""
    match = _VERSION.search(text)
    if match is None:
        raise DomainError(f"Error while asking helm for its version: it printed {text.strip()[:200]!r}")
    return ".".join(match.groups())


def check_version(path: str, version: str, setting: str) -> None:
    """Raise DomainError if helm is too old. ``setting`` is the variable with its path."""
    if tuple(map(int, version.split(".")[:2])) < _MINIMUM:
        raise DomainError(
            f"Error while looking for helm: {path} has version {version}, but {'.'.join(map(str, _MINIMUM))} or newer "
            f"is needed. Install a newer version, and set {setting} to its path."
        )


Values = Mapping[str, Any]
Path = tuple[str, ...]
_PROBE = "gpulab-probe"
_WHY = "Helm accepts any value and does not report those that the chart ignores"


@dataclass(frozen=True)
class Chart:
    """A chart on this host, rendered with helm for a namespace and a Kubernetes version.

    If ``kubernetes`` is empty, helm assumes a version.
    """

    runner: Runner
    helm: str
    path: str
    namespace: str = "default"
    kubernetes: str = ""

    def fetched(self, repository: str, version: str, directory: str) -> Chart:
        """Return the chart fetched from a repository into a directory. Raise DomainError."""
        argv = [self.helm, "pull", self.path, "--repo", repository, "--destination", directory, "--untar"]
        argv += ["--version", version] if version else []
        self.runner.check(argv, f"fetching the chart {self.path} {version} from {repository}")
        return replace(self, path=f"{directory}/{self.path}")

    def defaults(self) -> dict[str, Any]:
        """Return the content of values.yaml. Raise DomainError."""
        doing = f"reading the values of {self.path}"
        found = _documents(self.runner.check([self.helm, "show", "values", self.path], doing).stdout, doing)
        return found[0] if found else {}

    def rendered(self, values: Values, *options: str) -> str:
        """Return the YAML rendered with these values. Raise DomainError."""
        argv = [self.helm, "template", "release", self.path, "--namespace", self.namespace, "--values", "-", *options]
        argv += ["--kube-version", self.kubernetes] if self.kubernetes else []
        return self.runner.check(argv, f"rendering {self.path}", data=json.dumps(values)).stdout

    def objects(self, values: Values) -> list[dict[str, Any]]:
        """Return the objects rendered with these values, including resource definitions. Raise DomainError."""
        return _documents(self.rendered(values, "--include-crds"), f"rendering {self.path}")


def _documents(text: str, doing: str) -> list[dict[str, Any]]:
    """Return the mappings in a YAML text. Raise DomainError."""
    if _MISSING:
        raise DomainError(missing_required_lib("PyYAML"), exception=_MISSING)
    try:
        found = [document for document in yaml.safe_load_all(text) if isinstance(document, dict)]
    except yaml.YAMLError as error:
        raise DomainError(f"Error while {doing}: {error}") from error
    # Convert all keys to strings, as in values from JSON.
    texts: list[dict[str, Any]] = json.loads(json.dumps(found, default=str))
    return texts


def value_problems(chart: Chart, values: Values, removed: Mapping[str, str], variable: str) -> Iterator[Problem]:
    """Yield values that the chart does not use or that have a wrong type. Raise DomainError.

    ``removed`` maps values that were removed from the chart to advice.
    """
    defaults = chart.defaults()
    compared = dict(_against(values, defaults, ()))
    wrong = {".".join(path): problem for path, problem in compared.items() if problem}
    for name, problem in wrong.items():
        why = "The chart's values.yaml has another type here"
        yield Problem("chart_value_wrong", f"{name} {problem}", variable, why, "Correct it")
    if wrong or not compared:
        return
    before = chart.rendered(values)
    if chart.rendered(values) != before:
        raise DomainError(
            f"Error while checking the values of {chart.path}: it renders differently each time, so values that it "
            "does not use can't be found. check_values=false skips this check."
        )
    for path in compared:
        if not any(_differs(chart, before, _with(values, path, probe)) for probe in _probes(_at(values, path))):
            name = ".".join(path)
            gone = next((old for old in removed if name == old or name.startswith(f"{old}.")), "")
            like = difflib.get_close_matches(path[-1], _siblings(defaults, path), n=1)
            hint = f" ({'.'.join((*path[:-1], *like))} looks like it)" if like else ""
            yield Problem(
                "chart_value_removed" if gone else "chart_value_unread",
                f"The chart does not read {name}{' any more' if gone else ''}",
                variable,
                _WHY,
                removed[gone] if gone else f"Correct it{hint}, or remove it",
            )


def _against(values: Values, defaults: Values, above: Path) -> Iterator[tuple[Path, str]]:
    """Yield paths that values.yaml lacks with an empty text, and paths of another type with the error."""
    for name, value in values.items():
        path, known = (*above, str(name)), defaults.get(name)
        if isinstance(known, Mapping) and known:
            if isinstance(value, Mapping):
                yield from _against(value, known, path)
            elif value is not None:
                yield path, f"must be a mapping, not {_kind(value)}"
        elif isinstance(value, Mapping) and value and name not in defaults:
            yield from _against(value, {}, path)
        elif isinstance(value, Mapping) and known not in (None, {}):
            yield path, "must be a value or a list, not a mapping"
        elif isinstance(value, Mapping) or name not in defaults:
            yield path, ""


def _kind(value: Any) -> str:
    """Return the YAML type of a value; the value itself may be a secret."""
    kinds = {bool: "a boolean", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "a text")


def _probes(value: Any) -> Iterator[Any]:
    """Yield other values for a path: if one changes the output or can't be rendered, the chart uses the path."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
    elif isinstance(value, Mapping):
        yield {_PROBE: _PROBE}
    elif isinstance(value, list):
        yield [] if value else [_PROBE]
    else:
        yield f"{value or ''}{_PROBE}"
    # Helm removes a default that is set to null.
    yield None


def _differs(chart: Chart, before: str, values: Values) -> bool:
    try:
        return chart.rendered(values) != before
    except (CommandNotFoundError, CommandTimeoutError):
        raise
    except CommandError:
        return True


def _with(values: Values, path: Path, value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**values, name: _with(values[name], tuple(rest), value) if rest else value}


def _at(values: Any, path: Path) -> Any:
    for name in path:
        values = values[name]
    return values


def _siblings(defaults: Values, path: Path) -> list[str]:
    """Return the other names at the same level of values.yaml."""
    found: Any = defaults
    for name in path[:-1]:
        found = found.get(name) if isinstance(found, Mapping) else None
    return [name for name in found if name != path[-1]] if isinstance(found, Mapping) else []
