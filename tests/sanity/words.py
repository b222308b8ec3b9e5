"""Check task names and messages against the vocabulary in words.yml."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
RULES: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text())
# Its kind ("names" or "messages"), file and first line, and the text itself.
Text = tuple[str, Path, int, str]


def texts_of_yaml(path: Path, node: yaml.Node | None, entry: bool = False) -> Iterator[Text]:
    """Return the names of plays and tasks, and their messages; ``entry`` if the node is an item of a list."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from texts_of_yaml(path, item, True)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            kind = "names" if entry and key.value == "name" else "messages" if key.value in ("msg", "fail_msg") else ""
            if kind and isinstance(value, yaml.ScalarNode):
                raw = path.read_text()[value.start_mark.index : value.end_mark.index]
                yield kind, path, value.start_mark.line + 1, raw
            else:
                yield from texts_of_yaml(path, value)


def texts_of_python(path: Path) -> Iterator[Text]:
    """Return the strings that begin with "Error while", and all parts of such f-strings."""
    for node in ast.walk(ast.parse(path.read_text())):
        nodes = node.values if isinstance(node, ast.JoinedStr) else [node]
        parts = [each for each in nodes if isinstance(each, ast.Constant)]
        if parts and str(parts[0].value).startswith("Error while"):
            yield from (("messages", path, part.lineno, str(part.value)) for part in parts)


def findings(root: Path) -> list[str]:
    """Return ``file:line: word -> instead`` for each word that the vocabulary replaces."""
    tasks = [*root.glob("roles/*/tasks/*.yml"), *root.glob("roles/*/handlers/*.yml"), *root.glob("playbooks/**/*.yml")]
    texts = [text for path in tasks for text in texts_of_yaml(path, yaml.compose(path.read_text()))]
    texts += [text for path in root.glob("plugins/**/*.py") for text in texts_of_python(path)]
    found = set()
    for kind, path, line, text in texts:
        for rule in (rule for rule in RULES if kind in rule["where"]):
            for match in re.finditer(rule["pattern"], text, re.IGNORECASE):
                further = text[: match.start()].count("\n") if path.suffix == ".yml" else 0
                found.add((str(path.relative_to(root)), line + further, match[0].strip(), rule["instead"]))
    return [f"{path}:{line}: {word!r} -> {instead}" for path, line, word, instead in sorted(found)]


if __name__ == "__main__":
    sys.exit("\n".join(findings(ROOT)) or 0)
