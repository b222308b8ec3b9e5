# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects that a template of manifests declares."""

from __future__ import annotations

DOCUMENTATION = r"""
name: manifests
author: The gpulab.kubernetes maintainers (@gpulab)
version_added: 0.2.0
short_description: Objects that a role's template of manifests declares
description:
  - Renders templates of this collection's roles and reads the YAML documents in them.
  - It does what P(ansible.builtin.template#lookup) and P(ansible.builtin.from_yaml_all#filter) do together, but does
    not copy all variables of the host first, which takes longer than the rest.
options:
  _terms:
    description: Paths of templates relative to the directory C(roles) of this collection.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Apply flannel
  gpulab.kubernetes.cluster_objects:
    definitions: "{{ lookup('gpulab.kubernetes.manifests', 'flannel/templates/flannel.yml.j2') }}"
"""

RETURN = r"""
_raw:
  description: For each template the list of its objects.
  type: list
  elements: list
  sample:
    - - apiVersion: v1
        kind: Namespace
        metadata: {name: kube-flannel}
"""

from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible.template import trust_as_template

_ROLES = Path(__file__).resolve().parents[2] / "roles"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class LookupModule(LookupBase):  # type: ignore[misc]
    def run(self, terms: list[str], variables: Any = None, **kwargs: Any) -> list[list[Any]]:
        self.set_options(var_options=variables, direct=kwargs)
        return [self._objects(_ROLES / term) for term in terms]

    def _objects(self, path: Path) -> list[Any]:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise AnsibleError(f"Error while reading the template of manifests {path}: {error.strerror}") from error
        rendered = self._templar.copy_with_new_env(searchpath=[str(path.parent)]).template(trust_as_template(text))
        try:
            # libyaml takes nothing but plain text, and Ansible tags what it did not have to render.
            return [document for document in yaml.load_all(str(rendered), Loader=_Loader) if document]
        except yaml.YAMLError as error:
            raise AnsibleError(f"Error while reading the manifests of {path}: {error}") from error
