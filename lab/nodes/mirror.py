"""Debian's mirror, as in the host's own apt configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.depot.debian import MIRROR_VARIABLE
from lab.nodes.errors import LabError

_APT = Path("/etc/apt")
_RELEASES = r"(bookworm|trixie|forky|sid|(old)*stable|testing)"
_ARCHIVE = re.compile(rf"{_RELEASES}(-updates|-backports)?")
_SECURITY = re.compile(rf"{_RELEASES}(-security|/updates)")
_ONE_LINE = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s*(?P<rest>[^#]*)")


@dataclass(frozen=True)
class Source:
    """A repository in apt's configuration."""

    uri: str
    suite: str
    components: tuple[str, ...]


@dataclass(frozen=True)
class Mirror:
    """The addresses of Debian's archives; `security` is empty if a mirror doesn't have that archive."""

    archive: str
    security: str = ""
    proxy: str = ""

    def sources(self, codename: str) -> str:
        """Return the deb822 sources of a Debian machine."""
        keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
        stanzas = [(self.archive, f"{codename} {codename}-updates"), (self.security, f"{codename}-security")]
        return "\n".join(
            f"Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: {keyring}\n"
            for uri, suites in stanzas
            if uri
        )


def find(chosen: str = "", apt: Path = _APT) -> Mirror:
    """Return the mirror that was chosen, else the host's own. Raises LabError if there is none."""
    chosen = chosen or os.environ.get(MIRROR_VARIABLE, "")
    if chosen:
        archive = chosen.rstrip("/")
        if not re.match(r"https?://[^/\s]+", archive):
            raise LabError(f"Error while reading --debian-mirror {chosen}: it must be an http or https address.")
        return Mirror(archive, _security_beside(archive), proxy())
    known = [source for source in sources(apt) if source.uri.startswith(("http://", "https://"))]
    main = [source for source in known if "main" in source.components]
    archive = next((s.uri for s in main if _ARCHIVE.fullmatch(s.suite) and s.uri.endswith("/debian")), "")
    archive = archive or next((s.uri for s in main if _ARCHIVE.fullmatch(s.suite)), "")
    if not archive:
        raise LabError(
            f"Error while looking for Debian's mirror: no apt source below {apt} has Debian's main archive. "
            f"Name one: --debian-mirror URL (the address that has dists/ and pool/)."
        )
    security = next((s.uri for s in main if _SECURITY.fullmatch(s.suite)), "")
    return Mirror(archive, security or _security_beside(archive), proxy())


def sources(apt: Path = _APT) -> Iterator[Source]:
    """Yield every binary repository in apt's configuration, in deb822 and one-line syntax."""
    for path in sorted(apt.glob("sources.list.d/*.sources")):
        yield from _deb822(path.read_text(errors="replace"))
    for path in [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]:
        if path.is_file():
            yield from _one_line(path.read_text(errors="replace"))


def _deb822(text: str) -> Iterator[Source]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for stanza in re.split(r"\n\s*\n", "\n".join(lines)):
        fields = {
            found["name"].lower(): found["value"].split()
            for found in re.finditer(r"^(?P<name>[\w-]+):(?P<value>.*(?:\n[ \t].*)*)", stanza, re.MULTILINE)
        }
        enabled = (fields.get("enabled") or ["yes"])[0].lower() not in ("no", "false", "without", "off", "disable", "0")
        if enabled and "deb" in fields.get("types", []):
            for uri in fields.get("uris", []):
                for suite in fields.get("suites", []):
                    yield Source(uri.rstrip("/"), suite, tuple(fields.get("components", [])))


def _one_line(text: str) -> Iterator[Source]:
    for line in text.splitlines():
        if found := _ONE_LINE.match(line.strip()):
            yield Source(found["uri"].rstrip("/"), found["suite"], tuple(found["rest"].split()))


def _security_beside(archive: str) -> str:
    """Return the security archive next to a main archive, or an empty text if the mirror doesn't have it."""
    candidate = archive.removesuffix("/debian") + "/debian-security"
    if candidate == f"{archive}/debian-security":
        return ""
    try:
        request = urllib.request.Request(f"{candidate}/dists/trixie-security/InRelease", method="HEAD")
        with urllib.request.urlopen(request, timeout=10):
            return candidate
    except (urllib.error.URLError, OSError, ValueError):
        return ""


def proxy() -> str:
    """Return the HTTP proxy of the host's apt, if a node can also reach it."""
    if not shutil.which("apt-config"):
        return ""
    argv = ["apt-config", "--format", "%v%n", "dump", "Acquire::http::Proxy"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    address = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return "" if re.search(r"//(localhost|127\.)", address) or address.upper() == "DIRECT" else address
