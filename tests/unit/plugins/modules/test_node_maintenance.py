# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster, FakeNode


@pytest.mark.parametrize("state", ["begun", "ended"])
def test_an_api_that_no_longer_answers_may_leave_the_node_cordoned(
    run_module: Callable[..., dict[str, Any]], tmp_path: Path, state: str
) -> None:
    with FakeCluster(FakeNode("gpu1", ["GPU-0"])).serve(tmp_path) as kubeconfig:
        pass
    result = run_module("node_maintenance", {"kubeconfig": str(kubeconfig), "node": "gpu1", "state": state})
    assert result["failed"] and result["inconclusive"] and result["msg"].startswith("Error while asking the API")
    first, then = result["msg"].splitlines()
    assert "Connection refused" in first and then == (
        "The node gpu1 may still be cordoned. When the API answers, run the playbook again: it resumes the change, or "
        "uncordons the node."
    )
