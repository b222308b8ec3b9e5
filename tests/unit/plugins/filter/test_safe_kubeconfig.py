# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs are built from known fields; fields that run programs, read files or redirect requests are refused."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.filter.kubeconfig import safe_kubeconfig
from ansible_collections.gpulab.kubernetes.plugins.module_utils._cluster.api import Api, ApiError

PEM = base64.b64encode(b"-----BEGIN X-----").decode()
CERTIFICATE = {"client-certificate-data": PEM, "client-key-data": PEM}


def text(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    """Return a kubeconfig with an unrelated current context, and a context minikube with these fields."""
    servers = {"other": {"server": "https://other:1"}, "minikube": {"server": "https://[2001:db8::1]:8443"}}
    servers["minikube"] |= cluster or {}
    return yaml.safe_dump(
        {
            "clusters": [{"name": name, "cluster": values} for name, values in servers.items()],
            "users": [
                {"name": "other", "user": {"exec": {"command": "x"}}},
                {"name": "minikube", "user": user or CERTIFICATE},
            ],
            "contexts": [
                {"name": name, "context": {"cluster": name, "user": name}} for name in ("other", "minikube", "broken")
            ],
            "current-context": "other",
        }
    )


def test_only_known_fields_of_the_context_are_kept() -> None:
    unknown = {"certificate-authority-data": PEM, "extensions": [{"name": "x"}], "disable-compression": True}
    found = safe_kubeconfig(text(unknown, {**CERTIFICATE, "as": "root", "password": "p"}), "minikube")
    assert (found["host"], found["port"]) == ("2001:db8::1", 8443)
    whole = yaml.safe_load(found["content"])
    assert whole["clusters"] == [
        {
            "name": "kubernetes",
            "cluster": {"server": "https://[2001:db8::1]:8443", "certificate-authority-data": PEM},
        }
    ]
    assert whole["users"] == [{"name": "kubernetes-admin", "user": CERTIFICATE}]
    assert whole["current-context"] == whole["contexts"][0]["name"] == "kubernetes-admin@kubernetes"


def test_certificate_of_the_real_server_is_verified_through_a_tunnel() -> None:
    whole = yaml.safe_load(safe_kubeconfig(text(), "minikube", tunnel_port=40000)["content"])
    cluster = whole["clusters"][0]["cluster"]
    original = [{"name": "gpulab.io/server", "extension": {"server": "https://[2001:db8::1]:8443"}}]
    assert cluster == {
        "server": "https://127.0.0.1:40000",
        "tls-server-name": "2001:db8::1",
        "extensions": original,
    }


@pytest.mark.parametrize("port", [40000, 40001])
def test_real_server_is_known_through_every_tunnel(port: int, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(safe_kubeconfig(text(user={"token": "t"}), "minikube", tunnel_port=port)["content"])
    api = Api(str(kubeconfig))
    assert (api.server, api.endpoint) == (f"https://127.0.0.1:{port}", "https://[2001:db8::1]:8443")


@pytest.mark.parametrize("extension", ["x", {"server": 1}, {"server": "https://a b"}, {"server": "javascript:x"}])
def test_invalid_server_extension_is_ignored(extension: Any, tmp_path: Path) -> None:
    claimed = {"server": "https://192.0.2.1:6443", "extensions": [{"name": "gpulab.io/server", "extension": extension}]}
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(text(claimed, {"token": "t"}).replace("current-context: other", "current-context: minikube"))
    assert Api(str(kubeconfig)).endpoint == "https://192.0.2.1:6443"


NAMED = yaml.safe_dump(
    {
        "clusters": [{"name": "k", "cluster": {"server": "https://api.lab.internal:6443"}}],
        "users": [{"name": "u", "user": CERTIFICATE}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "current-context": "c",
    }
)


def test_name_that_only_nodes_know_becomes_a_context_for_each_control_plane() -> None:
    planes = {"cp1": "10.0.0.11", "cp2": "10.0.0.12"}
    found = safe_kubeconfig(
        NAMED, addresses=["10.0.0.11"], control_planes=planes, current="cp2", api_name="api.lab.internal"
    )
    assert (found["problem"], found["host"], found["port"]) == ("", "10.0.0.12", 6443)
    whole = yaml.safe_load(found["content"])
    assert whole["current-context"] == "kubernetes-admin@cp2"
    assert {each["name"]: each["cluster"] for each in whole["clusters"]} == {
        name: {"server": f"https://{address}:6443", "tls-server-name": "api.lab.internal"}
        for name, address in planes.items()
    }
    assert whole["contexts"] == [
        {"name": f"kubernetes-admin@{name}", "context": {"cluster": name, "user": "kubernetes-admin"}}
        for name in planes
    ]
    assert [user["name"] for user in whole["users"]] == ["kubernetes-admin"]


def test_certificate_for_the_name_is_verified_through_a_tunnel(tmp_path: Path) -> None:
    planes = {"cp1": "10.0.0.11", "cp2": "10.0.0.12"}
    found = safe_kubeconfig(NAMED, tunnel_port=40000, control_planes=planes, current="cp2", api_name="api.lab.internal")
    (cluster,) = yaml.safe_load(found["content"])["clusters"]
    original = [{"name": "gpulab.io/server", "extension": {"server": "https://10.0.0.12:6443"}}]
    assert cluster["cluster"] == {
        "server": "https://127.0.0.1:40000",
        "tls-server-name": "api.lab.internal",
        "extensions": original,
    }


@pytest.mark.parametrize(
    ("server", "api_name", "is_name"),
    [
        ("api.lab.internal", "api.lab.internal", True),
        # A name in somebody else's DNS.
        ("api.lab.internal", "", False),
        ("api.old-lab.internal", "api.lab.internal", False),
        ("api.lab.internal:8443", "api.lab.internal", False),
        ("k8s.example.org", "k8s.example.org", True),
        ("k8s.example.org", "", False),
        ("api.a.b.internal", "", False),
        ("api.internal", "", False),
        ("192.0.2.66", "", False),
    ],
)
def test_another_server_must_still_be_an_address_of_the_control_plane(
    server: str, api_name: str, is_name: bool
) -> None:
    text_of_host = NAMED.replace("api.lab.internal:6443", server if ":" in server else f"{server}:6443")
    found = safe_kubeconfig(
        text_of_host, addresses=["10.0.0.11"], control_planes={"cp1": "10.0.0.11"}, current="cp1", api_name=api_name
    )
    assert (found["host"] == "10.0.0.11", "is not an address of the control plane" in found["problem"]) == (
        is_name,
        not is_name,
    )


def test_kubeconfig_of_a_cluster_with_an_address_does_not_change() -> None:
    by_hand = NAMED.replace("api.lab.internal", "10.0.0.11")
    found = safe_kubeconfig(by_hand, addresses=["10.0.0.11"], control_planes={"cp1": "10.0.0.11"}, current="cp1")
    assert found == safe_kubeconfig(by_hand)
    assert yaml.safe_load(found["content"])["current-context"] == "kubernetes-admin@kubernetes"


REFUSED = [
    ({}, {"exec": {"command": "touch"}}, "exec"),
    ({}, {"auth-provider": {"name": "gcp"}}, "auth-provider"),
    ({}, {"tokenFile": "/etc/shadow"}, "tokenFile"),
    ({}, {"client-certificate": "/c", "client-key": "/k"}, "client-certificate and client-key"),
    ({"proxy-url": "http://198.51.100.1"}, {}, "proxy-url"),
    ({"insecure-skip-tls-verify": True}, {}, "insecure-skip-tls-verify"),
    ({"certificate-authority": "/etc/ca"}, {}, "certificate-authority"),
]


@pytest.mark.parametrize(("cluster", "user", "name"), REFUSED)
def test_fields_that_run_programs_read_files_or_redirect_are_refused(
    cluster: dict[str, Any], user: dict[str, Any], name: str, tmp_path: Path
) -> None:
    refused = text(cluster, {**CERTIFICATE, **user})
    found = safe_kubeconfig(refused, "minikube")
    assert f"it has {name}. Only a server" in found["problem"] and found["content"] == ""
    path = tmp_path / "given.conf"
    path.write_text(refused.replace("current-context: other", "current-context: minikube"))
    with pytest.raises(ApiError, match=f"given.conf: it has {name}. Only a server"):
        Api(str(path))


@pytest.mark.parametrize(
    ("addresses", "fits"),
    [([], True), (["cp1", "2001:DB8:0::1"], True), (["[2001:db8::1]"], True), (["cp1", ""], False)],
)
def test_server_must_be_an_address_of_the_inventory(addresses: list[str], fits: bool) -> None:
    found = safe_kubeconfig(text(), "minikube", addresses)
    assert bool(found["content"]) is fits
    assert found["problem"].endswith("" if fits else "set cluster_api_endpoint to [2001:db8::1]:8443")


@pytest.mark.parametrize(
    ("content", "context", "words"),
    [
        (text(), "none", "it has no context none"),
        (text(), "broken", "it names no server"),
        (text(user={"token": "a\nb"}), "minikube", "its token has characters"),
        (text(user={"username": "secret"}), "minikube", "neither a client certificate nor a token"),
        (text({"server": "http://10.0.0.1"}), "minikube", "its server .http://10.0.0.1. is not https://host:port"),
        ("", "minikube", "it has no context"),
        ("secret: [", "minikube", "it is not valid YAML"),
        ("{" * 2000, "", "it is nested more than 50 levels deep"),
        ("x: {", "", "it is not valid YAML"),
        (text({"tls-server-name": "cp1\n"}), "minikube", "its tls-server-name 'cp1.n' is not a name"),
        (text({"certificate-authority-data": "Zm9v"}), "minikube", "certificate-authority-data is not PEM"),
        (text(user={**CERTIFICATE, "client-key-data": "Zm9v"}), "minikube", "client-key-data is not PEM"),
        ("x: !!int ''\n" + text(), "minikube", "it has YAML aliases or tags"),
        ("x: &x {a: b}\ny: {<<: *x}\n" + text(), "minikube", "it has YAML aliases or tags"),
        ("x: 2001-99-99\n" + text(), "minikube", "month must be"),
        ("#" * 2**21, "minikube", "it is larger than 1048576 bytes"),
    ],
)
def test_error_about_an_unusable_kubeconfig_shows_no_keys(content: str, context: str, words: str) -> None:
    found = safe_kubeconfig(content, context)
    assert re.search(words, found["problem"]) and found["content"] == ""
    assert "secret" not in found["problem"]
