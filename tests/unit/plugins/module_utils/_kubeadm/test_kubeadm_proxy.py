# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kubeadm reaches the name of the API, which leads to the host itself, without the proxy of its environment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.run import Kubeadm, without_proxy

NAME = "api.lab.internal"
PROXY = {"https_proxy": "http://proxy:3128"}


@pytest.mark.parametrize(
    ("environ", "names", "found"),
    [
        ({}, [NAME], {}),
        ({"NO_PROXY": "localhost"}, [NAME], {}),
        (PROXY, [], {}),
        (PROXY, [NAME], {"NO_PROXY": NAME}),
        ({**PROXY, "no_proxy": "localhost,.svc"}, [NAME], {"no_proxy": f"localhost,.svc,{NAME}"}),
        ({**PROXY, "NO_PROXY": NAME, "no_proxy": "x"}, [NAME], {"NO_PROXY": NAME, "no_proxy": f"x,{NAME}"}),
    ],
)
def test_names_of_the_host_itself_are_no_matter_of_the_proxy(
    environ: dict[str, str], names: list[str], found: dict[str, str]
) -> None:
    assert without_proxy(environ, names) == found


def test_kubeadm_runs_with_the_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    block = f"# BEGIN gpulab.kubernetes (role api_endpoint)\n127.0.0.1 {NAME}\n# END gpulab.kubernetes\n"
    (tmp_path / "etc/hosts").write_text(f"127.0.0.1 localhost\n{block}")
    for key in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    given: dict[str, Any] = {}

    def run(_argv: list[str], **options: Any) -> Any:
        given.update(options)
        return SimpleNamespace(rc=0, stdout="done", stderr="")

    kubeadm = Kubeadm(SimpleNamespace(commands_run=[]), "kubeadm", 1, str(tmp_path))
    monkeypatch.setattr(kubeadm.runner, "run", run)
    assert kubeadm.run(["join"], "joining the cluster", {"OTHER": "kept"}) == "done"
    assert given["environ"] == {"NO_PROXY": NAME, "OTHER": "kept"}
