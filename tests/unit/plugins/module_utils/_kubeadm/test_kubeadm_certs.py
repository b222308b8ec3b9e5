# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.certs import Certificate, expiration
from ansible_collections.gpulab.kubernetes.plugins.module_utils._kubeadm.text import KubeadmTextError
from kubeadm_texts import (
    CERTS_AUTHORITIES,
    CERTS_COLUMNS,
    CERTS_HEAD,
    CERTS_TABLE,
    CERTS_TABLE_1_15,
    CERTS_TABLE_1_17,
    KLOG,
    certificate,
    certs_json,
    table,
)

NOW = datetime(2026, 11, 20, 9, 30, 16, tzinfo=timezone.utc)
NEXT_YEAR = datetime(2027, 11, 20, 9, 30, tzinfo=timezone.utc)
SECONDS = timedelta(seconds=15)


@pytest.mark.parametrize("front", ["", CERTS_HEAD + "\n", f"{KLOG}\n"])
def test_json_output_is_read(front: str) -> None:
    found = expiration(front + certs_json(), NOW)
    expired = datetime(2026, 11, 20, 9, 30, 14, tzinfo=timezone.utc)
    assert found.certificates == (
        Certificate("admin.conf", NEXT_YEAR + SECONDS, 364, "ca", False, False),
        Certificate("apiserver", expired, -1, "ca", False, False),
        Certificate("apiserver-etcd-client", NEXT_YEAR + SECONDS, 364, "etcd-ca", True, False),
        Certificate("super-admin.conf", None, None, None, None, True),
    )
    assert [(each.name, each.days_left, each.externally_managed, each.missing) for each in found.authorities] == [
        ("ca", 3649, False, False),
        ("etcd-ca", 364, True, False),
        ("front-proxy-ca", None, None, True),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_table_output_is_read(end: str) -> None:
    found = expiration(CERTS_TABLE.replace("\n", end), NOW)
    assert found.certificates == (
        Certificate("admin.conf", NEXT_YEAR, 364, "ca", False, False),
        Certificate("apiserver", datetime(2026, 11, 20, 9, 30, tzinfo=timezone.utc), -1, "ca", False, False),
        Certificate("apiserver-etcd-client", NEXT_YEAR, 364, "etcd-ca", True, False),
        Certificate(
            "apiserver-kubelet-client", datetime(2026, 11, 21, 8, 30, tzinfo=timezone.utc), 0, "ca", False, False
        ),
        Certificate("super-admin.conf", None, None, None, None, True),
    )
    # The table shows 9y; the number of days is calculated from the date.
    assert found.authorities == (
        Certificate("ca", datetime(2036, 11, 17, 9, 30, tzinfo=timezone.utc), 3649, None, False, False),
        Certificate("etcd-ca", NEXT_YEAR, 364, None, True, False),
        Certificate("front-proxy-ca", None, None, None, None, True),
    )


def test_a_table_without_every_ca_is_read() -> None:
    found = expiration(CERTS_TABLE_1_17, NOW)
    assert [(each.name, each.ca) for each in found.certificates] == [("admin.conf", None), ("apiserver", "ca")]
    assert len(found.authorities) == 3


def test_the_table_of_the_first_version_is_read() -> None:
    found = expiration(CERTS_TABLE_1_15, NOW)
    assert [(each.name, each.days_left, each.externally_managed) for each in found.certificates] == [
        ("admin.conf", 364, False),
        ("apiserver", 364, True),
    ]
    assert found.authorities == ()


@pytest.mark.parametrize(
    ("residual", "days"),
    [
        ("364d", 364),
        ("1d", 1),
        ("23h", 0),
        ("59m", 0),
        ("0s", 0),
        ("<invalid>", -1),
        ("2y", 364),
        ("6d9h", 6),
        ("47h", 1),
        ("7h59m", 0),
        ("9m30s", 0),
        ("719d", 719),
        ("5y102d", 1927),
    ],
)
def test_residual_times_are_converted_to_days(residual: str, days: int) -> None:
    text = table(CERTS_COLUMNS, f"apiserver|Nov 20, 2027 09:30 UTC|{residual}|ca|no") + "\n" + CERTS_AUTHORITIES
    assert expiration(text, NOW).certificates[0].days_left == days


ROW = "apiserver|Nov 20, 2027 09:30 UTC|364d|ca|no"


@pytest.mark.parametrize(
    "row",
    [
        ROW.replace("UTC", "CEST"),
        ROW.replace("Nov 20", "Nov 31"),
        ROW.replace("Nov", "Foo"),
        ROW.replace("364d", "a year"),
        ROW.replace("364d", ""),
        ROW.replace("364d", "9h6d"),
        ROW.replace("364d", "6d 9h"),
        ROW.replace("364d", "365"),
        ROW.replace("no", "maybe"),
        ROW.replace("|no", "|"),
        ROW.replace("apiserver", "api server"),
        ROW.replace("|ca|", "|other-ca|"),
        "apiserver",
        "and so on",
    ],
)
def test_an_invalid_row_is_an_error(row: str) -> None:
    with pytest.raises(KubeadmTextError, match="certificates' expiration"):
        expiration(table(CERTS_COLUMNS, "admin.conf|Nov 20, 2027 09:30 UTC|364d|ca|no", row) + CERTS_AUTHORITIES, NOW)


BAD = {
    "empty": "",
    "remarks alone": CERTS_HEAD,
    "something else": "error: could not load the certificates",
    "other JSON": '{"kind": "BootstrapToken"}',
    "twice": certs_json() * 2,
    "cut JSON": certs_json()[:-10],
    "tables without rows": f"{CERTS_COLUMNS.replace('|', '   ')}\n\n{CERTS_AUTHORITIES}",
    "CAs alone": CERTS_AUTHORITIES,
    "no CAs": table(CERTS_COLUMNS, ROW),
    "no CAs, and none named": table(CERTS_COLUMNS, ROW.replace("|ca|", "||")),
    "half of the CAs": CERTS_TABLE[: CERTS_TABLE.index("etcd-ca  ", CERTS_TABLE.index("AUTHORITY   "))],
    "a table twice": CERTS_TABLE + CERTS_AUTHORITIES,
    "trailing": f"{CERTS_TABLE}Segmentation fault\n",
    "no certificates": certs_json(certificates=None),
    "no list": certs_json(certificates={"admin.conf": {}}),
    "no objects": certs_json(certificates=["admin.conf"]),
    "no name": certs_json(certificates=[certificate("")]),
    "residual time in words": certs_json(certificates=[certificate("a", residualTime="364d")]),
    "no date": certs_json(certificates=[certificate("a", expirationDate=None)]),
    "missing in words": certs_json(certificates=[certificate("a", missing="no")]),
    "managed in words": certs_json(certificates=[certificate("a", externallyManaged=None)]),
    "CA of another type": certs_json(certificates=[certificate("a", caName=["ca"])]),
    "CA that is not there": certs_json(certificateAuthorities=[certificate("etcd-ca", None)]),
}


@pytest.mark.parametrize("why", BAD)
def test_output_of_another_form_is_an_error(why: str) -> None:
    with pytest.raises(KubeadmTextError, match=r"^Error while reading the certificates' expiration of kubeadm: "):
        expiration(BAD[why], NOW)


def test_unknown_fields_of_later_versions_are_ignored() -> None:
    data = json.loads(certs_json())
    data["certificates"][0]["renewable"] = True
    assert expiration(json.dumps(data), NOW) == expiration(certs_json(), NOW)
