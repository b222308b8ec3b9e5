# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm import join_command as kubeadm
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.join_command import JoinCommand
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.text import KubeadmTextError
from kubeadm_texts import H1, H2, INIT, INIT_OLD, JOIN_FORMS, KEY, PINNED, TOKEN

PLAIN = JoinCommand("10.0.0.1", 6443, TOKEN, (H1,))


@pytest.mark.parametrize("form", JOIN_FORMS)
def test_all_forms_of_the_join_command_are_read(form: str) -> None:
    assert kubeadm.join_command(JOIN_FORMS[form]) == PLAIN


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("[fd00::1]:6443", "fd00::1", 6443),
        ("api.example.org:443", "api.example.org", 443),
        ("cp-1:16443", "cp-1", 16443),
        ("[fe80::1%eth0]:6443", "fe80::1%eth0", 6443),
        ("[::ffff:10.0.0.1]:6443", "::ffff:10.0.0.1", 6443),
    ],
)
def test_endpoints_are_split_into_host_and_port(endpoint: str, host: str, port: int) -> None:
    found = kubeadm.join_command(f"kubeadm join {endpoint} --token {TOKEN} --discovery-token-ca-cert-hash {H1} ")
    assert (found.host, found.port) == (host, port)


def test_several_hashes_are_read() -> None:
    text = f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H2} --discovery-token-ca-cert-hash {H1} "
    assert kubeadm.join_command(text).ca_cert_hashes == (H1, H2)
    # The option also accepts a list.
    listed = kubeadm.join_command(f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1},{H2}")
    assert listed.ca_cert_hashes == (H1, H2)


def test_skipping_the_ca_verification_is_read() -> None:
    text = f"kubeadm join a:1 --token {TOKEN} --discovery-token-unsafe-skip-ca-verification"
    found = kubeadm.join_command(text)
    assert (found.ca_cert_hashes, found.unsafe_skip_ca_verification) == ((), True)
    refused = f"{text}=false {PINNED}"
    assert not kubeadm.join_command(refused).unsafe_skip_ca_verification


@pytest.mark.parametrize("flag", ["--control-plane", "--experimental-control-plane"])
def test_a_control_plane_command_is_read(flag: str) -> None:
    line = f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash {H1} {flag} --certificate-key {KEY}\n"
    found = kubeadm.join_command(line, control_plane=True)
    assert (found.control_plane, found.certificate_key) == (True, KEY)
    worker = kubeadm.join_command(line)
    assert (worker.control_plane, worker.certificate_key) == (False, None)


def test_workers_and_control_planes_get_their_own_command_from_inits_output() -> None:
    assert kubeadm.join_command(INIT) == JoinCommand("api.example.org", 6443, TOKEN, (H1,))
    expected = JoinCommand("api.example.org", 6443, TOKEN, (H1,), KEY, True)
    assert kubeadm.join_command(INIT, control_plane=True) == expected
    assert kubeadm.join_command(INIT_OLD) == PLAIN
    assert kubeadm.join_command(INIT_OLD, control_plane=True).control_plane


WRONG = [
    ("", "there is none"),
    ("timed out waiting for the condition", "there is none"),
    ("run `kubeadm join` on each", "there is none"),
    ('see "kubeadm join --help"', "there is none"),
    (f"mykubeadm join a:1 --token {TOKEN} {PINNED}", "there is none"),
    (f"kubeadm join [fd00::1::2]:6443 --token {TOKEN} {PINNED}", "no endpoint"),
    (f"kubeadm join 10.0.0.999:6443 --token {TOKEN} {PINNED}", "no endpoint"),
    (f"kubeadm join api..example.org:6443 --token {TOKEN} {PINNED}", "no endpoint"),
    (f"kubeadm join https://10.0.0.1:6443 --token {TOKEN} {PINNED}", "no endpoint"),
    # Versions before 1.8 pinned no CA.
    (f"kubeadm join --token {TOKEN} 10.0.0.1:6443", "no valid CA certificate hash"),
    (f"kubeadm join a:1 --token {TOKEN} --discovery-token-ca-cert-hash", "no valid CA certificate hash"),
    (f"kubeadm join a:1 --token {TOKEN} {PINNED} --discovery-token-ca-cert-hash", "no valid CA certificate hash"),
    (f"kubeadm join a:1 --token {TOKEN} {PINNED} --certificate-key", "no valid certificate key"),
    (f"kubeadm join a:1 --token {TOKEN} --token aaaaaa.aaaaaaaaaaaaaaaa {PINNED}", "no valid token"),
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
def test_an_invalid_command_is_quoted_without_its_secrets(text: str, words: str) -> None:
    with pytest.raises(KubeadmTextError, match=words) as caught:
        kubeadm.join_command(text)
    message = str(caught.value)
    assert message.startswith("Error while reading the join command of kubeadm: ")
    assert TOKEN[:-1] not in message
    assert KEY[:-1] not in message.replace(H1, "")
    assert ("a:1" in message) == ("a:1" in text)


def test_without_a_control_plane_command_none_is_derived() -> None:
    with pytest.raises(KubeadmTextError, match="none of them is for a control plane"):
        kubeadm.join_command(JOIN_FORMS["1.36"], control_plane=True)


def test_the_certificate_key_is_read() -> None:
    text = (
        "I0828 16:50:07.313959   11042 version.go:260] remote version is much newer: v1.37.0; falling back to: x\n"
        '[upload-certs] Storing the certificates in Secret "kubeadm-certs" in the "kube-system" Namespace\n'
        f"[upload-certs] Using certificate key:\n{KEY}\n"
    )
    assert kubeadm.certificate_key(text) == KEY
    with pytest.raises(KubeadmTextError, match="there is none"):
        kubeadm.certificate_key(text[:-3])
    with pytest.raises(KubeadmTextError, match="there are several"):
        kubeadm.certificate_key(f"{text}{'4d' * 32}\n")
    assert kubeadm.certificate_key(f"\x1b[32m{KEY}\x1b[0m\r\n") == KEY
    assert kubeadm.certificate_key(INIT) == KEY


def test_an_error_message_starts_at_the_error() -> None:
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
def test_an_error_message_without_an_error_line_is_returned_whole(stdout: str, stderr: str, said: str) -> None:
    assert kubeadm.complaint(stdout, stderr) == said
