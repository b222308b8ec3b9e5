# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils import _kubeadm as kubeadm
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import JoinCommand, KubeadmTextError
from hypothesis import given
from hypothesis import strategies as st

TOKEN = "8l4jks.lxh6hgeuqnq29tac"
H1 = "sha256:" + "1a" * 32
H2 = "sha256:" + "2b" * 32
KEY = "3c" * 32
PLAIN = JoinCommand("10.0.0.1", 6443, TOKEN, (H1,))
INIT = f"""
Your Kubernetes control-plane has initialized successfully!

You can now join any number of control-plane nodes running the following command on each as root:

  kubeadm join api.example.org:6443 --token {TOKEN} \\
\t--discovery-token-ca-cert-hash {H1} \\
\t--control-plane --certificate-key {KEY}

Please note that the certificate-key gives access to cluster sensitive data, keep it secret!
As a safeguard, uploaded-certs will be deleted in two hours; If necessary, you can use
"kubeadm init phase upload-certs --upload-certs" to reload certs afterward.

Then you can join any number of worker nodes by running the following on each as root:

kubeadm join api.example.org:6443 --token {TOKEN} \\
\t--discovery-token-ca-cert-hash {H1}
"""

FORMS = {
    "1.9": f"kubeadm join --token {TOKEN} 10.0.0.1:6443 --discovery-token-ca-cert-hash {H1}\n",
    "1.10": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1}\n",
    "1.12": f"I0914 11:22:33.123456   1234 feature_gate.go:230] feature gates: &{{map[]}}\n"
    f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1}\n",
    "1.12 on one line": f"I0914 11:22:33.123456 1234 feature_gate.go:230] feature gates: &{{map[]}} "
    f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1}\n",
    "1.14 rc": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\n    --discovery-token-ca-cert-hash {H1} \n",
    "1.14": f"kubeadm join 10.0.0.1:6443 --token {TOKEN}     --discovery-token-ca-cert-hash {H1} \n",
    "1.18": "W0407 12:00:00.000000 99 configset.go:202] WARNING: kubeadm cannot validate component configs for API "
    "groups [kubelet.config.k8s.io kubeproxy.config.k8s.io]\n"
    f"kubeadm join 10.0.0.1:6443 --token {TOKEN}     --discovery-token-ca-cert-hash {H1} \n",
    "tabs": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \t--discovery-token-ca-cert-hash {H1} \n",
    "1.36": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1} \n",
    "windows": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} \\\r\n --discovery-token-ca-cert-hash {H1}\r\n",
    "sudo": f"$ sudo -E /usr/bin/kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1}",
    "prompt": f"root@cp1:~# kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1}",
    "equals": f"kubeadm join 10.0.0.1:6443 --token={TOKEN} --discovery-token-ca-cert-hash={H1} --v=5",
    "other flags": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1} "
    "--cri-socket unix:///run/containerd/containerd.sock --ignore-preflight-errors all",
    "discovery token": f"kubeadm join 10.0.0.1:6443 --discovery-token {TOKEN} --discovery-token-ca-cert-hash {H1}",
    "twice the same": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash {H1}\n" * 2,
    "upper case hash": f"kubeadm join 10.0.0.1:6443 --token {TOKEN} --discovery-token-ca-cert-hash sha256:{'1A' * 32}",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_the_join_command(form: str) -> None:
    assert kubeadm.join_command(FORMS[form]) == PLAIN


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("[fd00::1]:6443", "fd00::1", 6443),
        ("api.example.org:443", "api.example.org", 443),
        ("cp-1:16443", "cp-1", 16443),
    ],
)
def test_endpoints(endpoint: str, host: str, port: int) -> None:
    found = kubeadm.join_command(f"kubeadm join {endpoint} --token {TOKEN} --discovery-token-ca-cert-hash {H1} ")
    assert (found.host, found.port) == (host, port)


def test_several_hashes() -> None:
    text = f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H2} --discovery-token-ca-cert-hash {H1} "
    assert kubeadm.join_command(text).ca_cert_hashes == (H1, H2)


def test_unsafe_skip() -> None:
    text = f"kubeadm join a:1 --token {TOKEN} --discovery-token-unsafe-skip-ca-verification"
    found = kubeadm.join_command(text)
    assert (found.ca_cert_hashes, found.unsafe_skip_ca_verification) == ((), True)


@pytest.mark.parametrize("flag", ["--control-plane", "--experimental-control-plane"])
def test_control_plane(flag: str) -> None:
    line = f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1} {flag} --certificate-key {KEY}\n"
    found = kubeadm.join_command(line, control_plane=True)
    assert (found.control_plane, found.certificate_key) == (True, KEY)
    worker = kubeadm.join_command(line)
    assert (worker.control_plane, worker.certificate_key) == (False, None)


def test_each_gets_its_own_command_from_the_text_of_init() -> None:
    assert kubeadm.join_command(INIT) == JoinCommand("api.example.org", 6443, TOKEN, (H1,))
    expected = JoinCommand("api.example.org", 6443, TOKEN, (H1,), KEY, True)
    assert kubeadm.join_command(INIT, control_plane=True) == expected


WRONG = [
    ("", "there is none"),
    ("timed out waiting for the condition", "there is none"),
    ("run `kubeadm join` on each", "there is none"),
    (f"kubeadm join 10.0.0.1 --token {TOKEN} --discovery-token-ca-cert-hash {H1}", "no endpoint"),
    (f"kubeadm join 10.0.0.1:99999 --token {TOKEN} --discovery-token-ca-cert-hash {H1}", "no endpoint"),
    (f"kubeadm join 10.0.0.1:0 --token {TOKEN} --discovery-token-ca-cert-hash {H1}", "no endpoint"),
    (f"kubeadm join a:1 b:2 --token {TOKEN} --discovery-token-ca-cert-hash {H1}", "no endpoint"),
    (f"kubeadm join a:1 --token {TOKEN[:-1]} --discovery-token-ca-cert-hash {H1}", "no valid token"),
    (f"kubeadm join a:1 --discovery-token-ca-cert-hash {H1} --token", "no valid token"),
    (f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1[:-2]}", "no valid CA certificate hash"),
    (f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash md5:{KEY}", "no valid CA certificate hash"),
    (f"kubeadm join a:1 --token {TOKEN} --v=2", "no valid CA certificate hash"),
    (
        f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1} --certificate-key {KEY[:-1]}",
        "no valid certificate key",
    ),
    (
        f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1}\n"
        f"kubeadm join b:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1}",
        "several that differ",
    ),
]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_wrong_command_is_shown_without_its_secrets(text: str, words: str) -> None:
    with pytest.raises(KubeadmTextError, match=words) as caught:
        kubeadm.join_command(text)
    message = str(caught.value)
    assert message.startswith("Error while reading the join command of kubeadm: ")
    assert TOKEN[:-1] not in message
    assert KEY[:-1] not in message.replace(H1, "")
    assert ("a:1" in message) == ("a:1" in text)


def test_control_plane_command_is_not_made_up() -> None:
    with pytest.raises(KubeadmTextError, match="none of them is for a control plane"):
        kubeadm.join_command(FORMS["1.36"], control_plane=True)


@given(st.text(alphabet=st.characters(codec="utf-8")) | st.binary().map(lambda data: data.decode("utf-8", "replace")))
def test_join_command_is_total(text: str) -> None:
    with contextlib.suppress(KubeadmTextError):
        kubeadm.join_command(text)


@given(st.sampled_from([*FORMS.values(), INIT]), st.data())
def test_damaged_commands_give_everything_or_an_error(text: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(position, min(len(text), position + 40)))
    damaged = text[:position] + data.draw(st.text(max_size=6)) + text[end:]
    try:
        found = kubeadm.join_command(damaged)
    except KubeadmTextError as error:
        assert TOKEN not in str(error)
        return
    assert found.host
    assert 0 < found.port < 65536
    assert len(found.token) == 23
    assert found.ca_cert_hashes or found.unsafe_skip_ca_verification
    assert all(len(value) == 71 for value in found.ca_cert_hashes)


NOW = datetime(2026, 11, 20, 21, 0, tzinfo=timezone.utc)


def token_json(**changes: object) -> str:
    data: dict[str, object] = {
        "kind": "BootstrapToken",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "token": TOKEN,
        "expires": "2026-11-21T21:00:00Z",
        "usages": ["authentication", "signing"],
        "groups": [kubeadm.JOIN_GROUP],
    }
    data.update(changes)
    return json.dumps({key: value for key, value in data.items() if value is not None}, indent=4) + "\n"


def test_tokens_are_a_stream_of_objects() -> None:
    text = token_json() + token_json(token="abcdef.0123456789abcdef", description="ours", expires=None)
    one, other = kubeadm.tokens("W1120 some warning\n" + text)
    assert (one.token, one.expires, one.description) == (TOKEN, NOW + timedelta(days=1), None)
    assert (other.token, other.expires, other.description) == ("abcdef.0123456789abcdef", None, "ours")
    assert kubeadm.tokens("") == []


@pytest.mark.parametrize(
    ("changes", "lets_join"),
    [
        ({}, True),
        ({"expires": None}, True),
        ({"expires": "2026-11-20T21:05:00.123456789Z"}, False),
        ({"expires": "2026-11-20T23:30:00+02:00"}, True),
        ({"expires": "2026-11-20T20:00:00Z"}, False),
        ({"usages": ["authentication"]}, False),
        ({"usages": None}, False),
        ({"groups": ["system:bootstrappers:other"]}, False),
    ],
)
def test_token_that_lets_join(changes: dict[str, object], lets_join: bool) -> None:
    (token,) = kubeadm.tokens(token_json(**changes))
    assert token.lets_join(NOW, timedelta(minutes=10)) == lets_join


@pytest.mark.parametrize(
    "text", ["{", token_json()[:-5], token_json(token="x"), '{"items": []}', token_json(expires="soon"), "{}" * 3]
)
def test_what_is_no_list_of_tokens(text: str) -> None:
    with pytest.raises(KubeadmTextError, match="bootstrap tokens"):
        kubeadm.tokens(text)


@given(st.integers(0, 400), st.text(max_size=8))
def test_tokens_are_total(position: int, noise: str) -> None:
    text = token_json() * 2
    with contextlib.suppress(KubeadmTextError):
        kubeadm.tokens(text[:position] + noise + text[position:])


def test_certificate_key() -> None:
    text = (
        "I0828 16:50:07.313959   11042 version.go:260] remote version is much newer: v1.37.0; falling back to: x\n"
        '[upload-certs] Storing the certificates in Secret "kubeadm-certs" in the "kube-system" Namespace\n'
        f"[upload-certs] Using certificate key:\n{KEY}\n"
    )
    assert kubeadm.certificate_key(text) == KEY
    with pytest.raises(KubeadmTextError):
        kubeadm.certificate_key(text[:-3])


def test_complaint_begins_at_the_error() -> None:
    stderr = (
        "W1120 10:00:00.000000 1 initconfiguration.go:362] error unmarshaling configuration\n"
        "\t[WARNING Hostname]: hostname could not be reached\n"
        "error: error execution phase preflight: [preflight] Some fatal errors occurred:\n"
        "\t[ERROR Port-6443]: Port 6443 is in use\n"
        f"\t[ERROR Token]: {TOKEN}\n"
        "[preflight] If you know what you are doing, you can make a check non-fatal\n"
        "To see the stack trace of this error execute with --v=5 or higher\n"
    )
    said = kubeadm.complaint("[init] Using Kubernetes version: v1.36.4\n", stderr)
    assert said.splitlines() == [
        "error: error execution phase preflight: [preflight] Some fatal errors occurred:",
        "\t[ERROR Port-6443]: Port 6443 is in use",
        "\t[ERROR Token]: ********",
        "[preflight] If you know what you are doing, you can make a check non-fatal",
    ]


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [("", "", "nothing"), ("out", "", "out"), ("out", "W1120 x\n", "out"), ("", "no", "no")],
)
def test_complaint_without_an_error_line(stdout: str, stderr: str, said: str) -> None:
    assert kubeadm.complaint(stdout, stderr) == said
