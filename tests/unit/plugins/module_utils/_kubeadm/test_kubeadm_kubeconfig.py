# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.kubeconfig import (
    Kubeconfig,
    KubeconfigError,
    endpoint,
    read_kubeconfig,
)
from hypothesis import given
from hypothesis import strategies as st

CA = "-----BEGIN CERTIFICATE-----\nMIIC\n-----END CERTIFICATE-----\n"
CA_DATA = base64.b64encode(CA.encode()).decode()

ADMIN = f"""apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {CA_DATA}
    server: https://10.89.0.10:6443
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: kubernetes-admin
  name: kubernetes-admin@kubernetes
current-context: kubernetes-admin@kubernetes
kind: Config
preferences: {{}}
users:
- name: kubernetes-admin
  user:
    client-certificate-data: {CA_DATA}
    client-key-data: {base64.b64encode(b"key").decode()}
"""

# As the kubelet writes it after its TLS bootstrap, indented as PyYAML would, with what people add by hand.
KUBELET = """---
# kept by the kubelet
apiVersion: "v1"
kind: Config
clusters:
  - name: default-cluster
    cluster:
      server: 'https://[fd00::1]:6443'   # the VIP
      certificate-authority: /etc/kubernetes/pki/ca.crt
  - name: other
    cluster: {}
contexts:
  -
    context: {}
    name: unused
  - context:
      cluster: default-cluster
      namespace: default
      user: default-auth
    name: default-context
current-context: default-context
users:
  - name: default-auth
    user:
      client-certificate: /var/lib/kubelet/pki/kubelet-client-current.pem
      client-key: /var/lib/kubelet/pki/kubelet-client-current.pem
"""


def test_admin_conf_of_kubeadm() -> None:
    assert read_kubeconfig(ADMIN) == Kubeconfig(
        server="https://10.89.0.10:6443",
        host="10.89.0.10",
        port=6443,
        ca=CA,
        client_certificate=CA,
        client_key="key",
    )


def test_kubelet_conf_with_files() -> None:
    pem = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    assert read_kubeconfig(KUBELET) == Kubeconfig(
        server="https://[fd00::1]:6443",
        host="fd00::1",
        port=6443,
        ca_file="/etc/kubernetes/pki/ca.crt",
        client_certificate_file=pem,
        client_key_file=pem,
        unsafe=("certificate-authority", "client-certificate", "client-key"),
    )


def test_json() -> None:
    assert read_kubeconfig(json.dumps(yaml.safe_load(ADMIN))) == read_kubeconfig(ADMIN)


@pytest.mark.parametrize("style", [{}, {"indent": 4}, {"sort_keys": False, "indent": 2}])
@pytest.mark.parametrize("text", [ADMIN, KUBELET])
def test_other_writers(text: str, style: dict[str, Any]) -> None:
    written = yaml.safe_dump(yaml.safe_load(text), width=100000, default_flow_style=False, **style)
    assert read_kubeconfig(written) == read_kubeconfig(text)


def test_authority_may_lie_in_a_file(tmp_path: Path) -> None:
    config = read_kubeconfig(KUBELET)
    assert config.authority(str(tmp_path)) is None
    path = tmp_path / "etc/kubernetes/pki/ca.crt"
    path.parent.mkdir(parents=True)
    path.write_text(CA)
    assert config.authority(str(tmp_path)) == CA
    assert read_kubeconfig(ADMIN).authority() == CA


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        "{}",
        "{",
        "[1]",
        "clusters:\n- cluster: {}\n",
        ADMIN.replace("https://", "http://"),
        ADMIN.replace(":6443", ":99999999"),
        KUBELET.replace("'https", "'\thttps"),
        ADMIN.replace(CA_DATA, "%%%"),
        ADMIN[: len(ADMIN) // 8],
        "clusters: &a\n- *a\n",
        "clusters:\n  a: b\n   - c\n",
    ],
)
def test_what_is_no_kubeconfig(text: str) -> None:
    with pytest.raises(KubeconfigError, match=r"^Error while reading"):
        read_kubeconfig(text)


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [
        ("https://api.example.org:6443", "api.example.org", 6443),
        ("https://api.example.org", "api.example.org", 443),
        ("https://[fd00::1]:8443/", "fd00::1", 8443),
        ("https://CP_1.example.org:6443/k8s/clusters/c-1", "cp_1.example.org", 6443),
    ],
)
def test_endpoint(server: str, host: str, port: int) -> None:
    assert endpoint(server) == (host, port)


@pytest.mark.parametrize(
    "server",
    [
        # urllib3 connects to evil.example, urlsplit of the standard library reads 10.0.0.1.
        "https://evil.example:6443\\@10.0.0.1:6443",
        "https://user:password@10.0.0.1:6443",
        "https://10.0.0.1:6443?a=b",
        "https://10.0.0.1:6443#a",
        "https://10.0.0.1:0",
        "https://10.0.0.1:65536",
        "https://10.0.0.1:",
        "https://10。0.0.1:6443",
        "https://-oProxyCommand=x:6443",
        "https://[fe80::1%25eth0]:6443",
        "https://[1.2.3.4]:6443",
    ],
)
def test_an_ambiguous_server_is_not_a_valid_endpoint(server: str) -> None:
    with pytest.raises(KubeconfigError, match="it is not https://host:port"):
        endpoint(server)


@given(st.text() | st.lists(st.sampled_from([*ADMIN.splitlines(), *KUBELET.splitlines()])).map("\n".join))
def test_reader_is_total(text: str) -> None:
    with contextlib.suppress(KubeconfigError):
        config = read_kubeconfig(text)
        assert config.host
        assert 0 < config.port < 65536


@given(st.integers(0, len(KUBELET)), st.text(max_size=5))
def test_damaged_files_are_read_or_refused(position: int, noise: str) -> None:
    text = KUBELET[:position] + noise + KUBELET[position:]
    try:
        config = read_kubeconfig(text)
    except KubeconfigError:
        return
    assert config.server.startswith("https://")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("clusters:\n- a: b\n  : c\n    token: c8Zt5QpW2vX7mK4s\n", "line 3"),
        ("clusters: null\n   token: c8Zt5QpW2vX7mK4s\n", "line 2"),
        ("users:\n- user:\n    token: '@'\n    password: '\n    token: @c8Zt5QpW2vX7mK4s\n", "line 5"),
        ("users:\n- *c8Zt5QpW2vX7mK4s\n", "line 2"),
        (ADMIN.replace("https://", "https://u:c8Zt5QpW2vX7mK4s@"), "its server is not https://host:port"),
    ],
)
def test_an_error_names_the_line_and_not_what_it_says(text: str, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words) as caught:
        read_kubeconfig(text)
    assert "c8Zt" not in str(caught.value)
