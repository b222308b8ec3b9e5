"""Rules for the repository itself."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from jinja2 import nodes

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = "ansible_collections.gpulab.kubernetes.plugins"


def makefile_groups() -> dict[str, list[str]]:
    """Return the test files of each group of ``make test-all``."""
    text = (ROOT / "Makefile").read_text()
    return {name: files.split() for name, files in re.findall(r"^tests_([a-z-]+) := (.*)$", text, re.MULTILINE)}


def test_every_long_test_belongs_to_exactly_one_group() -> None:
    grouped = sorted(name for files in makefile_groups().values() for name in files)
    assert grouped == sorted(path.name for path in (ROOT / "tests" / "integration").glob("test_*.py"))


def test_every_group_has_its_tests() -> None:
    groups = re.search(r"^GROUPS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    # These groups run the unit tests and molecule.
    others = {"older", "scenarios"}
    assert groups and [name for name in groups[1].split() if name not in others] == list(makefile_groups())


def test_make_knows_the_labs_of_the_long_tests_so_that_ci_can_remove_them() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests" / "integration").glob("*.py"))
    listed = re.search(r"^LABS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert listed and set(listed[1].split()) == set(re.findall(r'(?:running|reserved)\("([a-z0-9-]+)"', sources))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_has_the_targets_in_the_readme() -> None:
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("lab", "train", "test", "test-all", "lint", "bench", "lab-down", "clean"):
        assert f"make {target} " in printed


def test_shell_scripts_are_valid() -> None:
    for name in (".ci/run", ".ci/make-venv", "tests/bench/by_hand.sh"):
        text = (ROOT / name).read_text()
        shell = shlex.split(text.splitlines()[0].removeprefix("#!"))[-1]
        subprocess.run([shell, "-n", str(ROOT / name)], check=True)


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the tasks of a playbook or a task file, including those in blocks and the keywords that includes apply.

    Tasks have the `become` settings of their play.
    """
    for entry in entries:
        yield entry
        for included in (entry.get(f"ansible.builtin.include_{what}") for what in ("tasks", "role")):
            if isinstance(included, dict) and "apply" in included:
                yield {"name": entry["name"], **included["apply"]}
        for key in ("tasks", "pre_tasks", "post_tasks", "handlers", "block", "rescue", "always"):
            for task in tasks(entry.get(key) or []):
                of_play = {"become": entry["become"]} if "hosts" in entry and "become" in entry else {}
                shared = entry.get("vars", {}) if "hosts" in entry else {}
                become = {name: value for name, value in shared.items() if name == "ansible_become"}
                yield {**of_play, **task, "vars": {**become, **(task.get("vars") or {})}}


def test_tasks_delegated_to_where_the_api_is_used_never_become_root() -> None:
    """``ansible_become`` in an inventory overrides a keyword, but not a variable of the task."""
    kept, found = ("localhost", "{{ cluster_api_delegate }}"), 0
    for path in sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/**/*.yml")]):
        for task in tasks(yaml.safe_load(path.read_text()) or []):
            there = task.get("delegate_to", task.get("hosts"))
            if there in kept or task.get("become") is False:
                found += 1
                place = f"{path.relative_to(ROOT)}: {task['name']}"
                assert task.get("vars", {}).get("ansible_become") is False, place
    assert found > 50


def test_every_playbook_that_changes_the_cluster_holds_its_lease() -> None:
    # plan and report change nothing; a training is a job, and may take days. A restore has no API before it.
    others = {"plan", "report", "restore", "train"}
    texts = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "playbooks").glob("*.yml")}
    ways = ("gpulab.kubernetes.cluster_api", "tasks/ask_cluster.yml")
    asking = {name for name, text in texts.items() if any(way in text for way in ways)}
    for part in ("tasks/lease.yml", "tasks/release.yml"):
        assert {name for name, text in texts.items() if part in text} == asking - others, part


def test_no_role_reads_private_variables_of_another_role() -> None:
    roles = sorted((path.name for path in (ROOT / "roles").iterdir()), key=len, reverse=True)
    private = re.compile(rf"(?<![a-z0-9_])__?({'|'.join(roles)})_[a-z]")
    found = {
        (role, owner)
        for role in roles
        for path in (ROOT / "roles" / role).rglob("*")
        if path.suffix in (".yml", ".j2")
        for owner in private.findall(path.read_text())
        if owner != role
    }
    assert found == set()


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_few_private_variables_of_a_role_contain_logic() -> None:
    """Logic means a condition, a comparison, a loop or two filters; more of it belongs into a filter plugin."""
    found: dict[str, int] = {}
    for path in (ROOT / "roles").glob("*/vars/**/*.yml"):
        variables = yaml.safe_load(path.read_text()) or {}
        role = path.relative_to(ROOT / "roles").parts[0]
        logic = [name for name, value in variables.items() if name.startswith("_") and any(map(_logic, _texts(value)))]
        found[role] = found.get(role, 0) + len(logic)
    assert found and {role: count for role, count in found.items() if count > 10} == {}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _logic(text: str) -> bool:
    parsed = jinja2.Environment().parse(text)
    decisions = (nodes.CondExpr, nodes.Compare, nodes.And, nodes.Or, nodes.Not, nodes.For, nodes.If)
    filters = [node for node in parsed.find_all(nodes.Filter) if node.name != "default"]
    return len(filters) > 1 or any(parsed.find_all(decisions))


CODENAMES = {"12": "bookworm", "13": "trixie", "22.04": "jammy", "24.04": "noble", "26.04": "resolute"}


def test_every_role_names_the_supported_distributions() -> None:
    table = yaml.safe_load((ROOT / "roles/cluster/vars/main/versions.yml").read_text())["cluster_distributions"]
    supported = {(system, CODENAMES[release]) for system, release in (each.split() for each in table)}
    for path in ROOT.glob("roles/*/meta/main.yml"):
        platforms = yaml.safe_load(path.read_text())["galaxy_info"]["platforms"]
        assert {(each["name"], version) for each in platforms for version in each["versions"]} == supported, path


def test_filters_do_not_import_the_api_client() -> None:
    """Ansible loads all filters of a collection in every run, and importing the client takes half a second."""
    names = [f"{PLUGINS}.filter.{path.stem}" for path in (ROOT / "plugins/filter").glob("*.py")]
    load = f"[importlib.import_module(name) for name in {names!r}]"
    code = f"import importlib, sys; {load}; print('kubernetes' in sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "collections")}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_example_inventories_leave_becoming_root_to_the_playbooks() -> None:
    files = [path for path in (ROOT / "inventories").rglob("*") if path.is_file()]
    assert files and [path for path in files if "ansible_become" in path.read_text()] == []


def test_words_outside_of_the_vocabulary_are_found(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("words", ROOT / "tests" / "sanity" / "words.py")
    assert spec and spec.loader
    words = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(words)
    (tmp_path / "roles" / "r" / "tasks").mkdir(parents=True)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "roles" / "r" / "tasks" / "main.yml").write_text(
        "- name: Check the node\n  block:\n    - name: Let pods in again\n      ansible.builtin.debug:\n"
        "        name: Learn\n        msg: >-\n          The GPU is\n          not well.\n"
    )
    (tmp_path / "plugins" / "a.py").write_text('"""Nobody."""\nx = f"Error while {1}: somebody"\ny = "shall"\n')
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "guide.md").write_text(
        "# Where it stands\n\n```sh\necho anew\n```\n\n> `nobody is\n> told`\n\n"
        "See [`beside`](at/once.md), <!-- lab: told -->\nthen mend\nit at\nonce.\nWhere nothing is shared,\n"
        "the lab stands in for it.\n"
    )
    (tmp_path / "docs" / "variables.md").write_text("# Variables\n\nIt is generated by `make docs`: nobody is told.\n")
    (tmp_path / "changelogs" / "fragments").mkdir(parents=True)
    (tmp_path / "changelogs" / "fragments" / "a.yml").write_text(
        "minor_changes:\n  - >-\n    a - ``anew``, with\n    proof.\n"
    )
    assert words.findings(tmp_path) == [
        "changelogs/fragments/a.yml:4: 'proof' -> verify or verification",
        "docs/guide.md:11: 'mend' -> fix or repair",
        "docs/guide.md:12: 'at once' -> immediately or simultaneously",
        "docs/guide.md:13: '. Where' -> if or when",
        "plugins/a.py:2: 'somebody' -> the passive voice, nothing, no one",
        "roles/r/tasks/main.yml:3: 'Let pods' -> Collect, Start, Write, Uncordon",
        "roles/r/tasks/main.yml:8: 'not well' -> healthy or unhealthy",
    ]


def test_old_names_of_modules_lead_to_existing_ones() -> None:
    routing = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["plugin_routing"]["modules"]
    redirects = {old: each["redirect"].rpartition(".")[2] for old, each in routing.items() if "redirect" in each}
    assert redirects["nvidia_driver_module"] == "nvidia_kernel_module"
    for old, new in redirects.items():
        modules = {path.stem for path in (ROOT / "plugins" / "modules").glob("*.py")}
        assert new in modules and old not in modules, f"{old} leads to {new}"
