# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.module_utils._errors import DomainError
from ansible_collections.gpulab.kubernetes.plugins.module_utils._mappings import merged
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.errors import explained
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.queue import Queue, declared, from_api
from ansible_collections.gpulab.kubernetes.plugins.module_utils._wandb.refusals import refusals
from damaged import damaged, damaged_json
from hypothesis import given
from hypothesis import strategies as st
from support.wandb_refusals import REFUSED

DEFAULTS = {"namespace": "default", "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
URL = "https://api.wandb.ai"


@pytest.mark.parametrize(("resource", "arguments", "words"), REFUSED)
def test_settings_that_the_agent_refuses_are_named_with_their_path(
    resource: str, arguments: dict[str, Any], words: list[str]
) -> None:
    found = refusals(resource, arguments)
    assert len(found) == len(words)
    for said, word in zip(found, words):
        assert said.startswith(word)


def test_a_queue_is_converted_to_a_job_without_template_syntax() -> None:
    setting = {
        "name": "gpu",
        "variables": {"gpus": {"type": "integer", "default": 1, "maximum": 4, "minimum": None}},
        "memory": "16Gi",
        "shared_memory": "8Gi",
        "volumes": {"/cache": "gpulab-cache"},
        "env": {"HF_HOME": "/cache/hf", "N": 1},
        "node_selector": {"pool": "a"},
        "tolerations": None,
        "namespace": None,
    }
    found = declared(setting, DEFAULTS)
    assert found["template_variables"] == {"gpus": {"type": "integer", "default": 1, "maximum": 4}}
    assert (found["resource"], found["prioritization"]) == ("kubernetes", "DISABLED")
    assert found["resource_args"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "default"},
        "spec": {
            "backoffLimit": 0,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "nodeSelector": {"pool": "a"},
                    "tolerations": DEFAULTS["tolerations"],
                    "volumes": [
                        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "gpulab-cache"}},
                        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
                    ],
                    "containers": [
                        {
                            "name": "job",
                            "image": "${image_uri}",
                            "resources": {"limits": {"nvidia.com/gpu": "{{gpus}}", "memory": "16Gi"}},
                            "env": [{"name": "HF_HOME", "value": "/cache/hf"}, {"name": "N", "value": "1"}],
                            "volumeMounts": [
                                {"name": "volume-0", "mountPath": "/cache"},
                                {"name": "shared-memory", "mountPath": "/dev/shm"},
                            ],
                        }
                    ],
                }
            },
        },
    }


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ({"gpus": 2, "shared_memory": "8g", "env": {"A": 1}}, {"gpus": "2", "shm-size": "8g", "env": ["A=1"]}),
        ({"variables": {"gpus": {"type": "string"}}}, {"gpus": "{{gpus}}"}),
        ({"resource_args": {"cpus": 4}}, {"cpus": 4}),
        ({"cpu": "500m"}, {"cpus": "0.5"}),
        ({"cpu": "1.5", "memory": "8Gi"}, {"cpus": "1.5", "memory": "8589934592"}),
        ({"memory": "512m", "shared_memory": "1G"}, {"memory": "512m", "shm-size": "1000000000"}),
        ({"variables": {"memory": {"type": "string"}}}, {"memory": "{{memory}}"}),
    ],
)
def test_a_docker_queue_has_options_of_docker_run(setting: dict[str, Any], arguments: dict[str, Any]) -> None:
    found = declared({"name": "local", "type": "local-container", "priorities": True, **setting}, DEFAULTS)
    assert (found["resource"], found["prioritization"]) == ("local-container", "V0")
    assert found["resource_args"] == arguments


def test_additional_arguments_are_merged() -> None:
    base = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merged(base, {"a": {"c": [2], "e": {"f": 1}}, "d": {"g": 1}}) == {
        "a": {"b": 1, "c": [2], "e": {"f": 1}},
        "d": {"g": 1},
    }
    assert base == {"a": {"b": 1, "c": [1]}, "d": 1}


@pytest.mark.parametrize(
    "config", [{"resource_args": {"kubernetes": {"a": 1}}}, '{"resource_args":{"kubernetes":{"a":1}}}']
)
def test_a_written_queue_can_be_read_back(config: Any) -> None:
    variables = [{"name": "gpus", "schema": '{"type":"integer"}'}]
    assert from_api("q", config, "kubernetes", variables, "V0") == Queue(
        "q", "kubernetes", {"a": 1}, {"gpus": {"type": "integer"}}, "V0"
    )


@pytest.mark.parametrize(
    ("config", "variables", "words"),
    [
        ("{", [], "the queue q of W&B: it is not valid JSON"),
        ([1], [], "the queue q of W&B: it is not a JSON object"),
        ({"resource_args": 1}, [], "the arguments of the queue q of W&B: it is not a JSON object"),
        ({"resource_args": {"kubernetes": "x"}}, [], "the arguments of the queue q of W&B: it is not a JSON object"),
        ({}, {"a": 1}, "a template variable of the queue q of W&B: it is not a JSON list"),
        ({}, [{"schema": {}}], "a template variable of the queue q of W&B: name is missing or not a text"),
        ({}, [{"name": "a", "schema": "[1]"}], "a template variable of the queue q of W&B: it is not a JSON object"),
    ],
)
def test_a_queue_that_differs_from_what_was_written_is_an_error(config: Any, variables: Any, words: str) -> None:
    with pytest.raises(DomainError, match=r"^Error while reading ") as error:
        from_api("q", config, "kubernetes", variables, "V0")
    assert words in str(error.value)


@given(damaged_json('{"resource_args": {"kubernetes": {"a": 1}}}'), st.data())
def test_a_damaged_queue_is_read_or_refused_with_a_documented_error(config: str, data: st.DataObject) -> None:
    variables = data.draw(damaged([{"name": "gpus", "schema": {"type": "integer"}}]))
    with contextlib.suppress(DomainError):
        assert from_api("q", config, "kubernetes", variables, "V0").shown()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "AuthenticationError: API key must have 40+ characters, has 5.",
            "this is not a W&B API key: Authentication",
        ),
        ("AuthenticationError: Failed to verify credentials with x: invalid API key", "rejects the key: it has"),
        ('WandbApiFailedError: input: Cannot query field "upsertRunQueue" on type "Mutation".', "is too old for it"),
        ("CommError: Error fetching entity x check that you have access to this entity", "wandb_launch_entity (team)"),
        ("WandbApiFailedError: input: permission denied: entity", "may change that team"),
        ("CommError: dial tcp 192.0.2.1:443: connect: connection refused", "does not respond"),
        ("AuthenticationError: Failed to verify credentials with x: connection refused", "does not respond"),
        (
            "AuthenticationError: Failed to verify: the service process is busy and did not respond in time",
            "does not respond",
        ),
        ("Error: disk full.", "Error: disk full"),
    ],
)
def test_an_error_of_the_sdk_has_a_remedy(said: str, words: str) -> None:
    assert words in explained(said, URL, "team")


def test_all_jobs_get_the_environment_and_the_certificate_authorities() -> None:
    defaults = {**DEFAULTS, "environment": {"https_proxy": "http://p:1", "A": 1}, "authorities": "wandb-agent-ca"}
    found = declared({"name": "gpu", "env": {"A": "2", "SSL_CERT_FILE": "/own"}}, defaults)
    pod = found["resource_args"]["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "authorities", "configMap": {"name": "wandb-agent-ca"}}]
    (container,) = pod["containers"]
    assert container["volumeMounts"] == [{"name": "authorities", "mountPath": "/etc/wandb-ca", "readOnly": True}]
    assert {each["name"]: each["value"] for each in container["env"]} == {
        "REQUESTS_CA_BUNDLE": "/etc/wandb-ca/ca.crt",
        "SSL_CERT_FILE": "/own",
        "GIT_SSL_CAINFO": "/etc/wandb-ca/ca.crt",
        "https_proxy": "http://p:1",
        "A": "2",
    }
    assert refusals("kubernetes", found["resource_args"]) == []
    box = declared({"name": "box", "type": "local-container"}, defaults)
    assert box["resource_args"] == {"env": ["https_proxy=http://p:1", "A=1"]}
