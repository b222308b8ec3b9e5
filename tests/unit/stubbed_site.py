# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles of this collection, run on this machine with modules that only say what they were asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
STUBBED = [
    *("apt_packages", "apt_source", "gpu_acceptance", "gpu_host_info", "gpu_plugins_info", "gpu_pods_info"),
    *("gpu_isolation", "gpu_sharing", "gpu_sharing_info", "helm_program_info", "installed_versions_info"),
    *(
        "kernel_settings",
        "swap",
        "kubeadm_certs_info",
        "managed_files",
        "managed_service",
        "node_maintenance",
        "nvidia_cdi_spec",
    ),
    *("nvidia_dkms_info", "nvidia_driver_module", "nvidia_driver_users_info", "nvidia_mig", "nvidia_smi_info"),
    *("preflight_info", "wait_for_gpu_operator", "wait_for_rollout"),
]
CORE = ["helm", "k8s", "k8s_info"]
# Answers are chosen by the module and, if there is one, by a word that is among its arguments; the first one counts.
STUB = """#!/usr/bin/python
# WANT_JSON
import json, sys
name, place = {name!r}, {place!r}
args = {{k: v for k, v in json.load(open(sys.argv[1])).items() if not k.startswith("_ansible")}}
text = json.dumps(args)
with open(place + "/calls", "a") as calls:
    calls.write(name + " " + text + "\\n")
answers = json.load(open(place + "/answers.json"))
for entry in answers:
    if entry["module"] == name and entry.get("word", "") in text:
        print(json.dumps(entry["result"]))
        break
else:
    print(json.dumps({{"changed": False}}))
"""


class Site:
    """This repository as a collection, with stubs in the place of the modules that would do something."""

    def __init__(self, place: Path) -> None:
        self.place = place
        root = place / "collections/ansible_collections"
        own = root / "gpulab/kubernetes"
        (own / "plugins/modules").mkdir(parents=True)
        for name in ("roles", "meta", "galaxy.yml", "playbooks"):
            (own / name).symlink_to(REPOSITORY / name)
        for entry in (REPOSITORY / "plugins").iterdir():
            if entry.name != "modules":
                (own / "plugins" / entry.name).symlink_to(entry)
        for name in STUBBED:
            self._stub(own / f"plugins/modules/{name}.py", name)
        core = root / "kubernetes/core/plugins/modules"
        core.mkdir(parents=True)
        for name in CORE:
            self._stub(core / f"{name}.py", name)
        (root / "kubernetes/core/galaxy.yml").write_text("namespace: kubernetes\nname: core\nversion: 9.9.9\n")
        self.answers: list[dict[str, Any]] = []

    def _stub(self, path: Path, name: str) -> None:
        path.write_text(STUB.format(name=name, place=str(self.place)))

    def answer(self, module: str, result: dict[str, Any], word: str = "") -> None:
        """What is told last is asked first."""
        self.answers.insert(0, {"module": module, "word": word, "result": result})

    def play(self, playbook: str, settings: dict[str, Any]) -> tuple[int, str]:
        """Exit status and output of a playbook on gpu1, a worker, and cp1, both this machine."""
        (self.place / "calls").unlink(missing_ok=True)
        (self.place / "answers.json").write_text(json.dumps(self.answers))
        (self.place / "site.yml").write_text(playbook)
        here = "ansible_connection=local ansible_python_interpreter={{ansible_playbook_python}}"
        (self.place / "hosts.ini").write_text(f"[workers]\ngpu1 {here}\n[control_plane]\ncp1 {here}\n")
        (self.place / "settings.json").write_text(json.dumps(settings))
        environ = {
            **os.environ,
            "ANSIBLE_CONFIG": str(self.place / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.place / "collections"),
            "ANSIBLE_LOCAL_TEMP": str(self.place / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(self.place / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
        }
        (self.place / "ansible.cfg").write_text("[defaults]\n")
        command = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", "hosts.ini", "site.yml"]
        done = subprocess.run(
            [*command, "-e", "@settings.json"],
            cwd=self.place,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        return done.returncode, done.stdout + done.stderr

    def calls(self) -> list[str]:
        """The calls as ``module`` or ``module version`` or ``module state``, without readers and writers of files."""
        path = self.place / "calls"
        told = []
        for line in path.read_text().splitlines() if path.exists() else []:
            name, _space, text = line.partition(" ")
            args = json.loads(text)
            if not name.endswith("_info") and name not in ("apt_source", "managed_files"):
                told.append(
                    f"{name} {args.get('version') or args.get('driver_version') or args.get('state') or ''}".strip()
                )
        return told

    def asked(self, module: str) -> list[dict[str, Any]]:
        """The arguments of each call of a module."""
        lines = (self.place / "calls").read_text().splitlines()
        return [json.loads(line.partition(" ")[2]) for line in lines if line.partition(" ")[0] == module]
