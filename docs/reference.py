"""The pages of docs/reference/, made of what `ansible-doc` knows of this collection."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

COLLECTION = "gpulab.kubernetes"
Doc = Mapping[str, Any]

NOTE = "Written by `make docs` from {}; don't edit it by hand."
KINDS = {"filter": "Filters", "test": "Tests", "lookup": "Lookups", "callback": "Callbacks"}


def pages(root: Path, tools: Mapping[str, Callable[..., str]]) -> dict[Path, str]:
    """Return the pages by path. ``tools``: ``markdown``, ``sentences``, ``shown`` and ``table`` of generate.py."""
    known, writer = ask(root), Writer(tools)
    plugins = {kind: known.get(kind, {}) for kind in KINDS if known.get(kind)}
    directory = root / "docs" / "reference"
    return {
        directory / "README.md": writer.index(known, plugins, playbooks(root)),
        directory / "modules.md": writer.modules(known["module"]),
        directory / "plugins.md": writer.plugins(plugins),
        directory / "roles.md": writer.roles(known["role"], root),
    }


def ask(root: Path) -> dict[str, dict[str, Doc]]:
    """Return what ansible-doc knows of this collection: kind -> short name -> documentation. It is asked once."""
    command = [str(Path(sys.executable).with_name("ansible-doc")), "--metadata-dump", "--no-fail-on-errors", COLLECTION]
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = json.loads(done.stdout)["all"]
    ours = {
        kind: {name.removeprefix(f"{COLLECTION}."): doc for name, doc in entries.items() if name.startswith(COLLECTION)}
        for kind, entries in found.items()
    }
    wrong = [f"{name}: {doc['error']}" for entries in ours.values() for name, doc in entries.items() if "error" in doc]
    if wrong:
        raise SystemExit("ansible-doc can't read the documentation of " + "; ".join(wrong))
    return ours


def playbooks(root: Path) -> dict[str, list[str]]:
    """Return the names of the plays and imports of each playbook, in order."""
    paths = sorted((root / "playbooks").glob("*.yml"))
    return {path.stem: [str(play.get("name")) for play in yaml.safe_load(path.read_text())] for path in paths}


def main_entry(points: Mapping[str, Doc]) -> Doc:
    """Of a role's entry points the one that says what the role is; cluster has settings alone."""
    return points["main" if "main" in points else "settings"]


class Writer:
    def __init__(self, tools: Mapping[str, Callable[..., str]]) -> None:
        self._markdown, self._sentences = tools["markdown"], tools["sentences"]
        self._shown, self._table = tools["shown"], tools["table"]

    def index(self, known: Doc, plugins: Doc, books: Mapping[str, list[str]]) -> str:
        parts = ["# Reference\n", NOTE.format("the documentation of the playbooks, roles, modules and plugins"), ""]
        rows = [(f"`{COLLECTION}.{name}` (`playbooks/{name}.yml`)", "; ".join(plays)) for name, plays in books.items()]
        parts += ["## Playbooks\n", self._table(("playbook", "plays, in order"), rows)]
        for kind, page, title in (("role", "roles", "Roles"), ("module", "modules", "Modules")):
            rows = [(f"[{name}]({page}.md#{name})", self._short(doc)) for name, doc in known[kind].items()]
            parts += [f"## {title}\n", self._table((kind, "description"), rows)]
        for kind, entries in plugins.items():
            rows = [(f"[{name}](plugins.md#{name})", self._short(doc)) for name, doc in entries.items()]
            parts += [f"## {KINDS[kind]}\n", self._table((kind, "description"), rows)]
        return "\n".join(parts)

    def modules(self, entries: Mapping[str, Doc]) -> str:
        parts = ["# Modules\n", NOTE.format("their own documentation"), f"All names begin with `{COLLECTION}.`\n"]
        for name, entry in entries.items():
            parts += [f"## {name}\n", *self._plugin(entry)]
        return "\n".join(parts)

    def plugins(self, plugins: Mapping[str, Mapping[str, Doc]]) -> str:
        parts = ["# Filters, tests and other plugins\n", NOTE.format("their own documentation")]
        parts.append(f"All names begin with `{COLLECTION}.`\n")
        for kind, entries in plugins.items():
            for name, entry in entries.items():
                parts += [f"## {name}\n", f"A {kind}.\n", *self._plugin(entry)]
        return "\n".join(parts)

    def roles(self, entries: Mapping[str, Doc], root: Path) -> str:
        parts = ["# Roles\n", NOTE.format("their argument specifications"), ""]
        for name, entry in entries.items():
            main = main_entry(entry["entry_points"])
            parts += [f"## {name}\n", f"{self._short(entry)}.\n", *self._paragraphs(main.get("description") or [])]
            readme = root / "roles" / name / "README.md"
            more = [f"[its README](../../roles/{name}/README.md)"] if readme.is_file() else []
            more += [f"[its variables](../variables.md#{name})"] if main.get("options") else []
            if more:
                parts.append(f"See {' and '.join(more)}.\n")
        return "\n".join(parts)

    def _short(self, entry: Doc) -> str:
        doc = entry.get("doc") or main_entry(entry["entry_points"])
        return self._markdown(str(doc["short_description"]).rstrip("."))

    def _paragraphs(self, description: str | list[str]) -> Iterator[str]:
        for part in [description] if isinstance(description, str) else description:
            yield f"- {self._markdown(self._sentences(part))}"
        yield ""

    def _plugin(self, entry: Doc) -> Iterator[str]:
        doc = entry["doc"]
        yield f"{self._short(entry)}. Since {doc['version_added']}.\n"
        yield from self._paragraphs(doc.get("description") or [])
        if doc.get("requirements"):
            yield f"Needs {', '.join(doc['requirements'])}.\n"
        options = list(self._options(doc.get("options") or {}))
        if options:
            yield self._table(("option", "type", "default", "description"), options)
        results = list(self._results(entry.get("return") or {}))
        if results:
            yield self._table(("result", "type", "description"), results)
        attributes = [
            (f"`{name}`", str(one["support"]), self._text(one.get("details") or "", ""))
            for name, one in (doc.get("attributes") or {}).items()
        ]
        if attributes:
            yield self._table(("attribute", "support", ""), attributes)
        if entry.get("examples"):
            yield f"```yaml\n{entry['examples'].strip()}\n```\n"

    def _options(self, options: Mapping[str, Doc], above: str = "") -> Iterator[tuple[str, ...]]:
        for name, option in options.items():
            if name.startswith("__"):
                continue
            default = "**required**" if option.get("required") else "not set"
            if option.get("default") is not None:
                default = self._shown(option["default"])
            choices = option.get("choices") or []
            more = f" One of {', '.join(self._shown(choice) for choice in choices)}." if choices else ""
            text = self._text(option.get("description") or "", more)
            yield f"`{above}{name}`", _kind(option), default, text
            yield from self._options(
                option.get("suboptions") or option.get("options") or {}, _below(above, name, option)
            )

    def _results(self, results: Mapping[str, Doc], above: str = "") -> Iterator[tuple[str, ...]]:
        for name, result in results.items():
            yield f"`{above}{name}`", _kind(result), self._text(result.get("description") or "", "")
            yield from self._results(result.get("contains") or {}, _below(above, name, result))

    def _text(self, description: str | Iterable[str], more: str) -> str:
        return self._markdown(self._sentences(description)) + more


def _kind(option: Doc) -> str:
    kind = str(option.get("type", "str"))
    return f"{kind} of {option['elements']}" if option.get("elements") else kind


def _below(above: str, name: str, option: Doc) -> str:
    return f"{above}{name}{'[]' if option.get('type') == 'list' else ''}."
