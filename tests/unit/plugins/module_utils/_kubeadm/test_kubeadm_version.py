# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.text import KubeadmTextError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.version import Version, parse_version, version
from kubeadm_texts import KLOG, VERSION_YAML, version_json, version_plain

KUBECTL = 'Client Version: version.Info{Major:"1", Minor:"36", GitVersion:"v1.36.1", Platform:"linux/amd64"}\n'


@pytest.mark.parametrize(
    "text",
    [
        version_plain(),
        version_plain(more=""),
        KUBECTL + version_plain(),
        version_json(),
        f"{KLOG}\n{version_json()}",
        "v1.36.4\n",
        f"{KLOG}\r\n\x1b[1mv1.36.4\x1b[0m\r\n",
        VERSION_YAML,
    ],
)
def test_all_output_formats_give_the_same_version(text: str) -> None:
    assert version(text) == Version("v1.36.4", 1, 36, 4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("v1.9.0", Version("v1.9.0", 1, 9, 0)),
        ("v1.38.0-alpha.1", Version("v1.38.0-alpha.1", 1, 38, 0, "alpha.1")),
        ("v1.31.0-rc.1+k3s1", Version("v1.31.0-rc.1+k3s1", 1, 31, 0, "rc.1", "k3s1")),
        ("v1.27.6-eks-f8587cb", Version("v1.27.6-eks-f8587cb", 1, 27, 6, "eks-f8587cb")),
        (
            "v1.20.0-alpha.0.5+0123abc-dirty",
            Version("v1.20.0-alpha.0.5+0123abc-dirty", 1, 20, 0, "alpha.0.5", "0123abc-dirty"),
        ),
    ],
)
def test_all_kinds_of_versions_are_read(text: str, expected: Version) -> None:
    assert parse_version(text) == version(f"{text}\n") == version(version_json(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.36.4\n",
        "v1.36\n",
        "v1.36.4.5\n",
        "v1.36.4\nv1.36.5\n",
        version_plain("v1.36"),
        version_plain()[:-3],
        version_json()[:-3],
        version_json("v0"),
        '{"clientVersion": "v1.36.4"}',
        '{"serverVersion": {"gitVersion": "v1.36.4"}}',
        KUBECTL,
        "kubeadm: command not found",
    ],
)
def test_an_invalid_version_is_an_error(text: str) -> None:
    with pytest.raises(KubeadmTextError, match=r"^Error while reading the version of kubeadm: "):
        version(text)
