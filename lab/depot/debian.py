"""Root filesystems of Debian, from the mirror that the host itself uses."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.depot import tools
from lab.depot.cache import DepotError

MIRROR_VARIABLE = "GPULAB_DEBIAN_MIRROR"
_SOURCES = Path("/etc/apt")
_CODENAMES = r"(bookworm|trixie|forky|sid|stable|testing|oldstable)"
_ONE_LINE = re.compile(rf"^deb\s+(?:\[[^\]]*\]\s+)?(?P<uri>\S+)\s+{_CODENAMES}\s")


def mirror(sources: Path = _SOURCES) -> str:
    """Return the address of a Debian mirror: the environment's choice, else the host's own apt source.

    Raises DepotError when the host has none.
    """
    chosen = os.environ.get(MIRROR_VARIABLE)
    if chosen:
        return chosen.rstrip("/")
    for uri in [*_deb822(sources), *_one_line(sources)]:
        if uri.rstrip("/").endswith("/debian"):
            return uri.rstrip("/")
    raise DepotError(
        f"Error while looking for a Debian mirror: no apt source below {sources} has Debian's main archive. "
        f"Give one with --debian-mirror URL or {MIRROR_VARIABLE}=URL."
    )


def _deb822(sources: Path) -> Iterable[str]:
    for path in sorted(sources.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", stanza, re.MULTILINE))
            enabled = fields.get("Enabled", "yes").lower() not in ("no", "false", "0")
            if enabled and "deb" in fields.get("Types", "").split() and re.search(_CODENAMES, fields.get("Suites", "")):
                yield from fields.get("URIs", "").split()


def _one_line(sources: Path) -> Iterable[str]:
    for path in [sources / "sources.list", *sorted(sources.glob("sources.list.d/*.list"))]:
        if path.is_file():
            for line in path.read_text().splitlines():
                if found := _ONE_LINE.match(line.strip()):
                    yield found["uri"]


def root_filesystem(target: Path, suite: str, packages: Sequence[str], *, address: str | None = None) -> None:
    """Unpack a minimal Debian with these packages into an empty directory, without downloaded files and documentation.

    Needs root. Raises DepotError.
    """
    doing = f"making a root filesystem of Debian {suite}"
    if os.geteuid() != 0:
        raise DepotError(f"Error while {doing}: debootstrap needs root. Run the same command with sudo.")
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", suite, str(target)]
    # The host's PATH may lead to tools that the new root does not have.
    clean = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    tools.run([*argv, address or mirror()], doing=doing, log="debootstrap", env=clean, nice=5)
    for name in ("var/cache/apt", "var/lib/apt/lists", "var/cache/debconf", "var/log", "usr/share/doc"):
        _empty(target / name)
    for name in ("usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian"):
        _empty(target / name)


def _empty(directory: Path) -> None:
    for child in directory.iterdir() if directory.is_dir() else ():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
