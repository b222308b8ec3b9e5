# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import base64
import contextlib
import json
import time
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
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.yaml_block import read_yaml
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

# Written by the kubelet after its TLS bootstrap, with PyYAML's indentation and manual additions.
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


def test_kubeadms_admin_conf_is_read() -> None:
    assert read_kubeconfig(ADMIN) == Kubeconfig(
        server="https://10.89.0.10:6443",
        host="10.89.0.10",
        port=6443,
        ca=CA,
        client_certificate=CA,
        client_key="key",
    )


def test_the_kubelets_configuration_with_files_is_read() -> None:
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


def test_json_is_read() -> None:
    assert read_kubeconfig(json.dumps(yaml.safe_load(ADMIN))) == read_kubeconfig(ADMIN)


@pytest.mark.parametrize("style", [{}, {"indent": 4}, {"sort_keys": False, "indent": 2}])
@pytest.mark.parametrize("text", [ADMIN, KUBELET])
def test_other_yaml_styles_give_the_same_result(text: str, style: dict[str, Any]) -> None:
    written = yaml.safe_dump(yaml.safe_load(text), width=100000, default_flow_style=False, **style)
    assert read_kubeconfig(written) == read_kubeconfig(text)


FLOW = """apiVersion: v1
clusters:
- name: c
  cluster: {server: https://10.0.0.10:6443, certificate-authority-data: QUJD}  # the only one
contexts: [{name: c, context: {cluster: "c", user: 'u'}}]
current-context: c
users:
- name: u
  user:
    exec:
      command: aws
      args: ["eks", "get-token", "--cluster-name", "c"]
      env: [
        {name: AWS_PROFILE, value: "a, b"},
        # the second
        {"name":"B","value":null},
      ]
      installHint: Install aws-iam-authenticator
        from https://example.org and set
        PATH
      other: >-
        # folded: no comment
        {nothing}

        more
      quoted: "over
        two lines"
      single: 'it''s over
        two'
"""


def test_flow_style_and_multiline_texts_are_read() -> None:
    config = read_kubeconfig(FLOW)
    assert (config.server, config.ca, config.unsafe) == ("https://10.0.0.10:6443", "ABC", ("exec",))
    strings: Any = yaml.load(FLOW, Loader=yaml.BaseLoader)
    found = read_yaml(FLOW)
    hint = found["users"][0]["user"]["exec"].pop("other")
    folded = strings["users"][0]["user"]["exec"].pop("other")
    assert hint.split() == folded.split()
    found["users"][0]["user"]["exec"]["env"][1]["value"] = "null"
    assert found == strings


@pytest.mark.parametrize("begin", ["a: {", "a: '", 'a: "', "a: b", "- [", "a: >-"])
def test_large_input_is_refused_or_read_quickly(begin: str) -> None:
    begun = time.monotonic()
    with contextlib.suppress(ValueError):
        read_yaml(begin + "\n  b c d e" * 50_000)
    assert time.monotonic() - begun < 10


def test_multiline_data_is_read() -> None:
    text = FLOW.replace("{server: https://10.0.0.10:6443, certificate-authority-data: QUJD}  # the only one", "")
    block = "\n    server: https://10.0.0.10:6443\n    certificate-authority-data: |\n      QU\n      JD\n"
    assert read_kubeconfig(text.replace("  cluster: \n", f"  cluster: {block}")).ca == "ABC"


@pytest.mark.parametrize("style", [{"default_flow_style": True}, {"default_flow_style": None}, {"width": 20}])
@pytest.mark.parametrize("text", [ADMIN, KUBELET])
def test_all_styles_of_pyyaml_are_read(text: str, style: dict[str, Any]) -> None:
    assert read_kubeconfig(yaml.safe_dump(yaml.safe_load(text), **style)) == read_kubeconfig(text)


@pytest.mark.parametrize(
    "text", ["a: {b: c", "a: [b, c}", "a: {b: c} d", "a: {b: &c d}", "a: {[b]: c}", "a: {b: 'c}", "a: [b\n", "a: {: b}"]
)
def test_an_error_in_flow_style_names_the_line_and_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 2, which is in flow style .* kubectl config view --raw"):
        read_yaml(f"first: line\n{text}\n")


@given(
    st.recursive(
        st.text("ab :#,-x1/.'\"", min_size=1, max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc-", min_size=1), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from([True, False, None]),
    st.sampled_from([10, 80]),
)
def test_output_of_pyyaml_is_read_like_pyyaml_does(value: Any, flow: bool | None, width: int) -> None:
    text = yaml.safe_dump({"key": value}, default_flow_style=flow, width=width)
    try:
        found = read_yaml(text)
    except ValueError:
        # An unsupported text may be refused, but not read differently.
        return
    assert found == yaml.load(text, Loader=yaml.BaseLoader)


def test_the_certificate_authority_may_be_in_a_file(tmp_path: Path) -> None:
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
def test_a_file_that_is_not_a_kubeconfig_is_refused(text: str) -> None:
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
def test_the_endpoint_is_split_into_host_and_port(server: str, host: str, port: int) -> None:
    assert endpoint(server) == (host, port)


@pytest.mark.parametrize(
    "server",
    [
        # urllib3 connects to evil.example, while urlsplit of the standard library returns 10.0.0.1.
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
def test_any_text_is_read_or_refused(text: str) -> None:
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
        ("users:\n- user:\n    token: '@'\n    password: '\n    token: @c8Zt5QpW2vX7mK4s\n", "line 4"),
        ("users:\n- *c8Zt5QpW2vX7mK4s\n", "line 2"),
        (ADMIN.replace("https://", "https://u:c8Zt5QpW2vX7mK4s@"), "its server is not https://host:port"),
    ],
)
def test_an_error_names_the_line_without_its_content(text: str, words: str) -> None:
    with pytest.raises(KubeconfigError, match=words) as caught:
        read_kubeconfig(text)
    assert "c8Zt" not in str(caught.value)


@pytest.mark.parametrize("style", ["|", ">"])
@pytest.mark.parametrize("header", ["", "-", "+", "2-", "-2", "2+", "- # comment"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("lines", ["  abc\n", ""])
def test_the_end_of_a_block_text_is_the_same_as_in_pyyaml(style: str, header: str, end: str, lines: str) -> None:
    text = f"key: {style}{header}\n{lines}{end}other: x\n"
    assert read_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("style", [">-", "|-"])
def test_a_server_and_a_token_in_block_texts_are_read(style: str) -> None:
    below = f"{style}\n      "
    text = (
        f"clusters:\n- name: k\n  cluster:\n    server: {below}https://10.0.0.10:6443\n"
        f"users:\n- name: u\n  user:\n    token: {below}abc\n"
        "contexts:\n- name: c\n  context: {cluster: k, user: u}\ncurrent-context: c\n"
    )
    found = read_kubeconfig(text)
    assert (found.host, found.port, found.token) == ("10.0.0.10", 6443, "abc")


def test_a_list_of_many_long_lines_is_read_in_linear_time() -> None:
    line = " " + "a," * 250
    begin = time.process_time()
    found = read_yaml("a: [\n" + f"{line}\n" * 198 + " ]\n")
    assert len(found["a"]) == 250 * 198 and time.process_time() - begin < 5


@pytest.mark.parametrize(
    "text",
    [
        "a: [x,\n  'b]', \"c}\",\n  d]\n",
        "a: {b: 'one\n  two]', c: [d\n  e, f]}\n",
        "a: [it's,\n  b]\ne: f\n",
        "a: {b: [c, {d: e}],\n\n  f: g}\n",
        "a: ['it''s',\n  \"q\\\"]\"]\n",
    ],
)
def test_brackets_in_texts_do_not_end_a_list(text: str) -> None:
    assert read_yaml(text) == yaml.safe_load(text)
