"""Modules of the lab and of the collection import each other in one direction."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def modules(root: Path, package: str) -> dict[str, Path]:
    """Return the files of a package by module name."""
    found = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path) -> Iterator[str]:
    """Return the names that a module imports, including late imports and ``import_module``.

    A package may load its own modules when one of its functions is called.
    """
    is_package, tree = path.name == "__init__.py", ast.parse(path.read_bytes())
    package = name if is_package else name.rpartition(".")[0]
    for node in tree.body if is_package else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{source}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from (str(argument.value) for argument in node.args if isinstance(argument, ast.Constant))


def circle(root: Path, package: str) -> list[str]:
    """Return the modules of an import cycle, the first one again at the end, or an empty list."""
    files = modules(root, package)
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, path in files.items():
        for wanted in imported(name, path):
            parts = wanted.split(".")
            # A module, or a name in it. Its packages are loaded first, except those that contain the importer.
            nearest = next((n for n in (wanted, wanted.rpartition(".")[0]) if n in files), "")
            loaded = {".".join(parts[:length]) for length in range(1, len(parts))} & files.keys()
            graph[name] |= {n for n in loaded if not f"{name}.".startswith(f"{n}.")} | ({nearest} - {"", name})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


@pytest.mark.parametrize("package", ["lab", "plugins", "upstream"])
def test_there_is_no_import_cycle(package: str) -> None:
    assert len(modules(ROOT, package)) > 5
    assert circle(ROOT, package) == []


@pytest.mark.parametrize(
    "text",
    [
        "from p import b",
        "import p.b",
        "from . import b",
        "from .b import x",
        "def f():\n    from .b import x",
        "import importlib\nx = importlib.import_module('p.b')",
        # The package of this module imports b.
        "from .inner import c",
        "from .inner.c import x",
    ],
)
def test_an_import_cycle_is_found(tmp_path: Path, text: str) -> None:
    (tmp_path / "p" / "inner").mkdir(parents=True)
    (tmp_path / "p" / "__init__.py").touch()
    (tmp_path / "p" / "inner" / "__init__.py").write_text("from p.b import x\n")
    (tmp_path / "p" / "inner" / "c.py").touch()
    (tmp_path / "p" / "b.py").write_text("import json\nfrom p import a\n")
    (tmp_path / "p" / "a.py").touch()
    assert circle(tmp_path, "p") == []
    (tmp_path / "p" / "a.py").write_text(f"{text}\n")
    assert {"p.a", "p.b"} <= set(circle(tmp_path, "p"))


def test_the_collection_imports_only_modules_that_it_has() -> None:
    names = modules(ROOT, "plugins")
    places = {name: set(imported(name, path)) for name, path in names.items()}
    missing = {
        (name, target)
        for name, targets in places.items()
        for target in targets
        if target.startswith("plugins.") and not {target, target.rpartition(".")[0]} & {*names}
    }
    assert missing == set()
