#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: registry_image_info
short_description: Find out whether a registry has an image
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Asks the mirrors of the registry and then the registry itself for the manifest of the image, without credentials.
    Nothing is pulled.
  - Warns if this can't be found out, for example because no registry responds.
options:
  image:
    description: Reference of the image.
    type: str
    required: true
  mirrors:
    description: Mirrors, as in the variable C(containerd_registry_mirrors).
    type: list
    elements: dict
    default: []
  timeout:
    description: Time limit in seconds for each request.
    type: int
    default: 15
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
"""

EXAMPLES = r"""
- name: Look for the image of the launch agent
  gpulab.kubernetes.registry_image_info:
    image: docker.io/wandb/launch-agent:0.31.0
  delegate_to: localhost
"""

RETURN = r"""
state:
  description: V(found), V(missing) (every registry responds that it does not have the image), or V(unknown).
  returned: success
  type: str
  sample: found
details:
  description: What each registry responded, unless the image was found.
  returned: success
  type: list
  elements: str
  sample: []
"""

from collections.abc import Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ..module_utils._containerd.registry import UNKNOWN, look_up_image
from ..module_utils._module import run


def run_module(module: AnsibleModule) -> dict[str, Any]:
    params = module.params

    def ask(url: str, method: str, headers: Mapping[str, str], validate_certs: bool) -> Any:
        options = {"headers": dict(headers), "validate_certs": validate_certs, "timeout": params["timeout"]}
        return open_url(url, method=method, follow_redirects="safe", **options)

    answer = look_up_image(params["image"], params["mirrors"], ask)
    if answer.state == UNKNOWN:
        module.warn(
            f"Could not check whether the registry has the image {params['image']}: {'; '.join(answer.details)}."
        )
    return {"state": answer.state, "details": list(answer.details)}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str", "required": True},
            "mirrors": {"type": "list", "elements": "dict", "default": []},
            "timeout": {"type": "int", "default": 15},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
