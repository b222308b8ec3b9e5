"""awx/ matches the repository: playbooks, variables, defaults, names, versions in the image."""

from __future__ import annotations

import configparser
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gpulab.kubernetes.plugins.plugin_utils._inventory.variables import specification
from support import awx_project, awx_survey
from support.programs import run_ansible

ROOT = Path(__file__).resolve().parents[2]
# Playbooks without a template: inventory.yml is part of the others; awx_configure.yml configures AWX itself; init.yml
# writes files that a job of AWX would lose at its end; site.yml only imports playbooks/site.yml.
NO_TEMPLATE = {"playbooks/inventory.yml", "playbooks/awx_configure.yml", "playbooks/init.yml", "site.yml"}
# Permanent settings belong into the inventory; an answer is only valid for one job, and the next would undo it.
LASTING = {"nvidia_driver_version", "cluster_gpu_manager"}


def described(name: str) -> Any:
    return yaml.safe_load((ROOT / "awx" / f"{name}.yml").read_text())[f"awx_configure_{name}"]


SETTINGS = yaml.safe_load((ROOT / "awx" / "settings.yml").read_text())
TEMPLATES = described("job_templates")
QUESTIONS = [(template["name"], question) for template in TEMPLATES for question in template.get("survey", [])]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project as AWX checks it out."""
    return awx_project.checkout(ROOT, tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def options() -> Mapping[str, Mapping[str, Any]]:
    return specification()


def test_every_playbook_has_a_template_and_every_template_has_a_playbook(project: Path) -> None:
    offered = {name for name in awx_project.playbooks(project) if re.fullmatch(r"(playbooks/)?\w+\.yml", name)}
    assert {template["playbook"] for template in TEMPLATES} == offered - NO_TEMPLATE


def test_a_users_own_project_has_the_same_playbooks_from_the_collection() -> None:
    skeleton = ROOT / "examples" / "project"
    assert set(awx_project.playbooks(skeleton)) == {template["playbook"] for template in TEMPLATES}
    for path in (skeleton / "playbooks").iterdir():
        (play,) = yaml.safe_load(path.read_text())
        assert play.keys() == {"name", "ansible.builtin.import_playbook"}
        assert play["ansible.builtin.import_playbook"] == f"gpulab.kubernetes.{path.stem}"
    assert awx_project.inventories(skeleton) == ["inventories/cluster.ini"]


def test_a_users_own_project_has_the_settings_of_the_checkout_and_more_forks() -> None:
    own, checkout = configparser.ConfigParser(), configparser.ConfigParser()
    own.read(ROOT / "examples" / "project" / "ansible.cfg")
    checkout.read(ROOT / "ansible.cfg")
    given = {(section, key): value for section in own.sections() for key, value in own[section].items()}
    assert int(given.pop(("defaults", "forks"))) == SETTINGS["awx_configure_forks"] > 40
    assert all(checkout[section][key] == value for (section, key), value in given.items())
    settings = {"pipelining", "any_unparsed_is_failed", "stdout_callback", "inject_facts_as_vars"}
    assert settings <= {key for _section, key in given}


def test_missing_settings_are_listed(tmp_path: Path) -> None:
    awx = tmp_path / "ansible_collections" / "awx" / "awx"
    awx.mkdir(parents=True)
    (awx / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": "24.6.1"}}))
    paths = f"{tmp_path}:{ROOT / 'collections'}"
    more: dict[str, Any] = {"ANSIBLE_COLLECTIONS_PATH": paths, "CONTROLLER_HOST": "", "CONTROLLER_OAUTH_TOKEN": ""}
    status, output = run_ansible(tmp_path, str(ROOT / "playbooks" / "awx_configure.yml"), **more)
    listed = re.findall(r"^ +- (.*)", output, re.MULTILINE)
    assert status and [line.partition(" is ")[0] for line in listed if " is " in line] == [
        "CONTROLLER_HOST",
        "awx_configure_image",
        "awx_configure_project_url",
        "awx_configure_inventories: the entry gpulab machines needs a path inside the project "
        "(awx_configure_inventory_path",
    ]


def test_no_example_is_the_default_inventory(project: Path) -> None:
    assert SETTINGS["awx_configure_inventory_path"] == ""
    assert "inventories/three-machines.ini" in awx_project.inventories(project)


def test_project_and_inventory_are_synchronized_at_most_once_in_five_minutes() -> None:
    source = yaml.safe_load((ROOT / "awx" / "inventory.yml").read_text())["awx_configure_inventory_source"]
    project = yaml.safe_load((ROOT / "awx" / "project.yml").read_text())["awx_configure_project"]
    assert source["update_cache_timeout"] == project["scm_update_cache_timeout"] == 300


def test_the_nightly_report_fails_on_errors() -> None:
    nightly = {schedule["template"] for schedule in described("schedules") if schedule["enabled"]}
    (report,) = [template for template in TEMPLATES if template["playbook"] == "playbooks/report.yml"]
    assert report["name"] in nightly and report["extra_vars"] == {"report_fail_on": "error"}


@pytest.mark.parametrize("kind", ["job_templates", "workflows", "schedules"])
def test_names_are_in_lower_case_except_proper_names(kind: str) -> None:
    proper = r"\b(W&B Launch|GPU Operator|Kubernetes|GPUs?|Docker|CUDA|Sunday)\b"
    names = [one["name"] for one in described(kind)]
    plain = [re.sub(proper, "", name) for name in names]
    assert [name for name in plain if name != name.lower() or re.search(r"\b(gpus?|cuda|docker)\b", name)] == []


def test_names_are_unique_and_all_references_exist() -> None:
    templates = [template["name"] for template in TEMPLATES]
    workflows = [workflow["name"] for workflow in described("workflows")]
    assert len(set(templates + workflows)) == len(templates + workflows)
    identifiers = [node["identifier"] for workflow in described("workflows") for node in workflow["nodes"]]
    assert len(set(identifiers)) == len(identifiers)
    for workflow in described("workflows"):
        nodes = [node["identifier"] for node in workflow["nodes"]]
        assert {node["job_template"] for node in workflow["nodes"] if "approval" not in node} <= set(templates)
        assert {name for node in workflow["nodes"] for name in node["success_nodes"]} <= set(nodes)
        if "asks" in workflow:
            assert workflow["asks"] in {node.get("job_template") for node in workflow["nodes"]}
            assert "survey" in TEMPLATES[templates.index(workflow["asks"])]
    assert {schedule["template"] for schedule in described("schedules")} <= set(templates + workflows)


# These end pods, stop the API, reboot nodes or remove existing installations.
DESTRUCTIVE = {
    "cluster_control_plane_gap",
    "cluster_disruption_policy",
    "nvidia_driver_reboot",
    "nvidia_driver_replace_foreign",
    "reset_last_etcd_copy",
}


def test_only_workflows_with_an_approval_launch_destructive_templates() -> None:
    assert not DESTRUCTIVE & {question["variable"] for _name, question in QUESTIONS}
    destructive = {one["name"] for one in TEMPLATES if one.get("extra_vars", {}).get("cluster_approval_required")}
    assert len(destructive) == 10
    assert {one["name"] for one in TEMPLATES if DESTRUCTIVE & set(one.get("extra_vars", {}))} <= destructive
    irreversible = {f"playbooks/{name}.yml" for name in ("remove_node", "replace_node", "reset")}
    assert {
        one["name"] for one in TEMPLATES if one["playbook"] in irreversible and one.get("job_type") != "check"
    } <= destructive
    launched = []
    for workflow in described("workflows"):
        nodes = {node["identifier"]: node for node in workflow["nodes"]}
        for name, node in nodes.items():
            if node.get("job_template") in destructive:
                launched.append(node["job_template"])
                before = [other for other in nodes.values() if name in other["success_nodes"]]
                assert before and all(0 < other["approval"]["timeout"] <= 86400 for other in before)
    assert sorted(launched) == sorted(destructive)
    assert not destructive & {schedule["template"] for schedule in described("schedules")}


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda one: str(one["name"]))
def test_a_template_has_a_survey_that_awx_accepts_and_empty_answers_keep_the_inventory(
    template: dict[str, Any],
) -> None:
    if "survey" in template:
        assert list(awx_survey.problems({"name": "", "description": "", "spec": template["survey"]})) == []
    assert awx_survey.launch_variables(template.get("survey", []), {}) == {}


@pytest.mark.parametrize(("template", "question"), QUESTIONS, ids=[f"{n}: {q['variable']}" for n, q in QUESTIONS])
def test_a_survey_only_asks_for_existing_variables_without_defaults(
    template: str, question: dict[str, Any], options: Mapping[str, Mapping[str, Any]]
) -> None:
    option = options[question["variable"]]
    assert question["variable"] not in LASTING
    # AWX's survey editor requires the key for a choice; an empty default of a text would be sent.
    assert question.get("default") == (None if question["type"] in ("text", "password") else "")
    if question["type"] == "multiplechoice":
        assert question["choices"] == option.get("choices", ["false", "true"])
    else:
        assert {"integer": "int", "text": "str", "password": "str"}[question["type"]] == option["type"]
        assert "max" in question
    assert (question["type"] == "password") == option.get("no_log", False)


def test_extra_variables_of_a_template_exist(options: Mapping[str, Mapping[str, Any]]) -> None:
    for template in TEMPLATES:
        assert set(template.get("extra_vars", {})) <= set(options)


APPROVED = [one for one in described("workflows") if any("approval" in node for node in one["nodes"])]


def run_workflow(folder: Path, workflow: dict[str, Any], revisions: dict[str, str]) -> list[tuple[str, int, str]]:
    """Run the inventory check of each job as AWX does, with the artifacts of the preceding jobs, until one fails.

    ``revisions`` are the project's revisions when the job of that template starts. Approvals are granted.
    """
    (folder / "hosts.ini").write_text("[control_plane]\ncp1\n[workers]\ngpu1\n")
    (folder / "run.yml").write_text("- import_playbook: gpulab.kubernetes.inventory\n")
    templates = {template["name"]: template for template in TEMPLATES}
    nodes = {node["identifier"]: node for node in workflow["nodes"]}
    started = {name for node in nodes.values() for name in node["success_nodes"]}
    (following,) = set(nodes) - started
    artifacts: dict[str, Any] = {}
    ended = []
    while following:
        node = nodes[following]
        if "job_template" in node:
            name = node["job_template"]
            own = {"awx_job_template_name": name, "awx_project_revision": revisions.get(name, revisions[""])}
            variables = {**templates[name].get("extra_vars", {}), **artifacts, **own}
            arguments = ("-i", "hosts.ini", "run.yml", "-e", json.dumps(variables))
            shown: dict[str, Any] = {"ANSIBLE_SHOW_CUSTOM_STATS": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"}
            status, output = run_ansible(folder, *arguments, **shown)
            ended.append((name, status, " ".join(output.split())))
            if status:
                break
            artifacts.update(json.loads(re.findall(r"RUN: (\{.*\})\n", output)[0]))
        (following,) = node["success_nodes"] or [""]
    return ended


@pytest.mark.parametrize("workflow", APPROVED, ids=lambda one: str(one["name"]))
def test_an_approval_is_for_the_revision_that_was_checked(tmp_path: Path, workflow: dict[str, Any]) -> None:
    (change,) = [node["job_template"] for node in workflow["nodes"] if "allowed" in node.get("job_template", "")]
    same = run_workflow(tmp_path, workflow, {"": "1111"})
    jobs = [node["job_template"] for node in workflow["nodes"] if "job_template" in node]
    assert [(name, status) for name, status, _output in same] == [(name, 0) for name in jobs]
    assert "Revision of the project: 1111. Collection: 0." in same[0][2]
    *before, (name, status, output) = run_workflow(tmp_path, workflow, {"": "1111", change: "2222"})
    assert (name, bool(status)) == (change, True) and all(not each[1] for each in before)
    assert f"Error while starting {change}: this is not what was approved: the project was 1111 and is 2222." in output


def test_a_change_without_a_job_before_its_approval_is_refused(tmp_path: Path) -> None:
    node = {"identifier": "change", "job_template": "gpulab allowed GPU sharing", "success_nodes": []}
    for revision, words in (("1111", "no job of this workflow has recorded"), ("", "does not tell the revision")):
        ((_name, status, output),) = run_workflow(tmp_path, {"nodes": [node]}, {"": revision})
        assert status and words in output


def scalars(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from scalars(entry, str(key))
    elif isinstance(value, list):
        for entry in value:
            yield from scalars(entry, name)
    else:
        yield name, value


def test_no_file_contains_a_secret() -> None:
    for path in (ROOT / "awx").glob("*.yml"):
        assert "PRIVATE KEY" not in path.read_text()
        for name, value in scalars(yaml.safe_load(path.read_text())):
            is_file = re.fullmatch(r"\{\{ awx_configure_\w+_file \}\}", str(value))
            kept = is_file or value in ("", False)
            assert not re.search("password|token|secret|key", name) or kept, f"{path.name}: {name}"


ANSWERS = [
    ({"acceptance_timeout": 29}, "too small"),
    ({"acceptance_timeout": 3601}, "too large"),
    ({"acceptance_timeout": "300"}, "type integer"),
    ({"acceptance_timeout": ""}, "type integer"),
    ({"acceptance_timeout": True}, "type integer"),
    ({"kubeadm_repository_url": "https://example.org"}, "not allowed on launch"),
    ({"nvidia_driver_reboot": "true"}, "not allowed on launch"),
]
CHOICES = [({"gpu_isolation_policy": ""}, "one of"), ({"gpu_isolation_policy": "ask"}, "one of")]


@pytest.mark.parametrize(
    ("name", "answers", "why"),
    [("gpulab provision", *one) for one in ANSWERS] + [("gpulab isolate GPUs", *one) for one in CHOICES],
)
def test_invalid_answers_are_refused_before_a_job_starts(name: str, answers: dict[str, Any], why: str) -> None:
    survey = next(template["survey"] for template in TEMPLATES if template["name"] == name)
    with pytest.raises(ValueError, match=why):
        awx_survey.launch_variables(survey, answers)


def pins(lines: list[str]) -> dict[str, str]:
    found = (re.match(r"([\w-]+)==([\w.]+)", line) for line in lines)
    return {pin[1].lower(): pin[2] for pin in found if pin}


DEFINITIONS = [ROOT / "execution-environment.yml", ROOT / "execution-environment-rpm.yml"]


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: str(path.stem))
def test_the_execution_environment_has_the_same_versions_as_the_controller(path: Path) -> None:
    definition = yaml.safe_load(path.read_text())
    dependencies = definition["dependencies"]
    packages = [dependencies[key]["package_pip"] for key in ("ansible_core", "ansible_runner")] + dependencies["python"]
    files = [ROOT / "requirements.txt", ROOT / "requirements-wandb.txt"]
    controller = [line for file in files for line in file.read_text().splitlines() if "< " not in line]
    inside, outside = pins(packages), pins(controller)
    assert len(inside) == len(packages)
    assert inside.items() <= outside.items()
    wanted = re.findall(r"^([\w-]+)", (ROOT / "meta" / "ee-requirements.txt").read_text(), re.MULTILINE)
    assert {name.lower() for name in wanted} <= set(inside)
    # Any template's playbook may use what a module or a doc fragment requires.
    plugins = [path.read_text() for path in (ROOT / "plugins").rglob("*.py")]
    required = {
        name.lower() for text in plugins for name in re.findall(r"^ +- (\w+) \(Python package", text, re.MULTILINE)
    }
    assert {"kubernetes", "wandb"} <= required <= set(inside)
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    archive = f"{galaxy['namespace']}-{galaxy['name']}-{galaxy['version']}.tar.gz"
    assert [one["name"] for one in dependencies["galaxy"]["collections"]] == [f"/build/collection/{archive}"]
    assert {one["src"] for one in definition["additional_build_files"]} == {archive, "meta/ee-helm.py"}
    label = f"org.opencontainers.image.version={galaxy['version']}"
    assert [step.split()[-1] for step in definition["additional_build_steps"]["append_final"] if "LABEL" in step] == [
        label
    ]


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: str(path.stem))
def test_helm_in_the_execution_environment_is_the_publishers_file(path: Path) -> None:
    locked = yaml.safe_load((ROOT / "upstream.lock").read_text())
    (helm,) = [one for name, one in locked["downloads"].items() if name.startswith("helm-")]
    steps = yaml.safe_load(path.read_text())["additional_build_steps"]["append_final"]
    assert {f"ARG HELM_URL={helm['url']}", f"ARG HELM_SHA256={helm['sha256']}"} <= set(steps)


@pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: str(path.stem))
def test_ansible_builder_accepts_the_definition(path: Path, tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    for name in (path.name, "meta/ee-bindep.txt", "meta/ee-helm.py"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    (archive,) = re.findall(r"src: (.+\.tar\.gz)$", path.read_text(), re.MULTILINE)
    (tmp_path / archive).touch()
    argv = [str(Path(sys.executable).with_name("ansible-builder")), "create", f"--file={path.name}"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    assert "ee-helm.py" in (tmp_path / "context" / "Containerfile").read_text()


def test_the_collection_lists_its_requirement_files() -> None:
    """ansible-builder accepts only paths from a collection, although a definition may also contain lists."""
    needs = yaml.safe_load((ROOT / "meta" / "execution-environment.yml").read_text())["dependencies"]
    whole = yaml.safe_load((ROOT / "execution-environment.yml").read_text())["dependencies"]
    assert (ROOT / needs["python"]).is_file()
    assert needs["system"] == whole["system"]
    assert (ROOT / needs["system"]).is_file()
