"""Runs a job template like AWX: with ansible-runner, isolated in the execution environment, on a copy of the project.

Machines are reached through ssh-agent with the key of a credential, and their host keys are not checked, as in AWX; the
inventory contains no paths of this machine. The files of a job follow awx/main/tasks/jobs.py of AWX 24.6.1.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support import awx_project, awx_survey
from support.hosts import ROOT, Inventory
from support.lab import lab_command

# Connection variables of the lab's inventory belong to the credential or to this machine.
_NOT_IN_AWX = ("ansible_user", "ansible_ssh_private_key_file", "ansible_ssh_common_args")
_REVISION = "0" * 40
_ELSEWHERE = "~/.ansible/collections:/usr/share/ansible/collections"


@dataclass(frozen=True)
class Job:
    """How a job ended."""

    status: str
    output: str
    directory: Path
    command: list[str]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def words(self) -> str:
        """The output without colors and line breaks, as that of a play."""
        return " ".join(re.sub(r"\x1b\[[0-9;]*m", "", self.output).split())

    def changed(self) -> set[tuple[str, str]]:
        """Return the (host, task) pairs that reported a change."""
        data = [event["event_data"] for event in self.events if event["event"] == "runner_on_ok"]
        return {(one["host"], one["task"]) for one in data if one["res"].get("changed")}

    def artifacts(self) -> dict[str, Any]:
        """Return the variables that AWX passes to the next jobs of a workflow."""
        (stats,) = [event["event_data"] for event in self.events if event["event"] == "playbook_on_stats"]
        return dict(stats.get("artifact_data", {}))

    def report(self) -> dict[str, Any]:
        """Return the report, which is stored next to the inventory directory and starts with its name."""
        loaded: dict[str, Any] = json.loads((self.directory / "inventory-gpulab-report.json").read_text())
        return loaded

    def expect_success(self) -> Job:
        assert self.status == "successful", f"the job ended as {self.status}\n{self.output[-6000:]}"
        return self


def templates() -> dict[str, dict[str, Any]]:
    """Return the job templates of awx/ by name."""
    listed = yaml.safe_load((ROOT / "awx" / "job_templates.yml").read_text())["awx_configure_job_templates"]
    return {template["name"]: template for template in listed}


def launch(
    name: str,
    inventory: Inventory,
    directory: Path,
    *,
    answers: Mapping[str, Any] | None = None,
    job_type: str = "",
    limit: str = "",
    project: Path = ROOT,
    after: Job | None = None,
) -> Job:
    """Run a job template in an empty directory and return the finished job.

    ``after`` is the preceding job in a workflow, ``job_type`` replaces that of the template. Raises ValueError if AWX
    would refuse the answers to the template's survey.
    """
    template = templates()[name]
    variables = {
        **template.get("extra_vars", {}),
        **awx_survey.launch_variables(template.get("survey", []), answers or {}),
        **(after.artifacts() if after else {}),
        "awx_job_template_name": name,
        "awx_project_revision": _REVISION,
    }
    shutil.rmtree(directory, ignore_errors=True)
    copied = awx_project.checkout(project, directory / "project")
    user = _write_inventory(inventory, directory / "inventory")
    options = ["--check"] if (job_type or template.get("job_type")) == "check" else []
    forks = yaml.safe_load((ROOT / "awx" / "settings.yml").read_text())["awx_configure_forks"]
    options += [
        "-u",
        user,
        f"--forks={forks}",
        *(["--diff"] if template.get("diff_mode") else []),
        *(["-l", limit] if limit else []),
    ]
    settings = {**json.loads(lab_command("ee")), "job_timeout": template["timeout"]}
    key = Path(inventory.control_plane.variables["ansible_ssh_private_key_file"]).read_text()
    written = {
        "settings": json.dumps(settings),
        "extravars": json.dumps(variables),
        "cmdline": shlex.join(options),
        "envvars": json.dumps(_environment(copied)),
        "ssh_key": key,
    }
    (directory / "env").mkdir()
    for file, content in written.items():
        (directory / "env" / file).touch(mode=0o600)
        (directory / "env" / file).write_text(content)
    argv = [Path(sys.executable).with_name("ansible-runner"), "run", directory, "--ident=job", "--quiet"]
    subprocess.run([*map(str, argv), f"--playbook={template['playbook']}"], stdin=subprocess.DEVNULL, check=False)
    return _ended(directory)


def _ended(directory: Path) -> Job:
    made = directory / "artifacts" / "job"
    events = [json.loads(path.read_text()) for path in sorted((made / "job_events").glob("*-*.json"), key=_number)]
    command = json.loads((made / "command").read_text())["command"]
    return Job((made / "status").read_text(), (made / "stdout").read_text(), directory, command, events)


def _number(event: Path) -> int:
    return int(event.name.partition("-")[0])


def _write_inventory(inventory: Inventory, directory: Path) -> str:
    """Write the inventory as a script, like AWX from its database, and return the credential's user."""
    hosts = {
        name: {key: value for key, value in host.variables.items() if key not in _NOT_IN_AWX}
        for name, host in inventory.hosts.items()
    }
    groups = {name: {"hosts": members} for name, members in inventory.groups.items() if members}
    directory.mkdir(parents=True)
    listed = json.dumps({**groups, "_meta": {"hostvars": hosts}})
    path = directory / "hosts"
    path.write_text(f"#! /usr/bin/env python3\nprint({listed!r})\n")
    path.chmod(0o700)
    return str(inventory.control_plane.variables["ansible_user"])


def _environment(project: Path) -> dict[str, str]:
    (project.parent / "cp").mkdir()
    settings = configparser.ConfigParser()
    settings.read(project / "ansible.cfg")
    own = settings.get("defaults", "collections_path", fallback="")
    collections = ["/runner/requirements_collections", *filter(None, [own]), _ELSEWHERE]
    return {
        "ANSIBLE_COLLECTIONS_PATH": ":".join(collections),
        "ANSIBLE_HOST_KEY_CHECKING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": "/runner/cp",
    }
