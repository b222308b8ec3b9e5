# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of the HAProxy on workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

VARS = yaml.safe_load((Path(__file__).resolve().parents[3] / "roles/api_endpoint/vars/main.yml").read_text())


def render(name: str, **values: Any) -> str:
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.ChainableUndefined)
    return environment.from_string(VARS[name]).render(**values)


def test_servers_are_named_by_their_place_because_a_host_may_have_any_name() -> None:
    planes = {"my host": "10.0.0.11", "#2": "10.0.0.12"}
    values = {"_api_endpoint_name": "api.lab.internal", "_api_endpoint_directory": "/etc/x"}
    lines = render("_api_endpoint_haproxy", _api_endpoint_control_planes=planes, **values).splitlines()
    assert [line.strip() for line in lines if line.strip().startswith("server ")] == [
        "server cp1 10.0.0.11:6443 check on-marked-down shutdown-sessions",
        "server cp1-unchecked 10.0.0.11:6443 backup",
        "server cp2 10.0.0.12:6443 check on-marked-down shutdown-sessions",
        "server cp2-unchecked 10.0.0.12:6443 backup",
    ]


@pytest.mark.parametrize(
    ("finished", "read", "given", "found"),
    [
        (True, "all\n", "one\n", "all\n"),
        (False, "", "one\n", "one\n"),
        (True, "all\n", None, "all\n"),
        # The control plane was initialized again, with another CA.
        (False, "former\n", "one\n", "one\n"),
        (False, "all\n", None, "all\n"),
        (False, "", None, ""),
    ],
)
def test_a_join_and_the_next_run_write_the_same_authorities(
    finished: bool, read: str, given: str | None, found: str
) -> None:
    values = {} if given is None else {"api_endpoint_ca": given}
    cluster = {"ca": read, "finished": finished}
    assert render("_api_endpoint_ca", _api_endpoint_cluster=cluster, **values).strip() == found.strip()
    assert not render("_api_endpoint_ca", _api_endpoint_cluster={}).strip()
    hosts = {"cp1": {"preflight_host": {"cluster": "read"}}}
    assert render("_api_endpoint_cluster", cluster_api_host="cp1", hostvars=hosts) == "read"
    assert render("_api_endpoint_cluster", cluster_api_host="", hostvars={}) == "{}"
