"""Contents of the lab's packages. Name, version, relations and architecture come from upstream.lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from lab.depot import deb
from lab.depot.golang import Recipe


@dataclass
class Filling:
    """Files of a package and dpkg's metadata for them."""

    files: dict[str, deb.Content] = field(default_factory=dict)
    scripts: dict[str, str] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)
    conffiles: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Content:
    """Content of a package: `key` covers everything that `fill` depends on, `fill` is called when it is packed.

    `virtual` are names of the lab that the package provides, conflicts with and replaces, in addition to the lock, so
    that only one of several packages with the same files is installed. `programs` must be built before.
    """

    description: str
    key: str
    fill: Callable[[], Filling] = Filling
    section: str = "misc"
    virtual: tuple[str, ...] = ()
    programs: tuple[Recipe, ...] = ()


def merged(parts: Iterable[Filling]) -> Filling:
    """Return the union of fillings; scripts with the same name run one after the other."""
    whole = Filling()
    for part in parts:
        whole.files |= part.files
        whole.directories += part.directories
        whole.conffiles += part.conffiles
        for name, text in part.scripts.items():
            former = whole.scripts.get(name)
            # All are shell scripts, so the first one's interpreter runs them.
            whole.scripts[name] = former + text.partition("\n")[2] if former and name != "triggers" else text
    return whole


def placeholder(name: str, why: str = "the lab has no content for it") -> Content:
    """Return an empty package for an entry of the lock."""
    about = f"Placeholder for {name} (lab)\nThis package stands in for upstream's package of the same name in a lab.\n"
    text = f"{about}It is empty: {why}."
    return Content(text, text)
