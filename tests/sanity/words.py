"""Check task names, messages and prose against the vocabulary in words.yml."""

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
GENERATED = "Written by `make docs`"
# What prose quotes: fenced blocks, code, comments, addresses of links.
QUOTED = re.compile(r"^```.*?^```$|<!--.*?-->|(?P<tick>`+)(?:(?!(?P=tick)).)+(?P=tick)|(?<=\])\([^)\s]+\)", re.M | re.S)
# Its kind ("names", "messages" or "prose"), file and first line, and the text itself.
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


def texts_of_prose(root: Path) -> Iterator[Text]:
    """Return the documents that people write, and the entries of the changelog."""
    documents = [root / "README.md", root / "CONTRIBUTING.md", *root.glob("docs/*.md"), *root.glob("roles/*/README.md")]
    for path in [*documents, *root.glob("changelogs/fragments/*.yml")]:
        text = path.read_text() if path.exists() else ""
        if GENERATED not in text:
            yield "prose", path, 1, QUOTED.sub(lambda quoted: re.sub(r"\S", "`", quoted[0]), text)


def findings(root: Path) -> list[str]:
    """Return ``file:line: word -> instead`` for each word that the vocabulary replaces."""
    tasks = [*root.glob("roles/*/tasks/*.yml"), *root.glob("roles/*/handlers/*.yml"), *root.glob("playbooks/**/*.yml")]
    texts = [text for path in tasks for text in texts_of_yaml(path, yaml.compose(path.read_text()))]
    texts += [text for path in root.glob("plugins/**/*.py") for text in texts_of_python(path)]
    texts += texts_of_prose(root)
    found = set()
    for kind, path, line, text in texts:
        for rule in (rule for rule in RULES if kind in rule["where"]):
            for match in re.finditer(rule["pattern"], text, re.IGNORECASE):
                start = match.end() - len(match[0].lstrip())
                further = text[:start].count("\n") if path.suffix != ".py" else 0
                found.add((str(path.relative_to(root)), line + further, " ".join(match[0].split()), rule["instead"]))
    return [f"{path}:{line}: {word!r} -> {instead}" for path, line, word, instead in sorted(found)]


if __name__ == "__main__":
    sys.exit("\n".join(findings(ROOT)) or 0)
