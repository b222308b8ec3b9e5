"""playbooks/awx_configure.yml against a stand-in for AWX's API: created objects, a second run, check mode, errors."""

from __future__ import annotations

import base64
import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import awx_stand_in
from support.awx_stand_in import StandIn
from support.awx_stand_in_fields import KINDS
from support.hosts import ROOT
from support.play import Run, play

TOOLS = ROOT / ".cache" / "venv-awx" / "bin"
PROJECT_URL = "https://git.example.org/cluster.git"
Configure = Callable[..., Run]


def wanted(name: str) -> dict[str, list[dict[str, Any]]]:
    loaded: dict[str, list[dict[str, Any]]] = yaml.safe_load((ROOT / "awx" / f"{name}.yml").read_text())
    return loaded


def new_key(path: Path, passphrase: str = "") -> Path:
    """Create a valid private key, because AWX checks it."""
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "only for the test", "-f", str(path)]
    subprocess.run(argv, check=True)
    return path


def listed(inventories: list[dict[str, str]]) -> dict[str, str]:
    return {"awx_configure_inventories": json.dumps(inventories)}


def machine_inputs(awx: StandIn) -> dict[str, str]:
    inputs: dict[str, str] = awx.find("credentials", "gpulab machines")["inputs"]
    return inputs


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    subprocess.run(["make", "awx-tools"], cwd=ROOT, check=True)


@pytest.fixture
def awx() -> Iterator[StandIn]:
    with awx_stand_in.running({PROJECT_URL: ROOT}) as started:
        yield started


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Return a copy of awx/ without the job templates that no workflow or schedule uses, to save time."""
    directory = tmp_path / "few"
    shutil.copytree(ROOT / "awx", directory)
    workflows = wanted("workflows")["awx_configure_workflows"][:1]
    used = {one["template"] for one in wanted("schedules")["awx_configure_schedules"]}
    used.update(node["job_template"] for flow in workflows for node in flow["nodes"])
    templates = wanted("job_templates")["awx_configure_job_templates"]
    kept = [one for one in templates if one["name"] in used]
    (directory / "job_templates.yml").write_text(yaml.safe_dump({"awx_configure_job_templates": kept}))
    (directory / "workflows.yml").write_text(yaml.safe_dump({"awx_configure_workflows": workflows}))
    return directory


@pytest.fixture
def configure(awx: StandIn, few: Path, tmp_path: Path) -> Configure:
    """Return a function that runs the playbook against the stand-in with a few job templates."""
    given = {
        "awx_configure_directory": str(few),
        "awx_configure_image": "registry.example.org/gpulab-ee:1",
        "awx_configure_inventory_path": "inventories/three-machines.ini",
        "awx_configure_project_url": PROJECT_URL,
        "awx_configure_ssh_key_file": str(new_key(tmp_path / "id_ed25519")),
    }
    signed_in = {
        "CONTROLLER_HOST": awx.address,
        "CONTROLLER_USERNAME": awx_stand_in.USER,
        "CONTROLLER_PASSWORD": awx_stand_in.PASSWORD,
    }

    def run(*arguments: str, env: Mapping[str, str] = signed_in, **changed: str) -> Run:
        settings = [f"--extra-vars=@{tmp_path / 'settings.yml'}"]
        text = {name: yaml.safe_load(value) if value[:1] == "[" else value for name, value in (given | changed).items()}
        (tmp_path / "settings.yml").write_text(yaml.safe_dump(text))
        path = f"{TOOLS}:{os.environ['PATH']}"
        environment = {"ANSIBLE_LOCALHOST_WARNING": "false", "PATH": path, **env}
        playbook = "playbooks/awx_configure.yml"
        return play(Path("localhost,"), *settings, *arguments, playbook=playbook, env=environment, timeout=600)

    return run


def test_the_objects_in_the_files_are_created_and_a_second_run_changes_nothing(
    awx: StandIn, configure: Configure
) -> None:
    everything = str(ROOT / "awx")
    configure(awx_configure_directory=everything).expect_success()

    templates = wanted("job_templates")["awx_configure_job_templates"]
    assert awx.names("job_templates") == [one["name"] for one in templates]
    for described in templates:
        made = awx.find("job_templates", described["name"])
        assert made["playbook"] == described["playbook"] and made["forks"] == 50
        assert made["survey_enabled"] is ("survey" in described)
        assert awx.store.surveys.get(made["id"], {}).get("spec") == described.get("survey")
        credentials = awx.store.members("job_templates", made["id"], "credentials")
        assert credentials == [awx.find("credentials", "gpulab machines")["id"]]
        sent: dict[str, object] = described.get("extra_vars", {})
        assert awx.store.launch(made["id"], {}) == (sent, {}), (
            "something wins over the inventory though no one answered"
        )
    (source,) = awx.store.all("inventory_sources")
    assert source["source_project"] == awx.find("projects", "gpulab")["id"]
    for workflow in wanted("workflows")["awx_configure_workflows"]:
        nodes = {node["identifier"]: node for node in awx.store.all("workflow_job_template_nodes")}
        for node in workflow["nodes"]:
            assert isinstance(node, dict)
            made = nodes[node["identifier"]]
            kind = "workflow_approval_templates" if "approval" in node else "job_templates"
            name = node["approval"]["name"] if "approval" in node else node["job_template"]
            assert made["unified_job_template"] == awx.find(kind, name)["id"]
            following = awx.store.members("workflow_job_template_nodes", made["id"], "success_nodes")
            assert following == [nodes[name]["id"] for name in node["success_nodes"]]
    schedules = {one["name"]: one["enabled"] for one in wanted("schedules")["awx_configure_schedules"]}
    assert {one["name"]: one["enabled"] for one in awx.store.all("schedules")} == schedules
    assert awx.tokens == set(), "a token was left behind"

    changes, objects = list(awx.changes), copy.deepcopy(awx.store.objects)
    configure(awx_configure_directory=everything).expect_unchanged()
    configure(awx_configure_ssh_key_file="").expect_unchanged()
    assert awx.changes == changes
    assert awx.store.objects == objects


CLUSTERS = [
    {"name": "lab", "path": "inventories/three-machines.ini"},
    {"name": "rack", "description": "In the cellar", "path": "inventories/single-node.ini"},
]


def test_each_of_several_clusters_has_its_own_inventory_and_schedules(awx: StandIn, configure: Configure) -> None:
    configure(awx_configure_inventory_path="", **listed(CLUSTERS[:1])).expect_success()
    assert awx.names("inventories") == ["lab"]
    single = {schedule["name"] for schedule in awx.store.all("schedules")}
    configure("--check", **listed(CLUSTERS)).expect_success()
    assert awx.names("inventories") == ["lab"]
    configure(**listed(CLUSTERS)).expect_success()
    inventories = {one["name"]: one["id"] for one in awx.store.all("inventories")}
    assert [(one["inventory"], one["source_path"]) for one in awx.store.all("inventory_sources")] == [
        (inventories[cluster["name"]], cluster["path"]) for cluster in CLUSTERS
    ]
    scheduled = {one["name"]: one["inventory"] for one in awx.store.all("schedules")}
    assert scheduled == dict.fromkeys(single, inventories["lab"]) | {
        f"{name} (rack)": inventories["rack"] for name in single
    }
    for kind in ("job_templates", "workflow_job_templates"):
        for one in awx.store.all(kind):
            assert one["ask_inventory_on_launch"] and one["inventory"] == inventories["lab"]
    configure(**listed(CLUSTERS)).expect_unchanged()
    twice = configure(**listed([CLUSTERS[0], CLUSTERS[0]]))
    assert "awx_configure_inventories: lab occurs more than once" in twice.failures()


def test_an_awx_behind_a_gateway_needs_the_prefix_of_its_api_path(awx: StandIn, configure: Configure) -> None:
    awx.api = "/api/controller/v2/"
    signed_in = {"CONTROLLER_HOST": awx.address, "CONTROLLER_OAUTH_TOKEN": awx_stand_in.TOKEN}
    elsewhere = configure(env=signed_in)
    assert "set CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX=/api/controller/" in elsewhere.failures()
    assert "Nothing was changed" in configure(env=signed_in).failures()
    below = {"CONTROLLER_OPTIONAL_API_URLPATTERN_PREFIX": "/api/controller/"}
    configure(env=signed_in | below).expect_success()
    configure(env=signed_in | below).expect_unchanged()


def test_check_mode_predicts_new_objects_and_changes_nothing(awx: StandIn, configure: Configure) -> None:
    run = configure("--check").expect_success()
    assert awx.changes == []
    assert run.changed_tasks() >= {"Configure the organization", "Show what would be made once these objects exist"}
    for name in ("project: gpulab", "job template: gpulab verify", "workflow: gpulab cluster", "schedule: gpulab"):
        assert name in run.words
    named = re.search(r"Would be made: ([^'\"]*)", run.words)
    assert named
    assert named[1].split(", ") == sorted(named[1].split(", "), key=str.lower)

    configure().expect_success()
    changes = list(awx.changes)
    configure("--check").expect_unchanged()
    predicted = configure("--check", awx_configure_image="registry.example.org/gpulab-ee:2").expect_success()
    assert predicted.changed_tasks() == {"Configure the execution environment"}
    assert awx.changes == changes


def test_manual_changes_are_reverted(awx: StandIn, configure: Configure) -> None:
    configure().expect_success()
    verify = awx.find("job_templates", "gpulab verify")
    awx.store.change("job_templates", verify["id"], {"playbook": "site.yml"})
    awx.store.associate(
        "job_templates", verify["id"], "credentials", {**awx.store.all("credentials")[0], "disassociate": True}
    )
    run = configure().expect_success()
    assert run.changed_tasks() == {"Configure the job templates"}
    assert awx.find("job_templates", "gpulab verify")["playbook"] == "playbooks/verify.yml"
    assert awx.store.members("job_templates", verify["id"], "credentials")


def test_nodes_and_links_that_the_file_does_not_name_are_removed(awx: StandIn, configure: Configure) -> None:
    configure().expect_success()
    nodes = {node["identifier"]: node for node in awx.store.all("workflow_job_template_nodes")}
    kinds = "workflow_job_template_nodes"
    extra = awx.store.create(
        kinds, {key: "extra" if key == "identifier" else nodes["verify"][key] for key in KINDS[kinds].fields}
    )
    awx.store.associate(kinds, nodes["preflight"]["id"], "success_nodes", extra)
    awx.store.associate(kinds, nodes["preflight"]["id"], "always_nodes", nodes["provision"])
    changes = list(awx.changes)
    predicted = configure("--check").expect_success()
    assert "Remove the nodes that the file does not name" in predicted.changed_tasks()
    assert awx.changes == changes

    run = configure().expect_success()
    assert run.changed_tasks() == {"Remove the nodes that the file does not name", "Link the nodes of the workflows"}
    assert [node["identifier"] for node in awx.store.all(kinds)] == ["preflight", "provision", "verify"]
    led_to = {
        kind: awx.store.members(kinds, nodes["preflight"]["id"], kind) for kind in ("success_nodes", "always_nodes")
    }
    assert led_to == {"success_nodes": [nodes["provision"]["id"]], "always_nodes": []}
    configure().expect_unchanged()


def test_a_key_is_only_replaced_on_request(awx: StandIn, configure: Configure, tmp_path: Path) -> None:
    configure().expect_success()
    other = new_key(tmp_path / "other")
    configure(awx_configure_ssh_key_file=str(other)).expect_unchanged()
    assert machine_inputs(awx)["ssh_key_data"] == (tmp_path / "id_ed25519").read_text()
    second = configure(awx_configure_ssh_key_file=str(other), awx_configure_update_secrets="true").expect_success()
    assert "Configure the credentials" in second.changed_tasks()
    assert machine_inputs(awx)["ssh_key_data"] == other.read_text()


def test_inputs_added_to_the_credential_in_awx_are_kept(awx: StandIn, configure: Configure, tmp_path: Path) -> None:
    configure().expect_success()
    added = {"become_method": "sudo", "become_username": "root", "become_password": "added in AWX"}
    machine_inputs(awx).update(added)
    configure().expect_unchanged()
    assert machine_inputs(awx).items() >= added.items()

    renamed = configure(awx_configure_ssh_user="other", awx_configure_ssh_key_file="").expect_success()
    assert renamed.changed_tasks() == {"Configure the credentials"}
    key = (tmp_path / "id_ed25519").read_text()
    assert machine_inputs(awx) == {**added, "username": "other", "ssh_key_data": key}

    other = new_key(tmp_path / "other")
    configure(awx_configure_ssh_key_file=str(other), awx_configure_update_secrets="true").expect_success()
    assert machine_inputs(awx) == {**added, "username": "admin", "ssh_key_data": other.read_text()}


def test_credentials_for_a_private_repository_registry_and_vault_are_created_and_used(
    awx: StandIn, configure: Configure, tmp_path: Path
) -> None:
    files = {}
    for name in ("become_password", "project_password", "registry_password", "vault_password"):
        (tmp_path / name).write_text(f"S3CRET-{name}\n")
        files[f"awx_configure_{name}_file"] = str(tmp_path / name)
    users = {"awx_configure_project_user": "git", "awx_configure_registry_user": "robot"}
    run = configure("-vvv", **files, **users).expect_success()
    assert "S3CRET" not in run.output
    found = {name: awx.find("credentials", name) for name in awx.names("credentials")}
    assert {name: one["inputs"] for name, one in found.items() if name != "gpulab machines"} == {
        "gpulab repository": {"username": "git", "password": "S3CRET-project_password"},
        "gpulab registry": {
            "host": "registry.example.org",
            "username": "robot",
            "verify_ssl": True,
            "password": "S3CRET-registry_password",
        },
        "gpulab vault": {"vault_id": "", "vault_password": "S3CRET-vault_password"},
    }
    assert machine_inputs(awx)["become_password"] == "S3CRET-become_password"
    assert awx.find("projects", "gpulab")["credential"] == found["gpulab repository"]["id"]
    assert awx.find("execution_environments", "gpulab")["credential"] == found["gpulab registry"]["id"]
    template = awx.find("job_templates", "gpulab verify")["id"]
    used = [found[name]["id"] for name in ("gpulab machines", "gpulab vault")]
    assert sorted(awx.store.members("job_templates", template, "credentials")) == sorted(used)
    configure(**files, **users).expect_unchanged()
    # An existing credential does not need its files.
    configure(**users).expect_unchanged()
    missing = configure(awx_configure_vault_password_file="/gone/vault")
    assert "/gone/vault, which should contain vault_password of the credential gpulab vault" in missing.failures()


def test_a_key_with_a_passphrase_and_a_file_without_a_key_are_refused_with_a_remedy(
    awx: StandIn, configure: Configure, tmp_path: Path
) -> None:
    locked = new_key(tmp_path / "locked", "passphrase")
    run = configure("-vvv", awx_configure_ssh_key_file=str(locked))
    assert "Give a key without a passphrase" in run.failures()
    no_key = tmp_path / "text"
    no_key.write_text("this is not a key\n")
    other = configure("-vvv", awx_configure_ssh_key_file=str(no_key))
    assert f"{no_key} is not a private key" in other.failures()
    for secret in (locked.read_text().splitlines()[1], "this is not a key"):
        assert secret not in run.output + other.output


@pytest.mark.parametrize("way", ["token", "password"])
def test_no_secret_is_shown(awx: StandIn, configure: Configure, tmp_path: Path, way: str) -> None:
    by_token = {"CONTROLLER_HOST": awx.address, "CONTROLLER_OAUTH_TOKEN": awx_stand_in.TOKEN}
    signed_in = {"env": by_token} if way == "token" else {}
    output = configure("-vvv", **signed_in).expect_success().output
    basic = base64.b64encode(f"{awx_stand_in.USER}:{awx_stand_in.PASSWORD}".encode()).decode()
    key = (tmp_path / "id_ed25519").read_text().splitlines()[1]
    for secret in (key, awx_stand_in.PASSWORD, awx_stand_in.TOKEN, basic):
        assert secret not in output


def test_a_project_that_stays_pending_in_awx_is_reported_after_the_timeout(awx: StandIn, configure: Configure) -> None:
    awx.store.busy = True
    run = configure(awx_configure_project_timeout="5")
    assert run.status != 0
    assert "its synchronization is pending after 5 seconds" in run.failures()
    again = configure(awx_configure_project_timeout="5")
    assert "its synchronization is pending after 5 seconds" in again.failures()
    awx.store.busy = False
    configure().expect_success()
    assert awx.names("job_templates")


def test_a_project_that_cannot_be_checked_out_is_reported(awx: StandIn, configure: Configure) -> None:
    run = configure(awx_configure_project_url="https://git.example.org/absent.git")
    assert run.status != 0
    assert "https://git.example.org/absent.git" in run.failures()
    assert "its synchronization ended as failed" in run.failures()


@pytest.mark.parametrize("administrator", [False, None], ids=["not an administrator", "a token that may only read"])
@pytest.mark.parametrize("mode", [[], ["--check"]], ids=["run", "check mode"])
def test_missing_permissions_are_reported_before_anything_changes(
    awx: StandIn, configure: Configure, administrator: bool | None, mode: list[str]
) -> None:
    awx.administrator = administrator
    run = configure(*mode, env={"CONTROLLER_HOST": awx.address, "CONTROLLER_OAUTH_TOKEN": awx_stand_in.TOKEN})
    assert run.status != 0
    assert "may not make an organization gpulab. Nothing was changed." in run.failures()
    assert awx.changes == []


def test_an_administrator_of_the_organization_is_enough(awx: StandIn, configure: Configure) -> None:
    awx.store.create("organizations", {"name": "gpulab", "description": "by someone else"})
    awx.administrator = False
    assert "may not change the organization gpulab" in configure().failures()
    awx.administers = {awx.find("organizations", "gpulab")["id"]}
    configure().expect_success()


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({}, ["CONTROLLER_HOST", "CONTROLLER_OAUTH_TOKEN", "CONTROLLER_PASSWORD"]),
        ({"CONTROLLER_HOST": "https://awx.example.org", "CONTROLLER_USERNAME": "admin"}, ["CONTROLLER_PASSWORD"]),
    ],
)
def test_missing_settings_are_all_named_in_one_error(
    awx: StandIn, configure: Configure, env: dict[str, str], names: list[str]
) -> None:
    empty = ("awx_configure_image", "awx_configure_inventory_path", "awx_configure_project_url")
    run = configure(env=env, **dict.fromkeys(empty, ""))
    assert run.status != 0
    (failed,) = run.results("failed")
    first, *lines = failed["message"].strip().splitlines()
    assert "Nothing was changed" in first and len(lines) == len(empty) + 1 + ("CONTROLLER_HOST" in names)
    for name in [*names, *empty]:
        assert sum(name in line for line in lines) == 1
    assert ("CONTROLLER_HOST" in failed["message"]) is ("CONTROLLER_HOST" in names)
    assert awx.changes == []


def test_wrong_credentials_a_missing_key_and_an_unreachable_server_are_reported(
    awx: StandIn, configure: Configure
) -> None:
    refused = configure(env={"CONTROLLER_HOST": awx.address, "CONTROLLER_OAUTH_TOKEN": "wrong"})
    assert "refuses the credentials (HTTP 401)" in refused.failures()
    keyless = configure(awx_configure_ssh_key_file="")
    assert "awx_configure_ssh_key_file is empty" in keyless.failures()
    silent = configure(env={"CONTROLLER_HOST": "http://127.0.0.1:1", "CONTROLLER_OAUTH_TOKEN": "any"})
    assert "Check CONTROLLER_HOST" in silent.failures()
    assert refused.status and keyless.status and silent.status
    assert awx.changes == []


def test_a_directory_without_settings_is_reported(awx: StandIn, configure: Configure, tmp_path: Path) -> None:
    run = configure(awx_configure_directory=str(tmp_path / "none"))
    assert run.status != 0
    assert f"there is no {tmp_path}/none/settings.yml" in run.failures()
    assert awx.changes == []


def test_a_playbook_that_is_missing_in_the_project_is_refused_by_name(
    awx: StandIn, configure: Configure, few: Path
) -> None:
    described = few / "job_templates.yml"
    described.write_text(described.read_text().replace("playbooks/verify.yml", "playbooks/verfy.yml"))
    run = configure()
    assert run.status != 0
    assert "Playbook not found for project" in run.output
    assert "gpulab provision" in awx.names("job_templates")
