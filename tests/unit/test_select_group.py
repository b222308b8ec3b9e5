"""The group of long tests that CI selects for a change."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import select_group
from select_group import ROOT, Table

SPECS = ("tests/integration/specs", "lab/specs")
# Parts of the lab that take more than about five minutes to build (lab/parts.py). `make test` builds torch.
SLOW = {"docker", "minikube", "kicbase", "ee", "wandb", "wandb-job"}

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("make", "git"))), reason="make or git is not installed")


@pytest.fixture(scope="module")
def table() -> Table:
    return select_group.load()


@pytest.fixture(scope="module")
def files() -> list[str]:
    """Return the files of the repository, including new ones that are not committed yet."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]
    return [name for name in listed if (ROOT / name).exists()]


@pytest.mark.parametrize(
    ("path", "groups"),
    [
        ("roles/gpu_sharing/tasks/mig.yml", ["patience", "sharing"]),
        # A prefix ends at a slash.
        ("roles/cluster_api/tasks/main.yml", ["growing", "hostile", "patience", "runner"]),
        ("roles/new_role/tasks/main.yml", ["check-mode", "growing", "interrupted"]),
        # The last matching row takes precedence.
        ("plugins/module_utils/_nvidia/sharing.py", ["sharing"]),
        ("plugins/module_utils/_nvidia/xid.py", ["faults", "health", "kit"]),
        # The files of a module, in any directory.
        ("plugins/module_utils/_states/nvidia_mig.py", ["sharing"]),
        ("plugins/modules/wandb_queue.py", ["launch", "tutorial"]),
        ("plugins/filter/wandb.py", ["launch", "tutorial"]),
        ("plugins/plugin_utils/_inventory/wandb_x.py", ["first-run", "wrong-input"]),
        # The Makefile lists the tests of each group.
        ("tests/integration/test_second_run.py", ["check-mode"]),
        ("tests/integration/test_launch_agent.py", ["launch"]),
        ("tests/integration/specs/vm.yml", ["vm"]),
        ("molecule/default/molecule.yml", []),
        ("README.md", None),
        ("tests/unit/test_select_group.py", None),
    ],
)
def test_a_path_has_the_groups_of_the_last_matching_row(table: Table, path: str, groups: list[str] | None) -> None:
    assert table.groups_of(path) == groups


@pytest.mark.parametrize(
    ("changed", "candidates", "left_out"),
    [
        ([], ["a", "b", "c"], []),
        (["README.md"], ["a", "b", "c"], []),
        (["lab/x"], ["a", "b", "c"], []),
        (["roles/x", "README.md"], ["b"], []),
        # Each candidate once, in the order of the Makefile.
        (["roles/y", "roles/x", "tests/integration/test_c.py"], ["a", "b", "c"], []),
        (["roles/z", "roles/x"], ["b"], ["slow"]),
        (["tests/integration/test_slow.py"], ["a", "b", "c"], ["slow"]),
    ],
)
def test_candidates_are_all_groups_of_changed_paths_that_fit_the_time_limit_of_ci(
    changed: list[str], candidates: list[str], left_out: list[str]
) -> None:
    rows = {"lab/": [], "roles/x": ["b"], "roles/y": ["b", "a"], "roles/z": ["slow"]}
    tests = {"a": [], "slow": ["test_slow.py"], "b": [], "c": ["test_c.py"]}
    assert Table(rows, {"slow": "takes long"}, tests).candidates(changed) == (candidates, left_out)


def test_commits_select_each_candidate_equally_often() -> None:
    selected = [select_group.select(f"{number:07x}{'0' * 33}", ["a", "b", "c"]) for number in range(300)]
    assert {name: selected.count(name) for name in "abc"} == {"a": 100, "b": 100, "c": 100}


def test_every_group_in_the_table_exists_and_is_used(table: Table) -> None:
    named = {group for groups in table.rows.values() for group in groups} | table.too_long.keys()
    assert named - table.tests.keys() == set()
    # CI would never select other groups because of a changed path.
    assert table.tests.keys() - named == set()


def test_every_row_matches_a_file(table: Table, files: list[str]) -> None:
    """A row is useless if no file matches it, or if a later row matches the same files."""
    prefixes = {name: [prefix for prefix in table.rows if select_group.matches(prefix, name)] for name in files}
    used = {found[-1] for found in prefixes.values() if found}
    # The defaults are for files that will be added.
    assert table.rows.keys() - used - {"lab/", "playbooks/", "plugins/", "roles/"} == set()


def test_everything_that_a_lab_can_test_has_a_row(table: Table, files: list[str]) -> None:
    where = ("roles/", "playbooks/", "plugins/", "lab/", "molecule/", "awx/", "inventories/")
    concerned = [name for name in files if name.startswith((*where, "tests/integration/"))]
    pages = [
        path for path in (ROOT / "docs").glob("*.md") if path.name != "testing.md" and "<!-- lab" in path.read_text()
    ]
    concerned += [f"docs/{path.name}" for path in pages]
    assert pages and [name for name in concerned if table.groups_of(name) is None] == []


def test_every_role_and_playbook_has_its_own_row(table: Table) -> None:
    roles = [f"roles/{path.name}/" for path in (ROOT / "roles").iterdir()]
    books = [f"playbooks/{path.name}" for path in (ROOT / "playbooks").glob("*.yml") if path.name != "site.yml"]
    default = ("roles/", "playbooks/")
    rows = [prefix for prefix in table.rows if prefix not in default]
    assert [name for name in (*roles, *books) if not any(select_group.matches(prefix, name) for prefix in rows)] == []


def test_a_lab_specification_has_the_groups_that_use_it(table: Table) -> None:
    texts = {group: "".join(map(_text, names)) for group, names in table.tests.items()}
    found = 0
    for path in sorted(path for where in SPECS for path in (ROOT / where).glob("*.yml")):
        named = re.compile(rf'specs"? ?/ ?"?{re.escape(path.name)}"', re.IGNORECASE)
        using = {group for group, text in texts.items() if named.search(text)}
        assert using <= set(table.groups_of(str(path.relative_to(ROOT))) or []), path.name
        found += len(using)
    assert found > 20


def _text(name: str) -> str:
    return (ROOT / "tests" / "integration" / name).read_text(encoding="utf-8")


def test_ci_selects_no_group_with_a_long_build(table: Table) -> None:
    for group in table.selectable:
        calls = re.findall(r"lab_command\(\"build\"(.*)\)\n", "".join(map(_text, table.tests[group])))
        built = {name for call in calls for name in re.findall(r"[a-z-]+", call)}
        assert built & SLOW == set(), group


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    """Run git in a repository with one commit on the branch main."""

    def run(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        argv = ["git", *identity, *arguments]
        return subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    run("init", "--quiet", "--initial-branch=main")
    run("commit", "--allow-empty", "--message=first")
    return run


def commit(git: Callable[..., str], message: str) -> str:
    """Create a commit and return its hash."""
    git("commit", "--allow-empty", f"--message={message}")
    return git("rev-parse", "HEAD")


def test_a_change_starts_at_the_first_parent(git: Callable[..., str], tmp_path: Path) -> None:
    assert select_group.base(tmp_path) is None
    first = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "-b", "topic")
    commit(git, "on the branch")
    git("checkout", "--quiet", "main")
    git("merge", "--no-ff", "--message=merge", "topic")
    assert select_group.base(tmp_path) == first


def test_a_change_starts_where_its_branch_left_the_upstream_branch(git: Callable[..., str], tmp_path: Path) -> None:
    first = git("rev-parse", "HEAD")
    ahead = commit(git, "second")
    git("update-ref", "refs/remotes/origin/main", ahead)
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    # Everything on main is pushed.
    assert select_group.base(tmp_path) == first
    git("checkout", "--quiet", "-b", "topic", first)
    commit(git, "one")
    tip = commit(git, "two")
    assert select_group.base(tmp_path) == first
    # The branch is pushed, too, and CI checks out its commit.
    git("update-ref", "refs/remotes/origin/topic", tip)
    git("checkout", "--quiet", "--detach", tip)
    assert select_group.base(tmp_path) == first


def test_the_upstream_of_a_branch_takes_precedence_over_the_clones_default_branch(
    git: Callable[..., str], tmp_path: Path
) -> None:
    git("remote", "add", "origin", "https://git.example.org/x.git")
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    git("checkout", "--quiet", "-b", "topic")
    pushed = commit(git, "one")
    git("update-ref", "refs/remotes/origin/topic", pushed)
    git("branch", "--set-upstream-to=origin/topic")
    commit(git, "two")
    commit(git, "three")
    assert select_group.base(tmp_path) == pushed


def test_ci_base_takes_precedence_and_must_be_in_the_clone(git: Callable[..., str], tmp_path: Path) -> None:
    first = git("rev-parse", "HEAD")
    git("checkout", "--quiet", "-b", "topic")
    commit(git, "one")
    commit(git, "two")
    git("checkout", "--quiet", "main")
    git("branch", "--force", "release", commit(git, "later on main"))
    git("checkout", "--quiet", "topic")
    assert select_group.base(tmp_path, "release") == select_group.base(tmp_path, first) == first
    with pytest.raises(SystemExit, match=r"CI_BASE=0123456 shares no history with HEAD in this clone\. Fetch it"):
        select_group.base(tmp_path, "0123456")
