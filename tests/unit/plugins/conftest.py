# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster import patience
from apiserver import ApiServer, Authority


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an API that does not respond in a test count as down immediately."""
    monkeypatch.setattr(patience, "LIMIT", 1.0)


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="session")
def other_authority() -> Authority:
    return Authority()


@pytest.fixture
def api(authority: Authority, tmp_path: Path) -> Iterator[ApiServer]:
    server = ApiServer(authority, tmp_path)
    yield server
    server.stop()
