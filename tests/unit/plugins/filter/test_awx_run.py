# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.awx import awx_run

SAME = {"project": "1111", "collection": "1.0.0 sha256:aaaa"}


def installed(root: Path) -> Path:
    manifest = {"collection_info": {"version": "1.0.0"}, "file_manifest_file": {"chksum_sha256": "aaaa"}}
    (root / "MANIFEST.json").write_text(json.dumps(manifest))
    return root


@pytest.mark.parametrize(
    ("revision", "checked", "problem"),
    [
        ("1111", SAME, ""),
        ("2222", SAME, "this is not what was approved: the project was 1111 and is 2222"),
        ("1111", {**SAME, "collection": "1.0.0 sha256:bbbb"}, "collection was 1.0.0 sha256:bbbb and is 1.0.0 sha256:"),
        ("1111", {"project": "1111"}, "the collection was unknown and is 1.0.0 sha256:aaaa"),
        ("1111", {}, "no job of this workflow has recorded what was approved"),
        ("1111", "nonsense", "no job of this workflow has recorded what was approved"),
        ("", {**SAME, "project": ""}, "AWX does not tell the revision"),
        (None, SAME, "AWX does not tell the revision"),
    ],
)
def test_only_the_checked_revision_and_collection_are_approved(
    tmp_path: Path, revision: Any, checked: Any, problem: str
) -> None:
    found = awx_run(revision, checked, installed(tmp_path))
    assert found["run"]["collection"] == SAME["collection"]
    assert problem in found["problem"] and bool(found["problem"]) is bool(problem)


def test_version_of_a_collection_in_a_checkout_is_known(tmp_path: Path) -> None:
    (tmp_path / "galaxy.yml").write_text("version: 1.0.0\n")
    assert awx_run("1111", {}, tmp_path)["run"] == {"project": "1111", "collection": "1.0.0"}
