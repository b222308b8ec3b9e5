"""Write `upstream.lock` as text: one line per entry, in the present order, after the header comment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes every list in full instead of YAML anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def header(text: str) -> str:
    """Return the header comment of a lock."""
    return text.split("---\n", 1)[0]


def render(head: str, content: Mapping[str, Any]) -> str:
    """Return the text of a lock with this header and content."""
    # An entry of scalars is one line, however long, for readable diffs.
    body = yaml.dump(
        dict(content), Dumper=_Dumper, default_flow_style=None, sort_keys=False, width=10**6, allow_unicode=True
    )
    return f"{head}---\n" + re.sub(r"(?m)^(sources|repositories|images|downloads):", r"\n\1:", body)
