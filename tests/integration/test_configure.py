"""playbooks/awx_configure.yml against a stand-in for AWX's API: what it makes, a second run, check mode, errors."""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from support import awx_stand_in
from support.awx_stand_in import StandIn
from support.hosts import ROOT
from support.play import Run, play

TOOLS = ROOT / ".cache" / "venv-awx" / "bin"
PROJECT_URL = "https://git.example.org/cluster.git"
Configure = Callable[..., Run]


def wanted(name: str) -> dict[str, list[dict[str, str]]]:
    loaded: dict[str, list[dict[str, str]]] = yaml.safe_load((ROOT / "awx" / f"{name}.yml").read_text())
    return loaded


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    subprocess.run(["make", "awx-tools"], cwd=ROOT, check=True)


@pytest.fixture
def awx() -> Iterator[StandIn]:
    with awx_stand_in.running({PROJECT_URL: ROOT}) as started:
        yield started


@pytest.fixture
def configure(awx: StandIn, tmp_path: Path) -> Configure:
    """Return a function that runs the playbook against the stand-in."""
    key = tmp_path / "id_ed25519"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nonly for the test\n-----END OPENSSH PRIVATE KEY-----\n")
    given = {
        "awx_configure_image": "registry.example.org/gpulab-ee:1",
        "awx_configure_project_url": PROJECT_URL,
        "awx_configure_ssh_key_file": str(key),
    }
    signed_in = {
        "CONTROLLER_HOST": awx.address,
        "CONTROLLER_USERNAME": awx_stand_in.USER,
        "CONTROLLER_PASSWORD": awx_stand_in.PASSWORD,
    }

    def run(*arguments: str, env: Mapping[str, str] = signed_in, **changed: str) -> Run:
        settings = [f"--extra-vars={name}={value}" for name, value in {**given, **changed}.items()]
        path = f"{TOOLS}:{os.environ['PATH']}"
        environment = {"ANSIBLE_LOCALHOST_WARNING": "false", "PATH": path, **env}
        playbook = "playbooks/awx_configure.yml"
        return play(Path("localhost,"), *settings, *arguments, playbook=playbook, env=environment, timeout=600)

    return run


def test_it_makes_what_the_files_describe_and_a_second_run_changes_nothing(awx: StandIn, configure: Configure) -> None:
    configure().expect_success()

    templates = wanted("job_templates")["awx_configure_job_templates"]
    assert awx.names("job_templates") == [one["name"] for one in templates]
    for described in templates:
        made = awx.find("job_templates", described["name"])
        assert made["playbook"] == described["playbook"]
        assert made["survey_enabled"] is ("survey" in described)
        assert awx.store.surveys.get(made["id"], {}).get("spec") == described.get("survey")
        credentials = awx.store.members("job_templates", made["id"], "credentials")
        assert credentials == [awx.find("credentials", "gpulab machines")["id"]]
    (source,) = awx.store.all("inventory_sources")
    assert source["source_project"] == awx.find("projects", "gpulab")["id"]
    for workflow in wanted("workflows")["awx_configure_workflows"]:
        nodes = {node["identifier"]: node for node in awx.store.all("workflow_job_template_nodes")}
        for node in workflow["nodes"]:
            assert isinstance(node, dict)
            made = nodes[node["identifier"]]
            assert made["unified_job_template"] == awx.find("job_templates", node["job_template"])["id"]
            following = awx.store.members("workflow_job_template_nodes", made["id"], "success_nodes")
            assert following == [nodes[name]["id"] for name in node["success_nodes"]]
    schedules = {one["name"]: one["enabled"] for one in wanted("schedules")["awx_configure_schedules"]}
    assert {one["name"]: one["enabled"] for one in awx.store.all("schedules")} == schedules
    assert awx.tokens == set(), "a token was left behind"

    changes, objects = list(awx.changes), copy.deepcopy(awx.store.objects)
    configure().expect_unchanged()
    configure(awx_configure_ssh_key_file="").expect_unchanged()
    assert awx.changes == changes
    assert awx.store.objects == objects


def test_check_mode_tells_what_would_be_made_and_changes_nothing(awx: StandIn, configure: Configure) -> None:
    run = configure("--check").expect_success()
    assert awx.changes == []
    assert run.changed_tasks() >= {"Organization", "Say what would be made once these objects are there"}
    for name in ("project: gpulab", "job template: gpulab verify", "workflow: gpulab cluster", "schedule: gpulab"):
        assert name in " ".join(run.output.split())

    configure().expect_success()
    changes = list(awx.changes)
    configure("--check").expect_unchanged()
    predicted = configure("--check", awx_configure_image="registry.example.org/gpulab-ee:2").expect_success()
    assert predicted.changed_tasks() == {"Execution environment"}
    assert awx.changes == changes


def test_what_was_changed_by_hand_is_put_right(awx: StandIn, configure: Configure) -> None:
    configure().expect_success()
    verify = awx.find("job_templates", "gpulab verify")
    awx.store.change("job_templates", verify["id"], {"playbook": "site.yml"})
    awx.store.associate(
        "job_templates", verify["id"], "credentials", {**awx.store.all("credentials")[0], "disassociate": True}
    )
    run = configure().expect_success()
    assert run.changed_tasks() == {"Job template"}
    assert awx.find("job_templates", "gpulab verify")["playbook"] == "playbooks/verify.yml"
    assert awx.store.members("job_templates", verify["id"], "credentials")


def test_a_key_is_replaced_on_request_only_and_never_shown(awx: StandIn, configure: Configure, tmp_path: Path) -> None:
    first = configure("-vvv").expect_success()
    other = tmp_path / "other"
    other.write_text("another key\n")
    configure(awx_configure_ssh_key_file=str(other)).expect_unchanged()
    assert "only for the test" in awx.find("credentials", "gpulab machines")["inputs"]["ssh_key_data"]
    second = configure("-vvv", awx_configure_ssh_key_file=str(other), awx_configure_update_secrets="true")
    assert "Credential of the machines" in second.expect_success().changed_tasks()
    assert awx.find("credentials", "gpulab machines")["inputs"]["ssh_key_data"] == "another key\n"
    for secret in ("only for the test", "another key", awx_stand_in.PASSWORD, awx_stand_in.TOKEN):
        assert secret not in first.output + second.output


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({}, ["CONTROLLER_HOST", "CONTROLLER_OAUTH_TOKEN", "CONTROLLER_PASSWORD"]),
        ({"CONTROLLER_HOST": "https://awx.example.org", "CONTROLLER_USERNAME": "admin"}, ["CONTROLLER_PASSWORD"]),
    ],
)
def test_what_is_missing_is_named_in_one_error(
    awx: StandIn, configure: Configure, env: dict[str, str], names: list[str]
) -> None:
    run = configure(env=env, awx_configure_image="")
    assert run.status != 0
    (failed,) = run.results("failed")
    for name in [*names, "awx_configure_image", "Nothing was changed"]:
        assert name in failed["message"]
    assert ("CONTROLLER_HOST" in failed["message"]) is ("CONTROLLER_HOST" in names)
    assert awx.changes == []


def test_wrong_credentials_an_absent_key_and_an_absent_server_are_told(awx: StandIn, configure: Configure) -> None:
    refused = configure(env={"CONTROLLER_HOST": awx.address, "CONTROLLER_OAUTH_TOKEN": "wrong"})
    assert "refuses the credentials (HTTP 401)" in refused.failures()
    keyless = configure(awx_configure_ssh_key_file="")
    assert "awx_configure_ssh_key_file is empty" in keyless.failures()
    silent = configure(env={"CONTROLLER_HOST": "http://127.0.0.1:1", "CONTROLLER_OAUTH_TOKEN": "any"})
    assert "Check CONTROLLER_HOST" in silent.failures()
    assert refused.status and keyless.status and silent.status
    assert awx.changes == []


def test_a_directory_that_describes_nothing_is_told(awx: StandIn, configure: Configure, tmp_path: Path) -> None:
    run = configure(awx_configure_directory=str(tmp_path))
    assert run.status != 0
    assert f"there is no {tmp_path}/settings.yml" in run.failures()
    assert awx.changes == []


def test_a_playbook_that_the_project_lacks_is_refused_by_name(
    awx: StandIn, configure: Configure, tmp_path: Path
) -> None:
    files = tmp_path / "awx"
    files.mkdir()
    for path in (ROOT / "awx").glob("*.yml"):
        (files / path.name).write_text(path.read_text().replace("playbooks/verify.yml", "playbooks/verfy.yml"))
    run = configure(awx_configure_directory=str(files))
    assert run.status != 0
    assert "Playbook not found for project" in run.output
    assert "gpulab provision" in awx.names("job_templates")
