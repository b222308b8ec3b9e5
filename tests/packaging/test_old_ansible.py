"""Every playbook ends with one clear error if Ansible is too old."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import ansible
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))
RUNS = [*((name,) for name in PLAYBOOKS), ("report", "-e", "report_source=old.json")]
INVENTORY = """[control_plane]
cp1 ansible_host=192.0.2.11
[workers]
gpu1 ansible_host=192.0.2.21 cluster_expected_gpus=4
"""
MINIMUM = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text())["requires_ansible"]


def run(*command: str | Path, cwd: Path, **more: str) -> tuple[int, str]:
    """Run a program without this checkout's settings; ``more`` extends the environment. Return status and output."""
    ours = ("ANSIBLE_", "PYTHON", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, **more},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def programs_of(core: str, folder: Path) -> Path:
    """Return the directory with the programs of this ansible-core, which is installed if it is missing."""
    (folder / "core.txt").write_text(f"ansible-core=={core}\n")
    environment = ROOT / ".cache" / f"venv-core-{core}"
    status, printed = run(".ci/make-venv", environment, folder / "core.txt", "3.12", "3.11", "3.10", cwd=ROOT)
    if status == 3:
        pytest.skip(f"no Python 3.10, 3.11 or 3.12 on this machine, which ansible-core {core} needs")
    assert status == 0, printed
    return environment / "bin"


def install(programs: Path, folder: Path) -> Path:
    """Build and install the collection with the ansible-galaxy of an old Ansible; return the collections path."""
    galaxy, collections = (programs / "ansible-galaxy", "collection"), folder / "collections"
    status, printed = run(*galaxy, "build", ROOT, "--output-path", folder, cwd=folder)
    assert status == 0, printed
    package = next(folder.glob("gpulab-kubernetes-*.tar.gz"))
    status, printed = run(*galaxy, "install", "--no-deps", "--collections-path", collections, package, cwd=folder)
    assert status == 0, printed
    # The collection's dependencies in this environment's versions: Ansible only needs to find their modules.
    for namespace in ("kubernetes", "community"):
        source = Path(ansible.__file__).parents[1] / "ansible_collections" / namespace
        (collections / "ansible_collections" / namespace).symlink_to(source)
    return collections


@pytest.mark.parametrize("core", ["2.16.19", "2.17.14"])
def test_every_playbook_rejects_an_old_ansible_with_one_error(core: str, tmp_path: Path) -> None:
    programs = programs_of(core, tmp_path)
    collections = install(programs, tmp_path)
    (tmp_path / "my.ini").write_text(INVENTORY)
    sentence = re.compile(
        rf"This collection needs ansible-core {re.escape(MINIMUM.removeprefix('>=').removesuffix('.0'))} or newer\. "
        rf"This is {re.escape(core)}, run by Python 3\.1[0-2]\.\d+ \({re.escape(str(programs))}/python[\d.]*\)\. "
        r"Nothing was changed\. Install Python 3\.11 or newer and install Ansible with it; see \*Quick start\* in the "
        r"README"
    )
    wrong = {}
    for name, *words in RUNS:
        command = ["-i", "my.ini", f"gpulab.kubernetes.{name}", *words]
        environment = {"ANSIBLE_COLLECTIONS_PATH": str(collections), "ANSIBLE_NOCOLOR": "1"}
        status, printed = run(programs / "ansible-playbook", *command, cwd=tmp_path, **environment)
        errors = re.findall(r"^(?:fatal: |ERROR|\[ERROR\]).*", printed, re.MULTILINE)
        noise = re.search("Could not load|Traceback", printed)
        if status == 0 or noise or len(errors) != 1 or not sentence.search(errors[0]):
            wrong[" ".join((name, *words))] = printed
    assert wrong == {}
