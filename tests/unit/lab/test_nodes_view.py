"""The kubeconfig of a lab's cluster for this machine."""

from __future__ import annotations

import pytest

from lab.nodes.view import by_address


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("api.lab.internal", "    server: https://10.89.0.11:6443\n    tls-server-name: api.lab.internal\n"),
        ("10.89.0.12", "    server: https://10.89.0.12:6443\n"),
    ],
)
def test_name_that_only_nodes_know_becomes_an_address(server: str, expected: str) -> None:
    text = "- cluster:\n    server: https://{}:6443\n  name: kubernetes\n"
    assert by_address(text.format(server), "10.89.0.11") == f"- cluster:\n{expected}  name: kubernetes\n"
