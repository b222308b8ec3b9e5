# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpulab.kubernetes.plugins.test.cuda_supported_by import TestModule as Plugin
from support.programs import run_ansible

supported = Plugin().tests()["cuda_supported_by"]
# Plugins are called by their full names, also in map and select.
TEMPLATE = """
{{ {
  'test': '12.4' is gpulab.kubernetes.cuda_supported_by('550.54.14'),
  'negated': '13.0' is not gpulab.kubernetes.cuda_supported_by('580.178.04', gpu='Tesla V100-SXM2-32GB'),
  'select': ['11.8', '12.4', '13.0'] | select('gpulab.kubernetes.cuda_supported_by', '535.274.02'),
  'filter': ('13.0' | gpulab.kubernetes.cuda_compatibility('535.274.02', gpu='Tesla T4')).package,
  'family': ('NVIDIA B200' | gpulab.kubernetes.gpu_family).family,
} }}
"""


@pytest.mark.parametrize(
    ("cuda", "driver", "gpu", "expected"),
    [
        ("12.4", "550.54.14", None, True),
        ("12.4", "550.54.13", None, True),  # minor version compatibility
        ("12.4", "525.60.13", None, True),
        ("12.4", "525.60.12", None, False),
        ("13.0", "535.274.02", "Tesla T4", False),  # needs a forward compatibility package
        ("13.0", "580.178.04", "Tesla T4", True),
        ("13.0", "580.178.04", "Tesla P4", False),
        ("12.4", "595.91.07", "Tesla P4", False),
        ("99.0", "580.178.04", None, False),  # unknown
        ("12.4", "580.178.04", "NVIDIA B200", False),  # unknown, because only programs with PTX run
    ],
)
def test_support_follows_from_cuda_driver_and_gpu(cuda: str, driver: str, gpu: str | None, expected: bool) -> None:
    assert supported(cuda, driver, gpu=gpu) is expected


def test_invalid_input_is_named() -> None:
    with pytest.raises(AnsibleFilterError, match=r"cuda_supported_by: .*'x' is not a valid version of a Linux driver"):
        supported("12.4", "x")


def test_templates_find_plugins_by_their_full_names(tmp_path: Path) -> None:
    arguments = ["localhost", "-m", "ansible.builtin.debug", "-a", f"msg={' '.join(TEMPLATE.split())!r}"]
    status, output = run_ansible(
        tmp_path, *arguments, program="ansible", timeout=60, ANSIBLE_CALLBACK_RESULT_FORMAT="json"
    )
    assert status == 0, output
    said = "".join(output.split())
    assert '"test":true' in said and '"negated":true' in said and '"select":["11.8","12.4"]' in said
    assert '"filter":"cuda-compat-13-0"' in said and '"family":"Blackwell"' in said
