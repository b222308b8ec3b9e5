# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines as people enter them, on the command line and as answers."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.machines import (
    Machine,
    read_machines,
    read_user,
)
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._new_cluster.questions import ask_machines, ask_user
from hypothesis import given
from hypothesis import strategies as st

CP1, GPU1 = Machine("cp1", "192.0.2.11"), Machine("gpu1", "192.0.2.21", 4)


@pytest.mark.parametrize(
    ("text", "machine"),
    [
        ("cp1:192.0.2.11", CP1),
        ("gpu1:192.0.2.21:4", GPU1),
        (" gpu1 : 192.0.2.21 : 4 ", GPU1),
        ("gpu1 192.0.2.21 4", GPU1),
        ("gpu1", Machine("gpu1", "gpu1")),
        ("gpu1.example.org", Machine("gpu1.example.org", "gpu1.example.org")),
        ("GPU-1:gpu1.example.org:8", Machine("GPU-1", "gpu1.example.org", 8)),
        ("4090box:127.0.0.1:1", Machine("4090box", "127.0.0.1", 1)),
    ],
)
def test_a_machine_has_a_name_an_address_and_optionally_a_number_of_gpus(text: str, machine: Machine) -> None:
    assert read_machines([text]) == read_machines(text) == ([machine], [])


@pytest.mark.parametrize(
    "given",
    [
        "cp1:192.0.2.11,gpu1:192.0.2.21:4",
        ["cp1:192.0.2.11", None, "gpu1:192.0.2.21:4"],
        [{"cp1": "192.0.2.11"}, {"gpu1": "192.0.2.21:4"}],
        {"cp1": "192.0.2.11", "gpu1": "192.0.2.21:4"},
    ],
)
def test_machines_can_be_parsed_from_yaml(given: object) -> None:
    assert read_machines(given) == ([CP1, GPU1], [])


@pytest.mark.parametrize(
    ("text", "what", "do"),
    [
        ("", "No machine was given", "NAME:ADDRESS:GPUS"),
        (" , ,", "No machine was given", "NAME:ADDRESS:GPUS"),
        ("cp1:", "The address is missing", "cp1:192.0.2.21:4"),
        ("gpu1:4", "4 is not an address", "gpu1:192.0.2.21:4, or the name twice"),
        ("gpu1::4", "The address is missing", "the name twice"),
        ("192.0.2.11", "192.0.2.11 is an address in place of a name", "cp1:192.0.2.11"),
        ("192.0.2.11:cp1", "192.0.2.11 is an address in place of a name", "cp1:192.0.2.11"),
        ("cp1:2001:db8::1", "It contains an IPv6 address", "IPv4"),
        ("cp1:[2001:db8::1]:2", "It contains an IPv6 address", "IPv4"),
        ("cp1:2001:db8:0:0:0:0:0:1:2", "It contains an IPv6 address", "IPv4"),
        ("cp1:fe80::1%eth0", "It contains an IPv6 address", "IPv4"),
        ("fe80::1", "It contains an IPv6 address", "IPv4"),
        ("::1", "It contains an IPv6 address", "IPv4"),
        ("cp1:192.0.2.321", "'192.0.2.321' is not a valid IPv4 address or name", "DNS"),
        ("cp1:192.0.2", "'192.0.2' is not a valid IPv4 address or name", "DNS"),
        ("cp1:0x10", "'0x10' is not a valid IPv4 address or name", "DNS"),
        ("cp1:gpu_1", "'gpu_1' is not a valid IPv4 address or name", "DNS"),
        ("cp1:192.0.2.0/24", "'192.0.2.0/24' is a network", "without the length"),
        ("cp1:0.0.0.0", "0.0.0.0 is not the address of a single machine", "its own"),
        ("cp1:255.255.255.255", "255.255.255.255 is not the address of a single machine", "its own"),
        ("cp1:http://192.0.2.11", "It contains a URL", "NAME:ADDRESS"),
        ("cp1:admin@192.0.2.11", "A user does not belong here", "init_user"),
        ("cp1:192.0.2.11:4:5", "It has too many parts", "commas"),
        ("cp1:192.0.2.11 gpu1:192.0.2.21", "It has too many parts", "commas"),
        ("gpu_1:192.0.2.21", "'gpu_1' is not a valid name for a host", "letters"),
        ("-gpu1:192.0.2.21", "'-gpu1' is not a valid name for a host", "letters"),
        ("gpu1.:192.0.2.21", "'gpu1.' is not a valid name for a host", "letters"),
        (f"{'g' * 64}:192.0.2.21", "is not a valid name for a host", "letters"),
        ("gpü:192.0.2.21", "'gpü' is not a valid name for a host", "letters"),
        ("17:192.0.2.21", "'17' is not a valid name for a host", "letters"),
        ("{{x}}:192.0.2.21", "is not a valid name for a host", "letters"),
        ("Workers:192.0.2.21", "The name Workers is reserved", "gpu1"),
        ("localhost:127.0.0.1", "The name localhost is reserved", "gpu1"),
        ("gpu1:192.0.2.21:0", "'0' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:-1", "'-1' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:04", "'04' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:four", "'four' is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:٤", "is not a number of GPUs from 1 to 64", "leave the number out"),
        ("gpu1:192.0.2.21:2222", "'2222' is not a number of GPUs from 1 to 64", "ansible_port"),
        ("gpu1:192.0.2.21:", "The number of GPUs is missing", "leave the number out"),
        ("a:192.0.2.1,A:192.0.2.2", "2 machines have the name a", "its own name"),
        ("a:192.0.2.1,b:192.0.2.1", "2 machines have the address 192.0.2.1", "its own address"),
    ],
)
def test_an_invalid_machine_is_reported_with_the_correct_form(text: str, what: str, do: str) -> None:
    _machines, problems = read_machines([text])
    assert len(problems) == 1
    assert what in problems[0].what and do in problems[0].do
    assert problems[0].where == "init_hosts" and problems[0].why


def test_every_problem_of_every_machine_is_reported_together() -> None:
    _machines, problems = read_machines(["gpu_1:192.0.2.999:x", "cp1:192.0.2.11,cp1:fe80::1"])
    assert [problem.kind for problem in problems] == ["name_wrong", "address_wrong", "gpus_wrong", "ipv6", "name_twice"]
    assert problems[-1].host == "cp1:192.0.2.11, cp1:fe80::1"


@pytest.mark.parametrize("text", ["admin:secret@192.0.2.11", "gpu1:admin:secret@gpu1:4", "https://a:secret@b/"])
def test_no_problem_repeats_a_password(text: str) -> None:
    problems = [*read_machines([text])[1], *read_user(text)]
    assert problems and "secret" not in repr(problems)


@given(st.text())
def test_any_text_is_accepted_or_reported(text: str) -> None:
    machines, problems = read_machines([text])
    assert machines or problems
    if not problems:
        assert all(re.fullmatch(r"[A-Za-z0-9.-]+", machine.name + machine.address) for machine in machines)


@pytest.mark.parametrize("user", ["admin", "_apt", "ada.lovelace", "Ada-1"])
def test_a_user_name_is_read(user: str) -> None:
    assert read_user(user) == []


@pytest.mark.parametrize(
    "user", ["", " ", "a b", "-x", "ada@gpu1", "ada:secret", "{{ user }}", "a\nb", "1ada", "a" * 33]
)
def test_an_invalid_user_name_is_refused(user: str) -> None:
    (problem,) = read_user(user)
    assert (problem.kind, problem.where) == ("user_wrong", "init_user")


def asked(answers: Sequence[str], user: str = "") -> tuple[list[Machine], str, list[str], list[str]]:
    questions: list[str] = []
    told: list[str] = []
    left = iter(answers)

    def ask(question: str) -> str:
        questions.append(question)
        return next(left)

    return ask_machines(ask, told.append), ask_user(ask, told.append, user), questions, told


def test_questions_end_with_an_empty_answer_and_the_user() -> None:
    machines, user, questions, _told = asked(["cp1:192.0.2.11", "gpu1 192.0.2.21 4", "", "admin"])
    assert (machines, user) == ([CP1, GPU1], "admin")
    titles = ["Control plane", "GPU host 1", "GPU host 2", "User"]
    assert [question[: len(title)] for question, title in zip(questions, titles, strict=True)] == titles


def test_an_invalid_answer_is_asked_again_and_valid_answers_are_kept() -> None:
    answers = ["", "cp1:fe80::1", "cp1:192.0.2.11", "gpu1:192.0.2.11:4", "gpu1:192.0.2.21:4", "", "a@b", ""]
    machines, user, questions, told = asked(answers, user="ada")
    assert (machines, user) == ([CP1, GPU1], "ada")
    assert len(questions) == len(answers) and "[ada]" in questions[-1]
    for words in ("No machine was given", "IPv6", "cp1, gpu1: 2 machines have the address", "not a valid name for"):
        assert words in "\n".join(told)


def test_a_control_plane_can_be_the_only_machine() -> None:
    assert asked(["cp1:192.0.2.11", "", "admin"])[0] == [CP1]
