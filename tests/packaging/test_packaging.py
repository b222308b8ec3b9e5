"""The collection as users get it: built and installed, or a plain clone; used by its name from any directory."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from support import releases

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = ROOT / "inventories" / "three-machines.ini"
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


def run(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a command outside of the checkout and without its settings; return its output."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSIBLE_")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**clean, "ANSIBLE_LOCALHOST_WARNING": "false", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def tarball(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built")
    run("ansible-galaxy", "collection", "build", ROOT, "--output-path", out, cwd=out)
    return next(out.glob("gpulab-kubernetes-*.tar.gz"))


@pytest.fixture(scope="module")
def installed(tarball: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("installed")
    run("ansible-galaxy", "collection", "install", "--no-deps", "--collections-path", path, tarball, cwd=path)
    return path


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clone")
    run("git", "clone", "--quiet", ROOT, path / "kubernetes", cwd=path)
    return path / "kubernetes" / "collections"


def test_the_progress_view_works_from_an_installed_collection(installed: Path, tmp_path: Path) -> None:
    env = {"ANSIBLE_COLLECTIONS_PATH": str(installed), "ANSIBLE_STDOUT_CALLBACK": "gpulab.kubernetes.progress"}
    play = [{"name": "Do it all", "hosts": "localhost", "gather_facts": False, "tasks": [{"debug": {"msg": "well"}}]}]
    (tmp_path / "play.yml").write_text(yaml.safe_dump(play))
    printed = run("ansible-playbook", "play.yml", cwd=tmp_path, env=env)
    assert "[0:00] 1/1 Do it all\n  localhost says:\n    well\n" in printed
    assert "Where the time went" in printed
    assert "interval" in run("ansible-doc", "--type", "callback", "gpulab.kubernetes.progress", cwd=tmp_path, env=env)


def test_the_provisioning_script_works_from_an_installed_collection(installed: Path, tmp_path: Path) -> None:
    script = installed / "ansible_collections" / "gpulab" / "kubernetes" / "examples" / "provision.py"
    (tmp_path / "my.ini").write_text("[control_plane]\nlocalhost ansible_connection=local\n[workers]\nlocalhost\n")
    words = (script, "-i", "my.ini", "--playbook", "gpulab.kubernetes.inventory")
    printed = run(sys.executable, *words, cwd=tmp_path, env={"ANSIBLE_COLLECTIONS_PATH": str(installed)})
    assert "Check the inventory and its variables" in printed
    assert json.loads((tmp_path / "gpulab-runs" / "report.json").read_text())["status"] == "successful"


def test_the_page_own_machines_works_as_written_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    """Runs all commands of the page that need no machine in an empty directory, with the page's my.ini."""
    page = (ROOT / "docs" / "own-machines.md").read_text().partition("\n## The inventory\n")[2]
    env = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    scripts = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (init,) = [script for script in scripts if "init_hosts=" in script]
    (check,) = [
        script for script in scripts if script.startswith("ansible-playbook gpulab.kubernetes.inventory -i my.ini\n")
    ]
    assert "Wrote my.ini" in run("bash", "-euc", init, cwd=tmp_path, env=env)
    (typed,) = re.findall(r"^```ini\n(\[control_plane\]\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my.ini").write_text(typed)
    for folder in (tmp_path, tmp_path / "cluster"):
        printed = " ".join(run("bash", "-euc", check, cwd=folder, env=env).split())
        assert "Control plane: cp1 (192.0.2.11)" in printed
        assert "Workers (2): gpu1 (192.0.2.21), gpu2 (192.0.2.22)" in printed
    # A reader of the page has the collection, but not the files of a checkout.
    commands = [line for script in scripts for line in script.splitlines() if line.startswith(("cp ", "cat ", "cd "))]
    assert commands == []


def test_the_package_contains_the_product_and_nothing_else(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = archive.getnames()
    tops = {name.split("/")[0] for name in names}
    assert {"plugins", "roles", "examples", "playbooks", "meta", "awx", "README.md", "LICENSE", "CHANGELOG.rst"} <= tops
    assert not {"lab", "molecule", "collections", ".venv", ".cache", ".git", "lab.ini"} & tops
    assert not {"Makefile", "pyproject.toml", "requirements-dev.txt", ".gitignore"} & tops
    assert not [name for name in names if name.endswith((".ini.tmp", ".pyc", "-report.json"))]


# Guides may link these: people who change the collection or look at its tests have a checkout.
ONLY_IN_CHECKOUT = {"lab", "tests", "upstream.lock"}


def test_the_package_contains_all_files_that_its_pages_link(tarball: Path) -> None:
    with tarfile.open(tarball) as archive:
        names = set(archive.getnames())
    names |= {str(parent) for name in names for parent in Path(name).parents}
    pages = {"README.md", *(name for name in names if re.fullmatch(r"docs/[^/]+\.md|roles/[^/]+/README\.md", name))}
    missing = []
    for page in sorted(pages):
        for target in re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", (ROOT / page).read_text()):
            path = os.path.normpath(Path(page).parent / target)
            if path not in names and not (page.startswith("docs/") and path.split("/")[0] in ONLY_IN_CHECKOUT):
                missing.append(f"{page}: {target}")
    assert missing == []


PRIVATE = ("lab.ini", "my.ini", "inventory.ini", "in-use.ini", "ice.ini", "edge.ini", "my-admin.conf", "a/b-admin.conf")


def test_private_inventories_and_kubeconfigs_are_not_packaged(cloned: Path, tmp_path: Path) -> None:
    checkout = cloned.parent
    examples = run("git", "ls-files", "*.ini", cwd=checkout).split()
    (checkout / "a").mkdir()
    for name in PRIVATE:
        (checkout / name).touch()
    run("ansible-galaxy", "collection", "build", checkout, "--output-path", tmp_path, cwd=tmp_path)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        names = set(archive.getnames())
    assert names & {*PRIVATE} == set()
    assert len(examples) >= 4 and {*examples} <= names
    status = run("git", "status", "--porcelain", cwd=checkout)
    assert status == "", "git would add one of them"


def test_the_version_is_that_of_a_release_or_the_next_one() -> None:
    version, _, preview = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"].partition("-")
    assert (f"v{version}" in (ROOT / "CHANGELOG.rst").read_text()) == (preview == "")
    texts = [path.read_text() for path in (ROOT / "plugins").rglob("*.py")]
    added = {each for text in texts for each in re.findall(r"^ *version_added: ([\d.]+)$", text, re.MULTILINE)}
    assert max(added, key=lambda each: [int(part) for part in each.split(".")]) == version


def test_the_last_release_can_be_built_from_its_commit(tmp_path: Path) -> None:
    if run("git", "rev-parse", "--is-shallow-repository", cwd=ROOT).strip() == "true":
        pytest.skip("a shallow clone has no earlier commits")
    (version, *_earlier) = re.findall(r"^v(\d+\.\d+\.\d+)$", (ROOT / "CHANGELOG.rst").read_text(), re.MULTILINE)
    env = {"ANSIBLE_COLLECTIONS_PATH": str(releases.install(version, tmp_path / "release"))}
    listed = run("ansible-galaxy", "collection", "list", "gpulab.kubernetes", cwd=tmp_path, env=env)
    assert re.search(rf"^gpulab\.kubernetes +{re.escape(version)} *$", listed, re.MULTILINE)


def statically_named_roles(playbook: str) -> set[str]:
    """Return the roles whose tasks `--list-tasks` shows for a playbook: those of `roles` and of import_role."""
    text = (ROOT / "playbooks" / f"{playbook}.yml").read_text()
    listed = re.findall(r"- role: (gpulab\.kubernetes\.\w+)", text)
    # Ansible does not list the tasks of an `always` section.
    unlisted = r"(?!\n\s+tasks_from: (?:settings|kubeconfig_absent)$)"
    imported = re.findall(rf"import_role:\n\s+name: (gpulab\.kubernetes\.\w+){unlisted}$", text, re.M)
    return {name.rpartition(".")[2] for name in listed + imported}


@pytest.mark.parametrize("way", ["installed", "cloned"])
def test_every_playbook_is_found_by_its_name(way: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    env = {"ANSIBLE_COLLECTIONS_PATH": str(request.getfixturevalue(way))}
    names = [f"gpulab.kubernetes.{playbook}" for playbook in PLAYBOOKS]
    printed = run("ansible-playbook", *names, "-i", INVENTORY, "--list-tasks", cwd=tmp_path, env=env)
    listed = dict(part.split("\n", 1) for part in f"\n{printed}".split("\nplaybook: ")[1:])
    assert [Path(name).stem for name in listed] == PLAYBOOKS
    for playbook, tasks in zip(PLAYBOOKS, listed.values(), strict=True):
        assert "play #1" in tasks, playbook
        for role in statically_named_roles(playbook):
            assert f"{role} : " in tasks, f"{playbook}: {role}"


def test_every_module_has_documentation_that_can_be_shown(installed: Path, tmp_path: Path) -> None:
    modules = [f"gpulab.kubernetes.{p.stem}" for p in (ROOT / "plugins" / "modules").glob("*.py") if p.stem[0] != "_"]
    env = {"ANSIBLE_COLLECTIONS_PATH": str(installed)}
    listed = run("ansible-doc", "--list", "--type", "module", "gpulab.kubernetes", cwd=tmp_path, env=env)
    for module in modules:
        assert module in listed
    run("ansible-doc", "--type", "module", "--json", *modules, cwd=tmp_path, env=env)


@pytest.mark.parametrize("inventory", sorted(p.name for p in (ROOT / "inventories").iterdir()))
def test_an_example_inventory_can_be_parsed_and_has_both_groups(inventory: str, tmp_path: Path) -> None:
    path = ROOT / "inventories" / inventory
    printed = run("ansible-inventory", "-i", path, "--list", "--yaml", cwd=tmp_path)
    groups = yaml.safe_load(printed)["all"]["children"]
    assert len(groups["control_plane"]["hosts"]) == 1
    assert groups["workers"]["hosts"]
