# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..plugin_utils._report.origin import collection_version
from ..plugin_utils._report.read import dictionary, text

DOCUMENTATION = r"""
name: awx_run
short_description: Compare what an AWX job runs with what was approved
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Describes what a job of AWX runs, the revision of the project and the collection, and compares this with the
    description that an earlier job of the same workflow has recorded.
positional: _input, checked
options:
  _input:
    description: Revision of the project (C(awx_project_revision)), empty if it is unknown.
    type: str
    required: true
  checked:
    description: RV(_value.run) of the job that was checked before the approval. Empty if there was none.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Fail if something else was approved
  ansible.builtin.fail:
    msg: "{{ (awx_project_revision | gpulab.kubernetes.awx_run(gpulab_checked_run)).problem }}"
  when: (awx_project_revision | gpulab.kubernetes.awx_run(gpulab_checked_run)).problem | length > 0
"""

RETURN = r"""
_value:
  description: What the job runs.
  type: dict
  contains:
    run:
      description:
        - The revision of the C(project) and the version of the C(collection). If the collection was installed from an
          archive, its version is followed by the checksum of its files.
      type: dict
    problem:
      description: Why this is not what was approved. Empty if it is.
      type: str
"""

_ROOT = Path(__file__).resolve().parents[2]


def awx_run(revision: Any, checked: Any, root: Path = _ROOT) -> dict[str, Any]:
    run = {"project": text(revision), "collection": _collection(root)}
    return {"run": run, "problem": _problem(run, dictionary(checked))}


def _problem(run: Mapping[str, str], checked: Mapping[str, Any]) -> str:
    if not run["project"]:
        return "AWX does not tell the revision of the project, so it is unknown whether this is what was approved"
    if not checked:
        return "no job of this workflow has recorded what was approved"
    different = [name for name, value in run.items() if checked.get(name) != value]
    told = [f"the {name} was {text(checked.get(name)) or 'unknown'} and is {run[name]}" for name in different]
    return f"this is not what was approved: {', and '.join(told)}" if told else ""


def _collection(root: Path) -> str:
    version = collection_version(root)
    try:
        manifest = dictionary(json.loads((root / "MANIFEST.json").read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return version
    return f"{version} sha256:{text(dictionary(manifest.get('file_manifest_file')).get('chksum_sha256'))}"


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"awx_run": awx_run}
