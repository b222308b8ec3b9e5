"""Sphinx configuration for `make site`: the repository's pages, and the reference by antsibull-docs.

The source directory contains copies of the repository's pages, with README.md as index.md. Links to other files lead to
the repository, and links to sections of docs/reference/ to the pages of antsibull-docs.
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

import yaml
from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / ".cache" / "site" / "source"
GALAXY: dict[str, Any] = yaml.safe_load((ROOT / "galaxy.yml").read_text())

project = f"{GALAXY['namespace']}.{GALAXY['name']}"
version = release = str(GALAXY["version"])
author = ", ".join(GALAXY["authors"])
html_title = f"{project} {version}"
html_theme = "furo"
html_theme_options = {"source_repository": GALAXY["repository"]}
html_copy_source = False
html_show_copyright = False
extensions = ["myst_parser", "sphinx_antsibull_ext", "sphinxcontrib.mermaid"]
pygments_style = "ansible"
myst_heading_anchors = 6
myst_fence_as_directive = ["mermaid"]
TOP = ["index.md", "CHANGELOG.rst", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md", "SUPPORT.md"]
# Labels in Ansible's own documentation, such as common_return_values. antsibull-docs checks ours.
suppress_warnings = ["ref.ref"]
include_patterns = [*TOP, "docs/*.md", "docs/reference/README.md", "roles/*/README.md", "reference/*.rst"]

LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)(#[^)\s]+)?(?=\))")
KINDS = {"modules": ["module"], "plugins": ["filter", "test", "callback"], "roles": ["role"]}


def address(page: str, target: str, anchor: str) -> str:
    """Return the site's address for a relative link on ``page``, a path in the repository."""
    path = normpath(PurePosixPath(page).parent / target)
    if path == "README.md":
        path = "index.md"
    elif re.fullmatch(r"docs/reference/(modules|plugins|roles)\.md", path):
        entries = [f"reference/{anchor[1:]}_{kind}.rst" for kind in KINDS[PurePosixPath(path).stem]]
        path, anchor = next((one for one in entries if (SOURCE / one).exists()), "reference/index.rst"), ""
    elif not any(fnmatch(path, pattern) for pattern in include_patterns) and path[-4:] not in (".png", ".svg"):
        return f"{GALAXY['repository']}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}{anchor}"
    return relpath(path, PurePosixPath(page).parent) + anchor


def contents() -> str:
    """Return the tables of contents: the entries of docs/README.md in order, then roles and other pages."""
    guides = (ROOT / "docs" / "README.md").read_text()
    names = re.findall(r"^\| \[[^]]*\]\(([\w/-]+\.md)\)", guides, re.MULTILINE)
    pages = [f"docs/{name}" for name in dict.fromkeys(names)]
    reference = [page for page in pages if page in ("docs/variables.md", "docs/cuda.md", "docs/reference/README.md")]
    parts = {
        "Guides": ["docs/README", *(page for page in pages if page not in reference)],
        "Reference": [*reference, "reference/index", "reference/environment_variables"],
        "Roles": sorted(f"roles/{path.parent.name}/README" for path in ROOT.glob("roles/*/README.md")),
        "Project": [name for name in TOP[1:] if (ROOT / name).exists()],
    }
    tree = "\n```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {}\n\n{}\n```\n"
    return "".join(tree.format(caption, "\n".join(entries)) for caption, entries in parts.items())


def read(_app: object, name: str, source: list[str]) -> None:
    if name.startswith("reference/"):
        # The theme has its own table of contents, and shows an error instead of a second one.
        source[0] = re.sub(r"^\.\. contents::\n(?: +:.*\n)*", "", source[0], flags=re.MULTILINE)
    else:
        page = f"{name}.md"
        source[0] = LINK.sub(lambda link: address(page, link[1], link[2] or ""), source[0])
    if name == "index":
        source[0] += contents()


def add_anchors(_app: object, tree: nodes.document) -> None:
    """Also give each section its anchor on GitHub."""
    for section in tree.findall(nodes.section):
        slug = section.get("slug")
        if slug and slug not in tree.ids:
            section["ids"].append(slug)
            tree.ids[slug] = section


def setup(app: Any) -> None:
    app.connect("source-read", read)
    app.connect("doctree-read", add_anchors)
