#!/usr/bin/python
# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_dkms_info
short_description: Read whether DKMS has built the NVIDIA modules, and why a build failed
version_added: 0.2.0
author:
  - The gpulab.kubernetes maintainers (@gpulab)
description:
  - Reads C(dkms status). If the module of O(version) is not installed for the running kernel, it also reads the lines
    of DKMS's log that show why.
  - A host without DKMS is not an error; its modules come from another source.
options:
  version:
    description: Version of the driver. If empty, the builds of all versions are returned, without a log.
    type: str
    default: ""
  kernel:
    description: Release of the kernel. The default is the running kernel.
    type: str
extends_documentation_fragment:
  - gpulab.kubernetes.attributes
  - gpulab.kubernetes.attributes.reader
  - gpulab.kubernetes.attributes.root
"""

EXAMPLES = r"""
- name: Read why there is no module
  gpulab.kubernetes.nvidia_dkms_info:
    version: 580.178.04
  register: dkms
"""

RETURN = r"""
builds:
  description: Builds of the modules whose names begin with C(nvidia).
  returned: success
  type: list
  elements: dict
  sample:
    - module: nvidia
      version: 580.178.04
      kernel: 6.12.48+deb13-amd64
      architecture: x86_64
      state: installed
      notes: ""
installed:
  description: Whether the module of O(version) is installed for the kernel. Null without DKMS or O(version).
  returned: success
  type: bool
differs:
  description: >-
    Whether DKMS reports that the installed module is not the one that it built. In this case, RV(installed) is false.
  returned: success
  type: bool
  version_added: 0.2.0
log:
  description: Log of the build, empty if there is none or the module is installed.
  returned: success
  type: str
  sample: /var/lib/dkms/nvidia/580.178.04/build/make.log
reason:
  description: Lines of the log that show why the build failed.
  returned: success
  type: list
  elements: str
  sample: ["nv-mm.h:88:25: error: too few arguments to function 'get_user_pages'"]
"""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._command import Runner
from ..module_utils._files import read_text
from ..module_utils._module import run
from ..module_utils._nvidia.dkms import error_lines, parse_status


def last_log(root: Path, version: str, kernel: str) -> Path | None:
    """Return the latest build log, which is in ``build`` or in the kernel's directory."""
    base = root / "var/lib/dkms"
    found = [*base.glob(f"nvidia*/{version}/build/make.log"), *base.glob(f"nvidia*/{version}/{kernel}/*/log/make.log")]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def run_module(module: AnsibleModule) -> dict[str, Any]:
    version, kernel = module.params["version"], module.params["kernel"] or os.uname().release
    runner = Runner(module, timeout=60)
    builds = []
    if runner.find("dkms"):
        said = runner.check(["dkms", "status"], "asking DKMS for its modules").stdout
        builds = [build for build in parse_status(said) if build.module.startswith("nvidia")]
    own = [build for build in builds if build.version == version and build.kernel == kernel]
    installed = any(build.installed for build in own) if version and runner.find("dkms") else None
    path = last_log(Path(module.params["root"]), version, kernel) if version and not installed else None
    return {
        "builds": [asdict(build) for build in builds],
        "installed": installed,
        "differs": any(build.differs for build in own),
        "log": str(path or ""),
        "reason": error_lines(read_text(path) or "") if path else [],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "version": {"type": "str", "default": ""},
            "kernel": {"type": "str"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    run(module, run_module)


if __name__ == "__main__":
    main()
