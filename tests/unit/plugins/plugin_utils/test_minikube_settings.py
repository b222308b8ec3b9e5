# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options reach minikube unchanged through a systemd unit, which systemd itself verifies if installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._minikube.settings import resolve_settings
from hypothesis import given
from hypothesis import strategies as st

DECLARED: dict[str, Any] = {
    "version": "1.38.1",
    "driver": "docker",
    "kubernetes_version": "1.35.1",
    "kubectl_version": "1.35.1",
    "container_runtime": "auto",
    "gpus": "auto",
    "user": "root",
    "home": "",
    "no_proxy": [],
    "api_delegate": "localhost",
    "host": "gpu1",
    "connection": "ssh",
}
PRINTABLE = st.text(st.sampled_from("ab =;%$\"'\\\\#{}<>*~!ü-"), min_size=1)


def unit_options(*options: str) -> str:
    found: str = resolve_settings({**DECLARED, "options": list(options)}, {})["unit_options"]
    return found


@pytest.mark.parametrize(
    ("option", "written"),
    [
        ("--nodes=1", "--nodes=1"),
        (
            "--extra-config=kubelet.eviction-hard=memory.available<5%",
            '"--extra-config=kubelet.eviction-hard=memory.available<5%%"',
        ),
        ("--a=b c", '"--a=b c"'),
        ('--a="b"', r'"--a=\"b\""'),
        ("--a='b'", "\"--a='b'\""),
        ("$HOME", '"$$HOME"'),
        ("a\\nb", '"a\\\\nb"'),
        (";", '";"'),
    ],
)
def test_an_option_is_quoted_for_systemd(option: str, written: str) -> None:
    assert unit_options(option) == written


def words(line: str) -> list[str]:
    """Split a command into words according to systemd.syntax(7) and systemd.service(5)."""
    found: list[str] = []
    for piece in line.split("\0"):
        assert piece == "" or (piece[0] == piece[-1] == '"') or not set(piece) & set(" \"'\\%$;#")
        text = piece[1:-1] if piece.startswith('"') else piece
        text = text.replace("%%", "%").replace("$$", "$")
        plain, position = "", 0
        while position < len(text):
            position += text[position] == "\\"
            plain, position = plain + text[position], position + 1
        found.append(plain)
    return found


@given(st.lists(PRINTABLE, max_size=4))
def test_any_option_arrives_unchanged(options: list[str]) -> None:
    assert words("\0".join(map(unit_options, options))) == (options or [""])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "minikube-x.service"
    options = unit_options("memory<5%", "a b", 'c"d', "e\\f", "$HOME", "%i%z", "'")
    unit.write_text(f"[Service]\nType=oneshot\nExecStart=/bin/true start {options}\n")
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [line for line in verified.stderr.splitlines() if "minikube-x.service" in line]
    assert complaints == []
