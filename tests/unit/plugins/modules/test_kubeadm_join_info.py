# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.damage import SIGNERS
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.x509 import certificates, public_key_hash
from apiserver import Authority
from fake_host import FakeHost
from kubeadm_texts import H1, INIT, JOIN_FORMS, KEY, NODES, PINNED, SECRET, TOKEN, table

OLD = "oldold.0123456789abcdef"
NEW = "newnew.0123456789abcdef"

# Stores its tokens in a file, like the cluster.
KUBEADM = """
import json, pathlib, sys
root = pathlib.Path({root!r})
with (root / "log").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
print("W1120 10:00:00.000000 1 x.go:1] noise", file=sys.stderr)
if sys.argv[1:3] == ["token", "list"] and (root / "no-json").exists() and "-o" in sys.argv:
    sys.exit("Error: unknown shorthand flag: 'o' in -o")
elif sys.argv[1:3] == ["token", "list"]:
    print((root / "tokens").read_text(), end="")
elif sys.argv[1:3] == ["token", "create"]:
    with (root / "tokens").open("a") as tokens:
        tokens.write((root / "new").read_text())
    print((root / "command").read_text(), end="")
elif sys.argv[1:4] == ["init", "phase", "upload-certs"]:
    print('[upload-certs] Storing the certificates in Secret "kubeadm-certs" in the "kube-system" Namespace')
    print("[upload-certs] Using certificate key:\\n{key}")
elif sys.argv[1:3] == ["token", "delete"] and "\\"" + sys.argv[3] + "." in (root / "tokens").read_text():
    (root / "tokens").write_text("")
else:
    sys.exit(9)
"""


def token(name: str, life: timedelta | None = timedelta(hours=2), **changes: Any) -> str:
    data: dict[str, Any] = {
        "kind": "BootstrapToken",
        "token": name,
        "usages": ["authentication", "signing"],
        "groups": ["system:bootstrappers:kubeadm:default-node-token"],
    }
    if life is not None:
        data["expires"] = (datetime.now(timezone.utc) + life).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({**data, **changes}, indent=4) + "\n"


class ControlPlane(FakeHost):  # type: ignore[misc]
    def __init__(self, root: Path, programs: Any, run: Any, authority: Authority) -> None:
        super().__init__(root, programs, run)
        root.mkdir()
        self.hash = authority.hash
        self.kubeconfig = root / "admin.conf"
        self.kubeconfig.write_text(authority.kubeconfig("https://api.example.org:6443"))
        (root / "tokens").write_text("")
        (root / "new").write_text(token(NEW, timedelta(hours=1)))
        self.prints(f"kubeadm join api.example.org:6443 --token {NEW} --discovery-token-ca-cert-hash {self.hash} \n")
        programs.python("kubeadm", KUBEADM.replace("{root!r}", repr(str(root))).replace("{key}", KEY))

    def prints(self, text: str) -> None:
        (self.root / "command").write_text(text)

    def has(self, *found: str) -> None:
        (self.root / "tokens").write_text("".join(found))

    def run(self, check: bool = False, **options: Any) -> dict[str, Any]:
        args = {"kubeconfig": str(self.kubeconfig), **options}
        result: dict[str, Any] = self._run("kubeadm_join_info", args, check=check)
        return result

    @property
    def creates(self) -> list[str]:
        return [line for line in self.log if line.startswith("token create")]


@pytest.fixture
def cp(tmp_path: Path, programs: Any, run_module: Any, authority: Authority) -> ControlPlane:
    return ControlPlane(tmp_path / "cp", programs, run_module, authority)


def test_a_token_is_created_and_then_reused(cp: ControlPlane) -> None:
    predicted = cp.run(check=True)
    assert (predicted["changed"], predicted["token"]) == (True, None)
    assert predicted["api_endpoint"] == {"host": "api.example.org", "port": 6443}
    assert predicted["ca_cert_hashes"] == [cp.hash]
    assert public_key_hash(certificates(predicted["ca_certificates"])[0]) == cp.hash
    assert cp.creates == []
    made = cp.run()
    assert (made["changed"], made["token"], made["reused"]) == (True, NEW, False)
    described = "--description made by gpulab.kubernetes"
    assert cp.creates == [f"token create --ttl 1h --print-join-command {described} --kubeconfig {cp.kubeconfig}"]
    again = cp.run()
    assert (again["changed"], again["token"], again["reused"]) == (False, NEW, True)
    same = ("api_endpoint", "ca_cert_hashes", "expires", "certificate_key", "control_plane")
    assert {key: again[key] for key in same} == {key: made[key] for key in same}
    assert made["expires"].endswith("Z")
    assert (made["certificate_key"], made["control_plane"], made["unsafe_skip_ca_verification"]) == (None, False, False)
    assert len(cp.creates) == 1


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ([token(OLD)], OLD),
        ([token(OLD, None)], OLD),
        ([token("aaaaaa.0123456789abcdef", timedelta(minutes=30)), token(OLD)], OLD),
        ([token(OLD, timedelta(minutes=5))], NEW),
        ([token(OLD, timedelta(minutes=-5))], NEW),
        ([token(OLD, usages=["signing"])], NEW),
        ([token(OLD, groups=["system:bootstrappers:other"])], NEW),
        ([token(OLD, timedelta(hours=12)), token("zzzzzz.0123456789abcdef", usages=None, groups=None)], OLD),
    ],
)
def test_only_a_suitable_token_is_reused(cp: ControlPlane, found: list[str], chosen: str) -> None:
    cp.has(*found)
    assert cp.run()["token"] == chosen


def test_a_token_is_deleted_by_its_id(cp: ControlPlane) -> None:
    cp.has(token(OLD))
    assert cp.run(check=True, delete="oldold")["changed"]
    assert cp.log == []
    assert cp.run(delete="oldold")["changed"]
    assert cp.log == [f"token delete oldold --kubeconfig {cp.kubeconfig}"]
    # It expires in any case.
    result = cp.run(delete="oldold")
    assert (result["failed"], result["changed"]) == (False, False)
    assert "The token is valid until it expires." in json.dumps(result["warnings"])


def test_an_unreadable_list_of_tokens_is_a_warning(cp: ControlPlane) -> None:
    cp.has(token(OLD)[:-20])
    result = cp.run()
    assert (result["token"], result["expires"]) == (NEW, None)
    warnings = json.dumps(result["warnings"])
    assert "A new token is created instead of reusing an existing one" in warnings
    assert "its expiry time is unknown" in warnings
    assert OLD not in json.dumps(result)


def test_tokens_of_an_older_kubeadm_are_reused(cp: ControlPlane) -> None:
    expires = (datetime.now(timezone.utc) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    row = f"{OLD}|2h|{expires}|authentication,signing|<none>|{NODES}"
    cp.has(table("TOKEN|TTL|EXPIRES|USAGES|DESCRIPTION|EXTRA GROUPS", row))
    (cp.root / "no-json").touch()
    result = cp.run()
    assert (result["token"], result["expires"], result["reused"]) == (OLD, expires, True)
    assert cp.creates == []


def test_reusing_tokens_can_be_disabled(cp: ControlPlane) -> None:
    cp.has(token(OLD))
    assert cp.run(reuse=False)["token"] == NEW
    assert cp.run(reuse=False, check=True)["changed"]


def test_the_minimum_life_and_the_ttl_can_be_changed(cp: ControlPlane) -> None:
    cp.has(token(OLD, timedelta(minutes=5)))
    assert cp.run(min_life=60)["token"] == OLD
    cp.run(min_life=3600, ttl="30m", description="")
    assert cp.creates == [f"token create --ttl 30m --print-join-command --kubeconfig {cp.kubeconfig}"]


def test_a_control_plane_gets_the_key_of_new_certificates(cp: ControlPlane) -> None:
    assert cp.run(control_plane=True, check=True)["certificate_key"] is None
    result = cp.run(control_plane=True)
    assert (result["certificate_key"], result["control_plane"], result["token"]) == (KEY, True, NEW)
    again = cp.run(control_plane=True)
    assert (again["changed"], again["reused"]) == (True, True)
    assert not any(KEY in line for line in cp.log), "secrets don't belong into the process list"


def test_a_control_plane_that_does_not_exist_yet_is_reported(cp: ControlPlane) -> None:
    cp.kubeconfig.unlink()
    predicted = cp.run(check=True)
    assert predicted["changed"]
    assert predicted["api_endpoint"] == {"host": None, "port": None}
    assert (predicted["token"], predicted["ca_cert_hashes"], predicted["expires"]) == (None, [], None)
    assert predicted["ca_certificates"] is None
    assert cp.log == []


def test_check_mode_works_without_kubeadm_on_a_bare_host(cp: ControlPlane) -> None:
    cp.kubeconfig.unlink()
    assert cp.run(check=True, executable="kubeadm-is-not-here")["changed"]


def test_the_printed_command_is_sufficient_without_a_kubeconfig(cp: ControlPlane) -> None:
    cp.kubeconfig.unlink()
    cp.prints(f"kubeadm join [fd00::1]:6443 --token {NEW}     --discovery-token-ca-cert-hash {cp.hash} \n")
    result = cp.run()
    assert (result["api_endpoint"], result["token"]) == ({"host": "fd00::1", "port": 6443}, NEW)


def test_an_error_about_an_unreadable_command_shows_no_secret(cp: ControlPlane) -> None:
    cp.prints(f"kubeadm join api.example.org --token {NEW} --discovery-token-ca-cert-hash {cp.hash}\n")
    result = cp.run()
    assert result["failed"]
    assert "it names no endpoint host:port: kubeadm join api.example.org --token ********" in result["msg"]
    assert NEW not in json.dumps(result)


def test_a_failure_of_kubeadm_is_reported_without_secrets(cp: ControlPlane, programs: Any) -> None:
    programs.add("kubeadm", f'echo "error: timed out waiting for the condition ({OLD})" >&2; exit 1')
    result = cp.run()
    assert result["msg"] == "Error while listing the join tokens: error: timed out waiting for the condition (********)"
    assert result["rc"] == 1
    assert OLD not in json.dumps(result)


# Prints the same output for any arguments, to replay a recording.
def prints_always(programs: Any, text: str, rc: int = 0) -> None:
    programs.python("kubeadm", f"import sys\nsys.stdout.write({text!r})\nsys.exit({rc})")


@pytest.mark.parametrize("form", JOIN_FORMS)
def test_every_form_of_the_join_command_is_read(cp: ControlPlane, programs: Any, form: str) -> None:
    cp.kubeconfig.unlink()
    prints_always(programs, JOIN_FORMS[form])
    result = cp.run()
    assert not result["failed"], result["msg"]
    assert result["api_endpoint"] == {"host": "10.0.0.1", "port": 6443}
    assert (result["token"], result["ca_cert_hashes"]) == (TOKEN, [H1])
    assert (result["control_plane"], result["certificate_key"], result["reused"]) == (False, None, False)


def test_a_worker_gets_its_own_command_from_inits_output(cp: ControlPlane, programs: Any) -> None:
    cp.kubeconfig.unlink()
    prints_always(programs, INIT)
    result = cp.run()
    assert (result["control_plane"], result["certificate_key"]) == (False, None)
    assert KEY not in json.dumps(result)
    assert cp.run(control_plane=True)["certificate_key"] == KEY


@pytest.mark.parametrize(
    ("text", "rc", "words"),
    [
        ("", 0, "there is none in ''"),
        (
            f"kubeadm join 10.0.0.1:6443 --token {TOKEN[:-1]} {PINNED}",
            0,
            "it has no valid token: kubeadm join 10.0.0.1:6443 --token ********",
        ),
        (
            f"kubeadm join --token {TOKEN} 10.0.0.1:6443",
            0,
            "it has no valid CA certificate hash: kubeadm join --token ********",
        ),
        (f"kubeadm join 10.0.0.1 --tokens {TOKEN[:-1]} {PINNED}", 0, "it names no endpoint"),
        (f"{TOKEN}\n", 0, "there is none in '********"),
        (f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}", 1, "Error while creating a join token: kubeadm join"),
    ],
)
def test_no_error_shows_a_secret(cp: ControlPlane, programs: Any, text: str, rc: int, words: str) -> None:
    cp.kubeconfig.unlink()
    prints_always(programs, text, rc)
    result = cp.run()
    assert words in result["msg"]
    assert SECRET[:-1] not in json.dumps(result)


def test_a_list_that_fails_after_the_token_was_created_is_not_a_failure(cp: ControlPlane, programs: Any) -> None:
    cp.kubeconfig.unlink()
    command = f"kubeadm join 10.0.0.1:6443 --token {TOKEN} {PINNED}"
    programs.add("kubeadm", f'test "$2" = create && echo "{command}" || {{ echo "error: no ({TOKEN})" >&2; exit 1; }}')
    result = cp.run()
    assert (result["token"], result["expires"]) == (TOKEN, None)
    said = "Error while listing the join tokens: error: no (********). The new token is valid nevertheless"
    assert said in json.dumps(result["warnings"])
    assert SECRET not in json.dumps(result["warnings"])


@pytest.mark.parametrize("text", ["clusters: []\n", "server: x: y\n  -", "{"])
def test_an_unreadable_kubeconfig_is_named(cp: ControlPlane, text: str) -> None:
    cp.kubeconfig.write_text(text)
    assert f"({cp.kubeconfig})" in cp.run()["msg"]
    assert cp.log == []


def test_a_hung_kubeadm_is_an_error(cp: ControlPlane, programs: Any) -> None:
    programs.add("kubeadm", "sleep 600")
    assert "kubeadm: no response within 1 s, so it was killed" in cp.run(timeout=1)["msg"]


def test_the_keys_of_the_control_planes_are_returned_on_request(cp: ControlPlane) -> None:
    texts = {path: f"text of {path}\n" for path in SIGNERS}
    for path, text in texts.items():
        place = cp.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    found = cp.run(pki=True, root=str(cp.root))
    assert found["pki"] == texts and found["certificate_key"] is None
    assert not any("upload-certs" in line for line in cp.log)
    assert cp.run(root=str(cp.root))["pki"] == {} == cp.run(check=True, pki=True, root=str(cp.root))["pki"]
    (cp.root / "etc/kubernetes/pki/etcd/ca.key").write_text("")
    failed = cp.run(pki=True, root=str(cp.root))
    assert failed["failed"] and "/etc/kubernetes/pki/etcd/ca.key can't be read" in failed["msg"]
