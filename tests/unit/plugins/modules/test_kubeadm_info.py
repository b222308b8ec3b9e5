# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import kubeadm_texts as texts
import pytest

# Prints the recorded output of its version for a command, and refuses later options like cobra.
KUBEADM = """
import pathlib, sys
root = pathlib.Path({root!r})
with (root / "log").open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
words = [word for word in sys.argv[1:] if word != "--kubeconfig" and not word.endswith(".conf")]
known = root / "-".join(words)
if known.exists() and not (root / "no-kubeconfig").exists() or known.exists() and "--kubeconfig" not in sys.argv:
    print("W1120 10:00:00.000000 1 x.go:1] noise", file=sys.stderr)
    print(known.read_text(), end="")
elif "-o" in words:
    sys.exit("Error: unknown shorthand flag: 'o' in -o\\nUsage: kubeadm " + words[0])
elif known.exists():
    sys.exit("Error: unknown flag: --kubeconfig")
else:
    sys.exit('Error: unknown command "' + words[0] + '" for "kubeadm"')
"""
ADMIN = "/etc/kubernetes/admin.conf"


class Kubeadm:
    def __init__(self, root: Path, programs: Any, run: Any) -> None:
        root.mkdir()
        self.root = root
        self._run = run
        programs.python("kubeadm", KUBEADM.replace("{root!r}", repr(str(root))))

    def prints(self, call: str, text: str) -> None:
        (self.root / call.replace(" ", "-")).write_text(text)

    def run(self, *subjects: str, check: bool = False, **options: Any) -> dict[str, Any]:
        asked = {"gather": list(subjects)} if subjects else {}
        result: dict[str, Any] = self._run("kubeadm_info", {**asked, **options}, check=check)
        return result

    def host(self, **options: Any) -> dict[str, Any]:
        result: dict[str, Any] = self._run("gpu_host_info", options)
        return result

    @property
    def log(self) -> list[str]:
        return (self.root / "log").read_text().splitlines()


@pytest.fixture
def kubeadm(tmp_path: Path, programs: Any, run_module: Any) -> Kubeadm:
    return Kubeadm(tmp_path / "kubeadm", programs, run_module)


def later(**life: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(**life)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize("check", [False, True])
def test_tokens_are_returned(kubeadm: Kubeadm, check: bool) -> None:
    expires = later(hours=1)
    listed = texts.token_json(expires=expires, description="ours")
    listed += texts.token_json("abcdef.0123456789abcdef", expires=None, usages=["signing"])
    listed += texts.token_json("zzzzzz.z1z2z3z4z5z6z7z8", expires=later(hours=-1), groups=None)
    kubeadm.prints("token list -o json", listed)
    result = kubeadm.run("tokens", check=check)
    assert not result["failed"] and not result["changed"]
    ours, forever, expired = result["tokens"]
    assert 3500 < ours.pop("ttl") <= 3600
    assert ours == {
        "id": "8l4jks",
        "description": "ours",
        "usages": ["authentication", "signing"],
        "groups": [texts.NODES],
        "expires": expires,
        "lets_join": True,
    }
    assert (forever["id"], forever["ttl"], forever["expires"]) == ("abcdef", None, None)
    assert not forever["lets_join"], "it can't authenticate"
    assert (expired["ttl"], expired["lets_join"], expired["groups"]) == (0, False, [])
    assert texts.SECRET not in json.dumps(result)
    assert kubeadm.log == [f"token list -o json --kubeconfig {ADMIN}"]


def test_an_empty_list_of_tokens_is_returned(kubeadm: Kubeadm) -> None:
    kubeadm.prints("token list -o json", "")
    assert kubeadm.run("tokens")["tokens"] == []


def test_tokens_of_an_older_kubeadm_are_returned(kubeadm: Kubeadm) -> None:
    kubeadm.prints("token list", texts.TOKEN_TABLE)
    result = kubeadm.run("tokens", kubeconfig="/other.conf")
    assert [token["id"] for token in result["tokens"]] == ["8l4jks", "abcdef", "zzzzzz"]
    assert texts.SECRET not in json.dumps(result)
    assert kubeadm.log == ["token list -o json --kubeconfig /other.conf", "token list --kubeconfig /other.conf"]


def test_an_error_about_unreadable_tokens_shows_no_secret(kubeadm: Kubeadm) -> None:
    kubeadm.prints("token list -o json", texts.token_json() + f"and {texts.TOKEN} too\n")
    result = kubeadm.run("tokens")
    assert (
        "Error while reading the bootstrap tokens of kubeadm: there is other text between or after JSON objects"
        in result["msg"]
    )
    assert "'and ******** too'" in result["msg"]
    assert texts.SECRET not in json.dumps(result)


@pytest.mark.parametrize("check", [False, True])
def test_certificates_are_returned(kubeadm: Kubeadm, check: bool) -> None:
    kubeadm.prints("certs check-expiration -o json", texts.certs_json())
    result = kubeadm.run("certificates", check=check)
    assert not result["failed"] and not result["changed"]
    assert result["certificates"][0] == {
        "name": "admin.conf",
        "expires": "2027-11-20T09:30:15Z",
        "days_left": 364,
        "ca": "ca",
        "externally_managed": False,
        "missing": False,
    }
    assert [each["days_left"] for each in result["certificates"]] == [364, -1, 364, None]
    assert result["certificates"][3]["missing"]
    assert result["certificate_authorities"][0] == {
        "name": "ca",
        "expires": "2036-11-17T09:30:15Z",
        "days_left": 3649,
        "externally_managed": False,
        "missing": False,
    }
    assert kubeadm.log == [f"certs check-expiration -o json --kubeconfig {ADMIN}"]


@pytest.mark.parametrize(
    ("call", "text", "bare", "calls"),
    [
        ("certs check-expiration", texts.CERTS_TABLE, False, 2),
        ("alpha certs check-expiration", texts.CERTS_TABLE_1_17, False, 3),
        ("alpha certs check-expiration", texts.CERTS_TABLE_1_15, True, 4),
    ],
)
def test_certificates_of_an_older_kubeadm_are_returned(
    kubeadm: Kubeadm, call: str, text: str, bare: bool, calls: int
) -> None:
    kubeadm.prints(call, text)
    if bare:
        (kubeadm.root / "no-kubeconfig").touch()
    result = kubeadm.run("certificates")
    assert result["certificates"][0]["name"] == "admin.conf"
    assert result["certificates"][0]["days_left"] == 364
    assert len(kubeadm.log) == calls


def test_tokens_and_certificates_are_returned_by_default(kubeadm: Kubeadm) -> None:
    kubeadm.prints("certs check-expiration -o json", texts.certs_json())
    kubeadm.prints("token list -o json", texts.token_json())
    result = kubeadm.run()
    assert result["tokens"] == kubeadm.run("tokens")["tokens"] and len(result["certificates"]) == 4
    assert "tokens" not in kubeadm.run("certificates")


def test_a_table_in_place_of_json_is_read(kubeadm: Kubeadm) -> None:
    kubeadm.prints("certs check-expiration -o json", texts.CERTS_TABLE)
    assert len(kubeadm.run("certificates")["certificates"]) == 5


def test_unreadable_certificates_are_an_error(kubeadm: Kubeadm) -> None:
    kubeadm.prints("certs check-expiration -o json", texts.certs_json()[:300])
    assert kubeadm.run("certificates")["msg"].startswith(
        "Error while reading the certificates' expiration of kubeadm: "
    )


def test_the_combined_host_information_has_the_certificates_or_an_error(kubeadm: Kubeadm) -> None:
    kubeadm.prints("certs check-expiration -o json", texts.certs_json())
    found = kubeadm.host(certificates=True)["certificates"]
    asked = kubeadm.run("certificates")
    assert found == {key: asked[key] for key in ("certificates", "certificate_authorities")}
    kubeadm.prints("certs check-expiration -o json", texts.certs_json()[:300])
    found = kubeadm.host(certificates=True)["certificates"]
    assert found == {"msg": kubeadm.run("certificates")["msg"]}
    assert kubeadm.host()["certificates"] == {}


@pytest.mark.parametrize("subject", ["tokens", "certificates"])
def test_failures_of_kubeadm_are_reported(kubeadm: Kubeadm, programs: Any, subject: str) -> None:
    other = programs.add("other", f'echo "error: connection refused ({texts.TOKEN})" >&2; exit 1')
    result = kubeadm.run(subject, executable=str(other))
    assert result["msg"].endswith(": error: connection refused (********)")
    assert result["rc"] == 1
    assert texts.SECRET not in json.dumps(result)
    assert "there is no such program on this host" in kubeadm.run(subject, executable="kubeadm-is-not-here")["msg"]
    programs.add("other", "sleep 600")
    assert (
        "other: no response within 1 s, so it was killed"
        in kubeadm.run(subject, executable=str(other), timeout=1)["msg"]
    )
    programs.add("other", "kill -SEGV $$")
    assert kubeadm.run(subject, executable=str(other))["rc"] == -11
