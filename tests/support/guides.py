"""The commands in docs/*.md that tests run; docs/testing.md describes their markers."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.hosts import ROOT, Host
from support.play import Run, environment

DOCS = ROOT / "docs"
# The language of the block below a marker. Markers of files also name a file, in any language.
KINDS = {"": "sh", "fails": "sh", "last": "sh", "host": "sh", "prints": "text", "file": "", "append": ""}
# Pages that need another lab than the default one, and the group of long tests that runs their commands.
OTHER_LABS = {
    "storage.md": "storage",
    "one-machine.md": "minikube",
    "wandb-launch.md": "launch",
    "launch-on-minikube.md": "tutorial",
    "api-endpoint.md": "endpoint",
    "nodes.md": "nodes",
    "backup.md": "restore",
    "control-planes.md": "control-planes",
    "restore.md": "restore",
    "uninstall.md": "reset",
}
_MARKER = re.compile(r"( *)<!-- lab(?:: (\w+)(?: ([\w./-]+))?)? -->\Z")
_LINK = re.compile(r"\]\(([\w-]+\.md)\)")


@dataclass
class Block:
    """One script with the lines that it must print, or the text that a reader writes into a file.

    ``fails``: exits with a status other than 0; ``last``: runs after all others; ``host``: runs on the host; ``file``
    and ``append``: the text of a file, or its end.
    """

    page: str
    line: int
    script: str
    kind: str = ""
    file: str = ""
    prints: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"

    def missing(self, output: str) -> list[str]:
        """Return the expected lines that were not printed.

        Lines may be wrapped in the output; ... matches up to 200 characters.
        """
        said = " ".join(output.split())
        return [line for line in self.prints if not re.search(_pattern(line), said)]


def pages(docs: Path = DOCS) -> list[str]:
    """Return the guides in the order in which docs/README.md first links them."""
    return list(dict.fromkeys(_LINK.findall((docs / "README.md").read_text())))


def blocks(page: str, docs: Path = DOCS) -> list[Block]:
    """Return the marked blocks of a page. Raises ValueError for a marker without a block."""
    found: list[Block] = []
    for line, kind, file, text in _marked(page, (docs / page).read_text().splitlines()):
        if kind == "prints":
            if not found:
                raise ValueError(f"{page}:{line}: there is no marked block above that could print this")
            found[-1].prints += [" ".join(each.split()) for each in text if each.strip()]
        else:
            found.append(Block(page, line, "\n".join(text), kind, file))
    return found


def _marked(page: str, lines: list[str]) -> Iterator[tuple[int, str, str, list[str]]]:
    """Yield (line of the marker, kind, file name, text of the fenced block below it)."""
    for number, line in enumerate(lines):
        if not line.lstrip().startswith("<!-- lab"):
            continue
        marker = _MARKER.match(line)
        indent, kind, file = marker.groups("") if marker else ("", "?", "")
        if kind not in KINDS or bool(file) == bool(KINDS[kind]):
            raise ValueError(
                f"{page}:{number + 1}: {line} is no marker; the kinds are {', '.join(filter(None, KINDS))}, and a file"
                " has its name behind it"
            )
        fence, end = rf"{indent}```{KINDS[kind] or '[a-z]+'}", f"{indent}```"
        below = lines[number + 1 :]
        if not below or not re.fullmatch(fence, below[0]) or end not in below[1:]:
            raise ValueError(f"{page}:{number + 1}: below {line} there is no block that begins with {fence}")
        yield number + 1, kind, file, [each.removeprefix(indent) for each in below[1 : below.index(end, 1)]]


def _pattern(line: str) -> str:
    return ".{0,200}".join(re.escape(part.strip()) for part in line.split("..."))


@dataclass(frozen=True)
class Checkout:
    """A copy of the checkout, so that a reader's own inventories and reports are not changed.

    ``given`` extends the commands' environment; ``host`` is the machine that the page is about; ``replacing`` has what
    is different here from the examples in the commands.
    """

    path: Path
    given: Mapping[str, str] = field(default_factory=dict)
    host: Host | None = None
    replacing: Mapping[str, str] = field(default_factory=dict)

    def fill(self) -> None:
        """Copy the files that git knows or would add; Python environments are those of the original checkout."""
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            source = ROOT / name
            if source.is_file() or (source.is_symlink() and name != ".venv"):
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, self.path / name, follow_symlinks=False)
        (self.path / ".cache").mkdir()
        (self.path / ".venv").symlink_to(ROOT / ".venv")

    def run(self, block: Block) -> Run:
        """Run a block like a person who has followed the pages up to here; return the runs of its plays."""
        if block.file:
            file = self.path / block.file
            file.parent.mkdir(exist_ok=True)
            with file.open("w" if block.kind == "file" else "a") as target:
                target.write(f"{block.script}\n")
            return Run(0, "")
        with tempfile.TemporaryDirectory(prefix="block-") as scratch:
            events = Path(scratch) / "events.jsonl"
            done = subprocess.run(
                self._command(block),
                cwd=self.path,
                env=self._environment(events),
                # Without a terminal, -K reads an empty password.
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=900,
            )
            lines = events.read_text().splitlines() if events.is_file() else []
        written = ROOT / ".cache" / "guides.log"
        written.parent.mkdir(exist_ok=True)
        with written.open("a") as log:
            log.write(f"$ # {block.name}\n{block.script}\n{done.stdout}\nexit status {done.returncode}\n\n")
        told = f"{block.name} ended with {done.returncode}:\n{block.script}\n{done.stdout[-6000:]}"
        assert (done.returncode != 0) == (block.kind == "fails"), told
        assert block.missing(done.stdout) == [], told
        return Run(done.returncode, done.stdout, [json.loads(line) for line in lines])

    def _command(self, block: Block) -> list[str]:
        script = block.script
        for example, here in self.replacing.items():
            script = script.replace(example, here)
        argv = ["bash", "-euo", "pipefail", "-c", script]
        if block.kind != "host":
            return argv
        assert self.host, f"{block.name} is about a host"
        return [*self.host.ssh(), shlex.join(argv)]

    def _environment(self, events: Path) -> dict[str, str]:
        named = {**environment(events), **self.given, "NO_COLOR": "1", "COLUMNS": "200"}
        # The pages show the output of the collection's own callback.
        del named["ANSIBLE_STDOUT_CALLBACK"]
        path = [str(self.path / ".venv" / "bin"), *filter(None, [self.given.get("PATH")]), os.environ["PATH"]]
        return {**os.environ, **named, "PATH": ":".join(path)}


@dataclass
class Guide:
    """A page whose commands tests run one after another, in the page's order."""

    page: str
    checkout: Checkout
    done: int = 0

    def through(self, words: str) -> Run:
        """Follow the page up to the next block with these words, and return that block's runs."""
        for block in self.left():
            self.done += 1
            run = self.checkout.run(block)
            if words in block.script:
                return run
        raise AssertionError(f"{self.page} has no block with {words} here")

    def left(self) -> list[Block]:
        return blocks(self.page)[self.done :]
