# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._backup.manifest import (
    DATABASE,
    REQUIRED,
    ArchiveName,
    Manifest,
    Part,
    archive_name,
    check_part,
    read_archive_name,
    read_manifest,
    write_manifest,
)
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError

MANIFEST = Manifest(
    cluster="lab",
    ca="sha256:" + "a" * 64,
    node="control1",
    kubernetes="1.36.5",
    etcd="3.6.6",
    collection="0.3.0-dev",
    revision=4711,
    keys=321,
    taken="2026-11-28T12:00:00Z",
    parts={name: Part("b" * 64, 10) for name in (*REQUIRED, "record/cluster.json")},
)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert read_manifest(write_manifest(MANIFEST)) == MANIFEST


def changed(*path: str, to: Any) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return change


def without(*path: str) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        del value[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed("format", to=2), "it has format 2, but this version of the collection reads format 1"),
        (changed("format", to="1"), "format is missing or not a valid number"),
        (changed("format", to=True), "format is missing or not a valid number"),
        (without("format"), "format is missing or not a valid number"),
        (without("cluster"), "it is not a JSON object"),
        (without("cluster", "ca"), "ca is missing or not a text"),
        (changed("cluster", "ca", to="sha256:short"), "ca is not valid: 'sha256:short'"),
        (changed("cluster", "name", to="../lab"), "name is not valid: '../lab'"),
        (changed("node", to="a/b"), "node is not valid: 'a/b'"),
        (changed("versions", "etcd", to="3.6; reboot"), "etcd is not valid: '3.6; reboot'"),
        (without("versions", "kubernetes"), "kubernetes is missing or not a text"),
        (changed("revision", to=0), "revision is missing or not a valid number"),
        (changed("revision", to=True), "revision is missing or not a valid number"),
        (changed("keys", to=-1), "keys is missing or not a valid number"),
        (changed("keys", to=2**63), "keys is missing or not a valid number"),
        (changed("taken", to="yesterday"), "taken is not a time: 'yesterday'"),
        (changed("parts", to=[]), "it is not a JSON object"),
        (without("parts", DATABASE), "the backup is incomplete: etcd.db is not in it"),
        (without("parts", "pki/sa.key"), "the backup is incomplete: pki/sa.key is not in it"),
        (changed("parts", DATABASE, "sha256", to="0"), "sha256 is not valid: '0'"),
        (changed("parts", DATABASE, "size", to=-1), "size is missing or not a valid number"),
        (changed("parts", "pki/../../etc/passwd", to={}), "'pki/../../etc/passwd' is not the name of a part"),
        (changed("parts", "/etc/passwd", to={}), "'/etc/passwd' is not the name of a part"),
        (changed("parts", "pki/", to={}), "'pki/' is not the name of a part"),
    ],
)
def test_each_kind_of_damage_is_named(change: Callable[[Any], None], why: str) -> None:
    value = json.loads(write_manifest(MANIFEST))
    change(value)
    with pytest.raises(DomainError) as refused:
        read_manifest(json.dumps(value))
    assert str(refused.value).startswith("Error while reading ")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is not valid JSON"),
        (write_manifest(MANIFEST)[:-20], "it is not valid JSON"),
        ("[]", "it is not a JSON object"),
        ("[" * 100_000, "it is nested too deeply"),
        (" " * 2**20 + "{}", "it is too large"),
    ],
    ids=["empty", "truncated", "list", "deep", "large"],
)
def test_a_text_that_is_no_manifest_is_refused(text: str, why: str) -> None:
    with pytest.raises(DomainError, match=why):
        read_manifest(text)


def test_values_that_could_not_be_read_again_are_not_written() -> None:
    with pytest.raises(DomainError, match=r"the manifest of the new backup: revision is missing"):
        write_manifest(replace(MANIFEST, revision=0))


@pytest.mark.parametrize(
    ("name", "found", "why"),
    [
        ("record/other.json", Part("b" * 64, 10), "the manifest does not list it"),
        (DATABASE, Part("b" * 64, 9), "it has 9 bytes instead of 10"),
        (DATABASE, Part("c" * 64, 10), "it was changed, its checksum is wrong"),
    ],
)
def test_another_file_than_the_listed_one_is_refused(name: str, found: Part, why: str) -> None:
    check_part(MANIFEST, DATABASE, Part("b" * 64, 10))
    with pytest.raises(DomainError) as refused:
        check_part(MANIFEST, name, found)
    assert str(refused.value) == f"Error while reading {name} in the backup: {why}"


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_name_of_an_archive_is_read_as_it_was_written(encrypted: bool) -> None:
    name = archive_name("my-lab", "2026-11-28T12:00:00Z", encrypted)
    assert name == "gpulab-my-lab-20261128T120000Z.tar" + (".age" if encrypted else "")
    assert read_archive_name(name) == ArchiveName("my-lab", "2026-11-28T12:00:00Z", encrypted)


@pytest.mark.parametrize(
    "name",
    ["", "gpulab-lab.tar", "gpulab-lab-20261328T120000Z.tar", ".gpulab-lab-20261128T120000Z.tar.x", "lab.tar.age"],
)
def test_other_files_are_not_taken_for_archives(name: str) -> None:
    assert read_archive_name(name) is None
