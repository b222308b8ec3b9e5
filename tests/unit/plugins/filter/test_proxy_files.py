# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.files import proxy_files

BASE = "/etc/systemd/system/kubelet.service.d/50-gpulab-proxy"
PROXY = "http://user:S3CRET@proxy.example.org:3128"


@pytest.mark.parametrize(
    ("http_proxy", "https_proxy"),
    [(PROXY, PROXY), (PROXY, ""), ("", PROXY), ('http://a:50%25"x@p:1', "http://a:$HOME`id`\\@p:1")],
)
def test_unit_receives_the_values_unchanged(tmp_path: Path, http_proxy: str, https_proxy: str) -> None:
    variables, drop_in = proxy_files("kubelet", http_proxy, https_proxy, [".svc", "10.0.0.0/8"])
    assert (variables["path"], variables["mode"]) == (f"{BASE}.env", "0600")
    assert drop_in["path"] == f"{BASE}.conf"
    assert drop_in["content"].splitlines()[1:] == ["[Service]", f"EnvironmentFile=-{BASE}.env"]
    assert {(file["state"], file["service"]) for file in (variables, drop_in)} == {("present", "kubelet")}
    # Shells treat the same characters as special within double quotes.
    file = tmp_path / "proxy.env"
    file.write_text(variables["secret_content"])
    script = f'. {file}; printf "%s\\n" "$HTTP_PROXY" "$HTTPS_PROXY" "$NO_PROXY"'
    read = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.splitlines()
    assert read == [http_proxy, https_proxy, ".svc,10.0.0.0/8"]


def test_files_are_absent_without_a_proxy() -> None:
    files = proxy_files("kubelet", "", "", [".svc"])
    assert [(file["path"], file["state"]) for file in files] == [(f"{BASE}.env", "absent"), (f"{BASE}.conf", "absent")]
