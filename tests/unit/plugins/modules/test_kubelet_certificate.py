# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from apiserver import Authority, kubeconfig, rotated_kubeconfig
from fake_host import FakeHost

TOKEN = "abcdef.0123456789abcdef"
# The kubelet requests a certificate if it finds the file with a token, and then writes its own configuration.
SYSTEMCTL = """
import json, os, pathlib, sys
root = pathlib.Path({root!r})
with (root / "log").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
bootstrap = root / "etc/kubernetes/bootstrap-kubelet.conf"
if sys.argv[1] == "restart" and bootstrap.exists():
    (root / "used").write_text(bootstrap.read_text() + oct(bootstrap.stat().st_mode & 0o777))
    if not (root / "refused").exists():
        path = root / "var/lib/kubelet/pki/kubelet-client-current.pem"
        path.unlink()
        path.write_text((root / "issued").read_text())
"""
KUBEADM = """
import pathlib, sys
root = pathlib.Path({root!r})
with (root / "log").open("a") as log:
    log.write(" ".join(["kubeadm", *sys.argv[1:sys.argv.index("--config")]]) + "\\n")
print((root / "signed").read_text())
"""


class Node(FakeHost):  # type: ignore[misc]
    def __init__(self, root: Path, programs: Any, run: Any, authority: Authority) -> None:
        super().__init__(root, programs, run)
        self.authority = authority
        self.pki = root / "var/lib/kubelet/pki"
        self.etc = root / "etc/kubernetes"
        self.current = self.pki / "kubelet-client-current.pem"
        self.bootstrap = self.etc / "bootstrap-kubelet.conf"
        for directory in (self.pki, self.etc / "pki"):
            directory.mkdir(parents=True)
        (self.etc / "kubelet.conf").write_text(rotated_kubeconfig("https://192.0.2.10:6443", authority.pem))
        (root / "issued").write_text("".join(authority.issue("system:node:gpu1")))
        (root / "signed").write_text(authority.kubeconfig("https://192.0.2.10:6443", "system:node:gpu1"))
        programs.python("systemctl", SYSTEMCTL.replace("{root!r}", repr(str(root))))
        programs.python("kubeadm", KUBEADM.replace("{root!r}", repr(str(root))))
        self.has(days=-1)

    def has(self, days: int) -> None:
        pem = self.pki / "kubelet-client-2026-01-01-00-00-00.pem"
        pem.write_text("".join(self.authority.issue("system:node:gpu1", days=days)))
        self.current.unlink(missing_ok=True)
        self.current.symlink_to(pem)

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        args = {"root": str(self.root), "timeout": 1, **options}
        result: dict[str, Any] = self._run("kubelet_certificate", args, check=check)
        assert TOKEN not in json.dumps(result)
        assert not result.get("invocation")
        return result


@pytest.fixture
def node(tmp_path: Path, programs: Any, run_module: Any, authority: Authority) -> Node:
    return Node(tmp_path / "host", programs, run_module, authority)


def test_a_valid_certificate_stays(node: Node) -> None:
    node.has(days=1)
    result = node.run(token=TOKEN)
    assert (result["changed"], result["expired"], node.log) == (False, False, [])


def test_a_worker_requests_a_new_certificate_with_a_token(node: Node) -> None:
    preview = node.run(check=True)
    assert (preview["changed"], node.log) == (True, [])
    assert node.run(token=TOKEN)["changed"]
    used = (node.root / "used").read_text()
    assert TOKEN in used
    assert used.endswith("0o600")
    assert "https://192.0.2.10:6443" in used
    assert node.log == ["reset-failed kubelet", "restart kubelet"]
    assert not node.bootstrap.exists()
    assert not node.run()["changed"]


NAME = "api.lab.internal"


@pytest.mark.parametrize(
    ("days", "record", "hosts", "lost"),
    [
        (-1, f'{{"api_name": "{NAME}"}}', "127.0.0.1 localhost\n", NAME),
        (-1, f'{{"api_name": "{NAME}"}}', f"# BEGIN gpulab.kubernetes\n127.0.0.1 {NAME}\n", ""),
        (-1, '{"api_name": "api.other.internal"}', "", ""),
        (-1, "", "", ""),
        # This is what site.yml repairs.
        (1, f'{{"api_name": "{NAME}"}}', "", ""),
    ],
)
def test_a_name_that_the_kubelet_needs_and_that_is_lost_is_returned(
    node: Node, days: int, record: str, hosts: str, lost: str
) -> None:
    node.has(days)
    (node.etc / "kubelet.conf").write_text(rotated_kubeconfig(f"https://{NAME}:6443", node.authority.pem))
    (node.root / "var/lib/gpulab").mkdir()
    (node.root / "var/lib/gpulab/cluster.json").write_text(record)
    (node.root / "etc/hosts").write_text(hosts + "# END gpulab.kubernetes\n" * ("BEGIN" in hosts))
    assert node.run(check=True)["lost_name"] == lost


def test_a_worker_needs_a_token(node: Node) -> None:
    message = node.run()["msg"]
    assert "there is no token" in message
    assert "no key of the CA on this host" in message
    assert node.log == []


def test_the_token_does_not_stay_if_no_certificate_is_issued(node: Node) -> None:
    (node.root / "refused").touch()
    assert "it was not issued within 1 s. Check journalctl -u kubelet" in node.run(token=TOKEN)["msg"]
    assert not node.bootstrap.exists()


OURS = json.dumps({"users": [{"name": "bootstrap", "user": {"token": TOKEN}}], "current-context": "bootstrap"})


@pytest.mark.parametrize(
    "text, removed",
    [
        (OURS, True),
        (OURS.replace("bootstrap", "another"), False),
        (OURS.replace('"token"', '"tokenFile"'), False),
        ("apiVersion: v1\ncurrent-context: tls-bootstrap-token-user@kubernetes\n", False),
        ('{"users": []}', False),
        ("", False),
    ],
)
def test_only_a_token_that_an_interrupted_run_has_left_is_removed(node: Node, text: str, removed: bool) -> None:
    node.has(days=1)
    node.bootstrap.write_text(text)
    assert node.run(check=True)["token_left"] == removed
    assert node.run()["changed"] == removed
    assert node.bootstrap.exists() != removed


@pytest.mark.parametrize("key", [True, False])
def test_with_a_wrong_clock_no_certificate_is_replaced(node: Node, key: bool) -> None:
    if key:
        (node.etc / "pki/ca.key").touch()
    result = node.run(token=TOKEN, controller_time=time.time() - 400)
    assert "the clock of this host is 40" in result["msg"]
    assert "s ahead of the controller's" in result["msg"]
    assert (node.log, node.bootstrap.exists()) == ([], False)
    assert node.run(token=TOKEN, controller_time=time.time() + 200)["changed"]


def test_a_ca_that_has_expired_signs_no_certificate(node: Node) -> None:
    (node.etc / "pki/ca.key").touch()
    (node.etc / "pki/ca.crt").write_text(node.authority.issue("kubernetes", days=-1)[0])
    assert "a renewal does not help" in node.run(check=True)["msg"]
    assert "a renewal does not help" in node.run()["msg"]
    assert node.log == []


def test_a_control_plane_signs_the_certificate_itself(node: Node) -> None:
    (node.etc / "pki/ca.key").touch()
    assert node.run()["changed"]
    assert node.log == [
        "kubeadm kubeconfig user --client-name system:node:gpu1 --org system:nodes",
        "reset-failed kubelet",
        "restart kubelet",
    ]
    text = node.current.read_text()
    assert text.count("-----BEGIN CERTIFICATE-----") == 1
    assert "PRIVATE KEY-----" in text
    assert (node.current.stat().st_mode & 0o777, node.current.is_symlink()) == (0o600, True)
    assert not node.run()["changed"]


@pytest.mark.parametrize("text", ["", "cut off"])
def test_a_damaged_certificate_counts_as_expired(node: Node, text: str) -> None:
    node.current.unlink()
    node.current.write_text(text)
    (node.etc / "pki/ca.key").touch()
    assert node.run(node_name="gpu1")["expired"]
    assert "system:node:gpu1" in node.log[0]


@pytest.mark.parametrize("days", [1, -1])
def test_an_embedded_certificate_is_the_one_that_counts(node: Node, days: int) -> None:
    node.current.unlink()
    pair = node.authority.issue("system:node:gpu1", days=days)
    (node.etc / "kubelet.conf").write_text(kubeconfig("https://192.0.2.10:6443", node.authority.pem, *pair))
    assert node.run(check=True)["expired"] == (days < 0)


def test_a_host_that_is_no_node_has_no_certificate(node: Node) -> None:
    (node.etc / "kubelet.conf").unlink()
    assert not node.run()["changed"]
